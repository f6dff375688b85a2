//! KEP-3838: permitted changes of a Pod, gated or not, on both servers.

use std::fmt::Write as _;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use kueue_check::Clock;
use kueue_check_apiserver::{ApiRequest, ApiServer, Resource, Verb};
use kueue_check_kueue_model::definitions;
use kueue_check_kueue_model::kueue::Webhook;
use kueue_check_testenv::Cluster;
use serde_json::{Value, json};

use crate::kueue::cluster::with;

fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn exists(keys: &[&str]) -> Value {
    let expressions = keys
        .iter()
        .map(|key| json!({"key": key, "operator": "Exists"}));
    json!({"matchExpressions": expressions.collect::<Vec<Value>>()})
}

fn preferred(weight: i32) -> Value {
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": exists(&["a"])}]}}})
}

/// Returns the changes, each as the old and the new scheduling directives.
fn changes() -> Vec<(Value, Value)> {
    let select = |value: Value| json!({"nodeSelector": value});
    let (a, b, ab, ba) = (
        exists(&["a"]),
        exists(&["b"]),
        exists(&["a", "b"]),
        exists(&["b", "a"]),
    );
    let tolerate = |more: Value| {
        let toleration = with(json!({"key": "a", "operator": "Exists"}), &more);
        json!({"tolerations": [toleration]})
    };
    let named = |name: &str| json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]);
    let (near, apart) = (
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]}),
        json!({"preferredDuringSchedulingIgnoredDuringExecution": []}),
    );
    let none = json!({});
    vec![
        (none.clone(), none.clone()),
        (none.clone(), select(json!({"a": "1"}))),
        (
            select(json!({"a": "1"})),
            select(json!({"a": "1", "b": "2"})),
        ),
        (select(json!({"a": "1"})), select(json!({"a": "2"}))),
        (select(json!({"a": "1"})), select(json!({"b": "2"}))),
        (select(json!({"a": "1"})), none.clone()),
        (none.clone(), required(&json!([a]))),
        (none.clone(), required(&json!([a, b]))),
        (required(&json!([a])), required(&json!([ab]))),
        (required(&json!([a])), required(&json!([ba]))),
        (required(&json!([ab])), required(&json!([a]))),
        (required(&json!([a])), required(&json!([a, b]))),
        (required(&json!([a, b])), required(&json!([a]))),
        (required(&json!([a])), none.clone()),
        (required(&json!([a])), preferred(1)),
        (required(&named("n1")), required(&named("n2"))),
        (preferred(1), preferred(9)),
        (preferred(1), none.clone()),
        (none.clone(), preferred(1)),
        (none.clone(), json!({"affinity": {"podAffinity": near}})),
        (
            none.clone(),
            json!({"affinity": {"podAntiAffinity": apart}}),
        ),
        (none.clone(), tolerate(json!({}))),
        (tolerate(json!({})), none.clone()),
        (
            tolerate(json!({})),
            tolerate(json!({"effect": "NoSchedule"})),
        ),
        (
            tolerate(json!({"effect": "NoExecute", "tolerationSeconds": 5})),
            tolerate(json!({"effect": "NoExecute", "tolerationSeconds": 9})),
        ),
        (
            none.clone(),
            json!({"schedulingGates": [{"name": "another"}]}),
        ),
        (
            none.clone(),
            json!({"priorityClassName": "system-node-critical"}),
        ),
        (none.clone(), json!({"activeDeadlineSeconds": 60})),
        (none, json!({"hostNetwork": true})),
    ]
}

/// Returns all rows: whether the Pod has a gate, whether the update removes it, and the change.
fn rows() -> Vec<(bool, bool, Value, Value)> {
    let mut rows = Vec::new();
    for (gated, released) in [(true, false), (true, true), (false, false)] {
        let of = changes()
            .into_iter()
            .map(|(old, new)| (gated, released, old, new));
        rows.extend(of);
    }
    rows
}

