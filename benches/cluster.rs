//! The cost of verdicts on a real API server, compared with a bare loop that writes the same
//! entries:
//! `cargo xtask bench [--verdicts N] [--rounds N] [--workloads N] [--small] [--peer] [--rules]`.
//!
//! With `--small`, a Workload has one pod set without environment and volumes, so that the API
//! server can hold 100,000 of them in 16 GiB.
//!
//! With `--peer` there is a third side, the same check on controller-runtime
//! (`benches/controller-runtime`), which needs Go. With `--rules` there are two more: `rule-check`
//! with an expression, and with a service on loopback.
//!
//! The sides are separate processes, started by this one, and take turns in one run. A watch of
//! this one determines when all entries are written. The loop is the minimum: it lists the
//! Workloads once and applies one entry to each, ten at a time. It has no watch, no Lease, no
//! guard. The SDK and the loop have one worker thread, as the shipped checks have, or
//! `TOKIO_WORKER_THREADS`.
//!
//! With Workloads without quota, only the checks are measured, including how long they take to
//! start and to take over from another replica.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::ByteString;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};
use kueue_check::{Check, ControllerName, Verdict};
use kueue_check_testenv::{Cluster, KueueVersion, crds, free_address, workload};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

const CHECK: &str = "bench";
const CONTROLLER: &str = "example.com/bench";
const MESSAGE: &str = "may start";
/// Selects Workloads with quota.
const HOLDS_QUOTA: &str = "status.admission.clusterQueue!=";
/// The number of concurrent writes, on both sides.
const TOGETHER: usize = 10;
/// The maximum time for any operation.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How long a standby has to read all objects.
const STANDBY: Duration = Duration::from_secs(45);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        // This program is also both sides.
        Some("run") => {
            let controller = ControllerName::from_static(CONTROLLER);
            let may_start = Check::from_fn(controller, async || Verdict::ready(MESSAGE));
            kueue_check::main(may_start).await.unwrap();
        }
        Some("bare-loop") => bare_loop().await,
        _ => measure(&Options::from(&arguments)).await,
    }
}

struct Options {
    verdicts: usize,
    rounds: usize,
    workloads: usize,
    /// Whether the Workloads have little content.
    small: bool,
    /// The program of the third side.
    peer: Option<PathBuf>,
    /// The program `rule-check`.
    rules: Option<PathBuf>,
}

impl Options {
    fn from(arguments: &[String]) -> Self {
        let number = |flag: &str, default: usize| {
            let at = arguments.iter().position(|argument| argument == flag);
            at.map_or(default, |at| arguments[at + 1].parse().unwrap())
        };
        Self {
            verdicts: number("--verdicts", 2000),
            rounds: number("--rounds", 3),
            workloads: number("--workloads", 10_000),
            small: arguments.iter().any(|argument| argument == "--small"),
            peer: std::env::var_os("KUEUE_CHECK_BENCH_PEER").map(PathBuf::from),
            rules: std::env::var_os("KUEUE_CHECK_BENCH_RULES").map(PathBuf::from),
        }
    }
}

