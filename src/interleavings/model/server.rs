//! The objects on the server, and how Kueue and users change them.

use serde_json::json;

use super::{ClusterChange, Model, Provided, START, Settings};
use crate::api::{AdmissionCheck, CheckState, ResourceFlavor, Uid, Workload};
use crate::check::Reservation;
use crate::runtime::informers::StoredParameters;
use crate::runtime::writer::ConditionPatch;
use jiff::Timestamp;
use kube::runtime::watcher::Event;

/// The one flavor, which every Workload with quota has.
pub(super) const FLAVOR: &str = "flavor";

/// A Workload on the server.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) uid: usize,
    pub(super) version: u64,
    /// Counts reservations: each begins a second after the one before.
    pub(super) since: u64,
    pub(super) quota: bool,
    pub(super) admitted: bool,
    pub(super) evicted: bool,
    pub(super) priority: u64,
    pub(super) entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) state: CheckState,
    pub(super) message: String,
    pub(super) updates: Vec<serde_json::Value>,
    /// The reservation that the verdict was decided for.
    pub(super) decided_for: u64,
    /// The revision of the parameters that it was decided with.
    pub(super) decided_with: u64,
}

impl Settings {
    /// Returns the parameters object of all checks, if it exists.
    pub(super) fn parameters(&self) -> Option<StoredParameters> {
        let revision = self.revision;
        let valid = self.provided == Provided::Valid;
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Limit",
            "metadata": {"name": "limit", "uid": "limit", "generation": revision, "resourceVersion": revision.to_string()},
            "spec": {"revision": revision, "valid": valid},
        });
        let object: kube::core::DynamicObject = serde_json::from_value(object).unwrap();
        matches!(self.provided, Provided::Valid | Provided::Invalid).then(|| object.into())
    }

    /// Takes what a watch of the parameters shows.
    pub(super) fn take_parameters(&mut self, event: &Event<StoredParameters>) {
        match event {
            Event::Apply(shown) => {
                self.revision = shown.generation.unsigned_abs();
                self.provided = Provided::Valid;
            }
            _ => self.provided = Provided::Missing,
        }
    }

    /// Returns the flavor: with a label that contradicts the checks' updates, or without.
    pub(super) fn flavor(&self) -> ResourceFlavor {
        let labels = if self.labelled {
            json!({"zone": "elsewhere"})
        } else {
            json!({})
        };
        ResourceFlavor::from_json(json!({
            "metadata": {"name": FLAVOR}, "spec": {"nodeLabels": labels},
        }))
        .unwrap()
    }

    /// Returns an AdmissionCheck. One that is made again has another UID.
    pub(super) fn admission_check(
        &self,
        number: usize,
        conditions: &[ConditionPatch],
    ) -> AdmissionCheck {
        let uid = if number == 0 { self.made } else { 0 };
        let version = 1 + 10 * uid + u64::from(!conditions.is_empty());
        let mut spec = json!({"controllerName": format!("example.com/check-{number}")});
        if self.provided != Provided::Never {
            spec["parameters"] =
                json!({"apiGroup": "example.com", "kind": "Limit", "name": "limit"});
        }
        AdmissionCheck::from_json(json!({
            "metadata": {"name": name_of(number), "uid": format!("{}-{uid}", name_of(number)),
                         "resourceVersion": version.to_string(), "generation": 1},
            "spec": spec, "status": {"conditions": conditions},
        }))
        .unwrap()
    }
}

