//! Shell blocks marked `cluster`, run page after page on one cluster. The commands are kubectl,
//! Helm and the programs of the pages.
//!
//! The cluster is a real API server with the definitions of Kueue and of the autoscaler. Blocks
//! marked `kueue` require a real Kueue (`cargo xtask kueue`); without it the test creates the
//! Workload that the pages describe. Nothing runs pods, so blocks marked `kubelet` are skipped, and
//! the program itself decides in the pod's place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use jiff::tz::TimeZone;
use kueue_check::Clock;
use kueue_check_book::repository;
use kueue_check_testenv::{
    Cluster, Kueue, KueueVersion, crds, crds_of_autoscaler, free_address, helm, or_skipped,
    programs, workload,
};
use serde_json::json;

use super::console::{Step, beside, built, run, shell, steps, workshop};
use super::markdown::{Block, Page, others, page};

/// The pages with such blocks, in the order in which they are read.
const PAGES: [&str; 5] = [
    "tutorials/first-check.md",
    "tutorials/parameters.md",
    "tutorials/deploying.md",
    "troubleshooting.md",
    "migration/provisioning.md",
];

const READMES: [&str; 3] = [
    "checks/budget/README.md",
    "checks/provisioning/README.md",
    "charts/kueue-check/README.md",
];

/// The number of polls for a change that another process makes, with 1 s between polls.
const TRIES: usize = 60;

#[expect(
    clippy::disallowed_methods,
    reason = "another process is waited for, in a thread of its own"
)]
fn pause() {
    std::thread::sleep(Duration::from_secs(1));
}

