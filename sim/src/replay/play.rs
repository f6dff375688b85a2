//! A trace, played in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kueue_check::Clock;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::ReplayError;
use super::request;
use super::trace::Trace;
use crate::apiserver::{Answer, ApiServer, Call, Change, Prepared, Resource, Verb};
use crate::jobs::JobController;
use crate::kueue::api::kueue;
use crate::kueue::{Kueue, KueueVersion, Webhook, run};

/// What the model did.
pub(super) struct Played {
    /// For each step its answers, and the version before it.
    pub(super) steps: Vec<(u64, Vec<Answer>)>,
    /// All changes.
    pub(super) history: Vec<Arc<Change>>,
    /// Generated names of Workloads and the short ones.
    pub(super) names: BTreeMap<String, String>,
}

/// Plays the steps at their times, and lets the model come to rest.
pub(super) async fn play(
    trace: &Trace,
    kinds: &Prepared,
    version: KueueVersion,
) -> Result<Played, ReplayError> {
    let clock = Clock::following_tokio(trace.start());
    let zero = Instant::now();
    let server = ApiServer::prepared(clock.clone(), kinds);
    server.set_admission(Arc::new(Webhook));
    namespace(&server);
    let kueue = Kueue::new(&server, &clock, version);
    let jobs = JobController::new(&server, &clock, version);
    let actors = [
        tokio::spawn(run(kueue, server.clone(), clock.clone())),
        tokio::spawn(run(jobs, server.clone(), clock.clone())),
    ];
    let mut steps = Vec::new();
    for step in &trace.steps {
        sleep_until(zero + Duration::try_from_secs_f64(step.t).unwrap_or_default()).await;
        let before = server.resource_version();
        let mut answers = Vec::new();
        for recorded in &step.calls {
            let call = request::call(recorded, &server, &present_names(trace, &server))?;
            answers.push(server.call(&call));
        }
        steps.push((before, answers));
    }
    rest(&server).await;
    for actor in actors {
        actor.abort();
    }
    Ok(Played {
        steps,
        history: server.history(),
        names: short_names(&server),
    })
}

/// Until nothing has changed for two seconds.
async fn rest(server: &ApiServer) {
    const LONGEST: usize = 30;
    for _ in 0..LONGEST {
        let before = server.resource_version();
        sleep(Duration::from_secs(2)).await;
        if server.resource_version() == before {
            return;
        }
    }
}

fn namespace(server: &ApiServer) {
    let resource = Resource::new("", "v1", "namespaces");
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}});
    server.call(&Call::new(Verb::Create, &resource).body(body));
}

/// The Workloads of Jobs, by generated name.
fn short_names(server: &ApiServer) -> BTreeMap<String, String> {
    let workloads = server
        .history()
        .into_iter()
        .filter(|c| c.resource == kueue("workloads"));
    workloads
        .filter_map(|change| {
            let metadata = &change.object["metadata"];
            let owner = metadata["ownerReferences"][0]["name"].as_str()?;
            Some((metadata["name"].as_str()?.to_owned(), owner.to_owned()))
        })
        .collect()
}

/// Recorded generated names, and those of the same Workloads here.
fn present_names(trace: &Trace, server: &ApiServer) -> BTreeMap<String, String> {
    if trace.workload_names.is_empty() {
        return BTreeMap::new();
    }
    let here = short_names(server);
    let names = trace.workload_names.iter();
    names
        .filter_map(|(then, short)| {
            let now = here.iter().rfind(|(_, s)| *s == short)?.0;
            Some((then.clone(), now.clone()))
        })
        .collect()
}
