//! Each example on the simulated cluster: a job waits for it and starts, also with a sample of
//! every single fault. Where the simulator lacks something that a file names, the test replaces it
//! and has a comment on it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use kube::CustomResourceExt;
use kueue_check_rule::approval::guard;
use kueue_check_rule::approval::resource::Approval;
use kueue_check_rule::celcheck::CELCheck;
use kueue_check_rule::webhook::transport::{ServiceCall, ServiceReply, Transport};
use kueue_check_rule::{ApprovalCheck, ServerPolicy, WebhookCheck};
use kueue_check_sim::simulation::CheckContext;
use kueue_check_sim::{Cluster, Job, Simulation};
use kueue_check_sources::SourceError;
use serde_json::{Value as Json, json};

use crate::approval::definition;
use crate::cel::Sources;
use crate::program::documents;
use crate::server::open;
use crate::service::no_harm;

/// Returns the parameters of an example, in which the first of each two texts is replaced by the
/// second.
fn example(name: &str, edits: &[(&str, &str)]) -> Json {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = std::fs::read_to_string(path.join(format!("examples/{name}.yaml"))).unwrap();
    for (from, to) in edits {
        assert!(text.contains(from), "{name} has no `{from}`");
        text = text.replace(from, to);
    }
    documents(&text).next().unwrap()
}

fn policy() -> ServerPolicy {
    open(&[
        "https://prometheus.monitoring:9090",
        "https://alertmanager.monitoring:9093",
        "https://prices.example",
        "https://opa.policy:8181",
    ])
}

/// Returns a simulation with an example of a CELCheck, whose data source `source` first returns
/// `response`.
fn cel(example: &Json, watched: &'static str, source: &'static str, response: &Json) -> Simulation {
    let response = response.clone();
    let make = move || {
        let sources = Sources::default();
        sources.set_response(source, response.clone());
        sources
    };
    let check = move |context: &CheckContext| {
        let sources = context.external(&make);
        let check = CELCheck::with_fetch(policy(), Arc::new(sources));
        let watched = watched.split(',').filter(|resource| !resource.is_empty());
        let watched: Vec<_> = watched.map(|resource| resource.parse().unwrap()).collect();
        check.watched(watched)
    };
    Simulation::with_context(check).parameters(example)
}

/// Runs the scenario with a sample of every single fault of the cluster, none of which harms a job.
fn with_faults(simulation: Simulation, scenario: impl AsyncFn(&Cluster) + Sync) {
    let simulation = simulation
        .points_of_a_kind(2)
        .invariant("no job is harmed", no_harm)
        .sample(12);
    println!("{}", simulation.run_with_each_fault(scenario));
}

/// Returns a Workload with this label: the simulated Kueue copies no labels from jobs.
fn labelled(key: &str, value: &str) -> Json {
    let pod = json!({"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": "train", "namespace": "default", "labels": {key: value}},
        "spec": {"queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]},
    })
}

#[test]
fn maintenance_holds_a_job_that_would_run_into_it() {
    let calendar = |windows: &Json| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "kueue-system", "name": "maintenance"}, "data": windows})
    };
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}});
    let window = json!({"network": "2026-11-24T06:00:00Z/2026-11-24T08:00:00Z"});
    let simulation = cel(&example("maintenance", &[]), "configmaps", "", &json!(null))
        .starting_at("2026-11-24T05:30:00Z")
        .object(&namespace)
        .object(&calendar(&window))
        .expect_timeout(Duration::from_hours(4));
    with_faults(simulation, async |cluster| {
        let hour =
            |name: &str| Job::new(name).label("kueue.x-k8s.io/max-exec-time-seconds", "3600");
        cluster.submit(hour("first"));
        let message = "may take until after the beginning of network";
        cluster.expect_message("first", message).await;
        // The maintenance is postponed.
        let later = json!({"network": "2026-11-24T07:00:00Z/2026-11-24T08:00:00Z"});
        cluster.apply(&calendar(&later));
        cluster.expect_admitted("first").await;
        cluster.complete("first");
        cluster.expect_finished("first").await;
        cluster.advance(Duration::from_mins(45)).await;
        cluster.submit(hour("second"));
        cluster.expect_message("second", message).await;
        // The maintenance has ended.
        cluster.expect_admitted("second").await;
        // One of the faults sets the clock of the replica 1 min ahead.
        let now = cluster.now();
        assert!(now >= "2026-11-24T07:58:59Z".parse().unwrap(), "{now}");
    });
}

