//! Shell blocks marked `cluster`, as one reader comes to them: page after page on one cluster, with
//! kubectl, Helm and the programs that the pages run.
//!
//! The cluster is a real API server with Kueue's and the autoscaler's definitions. Blocks marked
//! `kueue` wait for a real Kueue (`cargo xtask kueue`); without one the test makes the Workload
//! that the pages speak of. Nothing runs pods, so blocks marked `kubelet` are left out, and the
//! program itself answers in the pod's place.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use jiff::tz::TimeZone;
use kueue_check::Clock;
use kueue_check_book::repository;
use kueue_check_testenv::{
    Cluster, Kueue, KueueVersion, crds, crds_of_autoscaler, or_skipped, programs, workload,
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

/// How often a change that another process makes is polled, with a second between polls.
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
    /// With a cluster that has Kueue's and the autoscaler's definitions; `None`, with a word why,
    /// if there can be none here and none is required.
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
        // Some check of the reader's own.
        let own = "#!/bin/sh\nexec window \"$@\"\n";
        fs::write(folder.join("bin/my-check"), own).unwrap();
        assert!(
            shell(&folder, "chmod +x bin/my-check")
                .status()
                .unwrap()
                .success()
        );
        let helm = repository().join(".tools/bin/helm");
        assert!(helm.exists(), "`cargo xtask helm` installs Helm");
        symlink(helm, folder.join("bin/helm")).unwrap();
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, probe_port] = ports.map(|port| port.local_addr().unwrap().port());
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

    /// One attempt.
    fn attempt(&self, command: &str, shown: &[String]) -> (bool, String) {
        let mut shell = shell(&self.folder, command);
        shell.env("KUBECONFIG", self.cluster.access().kubeconfig().unwrap());
        run(shell, shown)
    }

    /// What a page takes for granted.
    fn must(&self, command: &str) {
        let (well, said) = self.attempt(command, &[]);
        assert!(well, "$ {command}\n{said}");
    }

    /// Ends the program as Ctrl-C does.
    fn stop(&mut self) {
        if let Some(mut program) = self.program.take() {
            let kill = format!("kill {}", program.id());
            let _ = shell(&self.folder, &kill).status();
            let _ = program.wait();
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

    /// Runs `command` until it says what is shown.
    fn eventually(&self, command: &str, shown: &[String]) {
        let mut last = String::new();
        for _ in 0..TRIES {
            let (well, said) = self.attempt(command, shown);
            if well {
                return;
            }
            last = said;
            pause();
        }
        panic!("$ {command}\n{last}\n\nexpected:\n{}", shown.join("\n"));
    }

    /// What the reader has done before the page's first command, as its words say.
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

    /// A Workload that holds quota and waits for the check `window`, as Kueue makes it.
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

    /// Follows a page; how many commands that were.
    fn follow(&mut self, name: &str) -> usize {
        let page = if name.ends_with("README.md") {
            others().into_iter().find(|page| page.name == name).unwrap()
        } else {
            page(name)
        };
        self.prepare(name);
        let mut count = 0;
        for block in page.blocks() {
            // A README's manifests are there to be copied; other YAML is a chart's values.
            let manifest = block
                .lines
                .iter()
                .any(|line| line.starts_with("apiVersion"));
            if block.language == "yaml" && manifest && name.ends_with("README.md") {
                fs::write(self.folder.join("block.yaml"), block.lines.join("\n")).unwrap();
                self.must("kubectl apply -f block.yaml");
                count += 1;
            }
            // The others make the files that these need.
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

    /// Copies the commands of a block into the terminal.
    fn copy(&mut self, page: &Page, block: &Block) -> usize {
        let steps = steps(page, block);
        for Step { command, shown } in &steps {
            println!("{}:{}: $ {command}", page.name, block.line);
            let command = built(command, block)
                .replace("localhost:8443", &format!("localhost:{}", self.port))
                .replace("CHECK ", "window ")
                .replace("IMAGE", "registry.example.com/check:1");
            if command.ends_with(" run") {
                self.start(&command);
            } else if shown.is_empty() {
                let (well, said) = self.attempt(&command, &[]);
                // A definition is served a moment after it was applied.
                if !well && said.contains("no matches for kind") {
                    self.eventually(&command, &[]);
                } else {
                    assert!(well, "{}:{}: $ {command}\n{said}\n", page.name, block.line);
                }
            } else {
                self.eventually(&command, shown);
            }
        }
        steps.len()
    }
}

/// One in which the window is closed, and opens today at seven, whenever this runs.
fn zone_in_which_it_is_early() -> String {
    let hour = Clock::system().now().to_zoned(TimeZone::UTC).hour();
    // Three o'clock there. `Etc/GMT+5` is five hours behind.
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
        let ask =
            format!("kubectl get localqueue {queue} -n team -o jsonpath='{{.spec.stopPolicy}}'");
        reader.eventually(&ask, &[policy.to_owned()]);
    }
    // Helm does not take over what it has not made.
    reader.must("for check in budget-check provisioning-check; do $check manifests --image x | kubectl delete -f -; done");
    count += reader.follow(READMES[2]);
    assert!(count >= 9, "{count} commands");
}

/// Ends what runs in another window.
struct Window(Child);

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_a_served_box_says_of_kubectl_works() {
    let Some(programs) = or_skipped("kubectl on the cluster in a box", programs) else {
        return;
    };
    let folder = workshop("kubectl-on-the-box");
    symlink(programs.kubectl, folder.join("bin/kubectl")).unwrap();
    let serve = format!("exec {} serve retry > said.txt", beside("kueue-check-sim"));
    let _window = Window(shell(&folder, &serve).spawn().unwrap());
    let mut said = String::new();
    for _ in 0..TRIES {
        said = fs::read_to_string(folder.join("said.txt")).unwrap_or_default();
        if said.contains("-o yaml") {
            break;
        }
        pause();
    }
    let told = said.lines().map(str::trim);
    let told: Vec<&str> = told.filter(|line| line.starts_with("kubectl ")).collect();
    assert!(told.len() >= 2, "{said}");
    let here = |command: &str| {
        let (well, said) = run(shell(&folder, command), &[]);
        assert!(well, "$ {command}\n{said}");
        said
    };
    for command in told {
        here(command);
    }
    // Ages, not times.
    let said = here("kubectl --kubeconfig demo.kubeconfig get jobs,namespaces");
    assert!(!said.contains("2026-"), "{said}");
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

/// Beside a real Kueue: what Kueue says.
mod with_kueue {
    use super::{Kueue, Reader};

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "builds Kueue, which takes minutes: `cargo xtask kueue`"]
    async fn what_the_book_shows_of_kueue_is_what_it_says() {
        let Some(mut reader) = Reader::new("beside-kueue").await else {
            return;
        };
        reader.kueue = Some(Kueue::start(&reader.cluster).await.unwrap());
        for page in ["tutorials/first-check.md", "tutorials/parameters.md"] {
            assert!(reader.follow(page) > 1, "{page}");
        }
    }
}
