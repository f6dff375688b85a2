use serde_json::{Value, json};

use super::*;
use crate::check::{NoParameters, Parameters, ParametersKind, samples};
use crate::cli::validate::report;

struct Window(String);

impl Parameters for Window {
    fn kind() -> Option<ParametersKind> {
        Some(samples::kind("Window"))
    }

    fn decode(object: Value) -> Result<Self, String> {
        // The default has been filled in.
        object["spec"]["zone"]
            .as_str()
            .map(|zone| Self(zone.to_owned()))
            .ok_or_else(|| "no zone".to_owned())
    }

    fn validate(&self) -> Result<(), String> {
        if self.0 == "Mars" {
            Err("`zone`: there is no time zone `Mars`".to_owned())
        } else {
            Ok(())
        }
    }

    fn custom_resource_definition() -> Option<CustomResourceDefinition> {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {
            "type": "object", "required": ["opens"],
            "properties": {
                "opens": {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"},
                "zone": {"type": "string", "default": "UTC"},
                "days": {"type": "array", "maxItems": 7, "x-kubernetes-list-type": "set", "items": {"type": "string", "enum": ["Mon", "Tue"]}},
                "note": {"type": "string", "maxLength": 5},
                "most": {"type": "integer", "minimum": 1},
            },
            "x-kubernetes-validations": [{"rule": "!has(self.most) || self.most < 100", "message": "most is under a hundred"}],
        }}});
        let definition = json!({"metadata": {"name": "windows.example.com"}, "spec": {
            "group": "example.com", "names": {"kind": "Window", "plural": "windows"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        }});
        serde_json::from_value(definition).ok()
    }
}

fn checked<P: Parameters>() -> DynCheck {
    DynCheck::new(samples::check::<P>("example.com/window"))
}

fn window(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Window", "metadata": {"name": "night"}, "spec": spec})
}

