//! Objects of earlier releases on an API server whose definitions are upgraded and downgraded.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kueue_check_apiserver::{ApiServer, system_time};
use kueue_check_testenv::Cluster;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{Frozen, Promise, PromiseError};

/// The field that the later definition has and the present one does not.
const LATER: &str = "laterField";
/// The maximum time until an API server serves a changed definition.
const DEFINITION_TIMEOUT: Duration = Duration::from_secs(60);

/// An API server.
pub enum Server {
    /// The simulated API server.
    Simulated(ApiServer),
    /// A real API server.
    Real(Box<Cluster>),
}

impl Server {
    /// Creates the simulated API server, without any definition.
    pub fn simulated() -> Self {
        Self::Simulated(ApiServer::new(system_time()))
    }

    /// Starts a real API server. Returns `None` where tests may skip it.
    pub async fn real() -> Option<Self> {
        let what = "upgrade and downgrade of definitions on a real API server";
        let cluster = Cluster::start_or_skip(what).await?;
        Some(Self::Real(Box::new(cluster)))
    }

    fn client(&self) -> Result<Client, PromiseError> {
        match self {
            Self::Simulated(server) => Ok(server.client()),
            Self::Real(cluster) => {
                let client = cluster.client();
                client.map_err(|error| PromiseError::Install(error.to_string()))
            }
        }
    }

    async fn install(&self, definitions: &[CustomResourceDefinition]) -> Result<(), PromiseError> {
        match self {
            Self::Simulated(server) => {
                server.install(definitions.iter().map(without_times).collect());
                Ok(())
            }
            Self::Real(cluster) => {
                let installed = cluster.install(&self.client()?, definitions.to_vec()).await;
                installed.map_err(|error| PromiseError::Install(error.to_string()))
            }
        }
    }
}

impl Promise {
    /// Takes the objects of each released state through the definitions of their release, the
    /// present ones, later ones with one more field, and back. After each step the administrator
    /// and the check read an object and apply it again, and it must be unchanged.
    ///
    /// # Errors
    /// The first object that is rejected or has changed.
    pub async fn keep(&self, server: &Server) -> Result<(), PromiseError> {
        for frozen in &self.frozen {
            self.keep_one(server, frozen).await?;
        }
        Ok(())
    }

    async fn keep_one(&self, server: &Server, frozen: &Frozen) -> Result<(), PromiseError> {
        let client = server.client()?;
        server.install(&frozen.definitions).await?;
        let mut written = Vec::new();
        for object in &frozen.objects {
            apply(&client, object).await?;
            written.push(content(&read(&client, object).await?));
        }
        for (object, written) in frozen.objects.iter().zip(&written) {
            // Stored objects include defaults.
            if !is_part(&content(object), written) {
                return Err(lost("written", &content(object), written));
            }
        }
        let present = self.present();
        let later = present.iter().map(later).collect::<Vec<_>>();
        let steps = [
            ("upgraded", present.as_slice()),
            ("downgraded", frozen.definitions.as_slice()),
            ("upgraded again", present.as_slice()),
            ("upgraded to later definitions", later.as_slice()),
            ("downgraded from later definitions", present.as_slice()),
            ("upgraded to later definitions again", later.as_slice()),
        ];
        for (step, definitions) in steps {
            server.install(definitions).await?;
            let has_later = step.contains("to later");
            served(&client, &frozen.objects, has_later).await?;
            for (object, written) in frozen.objects.iter().zip(&written) {
                compare(step, written, &content(&read(&client, object).await?))?;
                if has_later {
                    // A downgrade may remove the new field, and nothing else.
                    set_later(&client, object).await?;
                }
                apply(&client, object).await?;
                compare(step, written, &content(&read(&client, object).await?))?;
                self.rewrite(step, &client, object).await?;
                compare(step, written, &content(&read(&client, object).await?))?;
            }
        }
        Ok(())
    }

    /// Reads an object as the check does, and replaces it with the result.
    async fn rewrite(
        &self,
        step: &str,
        client: &Client,
        object: &Value,
    ) -> Result<(), PromiseError> {
        let stored = read(client, object).await?;
        let Some(kind) = self.kind(object["kind"].as_str().unwrap_or_default()) else {
            return Ok(());
        };
        let again = (kind.read_and_write)(stored.clone());
        let again = again.map_err(|error| PromiseError::Unreadable {
            step: step.to_owned(),
            object: name(object),
            problem: error.to_string(),
        })?;
        let whole = Promise::of_check(&stored, again);
        compare(step, &content(&stored), &content(&whole))?;
        let replaced = api(client, object)
            .replace(
                object_name(object),
                &PostParams::default(),
                &dynamic(&whole)?,
            )
            .await;
        replaced
            .map(drop)
            .map_err(|error| refused(step, object, error))
    }

    /// Returns the object that the check writes, with the metadata that the API server sets.
    fn of_check(stored: &Value, mut written: Value) -> Value {
        written["metadata"] = stored["metadata"].clone();
        // A check has no later fields in its types, and does not write a spec.
        if let Some(later) = stored["spec"].get(LATER) {
            written["spec"][LATER] = later.clone();
        }
        written
    }
}

/// Returns spec and status of an object, without fields that the API server sets and without the
/// later field.
fn content(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove(LATER);
    }
    json!({"kind": object["kind"], "spec": spec, "status": object["status"]})
}

