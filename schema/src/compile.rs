//! The conversion of JSON to a [`Schema`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Bound, Limits, ListKind, Pattern, Schema, Type};
use crate::rules::rules;

/// Schemas that refer to each other by name (`$ref`), as those of the built-in kinds do. A schema
/// within a circle of references accepts any value.
///
/// ```
/// use kueue_check_schema::Definitions;
/// use serde_json::json;
///
/// let document = json!({"components": {"schemas": {
///     "io.k8s.api.core.v1.PodSpec": {"type": "object", "properties": {
///         "tolerations": {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Toleration"}},
///     }},
///     "io.k8s.api.core.v1.Toleration": {"type": "object", "properties": {"key": {"type": "string"}}},
/// }}});
/// let schemas = document["components"]["schemas"].as_object().expect("it is an object");
/// let pod = Definitions::new(schemas).get("io.k8s.api.core.v1.PodSpec");
/// // The reference is followed; the Go type is known, which some messages name.
/// assert_eq!(pod.properties["tolerations"].item().name, "v1.Toleration");
/// ```
pub struct Definitions<'a> {
    sources: &'a serde_json::Map<String, Value>,
    done: BTreeMap<String, Arc<Schema>>,
    /// The schemas that are being compiled, to detect circles.
    begun: BTreeSet<String>,
}

impl<'a> Definitions<'a> {
    /// Makes the definitions of an OpenAPI document (`components.schemas`). Each is compiled when
    /// it is first needed.
    pub fn new(sources: &'a serde_json::Map<String, Value>) -> Self {
        Self {
            sources,
            done: BTreeMap::new(),
            begun: BTreeSet::new(),
        }
    }

    /// Returns the schema of this name, or one that accepts any value if there is none.
    pub fn get(&mut self, name: &str) -> Arc<Schema> {
        if let Some(done) = self.done.get(name) {
            return Arc::clone(done);
        }
        let Some(source) = self.sources.get(name) else {
            return Schema::any();
        };
        if !self.begun.insert(name.to_owned()) {
            return Schema::any();
        }
        let mut schema = compile_with(source, Some(self));
        self.begun.remove(name);
        if let Some(new) = Arc::get_mut(&mut schema) {
            new.name = go_name(name);
        }
        self.done.insert(name.to_owned(), Arc::clone(&schema));
        schema
    }
}

/// The prefix of the name in a reference, unless it was left out.
const REFERENCE: &str = "#/components/schemas/";

/// Returns the Go type of a published name: `v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`.
fn go_name(name: &str) -> String {
    let mut parts = name.rsplit('.');
    let (kind, package) = (parts.next(), parts.next());
    [package, kind]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(".")
}

/// Compiles the `openAPIV3Schema` of a definition, or a part of it: a schema without references.
///
/// ```
/// use kueue_check_schema::{compile, validate};
/// use serde_json::json;
///
/// let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
///     "type": "object", "properties": {"spec": {"type": "object", "required": ["limit"], "properties": {"limit": {"type": "integer"}}}},
/// }}}]}});
/// let schema = compile(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
/// assert_eq!(validate(&json!({"spec": {}}), &schema)[0].to_string(), "spec.limit: Required value");
/// ```
pub fn compile(source: &Value) -> Arc<Schema> {
    compile_with(source, None)
}

