//! One run, from the start of the servers to the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kueue_check_testenv::{
    Cluster, JobController, Kueue, KueueOptions, KueueVersion, crds, crds_of_autoscaler,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Arguments;
use crate::autoscaler::{autoscaler, collector};
use crate::calendar::storms;
use crate::chaos::{Source, Targets};
use crate::cluster::{Failure, Writer};
use crate::driver::{Driver, Phase};
use crate::jobs::{Node, Users};
use crate::judge::{
    BOUND, Ends, Lost, Report, Sample, Subject as Needs, affordable, condition, leftovers,
    obligations, overspent, slope, words,
};
use crate::meter::{Meter, Seconds};
use crate::program::{Folders, Replica, Subject, certificate, install};
use crate::proxy::{Counts, Faults};
use crate::scene::{BUDGET, KUEUE, PERIOD, PROVISIONING, accounts, budget, objects};
use crate::source;
use crate::witness::{Kind, Witness};

/// The maximum time for the start, and for the end.
const TIMEOUT: Duration = Duration::from_secs(150);

/// The factor by which limits are raised at the end.
const RAISED: f64 = 1000.0;

type Samples = BTreeMap<&'static str, Vec<Sample>>;

/// The state of a run.
struct Run {
    targets: Targets,
    meter: Arc<StdMutex<Meter>>,
    lost: StdMutex<Lost>,
    samples: StdMutex<Samples>,
    /// The end of the last faults, or `None` while there are faults.
    calm_since: StdMutex<Option<Seconds>>,
    /// When the first period began.
    anchor: Timestamp,
    /// The start of the first period in seconds.
    began: Seconds,
    /// When limits were raised.
    raised: StdMutex<Option<Seconds>>,
    phase: watch::Sender<Phase>,
    kueue: Option<(Kueue, JobController)>,
    jobs: Arc<StdMutex<BTreeMap<&'static str, u64>>>,
    faults: Arc<StdMutex<Counts>>,
    collected: Arc<StdMutex<u64>>,
}

fn lock<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs everything, and returns the report.
pub(crate) async fn run(arguments: &Arguments) -> Result<Report, Failure> {
    fs::create_dir_all(&arguments.out)?;
    eprintln!("soak: logs and history are in {}", arguments.out.display());
    let run = Arc::new(Run::start(arguments).await?);
    let mut tasks = run.tasks(arguments.seed);
    let played = tokio::select! {
        played = run.execute(arguments) => played,
        Some(ended) = tasks.join_next() => Err(Failure::Program(format!("a task ended: {ended:?}"))),
        () = interrupted() => Err(Failure::Program("interrupted".to_owned())),
    };
    let ends = match &played {
        Ok(()) => Some(run.end().await),
        Err(_) => None,
    };
    drop(tasks);
    let mut report = run.report(arguments, ends).await;
    report.failure = played.err().map(|failure| failure.to_string());
    run.targets.witness.seen().flush();
    Ok(report)
}

/// Waits for the signal to exit.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

fn subjects(folder: Option<&Path>) -> Result<[Subject; 2], Failure> {
    let own = std::env::current_exe()?;
    let folder = folder.or_else(|| own.parent()).unwrap_or(Path::new("."));
    let subject = |name: &'static str| Subject {
        name,
        path: folder.join(format!("{name}-check")),
    };
    let subjects = [subject(BUDGET), subject(PROVISIONING)];
    for subject in &subjects {
        if !subject.path.exists() {
            let path = subject.path.display();
            return Err(Failure::Program(format!(
                "{path} is missing: run `cargo xtask soak`"
            )));
        }
    }
    Ok(subjects)
}

