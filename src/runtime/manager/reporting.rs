//! Reports events, metrics and logs.

use super::session::Session;
use crate::api::CheckState;
use crate::check::{CheckEvent, DynCheck, Reservation, StateChange};
use crate::runtime::core::Report;
use crate::runtime::decide::{Notice, Suppression};
use crate::runtime::events::{EventRecord, Regarding};
use crate::runtime::metrics::{CheckLabels, OutcomeLabels, StateLabels};

impl Session {
    /// Counts, records or logs `report`.
    pub(super) fn report(&self, report: Report) {
        let controller = |number: usize| &self.core.controllers[number];
        match report {
            Report::Evaluated {
                check, label, took, ..
            } => {
                let labels = OutcomeLabels::new(&check, label);
                self.metrics.evaluations.total.get_or_create(&labels).inc();
                self.metrics
                    .evaluations
                    .seconds
                    .get_or_create(&CheckLabels::new(check))
                    .observe(took.as_secs_f64());
            }
            Report::Outcome {
                reservation,
                label,
                message,
                failed,
                first,
            } => self.report_outcome(&reservation, label, &message, failed, first),
            Report::Written { check, label } => {
                let labels = OutcomeLabels::new(check, label);
                self.metrics.writes.get_or_create(&labels).inc();
            }
            Report::Notice {
                reservation,
                controller: number,
                note,
                held,
            } => self.report_notice(&controller(number).check, &reservation, &note, held),
            Report::Evicted { check, state } => {
                let labels = StateLabels::new(check, state);
                self.metrics.evictions.total.get_or_create(&labels).inc();
            }
            Report::WriteRejected {
                reservation,
                code,
                message,
            } => {
                tracing::warn!(workload = %WorkloadName(&reservation), check = reservation.admission_check(), code, message, "API server rejected state");
                let text = format!(
                    "Admission check \"{}\": the API server rejected the state ({code}): {message}",
                    reservation.admission_check()
                );
                self.record(&reservation, true, "StateWriteRejected", text);
            }
            Report::WriteFailed { reservation, error } => {
                tracing::warn!(workload = %WorkloadName(&reservation), check = reservation.admission_check(), error, "cannot write a verdict; will retry");
            }
            Report::Overwritten { check, delayed } => {
                if let Some((key, times, delay)) = delayed {
                    tracing::warn!(key, times, ?delay, "state overwritten by another client");
                }
                self.metrics
                    .overwritten
                    .get_or_create(&CheckLabels::new(check))
                    .inc();
            }
            Report::Event { reservation, event } => self.record_event(&reservation, event),
            Report::Released {
                reservation,
                label,
                error,
            } => {
                if let Some(error) = error {
                    tracing::warn!(%reservation, error, "release failed; will retry");
                }
                let labels = OutcomeLabels::new(reservation.admission_check(), label);
                self.metrics.cleanups.releases.get_or_create(&labels).inc();
            }
            Report::UnreleasedFailed {
                controller: number,
                error,
            } => {
                tracing::warn!(
                    controller = controller(number).name,
                    error,
                    "cannot list unreleased reservations; will retry"
                );
            }
            Report::CheckAdded {
                check,
                controller: number,
            } => {
                self.metrics.add_check(&check);
                tracing::info!(
                    check,
                    controller = controller(number).name,
                    "admission check added"
                );
            }
            Report::CheckRemoved { check } => {
                tracing::info!(check, "admission check removed");
            }
            Report::Activation {
                object,
                version,
                active,
                reason,
                message,
            } => {
                tracing::info!(check = object.name(), active, reason, message, "activation");
                let regarding = Regarding::admission_check(&object, version);
                let note = format!("{reason}: {message}");
                let event = if active {
                    CheckEvent::normal("Activated", note)
                } else {
                    CheckEvent::warning("Deactivated", note)
                }
                .action("Activate");
                self.recorder.publish(EventRecord { regarding, event });
            }
            Report::ActivationFailed { check, error } => {
                tracing::warn!(check, error, "activation failed; will retry");
            }
            Report::ConditionFailed { check, error } => {
                tracing::warn!(
                    check,
                    error,
                    "cannot write the condition Active; will retry"
                );
            }
            Report::Role(role) => tracing::info!(role, "leadership"),
        }
    }

