//! Kueue's webhooks: validation and defaults.

mod cluster_queue;
mod flavor;
mod gates;
mod job;
mod metadata;
mod owner;
mod pod;
mod workload;

use std::fmt::Display;

use serde_json::{Value, json};

use super::KueueVersion;
use super::api::kueue;
use super::not_modelled::refusal;
use super::objects::FINALIZER;
use crate::jobs::{ELASTIC_GATE, QUEUE, is_elastic};
use crate::json::list;
use kueue_check_apiserver::{Admission, FieldError, Operation, Phase, Review, Status};

/// Kueue's webhooks for Workloads, ClusterQueues, Cohorts, ResourceFlavors, Jobs and Pods. Also
/// includes the API server's own validation of Pod updates, on which Kueue's Pod integration
/// relies. An object that uses a feature of Kueue that the model does not have is refused with 501:
/// a topology, claims of devices, the name of a prebuilt Workload.
///
/// ```
/// # use kueue_check::Clock;
/// # use serde_json::json;
/// # let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job"}]}});
/// use kueue_check_sim::apiserver::{ApiServer, ApiRequest, Resource, Verb};
/// use kueue_check_sim::kueue::Webhook;
///
/// let server = ApiServer::new(Clock::system());
/// server.set_admission(std::sync::Arc::new(Webhook::default()));
/// let job = json!({
///     "apiVersion": "batch/v1", "kind": "Job",
///     "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
///     "spec": {"suspend": false, "template": pod},
/// });
/// let made = server.call(&ApiRequest::new(Verb::Create, &Resource::new("batch", "v1", "jobs")).namespace("default").body(job));
/// assert_eq!(made.body["spec"]["suspend"], true, "a Job of a queue waits");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Webhook {
    version: KueueVersion,
}

impl Webhook {
    /// Creates the webhooks of a version; the default is 0.19.
    #[must_use]
    pub fn of_version(version: KueueVersion) -> Self {
        Self { version }
    }
}

