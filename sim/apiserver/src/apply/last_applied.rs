//! From client-side to server-side apply with kubectl: the annotation with the configuration that
//! was applied last (Kubernetes 1.36.3, `lastappliedmanager.go` and `lastappliedupdater.go` in
//! `apimachinery/pkg/util/managedfields/internal`).

use serde_json::{Map, Value};

use super::compare::compare;
use super::malformed::malformed;
use super::managers::Managers;
use super::set::FieldSet;
use super::typed::fields_of;
use super::update::{Applied, ApplyError, Request, apply};
use crate::metadata::ANNOTATIONS_MAX;
use crate::schema::Schema;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The field manager for which the annotation counts.
const KUBECTL: &str = "kubectl";

/// Applies `config` to `live` as [`apply`] does. kubectl takes the fields that it applied on the
/// client from other owners, if nobody has changed them since. `sent` is the configuration before
/// fields were reset, for the annotation.
pub(crate) fn apply_after_client(
    live: &Value,
    config: &Value,
    sent: &Value,
    managers: Managers,
    request: &Request<'_>,
) -> Result<Applied, ApplyError> {
    if request.owner.manager != KUBECTL {
        return apply(live, config, managers, request);
    }
    let again = (!request.force && last_applied(live).is_some()).then(|| managers.clone());
    let mut applied = match (apply(live, config, managers, request), again) {
        (Err(ApplyError::Conflicts(mut conflicts)), Some(managers)) => {
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
        (other, _) => other?,
    };
    let annotations = applied
        .object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations")?.as_object_mut());
    if let Some(annotations) = annotations {
        update_annotation(annotations, sent);
    }
    Ok(applied)
}

/// Writes the configuration into the annotation, if there is one. It goes if all annotations would
/// be too large together.
fn update_annotation(annotations: &mut Map<String, Value>, sent: &Value) {
    match annotations.get_mut(ANNOTATION) {
        Some(annotation) if *annotation != "" => *annotation = written(sent).into(),
        _ => return,
    }
    let sizes = annotations
        .iter()
        .map(|(name, text)| name.len() + text.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() > ANNOTATIONS_MAX {
        annotations.remove(ANNOTATION);
    }
}

/// Returns the configuration for the annotation, without the annotation.
fn written(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let mut text = format!("{config}\n");
    // As Go writes JSON. These characters occur in its texts only.
    for special in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        if text.contains(special) {
            text = text.replace(special, &format!("\\u{:04x}", u32::from(special)));
        }
    }
    text
}

/// Returns the annotation of an object.
fn last_applied(live: &Value) -> Option<&str> {
    let annotations = live.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str()
}

/// Returns the fields that still have the values of the annotation.
fn still_applied(live: &Value, request: &Request<'_>) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(last_applied(live)?).ok()?;
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
