//! `explain` on a cluster: its output, and that it writes nothing.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use kueue_check::cli::{Error, Explanation};
use kueue_check::{
    AdmissionCheckController, App, Check, CheckError, CheckRequest, Clock, ControllerName, Preview,
    Trigger, Verdict,
};
use kueue_check_testenv::KueueVersion::{self, V0_14_8, V0_19_2};
use serde_json::{Value, json};

use super::checks::Setting;
use super::faults::Faults;
use super::harness::{TestCluster, test_cluster, test_cluster_with_port, unique};
use super::process::{apply, binary, install};

const CONTROLLER: &str = "example.com/previewed";

/// The behavior of a check in a preview.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// The default of the trait.
    Default,
    /// It reads, and returns a verdict.
    Reads,
    /// It is declared to only read, and writes all the same.
    Writes,
    /// It waits for an object of its watch.
    Watches,
}

struct PreviewedCheck {
    client: Client,
    manner: Manner,
    seen: tokio::sync::watch::Sender<bool>,
}

impl PreviewedCheck {
    async fn write(&self) -> Result<(), CheckError> {
        let api: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        let mut map = ConfigMap::default();
        map.metadata.generate_name = Some("effect-".to_owned());
        api.create(&PostParams::default(), &map).await?;
        Ok(())
    }
}

impl AdmissionCheckController for PreviewedCheck {
    type Parameters = Setting;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static(CONTROLLER) }
    }

    async fn evaluate(&self, request: CheckRequest<Setting>) -> Result<Verdict, CheckError> {
        self.write().await?;
        Ok(Verdict::ready(request.parameters().spec.word.clone()))
    }

    async fn preview(&self, request: CheckRequest<Setting>) -> Result<Preview, CheckError> {
        match self.manner {
            Manner::Default => Ok(Preview::skipped("by default")),
            Manner::Writes => self.evaluate(request).await.map(Preview::of),
            Manner::Reads => {
                let whole = request.full_workload().await?;
                let message = format!(
                    "{} about {}",
                    request.parameters().spec.word,
                    whole["metadata"]["name"]
                );
                Ok(Verdict::pending(message)
                    .recheck_in(Duration::from_secs(90))
                    .into())
            }
            Manner::Watches => {
                let mut seen = self.seen.subscribe();
                let _ = seen.wait_for(|seen| *seen).await;
                Ok(Verdict::ready("seen").into())
            }
        }
    }

    fn configure(self: &Arc<Self>, check: Check<Setting>) -> Check<Setting> {
        let seen = self.seen.clone();
        check.watches_events::<Setting>(kube::runtime::watcher::Config::default(), move |event| {
            if matches!(event, kube::runtime::watcher::Event::InitDone) {
                seen.send_replace(true);
            }
            Trigger::Ignore
        })
    }
}

fn app(manner: Manner) -> App {
    App::new().check_on(move |client| PreviewedCheck {
        client,
        manner,
        seen: tokio::sync::watch::Sender::new(false),
    })
}

async fn explain(
    cluster: &TestCluster,
    client: &Client,
    manner: Manner,
    target: &str,
) -> Result<Explanation, Error> {
    let target = target.parse().unwrap();
    let clock = Clock::system();
    app(manner)
        .explain(client, Some(&cluster.namespace), &target, &clock)
        .await
}

/// Returns everything that a check could have changed.
async fn state(cluster: &TestCluster, check: &str, workload: &str) -> Value {
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
    let maps = maps.list(&kube::api::ListParams::default()).await.unwrap();
    let effects = maps
        .items
        .iter()
        .filter(|map| map.name_any().starts_with("effect-"));
    json!({
        "workload": cluster.get("Workload", workload).await,
        "check": cluster.get("AdmissionCheck", check).await,
        "events": cluster.events(&cluster.namespace, workload).await,
        "effects": effects.count(),
    })
}

async fn a_workload_that_waits(cluster: &TestCluster) -> String {
    let name = unique("previewed");
    cluster.setting(&name, "fine").await;
    cluster.check(&name, CONTROLLER).await;
    cluster.workload("train").await;
    cluster.reserve("train", &[&name]).await;
    name
}

