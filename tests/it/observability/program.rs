//! The program, the cluster that it runs on, and how it ends.

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use kueue_check::prelude::*;
use kueue_check::{App, Clock};
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
use kueue_check_sim::definitions;
use kueue_check_testenv::{Folder, Killed, free_address};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tracing::Instrument;

/// How long anything may take to appear.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A check whose action depends on the Workload's name.
struct Seats;

impl AdmissionCheckController for Seats {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/seats") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let look_up = async {
            sleep(Duration::from_millis(5)).await;
            tracing::info!("seat looked up");
        };
        look_up
            .instrument(tracing::info_span!("look up", licence = "cad"))
            .await;
        let name = request.workload().name();
        tracing::info!("evaluated {name}");
        match name.split('-').next().unwrap_or_default() {
            "fails" => Err(CheckError::transient("no response from the licence server")),
            "waits" => Ok(Verdict::pending("seats are taken")),
            "panics" => panic!("no seat\nfor password=hunter2"),
            "slow" => {
                sleep(Duration::from_secs(2)).await;
                Ok(Verdict::ready("a seat at last"))
            }
            _ => Ok(Verdict::ready("a seat")),
        }
    }

    async fn release(
        &self,
        _: &Reservation,
        _: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        tracing::info!("seat released");
        Ok(ReleaseOutcome::Done)
    }
}

#[derive(Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: kueue_check::cli::Command,
}

/// The program: the tests start this test binary again with these arguments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the program that other tests start"]
async fn program() {
    let Ok(arguments) = std::env::var("OBSERVED_ARGUMENTS") else {
        return;
    };
    let words = std::iter::once("seat-check").chain(arguments.split(' '));
    let command = CommandLine::parse_from(words).command;
    App::new()
        .name("seat-check")
        .version("2.1.0")
        .check(Seats)
        .execute(command)
        .await
        .unwrap();
}

/// A cluster with an AdmissionCheck `seats`, on a port of this process.
pub(super) struct Stage {
    pub(super) server: ApiServer,
    address: SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let server = ApiServer::with_definitions(Clock::system(), definitions::kueue());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = server.clone();
        let serving = tokio::spawn(async move {
            let _ = served.serve(listener).await;
        });
        let stage = Self {
            server,
            address,
            serving,
        };
        let check =
            json!({"metadata": {"name": "seats"}, "spec": {"controllerName": "example.com/seats"}});
        stage.call(Verb::Create, "admissionchecks", "", None, None, check);
        stage
    }

    fn call(
        &self,
        verb: Verb,
        plural: &str,
        namespace: &str,
        name: Option<&str>,
        subresource: Option<&str>,
        mut body: Value,
    ) {
        let resource = Resource::new("kueue.x-k8s.io", "v1beta2", plural);
        if matches!(verb, Verb::Create) {
            body["apiVersion"] = "kueue.x-k8s.io/v1beta2".into();
            let kind = match plural {
                "workloads" => "Workload",
                _ => "AdmissionCheck",
            };
            body["kind"] = kind.into();
        }
        let mut call = ApiRequest::new(verb, &resource)
            .namespace(namespace)
            .body(body);
        if let Some(name) = name {
            call = call.name(name);
        }
        if let Some(subresource) = subresource {
            call = call.subresource(subresource);
        }
        let response = self.server.call(&call);
        assert!(response.code < 300, "{plural} {name:?}: {}", response.body);
    }

    /// Makes a Workload that holds quota.
    pub(super) fn reserve(&self, name: &str) {
        let container =
            json!({"name": "main", "image": "trainer", "resources": {"requests": {"cpu": "1"}}});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
        let pod_set = json!({"name": "main", "count": 1, "template": template});
        let workload = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"queueName": "queue", "podSets": [pod_set]},
        });
        self.call(Verb::Create, "workloads", "default", None, None, workload);
        let assignment = json!({"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}});
        self.patch(
            name,
            json!({
                "conditions": [condition("QuotaReserved")],
                "admission": {"clusterQueue": "queue", "podSetAssignments": [assignment]},
                "admissionChecks": [{"name": "seats", "state": "Pending", "message": "", "lastTransitionTime": NOW}],
            }),
        );
    }

    /// Marks its job as finished.
    pub(super) fn finish(&self, name: &str) {
        let conditions = [condition("QuotaReserved"), condition("Finished")];
        self.patch(name, json!({"conditions": conditions}));
    }

    fn patch(&self, name: &str, status: Value) {
        self.call(
            Verb::Patch(Patch::Merge),
            "workloads",
            "default",
            Some(name),
            Some("status"),
            json!({"status": status}),
        );
    }

    /// Changes the inputs of a verdict.
    pub(super) fn annotate(&self, name: &str) {
        self.call(
            Verb::Patch(Patch::Merge),
            "workloads",
            "default",
            Some(name),
            None,
            json!({"spec": {"priority": 7}}),
        );
    }

    pub(super) fn workload(&self, name: &str) -> Value {
        let resource = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
        self.server
            .get(&resource, "default", name)
            .unwrap_or_default()
    }

    pub(super) async fn wait_ready(&self, name: &str) {
        wait(&format!("a verdict about {name}"), || {
            let workload = self.workload(name);
            let state = workload["status"]["admissionChecks"][0]["state"].clone();
            (state == "Ready").then_some(()).ok_or(state.to_string())
        })
        .await;
    }
}

