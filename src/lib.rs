//! wip
pub mod api;
pub mod check;
mod clock;
pub mod handler;
pub mod runtime;
pub use check::*;
pub use clock::Clock;
#[doc(hidden)]
pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
#[doc(hidden)]
pub use kube::CustomResourceExt;
#[cfg(feature = "macros")]
pub use kueue_check_macros::{Parameters, admission_check};
#[doc(hidden)]
pub use serde_json::Value as JsonValue;