async fn the_preview_is_shown_and_nothing_is_written(version: KueueVersion) {
    let Some(cluster) = test_cluster(version).await else {
        return;
    };
    let name = a_workload_that_waits(&cluster).await;
    let before = state(&cluster, &name, "train").await;
    for (manner, expected) in [
        (Manner::Default, "now         was not evaluated: by default"),
        (
            Manner::Reads,
            "now         would return Pending: fine about \"train\"\n  written     Pending: fine about \"train\"\n  recheck     after 1m30s",
        ),
        (Manner::Writes, "now         would fail: "),
        (
            Manner::Watches,
            "now         would return Ready: seen\n  written     Ready: seen\n",
        ),
    ] {
        let faults = Faults::default();
        let client = faults.around(&cluster.client);
        let explanation = explain(&cluster, &client, manner, "train").await.unwrap();
        let text = explanation.to_string();
        assert!(text.contains(expected), "{manner:?}: {text}");
        assert!(text.contains("waits for 1 of 1 admission checks"), "{text}");
        if matches!(manner, Manner::Writes) {
            assert!(text.contains("this only reads"), "{text}");
        }
        let sent = faults.seen(|seen| !matches!(seen.verb, "get" | "watch"));
        assert_eq!(sent, [], "{manner:?}");
        if matches!(manner, Manner::Default) {
            let about = faults.seen(|seen| seen.path.contains("settings"));
            assert_eq!(about.len(), 1, "its parameters, and no watch: {about:?}");
        }
    }
    assert_eq!(state(&cluster, &name, "train").await, before);
}

#[tokio::test]
async fn what_a_check_would_return_is_shown_and_nothing_is_written() {
    the_preview_is_shown_and_nothing_is_written(V0_19_2).await;
}

#[tokio::test]
async fn what_a_check_would_return_is_shown_on_kueue_0_14_too() {
    the_preview_is_shown_and_nothing_is_written(V0_14_8).await;
}

#[tokio::test]
async fn what_keeps_a_check_from_being_evaluated_is_shown() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let (missing, nonsense, other) = (unique("missing"), unique("nonsense"), unique("other"));
    cluster.setting(&nonsense, "nonsense").await;
    for name in [&missing, &nonsense] {
        cluster.check(name, CONTROLLER).await;
    }
    cluster
        .admission_check(&other, "example.com/else", Value::Null)
        .await;
    cluster.workload("train").await;
    let shown = async || {
        let explanation = explain(&cluster, &cluster.client, Manner::Reads, "train").await;
        explanation.unwrap().to_string()
    };
    let text = shown().await;
    assert!(text.contains("waits for quota"), "{text}");

    let absent = unique("absent");
    cluster
        .reserve("train", &[&missing, &nonsense, &other, &absent])
        .await;
    let text = shown().await;
    for expected in [
        format!(
            "cannot be evaluated, ParametersNotFound: there is no Setting (group test.kueue-check.dev) `{missing}`: create it"
        ),
        format!(
            "cannot be evaluated, ParametersInvalid: Setting `{nonsense}` is invalid: `word` must not be nonsense"
        ),
        "controller  another program (example.com/else)".to_owned(),
        format!("there is no AdmissionCheck `{absent}`"),
    ] {
        assert!(text.contains(&expected), "{expected}: {text}");
    }

    cluster.take_quota("train").await;
    let text = shown().await;
    assert!(
        text.contains("would not be evaluated") || text.contains("cannot be evaluated"),
        "{text}"
    );
}