impl Run {
    /// Starts the servers and the programs, and waits until the checks are active.
    async fn start(arguments: &Arguments) -> Result<Self, Failure> {
        let subjects = subjects(arguments.programs.as_deref())?;
        let cluster = Cluster::start().await?;
        let writer = Writer::new(cluster.client()?);
        let mut definitions = crds(KueueVersion::V0_19_2)?;
        definitions.extend(crds_of_autoscaler()?);
        cluster.install(&writer.client(), definitions).await?;
        let kueue = if arguments.kueue {
            let options = KueueOptions {
                webhooks: &["kueue.x-k8s.io", "batch"],
                ..KueueOptions::default()
            };
            let kueue = Kueue::start_with(&cluster, options).await?;
            Some((kueue, JobController::start(&cluster).await?))
        } else {
            None
        };

        let (storm, faults_rate) = watch::channel(0);
        let faults = Arc::<StdMutex<Counts>>::default();
        let faults_of = |name: &str| {
            Faults::new(
                arguments.seed,
                name,
                faults_rate.clone(),
                Arc::clone(&faults),
            )
        };
        let mut replicas = Vec::new();
        let tls = certificate()?;
        let seconds = i64::from(arguments.minutes) * 60 + 3600;
        for subject in &subjects {
            let token = install(&writer, subject, seconds).await?;
            for number in 0..2 {
                let name = format!("{}-{number}", subject.name);
                let access = cluster.access();
                let folders = Folders {
                    own: access.folder(),
                    logs: &arguments.out,
                };
                let upstream = access.client_without_credentials()?;
                let faults = faults_of(&name);
                let new = Replica::new(subject, number, (&token, folders), upstream, &tls, faults);
                replicas.push(new.await?);
            }
        }
        let meter = Arc::<StdMutex<Meter>>::default();
        let handler = source::handler(Arc::clone(&meter));
        let source = Source::start(faults_of("source"), handler).await?;
        // Periods start at a whole second.
        let anchor = writer.timestamp();
        writer.apply(&budget(&source.url(), anchor, 1.0)).await?;
        for object in objects() {
            writer.apply_when_taken(&object).await?;
        }
        let witness = Witness::new(&arguments.out.join("history.log"))?;
        let targets = Targets {
            cluster: Arc::new(Mutex::new(cluster)),
            source: Arc::new(Mutex::new(source)),
            replicas: Arc::new(Mutex::new(replicas)),
            witness,
            writer: writer.clone(),
            storm,
            counts: Arc::default(),
        };
        Ok(Self {
            targets,
            meter,
            lost: StdMutex::default(),
            samples: StdMutex::default(),
            calm_since: StdMutex::new(Some(writer.now())),
            anchor,
            began: anchor.as_duration().as_secs_f64(),
            raised: StdMutex::default(),
            phase: watch::Sender::new(Phase::Finish),
            kueue,
            jobs: Arc::default(),
            faults,
            collected: Arc::default(),
        })
    }

    /// Returns the tasks that run until the end.
    fn tasks(self: &Arc<Self>, seed: u64) -> JoinSet<()> {
        let (writer, witness) = (&self.targets.writer, &self.targets.witness);
        let mut tasks = witness.watch(writer);
        tasks.spawn(autoscaler(writer.clone(), witness.clone(), seed));
        let collected = Arc::clone(&self.collected);
        tasks.spawn(collector(writer.clone(), witness.clone(), collected));
        if self.kueue.is_some() {
            let node = Node {
                writer: writer.clone(),
                witness: witness.clone(),
                meter: Arc::clone(&self.meter),
                seed,
                phase: self.phase.subscribe(),
            };
            let users = Users {
                writer: writer.clone(),
                witness: witness.clone(),
                seed,
                counts: Arc::clone(&self.jobs),
                phase: self.phase.subscribe(),
            };
            tasks.spawn(node.run());
            tasks.spawn(users.run());
        } else {
            tasks.spawn(self.driver(seed).run());
        }
        tasks.spawn(Arc::clone(self).supervise());
        tasks.spawn(Arc::clone(self).evaluate_each_second());
        tasks
    }

    fn driver(&self, seed: u64) -> Driver {
        let (writer, witness) = (&self.targets.writer, &self.targets.witness);
        Driver {
            writer: writer.clone(),
            witness: witness.clone(),
            meter: Arc::clone(&self.meter),
            seed,
            counts: Arc::clone(&self.jobs),
            phase: self.phase.subscribe(),
        }
    }

