//! Attempts to find capacity for a request.

use super::Mode;
use super::loop_state::LoopState;
use crate::autoscaler::class::Handling;
use crate::autoscaler::{Condition, ConditionType, Misbehaviour, Outcome};

/// The capacity that an attempt found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The existing nodes have capacity.
    Fits,
    /// Nodes that are requested now have capacity.
    NewNodes,
    Nothing,
    CannotCheck,
    Failed {
        reason: String,
        message: String,
    },
}

impl LoopState<'_> {
    /// Concludes the attempts that are due.
    pub(super) fn attempt(&mut self) {
        for place in self.places() {
            let uid = self.requests[place].uid.clone();
            let Some(due) = self.state.due.get(&uid).copied() else {
                continue;
            };
            if due > self.now {
                self.examine(due);
                continue;
            }
            self.state.due.remove(&uid);
            let handling = self.handling(place);
            if self.requests[place].is(ConditionType::Failed) || handling == Handling::Ignored {
                continue;
            }
            let found = self.find(place, handling);
            self.conclude(place, handling, &found);
        }
    }

    /// Finds capacity for a request and reserves it.
    pub(super) fn find(&mut self, place: usize, handling: Handling) -> Found {
        match self.scripted(place) {
            Outcome::ByCapacity => self.find_capacity(place, handling),
            // Capacity found by script is booked as far as there is any.
            Outcome::Found => match self.find_capacity(place, handling) {
                Found::Nothing => Found::Fits,
                found => found,
            },
            Outcome::NotFound => Found::Nothing,
            Outcome::CannotCheck => Found::CannotCheck,
            Outcome::Failed { reason, message } => Found::Failed { reason, message },
        }
    }

    fn scripted(&mut self, place: usize) -> Outcome {
        if self.behaves(place, |how| matches!(how, Misbehaviour::Infeasible)) {
            return Outcome::NotFound;
        }
        let script = self.behaviour(place, |how| match how {
            Misbehaviour::Attempts(script) => Some(script),
            _ => None,
        });
        let uid = self.requests[place].uid.clone();
        let attempt = self.state.attempts.entry(uid).or_insert(0);
        let outcome = script.and_then(|script| script.get(*attempt)).cloned();
        *attempt += 1;
        outcome.unwrap_or(Outcome::ByCapacity)
    }

    fn find_capacity(&mut self, place: usize, handling: Handling) -> Found {
        let request = &self.requests[place];
        let Ok(pods) = self.snapshot.pods_of(request) else {
            return Found::Nothing;
        };
        if self.state.nodes.place_all(&pods) {
            return Found::Fits;
        }
        let never_ready = self.behaves(place, |how| matches!(how, Misbehaviour::NodesNeverReady));
        let uid = &self.requests[place].uid;
        let may_grow = handling != Handling::CheckCapacity;
        if may_grow && self.state.nodes.grow_for(&pods, uid, self.now, never_ready) {
            Found::NewNodes
        } else {
            Found::Nothing
        }
    }

    fn conclude(&mut self, place: usize, handling: Handling, found: &Found) {
        let condition = self.outcome(place, handling, found);
        let batched = handling == Handling::CheckCapacity && self.settings.batch.is_some();
        let mut conditions = Vec::new();
        if batched {
            let accepted = self.requests[place].condition(ConditionType::Accepted);
            conditions.extend(accepted.cloned());
        }
        let is_provisioned = condition.kind == ConditionType::Provisioned.as_str();
        let applies = handling == Handling::BestEffortAtomic && self.settings.apply_provisioned;
        let mode = if applies && is_provisioned {
            Mode::Apply
        } else {
            Mode::Update
        };
        conditions.push(condition);
        self.write(place, mode, conditions, Vec::new());
        // Nothing found: the next attempt follows after the backoff.
        let request = &self.requests[place];
        if let Some(last) = request.condition(ConditionType::Provisioned)
            && !last.is_true()
        {
            let backoff = self.state.backoff.get(&request.uid).copied();
            let since = last.since;
            self.passed(since, backoff.unwrap_or(self.settings.initial_backoff));
        }
    }

    fn outcome(&self, place: usize, handling: Handling, found: &Found) -> Condition {
        use ConditionType::{Failed, Provisioned};
        const HERE: &str = "Capacity is found in the cluster";
        match found {
            Found::Fits => self.condition(Provisioned, true, "CapacityIsFound", HERE),
            // The autoscaler writes the same message although the nodes are only requested.
            Found::NewNodes => self.condition(Provisioned, true, "CapacityIsProvisioned", HERE),
            Found::CannotCheck if handling == Handling::BestEffortAtomic => self.condition(
                Provisioned,
                false,
                "FailedToCheckCapacity",
                "Failed to check pre-existing capacity in the cluster",
            ),
            Found::Failed { reason, message } => self.condition(Failed, true, reason, message),
            _ if handling == Handling::CheckCapacity && self.is_never_retried(place) => self
                .condition(
                    Failed,
                    true,
                    "CapacityIsNotFound",
                    "CA could not find requested capacity",
                ),
            _ => {
                let message = self.injected_message(place);
                let message =
                    message.unwrap_or("Capacity is not found, CA will try to find it later.");
                self.condition(Provisioned, false, "CapacityIsNotFound", message)
            }
        }
    }

    fn is_never_retried(&self, place: usize) -> bool {
        let parameter = self.requests[place].parameters.get("noRetry");
        self.settings.profile.lacks_retry() && parameter.is_some_and(|text| text == "true")
    }
}
