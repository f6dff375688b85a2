//! The autoscaler on an API server, in virtual time.

use std::time::Duration;

use jiff::Timestamp;
use kueue_check::Clock;
use kueue_check_apiserver::{ApiRequest, ApiServer, Resource, Verb};
use kueue_check_kueue_model::autoscaler::{
    Autoscaler, ConditionType, Misbehaviour, NodePool, Profile, RequestKey, Selector, Settings,
};
use kueue_check_testenv::crds_of_autoscaler;
use serde_json::{Value, json};

use super::scenario::{ATOMIC, CHECK, start};

struct Cluster {
    server: ApiServer,
    clock: Clock,
    autoscaler: Autoscaler,
}

fn requests() -> Resource {
    Resource::new("autoscaling.x-k8s.io", "v1", "provisioningrequests")
}

fn call(verb: Verb, resource: &Resource) -> ApiRequest {
    ApiRequest::new(verb, resource).namespace("default")
}

impl Cluster {
    /// Creates a cluster with a pool of nodes with 4 CPUs: one at first, at most three.
    fn new(settings: impl FnOnce(Settings) -> Settings) -> Self {
        let clock = Clock::following_tokio(start());
        let server = ApiServer::new(clock.clone());
        server.install(crds_of_autoscaler().unwrap());
        let pool = NodePool::new("cpu", &[("cpu", "4")], 1, 3);
        let settings = settings(Settings::new(Profile::Oss137, [pool]));
        let autoscaler = Autoscaler::new(server.clone(), clock.clone(), settings);
        let running = autoscaler.clone();
        tokio::spawn(async move { running.run().await });
        Self {
            server,
            clock,
            autoscaler,
        }
    }

    /// Creates a ProvisioningRequest for `count` pods of 1 CPU.
    fn request(&self, name: &str, class: &str, count: u32) {
        self.create(
            &Resource::new("", "v1", "podtemplates"),
            json!({
                "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"namespace": "default", "name": name},
                "template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}},
            }),
        );
        self.create(
            &requests(),
            json!({
                "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"namespace": "default", "name": name},
                "spec": {"provisioningClassName": class, "podSets": [{"count": count, "podTemplateRef": {"name": name}}]},
            }),
        );
    }

    fn create(&self, resource: &Resource, body: Value) {
        let response = self.server.call(&ApiRequest {
            body,
            ..call(Verb::Create, resource)
        });
        assert_eq!(response.code, 201, "{}", response.body);
    }