    /// Restarts exited programs, and measures them.
    async fn supervise(self: Arc<Self>) {
        let mut measured = Instant::now();
        loop {
            let mut replicas = self.targets.replicas.lock().await;
            for replica in replicas.iter_mut() {
                if let Err(failure) = replica.supervise() {
                    eprintln!("soak: {} does not start: {failure}", replica.name);
                }
            }
            if measured.elapsed() >= Duration::from_secs(5) {
                measured = Instant::now();
                let now = self.targets.writer.now();
                for replica in replicas.iter() {
                    let mut samples = lock(&self.samples);
                    let of_subject = samples.entry(replica.subject).or_default();
                    of_subject.extend(replica.sample(now));
                }
            }
            drop(replicas);
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Evaluates the open obligations each second.
    async fn evaluate_each_second(self: Arc<Self>) {
        let mut reported = Instant::now();
        loop {
            self.evaluate();
            if reported.elapsed() >= Duration::from_secs(30) {
                reported = Instant::now();
                let decisions = &self.targets.witness.seen().decisions;
                let counts = [BUDGET, PROVISIONING].map(|check| decisions.count(check));
                let found = decisions.findings().len() + lock(&self.lost).findings().len();
                let jobs = words(&lock(&self.jobs));
                eprintln!("soak: {counts:?} decisions, {found} findings; {jobs}");
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    fn evaluate(&self) {
        let now = self.targets.writer.now();
        let mut accounts = accounts();
        if lock(&self.raised).is_some() {
            for account in &mut accounts {
                account.limit *= RAISED;
            }
        }
        let seen = self.targets.witness.seen();
        let meter = lock(&self.meter);
        let start = now - (now - self.began).rem_euclid(PERIOD);
        let spent = |account: &crate::scene::Account| {
            let namespaces = account.namespaces.iter();
            namespaces.map(|name| meter.spent(name, start, now)).sum()
        };
        // The costs that the source does not include yet.
        let settling = |name: &str| meter.spent(name, now - 60.0, now);
        let rich = affordable(&accounts, seen.workloads(), spent, settling);
        let open = obligations(seen.workloads(), &seen.requests(), &rich);
        drop(seen);
        lock(&self.lost).observe(open, *lock(&self.calm_since), now);
    }

    /// Runs the storms and jobs until faults have ended and everything is decided.
    async fn execute(&self, arguments: &Arguments) -> Result<(), Failure> {
        let writer = &self.targets.writer;
        for name in [BUDGET, PROVISIONING] {
            let check =
                json!({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": name}});
            let active = |check: &Value| condition(check, "Active").is_some();
            writer.wait(&check, "Active", TIMEOUT, active).await?;
        }
        self.phase.send_replace(Phase::Work);
        let seconds = f64::from(arguments.minutes) * 60.0;
        let began = Instant::now();
        let targets = self.targets.clone();
        let mut storm = targets.storm.subscribe();
        let follow = async {
            loop {
                let calm = *storm.borrow_and_update() == 0;
                *lock(&self.calm_since) = calm.then(|| writer.now());
                if storm.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let end = began + Duration::from_secs_f64(seconds);
        tokio::select! {
            played = targets.inject(storms(arguments.seed, seconds), began) => played?,
            () = follow => {}
        }
        lock(&self.calm_since).get_or_insert(writer.now());
        sleep_until(end).await;

        eprintln!("soak: time is over; limits are raised, and all that waits is to be decided");
        self.phase.send_replace(Phase::Finish);
        let url = self.targets.source.lock().await.url();
        writer.apply(&budget(&url, self.anchor, RAISED)).await?;
        *lock(&self.raised) = Some(writer.now());
        let waiting = || {
            let seen = self.targets.witness.seen();
            let mut waiting = seen.workloads().filter(|view| view.is_awaited());
            waiting.any(|view| view.checks.values().any(|check| check.state == "Pending"))
        };
        until(Duration::from_secs_f64(BOUND + 30.0), || !waiting()).await;
        eprintln!("soak: all jobs come to an end");
        self.phase.send_replace(Phase::Drain);
        let ended = || {
            self.targets
                .witness
                .seen()
                .workloads()
                .all(|view| view.finished)
        };
        if !until(TIMEOUT, ended).await {
            return Err(Failure::Late(TIMEOUT, "the end of all jobs".to_owned()));
        }
        Ok(())
    }

    /// Returns the objects that exist after all jobs have ended and the programs were stopped.
    async fn end(&self) -> Ends {
        let mut ends = Ends::default();
        let began = Instant::now();
        loop {
            (ends.objects, ends.commitments) = (self.objects(), self.commitments().await);
            let is_clean = ends.objects.is_empty() && ends.commitments.is_empty();
            if is_clean || began.elapsed() > TIMEOUT {
                break;
            }
            sleep(Duration::from_millis(500)).await;
        }
        let mut replicas = self.targets.replicas.lock().await;
        for replica in replicas.iter_mut() {
            replica.retire();
        }
        until(Duration::from_secs(20), || {
            !replicas.iter().any(Replica::is_running)
        })
        .await;
        let running = replicas.iter().filter(|replica| replica.is_running());
        ends.processes = running.map(|replica| replica.name.clone()).collect();
        ends.files = replicas.iter().flat_map(Replica::temporary_files).collect();
        let holders = || {
            let seen = self.targets.witness.seen();
            let holders = [BUDGET, PROVISIONING].map(|name| (name.to_owned(), seen.holder(name)));
            let held = holders.into_iter().filter(|(_, holder)| !holder.is_empty());
            held.collect::<BTreeMap<_, _>>()
        };
        until(Duration::from_secs(5), || holders().is_empty()).await;
        ends.leases = holders();
        ends
    }

    fn objects(&self) -> Vec<String> {
        let seen = self.targets.witness.seen();
        let kinds = [Kind::Request, Kind::Template].into_iter();
        let names = kinds.flat_map(|kind| {
            seen.all(kind)
                .map(move |(key, _)| format!("{kind:?} {key}"))
        });
        names.collect()
    }

    /// Returns the commitments by account, as the leader reports them.
    async fn commitments(&self) -> BTreeMap<String, String> {
        let replicas = self.targets.replicas.lock().await;
        let mut samples = Vec::new();
        for replica in replicas.iter().filter(|replica| replica.subject == BUDGET) {
            samples.extend(replica.metrics().await);
        }
        samples.retain(|sample| sample.name == "budget_committed");
        if samples.is_empty() {
            return [("every account".to_owned(), "an unknown amount".to_owned())].into();
        }
        let open = samples.iter().filter(|sample| sample.value > 0.0);
        open.map(|sample| {
            let account = sample.labels.get("account").cloned();
            (account.unwrap_or_default(), format!("{:.2}", sample.value))
        })
        .collect()
    }

    async fn report(&self, arguments: &Arguments, ends: Option<Ends>) -> Report {
        let now = self.targets.writer.now();
        let meter = lock(&self.meter).clone();
        // The original limits applied until they were raised.
        let until = lock(&self.raised).unwrap_or(now);
        let spent = |name: &str, from: f64, to: f64| meter.spent(name, from, to);
        let (overspend, over) = overspent(&accounts(), self.began, until, spent);
        let starts = {
            let replicas = self.targets.replicas.lock().await;
            replicas.iter().map(|replica| replica.starts).sum::<u32>()
        };
        let seen = self.targets.witness.seen();
        let mut findings = lock(&self.lost).findings();
        findings.extend(seen.decisions.findings());
        findings.extend(over);
        findings.extend(ends.iter().flat_map(leftovers));
        findings.sort();
        let samples = lock(&self.samples);
        let programs = [BUDGET, PROVISIONING].map(|name| {
            let samples = samples.get(name).map_or(&[][..], Vec::as_slice);
            Needs {
                name: format!("{name}-check"),
                decisions: seen.decisions.count(name),
                memory: slope(samples, |sample| sample.memory),
                descriptors: slope(samples, |sample| sample.descriptors),
            }
        });
        let kills = format!(
            "{}, program starts {starts}",
            words(&lock(&self.targets.counts))
        );
        let context = vec![
            ("jobs", words(&lock(&self.jobs))),
            ("Workloads", words(seen.decisions.changes())),
            ("faults", words(&lock(&self.faults))),
            ("kills", kills),
            (
                "collected",
                format!("{} objects whose owners were gone", lock(&self.collected)),
            ),
        ];
        Report {
            title: format!(
                "seed {}, {} minutes, {}",
                arguments.seed,
                arguments.minutes,
                if arguments.kueue {
                    "with the real Kueue"
                } else {
                    "with Kueue played"
                }
            ),
            context,
            programs: programs.to_vec(),
            overspend,
            reasoned: seen.decisions.evicting(),
            longest_wait: lock(&self.lost).longest(),
            findings,
            failure: None,
        }
    }
}

/// Waits until `holds` returns true, for at most `patience`. Returns whether it does.
async fn until(patience: Duration, holds: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < patience {
        if holds() {
            return true;
        }
        sleep(Duration::from_millis(200)).await;
    }
    holds()
}