async fn measure(options: &Options) {
    println!("starting the API server ...");
    let mut cluster = Cluster::start().await.unwrap();
    let client = cluster.client().unwrap();
    let kubeconfig = cluster.access().kubeconfig().unwrap();
    let definitions = crds(KueueVersion::V0_19_2).unwrap();
    cluster.install(&client, definitions).await.unwrap();
    create_check(&client, CHECK, json!({"controllerName": CONTROLLER})).await;
    let service = match &options.rules {
        Some(program) => Some(create_rules(&cluster, &client, program).await),
        None => None,
    };

    let store = Store::new(&cluster, &client, options.small).await;
    println!(
        "\n{:<20}{:>10}{:>16}{:>14}{:>12}",
        "", "seconds", "CPU/verdict", "RSS", "peak RSS"
    );
    let mut sides = vec![Side::BareLoop, Side::Sdk];
    sides.extend(options.peer.as_deref().map(Side::Peer));
    if let (Some(program), Some(service)) = (&options.rules, &service) {
        sides.extend([CEL, WEBHOOK].map(|check| Side::Rule {
            program,
            check,
            service,
        }));
    }
    let mut costs: Vec<Vec<Cost>> = sides.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        let mut turns: Vec<_> = sides.iter().zip(&mut costs).collect();
        // The API server becomes slower with each round.
        if round % 2 == 1 {
            turns.reverse();
        }
        for (side, taken) in turns {
            store
                .put(0..options.verdicts, options.verdicts, side.check())
                .await;
            let cost = side.decide(&client, &kubeconfig, options.verdicts).await;
            cost.print(side.name(), options.verdicts);
            taken.push(cost);
        }
    }
    println!(
        "\n{} verdicts, {TOGETHER} at once, start included; medians of {} rounds:",
        options.verdicts, options.rounds
    );
    let seconds = |cost: &Cost| cost.took.as_secs_f64();
    let processor = |cost: &Cost| cost.cpu.as_secs_f64();
    let sdk = &costs[1];
    for (side, other) in sides.iter().zip(&costs) {
        if let Side::Rule { check, .. } = side {
            println!(
                "{check} takes {:.3} x the processor time of kueue-check",
                median(other, processor) / median(sdk, processor)
            );
            continue;
        }
        if side.name() == Side::Sdk.name() {
            continue;
        }
        println!(
            "kueue-check takes {:.3} x the time of {} and {:.3} x its processor time",
            median(sdk, seconds) / median(other, seconds),
            side.name(),
            median(sdk, processor) / median(other, processor),
        );
    }

    if options.workloads > options.verdicts {
        // Its watches would take minutes to follow.
        cluster.stop_apiserver();
        store
            .put(options.verdicts..options.workloads, options.verdicts, CHECK)
            .await;
        cluster.start_apiserver().await.unwrap();
        println!(
            "\n{} Workloads of which {} hold quota:",
            options.workloads, options.verdicts
        );
        let sides: Vec<Side<'_>> = sides
            .into_iter()
            .filter(|side| matches!(side, Side::Sdk | Side::Peer(_)))
            .collect();
        for side in &sides {
            store
                .put(0..options.verdicts, options.verdicts, CHECK)
                .await;
            let cost = side.decide(&client, &kubeconfig, options.verdicts).await;
            cost.print(side.name(), options.verdicts);
        }
        println!(
            "\nseconds until one Workload is decided, all others are:\n{:<20}{:>10}{:>16}{:>14}",
            "", "start", "after SIGTERM", "after SIGKILL"
        );
        for side in &sides {
            side.replace(&client, &kubeconfig).await;
        }
    }
}

fn median(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> f64 {
    let mut figures: Vec<f64> = costs.iter().map(of).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "it is printed with one digit")]
fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

/// The resources that one side used.
struct Cost {
    took: Duration,
    cpu: Duration,
    /// Resident memory in KiB, after the work.
    rss: u64,
    peak: u64,
}

impl Cost {
    fn print(&self, side: &str, verdicts: usize) {
        let each = self.cpu / u32::try_from(verdicts).unwrap();
        println!(
            "{side:<20}{:>10.2}{:>13.3} ms{:>10.1} MiB{:>8.1} MiB",
            self.took.as_secs_f64(),
            each.as_secs_f64() * 1000.0,
            mebibytes(self.rss),
            mebibytes(self.peak)
        );
    }
}

#[derive(Clone, Copy)]
enum Side<'a> {
    BareLoop,
    Sdk,
    Peer(&'a Path),
    /// `rule-check`, with the AdmissionCheck that it handles.
    Rule {
        program: &'a Path,
        check: &'static str,
        service: &'a str,
    },
}

