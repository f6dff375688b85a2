//! What is told: events, metrics, logs.

use jiff::Timestamp;
use serde::Serialize;

use super::session::Session;
use super::tracked::Key;
use crate::api::{ActiveCondition, CheckState, Name};
use crate::check::{EventNote, Message, Reservation, StateChange};
use crate::runtime::decide::{HeldBack, Note, Outcome};
use crate::runtime::events::{Regarding, Told};
use crate::runtime::metrics::{CheckLabels, OutcomeLabels, StateLabels};

/// How many outcomes are remembered for diagnostics.
const RECENT: usize = 256;

/// What came of asking a check, lately.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recent {
    #[serde(serialize_with = "as_text")]
    at: Timestamp,
    workload: String,
    check: String,
    outcome: &'static str,
    message: String,
}

fn as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

impl Session {
    /// Reports `note` about `name`, whose reservation is `reservation`.
    pub(super) fn report_note(&mut self, name: &Key, reservation: &Reservation, note: &Note) {
        let check = name.check.to_string();
        match note {
            Note::StateChanged { from, to, message } => {
                self.metrics
                    .verdicts
                    .get_or_create(&StateLabels {
                        check: check.clone(),
                        state: to.to_string(),
                    })
                    .inc();
                let held = reservation.held_for(self.settings.clock.now());
                if *from == CheckState::Pending {
                    let labels = StateLabels {
                        check: check.clone(),
                        state: to.to_string(),
                    };
                    self.metrics
                        .pending_seconds
                        .get_or_create(&labels)
                        .observe(held.as_secs_f64());
                }
                tracing::info!(workload = %WorkloadName(reservation), check, %from, %to, message = message.as_str(), "verdict");
                let change = StateChange::new(&check, from, to, message.as_str());
                let controller = self.slots.get(&name.check).map(|slot| slot.controller);
                let event =
                    controller.map(|controller| self.checks[controller].state_event(&change));
                self.tell_note(reservation, event.unwrap_or_else(|| change.event()));
            }
            Note::HeldBack {
                why,
                answer,
                message,
            } => {
                self.metrics
                    .held_back
                    .get_or_create(&OutcomeLabels {
                        check: check.clone(),
                        outcome: why.as_str(),
                    })
                    .inc();
                let text = format!(
                    "Admission check \"{check}\" says {} of a running job, which runs on{}: {message}",
                    answer.as_str(),
                    fence(*why)
                );
                tracing::warn!(workload = %WorkloadName(reservation), text, "held back");
                self.tell(reservation, true, "AdmissionCheckHeldBack", text);
            }
            Note::PreemptionUnavailable(message) => {
                let text = format!(
                    "Admission check \"{check}\" asks for preemption, which this Kueue cannot be asked for: {message}"
                );
                self.tell(reservation, true, "PreemptionUnavailable", text);
            }
            Note::UpdatesFrozen => {
                let text = format!(
                    "Admission check \"{check}\" wants other pod set updates while it is Ready, which Kueue refuses: the first ones stand"
                );
                self.tell(reservation, true, "PodSetUpdatesFrozen", text);
            }
            Note::PolicyApplied(field) => {
                self.metrics
                    .policy_applied
                    .get_or_create(&OutcomeLabels {
                        check: check.clone(),
                        outcome: field,
                    })
                    .inc();
                self.tell(
                    reservation,
                    true,
                    "PolicyApplied",
                    format!("Admission check \"{check}\": decided by the policy `{field}`"),
                );
            }
        }
    }

    /// A running job was stopped.
    pub(super) fn report_eviction(&self, check: &str, state: &CheckState) {
        self.metrics
            .evictions
            .get_or_create(&StateLabels {
                check: check.to_owned(),
                state: state.to_string(),
            })
            .inc();
    }

