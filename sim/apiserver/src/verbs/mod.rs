//! The verbs of the API.

mod builtin;
mod collect;
mod create;
pub(crate) mod decode;
mod definitions;
mod delete;
mod finish;
pub(crate) mod list;
mod managed_fields;
mod meta;
mod patch;
mod prepared;
mod split;
mod terminating;
mod update;

use std::num::{IntErrorKind, ParseIntError};
use std::sync::Arc;

use serde_json::Value;

use super::Core;
use super::call::{ApiRequest, ApiResponse, Resource, Verb};
use super::kinds::Kind;
use super::status::{FieldError, Status};

pub(crate) use builtin::zero;
pub(crate) use collect::{collect, namespace_resource};
pub(crate) use definitions::{end_of_kind, remove_objects};
pub(crate) use list::{list, parse_version};
pub(crate) use terminating::is_ending;

/// A request in flight.
pub(crate) struct Context<'a> {
    pub(crate) core: &'a Core,
    pub(crate) call: &'a ApiRequest,
    pub(crate) kind: Arc<Kind>,
    pub(crate) at: jiff::Timestamp,
    /// `at` in the format of metadata.
    pub(crate) now: String,
    pub(crate) namespace: String,
    pub(crate) dry_run: bool,
}

impl<'a> Context<'a> {
    fn new(core: &'a Core, call: &'a ApiRequest, kind: Arc<Kind>) -> Self {
        let at = core.now();
        Self {
            core,
            call,
            at,
            now: seconds(at),
            namespace: if kind.namespaced {
                call.namespace.clone().unwrap_or_default()
            } else {
                String::new()
            },
            dry_run: call.parameter("dryRun") == Some("All"),
            kind,
        }
    }

    fn subresource(&self) -> &str {
        self.call.subresource.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.call.name.as_deref().unwrap_or_default()
    }

    fn key(&self) -> String {
        super::store::key(&self.namespace, self.name())
    }

    /// Returns the field manager.
    fn manager(&self) -> String {
        // Kubernetes 1.36.3, `apimachinery/pkg/util/managedfields/internal/buildmanagerinfo.go`.
        let default = || match self.call.agent.split('/').next() {
            None | Some("") => "unknown",
            Some(name) => name,
        };
        let name = self.call.parameter("fieldManager").unwrap_or_else(default);
        name.chars().take(128).collect()
    }

    /// Returns the field validation: `Strict`, `Warn` or `Ignore`.
    fn field_validation(&self) -> &str {
        self.call.parameter("fieldValidation").unwrap_or("Warn")
    }

    /// Returns the stored object in the form of this version; copied only if that differs.
    fn live(&self) -> Option<Arc<Value>> {
        let found = self.core.store().get(&self.kind.table(), &self.key())?;
        Some(self.response(&found))
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.kind.resource, self.name())
    }

    /// Returns a stored object in the form of this version, for a response.
    fn response(&self, object: &Arc<Value>) -> Arc<Value> {
        shared(&self.kind, object)
    }

    /// Returns a copy of an object in the form of this version.
    pub(crate) fn show(&self, object: &Value) -> Value {
        show(&self.kind, object)
    }
}

/// Returns a copy of an object in the form of a version of its kind.
pub(crate) fn show(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    if kind.converts(&object) {
        kind.show(&mut object);
    }
    object
}

/// Returns a stored object in the form of a version of its kind; copied only if its stored form
/// differs.
pub(crate) fn shared(kind: &Kind, object: &Arc<Value>) -> Arc<Value> {
    if kind.converts(object) {
        Arc::new(show(kind, object))
    } else {
        Arc::clone(object)
    }
}

/// Formats a time as `2026-11-21T09:00:00Z`.
pub(crate) fn seconds(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Parses an integer in the query.
pub(crate) fn integer(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|error: ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })
}

/// Processes a call.
pub(crate) fn process(core: &Core, call: &ApiRequest, view: Option<u64>) -> ApiResponse {
    match respond(core, call, view) {
        Ok(response) => response,
        Err(status) => status.into(),
    }
}

fn respond(core: &Core, call: &ApiRequest, view: Option<u64>) -> Result<ApiResponse, Status> {
    let Some(kind) = core.store().registry.get(&call.resource) else {
        return Err(no_such_resource(core, &call.resource));
    };
    check_place(&kind, call)?;
    let context = Context::new(core, call, kind);
    let mut response = perform(&context, view).unwrap_or_else(ApiResponse::from);
    if let Some(warning) = &context.kind.deprecation {
        response.warnings.insert(0, warning.clone());
    }
    Ok(response)
}

fn perform(context: &Context<'_>, view: Option<u64>) -> Result<ApiResponse, Status> {
    check_subresource(context)?;
    check_options(context)?;
    match context.call.verb {
        Verb::Get => get(context),
        Verb::List => list(context, view),
        Verb::Create => create::create(context),
        Verb::Update => update::update(context),
        Verb::Patch(patch) => patch::patch(context, patch),
        Verb::Delete => delete::delete(context),
        Verb::DeleteCollection => delete::delete_collection(context),
    }
}

