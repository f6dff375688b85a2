//! The JSON documents of the webhook: types, schemas and OpenAPI.
//!
//! `apiVersion` versions them, as in Kubernetes. A service ignores unknown fields. Within a
//! version, fields are added and never change their meaning.

mod answer;
#[doc(hidden)]
pub mod foreign;
mod item;
mod openapi;
mod request;

pub use answer::{
    HeldList, HeldReservations, ItemAnswer, ReviewAnswers, ReviewResponse, State, UpdateAnswer,
};
pub use item::{CheckEntry, Item, ItemOwner, ItemPodSet, ItemResource, ItemWorkload};
pub use openapi::{json_schema, openapi};
pub use request::{Call, CallRequest, ReviewQuestions, ReviewRequest};

pub(crate) use answer::{
    Answer, Decision, check_item, clean, quote, read_held, read_refusal, read_review,
};
pub(crate) use item::fingerprint;

/// The `apiVersion` of all documents.
pub const API_VERSION: &str = "kueue-check.dev/v1alpha1";
/// The `kind` of a review: the request, and the answer.
pub const REVIEW: &str = "AdmissionCheckReview";
/// The `kind` of the call that allocates.
pub const ACTIVATION: &str = "AdmissionCheckActivation";
/// The `kind` of the call that releases.
pub const RELEASE: &str = "AdmissionCheckRelease";
/// The `kind` of the list of held reservations.
pub const HELD: &str = "AdmissionCheckHeldList";
