//! Objects as metadata, and as rows of a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::accept::Form;
use crate::kinds::{Column, Kind};
use crate::status::Status;

/// Returns a successful response in the requested form. `include` is the parameter `includeObject`.
pub(super) fn shown(
    form: Form,
    kind: &Kind,
    body: Value,
    include: &str,
    now: Timestamp,
) -> Result<Value, Status> {
    let list = body.get("items").is_some_and(Value::is_array);
    match (form, list) {
        _ if body.get("kind") == Some(&json!("Status")) => Ok(body),
        (Form::Whole, _) => Ok(body),
        (Form::Metadata, false) => Ok(metadata(&body)),
        (Form::MetadataList, true) => Ok(metadata_list(&body)),
        (Form::Table, _) => Ok(table(kind, &body, include, now, true)),
        (Form::Metadata, true) => Err(not_one(kind)),
        (Form::MetadataList, false) => Err(Status::new(500, "", "content is not a list")),
    }
}

fn not_one(kind: &Kind) -> Status {
    let go_type = if kind.custom {
        "*unstructured.UnstructuredList".to_owned()
    } else {
        format!("*core.{}List", kind.kind)
    };
    let why = format!(
        "you requested PartialObjectMetadata, but the requested object is a list ({go_type})"
    );
    Status::new(406, "NotAcceptable", why)
}

/// Returns the object of a watch event. Only the first table of a watch has columns.
pub(super) fn event(
    form: Form,
    kind: &Kind,
    object: &Value,
    include: &str,
    now: Timestamp,
    first: bool,
) -> Value {
    match form {
        Form::Metadata | Form::MetadataList => metadata(object),
        Form::Table => table(kind, object, include, now, first),
        Form::Whole => object.clone(),
    }
}

fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn items(list: &Value) -> &[Value] {
    let items = list.get("items").and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}

/// Returns the metadata of a list; an empty `continue` is left out.
fn list_metadata(list: &Value) -> Value {
    let mut found = list["metadata"].clone();
    if let Some(map) = found.as_object_mut() {
        map.retain(|_, value| value != "");
    }
    found
}

fn metadata_list(list: &Value) -> Value {
    let items: Vec<Value> = items(list).iter().map(metadata).collect();
    json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata(list), "items": items})
}

fn table(kind: &Kind, body: &Value, include: &str, now: Timestamp, first: bool) -> Value {
    let (metadata, objects) = if body.get("items").is_some_and(Value::is_array) {
        (list_metadata(body), items(body))
    } else {
        let version = &body["metadata"]["resourceVersion"];
        (
            json!({"resourceVersion": version}),
            std::slice::from_ref(body),
        )
    };
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| row(kind, object, include, now))
        .collect();
    let columns = if first {
        definitions(kind)
    } else {
        Value::Null
    };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

fn definitions(kind: &Kind) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0});
    let others = kind.columns.iter().map(|column| {
        json!({"name": column.name, "type": column.kind, "format": column.format, "description": "", "priority": column.priority})
    });
    std::iter::once(name).chain(others).collect()
}

fn row(kind: &Kind, object: &Value, include: &str, now: Timestamp) -> Value {
    let mut cells = vec![object["metadata"]["name"].clone()];
    cells.extend(kind.columns.iter().map(|column| cell(column, object, now)));
    let mut row = json!({"cells": cells});
    match include {
        "None" => row["object"] = Value::Null,
        "Object" => row["object"] = object.clone(),
        _ => row["object"] = metadata(object),
    }
    row
}

fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let Some(found) = column.path.first(object).filter(|v| !v.is_null()) else {
        return Value::Null;
    };
    if column.ago {
        return age(found.as_str().unwrap_or_default(), now).into();
    }
    match column.kind.as_str() {
        "string" => match found {
            Value::String(_) => found.clone(),
            other => other.to_string().into(),
        },
        "integer" if !found.is_i64() => Value::Null,
        "boolean" if !found.is_boolean() => Value::Null,
        _ => found.clone(),
    }
}

fn age(since: &str, now: Timestamp) -> String {
    match since.parse::<Timestamp>() {
        Ok(since) => human_readable(now.duration_since(since).as_secs()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Formats a duration as `kubectl get` does: two units at most, fewer the longer it is.
fn human_readable(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    // Up to a limit (exclusive): a unit, and the smaller unit shown beside it.
    let steps = [
        (10 * MINUTE, MINUTE, "m", Some((1, "s"))),
        (3 * HOUR, MINUTE, "m", None),
        (8 * HOUR, HOUR, "h", Some((MINUTE, "m"))),
        (2 * DAY, HOUR, "h", None),
        (8 * DAY, DAY, "d", Some((HOUR, "h"))),
        (2 * YEAR, DAY, "d", None),
        (8 * YEAR, YEAR, "y", Some((DAY, "d"))),
    ];
    match seconds {
        ..-1 => return "<invalid>".to_owned(),
        -1 => return "0s".to_owned(),
        0..120 => return format!("{seconds}s"),
        _ => {}
    }
    for (limit, unit, name, smaller) in steps {
        if seconds < limit {
            let rest = smaller.map(|(size, name)| (seconds % unit / size, name));
            return match rest.filter(|(count, _)| *count > 0) {
                Some((count, small)) => format!("{}{name}{count}{small}", seconds / unit),
                None => format!("{}{name}", seconds / unit),
            };
        }
    }
    format!("{}y", seconds / YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_shows_them() {
        let rows = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (305, "5m5s"),
            (601, "10m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (80_000_000, "2y195d"),
            (400_000_000, "12y"),
        ];
        for (seconds, text) in rows {
            assert_eq!(human_readable(seconds), text);
        }
    }
}