fn errors(object: &Value) -> Vec<String> {
    match Kinds::of(&[checked::<Window>()]).validate_document(object) {
        DocumentResult::Right { .. } => Vec::new(),
        DocumentResult::Wrong { errors, .. } => errors,
        DocumentResult::Other(what) => vec![format!("other: {what}")],
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_field() {
    let patched = |path: &str, value: Value| {
        let mut object = window(json!({"opens": "22:00"}));
        *object.pointer_mut(path).unwrap() = value;
        object
    };
    for (name, object, expected) in [
        ("right", window(json!({"opens": "22:00"})), vec![]),
        (
            "a default counts for the check's own validation",
            window(json!({"opens": "22:00", "zone": null})),
            vec![],
        ),
        (
            "a required field",
            window(json!({"zone": "UTC"})),
            vec!["spec.opens: Required value"],
        ),
        (
            "an unknown field",
            window(json!({"opens": "22:00", "opnes": "x"})),
            vec!["spec.opnes: unknown field"],
        ),
        (
            "a wrong type",
            window(json!({"opens": 22})),
            vec![
                "spec.opens: Invalid value: \"integer\": spec.opens in body must be of type string: \"integer\"",
            ],
        ),
        (
            "a pattern",
            window(json!({"opens": "10 pm"})),
            vec![
                "spec.opens: Invalid value: \"10 pm\": spec.opens in body should match '^[0-9]{2}:[0-9]{2}$'",
            ],
        ),
        (
            "an enum, in a list",
            window(json!({"opens": "22:00", "days": ["Mon", "Sat"]})),
            vec!["spec.days[1]: Unsupported value: \"Sat\": supported values: \"Mon\", \"Tue\""],
        ),
        (
            "a set with a value twice",
            window(json!({"opens": "22:00", "days": ["Mon", "Mon"]})),
            vec!["spec.days[1]: Duplicate value: \"Mon\""],
        ),
        (
            "all at once",
            window(json!({"note": "too long", "most": 0, "x": 1})),
            vec![
                "spec.x: unknown field",
                "spec.opens: Required value",
                "spec.most: Invalid value: 0: spec.most in body should be greater than or equal to 1",
                "spec.note: Too long: may not be more than 5 bytes",
            ],
        ),
        (
            "the check's own validation",
            window(json!({"opens": "22:00", "zone": "Mars"})),
            vec!["`zone`: there is no time zone `Mars`"],
        ),
        (
            "a name",
            patched("/metadata", json!({})),
            vec!["metadata.name: Required value"],
        ),
        (
            "a namespace",
            patched("/metadata", json!({"name": "night", "namespace": "team-a"})),
            vec!["metadata.namespace: Forbidden: a Window is in no namespace"],
        ),
        (
            "metadata",
            patched(
                "/metadata",
                json!({"name": "night", "lables": {}, "labels": {"a": 1}}),
            ),
            vec![
                "metadata.lables: unknown field",
                "metadata.labels.a: Invalid value: \"integer\": labels.a in body must be of type string: \"integer\"",
            ],
        ),
        (
            "names, keys and values that the API server rejects",
            patched(
                "/metadata",
                json!({"name": "My_Window", "generateName": "night-.", "labels": {"-": "", "team": "a b"}, "annotations": {"Example.com/Of": "any text", "a/b/c": ""}}),
            ),
            vec![
                "metadata.name: Invalid value: \"My_Window\": it must be a DNS subdomain: lower-case letters, digits, `-` and `.`, at most 253 characters",
                "metadata.generateName: Invalid value: \"night-.\": it must be a DNS subdomain: lower-case letters, digits, `-` and `.`, at most 253 characters",
                "metadata.labels: Invalid value: \"-\": the name must be 1 to 63 letters, digits, `-`, `_` or `.`, and start and end with a letter or a digit",
                "metadata.labels: Invalid value: \"a b\": a value must be empty or at most 63 letters, digits, `-`, `_` or `.`, and start and end with a letter or a digit",
                "metadata.annotations: Invalid value: \"a/b/c\": the name must be 1 to 63 letters, digits, `-`, `_` or `.`, and start and end with a letter or a digit",
            ],
        ),
        (
            "a version",
            patched("/apiVersion", json!("example.com/v2")),
            vec!["apiVersion: example.com has no version `v2` of Window: expected v1"],
        ),
        (
            "another kind",
            patched("/kind", json!("Door")),
            vec!["other: a Door"],
        ),
        (
            "another group",
            patched("/apiVersion", json!("example.org/v1")),
            vec!["other: a Window of example.org/v1: this program takes those of example.com"],
        ),
        (
            "no kind",
            patched("/kind", json!(null)),
            vec!["other: it has no `kind`"],
        ),
        (
            "no object",
            json!("night"),
            vec!["other: no Kubernetes object"],
        ),
    ] {
        assert_eq!(errors(&object), expected, "{name}");
    }
}

#[test]
fn rules_are_run_or_reported_as_not_run() {
    let object = window(json!({"opens": "22:00", "most": 100}));
    let expected = if CEL_ENABLED {
        DocumentResult::Wrong {
            name: "Window/night".to_owned(),
            errors: vec!["spec: Invalid value: most is under a hundred".to_owned()],
        }
    } else {
        DocumentResult::Right {
            name: "Window/night".to_owned(),
            notes: vec!["its rules in CEL were not run: this program is built without the feature `cel`; the API server runs them".to_owned()],
        }
    };
    assert_eq!(
        Kinds::of(&[checked::<Window>()]).validate_document(&object),
        expected
    );
}

#[test]
fn a_report_names_file_and_document_and_fails_if_anything_is_wrong_or_nothing_was_seen() {
    let (ours, plain) = ([checked::<Window>()], [checked::<NoParameters>()]);
    let good =
        "apiVersion: example.com/v1\nkind: Window\nmetadata: {name: a}\nspec: {opens: '22:00'}\n";
    let bad = "apiVersion: example.com/v1\nkind: Window\nmetadata: {name: b}\nspec: {}\n";
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    for (checks, text, contains, result) in [
        (
            &ours,
            good.to_owned(),
            "f.yaml: document 1 (line 1): Window/a is valid\n",
            Ok(()),
        ),
        (
            &ours,
            format!("{good}---\n{bad}---\n{other}"),
            "f.yaml: document 2 (line 6): Window/b: spec.opens: Required value\nf.yaml: document 3 (line 11): skipped, a ConfigMap\n",
            Err("1 of 2 documents are invalid"),
        ),
        (
            &ours,
            format!(
                "{good}---\n{}",
                other.replace("ConfigMap", "AdmissionCheck")
            ),
            "f.yaml: document 2 (line 6): skipped, an AdmissionCheck\n",
            Ok(()),
        ),
        (
            &ours,
            "a: [".to_owned(),
            "f.yaml: document 1 (line 1): not YAML: ",
            Err("1 of 1 documents are invalid"),
        ),
        (
            &ours,
            other.to_owned(),
            "skipped",
            Err("nothing was validated: no document is a Window.example.com"),
        ),
        (
            &plain,
            good.to_owned(),
            "skipped",
            Err("this program takes no parameters: there is nothing to validate"),
        ),
    ] {
        let found = report(&Kinds::of(checks), &[("f.yaml".to_owned(), text.clone())]);
        assert!(found.text.contains(contains), "{text}: {}", found.text);
        let returned = found.result.map_err(|error| error.to_string());
        assert_eq!(returned, result.map_err(str::to_owned), "{text}");
    }
}