    fn conditions(&self, name: &str) -> Vec<Value> {
        let request = self.server.get(&requests(), "default", name).unwrap();
        request["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// Returns `type=status reason` of each condition.
    fn condition_lines(&self, name: &str) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let conditions = self.conditions(name).into_iter();
        conditions
            .map(|c| {
                format!(
                    "{}={} {}",
                    text(&c["type"]),
                    text(&c["status"]),
                    text(&c["reason"])
                )
            })
            .collect()
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_is_provisioned_and_expires() {
    let cluster = Cluster::new(|settings| settings);
    seconds(3).await;
    cluster.request("a", ATOMIC, 8);
    seconds(6).await;
    assert_eq!(cluster.condition_lines("a"), [""; 0]);
    seconds(2).await;
    assert_eq!(
        cluster.condition_lines("a"),
        [
            "Accepted=True Accepted",
            "Provisioned=True CapacityIsProvisioned"
        ]
    );
    assert_eq!(cluster.autoscaler.nodes("cpu"), (2, 1));
    let conditions = cluster.conditions("a");
    assert_eq!(conditions[0]["lastTransitionTime"], "2026-11-21T09:00:10Z");
    assert_eq!(conditions[0]["observedGeneration"], 1);
    // Applied, not updated.
    assert_eq!(conditions[1]["observedGeneration"], Value::Null);
    seconds(700).await;
    assert_eq!(
        cluster.condition_lines("a")[2],
        "BookingExpired=True CapacityReservationTimeExpired"
    );
    assert_eq!(cluster.autoscaler.nodes("cpu"), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn each_write_is_the_autoscalers() {
    let cluster = Cluster::new(|settings| settings);
    cluster.request("a", ATOMIC, 8);
    seconds(1).await;
    let object = cluster.server.get(&requests(), "default", "a").unwrap();
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let by = |operation: &str| {
        let mut managers = managers.iter();
        managers.any(|m| {
            m["manager"] == "cluster-autoscaler"
                && m["operation"] == operation
                && m["subresource"] == "status"
        })
    };
    assert!(by("Update") && by("Apply"), "{managers:?}");
    let history = cluster.server.history();
    let agents: Vec<_> = history.iter().map(|change| change.agent.as_str()).collect();
    assert_eq!(
        agents,
        [
            "sim",
            "sim",
            "cluster-autoscaler/v1",
            "cluster-autoscaler/v1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_write_is_made_up_for_at_the_next_scan() {
    let cluster =
        Cluster::new(|settings| settings.misbehave(Selector::all(), Misbehaviour::Conflicts(1)));
    cluster.request("a", CHECK, 1);
    seconds(1).await;
    assert_eq!(cluster.condition_lines("a"), ["Accepted=True Accepted"]);
    seconds(10).await;
    assert_eq!(
        cluster.condition_lines("a"),
        ["Accepted=True Accepted", "Provisioned=True CapacityIsFound"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hand_may_write_what_the_rules_would_not() {
    let cluster = Cluster::new(|settings| settings);
    cluster.request("a", CHECK, 1);
    seconds(1).await;
    let key = RequestKey::new("default", "a");
    assert!(cluster.autoscaler.set(
        &key,
        ConditionType::CapacityRevoked,
        true,
        "CapacityRevoked",
        "gone"
    ));
    assert_eq!(
        cluster.condition_lines("a")[2],
        "CapacityRevoked=True CapacityRevoked"
    );
    let nobody = RequestKey::new("default", "b");
    assert!(
        !cluster
            .autoscaler
            .set(&nobody, ConditionType::Failed, true, "Failed", "")
    );
}

#[tokio::test(start_paused = true)]
async fn settings_change_while_it_runs() {
    let cluster =
        Cluster::new(|settings| settings.misbehave(Selector::all(), Misbehaviour::Unresponsive));
    cluster.request("a", CHECK, 1);
    seconds(60).await;
    assert_eq!(cluster.condition_lines("a"), [""; 0]);
    cluster.autoscaler.change(|settings| {
        *settings = Settings::new(Profile::Oss137, settings.pools.clone());
    });
    seconds(10).await;
    assert_eq!(cluster.condition_lines("a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn definitions_may_come_later() {
    let clock = Clock::following_tokio(start());
    let server = ApiServer::new(clock.clone());
    let settings = Settings::new(
        Profile::Oss137,
        [NodePool::new("cpu", &[("cpu", "4")], 1, 1)],
    );
    let autoscaler = Autoscaler::new(server.clone(), clock.clone(), settings);
    let running = autoscaler.clone();
    tokio::spawn(async move { running.run().await });
    seconds(100).await;
    server.install(crds_of_autoscaler().unwrap());
    let cluster = Cluster {
        server,
        clock,
        autoscaler,
    };
    cluster.request("a", CHECK, 1);
    seconds(10).await;
    assert_eq!(cluster.condition_lines("a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_week_of_retries_ends_in_failure_and_deletion() {
    let cluster = Cluster::new(|settings| settings);
    cluster.request("a", CHECK, 9);
    let day = 86_400;
    seconds(7 * day + 60).await;
    assert_eq!(cluster.condition_lines("a")[2], "Failed=True Expired");
    seconds(7 * day).await;
    assert_eq!(cluster.server.get(&requests(), "default", "a"), None);
    let expected: Timestamp = "2026-12-05T09:01:00Z".parse().unwrap();
    assert_eq!(cluster.clock.now(), expected);
    // Two writes for each attempt, about one attempt every 10 min.
    let writes = cluster.server.history().len();
    assert!((1900..2100).contains(&writes), "{writes}");
}