/// A stand-in definition replaces that of `PersistentVolumeClaim`.
#[test]
fn dataset_holds_a_job_until_its_volume_is_bound() {
    let claim = |phase: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Claim", "metadata": {"namespace": "default", "name": "texts"},
            "status": {"phase": phase}})
    };
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let claims = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "claims.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Claim", "plural": "claims", "singular": "claim", "listKind": "ClaimList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    let rule = example(
        "dataset",
        &[("'persistentvolumeclaims'", "'claims.example.com'")],
    );
    let simulation = cel(&rule, "example.com/v1/claims", "", &json!(null)).object(&claims);
    with_faults(simulation, async |cluster| {
        cluster.apply(&labelled("example.com/dataset", "texts"));
        let message = "there is no PersistentVolumeClaim texts";
        cluster.expect_message("train", message).await;
        cluster.apply(&claim("Pending"));
        cluster.expect_message("train", "texts is not bound").await;
        cluster.apply(&claim("Bound"));
        cluster.expect_admitted("train").await;
    });
}

#[test]
fn nodes_holds_a_job_while_a_node_of_its_flavor_is_not_well() {
    let node = |name: &str, unhealthy: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"example.com/flavor": "default"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": "GPUUnhealthy", "status": unhealthy}]}})
    };
    let simulation = cel(&example("nodes", &[]), "nodes", "", &json!(null))
        .object(&node("a", "False"))
        .object(&node("b", "True"));
    with_faults(simulation, async |cluster| {
        cluster.submit(Job::new("train"));
        cluster
            .expect_message("train", "waits for the nodes b")
            .await;
        cluster.delete(&node("b", "True"));
        cluster.expect_admitted("train").await;
    });
}

#[test]
fn price_holds_a_job_until_power_is_cheap_or_six_hours_have_passed() {
    let dear = json!({"eurPerMWh": 90.5});
    let simulation =
        cel(&example("price", &[]), "", "price", &dear).expect_timeout(Duration::from_hours(7));
    with_faults(simulation, async |cluster| {
        cluster.submit(Job::new("first"));
        let message = "waits for power below 60 EUR/MWh";
        cluster.expect_message("first", message).await;
        let sources: Sources = cluster.external();
        sources.set_response("price", json!({"eurPerMWh": 35}));
        cluster.expect_admitted("first").await;
        sources.set_response("price", json!({"eurPerMWh": 90.5}));
        cluster.advance(Duration::from_mins(10)).await;
        let begun = cluster.now();
        cluster.submit(Job::new("second"));
        cluster.expect_message("second", message).await;
        cluster.expect_admitted("second").await;
        let waited = cluster.now().duration_since(begun);
        assert!(waited.as_hours() >= 5, "{waited}");
    });
}

#[test]
fn alerts_holds_a_job_while_the_storage_has_one() {
    let alert = json!([{"labels": {"alertname": "DiskSlow"}, "value": 1}]);
    with_faults(
        cel(&example("alerts", &[]), "", "alerts", &alert),
        async |cluster| {
            cluster.submit(Job::new("train"));
            let message = "waits until DiskSlow is quiet for 10 minutes";
            cluster.expect_message("train", message).await;
            cluster
                .external::<Sources>()
                .set_response("alerts", json!([]));
            cluster.expect_admitted("train").await;
        },
    );
}

#[test]
fn silence_holds_a_job_while_alertmanager_has_an_alert() {
    let alert = json!([{"labels": {"alertname": "DiskSlow"}, "status": {"state": "active"}}]);
    with_faults(
        cel(&example("silence", &[]), "", "alerts", &alert),
        async |cluster| {
            cluster.submit(Job::new("train"));
            let message = "waits for the alerts DiskSlow";
            cluster.expect_message("train", message).await;
            cluster
                .external::<Sources>()
                .set_response("alerts", json!([]));
            cluster.expect_admitted("train").await;
        },
    );
}

#[test]
fn licences_holds_a_job_until_enough_are_free() {
    let free = |count: u32| json!([{"labels": {}, "value": count}]);
    let simulation = cel(&example("licences", &[]), "", "free", &free(2));
    with_faults(simulation, async |cluster| {
        cluster.apply(&labelled("example.com/licences", "3"));
        let message = "needs 3 licences; 2 are free, of which 0 are for jobs that are starting";
        cluster.expect_message("train", message).await;
        cluster.external::<Sources>().set_response("free", free(3));
        cluster.expect_admitted("train").await;
        // The source reports three until the job has acquired them.
        let mut other = labelled("example.com/licences", "1");
        other["metadata"]["name"] = json!("other");
        cluster.apply(&other);
        let message = "3 are free, of which 3 are for jobs that are starting";
        cluster.expect_message("other", message).await;
    });
}

