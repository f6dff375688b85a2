// Shared code of the doc examples of this module. Each example includes this file; it is no module
// of the library.

use std::time::Duration;

use kueue_check::Clock;
use kueue_check_sim::apiserver::{ApiServer, ApiRequest, Change, Resource, Verb};
use kueue_check_sim::autoscaler::{Autoscaler, Settings};
use kueue_check_sim::definitions;
use serde_json::{Value, json};

/// Creates a ProvisioningRequest for `pods` pods of one CPU.
pub fn create_request(server: &ApiServer, name: &str, class: &str, pods: u32) {
    let pod = json!({"containers": [{"name": "main", "image": "job", "resources": {"requests": {"cpu": "1"}}}]});
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": {"spec": pod}});
    let sets = json!([{"count": pods, "podTemplateRef": {"name": name}}]);
    let request = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": name},
        "spec": {"provisioningClassName": class, "podSets": sets},
    });
    for (group, plural, object) in [
        ("", "podtemplates", template),
        ("autoscaling.x-k8s.io", "provisioningrequests", request),
    ] {
        let create =
            ApiRequest::new(Verb::Create, &Resource::new(group, "v1", plural)).namespace("default");
        assert_eq!(server.call(&create.body(object)).code, 201);
    }
}

/// Returns what an autoscaler writes in `minutes` minutes: the time, the name, the condition. The
/// requests (name, class, pods) are created one second apart.
pub fn written_conditions(
    settings: Settings,
    requests: &[(&str, &str, u32)],
    minutes: u64,
) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
        let server = ApiServer::with_definitions(clock.clone(), definitions::kueue());
        for (nth, (name, class, pods)) in requests.iter().enumerate() {
            tokio::time::sleep(Duration::from_secs(nth.min(1) as u64)).await;
            create_request(&server, name, class, *pods);
        }
        let autoscaler = Autoscaler::new(server.clone(), clock, settings);
        tokio::time::timeout(Duration::from_secs(60 * minutes), autoscaler.run())
            .await
            .unwrap_err();
        server
            .history()
            .iter()
            .flat_map(|change| changes_of(change))
            .collect()
    })
}

fn conditions(object: &Value) -> Vec<Value> {
    object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn changes_of(change: &Change) -> Vec<String> {
    let before = change
        .previous
        .as_deref()
        .map(conditions)
        .unwrap_or_default();
    let new = conditions(&change.object)
        .into_iter()
        .filter(|condition| !before.contains(condition));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (at, name) = (
        change.at.strftime("%T"),
        text(&change.object["metadata"]["name"]),
    );
    new.map(|c| {
        format!(
            "{at} {name} {}={} {}",
            text(&c["type"]),
            text(&c["status"]),
            text(&c["reason"])
        )
    })
    .collect()
}
