//! Expiry of bookings and requests, and deletion of old requests.

use super::loop_state::LoopState;
use crate::autoscaler::class::Handling;
use crate::autoscaler::{ConditionType, Misbehaviour};

/// The maximum number of expiries that a loop writes.
const MOST: usize = 20;

impl LoopState<'_> {
    pub(super) fn refresh(&mut self) {
        let ours = self.places().filter(|place| {
            matches!(
                self.handling(*place),
                Handling::CheckCapacity | Handling::BestEffortAtomic
            )
        });
        let ours: Vec<_> = ours.collect();
        let over: Vec<_> = ours
            .iter()
            .copied()
            .filter(|place| self.booking_is_over(*place))
            .take(MOST)
            .collect();
        let expired = ours.into_iter().filter(|place| self.is_expired(*place));
        let expired: Vec<_> = expired.take(MOST - over.len()).collect();
        if over.len() + expired.len() == MOST {
            self.examine(self.now + self.settings.scan_interval);
        }
        for place in over {
            self.update(
                place,
                ConditionType::BookingExpired,
                true,
                "CapacityReservationTimeExpired",
                "Capacity reservation time is expired",
            );
        }
        for place in expired {
            self.fail(place, "Expired", "ProvisioningRequest is expired");
        }
        self.delete_old();
    }

    fn booking_is_over(&mut self, place: usize) -> bool {
        let request = &self.requests[place];
        if request.is(ConditionType::BookingExpired) || request.is(ConditionType::Failed) {
            return false;
        }
        let provisioned = request.condition(ConditionType::Provisioned);
        let Some(since) = provisioned
            .filter(|condition| condition.is_true())
            .map(|c| c.since)
        else {
            return false;
        };
        let kept = self.behaviour(place, |how| match how {
            Misbehaviour::BookingExpires(after) => Some(*after),
            _ => None,
        });
        self.passed(since, kept.unwrap_or(self.settings.booking_ttl))
    }

    fn is_expired(&mut self, place: usize) -> bool {
        let request = &self.requests[place];
        let over = [
            ConditionType::BookingExpired,
            ConditionType::Failed,
            ConditionType::Provisioned,
        ];
        if over.into_iter().any(|kind| request.is(kind)) {
            return false;
        }
        self.passed(request.created, self.settings.expiration_ttl)
    }

    /// Deletes old requests of any class except queued ones, also those that other autoscalers
    /// processed.
    fn delete_old(&mut self) {
        let Some(ttl) = self.settings.terminal_ttl else {
            return;
        };
        for place in self.places() {
            if self.handling(place) == Handling::Queued {
                continue;
            }
            let request = &self.requests[place];
            let ends = [ConditionType::Provisioned, ConditionType::Failed];
            let ends = ends.into_iter().filter_map(|kind| request.condition(kind));
            let ends: Vec<_> = ends.map(|condition| condition.since).collect();
            if ends.into_iter().any(|since| self.passed(since, ttl)) {
                self.delete(place);
            }
        }
    }
}
