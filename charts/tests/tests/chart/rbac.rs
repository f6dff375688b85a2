//! A check with the permissions of the chart's ServiceAccount: they suffice, and each of them is
//! needed.
//!
//! A scenario makes a check use all its permissions. It runs once with all of them, and once
//! without each. Then a request must be denied, and the denial must be reported.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use kueue_check::DynCheck;
use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime, RuntimeHandle};
use kueue_check_testenv::token;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::harness::{Stage, eventually, helm, stage, values};
use crate::rbac_recorder::{Permission, Recorder};

/// The maximum duration of a scenario.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(90);

/// A scenario in which a check uses all its permissions.
pub(crate) trait Scenario {
    /// The release, which also names the namespace.
    const RELEASE: &'static str;
    /// The chart's values for it.
    const VALUES: &'static str;
    /// Further values, as for `--set`.
    const SET: &'static str = "image.tag=v1";

    /// Returns the check.
    fn check(client: &Client) -> DynCheck;

    /// Runs on `stage`. `name` is the AdmissionCheck's name, which no other run has.
    fn run(stage: &Stage, name: &str) -> impl Future<Output = ()>;

    /// Deletes the objects that the run has left.
    fn clear(stage: &Stage, name: &str) -> impl Future<Output = ()>;
}

/// The installed chart, and its ServiceAccount.
struct Installed {
    stage: Stage,
    /// The name of the ServiceAccount and the Lease.
    name: String,
    client: Client,
    /// ClusterRole and Role.
    roles: Vec<Value>,
}

/// Runs the scenario with all permissions, and without each.
pub(crate) async fn each_permission_is_needed<S: Scenario>() {
    let Some(installed) = install::<S>().await else {
        return;
    };
    let permissions: BTreeSet<Permission> = installed.roles.iter().flat_map(permissions).collect();
    let began = Instant::now();
    let all = installed.run::<S>("all", &permissions).await;
    assert_eq!(
        all,
        RunOutcome::default(),
        "the chart's permissions do not suffice"
    );
    println!(
        "{}: with all {} permissions: {:?}",
        S::RELEASE,
        permissions.len(),
        began.elapsed()
    );

    for (number, permission) in permissions.iter().enumerate() {
        let began = Instant::now();
        let role = installed
            .roles
            .iter()
            .find(|role| self::permissions(role).contains(permission))
            .unwrap();
        installed.stage.replace(&without(role, permission)).await;
        installed.wait_allowed(role, permission, false).await;
        let others = permissions
            .iter()
            .filter(|other| *other != permission)
            .cloned();
        let outcome = installed
            .run::<S>(&number.to_string(), &others.collect())
            .await;
        assert_eq!(
            outcome.denied,
            BTreeSet::from([permission.clone()]),
            "without permission to {permission} nothing else may fail, and something must: it is superfluous, or the scenario does not use it"
        );
        let report = outcome.report.unwrap_or_else(|| {
            panic!("permission to {permission} was denied, and this is reported nowhere")
        });
        println!(
            "{}: without {permission}: {report} ({:?})",
            S::RELEASE,
            began.elapsed()
        );
        installed.stage.replace(role).await;
        installed.wait_allowed(role, permission, true).await;
    }
}

/// The outcome of a run.
#[derive(Debug, Default, PartialEq)]
struct RunOutcome {
    /// The denied requests.
    denied: BTreeSet<Permission>,
    /// Where the denial is visible.
    report: Option<String>,
}

async fn install<S: Scenario>() -> Option<Installed> {
    let helm = helm()?;
    let stage = stage(S::RELEASE).await?;
    let file = values(S::VALUES);
    let image = "image.repository=example.com/x";
    let arguments = ["--values", &file, "--set", image, "--set", S::SET];
    let documents = helm.template(S::RELEASE, S::RELEASE, &arguments).unwrap();
    stage.install(&documents).await;
    let of_kind = |kind: &str| {
        let found = documents.iter().find(|document| document["kind"] == kind);
        found.unwrap().clone()
    };
    let name = of_kind("ServiceAccount")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    Some(Installed {
        client: token_client(&stage, &name).await,
        roles: vec![of_kind("ClusterRole"), of_kind("Role")],
        name,
        stage,
    })
}

/// Returns a client with a token of the ServiceAccount.
pub(crate) async fn token_client(stage: &Stage, account: &str) -> Client {
    let token = token(&stage.client, &stage.namespace, account, 3600).await;
    let file = stage
        .access
        .kubeconfig_with_token(account, &token.unwrap())
        .unwrap();
    let kubeconfig = Kubeconfig::read_from(file).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.default_retry = false;
    ClientBuilder::try_from(config).unwrap().build()
}

