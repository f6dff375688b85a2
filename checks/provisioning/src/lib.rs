//! The admission check that asks an autoscaler for capacity before a job starts: what Kueue's own
//! provisioning check does, without its defects.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`config`] | the parameters: Kueue's ProvisioningRequestConfig, and options in its annotations |
//! | [`pods`] | what capacity a Workload needs |
//! | [`names`] | what is created is called as Kueue calls it |
//! | [`request`] | a request for capacity, whatever kind of object it is |
//! | [`decide`] | the decision, as one pure function |
//! | [`backend`] | the kind of object: ProvisioningRequests |
//! | [`controller`] | between the SDK, the decision and the backend |

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
