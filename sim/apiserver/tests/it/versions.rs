//! Kinds with several versions, and definitions that change. Each row has a group of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kueue_check_apiserver::{
    Admission, ApiRequest, ApiResponse, ApiServer, Operation, Patch, Resource, Review, Status,
    Verb, system_time,
};
use serde_json::{Value, json};

use super::harness::{Row, Step, delete, delete_with, get, jsonpatch, merge, post, put, row, ssa};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{ns}.example.com";

/// Returns the path of Things in a version.
fn things(version: &str) -> String {
    format!("/apis/{{ns}}.example.com/{version}/things")
}

/// Returns the path of one Thing in a version.
fn thing_path(version: &str, rest: &str) -> String {
    format!("/apis/{{ns}}.example.com/{version}/things/{rest}")
}

/// Returns a Thing.
fn thing(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{{ns}}.example.com/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

/// Returns a version with a status subresource.
fn version(name: &str, storage: bool, spec: Value) -> Value {
    let status = json!({"type": "object", "properties": {"seen": {"type": "integer"}}});
    json!({
        "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": status}}},
    })
}

/// Returns the step that defines Things, without a Namespace, and the one that waits for them.
fn define(versions: Value) -> [Step; 2] {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.{ns}.example.com"},
        "spec": {"group": "{ns}.example.com", "scope": "Cluster", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}, "versions": versions},
    });
    [
        post(201, DEFINITIONS, definition).until("things"),
        get(200, things("v1")).until("ThingList"),
    ]
}

/// Returns the step that changes the versions, and the one that waits until `v3` is served.
fn redefine(versions: Value) -> [Step; 2] {
    [
        merge(200, DEFINITION, json!({"spec": {"versions": versions}})).until("things"),
        get(200, things("v3")).until("ThingList"),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        two_versions(),
        another_storage_version(),
        another_schema(),
        another_schema_while_nothing_is_served(),
        a_namespace_of_an_object_without_one(),
        a_stricter_schema(),
        the_end_of_a_definition(),
        the_end_of_a_definition_without_served_versions(),
        deprecated_versions(),
    ]
}

fn text() -> Value {
    json!({"type": "string"})
}

fn first_spec() -> Value {
    json!({"a": text(), "old": text()})
}

fn second_spec() -> Value {
    json!({"a": text(), "b": {"type": "string", "default": "x"}})
}

/// Defines things in two versions, of which `v1` is stored, and creates one.
fn an_object_in_two_versions() -> [Step; 3] {
    let [define, wait] = define(json!([
        version("v1", true, first_spec()),
        version("v2", false, second_spec()),
    ]));
    let object = thing("v1", "a", json!({"a": "1", "old": "o"}));
    [define, wait, post(201, things("v1"), object)]
}

fn two_versions() -> Row {
    let [define, wait, first] = an_object_in_two_versions();
    row(
        "two versions with different fields",
        [
            define,
            wait,
            first,
            get(200, thing_path("v2", "a")),
            post(201, things("v2"), thing("v2", "b", json!({"a": "1"}))),
            get(200, thing_path("v2", "b")),
            get(200, thing_path("v1", "b")),
            merge(200, thing_path("v2", "a"), json!({"spec": {"a": "2"}})),
            get(200, thing_path("v1", "a")),
            put(
                200,
                thing_path("v2", "a?dryRun=All"),
                json!({"apiVersion": "{ns}.example.com/v2", "kind": "Thing", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"a": "3"}}),
            ),
            get(200, things("v2")),
            ssa(
                409,
                thing_path("v2", "a?fieldManager=x"),
                thing("v2", "a", json!({"a": "3", "b": "y"})),
            ),
            ssa(
                200,
                thing_path("v2", "a?fieldManager=x&force=true"),
                thing("v2", "a", json!({"a": "3", "b": "y"})),
            ),
            delete(200, thing_path("v2", "a")),
        ],
    )
}

