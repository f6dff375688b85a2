//! What each verb does.

mod builtin;
mod collect;
mod create;
mod delete;
mod finish;
pub(crate) mod list;
mod meta;
pub(crate) mod names;
mod patch;
mod update;

use std::sync::Arc;

use serde_json::Value;

use super::Core;
use super::call::{Answer, Call, Verb};
use super::kinds::Kind;
use super::status::Status;

pub(crate) use collect::{collect, namespace_resource};
pub(crate) use list::{list, parse_version};

/// A request on its way.
pub(crate) struct Context<'a> {
    pub(crate) core: &'a Core,
    pub(crate) call: &'a Call,
    pub(crate) kind: Arc<Kind>,
    pub(crate) at: jiff::Timestamp,
    /// `at` as metadata has it.
    pub(crate) now: String,
    pub(crate) namespace: String,
    pub(crate) dry_run: bool,
}

impl Context<'_> {
    fn subresource(&self) -> &str {
        self.call.subresource.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.call.name.as_deref().unwrap_or_default()
    }

    fn key(&self) -> String {
        super::store::key(&self.namespace, self.name())
    }

    /// The name under which fields are owned.
    fn manager(&self) -> String {
        let default = || self.call.agent.split('/').next().unwrap_or("unknown");
        let name = self
            .call
            .parameter("fieldManager")
            .map_or_else(default, |m| m);
        name.chars().take(128).collect()
    }

    /// The object as it is stored.
    fn live(&self) -> Option<Arc<Value>> {
        self.core.store().get(&self.kind.table(), &self.key())
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.kind.resource, self.name())
    }

    /// An object as this version shows it.
    pub(crate) fn show(&self, object: &Value) -> Value {
        show(&self.kind, object)
    }
}

/// An object as a version of its kind shows it.
pub(crate) fn show(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    if kind.resource.version != kind.stored {
        object["apiVersion"] = kind.api_version().into();
    }
    object
}

/// `2026-11-21T09:00:00Z`.
pub(crate) fn seconds(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Answers a call.
pub(crate) fn answer(core: &Core, call: &Call, view: Option<u64>) -> Answer {
    match respond(core, call, view) {
        Ok(answer) => answer,
        Err(status) => status.into(),
    }
}

fn respond(core: &Core, call: &Call, view: Option<u64>) -> Result<Answer, Status> {
    let Some(kind) = core.store().registry.get(&call.resource) else {
        return Err(Status::no_such_path());
    };
    if !kind.namespaced && call.namespace.is_some() && !kind.is("", "namespaces") {
        return Err(Status::no_such_path());
    }
    let at = core.clock.now();
    let context = Context {
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
    };
    check_subresource(&context)?;
    check_options(&context)?;
    match call.verb {
        Verb::Get => get(&context, view),
        Verb::List => list(&context, view),
        Verb::Create => create::create(&context),
        Verb::Update => update::update(&context),
        Verb::Patch(patch) => patch::patch(&context, patch),
        Verb::Delete => delete::delete(&context),
        Verb::DeleteCollection => delete::delete_collection(&context),
    }
}

fn check_subresource(context: &Context<'_>) -> Result<(), Status> {
    let reads_or_changes = matches!(context.call.verb, Verb::Get | Verb::Update | Verb::Patch(_));
    match context.subresource() {
        "" => Ok(()),
        "status" if context.kind.status && reads_or_changes => Ok(()),
        "status" if context.kind.status => Err(method_not_allowed()),
        _ => Err(Status::no_such_path()),
    }
}

/// 405.
pub(crate) fn method_not_allowed() -> Status {
    Status::new(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )
    .with_details(serde_json::json!({}))
}

fn check_options(context: &Context<'_>) -> Result<(), Status> {
    use super::status::FieldError;
    let call = context.call;
    let options = match call.verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch(_) => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        Verb::Get | Verb::List => return Ok(()),
    };
    if let Some(other) = call.parameter("dryRun").filter(|d| *d != "All") {
        let error =
            FieldError::not_supported("dryRun", &serde_json::json!([other]), &["All".into()]);
        return Err(Status::invalid("meta.k8s.io", options, "", &[error]));
    }
    let is_apply = call.verb == Verb::Patch(super::call::Patch::Apply);
    let mut errors = Vec::new();
    if is_apply && call.parameter("fieldManager").is_none() {
        errors.push(FieldError::required(
            "fieldManager",
            "is required for apply patch",
        ));
    }
    if !is_apply && matches!(call.verb, Verb::Patch(_)) && call.parameter("force").is_some() {
        errors.push(FieldError::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", options, "", &errors))
    }
}

fn get(context: &Context<'_>, view: Option<u64>) -> Result<Answer, Status> {
    let object = match view {
        None => context.live(),
        Some(version) => {
            let (table, key) = (context.kind.table(), context.key());
            let found = context.core.store().list_at(&table, &key, version);
            found.into_iter().find(|(k, _)| *k == key).map(|(_, o)| o)
        }
    };
    let object = object.ok_or_else(|| context.not_found())?;
    Ok(Answer {
        code: 200,
        body: context.show(&object),
    })
}
