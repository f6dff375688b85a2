//! The role of this replica, and the effects of a change.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::cache::Key;
use super::tasks::InFlight;
use super::{Core, Effect, Report};
use crate::api::ServedApi;
use crate::runtime::queue::Lane;

/// The state of the Lease, as this replica observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// Another replica holds it, or no holder has been observed.
    Standby,
    /// This replica holds it.
    Acquired,
    /// This replica held it and could not renew it in time. No other holder has been observed
    /// since.
    Lapsed,
}

/// The role of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It observes the cluster and decides nothing.
    Standby,
    /// It holds the Lease and reads its lists.
    Starting,
    /// It decides.
    Leading,
    /// Its Lease has lapsed: nothing is evaluated, released or written until it is held again.
    Suspended,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::Starting => "starting",
            Self::Leading => "leading",
            Self::Suspended => "suspended",
        }
    }
}

/// The start of a leadership term, in which checks that keep state restore their allocations.
#[derive(Clone, Debug, Default)]
pub(super) struct Restoring {
    /// The time until which all other evaluations wait for it.
    pub(super) until: Option<Instant>,
    /// The keys whose state is being restored, with the controllers that restore it.
    pub(super) in_flight: BTreeMap<Key, usize>,
}

/// Maximum time for which new Workloads wait for those that were approved before: an outage of a
/// check must not block everything.
const RESTORE_TIMEOUT: Duration = Duration::from_mins(1);

impl Core {
    pub(super) fn handle_lease(&mut self, state: LeaseState) {
        match (state, self.role) {
            (LeaseState::Acquired, Role::Standby) => {
                self.set_role(Role::Starting);
                self.drop_inherited_cleanups();
                if self.lists.workloads || self.workloads.lists() {
                    // A new leader must read the writes of the old one.
                    self.restart_workload_watch();
                }
                self.lead_if_synced();
            }
            // No other replica led meanwhile, so the caches are still valid.
            (LeaseState::Acquired, Role::Suspended) => {
                self.set_role(Role::Starting);
                self.lead_if_synced();
            }
            (LeaseState::Lapsed | LeaseState::Standby, Role::Leading | Role::Starting) => {
                self.suspend();
            }
            _ => {}
        }
    }

    fn set_role(&mut self, role: Role) {
        if self.role == role {
            return;
        }
        if (self.role == Role::Leading) != (role == Role::Leading) {
            self.effects.push(Effect::Leads(role == Role::Leading));
        }
        self.role = role;
        self.report(Report::Role(role.as_str()));
    }

    pub(super) fn leads(&self) -> bool {
        self.role == Role::Leading
    }

    /// Returns true if this replica leads or has led. Then no other one has led since: the process
    /// would have ended.
    pub(super) fn has_led(&self) -> bool {
        self.work.restoring.until.is_some()
    }

    /// Returns true if this replica leads, or will once it has read its lists.
    pub(crate) fn holds_lease(&self) -> bool {
        matches!(self.role, Role::Leading | Role::Starting)
    }

    /// Starts to lead, once the lists that decisions depend on have been read.
    pub(super) fn lead_if_synced(&mut self) {
        if self.role != Role::Starting || !self.is_synced() {
            return;
        }
        self.set_role(Role::Leading);
        self.workloads.assume_started();
        self.work.restoring = Restoring {
            until: Some(self.now.instant + RESTORE_TIMEOUT),
            in_flight: BTreeMap::new(),
        };
        self.reconcile_all();
        self.refresh_all();
        for controller in 0..self.controllers.len() {
            self.list_unreleased(controller);
        }
        self.effects.push(Effect::ScanWithoutQuota);
    }

    /// Cancels everything in flight: another replica may become leader. Canceled work starts again
    /// if this replica leads again.
    fn suspend(&mut self) {
        self.set_role(Role::Suspended);
        self.cancel_tasks();
    }

    /// Cancels all tasks. Each key that had one is enqueued again when this replica leads.
    pub(super) fn cancel_tasks(&mut self) {
        self.effects.push(Effect::CancelTasks);
        for started in std::mem::take(&mut self.work.in_flight).into_values() {
            match started.purpose {
                InFlight::Confirm { uid, place, .. } => self.confirm_at(uid, place),
                InFlight::Verdict {
                    key,
                    reservation,
                    conclusion,
                } if conclusion.evicts => self.keep_slot(&key, &reservation),
                // The eviction was not sent. Its record may have been written.
                InFlight::Eviction { key, verdict } => {
                    self.release_slot(&key, &verdict.reservation, true);
                }
                _ => {}
            }
        }
        self.work.restoring.in_flight.clear();
        self.work.used_concurrency.fill(0);
        for state in self.workloads.keys_mut() {
            if std::mem::take(&mut state.in_flight) {
                // Whether a canceled write was applied is unknown.
                state.expected = None;
                state.pending_lane = None;
            }
        }
        for unreleased in &mut self.work.unreleased {
            unreleased.in_flight = false;
        }
        for check in self.checks.values_mut() {
            check.cancel_tasks();
        }
    }

    /// Handles a change of how Kueue's API is served: the watches restart, and canceled tasks start
    /// again. Pending cleanups stay.
    pub(super) fn handle_served(&mut self, served: ServedApi) {
        self.served = served;
        self.cancel_tasks();
        self.lists.workloads = false;
        self.lists.checks = false;
        self.lists.missed = true;
        self.workloads.abandon_list();
        if self.role == Role::Leading {
            self.set_role(Role::Starting);
        }
    }

    /// Lists and watches Workloads again.
    pub(super) fn restart_workload_watch(&mut self) {
        self.lists.workloads = false;
        self.workloads.abandon_list();
        self.effects.push(Effect::WatchWorkloads);
    }

    /// Returns the least urgent lane that `controller` may process now. For a limited time, it
    /// evaluates nothing new while approvals from before this term, which come first, are being
    /// evaluated.
    pub(super) fn last_lane(&self, controller: usize) -> Lane {
        let Restoring { until, in_flight } = &self.work.restoring;
        let restores = in_flight.values().any(|by| *by == controller);
        let limited = until.is_some_and(|until| self.now.instant < until);
        if restores && limited {
            Lane::Restore
        } else {
            Lane::Recheck
        }
    }
}
