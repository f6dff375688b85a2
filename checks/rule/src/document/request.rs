//! The documents that are posted to a service.

use jiff::Timestamp;
use kueue_check::Reservation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ACTIVATION, API_VERSION, Item, RELEASE, REVIEW};

/// What is posted to `spec.url`: may these Workloads start? Reviewing allocates nothing, and may be
/// repeated at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRequest {
    /// `kueue-check.dev/v1alpha1`.
    pub api_version: String,
    /// `AdmissionCheckReview`.
    pub kind: String,
    /// The items and their circumstances.
    pub request: ReviewQuestions,
}

/// The items of a review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewQuestions {
    /// The AdmissionCheck of the request.
    pub admission_check: String,
    /// The time of the review, RFC 3339. Decide by it, and not by a clock of your own.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time: Timestamp,
    /// Whether this is a preview for `explain`, without effects.
    #[serde(default)]
    pub dry_run: bool,
    /// `spec.config` of the WebhookCheck.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// The Workloads: one, or up to `spec.batch.maxItems`.
    pub items: Vec<Item>,
}

impl ReviewRequest {
    /// Creates a review by the AdmissionCheck `admission_check`.
    pub(crate) fn new(
        admission_check: &str,
        time: Timestamp,
        config: Map<String, Value>,
        items: Vec<Item>,
    ) -> Self {
        let request = ReviewQuestions {
            admission_check: admission_check.to_owned(),
            time,
            dry_run: false,
            config,
            items,
        };
        Self {
            api_version: API_VERSION.to_owned(),
            kind: REVIEW.to_owned(),
            request,
        }
    }
}

/// What is posted to `spec.activatePath` and `spec.releasePath`. Its header `Idempotency-Key` is
/// `request.uid`: the same call may come several times, and must have the effect of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// `kueue-check.dev/v1alpha1`.
    pub api_version: String,
    /// `AdmissionCheckActivation` or `AdmissionCheckRelease`.
    pub kind: String,
    /// What it is about.
    pub request: CallRequest,
}

/// What a call is about: one reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallRequest {
    /// The reservation, as in the review.
    pub uid: String,
    /// The AdmissionCheck.
    pub admission_check: String,
    /// The Workload's namespace.
    pub namespace: String,
    /// The Workload's name.
    pub name: String,
    /// What all Workloads of one job have in common: see `items[].workload.jobUid`.
    pub job_uid: String,
    /// Of a release: why the reservation is over, such as `Finished`, `Evicted` or `Deleted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Call {
    pub(crate) fn activation(reservation: &Reservation) -> Self {
        Self::new(ACTIVATION, reservation, None)
    }

    pub(crate) fn release(reservation: &Reservation, reason: &str) -> Self {
        Self::new(RELEASE, reservation, Some(reason.to_owned()))
    }

    fn new(kind: &str, reservation: &Reservation, reason: Option<String>) -> Self {
        let request = CallRequest {
            uid: reservation.to_string(),
            admission_check: reservation.admission_check().to_owned(),
            namespace: reservation.namespace().to_owned(),
            name: reservation.name().to_owned(),
            job_uid: reservation.family_key().to_string(),
            reason,
        };
        Self {
            api_version: API_VERSION.to_owned(),
            kind: kind.to_owned(),
            request,
        }
    }
}
