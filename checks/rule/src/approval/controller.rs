//! The admission check that counts approvals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{CustomResourceExt, Resource, ResourceExt};
use kueue_check::api::{AdmissionCheck, Uid};
use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, Inactive, Preview,
    Request, Trigger, Verdict,
};

use super::decide::{decide, may_count};
use super::guard;
use super::pods::{Candidate, Pods, Validity};
use super::resource::{self, Approval};
use crate::CONTROLLER;

/// The resources of the admission policy, both of which are required.
const GUARDS: [&str; 2] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];
/// The time within which the API server applies a new admission policy. An approval from before it
/// may be forged.
const POLICY_DELAY: SignedDuration = SignedDuration::from_secs(2);
/// The recheck interval of an AdmissionCheck whose approvals no policy guards.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The check. One instance decides for any number of AdmissionChecks.
///
/// ```
/// use kueue_check_rule::approval::ApprovalCheck;
///
/// let app = kueue_check::App::new().check(ApprovalCheck::default());
/// # let _ = app;
/// ```
#[derive(Clone, Default)]
pub struct ApprovalCheck(Arc<Mutex<WatchedObjects>>);

/// A part of the admission policy.
#[derive(Clone, Copy, Default, PartialEq)]
enum Guard {
    /// Until the first list is complete.
    #[default]
    Unknown,
    Missing,
    /// It was created then.
    Since(Timestamp),
}

impl From<Option<Timestamp>> for Guard {
    fn from(created: Option<Timestamp>) -> Self {
        created.map_or(Self::Missing, Self::Since)
    }
}

/// The watched objects.
#[derive(Default)]
struct WatchedObjects {
    /// The approvals by namespace and name. `None` until the first list is complete.
    approvals: Option<BTreeMap<(String, String), Approval>>,
    listed: Option<BTreeMap<(String, String), Approval>>,
    /// Each part of the admission policy.
    guards: [Guard; 2],
    /// When each part was created that is in the list that is being read.
    seen: [Option<Timestamp>; 2],
    pods: Pods,
}

impl ApprovalCheck {
    fn known(&self) -> MutexGuard<'_, WatchedObjects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns which of the `candidates` are of the pods of the Workload of `request`. The Workload
    /// is read, unless it has not changed since they were validated.
    async fn validate(
        &self,
        request: &Request,
        candidates: &[Candidate],
    ) -> Result<Validity, CheckError> {
        if candidates.is_empty() {
            return Ok(Validity::new());
        }
        let validity = self.known().pods.validity(request, candidates);
        if let Some(validity) = validity {
            return Ok(validity);
        }
        let (workload, object) = (request.workload(), request.full_workload().await?);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if Uid::new(uid) != *workload.uid() {
            // Its event triggers an evaluation.
            return Err(CheckError::transient(format!(
                "{workload} was created again"
            )));
        }
        Ok(self.known().pods.validate(request, &object, candidates))
    }
}

impl WatchedObjects {
    /// Returns the approvals that were created while the policy verified who creates them.
    fn approvals(&self) -> impl Iterator<Item = &Approval> {
        let created = self.guards.iter().filter_map(|guard| match guard {
            Guard::Since(created) => Some(*created),
            Guard::Unknown | Guard::Missing => None,
        });
        let created = created.max();
        let since =
            created.map(|created| created.checked_add(POLICY_DELAY).unwrap_or(Timestamp::MAX));
        let all = self.approvals.iter().flat_map(BTreeMap::values);
        all.filter(move |approval| {
            let made = approval.metadata.creation_timestamp.as_ref();
            made.is_some_and(|made| since.is_none_or(|since| made.0 > since))
        })
    }

    fn handle(&mut self, event: Event<Approval>) -> Trigger {
        let key = |approval: &Approval| {
            (
                approval.namespace().unwrap_or_default(),
                approval.name_any(),
            )
        };
        match event {
            Event::Init => {
                self.listed = Some(BTreeMap::new());
                return Trigger::Ignore;
            }
            Event::InitApply(approval) => {
                let listed = self.listed.get_or_insert_default();
                listed.insert(key(&approval), approval);
                return Trigger::Ignore;
            }
            Event::InitDone => self.approvals = Some(self.listed.take().unwrap_or_default()),
            Event::Apply(approval) => {
                let known = self.approvals.get_or_insert_default();
                known.insert(key(&approval), approval);
            }
            Event::Delete(approval) => {
                let known = self.approvals.get_or_insert_default();
                known.remove(&key(&approval));
            }
        }
        Trigger::AllWorkloads
    }