fn another_storage_version() -> Row {
    let [define, wait, first] = an_object_in_two_versions();
    let [change, wait_again] = redefine(json!([
        version("v1", false, first_spec()),
        version("v2", true, second_spec()),
        version("v3", false, second_spec()),
    ]));
    row(
        "another storage version",
        [
            define,
            wait,
            first,
            post(201, things("v1"), thing("v1", "b", json!({"a": "1"}))),
            change,
            wait_again,
            get(200, DEFINITION).until("\"storedVersions\":[\"v1\",\"v2\"]"),
            get(200, thing_path("v1", "a")),
            get(200, thing_path("v2", "a")),
            get(200, things("v1")),
            get(200, things("v3")),
            get(200, format!("{}?watch=1&timeoutSeconds=1", things("v2"))),
            // A write that changes nothing stores the object in the other version.
            merge(200, thing_path("v1", "a"), json!({})),
            get(200, thing_path("v2", "a")),
            merge(200, thing_path("v2", "b"), json!({"spec": {"a": "2"}})),
            jsonpatch(
                200,
                thing_path("v1", "b"),
                json!([{"op": "replace", "path": "/spec/a", "value": "3"}]),
            ),
            merge(
                200,
                thing_path("v1", "b/status"),
                json!({"status": {"seen": 1}}),
            ),
            merge(
                200,
                thing_path("v2", "b/status"),
                json!({"status": {"seen": 2}}),
            ),
            ssa(
                200,
                thing_path("v3", "b?fieldManager=x&force=true"),
                thing("v3", "b", json!({"a": "4"})),
            ),
            get(200, things("v1")),
            merge(
                200,
                thing_path("v1", "b"),
                json!({"metadata": {"finalizers": ["example.com/f"]}}),
            ),
            delete(200, thing_path("v1", "b")),
            get(200, thing_path("v1", "b")),
            get(200, thing_path("v2", "b")),
            merge(
                200,
                thing_path("v2", "b"),
                json!({"metadata": {"finalizers": null}}),
            ),
            delete(200, things("v1")),
        ],
    )
}

fn another_schema() -> Row {
    let before = json!({"a": text(), "gone": text()});
    let after = json!({"a": text(), "d": {"type": "integer", "default": 3}});
    let [define, wait] = define(json!([version("v1", true, before)]));
    let [change, wait_again] = redefine(json!([
        version("v1", true, after.clone()),
        version("v3", false, after),
    ]));
    row(
        "another schema",
        [
            define,
            wait,
            post(
                201,
                things("v1"),
                thing("v1", "a", json!({"a": "1", "gone": "g"})),
            ),
            post(201, things("v1"), thing("v1", "b", json!({"gone": "g"}))),
            post(201, things("v1"), thing("v1", "c", json!({"gone": "g"}))),
            merge(
                200,
                thing_path("v1", "c"),
                json!({"metadata": {"finalizers": ["example.com/f"]}}),
            ),
            change,
            wait_again,
            get(200, thing_path("v1", "a")),
            get(200, things("v1")),
            get(200, thing_path("v3", "a")),
            merge(200, thing_path("v1", "a"), json!({"spec": {"a": "2"}})),
            get(200, thing_path("v3", "a")),
            delete(200, thing_path("v1", "b")),
            delete(200, thing_path("v1", "c")),
            get(200, thing_path("v1", "c")),
            get(200, thing_path("v1", "a")),
            get(
                200,
                format!(
                    "{}?watch=1&timeoutSeconds=1&resourceVersion={{rv}}",
                    things("v1")
                ),
            ),
        ],
    )
}

fn another_schema_while_nothing_is_served() -> Row {
    let after = json!({"a": text(), "d": {"type": "integer", "default": 3}});
    let mut unserved = version("v1", true, after.clone());
    unserved["served"] = false.into();
    let [define, wait] = define(json!([version(
        "v1",
        true,
        json!({"a": text(), "gone": text()})
    )]));
    let [change, wait_again] = redefine(json!([
        version("v1", true, after.clone()),
        version("v3", false, after),
    ]));
    row(
        "another schema while nothing is served",
        [
            define,
            wait,
            post(201, things("v1"), thing("v1", "a", json!({"gone": "g"}))),
            merge(200, DEFINITION, json!({"spec": {"versions": [unserved]}})).until("things"),
            get(404, thing_path("v1", "a")).until(""),
            change,
            wait_again,
            get(200, thing_path("v1", "a")).message("\"d\":3"),
            get(200, things("v1")).message("\"d\":3"),
        ],
    )
}

