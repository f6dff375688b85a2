//! The conversion of a ProvisioningRequest for the decision. It accepts fields of any shape.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use kueue_check::api::{ResourceVersion, Uid};
use serde::Deserialize;
use serde_json::Value;

use super::construct;
use crate::backend::{ATTEMPT, CHECK, owner, watched_resource};
use crate::request::{
    CapacityRequest, FailureCounts, FailureKind, Phase, RequestAnnotations, RequestedPods,
};

/// The object as it is decoded.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RequestObject {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Value,
    #[serde(default)]
    pub(super) status: Value,
}

watched_resource!(
    RequestObject,
    "autoscaling.x-k8s.io",
    "v1",
    "ProvisioningRequest",
    "provisioningrequests"
);

impl From<DynamicObject> for RequestObject {
    fn from(mut object: DynamicObject) -> Self {
        Self {
            metadata: object.metadata,
            spec: object.data["spec"].take(),
            status: object.data["status"].take(),
        }
    }
}

/// Reasons of Failed for a temporary lack of capacity, from Cluster Autoscaler 1.37 and GKE.
const NO_CAPACITY: [&str; 8] = [
    "CapacityIsNotFound",
    "Expired",
    "ResourcePoolExhausted",
    "QueuingInfeasibleNoCapacity",
    "WaitTimeExceeded",
    "QuotaExceeded",
    "LimitExceeded",
    "IPSpaceExhausted",
];

/// Returns the UID and name of the Workload for which a request was made. For a request of Kueue's
/// own check, or of no check, it is the owner.
fn workload(metadata: &ObjectMeta) -> Option<(Uid, &str)> {
    let annotations = metadata.annotations.as_ref();
    let written = annotations.and_then(|annotations| {
        let uid = annotations.get(construct::WORKLOAD_UID)?;
        Some((
            Uid::new(uid),
            annotations.get(construct::WORKLOAD)?.as_str(),
        ))
    });
    written.or_else(|| owner(metadata))
}

/// Returns the request in `object`; `None` if it is for no Workload.
pub(super) fn view(object: &RequestObject) -> Option<CapacityRequest> {
    let metadata = &object.metadata;
    let (workload, workload_name) = workload(metadata)?;
    let created = metadata.creation_timestamp.as_ref().map(|Time(at)| *at);
    let created = created.unwrap_or_default();
    let spec = &object.spec;
    let pods = list(&spec["podSets"]).map(|set| RequestedPods {
        template: text(&set["podTemplateRef"]["name"]).into(),
        count: set["count"].as_u64().unwrap_or_default(),
    });
    Some(CapacityRequest {
        namespace: metadata.namespace.clone().unwrap_or_default().into(),
        name: metadata.name.clone().unwrap_or_default().into(),
        uid: Uid::new(metadata.uid.as_deref().unwrap_or_default()),
        version: ResourceVersion::new(metadata.resource_version.as_deref().unwrap_or_default()),
        workload,
        workload_name: workload_name.into(),
        mark: mark(metadata),
        created,
        deleting: metadata.deletion_timestamp.is_some(),
        class: text(&spec["provisioningClassName"]).into(),
        parameters: map(&spec["parameters"]),
        pods: pods.collect(),
        phase: phase(&object.status, created),
        details: map(&object.status["provisioningClassDetails"]),
    })
}

fn mark(metadata: &ObjectMeta) -> Option<RequestAnnotations> {
    let annotations = metadata.annotations.as_ref()?;
    let get = |key: &str| annotations.get(key).map(String::as_str);
    let number = |key: &str| get(key).and_then(|value| value.parse().ok());
    let merged = get(construct::MERGED).and_then(|text| serde_json::from_str(text).ok());
    Some(RequestAnnotations {
        controller: get(construct::CONTROLLER).unwrap_or_default().into(),
        check: get(CHECK)?.into(),
        attempt: number(ATTEMPT)?,
        reserved: get(construct::RESERVED)
            .and_then(|at| at.parse().ok())
            .unwrap_or_default(),
        family: get(construct::FAMILY).map(Uid::new),
        tally: FailureCounts {
            errors: number(construct::ERRORS).unwrap_or_default(),
            no_capacity: number(construct::NO_CAPACITY).unwrap_or_default(),
        },
        keep_failed: get(construct::KEEP) == Some("true"),
        merged: merged.unwrap_or_default(),
    })
}

fn phase(status: &Value, created: Timestamp) -> Phase {
    let find = |kind: &str| list(&status["conditions"]).find(|condition| condition["type"] == kind);
    let holds = |kind: &str| find(kind).filter(|condition| condition["status"] == "True");
    let message = |condition: &Value| -> Box<str> { text(&condition["message"]).into() };
    let at = |condition: &Value| {
        text(&condition["lastTransitionTime"])
            .parse()
            .unwrap_or(created)
    };
    if let Some(failed) = holds("Failed") {
        let without_capacity = NO_CAPACITY.contains(&text(&failed["reason"]));
        let kind = if without_capacity {
            FailureKind::NoCapacity
        } else {
            FailureKind::Error
        };
        return Phase::Failed {
            kind,
            at: at(failed),
            message: message(failed),
        };
    }
    if let Some(revoked) = holds("CapacityRevoked") {
        return Phase::Revoked {
            at: at(revoked),
            message: message(revoked),
        };
    }
    if let Some(expired) = holds("BookingExpired") {
        return Phase::BookingExpired {
            at: at(expired),
            message: message(expired),
        };
    }
    if let Some(provisioned) = holds("Provisioned") {
        return Phase::Provisioned {
            message: message(provisioned),
        };
    }
    match (holds("Accepted"), find("Provisioned")) {
        (Some(_), Some(waiting)) => Phase::Waiting {
            message: message(waiting),
        },
        (Some(_), None) => Phase::Accepted,
        (None, _) => Phase::New,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn map(value: &Value) -> BTreeMap<Box<str>, Box<str>> {
    let fields = value.as_object().into_iter().flatten();
    fields
        .map(|(key, value)| (key.as_str().into(), text(value).into()))
        .collect()
}
