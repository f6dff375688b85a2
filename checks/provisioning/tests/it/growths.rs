//! Elastic jobs that grow: their requests and the handling of failures. No running pod ends because
//! of a growth, with every single fault.

use std::collections::BTreeSet;
use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::apiserver::{ChangeVerb, Resource};
use kueue_check_sim::kueue::KueueVersion;
use kueue_check_sim::{Cluster, Job};
use serde_json::{Value, json};

use crate::harness::*;

const MINUTE: Duration = Duration::from_secs(60);

async fn expect_pods(cluster: &Cluster, pods: usize) {
    let runs = |cluster: &Cluster| cluster.running_pods("train") == pods;
    cluster.expect(&format!("{pods} pods run"), runs).await;
}

/// Starts an elastic job with two pods on requested capacity.
async fn started(cluster: &Cluster) -> String {
    cluster.submit(Job::new("train").pods(2).elastic());
    let request = requested(cluster, "train", 1).await;
    set_condition(cluster, &request, "Provisioned", "True", "Provisioned");
    expect_pods(cluster, 2).await;
    request
}

/// Waits for attempt `attempt` for the newest growth, with which the job has `pods` pods.
async fn growth_requested(cluster: &Cluster, pods: u32, attempt: u32) -> String {
    let is_submitted = |cluster: &Cluster| {
        let workload = cluster.workload("train");
        workload.is_some_and(|workload| workload["spec"]["podSets"][0]["count"] == pods)
    };
    cluster.expect("the growth is there", is_submitted).await;
    requested(cluster, "train", attempt).await
}

/// Ends the job and checks that nothing is left. In between, no running pod ended, and no attempt
/// was made twice unless a user deleted its request.
async fn ends(cluster: &Cluster, again: &[&str]) {
    let stopped = cluster.server().history().into_iter().find(|change| {
        let (kind, spec) = (&change.object["kind"], &change.object["spec"]);
        kind == "Job"
            && spec["suspend"] == true
            && change.verb == ChangeVerb::Modified
            && change.object["status"]["startTime"].is_string()
    });
    assert!(stopped.is_none(), "the job was stopped: {stopped:?}");
    cluster.complete("train");
    cluster.expect_finished("train").await;
    no_requests(cluster).await;
    let gone = |cluster: &Cluster| templates(cluster).is_empty();
    cluster.expect("no template is left", gone).await;
    let mut seen = BTreeSet::new();
    for name in created(cluster, "provisioningrequests") {
        assert!(
            seen.insert(name.clone()) || again.contains(&&*name),
            "{name} is created twice"
        );
    }
}

