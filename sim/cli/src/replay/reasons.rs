//! Reasons for which a Workload gets no flavor, where they vary.

use serde_json::Value;

use super::trace::Trace;

/// Whether the messages of a trace are compared with their reasons.
///
/// Before 0.19 the scheduler tries the resources of a Workload in the order of a Go map, and names
/// the first one that does not fit. A search that is repeated without end starts with the next
/// flavor or with the first one, which varies. See [`sorts_requests`] and
/// [`keeps_flavor_progress`].
///
/// [`sorts_requests`]: kueue_check_sim::kueue::KueueVersion::sorts_requests
/// [`keeps_flavor_progress`]: kueue_check_sim::kueue::KueueVersion::keeps_flavor_progress
#[derive(Clone, Copy)]
pub(super) struct Reasons {
    vary: bool,
}

impl Reasons {
    pub(super) fn of(trace: &Trace) -> Self {
        let version = trace.version();
        let orders = !version.sorts_requests && trace.requests_several_resources();
        Self {
            vary: orders || !version.keeps_flavor_progress && trace.endless,
        }
    }

    /// Removes reasons that vary from the messages of conditions.
    pub(super) fn in_state(self, mut state: Value) -> Value {
        if !self.vary {
            return state;
        }
        let conditions = state.get_mut("conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            if let Some(message) = condition["message"].as_str() {
                condition["message"] = self.in_message(message).into();
            }
        }
        state
    }

    /// Removes reasons that vary from `couldn't assign flavors to pod set main: …`, and the flavors
    /// that did not fit, with their reasons, from the message about a quota reservation.
    pub(super) fn in_message(self, message: &str) -> String {
        const BEGIN: &str = "couldn't assign flavors to pod set ";
        const PREEMPTION: &str = ". Pending the preemption of ";
        const CONSIDERED: &str = "; Flavors considered: ";
        if !self.vary {
            return message.to_owned();
        }
        let rest = message.strip_prefix(BEGIN);
        if let Some((name, reasons)) = rest.and_then(|rest| rest.split_once(": ")) {
            let preemption = reasons.find(PREEMPTION).map_or("", |at| &reasons[at..]);
            return format!("{BEGIN}{name}{preemption}");
        }
        let end = message.find(CONSIDERED).unwrap_or(message.len());
        message[..end].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_that_vary_are_removed() {
        let one = "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor a, untolerated taint {spot true NoSchedule <nil>} in flavor b";
        let preempts = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, 1 more needed. Pending the preemption of 1 workload(s)";
        let reserved = "Quota reserved in ClusterQueue cq, wait time since queued was 1s; Flavors considered: main: a(NoFit;insufficient quota for cpu in flavor a), b(Fit)";
        let other = "Quota reserved in ClusterQueue cq";
        let table = [
            (one, "couldn't assign flavors to pod set main"),
            (
                preempts,
                "couldn't assign flavors to pod set main. Pending the preemption of 1 workload(s)",
            ),
            (
                reserved,
                "Quota reserved in ClusterQueue cq, wait time since queued was 1s",
            ),
            (other, other),
        ];
        for (message, expected) in table {
            assert_eq!(Reasons { vary: true }.in_message(message), expected);
            assert_eq!(Reasons { vary: false }.in_message(message), message);
        }
    }
}
