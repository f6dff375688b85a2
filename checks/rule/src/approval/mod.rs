//! [`ApprovalCheck`]: people decide.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`resource`] | the custom resources `ApprovalCheck` and `Approval` |
//! | [`guard`] | the admission policy that ensures that an `Approval` names its author |
//! | `decide` | which approvals count, and the verdict; pure |
//! | `pods` | which approvals are of the pods that a Workload has now; pure |
//! | `controller` | the admission check |

mod controller;
mod decide;
pub mod guard;
mod pods;
pub mod resource;

pub use controller::ApprovalCheck;
