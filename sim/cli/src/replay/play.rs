//! Playing a trace in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kueue_check::Clock;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::precondition::Preconditions;
use super::races::Races;
use super::trace::at;
use super::{
    Difference, NAMESPACE, Replay, ReplayError, Start, figures, initial, looks, names, playback,
    request, stand_in,
};
use kueue_check_sim::apiserver::{ApiRequest, ApiResponse, ApiServer, Change, Resource, Verb};
use kueue_check_sim::jobs::Jobs;
use kueue_check_sim::kueue::{Kueue, Pace, Webhook, run_at};

/// The result of a replay.
pub(super) struct ReplayResult {
    /// The responses of each step, with the version before it.
    pub(super) steps: Vec<(u64, Vec<ApiResponse>)>,
    /// The objects that existed when the recording began, and all changes since.
    pub(super) history: Vec<Arc<Change>>,
    /// Generated names of Workloads, with the short ones.
    pub(super) names: BTreeMap<String, String>,
    /// Figures of the ClusterQueue that differ from the recorded ones.
    pub(super) looks: Vec<Difference>,
}

/// The time that a recording continues after the last change.
const REST: Duration = Duration::from_millis(1500);

/// The delay of a later request of a step after the one before it, whose effects the recorder had
/// observed.
const BETWEEN: Duration = Duration::from_millis(50);

/// Plays the steps at their times, to the end of the recording. `beside` starts other controllers.
pub(super) async fn play(
    replay: &Replay,
    races: &Races,
    beside: Vec<Start>,
) -> Result<ReplayResult, ReplayError> {
    let trace = &replay.trace;
    let start = trace.start().saturating_add(races.shift);
    let start = start.unwrap_or(trace.start());
    let clock = Clock::following_tokio(initial::first_time(trace, start));
    let kinds = replay.kinds.as_ref();
    let kinds = kinds.unwrap_or_else(|| kueue_check_sim::definitions::of_version(replay.version));
    let server = ApiServer::with_definitions(clock.clone(), kinds);
    namespace(&server);
    initial::put(trace, &server, &clock, start).await;
    let version = races.of_all().version(replay.version);
    server.set_admission(Arc::new(Webhook::of_version(version)));
    let kueue = Kueue::new(&server, &clock, version);
    let switch = kueue.switch();
    let jobs = Jobs::of_version(&server, &clock, version);
    let pace = Pace::default();
    let paces = [pace.clone(), pace.beside()];
    let [of_kueue, of_jobs] = paces.clone();
    tokio::spawn(run_at(kueue, server.clone(), clock.clone(), of_kueue));
    tokio::spawn(run_at(jobs, server.clone(), clock.clone(), of_jobs));
    initial::wait_for(&clock, start).await;
    let (zero, loaded) = (Instant::now(), server.resource_version());
    if beside.is_empty() {
        playback::play_back(trace, &server, zero);
    }
    stand_in::play_back(trace, &server, zero);
    for start in beside {
        start(&server, &clock);
    }
    let mut steps = Vec::new();
    let mut looks = Vec::new();
    let mut preconditions = Preconditions::of(trace);
    for (number, step) in trace.steps.iter().enumerate() {
        sleep_until(at(zero, step.t)).await;
        let outcome = races.of_step(number);
        switch.set(outcome.version(replay.version));
        for (pace, lag) in paces.iter().zip(outcome.lags) {
            pace.lag(lag);
        }
        let mut before = server.resource_version();
        let mut responses = Vec::new();
        let requests = step.calls.iter().filter(|call| !call.is_look());
        for look in step.calls.iter().filter(|call| call.is_look()) {
            looks.extend(looks::difference(&step.name, &look.look, &server));
        }
        let count = requests.clone().count();
        for (at, recorded) in requests.enumerate() {
            if at > 0 {
                sleep(BETWEEN).await;
            }
            let step_before = number.saturating_sub(usize::from(at == 0));
            let names = if races.of_step(step_before).steps_between.is_none() {
                preconditions.wait(recorded, trace, &server).await
            } else {
                names::present(trace, &server)
            };
            let another = at + 1 < count || trace.follows_at_once(number + 1);
            match outcome.steps_between {
                Some(_) if another && outcome.in_total && at > 0 => {}
                Some(steps) if another => pace.limit(steps),
                _ => pace.go_on(),
            }
            if at == 0 {
                before = server.resource_version();
            }
            let call = request::call(recorded, &server, &names)?;
            responses.push(server.call(&call));
        }
        preconditions.update(step);
        steps.push((before, responses));
    }
    let end = at(zero, trace.end()) + REST;
    let (last, before) = (trace.steps.last(), steps.last().map(|(before, _)| *before));
    if let Some((last, before)) = last.zip(before).filter(|_| trace.endless) {
        // Enough to compare with what was recorded.
        let enough = before.saturating_add(2 * last.observed.len() as u64);
        while Instant::now() < end && server.resource_version() < enough {
            sleep(BETWEEN).await;
        }
    } else {
        sleep_until(end).await;
    }
    let names = names::short(&server);
    if !trace.endless {
        looks.extend(figures::differences(trace, &server, &names));
    }
    Ok(ReplayResult {
        steps,
        history: since(server.history(), loaded),
        names,
        looks,
    })
}

/// Returns the last state of each object at this version, and the changes since.
fn since(history: Vec<Arc<Change>>, version: u64) -> Vec<Arc<Change>> {
    let (before, mut after): (Vec<_>, Vec<_>) = history
        .into_iter()
        .partition(|change| change.resource_version <= version);
    let before = before
        .into_iter()
        .filter(|change| change.resource.plural != "events");
    let key = |change: &Change| {
        (
            change.resource.clone(),
            change.object["metadata"]["name"].to_string(),
        )
    };
    let last: BTreeMap<_, _> = before.map(|change| (key(&change), change)).collect();
    let mut all: Vec<Arc<Change>> = last.into_values().collect();
    all.append(&mut after);
    all
}

fn namespace(server: &ApiServer) {
    let resource = Resource::new("", "v1", "namespaces");
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    server.call(&ApiRequest::new(Verb::Create, &resource).body(body));
}