/// A reader who follows the book.
struct Reader {
    cluster: Cluster,
    kueue: Option<Kueue>,
    folder: PathBuf,
    /// `PROGRAM run`, in another window.
    program: Option<Child>,
    port: u16,
    probe_port: u16,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Reader {
    /// Returns a reader of a cluster with Kueue's and the autoscaler's definitions. Returns `None`,
    /// and prints the reason, if no cluster is possible here and none is required.
    async fn new(name: &str) -> Option<Self> {
        let cluster = Cluster::start_or_skip("the book's commands on a cluster").await?;
        let client = cluster.client().unwrap();
        for definitions in [crds(KueueVersion::V0_19_2), crds_of_autoscaler()] {
            cluster
                .install(&client, definitions.unwrap())
                .await
                .unwrap();
        }
        let folder = workshop(name);
        symlink(repository().join("charts"), folder.join("charts")).unwrap();
        let kubectl = programs().unwrap().kubectl;
        symlink(kubectl, folder.join("bin/kubectl")).unwrap();
        // A check of the reader's own.
        let own = "#!/bin/sh\nexec window \"$@\"\n";
        fs::write(folder.join("bin/my-check"), own).unwrap();
        assert!(
            shell(&folder, "chmod +x bin/my-check")
                .status()
                .unwrap()
                .success()
        );
        symlink(helm().unwrap(), folder.join("bin/helm")).unwrap();
        let [port, probe_port] = [(); 2].map(|()| free_address().unwrap().port());
        let reader = Self {
            cluster,
            kueue: None,
            folder,
            program: None,
            port,
            probe_port,
        };
        for namespace in ["kueue-system", "team"] {
            reader.must(&format!("kubectl create namespace {namespace}"));
        }
        Some(reader)
    }

    /// Runs `command` once.
    fn attempt(&self, command: &str, shown: &[String]) -> (bool, String) {
        let mut shell = shell(&self.folder, command);
        shell.env("KUBECONFIG", self.cluster.access().kubeconfig().unwrap());
        run(shell, shown)
    }

    /// Runs a command that the page takes for granted; panics if it fails.
    fn must(&self, command: &str) {
        let (well, printed) = self.attempt(command, &[]);
        assert!(well, "$ {command}\n{printed}");
    }

    /// Ends the program as Ctrl-C does.
    fn stop(&mut self) {
        if let Some(mut program) = self.program.take() {
            let kill = format!("kill {}", program.id());
            let _ = shell(&self.folder, &kill).status();
            for _ in 0..TRIES {
                if program.try_wait().is_ok_and(|status| status.is_some()) {
                    return;
                }
                pause();
            }
            let _ = program.kill();
            assert!(std::thread::panicking(), "the program has not ended");
        }
    }

    /// Runs `program run` in another window, and waits until it is ready.
    fn start(&mut self, command: &str) {
        self.stop();
        let mut shell = shell(&self.folder, &format!("exec {command}"));
        shell
            .env("KUBECONFIG", self.cluster.access().kubeconfig().unwrap())
            .env(
                "KUEUE_CHECK_ADMIN_ADDRESS",
                format!("127.0.0.1:{}", self.port),
            )
            .env(
                "KUEUE_CHECK_PROBE_ADDRESS",
                format!("127.0.0.1:{}", self.probe_port),
            )
            .stdout(Stdio::null());
        self.program = Some(shell.spawn().unwrap());
        let ready = format!("curl -sf localhost:{}/readyz", self.probe_port);
        self.eventually(&ready, &[]);
    }

    /// Runs `command` until its output matches `shown`.
    fn eventually(&self, command: &str, shown: &[String]) {
        let mut last = String::new();
        for _ in 0..TRIES {
            let (well, printed) = self.attempt(command, shown);
            if well {
                return;
            }
            last = printed;
            pause();
        }
        panic!("$ {command}\n{last}\n\nexpected:\n{}", shown.join("\n"));
    }

    /// Does what the prose of the page requires before its first command.
    fn prepare(&mut self, page: &str) {
        match page {
            "tutorials/parameters.md" => {
                self.must("window-with-policy crds | kubectl apply -f -");
                self.must("kubectl apply -f queue.yaml");
                self.start("window-with-policy run");
            }
            "checks/budget/README.md" => {
                let deploy = repository().join("checks/budget/deploy");
                symlink(deploy, self.folder.join("deploy")).unwrap();
                // A queue that the check closed, and one that it did not.
                let queue = |name: &str, annotations: serde_json::Value| {
                    json!({
                        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                        "metadata": {"namespace": "team", "name": name, "annotations": annotations},
                        "spec": {"clusterQueue": "research", "stopPolicy": "Hold"},
                    })
                };
                let closed = json!({"budget.kueue-check.dev/closed-by": "gpu-weekly"});
                let items = [queue("closed", closed), queue("stopped", json!({"a": "b"}))];
                let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
                fs::write(self.folder.join("queues.json"), list.to_string()).unwrap();
                self.must("kubectl apply -f queues.json");
            }
            "troubleshooting.md" => {
                self.start("window run");
                self.must(&format!(
                    "kubectl patch window workday --type merge --patch '{}'",
                    json!({"spec": {"zone": zone_in_which_it_is_early()}})
                ));
                self.submit("team", "job-train-1a2b3");
            }
            _ => {}
        }
    }

    /// Creates a Workload that holds quota and waits for the check `window`, as Kueue creates it.
    fn submit(&self, namespace: &str, name: &str) {
        let mut whole = workload(1, 2);
        let object = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"namespace": namespace, "name": name}, "spec": whole["spec"].take(),
        });
        fs::write(self.folder.join("workload.json"), object.to_string()).unwrap();
        self.must("kubectl apply -f workload.json");
        let mut status = whole["status"].take();
        let now = Clock::system().now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let now = now.to_string();
        status["conditions"] = json!([{
            "type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "Quota reserved in ClusterQueue research",
            "lastTransitionTime": now,
        }]);
        status["admissionChecks"] = json!([{
            "name": "window", "state": "Pending", "message": "", "lastTransitionTime": now,
        }]);
        let patch = json!({"status": status}).to_string();
        fs::write(self.folder.join("status.json"), patch).unwrap();
        self.must(&format!(
            "kubectl patch workload {name} --namespace {namespace} --subresource status --type merge --patch-file status.json"
        ));
    }

    /// Follows a page; returns the number of its commands.
    fn follow(&mut self, name: &str) -> usize {
        let page = if name.ends_with("README.md") {
            others().into_iter().find(|page| page.name == name).unwrap()
        } else {
            page(name)
        };
        self.prepare(name);
        let mut count = 0;
        for block in page.blocks() {
            // A reader copies the manifests of a README; other YAML is a chart's values.
            let manifest = block
                .lines
                .iter()
                .any(|line| line.starts_with("apiVersion"));
            if block.language == "yaml" && manifest && name.ends_with("README.md") {
                fs::write(self.folder.join("block.yaml"), block.lines.join("\n")).unwrap();
                self.must("kubectl apply -f block.yaml");
                count += 1;
            }
            // The other blocks create the files that these require.
            if block.language == "console" && self.can(&block) {
                count += self.copy(&page, &block);
            }
        }
        count
    }

    fn can(&self, block: &Block) -> bool {
        let cannot = |mark: &&str| block.is(mark);
        !["slow", "kubelet"].iter().any(cannot) && (self.kueue.is_some() || !block.is("kueue"))
    }

    /// Runs the commands of a block.
    fn copy(&mut self, page: &Page, block: &Block) -> usize {
        let steps = steps(page, block);
        for Step { command, shown } in &steps {
            println!("{}:{}: $ {command}", page.name, block.line);
            let command = built(command, block)
                .replace("localhost:8443", &format!("localhost:{}", self.port))
                .replace("CHECK ", "window ")
                .replace("IMAGE", "registry.example.com/check:1");
            if runs(&command) {
                self.start(&command);
            } else if shown.is_empty() {
                let (well, printed) = self.attempt(&command, &[]);
                // The API server serves a definition only a moment after it was applied.
                if !well && printed.contains("no matches for kind") {
                    self.eventually(&command, &[]);
                } else {
                    assert!(
                        well,
                        "{}:{}: $ {command}\n{printed}\n",
                        page.name, block.line
                    );
                }
            } else {
                self.eventually(&command, shown);
            }
        }
        steps.len()
    }
}

