//! Conversion of events between their two groups. Both groups serve the same objects with other
//! field names. They are stored as `events.k8s.io` objects.

use serde_json::Value;

/// The fields of the core group, with those of `events.k8s.io`.
const FIELDS: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Converts a stored event to the core group.
pub(crate) fn to_core(event: &mut Value) {
    rename(event, FIELDS.map(|(core, own)| (own, core)));
    event["apiVersion"] = "v1".into();
    for field in ["reportingComponent", "reportingInstance"] {
        if event.get(field).is_none() {
            event[field] = "".into();
        }
    }
}

/// Converts an event of the core group to its stored form.
pub(crate) fn from_core(event: &mut Value) {
    rename(event, FIELDS);
    event["apiVersion"] = "events.k8s.io/v1".into();
    if let Some(map) = event.as_object_mut() {
        map.retain(|name, value| !(name.starts_with("reporting") && value == ""));
    }
}

fn rename(event: &mut Value, fields: [(&str, &str); 8]) {
    let Some(map) = event.as_object_mut() else {
        return;
    };
    for (from, to) in fields {
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}

/// Returns the path of a field of the core group in the stored form.
pub(crate) fn kept_path(path: &str) -> String {
    if path == "source" {
        return "deprecatedSource.component".to_owned();
    }
    let (first, rest) = path.split_once('.').map_or((path, ""), |(f, r)| (f, r));
    let own = FIELDS.iter().find(|(core, _)| *core == first);
    let first = own.map_or(first, |(_, own)| own);
    if rest.is_empty() {
        first.to_owned()
    } else {
        format!("{first}.{rest}")
    }
}