fn approval(name: &str, user: &str, group: &str) -> Json {
    json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "Approval", "metadata": {"namespace": "default", "name": name},
        "spec": {"job": {"kind": "Job", "name": "train"}, "approvedBy": user, "groups": [group], "reason": "a deadline"},
    })
}

/// The simulated queue has only CPUs, so the rule counts these.
#[test]
fn gpu_hours_holds_a_large_job_until_the_business_approves() {
    let rule = example("gpu-hours", &[("nvidia.com/gpu", "cpu")]);
    let approvals = "kueue-check.dev/v1alpha1/approvals";
    let simulation = cel(&rule, approvals, "", &json!(null))
        .object(&serde_json::to_value(Approval::crd()).unwrap());
    with_faults(simulation, async |cluster| {
        cluster.submit(Job::new("train").cpus(2));
        let message = "336 GPU-hours are more than 100";
        cluster.expect_message("train", message).await;
        cluster.advance(Duration::from_secs(2)).await;
        cluster.apply(&approval("a", "ivan", "leads"));
        cluster.advance(Duration::from_secs(20)).await;
        assert!(
            !cluster.is_admitted("train"),
            "an approval of another group"
        );
        cluster.apply(&approval("b", "olga", "business"));
        cluster.expect_admitted("train").await;
    });
}

#[test]
fn approval_holds_a_job_until_two_approve() {
    let simulation = Simulation::with_context(|_: &CheckContext| ApprovalCheck::default())
        .parameters(&example("approval", &[]))
        .object(&serde_json::to_value(Approval::crd()).unwrap());
    let simulation = [
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        (
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        ),
    ]
    .iter()
    .map(|(kind, plural)| definition(kind, plural))
    .chain(guard::objects())
    .fold(simulation, |simulation, object| simulation.object(&object));
    with_faults(simulation, async |cluster| {
        cluster.submit(Job::new("train"));
        cluster
            .expect_message("train", "waits for 2 approvals")
            .await;
        cluster.advance(Duration::from_secs(4)).await;
        cluster.apply(&approval("a", "ann", "ml-leads"));
        cluster
            .expect_message("train", "waits for 1 approval")
            .await;
        cluster.apply(&approval("b", "olga@example.com", "others"));
        cluster.expect_admitted("train").await;
    });
}

/// A real Open Policy Agent, which responds at once: no time passes on the simulated cluster.
#[derive(Clone)]
struct Opa(u16);

impl Opa {
    fn response(&self, call: &ServiceCall) -> std::io::Result<ServiceReply> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.0))?;
        let (path, length) = ("/v0/data/kueue/review", call.body.len());
        assert!(call.spec.url.ends_with(path), "{}", call.spec.url);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: opa\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all([head.as_bytes(), call.body.as_bytes()].concat().as_slice())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        Ok(ServiceReply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.into(),
        })
    }
}

impl Transport for Opa {
    fn send(&self, call: ServiceCall) -> BoxFuture<'static, Result<ServiceReply, SourceError>> {
        let reply = self.response(&call);
        let reply = reply.map_err(|e| SourceError::Unreachable("the policy", e.to_string()));
        async { reply }.boxed()
    }
}

#[test]
fn opa_holds_a_job_that_its_policy_does_not_allow() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(server) = runtime.block_on(crate::opa::start()) else {
        return;
    };
    let transport = Opa(server.port);
    let simulation = Simulation::with_context(move |context: &CheckContext| {
        WebhookCheck::with_transport(policy(), Arc::new(transport.clone()))
            .clock(context.clock.clone())
    })
    .parameters(&example("opa", &[]))
    .quota(1000);
    with_faults(simulation, async |cluster| {
        cluster.submit(Job::new("train"));
        let message = "the label `team` is missing";
        cluster.expect_message("train", message).await;
        // The same change as `kubectl label workload`.
        let labels = json!({"metadata": {"labels": {"team": "vision"}}});
        cluster.merge_workload("train", &labels);
        cluster.expect_admitted("train").await;
        cluster.submit(Job::new("large").pods(65));
        cluster
            .expect_message("large", "65 pods are more than 64")
            .await;
    });
}

/// Each example has a scenario here, and a section in the book; the scenario of `nights` is in
/// `cel.rs`.
#[test]
fn each_example_has_a_story_and_a_section() {
    let text = include_str!("examples.rs");
    let book = include_str!("../../../../book/src/tutorials/rule-examples.md");
    for name in crate::tools::examples() {
        let section = format!("\n## {name}\n");
        assert!(book.contains(&section), "{name} is not in the book");
        let test = format!("fn {}_holds_a", name.replace('-', "_"));
        assert!(name == "nights" || text.contains(&test), "{name}");
    }
}
