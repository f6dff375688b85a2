//! The variables of expressions, with the same names as in the documents that webhooks receive.

use std::sync::LazyLock;

use jiff::SignedDuration;
use kueue_check::api::Workload;
use kueue_check::{Family, Request};
use serde_json::{Value as Json, json};

use crate::cel::{Type, Value};
use crate::document::{Item, ItemWorkload};

/// The names of the variables, in the order of their values.
const NAMES: [&str; 6] = [
    "workload",
    "attempt",
    "reservedAt",
    "waited",
    "checks",
    "now",
];
/// The variables that change with time.
pub(super) const OF_TIME: [&str; 2] = ["waited", "now"];

static TYPES: LazyLock<Vec<(String, Type)>> = LazyLock::new(|| {
    let schema = schemars::schema_for!(Item);
    let schema: Json = schema.to_value();
    let item = Type::of_schema(&schema, &schema["$defs"], "item");
    let kind = |name: &str| match (name, &item) {
        ("waited", _) => Type::Duration,
        ("now", _) => Type::Timestamp,
        ("workload", Type::Object(item)) => match &item.fields["workload"] {
            Type::Object(workload) => Type::object("workload", workload.fields.clone()),
            other => other.clone(),
        },
        (_, Type::Object(item)) => item.fields[name].clone(),
        _ => Type::Dyn,
    };
    NAMES
        .iter()
        .map(|name| ((*name).to_owned(), kind(name)))
        .collect()
});

/// Returns the variables and their types.
pub(super) fn variables() -> Vec<(String, Type)> {
    TYPES.clone()
}

/// Returns the type of `podSet`, which templates may use.
pub(super) fn pod_set() -> Type {
    let workload = TYPES.iter().find(|(name, _)| name == "workload");
    match workload.map(|(_, kind)| kind) {
        Some(Type::Object(workload)) => match workload.fields.get("podSets") {
            Some(Type::List(pod_set)) => (**pod_set).clone(),
            _ => Type::Dyn,
        },
        _ => Type::Dyn,
    }
}

/// Returns the value of the variable `workload` for a Workload.
pub(crate) fn workload(workload: &Workload, family: &Family) -> Value {
    let own = TYPES.iter().find(|(name, _)| name == "workload");
    let kind = own.map_or(&Type::Dyn, |(_, kind)| kind);
    let json = serde_json::to_value(ItemWorkload::of(workload, family)).unwrap_or_default();
    Value::of_type(&json, kind)
}

/// Returns the values of the variables for `request`.
pub(super) fn values(request: &Request) -> Vec<Value> {
    let now = request.now();
    let item = Item::of(request, now);
    let waited = now
        .duration_since(item.reserved_at)
        .max(SignedDuration::ZERO);
    let item = serde_json::to_value(&item).unwrap_or_default();
    let empty = json!([]);
    TYPES
        .iter()
        .map(|(name, kind)| match name.as_str() {
            "waited" => Value::Duration(waited),
            "now" => Value::Timestamp(now),
            "checks" => Value::of_type(item.get("checks").unwrap_or(&empty), kind),
            name => Value::of_type(&item[name], kind),
        })
        .collect()
}
