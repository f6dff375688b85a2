//! A check decides.

use kueue_check::runtime::Runtime;
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters,
    PodSetUpdates, Verdict,
};
use kueue_check_testenv::KueueVersion;
use serde_json::{Value, json};

use super::world::{Running, world};

struct Labels;

impl AdmissionCheckController for Labels {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/labels") }
    }

    async fn check(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let names = request
            .workload()
            .pod_sets()
            .iter()
            .map(|pod_set| pod_set.name().to_owned());
        let updates = PodSetUpdates::builder()
            .pod_sets(names, |pods| pods.label("example.com/ticket", "t-1"))
            .build()?;
        Ok(Verdict::ready("here is your ticket").with_updates(updates))
    }
}

#[tokio::test]
async fn a_workload_with_quota_gets_ready_with_pod_set_updates() {
    let Some(world) = world(KueueVersion::V0_19_2).await else {
        return;
    };
    world
        .admission_check("labels", "example.com/labels", Value::Null)
        .await;
    let running = Running::start(Runtime::builder(world.client.clone()).check(Labels));
    world.wait_active("labels", "True", "Active").await;
    world.workload("a").await;
    world.reserve("a", &["labels"]).await;
    let entry = world.wait_state("a", "labels", "Ready").await;
    assert_eq!(entry["message"], "here is your ticket");
    assert_eq!(
        entry["podSetUpdates"],
        json!([
            {"name": "driver", "labels": {"example.com/ticket": "t-1"}},
            {"name": "workers", "labels": {"example.com/ticket": "t-1"}},
        ])
    );
    running.stop().await;
}
