use serde_json::json;

use super::*;

fn found(earlier: &Value, later: &Value) -> Vec<String> {
    let found = breaking_changes(earlier, later);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_change_that_rejects_loses_or_changes_stored_objects_breaks() {
    for (earlier, later, expected) in [
        (
            json!({"type": "string"}),
            json!({"type": "integer"}),
            "the type was string and is integer",
        ),
        (
            json!({"type": "number"}),
            json!({"type": "integer"}),
            "the type was number and is integer",
        ),
        (
            json!({}),
            json!({"type": "string"}),
            "the type was anything and is string",
        ),
        (json!({"nullable": true}), json!({}), "nullable is gone"),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!({}),
            "x-kubernetes-preserve-unknown-fields is gone",
        ),
        (
            json!({"default": 1}),
            json!({"default": 2}),
            "the default was 1 and is 2",
        ),
        (json!({"default": 1}), json!({}), "the default 1 is gone"),
        (json!({}), json!({"default": 1}), "it has got a default, 1"),
        (
            json!({"enum": ["A", "B"]}),
            json!({"enum": ["A"]}),
            "the value \"B\" is gone",
        ),
        (
            json!({}),
            json!({"enum": ["A"]}),
            "it has become an enumeration",
        ),
        (
            json!({"maximum": 9}),
            json!({"maximum": 8}),
            "maximum was 9 and is 8",
        ),
        (
            json!({}),
            json!({"maxLength": 8}),
            "it has got a maxLength, 8",
        ),
        (
            json!({"minItems": 1}),
            json!({"minItems": 2}),
            "minItems was 1 and is 2",
        ),
        (json!({}), json!({"minimum": 0}), "it has got a minimum, 0"),
        (
            json!({}),
            json!({"pattern": "^a"}),
            "pattern was null and is \"^a\"",
        ),
        (
            json!({"format": "int64"}),
            json!({"format": "int32"}),
            "format was \"int64\" and is \"int32\"",
        ),
        (
            json!({}),
            json!({"uniqueItems": true}),
            "uniqueItems was null and is true",
        ),
        (
            json!({}),
            json!({"not": {"required": ["a"]}}),
            "not was null and is {\"required\":[\"a\"]}",
        ),
        (
            json!({"x-kubernetes-list-type": "map"}),
            json!({"x-kubernetes-list-type": "atomic"}),
            "x-kubernetes-list-type was \"map\" and is \"atomic\"",
        ),
        (
            json!({}),
            json!({"x-kubernetes-validations": [{"rule": "self > 1"}]}),
            "the rule `self > 1` was added",
        ),
        (
            json!({"properties": {"a": {}}}),
            json!({"properties": {"a": {}}, "required": ["a"]}),
            "a: it has become required",
        ),
        (
            json!({"properties": {"a": {}}}),
            json!({"properties": {}}),
            "a: it is gone",
        ),
        (json!({"properties": {"a": {}}}), json!({}), "a: it is gone"),
        (
            json!({"items": {"type": "string"}}),
            json!({}),
            "[]: nothing is kept any more",
        ),
        (
            json!({"properties": {"a": {"items": {"properties": {"b": {"maximum": 2}}}}}}),
            json!({"properties": {"a": {"items": {"properties": {"b": {"maximum": 1}}}}}}),
            "a[].b: maximum was 2 and is 1",
        ),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"additionalProperties": {"type": "integer"}}),
            "{}: the type was string and is integer",
        ),
        (
            json!({"properties": {"a": {"type": "string"}}}),
            json!({"additionalProperties": {"type": "integer"}}),
            "a: the type was string and is integer",
        ),
    ] {
        assert_eq!(found(&earlier, &later), [expected], "{earlier} to {later}");
    }
}