fn a_stricter_schema() -> Row {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": text(), "n": {"type": "integer"}, "m": text(),
    }});
    let keyed = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let list =
        |kind: &str| json!({"type": "array", "items": text(), "x-kubernetes-list-type": kind});
    let before = json!({
        "a": text(), "n": {"type": "integer"}, "keyed": keyed, "words": list("atomic"), "tags": list("atomic"),
        "choice": {"type": "object", "properties": {"a": text(), "b": text()}},
        "map": {"type": "object", "additionalProperties": text()},
    });
    let mut after = before.clone();
    after["n"]["maximum"] = 5.into();
    after["keyed"]["items"]["properties"]["n"]["maximum"] = 5.into();
    after["words"]["items"]["maxLength"] = 3.into();
    after["tags"] = list("set");
    after["choice"]["required"] = json!(["a"]);
    after["map"]["maxProperties"] = 1.into();
    after["map"]["additionalProperties"]["maxLength"] = 3.into();
    let stricter = |status: Value| {
        let mut version = version("v1", true, after.clone());
        version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["seen"] = status;
        version
    };
    let [define, wait] = define(json!([version("v1", true, before)]));
    let [change, wait_again] = redefine(json!([
        stricter(json!({"type": "integer", "maximum": 5})),
        version("v3", false, after.clone()),
    ]));
    let a = thing_path("v1", "a");
    let change_to =
        |code: u16, spec: Value| merge(code, thing_path("v1", "a"), json!({"spec": spec}));
    row(
        "a stricter schema",
        [
            define,
            wait,
            post(
                201,
                things("v1"),
                thing(
                    "v1",
                    "a",
                    json!({
                        "a": "1", "n": 9, "keyed": [{"name": "x", "n": 9}, {"name": "y", "n": 1}],
                        "words": ["long words"], "tags": ["t", "t"], "choice": {"b": "b"}, "map": {"a": "long", "b": "c"},
                    }),
                ),
            ),
            merge(
                200,
                thing_path("v1", "a/status"),
                json!({"status": {"seen": 9}}),
            ),
            change,
            wait_again,
            change_to(200, json!({"a": "2"})),
            change_to(422, json!({"n": 8})),
            change_to(
                200,
                json!({"keyed": [{"name": "y", "n": 2}, {"name": "x", "n": 9, "m": "m"}]}),
            ),
            change_to(
                422,
                json!({"keyed": [{"name": "z", "n": 9}, {"name": "x", "n": 9}]}),
            ),
            change_to(422, json!({"words": ["long words", "new"]})),
            change_to(200, json!({"tags": ["t", "t", "u", "u"]})),
            change_to(422, json!({"choice": {"b": "c"}})),
            change_to(200, json!({"choice": {"a": "a"}})),
            change_to(422, json!({"map": {"b": "d"}})),
            change_to(200, json!({"map": {"b": null}})),
            ssa(
                200,
                thing_path("v1", "a?fieldManager=x"),
                thing("v1", "a", json!({"a": "2"})),
            ),
            merge(
                200,
                thing_path("v1", "a/status"),
                json!({"status": {"seen": 9}, "metadata": {"labels": {"a": "b"}}}),
            ),
            merge(
                422,
                thing_path("v1", "a/status"),
                json!({"status": {"seen": 8}}),
            ),
            get(200, a),
        ],
    )
}

fn the_end_of_a_definition() -> Row {
    let [define, wait] = define(json!([version("v1", true, first_spec())]));
    let preconditions = |name: &str| json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {name: "1"}});
    row(
        "the end of a definition",
        [
            define,
            wait,
            post(201, things("v1"), thing("v1", "a", json!({}))),
            post(201, things("v1"), thing("v1", "b", json!({}))),
            merge(
                200,
                thing_path("v1", "b"),
                json!({"metadata": {"finalizers": ["example.com/f"]}}),
            ),
            delete_with(409, DEFINITION, preconditions("uid")),
            delete_with(409, DEFINITION, preconditions("resourceVersion")),
            delete(200, DEFINITION).until("customresourcecleanup.apiextensions.k8s.io"),
            get(404, thing_path("v1", "a")).until("not found"),
            get(200, thing_path("v1", "b")).until("deletionTimestamp"),
            get(200, thing_path("v1", "b")),
            get(200, DEFINITION).until("CustomResource deletion is in progress"),
            post(403, things("v1"), thing("v1", "c", json!({}))),
            ssa(
                403,
                thing_path("v1", "c?fieldManager=x"),
                thing("v1", "c", json!({})),
            ),
            merge(
                200,
                thing_path("v1", "b"),
                json!({"metadata": {"finalizers": null}}),
            ),
            get(404, DEFINITION).until("not found"),
            get(404, things("v1")).until(""),
        ],
    )
}

fn the_end_of_a_definition_without_served_versions() -> Row {
    let [define, wait] = define(json!([version("v1", true, first_spec())]));
    let mut unserved = version("v1", true, first_spec());
    unserved["served"] = false.into();
    row(
        "the end of a definition without served versions",
        [
            define,
            wait,
            post(201, things("v1"), thing("v1", "a", json!({}))),
            merge(200, DEFINITION, json!({"spec": {"versions": [unserved]}})).until("things"),
            get(404, thing_path("v1", "a")).until(""),
            delete(200, DEFINITION).until("customresourcecleanup.apiextensions.k8s.io"),
            get(404, DEFINITION).until("not found"),
        ],
    )
}