impl Side<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::BareLoop => "bare loop",
            Self::Sdk => "kueue-check",
            Self::Peer(_) => "controller-runtime",
            Self::Rule { check, .. } => check,
        }
    }

    /// Returns the AdmissionCheck of this side.
    fn check(self) -> &'static str {
        match self {
            Self::BareLoop | Self::Sdk | Self::Peer(_) => CHECK,
            Self::Rule { check, .. } => check,
        }
    }

    /// Runs this side until it has written all entries.
    async fn decide(self, client: &Client, kubeconfig: &Path, verdicts: usize) -> Cost {
        let mut events = watch_reserved(client).await;
        let began = Instant::now();
        let admin = free_address().unwrap().to_string();
        let process = self.start(kubeconfig, &admin, &admin);
        timeout(TIMEOUT, written(&mut events, self.check(), verdicts))
            .await
            .unwrap();
        process.cost(began.elapsed())
    }

    /// Starts a process. Processes with the same `lease` lead in turn.
    fn start(self, kubeconfig: &Path, admin: &str, lease: &str) -> Running {
        let mut command = match self {
            Self::BareLoop | Self::Sdk => Command::new(std::env::current_exe().unwrap()),
            Self::Peer(program) | Self::Rule { program, .. } => Command::new(program),
        };
        match self {
            Self::BareLoop => command.arg("bare-loop"),
            Self::Sdk => command.args(["run", "--lease-namespace", "default"]),
            Self::Peer(_) => &mut command,
            Self::Rule { service, .. } => command.args([
                "run",
                "--lease-namespace",
                "default",
                "--allow-host",
                service,
            ]),
        };
        command
            .env("KUBECONFIG", kubeconfig)
            .env(
                "KUEUE_CHECK_LEASE_NAME",
                format!("bench-{}", lease.replace([':', '.'], "-")),
            )
            .env("KUEUE_CHECK_ADMIN_ADDRESS", admin)
            .env("KUEUE_CHECK_ADMIN_SECURE", "false")
            .env("RUST_LOG", variable("RUST_LOG", "warn"))
            .env(
                "TOKIO_WORKER_THREADS",
                variable("TOKIO_WORKER_THREADS", "1"),
            );
        Running(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Prints how long it takes to start, and to take over from a leader after SIGTERM and after
    /// SIGKILL.
    async fn replace(self, client: &Client, kubeconfig: &Path) {
        let lease = free_address().unwrap().to_string();
        let start = || self.start(kubeconfig, &free_address().unwrap().to_string(), &lease);
        undecide(client).await;
        let began = Instant::now();
        let mut leader = start();
        decided(client).await;
        let started = began.elapsed();

        let mut standby = start();
        let mut took_over = Vec::new();
        for signal in ["-TERM", "-KILL"] {
            // By then it has listed all objects, and waits for the Lease.
            sleep(STANDBY).await;
            let began = Instant::now();
            leader.end(signal).await;
            undecide(client).await;
            decided(client).await;
            took_over.push(began.elapsed());
            leader = std::mem::replace(&mut standby, start());
        }
        println!(
            "{:<20}{:>10.2}{:>16.2}{:>14.2}",
            self.name(),
            started.as_secs_f64(),
            took_over[0].as_secs_f64(),
            took_over[1].as_secs_f64()
        );
    }
}

/// Returns a variable of the environment.
fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// A process that does not outlive this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Sends a signal, and waits for the exit.
    async fn end(&mut self, signal: &str) {
        let process = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.unwrap().success());
        while self.0.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn cost(&self, took: Duration) -> Cost {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.0.id())).unwrap();
        let stat = read("stat");
        // The second field is the name in parentheses. The fourteenth and fifteenth are ticks in
        // user and system mode, 100 per second.
        let ticks: u64 = stat[stat.rfind(')').unwrap() + 2..]
            .split(' ')
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum();
        let status = read("status");
        let kibibytes = |field: &str| {
            let line = status.lines().find(|line| line.starts_with(field)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Cost {
            took,
            cpu: Duration::from_millis(ticks * 10),
            rss: kibibytes("VmRSS:"),
            peak: kibibytes("VmHWM:"),
        }
    }
}

type Events = BoxStream<'static, watcher::Result<Event<DynamicObject>>>;

/// Watches the Workloads that hold quota. They have been listed when this returns.
async fn watch_reserved(client: &Client) -> Events {
    let api = Api::all_with(client.clone(), &workloads_resource());
    let events = watcher(api, watcher::Config::default().fields(HOLDS_QUOTA));
    let mut events = events.default_backoff().boxed();
    // The API server's cache may still be behind etcd.
    while !matches!(events.next().await.unwrap(), Ok(Event::InitDone)) {}
    events
}