/// Compiles a schema with references into `definitions`.
fn compile_with(source: &Value, mut definitions: Option<&mut Definitions<'_>>) -> Arc<Schema> {
    if let (Some(name), Some(definitions)) = (
        source
            .get("$ref")
            .and_then(Value::as_str)
            .map(|name| name.strip_prefix(REFERENCE).unwrap_or(name)),
        definitions.as_deref_mut(),
    ) {
        return definitions.get(name);
    }
    let published = definitions.is_some();
    let mut child = |value: &Value| compile_with(value, definitions.as_deref_mut());
    let mut many = |name: &str| -> Vec<Arc<Schema>> {
        let list = source.get(name).and_then(Value::as_array);
        list.map(|list| list.iter().map(&mut child).collect())
            .unwrap_or_default()
    };
    let (all_of, any_of, one_of) = (many("allOf"), many("anyOf"), many("oneOf"));
    let mut properties = BTreeMap::new();
    for (name, value) in source
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        properties.insert(name.clone(), child(value));
    }
    let additional = source
        .get("additionalProperties")
        .filter(|v| v.is_object())
        .map(&mut child);
    let items = source.get("items").map(&mut child);
    let not = source.get("not").map(&mut child);
    let rules = rules(source);
    let default = source.get("default").cloned();
    let below: Vec<&Arc<Schema>> = properties
        .values()
        .chain(&additional)
        .chain(&items)
        .collect();
    let has_rules = !rules.is_empty() || below.iter().any(|s| s.has_rules);
    let trivial = source.as_object().is_some_and(|map| {
        map.keys()
            .all(|key| key == "x-kubernetes-preserve-unknown-fields" || key == "nullable")
    });
    let has_defaults = default.is_some() || below.iter().any(|s| s.has_defaults);
    let flag = |name: &str| source.get(name).and_then(Value::as_bool).unwrap_or(false);
    Arc::new(Schema {
        kind: type_of(source),
        nullable: flag("nullable"),
        required: texts(source, "required"),
        allowed: source
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        limits: limits(source),
        pattern: source
            .get("pattern")
            .and_then(Value::as_str)
            .map(Pattern::new),
        format: text(source, "format"),
        // A built-in type without fields, such as `FieldsV1`, accepts any value.
        preserve: flag("x-kubernetes-preserve-unknown-fields")
            || (published && properties.is_empty() && additional.is_none()),
        name: String::new(),
        int_or_string: flag("x-kubernetes-int-or-string")
            || text(source, "format") == "int-or-string",
        embedded: flag("x-kubernetes-embedded-resource"),
        list: list_kind(source),
        atomic_map: text(source, "x-kubernetes-map-type") == "atomic",
        merge_key: merge_key(source),
        properties,
        additional,
        items,
        default,
        all_of,
        any_of,
        one_of,
        not,
        rules,
        has_rules,
        has_defaults,
        trivial,
    })
}

fn text(source: &Value, name: &str) -> String {
    source
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn texts(source: &Value, name: &str) -> Vec<String> {
    let list = source
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn type_of(source: &Value) -> Type {
    match source.get("type").and_then(Value::as_str) {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    }
}

fn list_kind(source: &Value) -> ListKind {
    match source.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("map") => ListKind::Map(texts(source, "x-kubernetes-list-map-keys")),
        Some("set") => ListKind::Set,
        _ => ListKind::Atomic,
    }
}

fn merge_key(source: &Value) -> Option<String> {
    text(source, "x-kubernetes-patch-strategy")
        .split(',')
        .any(|s| s == "merge")
        .then(|| text(source, "x-kubernetes-patch-merge-key"))
}

fn limits(source: &Value) -> Limits {
    let count = |name: &str| source.get(name).and_then(Value::as_u64);
    let bound = |name: &str, exclusive: &str| {
        let value = source.get(name)?;
        Some(Bound {
            value: value.as_f64()?,
            text: number_text(value),
            exclusive: source
                .get(exclusive)
                .and_then(Value::as_bool)
                .unwrap_or(false),
        })
    };
    Limits {
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: source.get("multipleOf").and_then(Value::as_f64),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
    }
}

/// Prints `1.0` as `1`: the definition's type holds bounds as floating point.
fn number_text(value: &Value) -> String {
    let text = value.to_string();
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_circle_of_references_ends() {
        let document = json!({
            "a.Props": {"type": "object", "properties": {
                "not": {"$ref": "#/components/schemas/a.Props"},
                "other": {"$ref": "a.Other"},
            }},
            "a.Other": {"type": "object", "properties": {"back": {"$ref": "a.Props"}, "n": {"type": "integer"}}},
        });
        let mut definitions = Definitions::new(document.as_object().unwrap());
        let props = definitions.get("a.Props");
        assert_eq!(props.properties["not"].kind, Type::Any);
        let other = &props.properties["other"];
        assert_eq!(other.properties["n"].kind, Type::Integer);
        assert_eq!(other.properties["back"].kind, Type::Any);
    }
}
