//! One loop of the autoscaler.
//!
//! The order: old requests expire ([`refresh`]), one request is picked up ([`pick`]), capacity is
//! booked ([`book`]), the attempt is made ([`attempt`]). Queued provisioning has a loop of its own
//! ([`queued`]). Injected misbehaviour comes last ([`forced`]).

mod attempt;
mod capacity;
mod injected;
mod loop_state;
mod queued;
mod refresh;
mod selection;

use jiff::Timestamp;

use self::loop_state::LoopState;
use super::{AutoscalerState, ClusterSnapshot, Condition, RequestKey, Settings};

/// How a status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The status is replaced, if the object has not changed since it was read.
    Update,
    /// Server-side apply of the condition alone, with force.
    Apply,
}

/// The action on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes conditions, and details with them where they change.
    Write {
        /// The write mode.
        mode: Mode,
        /// The conditions; each replaces the one of its type.
        conditions: Vec<Condition>,
        /// Details of the class to add.
        details: Vec<(String, String)>,
        /// Whether the write is rejected with a conflict.
        conflict: bool,
    },
    /// Deletes the object.
    Delete,
}

/// A write to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The request.
    pub request: RequestKey,
    /// The action.
    pub action: Action,
}

/// The result of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The writes, in this order.
    pub writes: Vec<Write>,
    /// Whether it picked up a request. With frequent loops, the next one then begins at once.
    pub picked: bool,
    /// When the next loop is required if nothing changes until then; `None`: never. The first loop
    /// at or after this time is enough.
    pub again: Option<Timestamp>,
}

/// Runs one loop of an autoscaler with `settings` on `snapshot` at `now`. `state` is kept until the
/// next loop.
pub fn step(
    settings: &Settings,
    snapshot: &ClusterSnapshot,
    state: &mut AutoscalerState,
    now: Timestamp,
) -> Step {
    let uids = snapshot.requests.iter().map(|request| request.uid.as_str());
    state.meet(uids);
    let mut turn = LoopState::new(settings, snapshot, state, now);
    turn.refresh();
    let picked = turn.pick();
    turn.book();
    turn.attempt();
    turn.queued();
    turn.forced();
    turn.finish(picked)
}