/// Waits until `verdicts` Workloads have a Ready entry of `check`.
async fn written(events: &mut Events, check: &str, verdicts: usize) {
    let mut ready = BTreeSet::new();
    while ready.len() < verdicts {
        if let Event::Apply(workload) | Event::InitApply(workload) =
            events.next().await.unwrap().unwrap()
        {
            let entries = workload.data["status"]["admissionChecks"].as_array();
            let mut entries = entries.into_iter().flatten();
            if entries.any(|entry| entry["name"] == check && entry["state"] == "Ready") {
                ready.insert(workload.metadata.name);
            }
        }
    }
}

/// Runs the bare loop.
async fn bare_loop() {
    let client = Client::try_default().await.unwrap();
    let workloads: Vec<(String, String, String)> =
        Api::<DynamicObject>::all_with(client.clone(), &workloads_resource())
            .list(&ListParams::default().fields(HOLDS_QUOTA))
            .await
            .unwrap()
            .into_iter()
            .map(|workload| {
                let metadata = workload.metadata;
                (
                    metadata.namespace.unwrap(),
                    metadata.name.unwrap(),
                    metadata.uid.unwrap(),
                )
            })
            .collect();
    stream::iter(workloads)
        .for_each_concurrent(TOGETHER, |(namespace, name, uid)| {
            let api = api(&client, &namespace);
            async move {
                let entry = json!({
                    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
                    "metadata": {"name": name, "namespace": namespace, "uid": uid},
                    "status": {"admissionChecks": [{
                        "name": CHECK, "state": "Ready", "message": MESSAGE,
                        "lastTransitionTime": "2026-11-21T10:00:00Z", "podSetUpdates": [],
                    }]},
                });
                let parameters = PatchParams::apply("bare-loop").force();
                let patch = Patch::Apply(entry);
                api.patch_status(&name, &parameters, &patch).await.unwrap();
            }
        })
        .await;
    std::future::pending::<()>().await;
}

fn workloads_resource() -> ApiResource {
    ApiResource {
        group: "kueue.x-k8s.io".into(),
        version: "v1beta2".into(),
        api_version: "kueue.x-k8s.io/v1beta2".into(),
        kind: "Workload".into(),
        plural: "workloads".into(),
    }
}

fn api(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &workloads_resource())
}

async fn create_check(client: &Client, name: &str, spec: Value) {
    let resource = ApiResource {
        kind: "AdmissionCheck".into(),
        plural: "admissionchecks".into(),
        ..workloads_resource()
    };
    let check = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": name}, "spec": spec,
    });
    create_object(client, &resource, check).await;
}