    pub(super) fn tell_refusal(&self, name: &Key, code: u16, message: &str) {
        if let Some(reservation) = self.reservation(name) {
            let text = format!(
                "Admission check \"{}\": the API server refused the verdict ({code}): {message}",
                name.check
            );
            self.tell(&reservation, true, "VerdictRefused", text);
        }
    }

    pub(super) fn tell_activation(&self, name: &Name, active: &ActiveCondition) {
        let Some(slot) = self.slots.get(name) else {
            return;
        };
        let is_active = active.status == "True";
        tracing::info!(
            check = &**name,
            active = is_active,
            reason = active.reason,
            message = active.message,
            "activation"
        );
        self.recorder.tell(Told {
            regarding: Regarding::admission_check(&slot.object, self.served.version),
            warning: !is_active,
            reason: if is_active {
                "Activated"
            } else {
                "Deactivated"
            },
            action: "Activate",
            note: Message::new(format!("{}: {}", active.reason, active.message)),
        });
    }

    fn tell(&self, reservation: &Reservation, warning: bool, reason: &'static str, note: String) {
        let event = EventNote::normal(reason, note);
        self.tell_note(reservation, EventNote { warning, ..event });
    }

    /// Tells what a check had to say while it was asked about `name`.
    pub(super) fn tell_all(&self, name: &Key, told: Vec<EventNote>) {
        let Some(reservation) = self.reservation(name).filter(|_| !told.is_empty()) else {
            return;
        };
        for event in told {
            self.tell_note(&reservation, event);
        }
    }

    /// Tells what the check itself has to say.
    pub(super) fn tell_note(&self, reservation: &Reservation, event: EventNote) {
        let EventNote {
            warning,
            reason,
            action,
            note,
        } = event;
        self.recorder.tell(Told {
            regarding: Regarding::workload(reservation, self.served.version),
            warning,
            reason,
            action,
            note,
        });
    }

    /// Remembers what came of asking, for metrics and diagnostics.
    pub(super) fn remember_outcome(&mut self, name: &Key, outcome: &Outcome, word: &'static str) {
        let Some(reservation) = self.reservation(name) else {
            return;
        };
        let now = self.settings.clock.now();
        let message = match outcome {
            Outcome::Verdict(verdict) => verdict.message.to_string(),
            Outcome::Failed { message, .. } | Outcome::Blocked { message, .. } => {
                message.to_string()
            }
        };
        let failed = matches!(outcome, Outcome::Failed { .. });
        if failed {
            tracing::warn!(workload = %WorkloadName(&reservation), check = &*name.check, kind = word, message, "a check failed");
        } else {
            tracing::debug!(workload = %WorkloadName(&reservation), check = &*name.check, answer = word, message, "a check answered");
            let first = self
                .key_mut(name)
                .is_some_and(|key| key.memory.evaluations == 1);
            if first {
                let labels = CheckLabels {
                    check: name.check.to_string(),
                };
                let held = reservation.held_for(now);
                self.metrics
                    .first_verdict_seconds
                    .get_or_create(&labels)
                    .observe(held.as_secs_f64());
            }
        }
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        let workload = WorkloadName(&reservation).to_string();
        self.recent.push_back(Recent {
            at: now,
            workload,
            check: name.check.to_string(),
            outcome: word,
            message,
        });
    }
}

fn fence(why: HeldBack) -> String {
    match why {
        HeldBack::Ignored => ", as `afterAdmission.onFailure: Ignore` says".to_owned(),
        HeldBack::NotWatched => ", because its Ready did not ask to be looked at again".to_owned(),
        HeldBack::NotYet { objections, needed } => {
            format!(" ({objections} of {needed} times in a row)")
        }
        HeldBack::TooMany { limit } => {
            format!(": the check has stopped {limit} jobs in the last hour already")
        }
        HeldBack::Growth => ", because this Workload only asks for more pods for it".to_owned(),
    }
}

/// `namespace/name`.
struct WorkloadName<'a>(&'a Reservation);

impl std::fmt::Display for WorkloadName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0.namespace(), self.0.name())
    }
}