    fn handle_guard<K: Resource>(&mut self, part: usize, event: &Event<K>) -> Trigger {
        let before = self.guards[part];
        let created = |object: &K| {
            let created = object.meta().creation_timestamp.as_ref();
            Some(created.map_or(Timestamp::MAX, |created| created.0))
        };
        match event {
            Event::Init => self.seen[part] = None,
            Event::InitApply(object) => self.seen[part] = created(object),
            Event::InitDone => self.guards[part] = self.seen[part].into(),
            Event::Apply(object) => self.guards[part] = created(object).into(),
            Event::Delete(_) => self.guards[part] = Guard::Missing,
        }
        if self.guards[part] == before {
            Trigger::Ignore
        } else {
            Trigger::AllWorkloads
        }
    }

    /// Returns true if all inputs of verdicts are available.
    fn is_complete(&self) -> bool {
        self.approvals.is_some() && !self.guards.contains(&Guard::Unknown)
    }

    /// Returns the missing part of the admission policy.
    fn unguarded(&self) -> Option<String> {
        let missing = GUARDS.iter().zip(self.guards);
        let mut missing = missing.filter(|(_, guard)| *guard == Guard::Missing);
        let (part, _) = missing.next()?;
        let name = guard::NAME;
        Some(format!(
            "{part}/{name} is missing, so any user could approve in the name of another, and no approval counts: apply what the check's command `manifests` prints"
        ))
    }
}

impl AdmissionCheckController for ApprovalCheck {
    type Parameters = resource::ApprovalCheck;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static(CONTROLLER) }
    }

    async fn activate(
        &self,
        _: &AdmissionCheck,
        _: &Arc<resource::ApprovalCheck>,
    ) -> Result<(), Inactive> {
        match self.known().unguarded() {
            Some(problem) => {
                Err(Inactive::new("ApprovalsNotGuarded", problem).recheck_in(RECHECK_INTERVAL))
            }
            None => Ok(()),
        }
    }

    async fn evaluate(
        &self,
        request: CheckRequest<resource::ApprovalCheck>,
    ) -> Result<Verdict, CheckError> {
        let spec = &request.parameters().spec;
        if !self.known().is_complete() {
            // The end of the lists triggers an evaluation.
            return Ok(Verdict::unchanged());
        }
        let candidates: Vec<Candidate> = self
            .known()
            .approvals()
            .filter_map(|approval| Some(may_count(spec, &request, approval)?.0))
            .collect();
        let validity = self.validate(&request, &candidates).await?;
        let known = self.known();
        if let Some(problem) = known.unguarded() {
            return Err(CheckError::transient(problem));
        }
        Ok(decide(spec, &request, &validity, known.approvals()))
    }

    async fn preview(
        &self,
        request: CheckRequest<resource::ApprovalCheck>,
    ) -> Result<Preview, CheckError> {
        for _ in 0..100 {
            if self.known().is_complete() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.evaluate(request).await.map(Preview::of)
    }

    fn configure(
        self: &Arc<Self>,
        check: Check<resource::ApprovalCheck>,
    ) -> Check<resource::ApprovalCheck> {
        let approvals = Self::clone(self);
        let check = check
            .definitions([Approval::crd()])
            .objects(guard::objects())
            .watches_events(watcher::Config::default(), move |event| {
                approvals.known().handle(event)
            });
        GUARDS
            .iter()
            .enumerate()
            .fold(check, |check, (part, plural)| {
                let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "");
                let resource = ApiResource::from_gvk_with_plural(&kind, plural);
                let own =
                    watcher::Config::default().fields(&format!("metadata.name={}", guard::NAME));
                let guards = Self::clone(self);
                check.watches_resource(resource, own, move |event| {
                    guards.known().handle_guard(part, &event)
                })
            })
    }
}