async fn create_object(client: &Client, resource: &ApiResource, object: Value) {
    let object = serde_json::from_value(object).unwrap();
    let api = Api::<DynamicObject>::all_with(client.clone(), resource);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// The AdmissionChecks of the two rules, which give the same verdict as the command `run`.
const CEL: &str = "rule-check-cel";
const WEBHOOK: &str = "rule-check-webhook";

/// Creates the rules, and starts the service of the second one. Returns its address.
async fn create_rules(cluster: &Cluster, client: &Client, program: &Path) -> String {
    let printed = Command::new(program).arg("crds").output().unwrap();
    let definitions = serde_saphyr::from_multiple(std::str::from_utf8(&printed.stdout).unwrap());
    cluster.install(client, definitions.unwrap()).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let review = axum::routing::post(async |axum::Json(review): axum::Json<Value>| {
        let items = review["request"]["items"].as_array().unwrap().iter();
        let ready =
            |item: &Value| json!({"uid": item["uid"], "state": "Ready", "message": MESSAGE});
        let items: Vec<Value> = items.map(ready).collect();
        axum::Json(json!({
            "apiVersion": review["apiVersion"], "kind": review["kind"], "response": {"items": items},
        }))
    });
    let service = axum::Router::new().route("/review", review);
    tokio::spawn(async move { axum::serve(listener, service).await });
    for (name, kind, plural, spec) in [
        (
            CEL,
            "CELCheck",
            "celchecks",
            json!({"ready": "workload.priority >= 0 && now > timestamp(0)"}),
        ),
        (
            WEBHOOK,
            "WebhookCheck",
            "webhookchecks",
            json!({"url": format!("{url}/review"), "batch": {"maxItems": 500, "requestsPerMinute": 6000}}),
        ),
    ] {
        let resource = ApiResource {
            group: "kueue-check.dev".into(),
            version: "v1alpha1".into(),
            api_version: "kueue-check.dev/v1alpha1".into(),
            kind: kind.into(),
            plural: plural.into(),
        };
        let parameters = json!({
            "apiVersion": resource.api_version, "kind": kind, "metadata": {"name": "bench"}, "spec": spec,
        });
        create_object(client, &resource, parameters).await;
        let reference = json!({"apiGroup": resource.group, "kind": kind, "name": "bench"});
        let spec = json!({"controllerName": "kueue-check.dev/rule", "parameters": reference});
        create_check(client, name, spec).await;
    }
    url
}

/// Stores Workloads in etcd: the API server would take an hour to create 100,000 on two cores.
struct Store {
    etcd: Client,
    /// The first Workload, as the API server stores it.
    first: Value,
    /// The status of those with quota.
    status: Value,
}

impl Store {
    async fn new(cluster: &Cluster, client: &Client, small: bool) -> Self {
        let etcd = Config::new(cluster.etcd().parse().unwrap());
        let mut object = workload(0, 8);
        if small {
            let assignments = &mut object["status"]["admission"]["podSetAssignments"];
            assignments.as_array_mut().unwrap().truncate(1);
            let pod_sets = &mut object["spec"]["podSets"];
            pod_sets.as_array_mut().unwrap().truncate(1);
            let pod = pod_sets[0]["template"]["spec"].as_object_mut().unwrap();
            pod.remove("volumes");
            for field in ["env", "volumeMounts"] {
                let container = pod["containers"][0].as_object_mut().unwrap();
                container.remove(field);
            }
        }
        let status = object["status"].take();
        let metadata = &object["metadata"];
        object["metadata"] = json!({"name": metadata["name"], "labels": metadata["labels"]});
        let object = serde_json::from_value(object).unwrap();
        let api = api(client, "default");
        let first = api.create(&PostParams::default(), &object).await.unwrap();
        let mut first = serde_json::to_value(first).unwrap();
        first["metadata"]["resourceVersion"].take();
        Self {
            etcd: Client::try_from(etcd).unwrap(),
            first,
            status,
        }
    }

    /// Stores Workloads; those with a number below `reserved` hold quota and have a Pending entry of
    /// `check`.
    async fn put(&self, numbers: std::ops::Range<usize>, reserved: usize, check: &str) {
        stream::iter(numbers)
            .for_each_concurrent(TOGETHER, async |number| {
                let metadata = &workload(number, 8)["metadata"];
                let mut object = self.first.clone();
                for field in ["name", "uid", "labels"] {
                    object["metadata"][field] = metadata[field].clone();
                }
                if number < reserved {
                    object["status"] = self.status.clone();
                    object["status"]["admissionChecks"] = json!([pending(check)]);
                }
                let name = metadata["name"].as_str().unwrap();
                let key = format!("/registry/kueue.x-k8s.io/workloads/default/{name}");
                let [key, value] =
                    [key, object.to_string()].map(|text| ByteString(text.into_bytes()));
                let put = json!({"key": key, "value": value}).to_string();
                let request = http::Request::post("/v3/kv/put").body(put.into_bytes());
                self.etcd.request::<Value>(request.unwrap()).await.unwrap();
            })
            .await;
    }
}

/// Returns a Pending entry, as Kueue writes it when it reserves quota.
fn pending(check: &str) -> Value {
    json!({
        "name": check, "state": "Pending", "message": "",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    })
}

/// Returns the Workload that is decided last.
fn probe() -> String {
    let workload = workload(0, 8);
    workload["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Makes the entry of one Workload Pending.
async fn undecide(client: &Client) {
    let (api, probe) = (api(client, "default"), probe());
    let status = Patch::Merge(json!({"status": {"admissionChecks": [pending(CHECK)]}}));
    let parameters = PatchParams::default();
    let patched = api.patch_status(&probe, &parameters, &status).await;
    patched.unwrap();
}

/// Waits until the probe Workload is decided.
async fn decided(client: &Client) {
    let (api, probe, began) = (api(client, "default"), probe(), Instant::now());
    loop {
        let workload = api.get(&probe).await.unwrap();
        if workload.data["status"]["admissionChecks"][0]["state"] == "Ready" {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "no verdict on {probe}");
        sleep(Duration::from_millis(50)).await;
    }
}
