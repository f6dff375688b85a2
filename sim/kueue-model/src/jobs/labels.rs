//! The labels of jobs that Kueue reads.

use serde_json::Value;

/// The label with the LocalQueue.
pub(super) const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

pub(super) fn priority_class(object: &Value) -> Option<&str> {
    label(object, PRIORITY_CLASS)
}