impl Model {
    pub(super) fn workload(object: &Object) -> Workload {
        let mut conditions = vec![json!({
            "type": "QuotaReserved", "status": if object.quota { "True" } else { "False" },
            "lastTransitionTime": second(object.since),
        })];
        if object.admitted {
            conditions.push(json!({"type": "Admitted", "status": "True"}));
        }
        if object.evicted {
            conditions.push(json!({"type": "Evicted", "status": "True", "lastTransitionTime": second(object.since)}));
        }
        let entries: Vec<_> = object
            .entries
            .iter()
            .enumerate()
            .map(|(check, entry)| {
                json!({"name": name_of(check), "state": entry.state.as_str(), "message": entry.message,
                       "podSetUpdates": entry.updates, "lastTransitionTime": second(object.since)})
            })
            .collect();
        let mut status = json!({"conditions": conditions, "admissionChecks": entries});
        if object.quota {
            status["admission"] = json!({"clusterQueue": "queue",
                "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": FLAVOR}}]});
        }
        Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": format!("w{}", object.uid), "uid": format!("uid-{}", object.uid),
                         "resourceVersion": object.version.to_string()},
            "spec": {"priority": object.priority, "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
            "status": status,
        }))
        .unwrap()
    }

    pub(super) fn change(&mut self, kind: ClusterChange, uid: usize) {
        if self.settings_change(kind) {
            return;
        }
        let Some(before) = self.objects[uid].clone() else {
            return;
        };
        if kind == ClusterChange::Delete {
            let mut last = before.clone();
            last.version += 1;
            self.objects[uid] = None;
            let last = Self::workload(&last);
            if before.quota {
                for replica in &mut self.replicas {
                    replica.events.push_back(Event::Delete(last.clone()));
                }
            }
            return;
        }
        if kind == ClusterChange::Admit {
            let stale = before
                .entries
                .iter()
                .position(|entry| entry.decided_for != before.since);
            if let Some(check) = stale {
                self.violate(format!(
                    "w{uid} is admitted by a Ready of check-{check} for an earlier reservation"
                ));
            }
        }
        self.store(uid, before, |object| match kind {
            ClusterChange::Reserve => {
                object.quota = true;
                object.evicted = false;
                object.since += 1;
            }
            ClusterChange::Admit => object.admitted = true,
            ClusterChange::LoseQuota => object.quota = false,
            ClusterChange::Evict => {
                object.evicted = true;
                for entry in &mut object.entries {
                    *entry = Entry::pending("Reset to Pending after eviction");
                }
            }
            ClusterChange::EvictStale => object.evicted = true,
            ClusterChange::ReleaseQuota => {
                object.quota = false;
                object.admitted = false;
            }
            ClusterChange::ChangePriority => object.priority += 1,
            _ => {}
        });
    }

    /// Stores an object as `change` changes it, and sends it to each watch. Returns it.
    pub(super) fn store(
        &mut self,
        uid: usize,
        before: Object,
        change: impl FnOnce(&mut Object),
    ) -> Workload {
        let was_selected = before.quota;
        let mut object = before;
        change(&mut object);
        object.version += 1;
        let workload = Self::workload(&object);
        let event = match (was_selected, object.quota) {
            (_, true) => Some(Event::Apply(workload.clone())),
            (true, false) => Some(Event::Delete(workload.clone())),
            (false, false) => None,
        };
        self.objects[uid] = Some(object);
        for replica in &mut self.replicas {
            replica.events.extend(event.clone());
        }
        workload
    }

    /// Changes an object that belongs to no Workload; returns `false` if `kind` is no such change.
    fn settings_change(&mut self, kind: ClusterChange) -> bool {
        let before = self.settings.clone();
        let settings = &mut self.settings;
        match kind {
            ClusterChange::ChangeParameters => {
                settings.revision += 1;
                settings.provided = Provided::Valid;
            }
            ClusterChange::BreakParameters => {
                settings.revision += 1;
                settings.provided = Provided::Invalid;
            }
            ClusterChange::DeleteParameters => settings.provided = Provided::Missing,
            ClusterChange::ChangeFlavor => settings.labelled = !settings.labelled,
            ClusterChange::DeleteCheck => settings.deleted = true,
            ClusterChange::MakeCheckAgain => {
                settings.deleted = false;
                settings.made += 1;
            }
            _ => return false,
        }
        let settings = self.settings.clone();
        for replica in &mut self.replicas {
            match kind {
                ClusterChange::ChangeFlavor => {
                    replica.flavors.push_back(Event::Apply(settings.flavor()));
                }
                ClusterChange::DeleteParameters => replica
                    .parameters
                    .extend(before.parameters().map(Event::Delete)),
                ClusterChange::DeleteCheck => replica
                    .checks
                    .push_back(Event::Delete(settings.admission_check(0, &[]))),
                ClusterChange::MakeCheckAgain => replica
                    .checks
                    .push_back(Event::Apply(settings.admission_check(0, &[]))),
                _ => replica
                    .parameters
                    .extend(settings.parameters().map(Event::Apply)),
            }
        }
        true
    }
}

impl Entry {
    pub(super) fn pending(message: &str) -> Self {
        Self {
            state: CheckState::Pending,
            message: message.to_owned(),
            updates: Vec::new(),
            decided_for: 0,
            decided_with: 0,
        }
    }
}

fn second(number: u64) -> String {
    Timestamp::from_second(START + i64::try_from(number).unwrap())
        .unwrap()
        .to_string()
}

pub(super) fn number(reservation: &Reservation) -> u64 {
    u64::try_from(reservation.since().as_second() - START).unwrap()
}

pub(super) fn name_of(check: usize) -> String {
    format!("check-{check}")
}

pub(super) fn index_of(name: &str) -> usize {
    name.rsplit('-').next().unwrap().parse().unwrap()
}

/// Returns the number of a Workload.
pub(super) fn uid_of(uid: &Uid) -> usize {
    index_of(&uid.to_string())
}
