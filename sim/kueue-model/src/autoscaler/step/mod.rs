//! One loop of the autoscaler.
//!
//! In its order: old things expire ([`refresh`]), one request is picked up ([`pick`]), capacity is
//! booked ([`book`]), the attempt is made ([`attempt`]). Queued provisioning has a loop of its own
//! ([`queued`]); what was switched on to go wrong comes last ([`forced`]).

mod attempt;
mod capacity;
mod injected;
mod loop_state;
mod queued;
mod refresh;
mod selection;

use jiff::Timestamp;

use self::loop_state::LoopState;
use super::{ClusterSnapshot, Condition, Memory, RequestKey, Settings};

/// How a status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The status is replaced, if nobody changed the object since it was read.
    Update,
    /// Server-side apply of the condition alone, with force.
    Apply,
}

/// What is done to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Conditions are written, and details with them where they change.
    Write {
        /// How.
        mode: Mode,
        /// Each replaces the one of its type.
        conditions: Vec<Condition>,
        /// Details of the class to add.
        details: Vec<(String, String)>,
        /// Whether the write is to be refused with a conflict.
        conflict: bool,
    },
    /// The object is deleted.
    Delete,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// To which request.
    pub request: RequestKey,
    /// What.
    pub action: Action,
}

/// What a loop does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What it writes, in this order.
    pub writes: Vec<Write>,
    /// Whether it picked up a request; then, with frequent loops, the next one begins at once.
    pub picked: bool,
    /// When it must look again if nothing changes until then; `None`: never. The first loop at or
    /// after this moment will do.
    pub again: Option<Timestamp>,
}

/// One loop: what an autoscaler with `settings` that sees `world` at `now` does. `memory` is what
/// it remembers until the next loop.
pub fn step(
    settings: &Settings,
    world: &ClusterSnapshot,
    memory: &mut Memory,
    now: Timestamp,
) -> Step {
    let uids = world.requests.iter().map(|request| request.uid.as_str());
    memory.meet(uids);
    let mut turn = LoopState::new(settings, world, memory, now);
    turn.refresh();
    let picked = turn.pick();
    turn.book();
    turn.attempt();
    turn.queued();
    turn.forced();
    turn.finish(picked)
}
