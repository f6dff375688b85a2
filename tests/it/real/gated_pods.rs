//! KEP-3838: `scheduling_directives_may_change` allows the same changes of a gated Pod as the API
//! server.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::Api;
use kube::api::PostParams;
use kueue_check::scheduling_directives_may_change;
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::{Value, json};

use super::harness::{on_simulated_server, unique, world};

fn required(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn exists(keys: &[&str]) -> Value {
    let expressions: Vec<Value> = keys
        .iter()
        .map(|key| json!({"key": key, "operator": "Exists"}))
        .collect();
    json!({"matchExpressions": expressions})
}

fn preferred(weight: i32) -> Value {
    json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": exists(&["a"])}]})
}

/// Returns the old and the new directives of each change.
fn changes() -> Vec<(Value, Value)> {
    let field = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
    vec![
        (json!({}), json!({})),
        (json!({}), json!({"nodeSelector": {"a": "1"}})),
        (
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
        ),
        (
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"a": "2"}}),
        ),
        (
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"b": "2"}}),
        ),
        (json!({"nodeSelector": {"a": "1"}}), json!({})),
        (
            json!({}),
            json!({"affinity": required(json!([exists(&["a"])]))}),
        ),
        (
            json!({}),
            json!({"affinity": required(json!([exists(&["a"]), exists(&["b"])]))}),
        ),
        (
            json!({"affinity": required(json!([exists(&["a"])]))}),
            json!({"affinity": required(json!([exists(&["a", "b"])]))}),
        ),
        (
            json!({"affinity": required(json!([exists(&["a"])]))}),
            json!({"affinity": required(json!([exists(&["b", "a"])]))}),
        ),
        (
            json!({"affinity": required(json!([exists(&["a", "b"])]))}),
            json!({"affinity": required(json!([exists(&["a"])]))}),
        ),
        (
            json!({"affinity": required(json!([exists(&["a"])]))}),
            json!({"affinity": required(json!([exists(&["a"]), exists(&["b"])]))}),
        ),
        (
            json!({"affinity": required(json!([exists(&["a"]), exists(&["b"])]))}),
            json!({"affinity": required(json!([exists(&["a"])]))}),
        ),
        (
            json!({"affinity": required(json!([exists(&["a"])]))}),
            json!({}),
        ),
        (
            json!({"affinity": required(json!([exists(&["a"])]))}),
            json!({"affinity": {"nodeAffinity": preferred(1)}}),
        ),
        (
            json!({"affinity": required(json!([field("n1")]))}),
            json!({"affinity": required(json!([field("n2")]))}),
        ),
        (
            json!({"affinity": {"nodeAffinity": preferred(1)}}),
            json!({"affinity": {"nodeAffinity": preferred(9)}}),
        ),
        (
            json!({"affinity": {"nodeAffinity": preferred(1)}}),
            json!({}),
        ),
        (
            json!({}),
            json!({"affinity": {"nodeAffinity": preferred(1)}}),
        ),
        (
            json!({}),
            json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}),
        ),
        (
            json!({}),
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]}}}),
        ),
        (
            json!({}),
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            json!({}),
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]}),
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]}),
            json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}]}),
        ),
        (json!({}), json!({"schedulingGates": [{"name": "another"}]})),
    ]
}

#[tokio::test]
async fn the_api_server_and_the_function_agree_on_every_change() {
    if on_simulated_server() {
        eprintln!(
            "SKIPPED: sim/kueue-model/tests/it/jobs/directives.rs compares the simulated API server with the real server"
        );
        return;
    }
    let Some(world) = world(V0_19_2).await else {
        return;
    };
    let api: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let mut compared = 0;
    for gated in [true, false] {
        for released in [false, true] {
            if released && !gated {
                continue;
            }
            for (old, new) in changes() {
                let gates = json!([{"name": "example.com/gate"}]);
                let pod = |directives: &Value, with_gate: bool| {
                    let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
                    spec.as_object_mut()
                        .unwrap()
                        .extend(directives.as_object().unwrap().clone());
                    if with_gate {
                        let extra = spec
                            .get("schedulingGates")
                            .and_then(Value::as_array)
                            .cloned()
                            .unwrap_or_default();
                        spec["schedulingGates"] = Value::Array(
                            gates
                                .as_array()
                                .unwrap()
                                .iter()
                                .cloned()
                                .chain(extra)
                                .collect(),
                        );
                    }
                    spec
                };
                let name = unique("pod");
                let created: Pod = serde_json::from_value(
                    json!({"metadata": {"name": name}, "spec": pod(&old, gated)}),
                )
                .unwrap();
                let mut stored = api.create(&PostParams::default(), &created).await.unwrap();
                let before: PodSpec = stored.spec.clone().unwrap();
                // The server has filled in defaults; only the directives change.
                let wanted: PodSpec =
                    serde_json::from_value(pod(&new, gated && !released)).unwrap();
                let after = PodSpec {
                    node_selector: wanted.node_selector,
                    affinity: wanted.affinity,
                    scheduling_gates: wanted.scheduling_gates,
                    tolerations: Some(tolerations(&before, &old, wanted.tolerations)),
                    ..before.clone()
                };
                stored.spec = Some(after.clone());
                let result = api.replace(&name, &PostParams::default(), &stored).await;
                let ours = scheduling_directives_may_change(&before, &after);
                let change = format!("gated: {gated}, released: {released}: {old} -> {new}");
                match result {
                    Ok(_) => assert!(
                        ours.is_empty(),
                        "{change}: the server accepts what we refuse: {ours:?}"
                    ),
                    Err(kube::Error::Api(status)) => {
                        assert_eq!(status.code, 422, "{change}: {status:?}");
                        let causes = status
                            .details
                            .clone()
                            .map(|details| details.causes)
                            .unwrap_or_default();
                        for refused in &ours {
                            let reported = causes.iter().any(|cause| {
                                cause.field == refused.field
                                    && cause.message.contains(refused.message)
                            });
                            assert!(
                                reported,
                                "{change}: we report {refused:?}, the server {causes:#?}"
                            );
                        }
                        assert!(
                            !ours.is_empty(),
                            "{change}: the server refuses what we accept: {causes:#?}"
                        );
                    }
                    Err(error) => panic!("{change}: {error}"),
                }
                compared += 1;
            }
        }
    }
    println!("{compared} changes compared");
}

/// Keeps the tolerations that the server has added.
fn tolerations(
    stored: &PodSpec,
    old: &Value,
    wanted: Option<Vec<k8s_openapi::api::core::v1::Toleration>>,
) -> Vec<k8s_openapi::api::core::v1::Toleration> {
    let sent = old["tolerations"].as_array().map_or(0, Vec::len);
    let added = stored.tolerations.iter().flatten().skip(sent).cloned();
    wanted
        .unwrap_or_default()
        .into_iter()
        .chain(added)
        .collect()
}
