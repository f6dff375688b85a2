//! A simulated Cluster Autoscaler for ProvisioningRequests.
//!
//! One loop of the autoscaler is a pure function. Its input is the settings, the cluster snapshot,
//! its state and the time. Its output is the writes, and when the next loop is due. [`Autoscaler`]
//! runs it against an API server.
//!
//! | [`Profile`] | class of request | becomes |
//! | --- | --- | --- |
//! | `Oss131` to `Oss137` | `check-capacity` | Provisioned where the existing nodes have capacity; never adds one |
//! | | `best-effort-atomic-scale-up` | Provisioned when the missing nodes are *requested*, all of one pool |
//! | `GkeQueued` | `queued-provisioning.gke.io` | queued until there is capacity, Provisioned, later `CapacityRevoked` |
//! | any | anything else | never touched: no condition, no event |
//!
//! [`Settings::misbehave`] injects misbehaviour of real autoscalers for selected requests. Times
//! are read back from `lastTransitionTime`, which holds whole seconds: choose at least 1 s.

mod actor;
mod autoscaler_state;
mod class;
mod condition;
mod misbehaviour;
mod nodes;
mod profile;
mod request;
mod settings;
mod shape;
mod snapshot;
mod step;
mod webhook;
mod writer;

pub use actor::Autoscaler;
pub use class::{BEST_EFFORT_ATOMIC, CHECK_CAPACITY, QUEUED_PROVISIONING};
pub use condition::ConditionType;
pub use misbehaviour::{Misbehaviour, Outcome, Selector};
pub use nodes::NodePool;
pub use profile::Profile;
pub use request::RequestKey;
pub use settings::{Delay, Order, Settings};
pub use webhook::refuses;

// For the crate's own tests, without stability guarantees.
#[doc(hidden)]
pub use {
    autoscaler_state::AutoscalerState,
    condition::Condition,
    nodes::Nodes,
    request::{PodSet, Request},
    shape::{Shape, Taint},
    snapshot::{ClusterSnapshot, Pod},
    step::{Action, Mode, Step, Write, step},
};
