//! Patches other than apply.

mod strategic;

use serde_json::Value;

use super::status::Status;

pub(crate) use strategic::strategic_merge;

/// RFC 7386.
pub(crate) fn merge(object: &Value, patch: &Value) -> Value {
    let mut out = object.clone();
    json_patch::merge(&mut out, patch);
    out
}

/// RFC 6902. The texts are those of the library that the real server uses, as far as they can be told.
pub(crate) fn json(object: &Value, patch: &Value) -> Result<Value, Status> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    let mut out = object.clone();
    json_patch::patch(&mut out, &operations.0).map_err(|error| {
        let path = error.path.to_string();
        let operation = operations.0.get(error.operation);
        let why = match operation {
            Some(json_patch::PatchOperation::Test(_)) => {
                format!("testing value {path} failed: test failed")
            }
            Some(json_patch::PatchOperation::Remove(_)) => format!(
                "remove operation does not apply: doc is missing path: \"{path}\": missing value"
            ),
            Some(json_patch::PatchOperation::Replace(_)) => format!(
                "replace operation does not apply: doc is missing key: {path}: missing value"
            ),
            _ => format!(
                "add operation does not apply: doc is missing path: \"{path}\": missing value"
            ),
        };
        Status::new(
            422,
            "Invalid",
            format!("the server rejected our request due to an error in our request: {why}"),
        )
        .with_details(serde_json::json!({"causes": [{"message": why}]}))
    })?;
    Ok(out)
}
