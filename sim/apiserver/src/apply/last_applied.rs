//! From client-side to server-side apply with kubectl: the annotation with the configuration that
//! was applied last (Kubernetes 1.36.3, `lastappliedmanager.go` and `lastappliedupdater.go` in
//! `apimachinery/pkg/util/managedfields/internal`).

use serde_json::Value;

use super::compare::compare;
use super::malformed::malformed;
use super::managers::Managers;
use super::set::FieldSet;
use super::typed::fields_of;
use super::update::{Applied, ApplyError, Request, apply};
use crate::schema::Schema;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The field manager for which the annotation counts.
const KUBECTL: &str = "kubectl";

/// Applies `config` to `live` as [`apply`] does. kubectl takes the fields that it applied on the
/// client from other owners, if nobody has changed them since.
pub(crate) fn apply_after_client(
    live: &Value,
    config: &Value,
    managers: Managers,
    request: &Request<'_>,
) -> Result<Applied, ApplyError> {
    if request.owner.manager != KUBECTL {
        return apply(live, config, managers, request);
    }
    let mut applied = match apply(live, config, managers.clone(), request) {
        Err(ApplyError::Conflicts(mut conflicts)) => {
            if let Some(own) = still_applied(live, request) {
                for set in conflicts.values_mut() {
                    set.subtract(&own);
                }
                conflicts.retain(|_, set| !set.is_empty());
            }
            if !conflicts.is_empty() {
                return Err(ApplyError::Conflicts(conflicts));
            }
            let request = Request {
                force: true,
                ..*request
            };
            apply(live, config, managers, &request)?
        }
        other => other?,
    };
    let annotation = applied
        .object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations")?.get_mut(ANNOTATION));
    if let Some(annotation) = annotation.filter(|text| *text != "") {
        *annotation = written(config).into();
    }
    Ok(applied)
}

/// Returns the configuration for the annotation, without the annotation.
fn written(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    format!("{config}\n")
}

/// Returns the fields that still have the values of the annotation.
fn still_applied(live: &Value, request: &Request<'_>) -> Option<FieldSet> {
    let text = live.get("metadata")?.get("annotations")?.get(ANNOTATION)?;
    let last: Value = serde_json::from_str(text.as_str()?).ok()?;
    let schema: &Schema = request.schema;
    let is_other = last.get("apiVersion")?.as_str()? != request.owner.api_version;
    if is_other || malformed(&last, schema).is_some() {
        return None;
    }
    let mut fields = fields_of(&last, schema);
    let difference = compare(&last, live, schema);
    for other in [difference.modified, difference.added, difference.removed] {
        fields.subtract(&other);
    }
    Some(fields)
}
