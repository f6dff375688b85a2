//! The latest outcomes, for diagnostics.

use jiff::Timestamp;
use serde::Serialize;

use super::Core;
use crate::check::Reservation;
use crate::runtime::decide::Outcome;

/// Number of outcomes that are kept.
const RECENT: usize = 256;

/// The outcome of one evaluation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recent {
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

/// Returns the message of `outcome`, and whether the call failed.
pub(super) fn summary(outcome: &Outcome) -> (String, bool) {
    match outcome {
        Outcome::Verdict(verdict) => (verdict.message.to_string(), false),
        Outcome::Failed { message, .. } => (message.to_string(), true),
        Outcome::Conflict { message } | Outcome::Blocked { message, .. } => {
            (message.to_string(), false)
        }
    }
}

impl Core {
    pub(super) fn remember(
        &mut self,
        reservation: &Reservation,
        outcome: &'static str,
        message: &str,
    ) {
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent {
            at: self.now.wall,
            workload: format!("{}/{}", reservation.namespace(), reservation.name()),
            check: reservation.admission_check().to_owned(),
            outcome,
            message: message.to_owned(),
        });
    }
}
