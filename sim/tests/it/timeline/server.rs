//! A timeline of an API server's history.

use std::time::Duration;

use kueue_check::Clock;
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
use kueue_check_sim::timeline::{Phase, Timeline};
use kueue_check_testenv::{KueueVersion, crds};
use serde_json::json;

use super::fixtures::start;

#[tokio::test(start_paused = true)]
async fn a_servers_history_is_drawn() {
    let clock = Clock::following_tokio(start());
    let server = ApiServer::new(clock.clone());
    server.install(crds(KueueVersion::V0_19_2).unwrap());
    let workloads = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
    let call = |verb| ApiRequest::new(verb, &workloads).namespace("default");
    let name = "train";
    let pods =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let object = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"namespace": "default", "name": name},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": pods}]},
    });
    let made = server.call(&ApiRequest {
        body: object,
        ..call(Verb::Create)
    });
    assert_eq!(made.code, 201, "{}", made.body);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let deactivated = server.call(&ApiRequest {
        body: json!({"spec": {"active": false}}),
        ..call(Verb::Patch(Patch::Merge)).name(name)
    });
    assert_eq!(deactivated.code, 200, "{}", deactivated.body);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let deleted = server.call(&call(Verb::Delete).name(name));
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    tokio::time::sleep(Duration::from_secs(60)).await;

    let timeline = Timeline::of(&server, clock.now());
    let [track] = &timeline.tracks[..] else {
        panic!("one track, not {:?}", timeline.tracks);
    };
    assert_eq!(track.title(), format!("default/{name}"));
    assert_eq!(track.time_in(Phase::Waiting), Duration::from_secs(60));
    assert_eq!(track.time_in(Phase::Deactivated), Duration::from_secs(60));
    assert_eq!(
        track.deleted.unwrap().duration_since(start()).as_secs(),
        120
    );
    assert_eq!(timeline.length(), Duration::from_secs(180));
}