impl Stage {
    pub(super) async fn wait_message(&self, name: &str, message: &str) {
        wait(&format!("a message about {name}"), || {
            let workload = self.workload(name);
            let current = workload["status"]["admissionChecks"][0]["message"].clone();
            (current == message)
                .then_some(())
                .ok_or(current.to_string())
        })
        .await;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

const NOW: &str = "2026-11-21T09:00:00Z";

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": NOW})
}

/// Waits until `look` finds something; otherwise it reports what was found instead.
pub(super) async fn wait<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if Instant::now() > until => panic!("{what}: {seen}"),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The program as a process, which ends with the test.
pub(super) struct Program {
    child: Killed,
    pub(super) admin: SocketAddr,
    log: Arc<Mutex<String>>,
    reading: Option<std::thread::JoinHandle<()>>,
    /// Removed when this is dropped.
    _folder: Folder,
}

impl Program {
    pub(super) fn start(stage: &Stage, format: &str, environment: &[(&str, &str)]) -> Self {
        Self::new(stage, format, environment, 0, None)
    }

    /// Starts one of several, with the address of an earlier one.
    pub(super) fn replica(stage: &Stage, number: usize, admin: Option<SocketAddr>) -> Self {
        Self::new(stage, "text", &[], number, admin)
    }

    fn new(
        stage: &Stage,
        format: &str,
        environment: &[(&str, &str)],
        number: usize,
        admin: Option<SocketAddr>,
    ) -> Self {
        let admin = admin.unwrap_or_else(|| free_address().unwrap());
        let folder = Folder::new("seat-check").unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": format!("http://{}", stage.address)}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here", "namespace": "default"}}],
            "users": [{"name": "here", "user": {}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let arguments = format!(
            "run --admin-address {admin} --admin-secure false --identity seat-check-{number} --log-format {format}"
        );
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "observability::program::program",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("OBSERVED_ARGUMENTS", arguments)
            .env("KUEUE_CHECK_KUBECONFIG", &kubeconfig)
            .env_remove("RUST_LOG")
            .env_remove("RUST_BACKTRACE")
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (kept, mut from) = (Arc::clone(&log), child.stderr.take().unwrap());
        let reading = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                kept.lock().unwrap().push_str(&text);
            }
        });
        Self {
            child: Killed(child),
            admin,
            log,
            reading: Some(reading),
            _folder: folder,
        }
    }

    /// Returns the whole lines of its log so far.
    pub(super) fn lines(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        whole.lines().map(ToOwned::to_owned).collect()
    }

    /// Returns the first line of its log for which `is` returns true.
    pub(super) async fn line(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        wait(what, || {
            let lines = self.lines();
            let found = lines.iter().find(|line| is(line)).cloned();
            found.ok_or_else(|| lines.join("\n"))
        })
        .await
    }

    /// Requests it to stop, and waits until it has. Returns how long that took, and its whole log.
    pub(super) async fn stop(mut self) -> (Duration, Vec<String>) {
        let began = Instant::now();
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(status.unwrap().success());
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let took = began.elapsed();
                self.reading.take().unwrap().join().unwrap();
                assert!(status.success(), "{status}: {:#?}", self.lines());
                return (took, self.lines());
            }
            assert!(began.elapsed() < TIMEOUT, "{:#?}", self.lines());
            sleep(Duration::from_millis(10)).await;
        }
    }
}
