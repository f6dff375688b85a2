//! Breaking changes of a definition: they break objects written under an earlier one.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

/// A breaking change of a definition: the later one rejects an object that the earlier one
/// accepted, prunes a part of it, or changes its meaning.
///
/// ```
/// use kueue_check_schema::breaking_changes;
/// use serde_json::json;
///
/// let limit = |most: u32| json!({"type": "object", "properties": {"limit": {"type": "integer", "maximum": most}}});
/// assert_eq!(breaking_changes(&limit(10), &limit(20)), []);
/// let broken = breaking_changes(&limit(10), &limit(5));
/// assert_eq!(broken[0].to_string(), "limit: maximum was 10 and is 5");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BreakingChange {
    /// The field, such as `spec.tiers[].limit`; empty for the whole object.
    pub field: String,
    /// What breaks.
    pub change: String,
}

impl fmt::Display for BreakingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.change),
            field => write!(f, "{field}: {}", self.change),
        }
    }
}

/// Returns what breaks between two schemas (`openAPIV3Schema`) of one version of a kind, the
/// `earlier` one first. Pure: it depends on the two texts alone.
///
/// Allowed are new optional fields, values that are added to an enumeration, limits that become
/// wider, and rules that are removed. Breaking is everything that rejects, prunes or changes the
/// meaning of an object that the earlier schema accepted:
///
/// - a field that is removed, or whose unknown fields are no longer kept
/// - a type, pattern, format, limit or enumeration that became narrower, or a rule that was added
/// - a field that became required, or must no longer be null
/// - a default that was added to a field that was there, changed or removed
/// - another way to merge a list or a map, by which field managers own their parts
///
/// Combinations (`allOf`, `anyOf`, `oneOf`, `not`) are compared as a whole: any change of one
/// counts as breaking, because the text alone does not determine its effect.
pub fn breaking_changes(earlier: &Value, later: &Value) -> Vec<BreakingChange> {
    let mut comparison = Comparison::default();
    comparison.schema("", earlier, later);
    comparison.found
}

/// Returns what breaks between two CustomResourceDefinitions of one kind: its names and scope, the
/// versions that are served and stored, their subresources, and their schemas.
///
/// ```
/// use kueue_check_schema::breaking_changes_of_definition;
/// use serde_json::json;
///
/// let definition = |scope: &str| json!({"spec": {"group": "example.com", "scope": scope, "names": {"kind": "Pool", "plural": "pools"},
///     "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
/// let broken = breaking_changes_of_definition(&definition("Cluster"), &definition("Namespaced"));
/// assert_eq!(broken[0].to_string(), r#"spec.scope: it was "Cluster" and is "Namespaced""#);
/// ```
pub fn breaking_changes_of_definition(earlier: &Value, later: &Value) -> Vec<BreakingChange> {
    let mut comparison = Comparison::default();
    for field in [
        "group",
        "scope",
        "names.kind",
        "names.plural",
        "names.singular",
    ] {
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        let (was, is) = (earlier.pointer(&pointer), later.pointer(&pointer));
        if was != is && was.is_some() {
            let is = is.unwrap_or(&Value::Null);
            let was = was.unwrap_or(&Value::Null);
            comparison.breaks(
                &format!("spec.{field}"),
                format!("it was {was} and is {is}"),
            );
        }
    }
    let short = |definition: &Value| texts(&definition["spec"]["names"]["shortNames"]);
    for gone in short(earlier).difference(&short(later)) {
        comparison.breaks("spec.names.shortNames", format!("{gone:?} is gone"));
    }
    for version in list(&earlier["spec"]["versions"]) {
        comparison.version(version, list(&later["spec"]["versions"]));
    }
    comparison.found
}

#[derive(Default)]
struct Comparison {
    found: Vec<BreakingChange>,
}

/// Limits that become narrower as they fall.
const AT_MOST: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
/// Limits that become narrower as they rise.
const AT_LEAST: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
/// Keywords that cannot be compared: any change breaks, except a removal.
const NARROWING: [&str; 9] = [
    "pattern",
    "format",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
    "allOf",
    "anyOf",
    "oneOf",
];
/// Keywords whose every change breaks.
const FIXED: [&str; 5] = [
    "not",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-embedded-resource",
];
/// Keywords whose removal breaks.
const WIDENING: [&str; 3] = [
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
];

impl Comparison {
    fn breaks(&mut self, field: &str, change: impl Into<String>) {
        self.found.push(BreakingChange {
            field: field.to_owned(),
            change: change.into(),
        });
    }

    fn version(&mut self, earlier: &Value, versions: &[Value]) {
        if earlier["served"] != true {
            return;
        }
        let name = earlier["name"].as_str().unwrap_or_default();
        let field = format!("spec.versions[{name}]");
        let Some(later) = versions
            .iter()
            .find(|later| later["name"] == earlier["name"])
        else {
            return self.breaks(&field, "it is gone");
        };
        if later["served"] != true {
            self.breaks(&field, "it is no longer served");
        }
        for subresource in ["status", "scale"] {
            if !earlier["subresources"][subresource].is_null()
                && later["subresources"][subresource].is_null()
            {
                self.breaks(&field, format!("the subresource {subresource} is gone"));
            }
        }
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        self.schema("", &schema(earlier), &schema(later));
    }