fn deprecated_versions() -> Row {
    let deprecated = |name: &str, warning: Value| {
        let mut version = version(name, false, first_spec());
        version["deprecated"] = true.into();
        version["deprecationWarning"] = warning;
        version
    };
    let [define, wait] = define(json!([
        version("v1", true, first_spec()),
        version("v2beta1", false, first_spec()),
        deprecated("v1beta1", json!(null)),
        deprecated("v1beta2", json!("use another")),
        deprecated("v3", json!(null)),
    ]));
    row(
        "deprecated versions",
        [
            define,
            wait,
            post(
                201,
                things("v1beta1"),
                thing("v1beta1", "a", json!({"a": "1", "c": 1})),
            ),
            get(200, thing_path("v1beta2", "a")),
            get(200, things("v3")),
            get(404, thing_path("v3", "b")),
            get(200, thing_path("v2beta1", "a")),
            get(
                200,
                format!("{}?watch=1&timeoutSeconds=1", things("v1beta1")),
            ),
            delete(200, thing_path("v1beta1", "a")),
        ],
    )
}

fn a_namespace_of_an_object_without_one() -> Row {
    let plain = |namespace: &str, a: &str| json!({"apiVersion": "test.example.com/v1", "kind": "Plain", "metadata": {"name": "{ns}", "namespace": namespace, "resourceVersion": "{rv}"}, "spec": {"a": a}});
    let path = "/apis/test.example.com/v1/plains/{ns}";
    let apply = json!({"apiVersion": "test.example.com/v1", "kind": "Plain", "metadata": {"name": "{ns}", "namespace": "x"}, "spec": {"a": "4"}});
    row(
        "a Namespace of an object without one",
        [
            ssa(201, format!("{path}?fieldManager=x"), apply.clone()),
            put(200, path, plain("{ns}", "2")),
            merge(
                200,
                path,
                json!({"metadata": {"namespace": "x"}, "spec": {"a": "3"}}),
            ),
            ssa(200, format!("{path}?fieldManager=x&force=true"), apply),
            merge(
                200,
                "/api/v1/namespaces/{ns}",
                json!({"metadata": {"namespace": "x", "labels": {"a": "b"}}}),
            ),
        ],
    )
}

fn definitions() -> Resource {
    Resource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Returns a server with a definition of Things and one Thing `a`.
fn server_with_a_thing() -> (ApiServer, Resource) {
    let server = ApiServer::new(system_time());
    let [define, _] = define(json!([version("v1", true, first_spec())]));
    let text = define.body_text().replace("{ns}", "x");
    let definition: Value = serde_json::from_str(&text).unwrap();
    let things = Resource::new("x.example.com", "v1", "things");
    let created = |resource: &Resource, object: Value| {
        let call = ApiRequest::new(Verb::Create, resource).body(object);
        assert_eq!(server.call(&call).code, 201);
    };
    created(&definitions(), definition);
    let a = json!({"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    created(&things, a);
    (server, things)
}

fn delete_definition(server: &ApiServer) -> ApiResponse {
    let call = ApiRequest::new(Verb::Delete, &definitions()).name("things.x.example.com");
    server.call(&call)
}

/// Denies the deletion of Things.
struct KeepsThings;

impl Admission for KeepsThings {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        if review.resource.plural == "things" && review.operation == Operation::Delete {
            return Err(Status::denied("keep.example.com", "this stays"));
        }
        Ok(None)
    }
}

/// The real server has no admission in this table.
#[test]
fn the_end_of_a_definition_is_not_reviewed() {
    let (server, things) = server_with_a_thing();
    server.set_admission(Arc::new(KeepsThings));
    assert_eq!(delete_definition(&server).code, 200);
    assert_eq!(server.objects(&things, "").len(), 0);
    assert_eq!(server.objects(&definitions(), "").len(), 0);
}

/// Adds a finalizer to what is deleted, while its deletion is reviewed.
struct AddsFinalizer {
    server: ApiServer,
    done: AtomicBool,
}

impl Admission for AddsFinalizer {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        let is_deletion = review.operation == Operation::Delete;
        if is_deletion && !self.done.swap(true, Ordering::Relaxed) {
            let call = ApiRequest::new(Verb::Patch(Patch::Merge), review.resource)
                .name(review.name)
                .body(json!({"metadata": {"finalizers": ["example.com/f"]}}));
            assert_eq!(self.server.call(&call).code, 200);
        }
        Ok(None)
    }
}

#[test]
fn a_deletion_does_not_undo_a_change_at_the_same_time() {
    for resource in [0, 1] {
        let (server, things) = server_with_a_thing();
        server.set_admission(Arc::new(AddsFinalizer {
            server: server.clone(),
            done: AtomicBool::new(false),
        }));
        let resource = [definitions(), things][resource].clone();
        let name = server.objects(&resource, "")[0]["metadata"]["name"].clone();
        let call = ApiRequest::new(Verb::Delete, &resource).name(name.as_str().unwrap());
        assert_eq!(server.call(&call).code, 200);
        let left = server.objects(&resource, "");
        let metadata = &left.first().expect("it has a finalizer")["metadata"];
        assert_eq!(metadata["finalizers"], json!(["example.com/f"]));
        assert!(metadata["deletionTimestamp"].is_string(), "{metadata}");
    }
}