impl Admission for Webhook {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        let resource = &review.resource;
        let place = (resource.group.as_str(), resource.plural.as_str());
        let of_object = review.subresource.is_none();
        if of_object && review.phase == Phase::Validating && review.operation != Operation::Delete {
            let refusal = refusal(&review.resource.plural, review.object);
            let refused = refusal.map(|why| Status::new(501, "NotImplemented", why));
            refused.map_or(Ok(()), Err)?;
        }
        match (review.phase, review.operation, place) {
            (_, Operation::Delete, _) => Ok(None),
            (Phase::Validating, _, ("kueue.x-k8s.io", "workloads")) => {
                let errors = workload::errors(review.object, review.old, self.version);
                refuse("vworkload.kb.io", &errors)?;
                Ok(None)
            }
            (Phase::Validating, _, ("kueue.x-k8s.io", "clusterqueues")) if of_object => {
                let errors = cluster_queue::errors(review.object, review.old, self.version);
                refuse("vclusterqueue.kb.io", &errors)?;
                Ok(None)
            }
            (Phase::Validating, _, ("kueue.x-k8s.io", "cohorts")) if of_object => {
                refuse(
                    "vcohort.kb.io",
                    &cluster_queue::cohort_errors(review.object),
                )?;
                Ok(None)
            }
            (Phase::Validating, _, ("kueue.x-k8s.io", "resourceflavors")) if of_object => {
                refuse("vresourceflavor.kb.io", &flavor::errors(review.object))?;
                Ok(None)
            }
            (Phase::Validating, _, ("batch", "jobs")) if of_object => {
                let default_queue = || has_default_queue(review);
                let errors = job::errors(review.object, review.old, self.version, default_queue);
                refuse("vjob.kb.io", &errors)?;
                Ok(None)
            }
            (
                Phase::Mutating,
                Operation::Create,
                ("kueue.x-k8s.io", "clusterqueues" | "resourceflavors"),
            ) => Ok(held(review.object)),
            (Phase::Mutating, Operation::Create, ("batch", "jobs")) => {
                let owned = owner::has_manageable_controller(review.object);
                let queued = (!owned).then(|| in_default_queue(review)).flatten();
                Ok(waiting(review, queued, |job| suspended(job, self.version)))
            }
            (Phase::Mutating, Operation::Create, ("", "pods")) => {
                if owner::has_managed_ancestor(review) {
                    return Ok(None);
                }
                let queued = in_default_queue(review);
                let gated = |pod: &Value| crate::jobs::gated(pod, self.version);
                Ok(waiting(review, queued, gated))
            }
            (Phase::Validating, operation, ("", "pods")) if of_object => {
                if operation == Operation::Update {
                    let errors = crate::jobs::refused_directives(review.old, review.object);
                    if !errors.is_empty() {
                        return Err(Status::invalid("", "Pod", review.name, &errors));
                    }
                }
                let default_queue = || has_default_queue(review);
                let errors = pod::errors(review.object, review.old, self.version, default_queue);
                refuse("vpod.kb.io", &errors)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

fn duplicate(field: String, value: impl Display) -> FieldError {
    FieldError {
        field,
        reason: "FieldValueDuplicate",
        message: format!("Duplicate value: {value}"),
    }
}

fn refuse(webhook: &str, errors: &[FieldError]) -> Result<(), Status> {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = format!("{}: {}", error.field, error.message);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(Status::denied(webhook, one)),
        many => Err(Status::denied(webhook, &format!("[{}]", many.join(", ")))),
    }
}

/// Returns a new ClusterQueue or ResourceFlavor with Kueue's finalizer, beside those that it has
/// (Kueue 0.15.0 to 0.19.2, `Default` in `pkg/webhooks/clusterqueue_webhook.go` and
/// `resourceflavor_webhook.go`).
fn held(object: &Value) -> Option<Value> {
    let mut finalizers: Vec<&Value> = list(&object["metadata"]["finalizers"]).collect();
    let own = json!(FINALIZER);
    if finalizers.contains(&&own) {
        return None;
    }
    finalizers.push(&own);
    let mut held = object.clone();
    held["metadata"]["finalizers"] = json!(finalizers);
    Some(held)
}

/// Returns a new job as it waits in its queue. `queued`: the job in the default queue, if that is
/// its queue.
fn waiting(
    review: &Review<'_>,
    queued: Option<Value>,
    waits: impl FnOnce(&Value) -> Option<Value>,
) -> Option<Value> {
    waits(queued.as_ref().unwrap_or(review.object)).or(queued)
}

/// Returns a new job in the LocalQueue `default`, if its Namespace has one, and the job has no
/// queue (Kueue 0.19.2, `ApplyDefaultLocalQueueWithManagedJobsNamespaceSelector` in
/// `pkg/controller/jobframework/defaults.go`, `Default` in
/// `pkg/controller/jobs/pod/pod_webhook.go`).
fn in_default_queue(review: &Review<'_>) -> Option<Value> {
    let queue = &review.object["metadata"]["labels"][QUEUE];
    let queued = queue.as_str().is_some_and(|queue| !queue.is_empty());
    if queued || !has_default_queue(review) {
        return None;
    }
    let mut job = review.object.clone();
    job["metadata"]["labels"][QUEUE] = json!("default");
    Some(job)
}

/// Returns true if the Namespace has a LocalQueue `default` that is not stopped: Kueue's queue
/// manager has no stopped ones (0.19.2, `DefaultLocalQueueExist` in `pkg/cache/queue/manager.go`,
/// `Create` in `pkg/controller/core/localqueue_controller.go`).
fn has_default_queue(review: &Review<'_>) -> bool {
    let queues = kueue("localqueues");
    let queue = review.stored.object(&queues, review.namespace, "default");
    queue.is_some_and(|queue| {
        let policy = queue["spec"]["stopPolicy"].as_str();
        matches!(policy, None | Some("None"))
    })
}

/// Suspends a new Job of a queue, and gates the Pods of an elastic Job.
fn suspended(job: &Value, version: KueueVersion) -> Option<Value> {
    let queued = !job["metadata"]["labels"][QUEUE].is_null();
    let suspends = queued && job["spec"]["suspend"] != json!(true);
    let elastic = is_elastic(job, version);
    if !suspends && !elastic {
        return None;
    }
    let mut job = job.clone();
    if suspends {
        job["spec"]["suspend"] = json!(true);
    }
    if elastic {
        gate(&mut job["spec"]["template"]["spec"]["schedulingGates"]);
    }
    Some(job)
}

/// Adds the scheduling gate that holds Pods of an elastic job until an admitted slice has quota for
/// them.
fn gate(gates: &mut Value) {
    let gate = json!({"name": ELASTIC_GATE});
    match gates.as_array_mut() {
        Some(gates) if gates.contains(&gate) => {}
        Some(gates) => gates.push(gate),
        None => *gates = json!([gate]),
    }
}
