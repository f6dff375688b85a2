//! An explanation as text. Pure.

use std::fmt;

use jiff::Timestamp;

use super::explanation::{CheckExplanation, Explanation, Phase};
use super::forecast::{Bound, CheckForecast, ForecastEffects, ForecastRecheck, human};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workload {}/{}", self.namespace, self.name)?;
        if !self.owners.is_empty() {
            write!(f, " of {}", visible(&self.owners.join(", ")))?;
        }
        writeln!(f)?;
        let queues = [
            ("LocalQueue", &self.local_queue),
            ("ClusterQueue", &self.cluster_queue),
        ];
        let queues: Vec<String> = queues
            .iter()
            .filter_map(|(kind, name)| Some(format!("{kind} {}", name.as_deref()?)))
            .collect();
        line(f, "queues", &queues.join(", "))?;
        line(f, "job", self.family.as_deref().unwrap_or_default())?;
        line(f, "phase", &self.phase_text())?;
        if !matches!(self.phase, Phase::WaitsForChecks | Phase::WaitsForAdmission) {
            line(f, "message", &self.message)?;
        }
        if let Some(at) = self.requeue_at {
            let text = format!("Kueue requeues it at {}", self.moment(at));
            line(f, "requeue", &text)?;
        }
        if self.checks.is_empty() {
            line(f, "checks", "none so far")?;
        }
        for check in &self.checks {
            self.check(f, check)?;
        }
        Ok(())
    }
}

/// Prints one line with a label; none for an empty text.
fn line(f: &mut fmt::Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    if text.is_empty() {
        return Ok(());
    }
    writeln!(f, "  {label:<11} {}", visible(text))
}

/// Returns `text` without control characters. Others wrote it, and a terminal would obey them.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

impl Explanation {
    fn phase_text(&self) -> String {
        let since = self
            .since
            .map(|at| format!(" since {}", self.moment(at)))
            .unwrap_or_default();
        if let (Phase::Deactivated | Phase::WaitsForQuota, Some(check)) =
            (self.phase, self.rejected_by())
        {
            return format!(
                "rejected by the check {check}{since}: delete the Workload, Kueue creates another for its job; up to 0.19, spec.active alone does not queue it"
            );
        }
        match self.phase {
            Phase::WaitsForQuota => {
                format!(
                    "waits for quota{since}; admission checks are evaluated when it is reserved"
                )
            }
            Phase::WaitsForChecks => format!(
                "waits for {} of {} admission checks ({}), and holds quota{since}",
                self.waits_for.len(),
                self.checks.len(),
                self.waits_for.join(", ")
            ),
            Phase::WaitsForAdmission => {
                format!(
                    "all admission checks are Ready, Kueue has yet to admit it; it holds quota{since}"
                )
            }
            Phase::Admitted => format!("admitted: it may run{since}"),
            Phase::Evicted => format!("evicted{since}; it waits for quota again"),
            Phase::Deactivated => {
                format!("deactivated{since}: nothing happens until spec.active is set to true")
            }
            Phase::Finished => format!("finished{since}"),
            Phase::Deleting => "is being deleted".to_owned(),
        }
    }

    /// Returns the check that has rejected the Workload.
    fn rejected_by(&self) -> Option<&str> {
        let mut checks = self.checks.iter();
        let rejected = checks.find(|check| check.state == "Rejected");
        rejected.map(|check| check.name.as_str())
    }

    /// Returns a time, and how long ago it was or when it will be.
    fn moment(&self, at: Timestamp) -> String {
        let seconds = at.as_second() - self.now.as_second();
        let span = rough(seconds.unsigned_abs());
        if seconds > 0 {
            format!("{at:.0} (in {span})")
        } else {
            format!("{at:.0} ({span} ago)")
        }
    }

    fn check(&self, f: &mut fmt::Formatter<'_>, check: &CheckExplanation) -> fmt::Result {
        let since = check
            .since
            .map(|at| format!(" since {}", self.moment(at)))
            .unwrap_or_default();
        let state = visible(&check.state);
        writeln!(f, "\n{}: {state}{since}", check.name)?;
        line(f, "message", &check.message)?;
        if let Some(count) = check.retry_count.filter(|count| *count > 0) {
            line(f, "retries", &format!("{count} so far"))?;
        }
        if let Some(at) = check.evicts_at {
            let text = format!("Kueue evicts the Workload at {}", self.moment(at));
            line(f, "retry", &text)?;
        }
        line(f, "controller", &controller_text(check))?;
        line(f, "active", &self.active(check))?;
        if let Some(forecast) = &check.forecast {
            self.forecast(f, forecast)?;
        }
        Ok(())
    }