impl Installed {
    /// Runs once. Ends when a request is denied and that is visible, or when all `permissions` were
    /// used.
    async fn run<S: Scenario>(
        &self,
        number: &str,
        permissions: &BTreeSet<Permission>,
    ) -> RunOutcome {
        let (stage, name) = (&self.stage, format!("{}-{number}", S::RELEASE));
        // Each run creates its own Lease.
        stage.delete(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self.name, "namespace": stage.namespace}})).await;
        let recorder = Recorder::default();
        let client = recorder.around(&self.client);
        let lease = LeaseConfig {
            namespace: stage.namespace.clone(),
            name: self.name.clone(),
            identity: name.clone(),
            times: LeaseTimes::default(),
        };
        let runtime = Runtime::builder(client.clone())
            .lease_client(client.clone())
            .lease(lease)
            .checks([S::check(&client)])
            .build()
            .unwrap();
        let handle = runtime.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut running = tokio::spawn(runtime.run(async move {
            let _ = stopped.await;
        }));
        let scenario = async {
            S::run(stage, &name).await;
            recorder
                .until(|recorder| recorder.unused(permissions).is_empty())
                .await;
        };
        let ended = timeout(SCENARIO_TIMEOUT, async {
            tokio::select! {
                () = scenario => {}
                () = recorder.until(|recorder| !recorder.denied().is_empty()) => {}
            }
        });
        assert!(
            ended.await.is_ok(),
            "not used in {SCENARIO_TIMEOUT:?}: {:?}",
            recorder.unused(permissions)
        );
        let mut report = None;
        if !recorder.denied().is_empty() {
            report = Some(
                eventually("a report of what was refused", async || {
                    let report = report_of(&handle, stage, &name).await;
                    (report.is_some(), report)
                })
                .await
                .unwrap(),
            );
        }
        let _ = stop.send(());
        // The shutdown may hang on a denied request.
        if timeout(Duration::from_secs(5), &mut running).await.is_err() {
            running.abort();
        }
        // The Lease is released at the end.
        if report.is_none() && !recorder.denied().is_empty() {
            report = report_of(&handle, stage, &name).await;
        }
        S::clear(stage, &name).await;
        RunOutcome {
            denied: recorder.denied(),
            report,
        }
    }

    /// Waits until the API server allows `permission` to the account, or denies it.
    async fn wait_allowed(&self, role: &Value, permission: &Permission, wanted: bool) {
        let (resource, subresource) = permission
            .resource
            .split_once('/')
            .unwrap_or((&permission.resource, ""));
        let mut attributes = json!({"group": permission.group, "resource": resource, "subresource": subresource, "verb": permission.verb});
        if role["kind"] == "Role" {
            attributes["namespace"] = json!(self.stage.namespace);
            attributes["name"] = json!(self.name);
        }
        let user = format!(
            "system:serviceaccount:{}:{}",
            self.stage.namespace, self.name
        );
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        let reviews: Api<SubjectAccessReview> = Api::all(self.stage.client.clone());
        eventually("RBAC to know", async || {
            let response = reviews
                .create(&PostParams::default(), &review)
                .await
                .unwrap();
            let status = response.status.unwrap();
            (status.allowed == wanted, (permission.to_string(), status))
        })
        .await;
    }
}

/// Returns where a denied request is visible: in the inputs of alerts, readiness, conditions and
/// messages.
async fn report_of(handle: &RuntimeHandle, stage: &Stage, name: &str) -> Option<String> {
    let metrics = handle.metrics().await;
    let counted = metrics.lines().find(|line| {
        let refused =
            line.starts_with("kueue_check_api_requests_total{") && line.contains("code=\"403\"");
        let failed = line.starts_with("kueue_check_releases_total{")
            && line.contains("outcome=\"transient\"");
        (refused || failed) && !line.ends_with(" 0")
    });
    if let Some(line) = counted {
        return Some(line.to_owned());
    }
    if let Some(problem) = handle
        .problems()
        .into_iter()
        .find(|problem| problem.contains("forbidden"))
    {
        return Some(format!("/readyz: {problem}"));
    }
    for (kind, namespace) in [
        ("Workload", Some(&stage.namespace)),
        ("AdmissionCheck", None),
    ] {
        for object in stage.list(kind, namespace.map(String::as_str)).await {
            let text = object["status"].to_string();
            if object["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .contains(name)
                && text.contains("forbidden")
            {
                return Some(format!("status of the {kind}: {text}"));
            }
        }
    }
    None
}

/// Returns the permissions of a role.
fn permissions(role: &Value) -> Vec<Permission> {
    single_rules(role)
        .into_iter()
        .map(|(permission, _)| permission)
        .collect()
}

/// Returns the role's rules, split into one for each permission.
fn single_rules(role: &Value) -> Vec<(Permission, Value)> {
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        let all = rule[key].as_array().unwrap().iter();
        all.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut single = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    let mut own =
                        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
                    if let Some(names) = rule.get("resourceNames") {
                        own["resourceNames"] = names.clone();
                    }
                    let permission = Permission {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb,
                    };
                    single.push((permission, own));
                }
            }
        }
    }
    single
}

/// Returns `role` without one permission.
fn without(role: &Value, permission: &Permission) -> Value {
    let rules = single_rules(role).into_iter();
    let rules: Vec<Value> = rules
        .filter(|(own, _)| own != permission)
        .map(|(_, rule)| rule)
        .collect();
    let mut role = role.clone();
    role["rules"] = json!(rules);
    role
}