/// Returns true if the command is `PROGRAM run`, which does not end.
fn runs(command: &str) -> bool {
    command.split_whitespace().nth(1) == Some("run")
}

/// Returns a time zone in which the window is closed now and opens today at seven.
fn zone_in_which_it_is_early() -> String {
    let hour = Clock::system().now().to_zoned(TimeZone::UTC).hour();
    // It is three o'clock there. `Etc/GMT+5` is five hours behind UTC.
    match hour - 3 {
        behind @ ..=-1 => format!("Etc/GMT{behind}"),
        behind @ ..=12 => format!("Etc/GMT+{behind}"),
        behind => format!("Etc/GMT{}", behind - 24),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_book_does_on_a_cluster_works() {
    let Some(mut reader) = Reader::new("on-a-cluster").await else {
        return;
    };
    let mut count = 0;
    for page in PAGES {
        count += reader.follow(page);
    }
    assert!(count >= 15, "{count} commands");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_readmes_do_on_a_cluster_works() {
    let Some(mut reader) = Reader::new("readmes-on-a-cluster").await else {
        return;
    };
    let mut count = 0;
    for page in &READMES[..2] {
        count += reader.follow(page);
    }
    for (queue, policy) in [("closed", "None"), ("stopped", "Hold")] {
        let command =
            format!("kubectl get localqueue {queue} -n team -o jsonpath='{{.spec.stopPolicy}}'");
        reader.eventually(&command, &[policy.to_owned()]);
    }
    // Helm does not adopt objects that it has not created.
    reader.must("for check in budget-check provisioning-check; do $check manifests --image x | kubectl delete -f -; done");
    count += reader.follow(READMES[2]);
    assert!(count >= 9, "{count} commands");
}

/// Ends the process in another window.
struct Window(Child);

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_kubectl_commands_of_a_served_simulation_work() {
    let Some(programs) = or_skipped("kubectl on the cluster in a box", programs) else {
        return;
    };
    let folder = workshop("kubectl-on-the-box");
    symlink(programs.kubectl, folder.join("bin/kubectl")).unwrap();
    let serve = format!(
        "exec {} serve retry > output.txt",
        beside("kueue-check-sim")
    );
    let _window = Window(shell(&folder, &serve).spawn().unwrap());
    let mut printed = String::new();
    for _ in 0..TRIES {
        printed = fs::read_to_string(folder.join("output.txt")).unwrap_or_default();
        if printed.contains("-o yaml") {
            break;
        }
        pause();
    }
    let commands = printed.lines().map(str::trim);
    let commands: Vec<&str> = commands
        .filter(|line| line.starts_with("kubectl "))
        .collect();
    assert!(commands.len() >= 2, "{printed}");
    let here = |command: &str| {
        let (well, printed) = run(shell(&folder, command), &[]);
        assert!(well, "$ {command}\n{printed}");
        printed
    };
    for command in commands {
        here(command);
    }
    // Ages, not times.
    let printed = here("kubectl --kubeconfig demo.kubeconfig get jobs,namespaces");
    assert!(!printed.contains("2026-"), "{printed}");
}

#[test]
fn each_page_with_a_cluster_is_followed() {
    for page in super::markdown::book().into_iter().chain(others()) {
        let own = page.name.strip_prefix("book/src/").unwrap_or(&page.name);
        let needed = page.blocks().iter().any(|block| block.is("cluster"));
        let followed = PAGES.contains(&own) || READMES.contains(&own);
        assert!(!needed || followed, "{own}");
    }
}

/// Kueue's own output, with a real Kueue.
mod with_kueue {
    use super::{Kueue, Reader};

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "builds Kueue, which takes minutes: `cargo xtask kueue`"]
    async fn what_the_book_shows_of_kueue_is_what_it_prints() {
        let Some(mut reader) = Reader::new("beside-kueue").await else {
            return;
        };
        reader.kueue = Some(Kueue::start(&reader.cluster).await.unwrap());
        for page in ["tutorials/first-check.md", "tutorials/parameters.md"] {
            assert!(reader.follow(page) > 1, "{page}");
        }
    }
}
