//! A check binary at work on sample objects, told as it happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kueue_check_testenv::{Cluster, KueueVersion, crds, programs};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::kueue::{Queues, array, step, text};
use crate::samples::{Samples, changed_at};

/// How often the cluster and the sample file are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long `--once` waits for answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `program` against a cluster with the objects of `samples`, until Ctrl-C, or until all is answered.
pub(crate) async fn run(program: &Path, samples: &Path, once: bool) -> Result<(), Failure> {
    // A first run builds them, for minutes.
    tokio::task::spawn_blocking(programs).await??;
    let began = Instant::now();
    let say = |what: &str| println!("{:>6.1}s  {what}", began.elapsed().as_secs_f32());
    say("starting etcd and kube-apiserver on loopback");
    let cluster = Cluster::start().await?;
    let client = cluster.client()?;
    say("installing Kueue's definitions (v0.19.2) and those of the check's parameters");
    cluster
        .install(&client, crds(KueueVersion::V0_19_2)?)
        .await?;
    cluster
        .install(&client, parameters_of(program).await?)
        .await?;
    let kubeconfig = cluster.access().kubeconfig()?;
    let log = std::env::temp_dir().join(format!("kueue-check-try-{}.log", std::process::id()));
    let admin = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    say(&format!("applying {}", samples.display()));
    let mut changed = changed_at(samples);
    Samples::read(samples)?.submit(&client).await?;
    say("starting the check; quota is reserved here as Kueue would, when the checks are active");
    println!("         its log       {}", log.display());
    println!("         why they wait http://{admin}/diagnostics");
    println!(
        "         for kubectl   export KUBECONFIG={}",
        kubeconfig.display()
    );
    let mut check = Command::new(program)
        .args(["run", "--admin-address", &admin.to_string()])
        .arg("--admin-secure=false")
        .env("KUBECONFIG", &kubeconfig)
        .stderr(Stdio::from(File::create(&log)?))
        .kill_on_drop(true)
        .spawn()?;
    let mut shown = BTreeMap::new();
    loop {
        let answered = look(&client, &mut shown, &say).await?;
        if once && answered {
            return stop(check).await;
        }
        if once && began.elapsed() > PATIENCE {
            return Err(format!(
                "not all is answered after {PATIENCE:?}; see {}",
                log.display()
            )
            .into());
        }
        let edited = changed_at(samples);
        if edited.is_some() && edited != changed {
            changed = edited;
            say("the file has changed; submitting the Workloads again");
            // A mistake in it is told, and can be put right.
            match Samples::read(samples) {
                Ok(samples) => {
                    shown.retain(|key: &String, _| !key.starts_with("Workload"));
                    if let Err(failure) = samples.submit(&client).await {
                        say(&failure.to_string());
                    }
                }
                Err(failure) => say(&failure.to_string()),
            }
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            status = check.wait() => return Err(format!("the check ended: {}; see {}", status?, log.display()).into()),
            asked = tokio::signal::ctrl_c() => {
                asked?;
                return stop(check).await;
            }
        }
    }
}

/// The definitions of the parameters, which the binary prints itself.
async fn parameters_of(program: &Path) -> Result<Vec<CustomResourceDefinition>, Failure> {
    let printed = Command::new(program).arg("crds").output().await?;
    if !printed.status.success() {
        return Err(String::from_utf8_lossy(&printed.stderr).into_owned().into());
    }
    let documents: Vec<Option<CustomResourceDefinition>> =
        serde_saphyr::from_multiple(&String::from_utf8(printed.stdout)?)?;
    Ok(documents.into_iter().flatten().collect())
}

/// Lets Kueue take its next step, and tells what is new; whether each check of each Workload has been answered.
async fn look(
    client: &Client,
    shown: &mut BTreeMap<String, String>,
    say: &impl Fn(&str),
) -> Result<bool, Failure> {
    let (cluster, local) = (
        list(client, "ClusterQueue").await?,
        list(client, "LocalQueue").await?,
    );
    let checks = list(client, "AdmissionCheck").await?;
    let workloads = list(client, "Workload").await?;
    let mut tell = |key: String, now: String| {
        if !now.is_empty() && shown.get(&key) != Some(&now) {
            say(&format!("{key}: {now}"));
            shown.insert(key, now);
        }
    };
    for check in &checks {
        let condition = array(&check["status"]["conditions"])
            .iter()
            .find(|condition| condition["type"] == "Active");
        if let Some(condition) = condition {
            tell(
                format!("AdmissionCheck {}", text(&check["metadata"]["name"])),
                format!(
                    "Active={} {}",
                    text(&condition["status"]),
                    text(&condition["message"])
                ),
            );
        }
    }
    let queues = Queues {
        cluster: &cluster,
        local: &local,
        checks: &checks,
    };
    let mut answered = !workloads.is_empty();
    for workload in &workloads {
        let name = text(&workload["metadata"]["name"]);
        let entries = array(&workload["status"]["admissionChecks"]);
        answered &= !entries.is_empty();
        for entry in entries {
            answered &= entry["message"] != "";
            tell(
                format!("Workload {name}, check {}", text(&entry["name"])),
                described(entry),
            );
        }
        let Some(status) = step(workload, &queues, &now()) else {
            continue;
        };
        let kueue_does = if status["admission"].is_null() {
            "admitted"
        } else {
            "has quota"
        };
        tell(format!("Workload {name}"), kueue_does.to_owned());
        api(client, "Workload")
            .patch_status(
                &name,
                &PatchParams::apply("kueue-admission"),
                &Patch::Merge(&json!({"status": status})),
            )
            .await?;
    }
    Ok(answered)
}

fn described(entry: &Value) -> String {
    let message = text(&entry["message"]);
    // Kueue's own entry, before the check has said a word.
    if message.is_empty() {
        return String::new();
    }
    let updates = array(&entry["podSetUpdates"]);
    let updates = if updates.is_empty() {
        String::new()
    } else {
        format!(" with {}", json!(updates))
    };
    format!("{} ({message}){updates}", text(&entry["state"]))
}

async fn list(client: &Client, kind: &str) -> Result<Vec<Value>, Failure> {
    let objects = api(client, kind).list(&ListParams::default()).await?;
    Ok(objects
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<_, _>>()?)
}

/// The samples are all in the namespace `default`.
fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        api_version: "kueue.x-k8s.io/v1beta2".to_owned(),
        kind: kind.to_owned(),
        plural: kind.to_lowercase() + "s",
    };
    match kind {
        "Workload" | "LocalQueue" => Api::namespaced_with(client.clone(), "default", &resource),
        _ => Api::all_with(client.clone(), &resource),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a real server is on the other side"
)]
fn now() -> String {
    k8s_openapi::jiff::Timestamp::now()
        .strftime("%FT%TZ")
        .to_string()
}

/// As Kubernetes stops a pod.
async fn stop(mut check: Child) -> Result<(), Failure> {
    if let Some(id) = check.id() {
        Command::new("kill").arg(id.to_string()).status().await?;
    }
    check.wait().await?;
    Ok(())
}