#[test]
fn a_change_that_accepts_all_stored_objects_does_not_break() {
    for (earlier, later) in [
        (json!({"type": "integer"}), json!({"type": "number"})),
        (json!({"type": "integer"}), json!({})),
        (json!({}), json!({"nullable": true})),
        (json!({"enum": ["A"]}), json!({"enum": ["B", "A"]})),
        (json!({"enum": ["A"]}), json!({})),
        (json!({"maximum": 9}), json!({"maximum": 10})),
        (json!({"minLength": 2}), json!({"minLength": 1})),
        (json!({}), json!({"minLength": 0})),
        (json!({"pattern": "^a", "format": "date"}), json!({})),
        (json!({"uniqueItems": true}), json!({"uniqueItems": false})),
        (
            json!({"x-kubernetes-validations": [{"rule": "self > 1"}]}),
            json!({}),
        ),
        (
            json!({"x-kubernetes-validations": [{"rule": "self > 1", "message": "one"}]}),
            json!({"x-kubernetes-validations": [{"rule": "self > 1", "message": "more than one"}]}),
        ),
        (
            json!({"properties": {"a": {}}}),
            json!({"properties": {"a": {}, "b": {"default": 1}}}),
        ),
        (
            json!({"properties": {"a": {}}}),
            json!({"properties": {"a": {}, "b": {"default": 1}}, "required": ["b"]}),
        ),
        (
            json!({"properties": {"a": {}}, "required": ["a"]}),
            json!({"properties": {"a": {}}}),
        ),
        (
            json!({"properties": {"a": {"type": "string"}}}),
            json!({"additionalProperties": {"type": "string"}}),
        ),
        (
            json!({"properties": {"a": {}}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            json!({"description": "one"}),
            json!({"description": "two", "title": "t"}),
        ),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"additionalProperties": true}),
        ),
    ] {
        assert_eq!(found(&earlier, &later), [""; 0], "{earlier} to {later}");
    }
}

#[test]
fn names_versions_and_subresources_are_promised_too() {
    let definition = json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Pool", "plural": "pools", "singular": "pool", "shortNames": ["pl"]},
        "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"properties": {"a": {"maximum": 2}}}}}],
    }});
    let changed = |pointer: &str, value: Value| {
        let mut later = definition.clone();
        *later.pointer_mut(pointer).unwrap() = value;
        let found = breaking_changes_of_definition(&definition, &later);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (pointer, value, expected) in [
        (
            "/spec/group",
            json!("a.b"),
            "spec.group: it was \"example.com\" and is \"a.b\"",
        ),
        (
            "/spec/scope",
            json!("Cluster"),
            "spec.scope: it was \"Namespaced\" and is \"Cluster\"",
        ),
        (
            "/spec/names/plural",
            json!("p"),
            "spec.names.plural: it was \"pools\" and is \"p\"",
        ),
        (
            "/spec/names/shortNames",
            json!([]),
            "spec.names.shortNames: \"pl\" is gone",
        ),
        (
            "/spec/versions",
            json!([]),
            "spec.versions[v1alpha1]: it is gone",
        ),
        (
            "/spec/versions/0/served",
            json!(false),
            "spec.versions[v1alpha1]: it is no longer served",
        ),
        (
            "/spec/versions/0/subresources",
            json!({}),
            "spec.versions[v1alpha1]: the subresource status is gone",
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/a/maximum",
            json!(1),
            "a: maximum was 2 and is 1",
        ),
    ] {
        assert_eq!(changed(pointer, value), [expected], "{pointer}");
    }
    let mut later = definition.clone();
    let v1 = json!({"name": "v1", "served": true, "storage": true});
    later["spec"]["versions"].as_array_mut().unwrap().push(v1);
    later["spec"]["versions"][0]["storage"] = json!(false);
    assert_eq!(
        breaking_changes_of_definition(&definition, &later),
        [],
        "a version is added"
    );
    let unserved = json!({"spec": {"versions": [{"name": "v1alpha1", "served": false}]}});
    assert_eq!(
        breaking_changes_of_definition(&unserved, &json!({})),
        [],
        "nobody could use it"
    );
}
