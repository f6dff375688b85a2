//! How fast the simulator is:
//! `cargo bench -p kueue-check-sim --bench speed -- [life|explore|week] [NUMBER or SCENARIO]`;
//! without a word all three.
//!
//! * `life`: so many Workloads (10,000) through the whole life cycle with the real runtime:
//!   submitted, reserved, checked, admitted, started, finished.
//! * `explore`: a scenario (`approve`) with every single fault, and how many runs that are in a
//!   second.
//! * `week`: a week in which nothing happens, with fifty running jobs.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kueue_check::Verdict;
use kueue_check_sim::apiserver::{ApiServer, Resource, Watch, WatchOptions};
use kueue_check_sim::kueue::Actor;
use kueue_check_sim::scenarios::{Scenario, Scripted};
use kueue_check_sim::{FaultPlan, Job, Simulation, jobs};
use serde_json::Value;

/// Ends each Job as soon as it has started.
struct Finisher {
    server: ApiServer,
    jobs: Option<Watch>,
}

impl Finisher {
    fn new(server: &ApiServer) -> Self {
        let jobs = WatchOptions::all(&Resource::new("batch", "v1", "jobs"));
        Self {
            server: server.clone(),
            jobs: server.watch(jobs).ok(),
        }
    }
}

impl Actor for Finisher {
    fn step(&mut self) -> bool {
        let Some(event) = self.jobs.as_mut().and_then(Watch::ready) else {
            return false;
        };
        let job = &event.object;
        if job["spec"]["suspend"] == false && job["status"]["conditions"].is_null() {
            let (namespace, name) = (&job["metadata"]["namespace"], &job["metadata"]["name"]);
            jobs::finish(&self.server, text(namespace), text(name));
        }
        true
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        None
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_finished(workload: &Value) -> bool {
    let conditions = workload["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == "Finished" && c["status"] == "True")
}

/// How long the threads of this process have had a processor: what others do on the machine does not
/// count. Zero where Linux does not report it.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name of the program, which may contain spaces (proc_pid_stat(5)).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_whitespace().skip(11).take(2);
    let hundredths: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * hundredths)
}

/// Real time, and time of the processor.
#[derive(Clone, Copy)]
struct Began(Instant, Duration);

impl Began {
    fn now() -> Self {
        #[expect(clippy::disallowed_methods, reason = "a benchmark is about real time")]
        let real = Instant::now();
        Self(real, processor_time())
    }

    fn took(self) -> String {
        let processor = processor_time().saturating_sub(self.1);
        format!("{:.1?}, {processor:.1?} of the processor", self.0.elapsed())
    }
}

fn approving() -> Simulation {
    Simulation::new(|| Scripted::new(|_| Ok(Verdict::ready("may start"))))
}

fn life(count: usize) {
    let workloads = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
    let simulation = approving()
        .quota(1_000)
        .actor(|server, _| Finisher::new(server));
    let began = Began::now();
    let run = simulation.run(async |cluster| {
        cluster.server().keep_changes(20_000);
        for number in 0..count {
            cluster.submit(Job::new(format!("job-{number}")));
        }
        for _ in 0..count {
            cluster.advance(Duration::from_secs(1)).await;
            let all = cluster.server().objects(&workloads, "");
            if all.len() == count && all.iter().all(|workload| is_finished(workload)) {
                return;
            }
        }
        panic!("not all are finished");
    });
    let took = began.took();
    let requests = run.requests;
    println!(
        "{count} Workloads submitted, reserved, checked, admitted, started and finished: {took}, {requests} requests of the check"
    );
}

fn explore(name: &str) {
    let Some(scenario) = Scenario::named(name) else {
        eprintln!("there is no scenario `{name}`");
        return;
    };
    let run = scenario.run(0, &FaultPlan::none());
    println!(
        "{name}, a run without a fault: {} changes of objects, {} requests of the check",
        run.history().len(),
        run.requests
    );
    let began = Began::now();
    println!(
        "{name}: {}",
        scenario.simulation().explore(scenario.steps())
    );
    println!("{name}: {}", began.took());
}

fn week() {
    let took = Mutex::new(String::new());
    let run = approving().run(async |cluster| {
        for number in 0..50 {
            cluster.submit(Job::new(format!("job-{number}")));
        }
        cluster.expect_admitted("job-49").await;
        let began = Began::now();
        cluster.advance(Duration::from_hours(7 * 24)).await;
        *took.lock().unwrap_or_else(PoisonError::into_inner) = began.took();
    });
    let took = took.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "a week in which nothing happens, with fifty running jobs: {took}, {} requests of the check",
        run.requests
    );
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (what, more) = (words.next(), words.next());
    match what.as_deref() {
        Some("life") => life(more.and_then(|n| n.parse().ok()).unwrap_or(10_000)),
        Some("explore") => explore(more.as_deref().unwrap_or("approve")),
        Some("week") => week(),
        None => {
            week();
            explore("approve");
            life(10_000);
        }
        Some(other) => eprintln!("`{other}` is none of life, explore, week"),
    }
}