/// Returns the definition without the rules about points in time. The simulated API server does not
/// implement these (`kueue_check_schema`) and would reject the fields that they are about.
fn without_times(definition: &CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = crate::value(definition).unwrap_or_default();
    drop_rules(&mut value);
    serde_json::from_value(value).unwrap_or_else(|_| definition.clone())
}

fn drop_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(rules)) = fields.get_mut("x-kubernetes-validations") {
                let of_time = |rule: &Value| rule["rule"].to_string().contains("timestamp(");
                rules.retain(|rule| !of_time(rule));
            }
            fields.values_mut().for_each(drop_rules);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_rules),
        _ => {}
    }
}

/// Returns the definition with one more field.
fn later(definition: &CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = crate::value(definition).unwrap_or_default();
    let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    if let Some(fields) = value.pointer_mut(pointer) {
        fields[LATER] = json!({"type": "string"});
    }
    serde_json::from_value(value).unwrap_or_else(|_| definition.clone())
}

/// Waits until the API server serves the definitions with the later field, or those without it.
async fn served(client: &Client, objects: &[Value], has_later: bool) -> Result<(), PromiseError> {
    for object in objects {
        let began = Instant::now();
        loop {
            let shown = try_later(client, object, true).await?;
            if shown["spec"].get(LATER).is_some() == has_later {
                break;
            }
            if began.elapsed() > DEFINITION_TIMEOUT {
                let problem = format!("{}: the definition is not served", name(object));
                return Err(PromiseError::Install(problem));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

async fn set_later(client: &Client, object: &Value) -> Result<(), PromiseError> {
    // An approval is immutable.
    if object["kind"] == "Approval" {
        return Ok(());
    }
    try_later(client, object, false).await.map(drop)
}

/// Writes the object with the later field. Returns it as the API server accepts it.
async fn try_later(client: &Client, object: &Value, dry: bool) -> Result<Value, PromiseError> {
    let mut probe = object.clone();
    probe["spec"][LATER] = json!("later");
    if let Some(probe) = probe.as_object_mut() {
        probe.remove("status");
    }
    if dry {
        // A probe instead of the object, whose changes may violate rules.
        probe["metadata"]["name"] = json!(format!("probe-{}", object_name(object)));
    }
    let applied = if dry {
        // The API server prunes an unknown field in a create, and rejects it in an apply.
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        api(client, object)
            .create(&parameters, &dynamic(&probe)?)
            .await
    } else {
        let owner = PatchParams::apply("later").force();
        api(client, object)
            .patch(object_name(&probe), &owner, &Patch::Apply(&probe))
            .await
    };
    let applied = applied.map_err(|error| refused("with a later field", object, error))?;
    Ok(serde_json::to_value(applied).unwrap_or_default())
}

/// Applies spec and status, each with its field manager.
async fn apply(client: &Client, object: &Value) -> Result<(), PromiseError> {
    let api = api(client, object);
    let mut spec = object.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("status");
    }
    let owner = PatchParams::apply("administrator").force();
    let applied = api
        .patch(object_name(object), &owner, &Patch::Apply(&spec))
        .await;
    applied.map_err(|error| refused("applied", object, error))?;
    if object["status"].is_null() {
        return Ok(());
    }
    let status = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": object_name(object)}, "status": object["status"],
    });
    let owner = PatchParams::apply("check").force();
    let applied = api
        .patch_status(object_name(object), &owner, &Patch::Apply(&status))
        .await;
    applied
        .map(drop)
        .map_err(|error| refused("status applied", object, error))
}

async fn read(client: &Client, object: &Value) -> Result<Value, PromiseError> {
    let read = api(client, object).get(object_name(object)).await;
    let read = read.map_err(|error| refused("read", object, error))?;
    Ok(serde_json::to_value(read).unwrap_or_default())
}

fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: kind.to_lowercase() + "s",
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn dynamic(object: &Value) -> Result<DynamicObject, PromiseError> {
    serde_json::from_value(object.clone())
        .map_err(|error| PromiseError::Install(format!("{}: {error}", name(object))))
}

fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn name(object: &Value) -> String {
    format!(
        "{} {}",
        object["kind"].as_str().unwrap_or_default(),
        object_name(object)
    )
}

fn refused(what: &str, object: &Value, error: kube::Error) -> PromiseError {
    PromiseError::Refused {
        what: format!("{what}: {}", name(object)),
        error: Box::new(error),
    }
}

fn compare(step: &str, was: &Value, is: &Value) -> Result<(), PromiseError> {
    if is_part(was, is) && is_part(is, was) {
        return Ok(());
    }
    Err(lost(step, was, is))
}

fn lost(step: &str, was: &Value, is: &Value) -> PromiseError {
    PromiseError::Lost {
        step: step.to_owned(),
        object: was["kind"].as_str().unwrap_or_default().to_owned(),
        was: Box::new(was.clone()),
        is: Box::new(is.clone()),
    }
}

/// Returns true if `whole` contains all of `part`. Empty values do not count: a list without
/// elements is the same as none.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Null, _) => true,
        (Value::Object(part), whole) => part
            .iter()
            .all(|(key, part)| is_part(part, whole.get(key).unwrap_or(&Value::Null))),
        (Value::Array(part), whole) => {
            let whole = whole.as_array().map_or(&[][..], Vec::as_slice);
            part.len() == whole.len()
                && part
                    .iter()
                    .zip(whole)
                    .all(|(part, whole)| is_part(part, whole))
        }
        (part, whole) => part == whole,
    }
}
