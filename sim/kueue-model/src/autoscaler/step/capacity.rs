//! Use of the nodes: scheduled pods, and bookings of provisioned requests.

use super::loop_state::LoopState;
use crate::autoscaler::class::Handling;
use crate::autoscaler::{ConditionType, Misbehaviour};

impl LoopState<'_> {
    pub(super) fn book(&mut self) {
        self.state.nodes.clear();
        for pod in self.snapshot.pods.iter().filter(|pod| pod.scheduled) {
            self.state.nodes.place(&pod.shape, 1);
        }
        for place in self.places() {
            let handling = self.handling(place);
            if handling == Handling::Ignored || !self.is_provisioned(place) {
                continue;
            }
            if handling != Handling::Queued
                && !self.requests[place].is(ConditionType::BookingExpired)
            {
                self.end_booking(place);
            }
            if self.uses_nodes(place) {
                self.place_pods(place);
            }
        }
    }

    /// Ends the booking of a request whose pods are all scheduled (from 1.37), or fails a request
    /// whose templates are gone.
    fn end_booking(&mut self, place: usize) {
        let request = &self.requests[place];
        let consumed = self.snapshot.scheduled(&request.key) >= request.pods();
        if self.settings.profile.detects_consumption() && consumed {
            self.update(
                place,
                ConditionType::BookingExpired,
                true,
                "CapacityBookingConsumed",
                "Capacity booking consumed: all pods scheduled",
            );
        } else if let Err(missing) = self.snapshot.pods_of(request) {
            let message = format!("Couldn't create pods, err: {missing}");
            self.fail(place, "FailedToBookCapacity", &message);
        }
    }

    fn uses_nodes(&self, place: usize) -> bool {
        let booked = !self.requests[place].is(ConditionType::BookingExpired);
        let stolen = self.behaves(place, |how| matches!(how, Misbehaviour::CapacityStolen));
        self.is_provisioned(place) && (booked || stolen || self.settings.jobs_without_pods)
    }

    /// Books the full count, also while some of its pods are already scheduled.
    fn place_pods(&mut self, place: usize) {
        let Ok(pods) = self.snapshot.pods_of(&self.requests[place]) else {
            return;
        };
        let stolen = self.behaves(place, |how| matches!(how, Misbehaviour::CapacityStolen));
        let times = if stolen { 2 } else { 1 };
        for (shape, count) in pods {
            self.state.nodes.place(&shape, count.saturating_mul(times));
        }
    }
}
