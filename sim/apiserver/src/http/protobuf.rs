//! Kubernetes' protobuf encoding of built-in kinds, as kubectl and other Go clients write it.
//!
//! `protobuf.json` has the number of each field, from the Go types of Kubernetes 1.36.3. A negative
//! number marks a pointer: its zero value is kept, while that of another field is left out. A name
//! after `=` is a message whose fields are among its owner's in JSON.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::schema::{Schema, Type};

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix before the message.
const MAGIC: &[u8] = b"k8s\0";

type Numbers = BTreeMap<String, BTreeMap<String, i64>>;

fn numbers() -> &'static Numbers {
    static NUMBERS: OnceLock<Numbers> = OnceLock::new();
    // A test reads the file.
    NUMBERS.get_or_init(|| {
        serde_json::from_str(include_str!("../kinds/protobuf.json")).unwrap_or_default()
    })
}

/// Returns true if objects of this kind can be decoded. Custom kinds have no such encoding.
pub(super) fn is_known(kind: &Kind) -> bool {
    !kind.custom && numbers().contains_key(&kind.schema.name)
}

/// Decodes the object in a body. `None` if it cannot be decoded.
pub(super) fn read(body: &[u8], schema: &Schema) -> Option<Value> {
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let mut object = Map::new();
    for (number, field) in envelope {
        match number {
            1 => {
                for (number, text) in fields(field.bytes()?)? {
                    let name = if number == 1 { "apiVersion" } else { "kind" };
                    object.insert(name.to_owned(), text.text()?);
                }
            }
            2 => message(field.bytes()?, schema, &schema.name, &mut object)?,
            _ => {}
        }
    }
    Some(Value::Object(object))
}

/// Adds the fields of a message to `object`. Unknown fields are left out.
fn message(
    bytes: &[u8],
    schema: &Schema,
    name: &str,
    object: &mut Map<String, Value>,
) -> Option<()> {
    let numbers = numbers().get(name)?;
    for (number, field) in fields(bytes)? {
        let known = numbers.iter().find(|(_, n)| n.unsigned_abs() == number);
        let Some((key, known)) = known else {
            continue;
        };
        if let Some(inline) = key.strip_prefix('=') {
            message(field.bytes()?, schema, inline, object)?;
            continue;
        }
        let Some(schema) = schema.properties.get(key) else {
            continue;
        };
        if let Some(items) = &schema.items {
            let item = value(&field, items)?;
            let list = object
                .entry(key)
                .or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut()?.push(item);
        } else if let (Some(values), true) = (&schema.additional, schema.properties.is_empty()) {
            let (entry, found) = map_entry(field.bytes()?, values)?;
            let map = object
                .entry(key)
                .or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut()?.insert(entry, found);
        } else {
            let value = value(&field, schema)?;
            if *known < 0 || !is_zero(&value) {
                object.insert(key.clone(), value);
            }
        }
    }
    Some(())
}

fn map_entry(bytes: &[u8], values: &Schema) -> Option<(String, Value)> {
    let (mut key, mut found) = (String::new(), value(&Field::Bytes(&[]), values)?);
    for (number, field) in fields(bytes)? {
        match number {
            1 => field.text()?.as_str()?.clone_into(&mut key),
            _ => found = value(&field, values)?,
        }
    }
    Some((key, found))
}

fn value(field: &Field<'_>, schema: &Schema) -> Option<Value> {
    match schema.name.as_str() {
        "v1.Time" | "v1.MicroTime" => return time(field.bytes()?),
        "resource.Quantity" => {
            return first(field.bytes()?, 1)?
                .map_or_else(|| Some(Value::from("0")), |text| text.text());
        }
        "intstr.IntOrString" => return int_or_string(field.bytes()?),
        "v1.FieldsV1" => {
            let raw = first(field.bytes()?, 1)?;
            return raw.map_or(Some(Value::Null), |raw| {
                serde_json::from_slice(raw.bytes()?).ok()
            });
        }
        _ => {}
    }
    match schema.kind {
        Type::String if schema.format == "byte" => {
            serde_json::to_value(ByteString(field.bytes()?.to_vec())).ok()
        }
        Type::String => field.text(),
        Type::Integer => Some(field.integer()?.into()),
        Type::Boolean => Some((field.integer()? != 0).into()),
        _ => {
            let mut object = Map::new();
            message(field.bytes()?, schema, &schema.name, &mut object)?;
            Some(Value::Object(object))
        }
    }
}

