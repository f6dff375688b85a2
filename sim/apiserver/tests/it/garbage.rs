//! The garbage collector. A real API server has none: the deletions of the server itself are in the
//! table of [`super::deletes`]; these tests cover the collector alone.

use kueue_check_apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
use serde_json::{Value, json};

struct Box {
    server: ApiServer,
    resource: Resource,
}

/// An owner reference: the name of the owner, and whether it blocks the owner's removal.
type Owned = (&'static str, bool);

impl Box {
    fn new() -> Self {
        let server = ApiServer::new(kueue_check_apiserver::system_time());
        server.collect_garbage(true);
        Self {
            server,
            resource: Resource::new("", "v1", "configmaps"),
        }
    }

    fn call(&self, verb: Verb) -> ApiRequest {
        ApiRequest::new(verb, &self.resource).namespace("default")
    }

    fn make(&self, name: &str, owners: &[Owned], finalizers: &[&str]) {
        let references: Vec<Value> = owners
            .iter()
            .map(|(owner, blocks)| {
                let found = self.server.get(&self.resource, "default", owner);
                let uid = found.map_or(json!("00000000-0000-4000-8000-ffffffffffff"), |o| o["metadata"]["uid"].clone());
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": blocks})
            })
            .collect();
        let body = json!({"metadata": {"name": name, "ownerReferences": references, "finalizers": finalizers}});
        let response = self.server.call(&self.call(Verb::Create).body(body));
        assert_eq!(response.code, 201, "{}", response.body);
    }

    fn delete(&self, name: &str, policy: &str) {
        let options = json!({"propagationPolicy": policy});
        let response = self
            .server
            .call(&self.call(Verb::Delete).name(name).body(options));
        assert_eq!(response.code, 200, "{}", response.body);
    }

    /// Returns the remaining objects, with owners in brackets and a star if being deleted.
    fn left(&self) -> String {
        let objects = self.server.objects(&self.resource, "default");
        let shown = objects.iter().map(|object| {
            let metadata = &object["metadata"];
            let owners: Vec<&str> = metadata["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|owner| owner["name"].as_str())
                .collect();
            let star = if metadata["deletionTimestamp"].is_null() {
                ""
            } else {
                "*"
            };
            let owners = if owners.is_empty() {
                String::new()
            } else {
                format!("({})", owners.join(","))
            };
            format!("{}{star}{owners}", metadata["name"].as_str().unwrap())
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

/// Objects with owners and finalizers, the deleted object and the policy, the remaining objects.
type Case = (
    &'static str,
    &'static [(&'static str, &'static [Owned], &'static [&'static str])],
    (&'static str, &'static str),
    &'static str,
);

#[test]
fn what_is_owned_goes_with_its_owners() {
    const KEPT: &[&str] = &["example.com/f"];
    let cases: &[Case] = &[
        (
            "the background",
            &[
                ("a", &[], &[]),
                ("b", &[("a", false)], &[]),
                ("c", &[("b", false)], &[]),
            ],
            ("a", "Background"),
            "",
        ),
        (
            "orphans",
            &[
                ("a", &[], &[]),
                ("b", &[("a", false)], &[]),
                ("c", &[("b", false)], &[]),
            ],
            ("a", "Orphan"),
            "b c(b)",
        ),
        (
            "the foreground",
            &[("a", &[], &[]), ("b", &[("a", true)], &[])],
            ("a", "Foreground"),
            "",
        ),
        (
            "the foreground waits",
            &[("a", &[], &[]), ("b", &[("a", true)], KEPT)],
            ("a", "Foreground"),
            "a* b*(a)",
        ),
        (
            "the foreground waits for those that block only",
            &[("a", &[], &[]), ("b", &[("a", false)], KEPT)],
            ("a", "Foreground"),
            "b*(a)",
        ),
        (
            "the foreground goes down",
            &[
                ("a", &[], &[]),
                ("b", &[("a", true)], &[]),
                ("c", &[("b", true)], KEPT),
            ],
            ("a", "Foreground"),
            "a* b*(a) c*(b)",
        ),
        (
            "two owners",
            &[
                ("a", &[], &[]),
                ("b", &[], &[]),
                ("c", &[("a", false), ("b", false)], &[]),
            ],
            ("a", "Background"),
            "b c(b)",
        ),
        (
            "two owners in the foreground",
            &[
                ("a", &[], &[]),
                ("b", &[], &[]),
                ("c", &[("a", true), ("b", true)], &[]),
            ],
            ("a", "Foreground"),
            "b c(b)",
        ),
        (
            "a finalizer",
            &[("a", &[], &[]), ("b", &[("a", false)], KEPT)],
            ("a", "Background"),
            "b*(a)",
        ),
        (
            "a finalizer of the owner",
            &[("a", &[], KEPT), ("b", &[("a", false)], &[])],
            ("a", "Background"),
            "a* b(a)",
        ),
        (
            "an owner that never was",
            &[("a", &[], &[]), ("b", &[("nobody", false)], &[])],
            ("a", "Background"),
            "",
        ),
        (
            "a stranger",
            &[("a", &[], &[]), ("b", &[], &[])],
            ("a", "Background"),
            "b",
        ),
    ];
    for (name, objects, (gone, policy), left) in cases {
        let cluster = Box::new();
        for (object, owners, finalizers) in *objects {
            cluster.make(object, owners, finalizers);
        }
        cluster.delete(gone, policy);
        assert_eq!(cluster.left(), *left, "{name}");
    }
}

#[test]
fn an_owner_has_the_kind_the_name_and_the_namespace_of_the_reference() {
    // The group and version, kind, name and Namespace of the reference; whether it is kept.
    let cases = [
        (("v1", "ConfigMap", "a", "default"), true),
        (("v1", "ConfigMap", "b", "default"), false),
        (("v1", "Secret", "a", "default"), false),
        (("v1", "ConfigMap", "a", "kube-system"), false),
        // No such kind is served: the collector cannot look the owner up.
        (("v2", "ConfigMap", "b", "default"), true),
        (("example.com/v1", "ConfigMap", "a", "default"), true),
        // An object without a Namespace cannot have an owner in one.
        (("v1", "ConfigMap", "a", ""), true),
    ];
    for ((api_version, kind, name, namespace), kept) in cases {
        let cluster = Box::new();
        cluster.make("a", &[], &[]);
        let owner = cluster.server.get(&cluster.resource, "default", "a");
        let uid = owner.unwrap()["metadata"]["uid"].clone();
        let references =
            json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}]);
        let resource = if namespace.is_empty() {
            Resource::new("", "v1", "nodes")
        } else {
            cluster.resource.clone()
        };
        let body = json!({"metadata": {"name": "c", "ownerReferences": references}});
        let call = ApiRequest::new(Verb::Create, &resource).namespace(namespace);
        assert_eq!(cluster.server.call(&call.body(body)).code, 201);
        let found = cluster.server.get(&resource, namespace, "c");
        assert_eq!(
            found.is_some(),
            kept,
            "{api_version} {kind} {name} {namespace}"
        );
    }
}

#[test]
fn the_last_finalizer_lets_a_foreground_deletion_end() {
    let cluster = Box::new();
    cluster.make("a", &[], &[]);
    cluster.make("b", &[("a", true)], &["example.com/f"]);
    cluster.delete("a", "Foreground");
    assert_eq!(cluster.left(), "a* b*(a)");
    let patch = cluster.call(Verb::Patch(Patch::Merge)).name("b");
    cluster
        .server
        .call(&patch.body(json!({"metadata": {"finalizers": null}})));
    assert_eq!(cluster.left(), "");
}

#[test]
fn a_namespace_takes_what_is_in_it() {
    let cluster = Box::new();
    let namespaces = Resource::new("", "v1", "namespaces");
    let make = ApiRequest::new(Verb::Create, &namespaces).body(json!({"metadata": {"name": "n"}}));
    assert_eq!(cluster.server.call(&make).code, 201);
    for (name, finalizers) in [("a", json!([])), ("b", json!(["example.com/f"]))] {
        let body = json!({"metadata": {"name": name, "finalizers": finalizers}});
        let call = ApiRequest::new(Verb::Create, &cluster.resource).namespace("n");
        assert_eq!(cluster.server.call(&call.body(body)).code, 201);
    }
    let gone = ApiRequest::new(Verb::Delete, &namespaces).name("n");
    assert_eq!(
        cluster.server.call(&gone).body["status"]["phase"],
        "Terminating"
    );
    assert_eq!(cluster.server.objects(&cluster.resource, "n").len(), 1);
    let free = ApiRequest::new(Verb::Patch(Patch::Merge), &cluster.resource)
        .namespace("n")
        .name("b");
    cluster
        .server
        .call(&free.body(json!({"metadata": {"finalizers": null}})));
    assert!(cluster.server.objects(&cluster.resource, "n").is_empty());
    assert!(cluster.server.get(&namespaces, "", "n").is_none());
}