fn pod(number: usize, directives: &Value, gate: bool) -> Value {
    let containers = json!({"containers": [{"name": "c", "image": "x"}]});
    let mut spec = with(containers, directives);
    if gate {
        let mut gates = vec![json!({"name": "example.com/gate"})];
        gates.extend(
            spec["schedulingGates"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        );
        spec["schedulingGates"] = Value::Array(gates);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{number}"), "namespace": "default"}, "spec": spec})
}

/// Returns the stored Pod with the directives changed. Fields that the server added stay.
fn changed(stored: &Value, old: &Value, new: &Value) -> Value {
    let mut pod = stored.clone();
    let spec = pod["spec"].as_object_mut().unwrap();
    for field in [
        "nodeSelector",
        "affinity",
        "schedulingGates",
        "priorityClassName",
        "activeDeadlineSeconds",
        "hostNetwork",
    ] {
        match &new["spec"][field] {
            Value::Null if field == "priorityClassName" || field == "hostNetwork" => {}
            Value::Null => {
                spec.remove(field);
            }
            value => {
                spec.insert(field.to_owned(), value.clone());
            }
        }
    }
    let sent = old["spec"]["tolerations"].as_array().map_or(0, Vec::len);
    let known = stored["spec"]["tolerations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let wanted = new["spec"]["tolerations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let all: Vec<Value> = wanted
        .into_iter()
        .chain(known.into_iter().skip(sent))
        .collect();
    spec.insert("tolerations".to_owned(), Value::Array(all));
    pod
}

/// Returns the code. For a refusal it adds the reason, and of each cause the field, the reason and
/// the first line of the message.
fn outcome(code: u16, status: &Value) -> String {
    if code < 300 {
        return code.to_string();
    }
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<String> = causes
        .map(|cause| {
            let message = cause["message"].as_str().unwrap_or_default();
            // The following lines show the difference.
            let message = message.split('\n').next().unwrap_or_default();
            format!("{} {} {message}", cause["field"], cause["reason"])
        })
        .collect();
    causes.sort();
    format!("{code} {} {causes:#?}", status["reason"])
}

fn ours() -> Vec<String> {
    let server = ApiServer::with_definitions(Clock::system(), definitions::kueue());
    server.set_admission(Arc::new(Webhook::default()));
    let pods = Resource::new("", "v1", "pods");
    let rows = rows().into_iter().enumerate();
    rows.map(|(number, (gated, released, old, new))| {
        let before = pod(number, &old, gated);
        let create = ApiRequest::new(Verb::Create, &pods).namespace("default");
        let created = server.call(&create.body(before.clone()));
        assert_eq!(created.code, 201, "{}", created.body);
        let after = pod(number, &new, gated && !released);
        let wanted = changed(&created.body, &before, &after);
        let update = ApiRequest::new(Verb::Update, &pods).namespace("default");
        let response = server.call(&update.name(&format!("pod-{number}")).body(wanted));
        outcome(response.code, &response.body)
    })
    .collect()
}

async fn theirs(client: Client) -> Vec<String> {
    let api: Api<Pod> = Api::namespaced(client, "default");
    let mut all = Vec::new();
    for (number, (gated, released, old, new)) in rows().into_iter().enumerate() {
        let before = pod(number, &old, gated);
        let object: Pod = serde_json::from_value(before.clone()).unwrap();
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        let created = serde_json::to_value(created).unwrap();
        let after = pod(number, &new, gated && !released);
        let wanted: Pod = serde_json::from_value(changed(&created, &before, &after)).unwrap();
        let name = format!("pod-{number}");
        all.push(
            match api.replace(&name, &PostParams::default(), &wanted).await {
                Ok(_) => outcome(200, &Value::Null),
                Err(kube::Error::Api(status)) => {
                    outcome(status.code, &serde_json::to_value(*status).unwrap())
                }
                Err(error) => panic!("{error}"),
            },
        );
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_let_the_same_change() {
    let ours = ours();
    assert!(ours.iter().any(|outcome| outcome.starts_with("200")));
    assert!(ours.iter().any(|outcome| outcome.starts_with("422")));
    let Some(cluster) = Cluster::start_or_skip("the comparison of changes to Pods").await else {
        return;
    };
    let theirs = theirs(cluster.client().unwrap()).await;
    let mut report = String::new();
    for ((row, ours), theirs) in rows().iter().zip(&ours).zip(&theirs) {
        if ours != theirs {
            let (gated, released, old, new) = row;
            writeln!(report, "gated: {gated}, released: {released}: {old} -> {new}\n  real: {theirs}\n  ours: {ours}").unwrap();
        }
    }
    assert!(report.is_empty(), "{report}");
    println!("{} changes compared", ours.len());
}
