//! The admission check that requests capacity from an autoscaler before a job starts. It replaces
//! Kueue's own provisioning check, without its defects.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`config`] | the parameters: Kueue's ProvisioningRequestConfig, and options in its annotations |
//! | [`pods`] | the capacity that a Workload needs |
//! | [`names`] | the names of created objects, the same as Kueue's |
//! | [`request`] | a request for capacity, independent of the kind of object |
//! | [`decide`] | the decision, as one pure function |
//! | [`backend`] | the kind of object: ProvisioningRequests |
//! | [`controller`] | connects the SDK, the decision and the backend |

pub mod backend;
pub mod config;
pub mod controller;
pub mod decide;
#[cfg(feature = "demo")]
pub mod demo;
pub mod names;
pub mod pods;
pub mod request;

pub use controller::{CONTROLLER_NAME, CapacityCheck, KUEUES_CONTROLLER_NAME, ProvisioningCheck};