#[test]
fn a_growth_that_fails_is_retried_until_the_limit() {
    simulation(&retries(1)).every_single_fault(async |cluster| {
        let running = started(cluster).await;
        cluster.scale("train", 4);
        let first = growth_requested(cluster, 4, 1).await;
        assert_eq!(pods_of(cluster, &first), json!(2));
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        let second = growth_requested(cluster, 4, 2).await;
        set_condition(cluster, &second, "Failed", "True", "no nodes again");
        let what = format!(
            "would be refused: no nodes again (attempt 2, and no other follows: scale the job back, or begin again by deleting the request \"{second}\"); the job runs on with 2 pods"
        );
        cluster.expect_message("train", &what).await;
        cluster.advance(20 * MINUTE).await;
        assert_eq!(cluster.running_pods("train"), 2);
        assert_eq!(names(cluster), [running.clone(), second.clone()]);
        // A user deletes the request to start the attempts again.
        cluster.delete(&json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": {"namespace": "default", "name": second}}));
        let again = growth_requested(cluster, 4, 1).await;
        assert_eq!(again, first);
        set_condition(cluster, &again, "Provisioned", "True", "Provisioned");
        expect_pods(cluster, 4).await;
        assert_eq!(names(cluster), [running, first.clone()]);
        ends(cluster, &[&first]).await;
    });
}

#[test]
fn a_growth_whose_capacity_is_revoked_or_expires_before_it_starts_is_retried() {
    for lost in ["CapacityRevoked", "BookingExpired"] {
        simulation(&retries(1))
            .signed_off()
            .every_single_fault(async |cluster| {
                sign(cluster);
                started(cluster).await;
                signs(cluster, false);
                cluster.scale("train", 4);
                let first = growth_requested(cluster, 4, 1).await;
                set_condition(cluster, &first, "Provisioned", "True", "Provisioned");
                cluster.expect_state("train", CheckState::Ready).await;
                set_condition(cluster, &first, lost, "True", "gone");
                let second = growth_requested(cluster, 4, 2).await;
                assert_eq!(cluster.running_pods("train"), 2);
                set_condition(cluster, &second, "Provisioned", "True", "Provisioned");
                sign(cluster);
                expect_pods(cluster, 4).await;
                ends(cluster, &[]).await;
            });
    }
}

#[test]
fn a_growth_that_is_scaled_back_or_grown_on_leaves_no_request() {
    simulation(&retries(0)).every_single_fault(async |cluster| {
        let running = started(cluster).await;
        cluster.scale("train", 4);
        let first = growth_requested(cluster, 4, 1).await;
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        cluster.expect_message("train", "no other follows").await;
        // Grown again: another Workload, whose attempts start at 1.
        cluster.scale("train", 7);
        let on = growth_requested(cluster, 7, 1).await;
        assert_eq!(pods_of(cluster, &on), json!(5));
        let both = [running.clone(), on.clone()];
        let only = |cluster: &Cluster| names(cluster).iter().all(|name| both.contains(name));
        cluster.expect("the failed one is gone", only).await;
        assert_eq!(cluster.running_pods("train"), 2);
        // Scaled back: nothing is requested any longer.
        cluster.scale("train", 2);
        cluster.expect_admitted("train").await;
        assert_eq!(cluster.running_pods("train"), 2);
        ends(cluster, &[]).await;
    });
}

/// What the first growth was given is not used: the second one requests all that it adds.
#[test]
fn a_growth_that_is_grown_on_before_it_starts_leaves_no_request() {
    simulation(&retries(0)).signed_off().run(async |cluster| {
        sign(cluster);
        let running = started(cluster).await;
        signs(cluster, false);
        cluster.scale("train", 4);
        let first = growth_requested(cluster, 4, 1).await;
        set_condition(cluster, &first, "Provisioned", "True", "Provisioned");
        cluster.expect_state("train", CheckState::Ready).await;
        cluster.scale("train", 7);
        let second = growth_requested(cluster, 7, 1).await;
        assert_eq!(pods_of(cluster, &second), json!(5));
        let both = [running, second.clone()];
        let only = |cluster: &Cluster| names(cluster).iter().all(|name| both.contains(name));
        cluster.expect("the first one's is gone", only).await;
        set_condition(cluster, &second, "Provisioned", "True", "Provisioned");
        signs(cluster, true);
        expect_pods(cluster, 7).await;
        ends(cluster, &[]).await;
    });
}

/// Runs an elastic job that has grown to four pods, two of which run on capacity that was requested
/// before. Returns both requests.
async fn grown(cluster: &Cluster) -> [String; 2] {
    let before = started(cluster).await;
    cluster.scale("train", 4);
    let growth = growth_requested(cluster, 4, 1).await;
    set_condition(cluster, &growth, "Provisioned", "True", "Provisioned");
    expect_pods(cluster, 4).await;
    [before, growth]
}

#[test]
fn capacity_that_is_revoked_from_the_pods_that_ran_before_a_growth_stops_the_job() {
    simulation(&retries(0)).every_single_fault(async |cluster| {
        let [before, _] = grown(cluster).await;
        set_condition(
            cluster,
            &before,
            "CapacityRevoked",
            "True",
            "nodes are gone",
        );
        cluster.expect_state("train", CheckState::Rejected).await;
        cluster.expect_message("train", "nodes are gone").await;
        expect_pods(cluster, 0).await;
        no_requests(cluster).await;
    });
}

#[test]
fn a_process_that_starts_anew_deletes_all_requests_of_a_job_that_has_grown() {
    simulation(&retries(0)).every_single_fault(async |cluster| {
        let mut both = grown(cluster).await;
        both.sort_unstable();
        cluster.crash(0);
        cluster.advance(MINUTE).await;
        assert_eq!(names(cluster), both);
        ends(cluster, &[]).await;
    });
}

#[test]
fn a_config_that_is_missing_for_a_moment_deletes_no_request_of_running_pods() {
    simulation(&retries(0)).run(async |cluster| {
        let both = grown(cluster).await;
        cluster.scale("train", 7);
        growth_requested(cluster, 7, 1).await;
        let config = retries(0);
        cluster.delete(&config);
        cluster.advance(MINUTE).await;
        let kept = names(cluster);
        assert!(both.iter().all(|name| kept.contains(name)), "{kept:?}");
        cluster.apply(&config);
        let growth = growth_requested(cluster, 7, 1).await;
        set_condition(cluster, &growth, "Provisioned", "True", "Provisioned");
        expect_pods(cluster, 7).await;
        ends(cluster, &[&growth]).await;
    });
}

fn flavor(name: &str) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": {"pool": name}}})
}

/// Returns the request of the variant of the only job for `flavor`.
fn request_for(cluster: &Cluster, flavor: &str) -> Option<String> {
    let workloads = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
    let workloads = cluster.server().objects(&workloads, "default");
    let variant = workloads.iter().find(|workload| {
        let annotations = &workload["metadata"]["annotations"];
        annotations["kueue.x-k8s.io/workload-allowed-resource-flavors"] == flavor
    })?;
    let all = requests(cluster);
    let own = all.iter().find(|request| {
        let annotations = &request["metadata"]["annotations"];
        annotations["provisioning.kueue-check.dev/workload-uid"] == variant["metadata"]["uid"]
    })?;
    Some(own["metadata"]["name"].as_str()?.to_owned())
}

/// A job has a variant for each flavor. The better one keeps its quota while the other runs.
#[test]
fn capacity_that_is_revoked_from_another_variant_stops_no_job() {
    let quota =
        |name: &str| json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": "10"}]});
    let groups =
        json!([{"coveredResources": ["cpu"], "flavors": [quota("spot"), quota("on-demand")]}]);
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "resourceGroups": groups,
        "concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]},
    }});
    let version = KueueVersion {
        concurrent_admission: true,
        ..KueueVersion::V0_19
    };
    let simulation = simulation(&retries(0)).kueue(version);
    let simulation = simulation
        .object(&flavor("spot"))
        .object(&flavor("on-demand"));
    simulation.object(&queue).run(async |cluster| {
        cluster.submit(Job::new("train"));
        let both = |cluster: &Cluster| {
            let flavors = ["spot", "on-demand"];
            flavors
                .iter()
                .all(|flavor| request_for(cluster, flavor).is_some())
        };
        cluster.expect("both variants have requests", both).await;
        let [better, other] = ["spot", "on-demand"].map(|flavor| request_for(cluster, flavor));
        let (better, other) = (better.unwrap(), other.unwrap());
        admitted(cluster, &other).await;
        set_condition(
            cluster,
            &better,
            "CapacityRevoked",
            "True",
            "nodes are gone",
        );
        cluster.advance(5 * MINUTE).await;
        assert!(cluster.is_admitted("train"));
        assert!(names(cluster).contains(&other));
    });
}
