//! AdmissionChecks of this process.

use std::collections::BTreeSet;

use kube::runtime::watcher::Event;

use super::after_admission::AfterAdmission;
use super::cache::Key;
use super::managed_check::ManagedCheck;
use super::{Core, Effect, Report};
use crate::api::{AdmissionCheck, Name, Workload};
use crate::check::{DynCheck, ReleaseReason};
use crate::runtime::informers::{Failure, StoredParameters};

impl Core {
    pub(super) fn handle_check(&mut self, event: Event<AdmissionCheck>) {
        match event {
            Event::Init => self.lists.named_checks = Some(BTreeSet::new()),
            Event::InitApply(check) => {
                if let Some(named) = &mut self.lists.named_checks {
                    named.insert(check.name.clone());
                }
                self.apply_check(check, true);
            }
            Event::InitDone => {
                let named = self.lists.named_checks.take().unwrap_or_default();
                let vanished: Vec<Name> = self
                    .checks
                    .keys()
                    .filter(|name| !named.contains(*name))
                    .cloned()
                    .collect();
                for name in &vanished {
                    self.remove_check(name);
                }
                self.lists.checks = true;
                self.lead_if_synced();
            }
            Event::Apply(check) => self.apply_check(check, false),
            Event::Delete(check) => {
                let known = self.checks.get(&check.name);
                let newer = known.is_some_and(|known| {
                    known.object.uid() != check.uid()
                        && check.version.is_older_than(&known.object.version)
                });
                if !newer {
                    self.remove_check(&check.name);
                }
            }
        }
    }

    /// Applies an AdmissionCheck. A list is authoritative, even if its versions went back.
    fn apply_check(&mut self, check: AdmissionCheck, listed: bool) {
        let (name, leads, has_led) = (check.name.clone(), self.leads(), self.has_led());
        let known = self.checks.get(&name);
        let same = known.is_some_and(|known| known.object.uid() == check.uid());
        let older = known.is_some_and(|known| check.version.is_older_than(&known.object.version));
        if same && older && !listed {
            return;
        }
        let Some(controller) = self.serving(&check) else {
            return self.remove_check(&name);
        };
        // A recreated AdmissionCheck keeps its used slots in the limit.
        let limit = known.map(|known| known.after_admission.clone());
        // Conditions of the same AdmissionCheck are written one after the other, under any
        // controller.
        let announcement = known.filter(|_| same);
        let announcement = announcement.map(|known| known.announcement.clone());
        if known.is_some_and(|known| known.controller != controller) {
            // It refers to parameters of another kind now: the check of the old kind releases what
            // it holds.
            self.remove_check(&name);
        }
        match self.checks.get_mut(&name) {
            // One that was deleted and recreated under the same name starts with a new state.
            Some(known) if same => {
                known.object = check;
                let recorded = known.object.after_admission.as_ref();
                if has_led {
                    known.after_admission.merge(recorded);
                } else {
                    known.after_admission = AfterAdmission::read(recorded);
                }
            }
            _ => {
                let author = &self.controllers[controller];
                let mut managed =
                    ManagedCheck::new(check, controller, &author.name, &author.check.policy());
                if let Some(mut limit) = limit {
                    limit.merge(managed.object.after_admission.as_ref());
                    managed.after_admission = limit;
                }
                managed.announcement = announcement.unwrap_or_default();
                self.checks.insert(name.clone(), managed);
                self.report(Report::CheckAdded {
                    check: name.to_string(),
                    controller,
                });
                self.reconcile_users(&name);
                // It may have been deleted and recreated, with stale verdicts.
                if leads {
                    self.effects.push(Effect::ScanWithoutQuota);
                }
            }
        }
        self.refresh(&name);
    }

    /// Returns the controller of this process that manages `check`.
    pub(super) fn serving(&self, check: &AdmissionCheck) -> Option<usize> {
        let all = self.controllers.iter().map(|controller| &controller.check);
        DynCheck::serving(all, check)
    }

    fn remove_check(&mut self, name: &Name) {
        self.set_activation_timer(name, None);
        if self.checks.remove(name).is_none() {
            return;
        }
        self.report(Report::CheckRemoved {
            check: name.to_string(),
        });
        let users: Vec<Key> = self
            .workloads
            .keys()
            .map(|(key, _)| key)
            .filter(|key| key.check == *name)
            .collect();
        for key in users {
            self.end_reservation(&key, Some(ReleaseReason::CheckRemoved), false);
            self.remove_idle(&key);
        }
    }

    /// Reconciles Workloads that were observed before their AdmissionCheck.
    fn reconcile_users(&mut self, name: &Name) {
        let users: Vec<Workload> = self
            .workloads
            .present()
            .map(|(workload, _)| workload)
            .filter(|workload| workload.check(name).is_some())
            .cloned()
            .collect();
        for workload in users {
            self.reconcile_check(&workload, None, name);
        }
    }

    pub(super) fn handle_parameters(&mut self, kind: usize, event: Event<StoredParameters>) {
        let changed = match &event {
            Event::Init | Event::InitApply(_) => None,
            Event::InitDone => Some(None),
            Event::Apply(object) | Event::Delete(object) => Some(Some(object.name.clone())),
        };
        self.parameters[kind].1.apply(event);
        if let Some(name) = changed {
            self.refresh_users(kind, name.as_deref());
        }
    }

    pub(super) fn parameters_failed(&mut self, kind: usize, failure: Failure) {
        self.parameters[kind].1.failed(failure);
        self.refresh_users(kind, None);
    }

    /// Refreshes the AdmissionChecks that take parameters of this kind, and refer to `name`.
    fn refresh_users(&mut self, kind: usize, name: Option<&str>) {
        let kind = &self.parameters[kind].0;
        let takes = |check: &ManagedCheck| {
            let takes = self.controllers[check.controller].check.parameters().kind;
            takes.as_ref() == Some(kind)
        };
        let refers = |check: &ManagedCheck| {
            let reference = check.object.parameters();
            name.is_none_or(|name| reference.is_some_and(|reference| reference.name == name))
        };
        let users: Vec<Name> = self
            .checks
            .iter()
            .filter(|(_, check)| takes(check) && refers(check))
            .map(|(name, _)| name.clone())
            .collect();
        for name in users {
            self.refresh(&name);
        }
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
