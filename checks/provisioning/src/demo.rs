//! `demo`: the check on a simulated cluster, with a model of Cluster Autoscaler and a node pool
//! that can grow. It takes no real time: time is virtual.

use std::time::Duration;

use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, Verdict,
};
use kueue_check_sim::autoscaler::{
    Autoscaler, Misbehaviour, NodePool, Profile, Selector, Settings,
};
use kueue_check_sim::explore::Run;
use kueue_check_sim::{Cluster, Job, Simulation};
use kueue_check_sim_cli::demo::{Demo, DemoError};
use serde_json::json;

use crate::{CONTROLLER_NAME, ProvisioningCheck};

const CLASS: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";

/// A person who signs off each job by hand; the one named `late` after 15 min.
struct SignOff;

impl AdmissionCheckController for SignOff {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/sign-off") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let created = request.workload().created().unwrap_or(request.now());
        let waited = Duration::try_from(request.now().duration_since(created)).unwrap_or_default();
        let needed = Duration::from_mins(15);
        if request.workload().name().contains("late") && waited < needed {
            let left = needed.saturating_sub(waited);
            return Ok(Verdict::pending("the desk is not staffed").recheck_in(left));
        }
        Ok(Verdict::ready("signed"))
    }
}

/// Runs six training jobs on a pool of one node that can grow to four, and returns the run.
///
/// # Panics
/// If the scenario does not end as expected.
pub fn run() -> Run {
    simulation().run(async |cluster| scenario(cluster).await)
}

/// Runs the demo and prints or serves the result.
///
/// # Errors
/// If the scenario does not end as expected, a file can't be written, or the port is in use.
pub fn run_and_print(demo: &Demo) -> Result<(), DemoError> {
    let title = "Six training jobs on a pool of one node that can grow to four";
    demo.run(title, &simulation(), async |cluster| {
        scenario(cluster).await;
    })
}

fn simulation() -> Simulation {
    let config = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig", "metadata": {"name": "demo"},
        "spec": {"provisioningClassName": CLASS, "retryStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 60}},
    });
    let name = ControllerName::from_static(CONTROLLER_NAME);
    Simulation::with_context(move |tools| {
        ProvisioningCheck::new(tools.client.clone(), name.clone())
    })
    .parameters(&config)
    .and("sign-off", |_| SignOff)
    .quota(32)
}

async fn scenario(cluster: &Cluster) {
    let node = [("cpu", "8"), ("memory", "32Gi")];
    let failure = Misbehaviour::Fails {
        reason: "InternalError".to_owned(),
        message: "the cloud said 500".to_owned(),
    };
    let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &node, 1, 4)])
        .jobs_without_pods(true)
        .misbehave(Selector::all().name("job-retried-*-1"), failure)
        .misbehave(
            Selector::all().name("job-revoked-*"),
            Misbehaviour::Revoked(Duration::from_mins(20)),
        );
    let autoscaler = Autoscaler::new(cluster.server().clone(), cluster.clock().clone(), settings);
    tokio::spawn(async move { autoscaler.run().await });
    for name in ["first", "second", "retried", "late", "revoked"] {
        cluster.submit(Job::new(name).cpus(4));
        cluster.advance(Duration::from_mins(1)).await;
    }
    cluster.submit(Job::new("last").pods(4).cpus(4));
    cluster.advance(Duration::from_mins(12)).await;
    for name in ["first", "second", "retried", "late"] {
        cluster.expect_admitted(name).await;
    }
    cluster.expect_deactivated("revoked").await;
    for name in ["first", "second", "retried", "late"] {
        cluster.complete(name);
        cluster.expect_finished(name).await;
    }
    cluster.expect_admitted("last").await;
    cluster.advance(Duration::from_mins(10)).await;
    cluster.complete("last");
    cluster.expect_finished("last").await;
}