#[tokio::test]
async fn a_job_suffices_as_target_and_errors_name_the_next_step() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let empty = explain(&cluster, &cluster.client, Manner::Reads, "job/train").await;
    let text = empty.unwrap_err().to_string();
    assert!(text.contains("has no Workloads at all"), "{text}");

    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}});
    let job: Job = serde_json::from_value(
        json!({"metadata": {"name": "train"}, "spec": {"suspend": true, "template": template}}),
    )
    .unwrap();
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let job = jobs.create(&PostParams::default(), &job).await.unwrap();
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job.uid().unwrap(), "controller": true});
    let body = json!({
        "metadata": {"ownerReferences": [owner]},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]},
    });
    cluster
        .create("Workload", "job-train-a1b2c", body.clone())
        .await;
    for target in [
        "job/train",
        "jobs.batch/train",
        "train",
        "job-train-a1b2c",
        "workload/job-train-a1b2c",
    ] {
        let found = explain(&cluster, &cluster.client, Manner::Reads, target)
            .await
            .unwrap();
        assert!(
            found.to_string().contains("/job-train-a1b2c of Job/train"),
            "{target}: {found}"
        );
    }

    let near = explain(&cluster, &cluster.client, Manner::Reads, "job/trian").await;
    let text = near.unwrap_err().to_string();
    assert!(text.contains("did you mean job/train"), "{text}");
    let nothing = explain(&cluster, &cluster.client, Manner::Reads, "job/zzz").await;
    let text = nothing.unwrap_err().to_string();
    assert!(text.contains("kueue.x-k8s.io/queue-name"), "{text}");
    cluster.create("Workload", "job-train-d3e4f", body).await;
    let several = explain(&cluster, &cluster.client, Manner::Reads, "job/train").await;
    let text = several.unwrap_err().to_string();
    assert!(
        text.contains("name one of job-train-a1b2c, job-train-d3e4f"),
        "{text}"
    );
}

/// Runs the example as a process. Returns its exit code, its output and its errors.
fn run(arguments: &[&str], kubeconfig: &std::path::Path) -> (Option<i32>, String, String) {
    let output = Command::new(binary("maintenance_window"))
        .args(arguments)
        .env("KUEUE_CHECK_KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[tokio::test]
async fn the_programs_own_permissions_suffice() {
    let Some(cluster) = test_cluster_with_port(V0_19_2).await else {
        return;
    };
    let (namespace, name) = (unique("explain"), unique("window"));
    let kubeconfig = install(&cluster, "maintenance_window", &namespace).await;
    let parameters = json!({"apiGroup": "example.com", "kind": "Window", "name": name});
    cluster
        .admission_check(&name, "example.com/window", parameters)
        .await;
    let window = json!({"apiVersion": "example.com/v1alpha1", "kind": "Window", "metadata": {"name": name},
                        "spec": {"opens": "00:00:00", "closes": "23:59:59.999", "timeZone": "UTC"}});
    apply(&cluster.client, &window).await;
    cluster.workload("train").await;
    cluster.reserve("train", &[&name]).await;

    let (code, text, error) = run(&["explain", "train", "-n", &cluster.namespace], &kubeconfig);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        text.contains("would return Ready: inside the window"),
        "{text}"
    );
    let (code, text, error) = run(
        &["explain", "train", "-n", &cluster.namespace, "-o", "json"],
        &kubeconfig,
    );
    assert_eq!(code, Some(0), "{error}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["checks"][0]["forecast"]["verdict"], "Ready");

    let (code, _, error) = run(&["explain", "trian", "-n", &cluster.namespace], &kubeconfig);
    assert_eq!(code, Some(1));
    assert!(error.contains("did you mean train?"), "{error}");
    assert_eq!(run(&["explain", "a/b/c"], &kubeconfig).0, Some(2));
    assert_eq!(run(&["explain"], &kubeconfig).0, Some(2));

    // Without its ClusterRole, the error names the missing permission.
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> =
        Api::all(cluster.client.clone());
    roles
        .delete(&namespace, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let error = super::harness::wait("the rights to be gone", async || {
        let (code, _, error) = run(&["explain", "train", "-n", &cluster.namespace], &kubeconfig);
        (code == Some(1), error)
    })
    .await;
    let expected = format!(
        "you may not get workloads.kueue.x-k8s.io in namespace {}",
        cluster.namespace
    );
    assert!(error.contains(&expected), "{error}");
}