/// Decodes a time from seconds and nanoseconds. A message without seconds is null.
fn time(bytes: &[u8]) -> Option<Value> {
    let (mut seconds, mut nanos) = (None, 0);
    for (number, field) in fields(bytes)? {
        match number {
            1 => seconds = Some(field.integer()?),
            _ => nanos = i32::try_from(field.integer()?).ok()?,
        }
    }
    let Some(seconds) = seconds else {
        return Some(Value::Null);
    };
    Some(Timestamp::new(seconds, nanos).ok()?.to_string().into())
}

fn int_or_string(bytes: &[u8]) -> Option<Value> {
    let is_text = first(bytes, 1)?.is_some_and(|kind| kind.integer() == Some(1));
    match first(bytes, if is_text { 3 } else { 2 })? {
        Some(field) if is_text => field.text(),
        Some(field) => Some(field.integer()?.into()),
        None => Some(0.into()),
    }
}

/// Returns true for a value that Go leaves out of JSON.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// An encoded field.
enum Field<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Integer(_) => None,
        }
    }

    fn text(&self) -> Option<Value> {
        Some(std::str::from_utf8(self.bytes()?).ok()?.into())
    }

    /// Returns the integer. Negative numbers are encoded in two's complement.
    fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value.cast_signed()),
            Self::Bytes(_) => None,
        }
    }
}

/// Returns the first field with this number. The outer `None` is an invalid message.
#[expect(clippy::option_option, reason = "unreadable, or without the field")]
fn first(bytes: &[u8], number: u64) -> Option<Option<Field<'_>>> {
    let mut all = fields(bytes)?.into_iter();
    Some(all.find(|(n, _)| *n == number).map(|(_, field)| field))
}

/// Decodes the fields of a message and their numbers. Kubernetes uses integers and length-delimited
/// fields only. Returns `None` for any other type, and for a truncated message.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let field = match tag & 7 {
            0 => Field::Integer(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (field, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Field::Bytes(field)
            }
            _ => return None,
        };
        found.push((tag >> 3, field));
    }
    Some(found)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Resource;
    use crate::kinds::builtin;
    use serde_json::json;

    /// The body that kubectl 1.36.3 sends for `kubectl create job train --image=busybox`.
    const JOB: &str = "6b3873000a0f0a0862617463682f763112034a6f621280010a150a05747261696e12001a0022002a0032003800420012\
        5d325b0a100a0012001a0022002a003200380042001247122\
        40a05747261696e120762757379626f782a0042006a00720080010088010090010\
        0a201001a054e65766572320042004a0052005800600068008201008a01009a0100c201001a082000280030003a001a002200";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    fn job(body: &[u8]) -> Option<Value> {
        let (registry, _) = builtin();
        let kind = registry.get(&Resource::new("batch", "v1", "jobs")).unwrap();
        read(body, &kind.schema)
    }

    #[test]
    fn a_job_of_kubectl_is_read() {
        let container = json!({"name": "train", "image": "busybox"});
        let expected = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
            "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
        });
        let mut found = job(&bytes(JOB)).unwrap();
        let object = found.as_object_mut().unwrap();
        object.retain(|key, _| key != "status");
        assert_eq!(found, expected);
    }

    #[test]
    fn a_body_that_ends_early_is_rejected_and_nothing_panics() {
        let whole = bytes(JOB);
        for end in 5..whole.len() {
            let _ = job(&whole[..end]);
        }
        assert_eq!(job(&whole[..whole.len() - 5]), None);
        assert_eq!(job(b"{}"), None);
        assert_eq!(job(b"k8s\0\xff"), None);
    }

    #[test]
    fn each_field_of_a_built_in_schema_has_its_number() {
        fn walk(schema: &Schema, missing: &mut Vec<String>) {
            if let Some(own) = numbers().get(&schema.name) {
                let inline: Vec<&BTreeMap<String, i64>> = own
                    .keys()
                    .filter_map(|key| numbers().get(key.strip_prefix('=')?))
                    .collect();
                for key in schema.properties.keys() {
                    let known = own.contains_key(key) || inline.iter().any(|i| i.contains_key(key));
                    if !known && !["apiVersion", "kind"].contains(&key.as_str()) {
                        missing.push(format!("{}.{key}", schema.name));
                    }
                }
            }
            let below = schema.properties.values().chain(&schema.items);
            below
                .chain(&schema.additional)
                .for_each(|s| walk(s, missing));
        }
        let (registry, _) = builtin();
        let mut missing = Vec::new();
        for kind in registry.iter().filter(|kind| kind.kind != "Event") {
            walk(&kind.schema, &mut missing);
        }
        assert_eq!(missing, Vec::<String>::new());
    }
}
