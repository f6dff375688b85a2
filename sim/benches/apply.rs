//! How long the API server takes for a check's apply of one entry on a Workload of 6 KB, in
//! process: `cargo bench -p kueue-check-sim --bench apply`.
//!
//! Prints the shortest and the median of several rounds, and how long the other calls of a small
//! simulation take.

use std::hint::black_box;
use std::time::{Duration, Instant};

use kueue_check_sim::apiserver::{
    ApiRequest, ApiServer, CompiledDefinitions, Patch, Resource, Verb,
};
use serde_json::{Value, json};

const ROUNDS: usize = 9;
const CALLS: u32 = 2_000;

fn workload() -> Value {
    let variables: Vec<Value> = (0..60)
        .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("a value of some length {n}")}))
        .collect();
    let container = json!({
        "name": "main", "image": "registry.example.com/team/image:1.2.3", "args": ["--one", "--two"], "env": variables,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
    });
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default", "finalizers": ["kueue.x-k8s.io/resource-in-use"], "labels": {"a": "b"}},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 3, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}]},
    })
}

fn status() -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2025-03-01T09:00:00Z", "observedGeneration": 1});
    json!({"status": {
        "conditions": [condition("QuotaReserved"), condition("PodsReady")],
        "admission": {"clusterQueue": "c", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f", "memory": "f"}, "resourceUsage": {"cpu": "3", "memory": "3Gi"}, "count": 3}]},
        "admissionChecks": [
            {"name": "a", "state": "Pending", "message": "", "lastTransitionTime": "2025-03-01T09:00:00Z"},
            {"name": "b", "state": "Pending", "message": "", "lastTransitionTime": "2025-03-01T09:00:00Z"},
        ],
    }})
}

fn entry(n: u32) -> Value {
    let state = if n.is_multiple_of(2) {
        "Ready"
    } else {
        "Pending"
    };
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w", "namespace": "default"},
        "status": {"admissionChecks": [{"name": "a", "state": state, "message": format!("message {n}"), "lastTransitionTime": "2025-03-01T09:00:00Z", "podSetUpdates": []}]},
    })
}

fn server(prepared: &CompiledDefinitions) -> ApiServer {
    let server = ApiServer::with_definitions(kueue_check::Clock::system(), prepared);
    let workloads = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
    let call = |verb| ApiRequest::new(verb, &workloads).namespace("default");
    must(&server, &call(Verb::Create).body(workload()).agent("kueue"));
    let change = call(Verb::Patch(Patch::Merge))
        .name("w")
        .subresource("status");
    must(&server, &change.body(status()).agent("kueue"));
    server.keep_changes(1_000);
    server
}

fn must(server: &ApiServer, call: &ApiRequest) {
    let response = server.call(call);
    assert!(response.code < 300, "{}", response.body);
    black_box(response);
}

/// The shortest and the median of the rounds, as the time of one call.
fn measure(name: &str, mut one: impl FnMut(u32)) {
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            #[expect(clippy::disallowed_methods, reason = "a benchmark is about real time")]
            let began = Instant::now();
            (0..CALLS).for_each(&mut one);
            began.elapsed() / CALLS
        })
        .collect();
    rounds.sort_unstable();
    println!("{name}: {:?}, median {:?}", rounds[0], rounds[ROUNDS / 2]);
}

fn main() {
    let workloads = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
    let prepared = kueue_check_sim::definitions::kueue();
    let call = |verb| ApiRequest::new(verb, &workloads).namespace("default");
    let server = server(prepared);
    let size = server
        .object(&workloads, "default", "w")
        .map_or(0, |w| w.to_string().len());
    println!("a Workload of {size} bytes");
    let apply = call(Verb::Patch(Patch::Apply))
        .name("w")
        .subresource("status")
        .query("fieldManager", "check-a")
        .query("force", "true");
    measure("apply of one entry of the status", |n| {
        must(&server, &apply.clone().body(entry(n)));
    });
    let merge = call(Verb::Patch(Patch::Merge))
        .name("w")
        .subresource("status");
    measure("merge patch of one condition", |n| {
        let conditions = json!({"status": {"conditions": [{"type": "QuotaReserved", "status": "True", "reason": format!("R{n}"), "message": "m", "lastTransitionTime": "2025-03-01T09:00:00Z"}]}});
        must(&server, &merge.clone().body(conditions));
    });
    let create = call(Verb::Create).query("dryRun", "All");
    measure("creation, dry", |n| {
        let mut object = workload();
        object["metadata"]["name"] = format!("w-{n}").into();
        must(&server, &create.clone().body(object));
    });
    let get = call(Verb::Get).name("w");
    measure("get", |_| must(&server, &get));
    measure("a new server", |_| {
        black_box(ApiServer::with_definitions(
            kueue_check::Clock::system(),
            prepared,
        ));
    });
}