    /// Reports `note` about `reservation`, which has been held for `held`.
    fn report_notice(
        &self,
        author: &DynCheck,
        reservation: &Reservation,
        note: &Notice,
        held: std::time::Duration,
    ) {
        let check = reservation.admission_check();
        match note {
            Notice::StateChanged { from, to, message } => {
                let labels = StateLabels::new(check, to);
                self.metrics
                    .evaluations
                    .verdicts
                    .get_or_create(&labels)
                    .inc();
                if *from == CheckState::Pending {
                    self.metrics
                        .evaluations
                        .pending_seconds
                        .get_or_create(&labels)
                        .observe(held.as_secs_f64());
                }
                tracing::info!(workload = %WorkloadName(reservation), check, %from, %to, message = message.as_str(), "verdict");
                let change = StateChange::new(check, from, to, message.as_str());
                self.record_event(reservation, author.state_event(&change));
            }
            Notice::Suppression { why, kind, message } => {
                self.metrics
                    .evictions
                    .suppressed
                    .get_or_create(&OutcomeLabels::new(check, why.as_str()))
                    .inc();
                let text = format!(
                    "Admission check \"{check}\" returned {}; running job not evicted{}: {message}",
                    kind.as_str(),
                    suppression_text(*why)
                );
                tracing::warn!(workload = %WorkloadName(reservation), text, "running job not evicted");
                self.record(reservation, true, "EvictionSuppressed", text);
            }
            Notice::PreemptionNotSupported(message) => {
                let text = format!(
                    "Admission check \"{check}\" requires preemption, which this Kueue does not support: {message}"
                );
                self.record(reservation, true, "PreemptionNotSupported", text);
            }
            Notice::UpdatesFrozen => {
                let text = format!(
                    "Admission check \"{check}\" returned other pod set updates while it is Ready, which Kueue rejects: the first ones stay"
                );
                self.record(reservation, true, "PodSetUpdatesIgnored", text);
            }
            Notice::PolicyApplied(policy) => {
                self.metrics
                    .evaluations
                    .policy_applied
                    .get_or_create(&OutcomeLabels::new(check, policy.as_str()))
                    .inc();
                let field = policy.field();
                self.record(
                    reservation,
                    true,
                    "PolicyApplied",
                    format!("Admission check \"{check}\": decided by the policy `{field}`"),
                );
            }
        }
    }

    fn record(&self, reservation: &Reservation, warning: bool, reason: &'static str, note: String) {
        let event = CheckEvent::normal(reason, note);
        self.record_event(reservation, CheckEvent { warning, ..event });
    }

    fn record_event(&self, reservation: &Reservation, event: CheckEvent) {
        let regarding = Regarding::workload(reservation, self.core.served.version);
        self.recorder.publish(EventRecord { regarding, event });
    }

    fn report_outcome(
        &self,
        reservation: &Reservation,
        label: &'static str,
        message: &str,
        failed: bool,
        first: Option<std::time::Duration>,
    ) {
        let workload = WorkloadName(reservation);
        let check = reservation.admission_check();
        if failed {
            tracing::warn!(%workload, check, kind = label, message, "a check failed");
        } else {
            tracing::debug!(%workload, check, verdict = label, message, "check evaluated");
        }
        if let Some(held) = first {
            let labels = CheckLabels::new(check);
            self.metrics
                .evaluations
                .first_verdict_seconds
                .get_or_create(&labels)
                .observe(held.as_secs_f64());
        }
    }
}

fn suppression_text(why: Suppression) -> String {
    match why {
        Suppression::Ignored => ", by policy `afterAdmission.onFailure: Ignore`".to_owned(),
        Suppression::NotMonitored => ", because its Ready does not set a recheck".to_owned(),
        Suppression::BelowThreshold {
            failing_verdicts,
            needed,
        } => {
            format!(" ({failing_verdicts} of {needed} times in a row)")
        }
        Suppression::RateLimited { limit } => {
            format!(": the check has evicted {limit} jobs in the last hour already")
        }
        Suppression::Growth => ", because this Workload only requests more pods for it".to_owned(),
    }
}

/// `namespace/name`.
struct WorkloadName<'a>(&'a Reservation);

impl std::fmt::Display for WorkloadName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0.namespace(), self.0.name())
    }
}
