//! Patches other than apply.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use super::status::Status;

pub(crate) use super::strategic_merge::strategic_merge;

/// Applies a merge patch (RFC 7386).
pub(crate) fn merge(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}

/// Applies a JSON patch (RFC 6902). As in the real server, replacing a missing field adds it.
pub(crate) fn json(object: Value, patch: &Value) -> Result<Value, Status> {
    if let Some(found) = go_type(patch) {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )));
    }
    let refused = || {
        let why = "the server rejected our request due to an error in our request";
        Status::new(422, "Invalid", why).with_details(serde_json::json!({}))
    };
    let patch = patch.as_array().map_or(&[][..], Vec::as_slice);
    let mut out = object;
    for operation in patch {
        let operation: PatchOperation =
            serde_json::from_value(operation.clone()).map_err(|_| refused())?;
        if is_absence(&operation, &out) {
            continue;
        }
        let operation = lenient(operation, &out);
        json_patch::patch(&mut out, &[operation]).map_err(|_| refused())?;
    }
    Ok(out)
}

fn go_type(patch: &Value) -> Option<&'static str> {
    match patch {
        Value::Array(_) | Value::Null => None,
        Value::Object(_) => Some("object"),
        Value::String(_) => Some("string"),
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
    }
}

/// Returns true for a test of a missing value against null, which passes.
fn is_absence(operation: &PatchOperation, object: &Value) -> bool {
    match operation {
        PatchOperation::Test(test) => test.value.is_null() && test.path.resolve(object).is_err(),
        _ => false,
    }
}

fn lenient(operation: PatchOperation, object: &Value) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else {
        return operation;
    };
    let in_object = replace
        .path
        .parent()
        .and_then(|parent| parent.resolve(object).ok())
        .is_some_and(Value::is_object);
    if in_object {
        PatchOperation::Add(AddOperation {
            path: replace.path,
            value: replace.value,
        })
    } else {
        PatchOperation::Replace(replace)
    }
}