    fn active(&self, check: &CheckExplanation) -> String {
        match &check.active {
            None if check.controller_name.is_none() => String::new(),
            None => "unknown: no controller has set it; is the controller running?".to_owned(),
            Some(active) if active.status == "True" => "yes".to_owned(),
            Some(active) => {
                let since = active
                    .since
                    .map(|at| format!(" since {}", self.moment(at)))
                    .unwrap_or_default();
                format!("no{since}, {}: {}", active.reason, active.message)
            }
        }
    }

    fn forecast(&self, f: &mut fmt::Formatter<'_>, forecast: &CheckForecast) -> fmt::Result {
        let bound = match forecast {
            CheckForecast::NothingToDecide { why } => {
                line(f, "now", &format!("would not be evaluated: {why}"))?;
                None
            }
            CheckForecast::Inactive { reason, message } => {
                let text = format!("cannot be evaluated, {reason}: {message}");
                line(f, "now", &text)?;
                None
            }
            CheckForecast::Declined {
                why, waits_at_most, ..
            } => {
                line(f, "now", &format!("was not evaluated: {why}"))?;
                *waits_at_most
            }
            CheckForecast::Evaluated {
                verdict,
                message,
                follows,
                waits_at_most,
            } => {
                line(f, "now", &format!("would return {verdict}: {message}"))?;
                writes(f, follows)?;
                *waits_at_most
            }
            CheckForecast::Failed {
                error,
                follows,
                waits_at_most,
            } => {
                line(f, "now", &format!("would fail: {error}"))?;
                writes(f, follows)?;
                *waits_at_most
            }
        };
        if let Some(Bound { until, then }) = bound.filter(|_| self.phase == Phase::WaitsForChecks) {
            let text = format!("until {}, then {then} (pendingTimeout)", self.moment(until));
            line(f, "waits", &text)?;
        }
        Ok(())
    }
}

fn controller_text(check: &CheckExplanation) -> String {
    let parameters = check
        .parameters
        .as_ref()
        .map(|parameters| format!(", with {parameters}"))
        .unwrap_or_default();
    match &check.controller_name {
        None => format!(
            "no program: there is no AdmissionCheck `{}`. Create it, or remove it from the ClusterQueue",
            check.name
        ),
        Some(name) if check.ours => format!("this program ({name}){parameters}"),
        Some(name) => format!("another program ({name}){parameters}"),
    }
}

fn writes(f: &mut fmt::Formatter<'_>, follows: &ForecastEffects) -> fmt::Result {
    let text = match &follows.writes {
        None => "nothing would be written".to_owned(),
        Some(written) => {
            let delay = written
                .requeue_after_seconds
                .filter(|seconds| *seconds > 0)
                .map(|seconds| format!(" after {}", human(seconds.into())))
                .unwrap_or_default();
            let updates = if written.pod_set_updates.is_empty() {
                String::new()
            } else {
                format!(", with updates of {}", written.pod_set_updates.join(", "))
            };
            format!("{}{delay}: {}{updates}", written.state, written.message)
        }
    };
    line(f, "written", &text)?;
    for note in &follows.notes {
        line(f, "", note)?;
    }
    let again = match follows.recheck {
        ForecastRecheck::OnChange => "when something changes".to_owned(),
        ForecastRecheck::After { seconds } => {
            format!("after {}, or when something changes", human(seconds))
        }
        ForecastRecheck::AfterBackoff { at_most_seconds } => {
            let most = at_most_seconds
                .map(|seconds| format!(", {} at most", human(seconds)))
                .unwrap_or_default();
            format!("after an exponential backoff{most}, or when something changes")
        }
    };
    line(f, "recheck", &again)
}

/// Returns the two largest units of a time.
fn rough(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, size) in units {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        } else if !parts.is_empty() {
            break;
        }
    }
    parts.truncate(2);
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.concat()
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
