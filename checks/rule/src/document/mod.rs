//! The JSON documents of the webhook: types, schemas and OpenAPI.
//!
//! `apiVersion` versions them, as in Kubernetes. A service ignores unknown fields. Within a
//! version, fields are added and never change their meaning.

#[doc(hidden)]
pub mod foreign;
mod item;
mod openapi;
mod request;
mod response;

pub use item::{CheckEntry, Item, ItemOwner, ItemPodSet, ItemResource, ItemWorkload};
pub use openapi::{json_schema, openapi};
pub use request::{Call, CallRequest, ReviewQuestions, ReviewRequest};
pub use response::{
    HeldList, HeldReservations, ItemAnswer, ReviewAnswers, ReviewResponse, State, UpdateAnswer,
};

pub(crate) use item::fingerprint;
pub(crate) use response::{
    Decision, ItemResult, check_item, clean, quote, read_held, read_refusal, read_review,
};

/// The `apiVersion` of all documents.
pub const API_VERSION: &str = "kueue-check.dev/v1alpha1";
/// The `kind` of a review: the request, and the response.
pub const REVIEW: &str = "AdmissionCheckReview";
/// The `kind` of the call that allocates.
pub const ACTIVATION: &str = "AdmissionCheckActivation";
/// The `kind` of the call that releases.
pub const RELEASE: &str = "AdmissionCheckRelease";
/// The `kind` of the list of held reservations.
pub const HELD: &str = "AdmissionCheckHeldList";