/// Returns 404 for a kind that is not served.
pub(crate) fn no_such_resource(core: &Core, resource: &Resource) -> Status {
    let registry = &core.store().registry;
    if registry.is_builtin(&resource.group, &resource.version) {
        Status::no_such_path()
    } else {
        Status::no_such_page()
    }
}

/// Checks that the path, with or without a namespace, is one for this kind.
fn check_place(kind: &Kind, call: &ApiRequest) -> Result<(), Status> {
    let nowhere = || {
        if kind.custom {
            Status::no_such_page()
        } else {
            Status::no_such_path()
        }
    };
    if !kind.namespaced && call.namespace.is_some() {
        return Err(nowhere());
    }
    if kind.is("", "namespaces") && call.verb == Verb::DeleteCollection {
        return Err(method_not_allowed());
    }
    if !kind.namespaced || call.namespace.is_some() || call.verb == Verb::List {
        return Ok(());
    }
    if call.name.is_some() || kind.custom {
        return Err(nowhere());
    }
    Err(method_not_allowed())
}

fn check_subresource(context: &Context<'_>) -> Result<(), Status> {
    let kind = &context.kind;
    let verb = match context.call.verb {
        Verb::Get | Verb::Update | Verb::Patch(_) => "",
        Verb::List => "list",
        Verb::Create => "create",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
    };
    match context.subresource() {
        "" => Ok(()),
        "status" if kind.status && verb.is_empty() => Ok(()),
        "status" if kind.status && kind.custom => {
            let resource = &kind.resource;
            let why = format!(
                "{verb} is not supported on resources of kind \"{}\"",
                resource.qualified()
            );
            let details = serde_json::json!({"group": resource.group, "kind": resource.plural});
            Err(Status::new(405, "MethodNotAllowed", why).with_details(details))
        }
        "status" if kind.status => Err(method_not_allowed()),
        _ if kind.custom => Err(context.not_found()),
        _ => Err(Status::no_such_path()),
    }
}

/// Returns 405.
pub(crate) fn method_not_allowed() -> Status {
    Status::new(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )
    .with_details(serde_json::json!({}))
}

fn check_options(context: &Context<'_>) -> Result<(), Status> {
    let call = context.call;
    let options = match call.verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch(_) => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        Verb::Get | Verb::List => return Ok(()),
    };
    let is_apply = call.verb == Verb::Patch(super::call::Patch::Apply);
    let mut errors = Vec::new();
    if !is_apply && matches!(call.verb, Verb::Patch(_)) && call.parameter("force").is_some() {
        let why = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden("force", why));
    }
    match call.parameter("fieldManager") {
        None if is_apply => {
            let why = "is required for apply patch";
            errors.push(FieldError::required("fieldManager", why));
        }
        None => {}
        Some(manager) => check_manager(manager, &mut errors),
    }
    let in_query = options != "DeleteOptions" || call.body.is_null();
    let dry = call.parameter("dryRun").filter(|_| in_query);
    if let Some(other) = dry.filter(|dry| *dry != "All") {
        let given = serde_json::json!([other]);
        errors.push(FieldError::not_supported("dryRun", &given, &["All".into()]));
    }
    if !matches!(context.field_validation(), "Strict" | "Warn" | "Ignore") {
        let allowed = ["", "Ignore", "Strict", "Warn"].map(Value::from);
        let given = context.field_validation().into();
        errors.push(FieldError::not_supported(
            "fieldValidation",
            &given,
            &allowed,
        ));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", options, "", &errors));
    }
    if options == "DeleteOptions" {
        delete::check_options(context)?;
    }
    Ok(())
}

/// Checks a field manager: printable, at most 128 bytes.
fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    const MAX: usize = 128;
    if manager.len() > MAX {
        errors.push(FieldError::too_long("fieldManager", MAX as u64));
    }
    for (index, bad) in manager.char_indices().filter(|(_, c)| c.is_control()) {
        let why = format!(
            "invalid character U+{:04X} (at position {index})",
            u32::from(bad)
        );
        let shown = format!("\"{}\"", manager.replace('\u{7}', "\\a"));
        errors.push(FieldError::invalid_with_value("fieldManager", &shown, why));
    }
}

fn get(context: &Context<'_>) -> Result<ApiResponse, Status> {
    list::check_reached(context).map_err(|status| {
        if status.code == 400 {
            let why = status.message.replacen("invalid resource version: ", "", 1);
            return Status::new(500, "", why);
        }
        status
    })?;
    let object = context.live().ok_or_else(|| context.not_found())?;
    Ok(ApiResponse::new(200, object))
}
