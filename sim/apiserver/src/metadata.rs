//! Reading of an object's metadata.

use serde_json::Value;

/// The maximum size of all annotations of an object, in bytes.
pub(crate) const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Returns the text of a field of metadata; empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns the elements of a list in metadata; none if it is missing.
pub(crate) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    let list = object["metadata"][field].as_array();
    list.map_or(&[], Vec::as_slice)
}

/// Returns the finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = list(object, "finalizers").iter();
    list.filter_map(Value::as_str).collect()
}

/// Returns the finalizers of an object except one.
pub(crate) fn finalizers_without(object: &Value, finalizer: &str) -> Vec<String> {
    let others = finalizers(object).into_iter().filter(|f| *f != finalizer);
    others.map(str::to_owned).collect()
}

/// Returns the uids of an object's owners.
pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let list = list(object, "ownerReferences").iter();
    list.filter_map(|owner| owner["uid"].as_str())
}

/// Returns true if the object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}