    fn schema(&mut self, field: &str, earlier: &Value, later: &Value) {
        self.kind(field, earlier, later);
        self.default_value(field, earlier, later);
        self.enumeration(field, earlier, later);
        self.limits(field, earlier, later);
        self.rules(field, earlier, later);
        self.required(field, earlier, later);
        self.properties(field, earlier, later);
        self.below(&format!("{field}[]"), &earlier["items"], &later["items"]);
        self.below(
            &format!("{field}{{}}"),
            &earlier["additionalProperties"],
            &later["additionalProperties"],
        );
    }

    /// Compares the schema of items or of a map's values.
    fn below(&mut self, field: &str, earlier: &Value, later: &Value) {
        match (earlier, later) {
            (Value::Null | Value::Bool(false), _) | (_, Value::Bool(true)) => {}
            (_, Value::Null | Value::Bool(false)) => self.breaks(field, "nothing is kept any more"),
            (earlier, later) => self.schema(field, earlier, later),
        }
    }

    fn kind(&mut self, field: &str, earlier: &Value, later: &Value) {
        let (was, is) = (&earlier["type"], &later["type"]);
        let wider = is.is_null() || (was == "integer" && is == "number");
        if was != is && !wider {
            let was = was.as_str().unwrap_or("anything");
            let is = is.as_str().unwrap_or("anything");
            self.breaks(field, format!("the type was {was} and is {is}"));
        }
        for word in WIDENING {
            if earlier[word] == true && later[word] != true {
                self.breaks(field, format!("{word} is gone"));
            }
        }
        for word in FIXED {
            let (was, is) = (&earlier[word], &later[word]);
            if was != is {
                self.breaks(field, format!("{word} was {was} and is {is}"));
            }
        }
    }

    fn default_value(&mut self, field: &str, earlier: &Value, later: &Value) {
        match (&earlier["default"], &later["default"]) {
            (was, is) if was == is => {}
            (Value::Null, is) => self.breaks(field, format!("it has got a default, {is}")),
            (was, Value::Null) => self.breaks(field, format!("the default {was} is gone")),
            (was, is) => self.breaks(field, format!("the default was {was} and is {is}")),
        }
    }

    fn enumeration(&mut self, field: &str, earlier: &Value, later: &Value) {
        if later["enum"].is_null() {
            return;
        }
        if earlier["enum"].is_null() {
            return self.breaks(field, "it has become an enumeration");
        }
        let allowed = list(&later["enum"]);
        for gone in list(&earlier["enum"])
            .iter()
            .filter(|value| !allowed.contains(value))
        {
            self.breaks(field, format!("the value {gone} is gone"));
        }
    }

    fn limits(&mut self, field: &str, earlier: &Value, later: &Value) {
        for (words, narrower) in [
            (AT_MOST, (|was, is| is < was) as fn(f64, f64) -> bool),
            (AT_LEAST, |was, is| is > was),
        ] {
            for word in words {
                let (was, is) = (&earlier[word], &later[word]);
                let Some(now) = is.as_f64() else { continue };
                match was.as_f64() {
                    // No text, list or map has fewer than nothing.
                    None if now == 0.0 && word.starts_with("min") && word != "minimum" => {}
                    None => self.breaks(field, format!("it has got a {word}, {is}")),
                    Some(before) if narrower(before, now) => {
                        self.breaks(field, format!("{word} was {was} and is {is}"));
                    }
                    Some(_) => {}
                }
            }
        }
        for word in NARROWING {
            let (was, is) = (&earlier[word], &later[word]);
            if was != is && !is.is_null() && is != false {
                self.breaks(field, format!("{word} was {was} and is {is}"));
            }
        }
    }

    fn rules(&mut self, field: &str, earlier: &Value, later: &Value) {
        let rules = |schema: &Value| -> BTreeSet<String> {
            let rules = list(&schema["x-kubernetes-validations"]).iter();
            rules
                .filter_map(|rule| rule["rule"].as_str().map(str::to_owned))
                .collect()
        };
        for added in rules(later).difference(&rules(earlier)) {
            self.breaks(field, format!("the rule `{added}` was added"));
        }
    }

    fn required(&mut self, field: &str, earlier: &Value, later: &Value) {
        for added in texts(&later["required"]).difference(&texts(&earlier["required"])) {
            // The default is filled in before required fields are checked.
            if later["properties"][added]["default"].is_null() {
                self.breaks(&child(field, added), "it has become required");
            }
        }
    }

    fn properties(&mut self, field: &str, earlier: &Value, later: &Value) {
        let none = Map::new();
        let (was, is) = (&earlier["properties"], &later["properties"]);
        let is = is.as_object().unwrap_or(&none);
        let kept = later["x-kubernetes-preserve-unknown-fields"] == true;
        let others = Some(&later["additionalProperties"]).filter(|others| others.is_object());
        for (name, schema) in was.as_object().unwrap_or(&none) {
            match is.get(name).or(others) {
                Some(later) => self.schema(&child(field, name), schema, later),
                None if kept => {}
                None => self.breaks(&child(field, name), "it is gone"),
            }
        }
    }
}

fn child(field: &str, name: &str) -> String {
    if field.is_empty() {
        name.to_owned()
    } else {
        format!("{field}.{name}")
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> BTreeSet<String> {
    let texts = list(value).iter();
    texts
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
