//! Checks that a test controls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::CustomResource;
use kueue_check::api::AdmissionCheck;
use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, HumanDuration,
    Inactive, Parameters, Policy, ReleaseOutcome, ReleaseReason, Reservation, Trigger, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};

/// The parameters of the tests' checks.
#[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "test.kueue-check.dev",
    version = "v1",
    kind = "Setting",
    status = "SettingStatus"
)]
#[parameters(validate = SettingSpec::validate)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SettingSpec {
    pub(crate) word: String,
    #[serde(flatten)]
    pub(crate) policy: Policy,
}

/// A status that a controller might write.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
pub(crate) struct SettingStatus {
    pub(crate) seen: u32,
}

impl SettingSpec {
    fn validate(&self) -> Result<(), String> {
        if self.word == "nonsense" {
            Err("`word` must not be nonsense".to_owned())
        } else {
            Ok(())
        }
    }
}

type Decide = Arc<dyn Fn(&CheckRequest<Setting>) -> Result<Verdict, CheckError> + Send + Sync>;

/// A check whose results a test chooses, and which records its evaluations. Clones share them.
#[derive(Clone)]
pub(crate) struct Scripted(Arc<Inner>);

struct Inner {
    name: String,
    decide: Mutex<Decide>,
    delay: Mutex<Duration>,
    held: watch::Sender<bool>,
    evaluations: Mutex<Vec<Evaluation>>,
    released: Mutex<Vec<(Reservation, ReleaseReason)>>,
    releasing: Mutex<Releasing>,
    started: Mutex<BTreeMap<Reservation, u32>>,
    activation: Mutex<Result<(), Inactive>>,
    triggers: broadcast::Sender<Trigger>,
    outlives: bool,
    policy: Policy,
}

/// One evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    pub(crate) workload: String,
    pub(crate) reservation: Reservation,
    pub(crate) word: String,
}

/// The result of a release.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Releasing {
    Done,
    Nothing,
    Fails,
}

impl Scripted {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, false, Policy::default())
    }

    /// Makes one whose Ready holds for the next reservation too.
    pub(crate) fn outliving(name: &str) -> Self {
        Self::with(name, true, Policy::default())
    }

    /// Makes one with this policy.
    pub(crate) fn with_policy(name: &str, policy: Policy) -> Self {
        Self::with(name, false, policy)
    }

    fn with(name: &str, outlives: bool, policy: Policy) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            decide: Mutex::new(Arc::new(|_| Ok(Verdict::ready("ok")))),
            delay: Mutex::default(),
            held: watch::Sender::new(false),
            evaluations: Mutex::default(),
            released: Mutex::default(),
            releasing: Mutex::new(Releasing::Done),
            started: Mutex::default(),
            activation: Mutex::new(Ok(())),
            triggers: broadcast::channel(16).0,
            outlives,
            policy,
        }))
    }

    /// Sets what evaluations return.
    pub(crate) fn returns(
        &self,
        decide: impl Fn(&CheckRequest<Setting>) -> Result<Verdict, CheckError> + Send + Sync + 'static,
    ) {
        *self.0.decide.lock().unwrap() = Arc::new(decide);
    }

    pub(crate) fn delay(&self, delay: Duration) {
        *self.0.delay.lock().unwrap() = delay;
    }

    /// Makes evaluations wait for [`resume`](Self::resume). Unlike a delay, this does not depend on
    /// how fast the machine is.
    pub(crate) fn hold(&self) {
        self.0.held.send_replace(true);
    }

    pub(crate) fn resume(&self) {
        self.0.held.send_replace(false);
    }

    pub(crate) fn evaluations(&self) -> Vec<Evaluation> {
        self.0.evaluations.lock().unwrap().clone()
    }

    pub(crate) fn evaluations_of(&self, workload: &str) -> usize {
        self.evaluations()
            .iter()
            .filter(|evaluation| evaluation.workload == workload)
            .count()
    }

    pub(crate) fn released(&self) -> Vec<(Reservation, ReleaseReason)> {
        self.0.released.lock().unwrap().clone()
    }

    pub(crate) fn released_for(&self, workload: &str) -> Vec<ReleaseReason> {
        self.released()
            .into_iter()
            .filter(|(reservation, _)| reservation.name() == workload)
            .map(|(_, why)| why)
            .collect()
    }

    pub(crate) fn releasing(&self, releasing: Releasing) {
        *self.0.releasing.lock().unwrap() = releasing;
    }

    /// Returns what was allocated and not released, as an external system has it.
    pub(crate) fn started(&self) -> Vec<Reservation> {
        self.0.started.lock().unwrap().keys().cloned().collect()
    }

    pub(crate) fn start(&self, reservation: Reservation) {
        self.0.started.lock().unwrap().insert(reservation, 1);
    }

    pub(crate) fn activation(&self, activation: Result<(), Inactive>) {
        *self.0.activation.lock().unwrap() = activation;
    }

    pub(crate) fn trigger(&self, trigger: Trigger) {
        let _ = self.0.triggers.send(trigger);
    }
}

impl AdmissionCheckController for Scripted {
    type Parameters = Setting;

    fn controller_name(&self) -> ControllerName {
        self.0.name.parse().unwrap()
    }

    async fn evaluate(&self, request: CheckRequest<Setting>) -> Result<Verdict, CheckError> {
        let word = request.parameters().spec.word.clone();
        let evaluation = Evaluation {
            workload: request.workload().name().to_owned(),
            reservation: request.reservation().clone(),
            word,
        };
        self.0.evaluations.lock().unwrap().push(evaluation);
        *self
            .0
            .started
            .lock()
            .unwrap()
            .entry(request.reservation().clone())
            .or_default() += 1;
        let (decide, delay) = (
            Arc::clone(&self.0.decide.lock().unwrap()),
            *self.0.delay.lock().unwrap(),
        );
        tokio::time::sleep(delay).await;
        let _ = self.0.held.subscribe().wait_for(|held| !held).await;
        decide(&request)
    }

    async fn activate(&self, _: &AdmissionCheck, _: &Arc<Setting>) -> Result<(), Inactive> {
        self.0.activation.lock().unwrap().clone()
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.0
            .released
            .lock()
            .unwrap()
            .push((reservation.clone(), why.clone()));
        let releasing = *self.0.releasing.lock().unwrap();
        match releasing {
            Releasing::Done => {
                self.0.started.lock().unwrap().remove(reservation);
                Ok(ReleaseOutcome::Done)
            }
            Releasing::Nothing => {
                let holds_nothing =
                    Check::from_fn(self.controller_name(), async || Verdict::ready("ok"));
                holds_nothing.release(reservation, why).await
            }
            Releasing::Fails => Err(CheckError::transient("the licence server does not respond")),
        }
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        Ok(self.started())
    }

    fn configure(self: &Arc<Self>, check: Check<Setting>) -> Check<Setting> {
        let triggers = self.0.triggers.clone();
        let check = check
            .policy(self.0.policy.clone())
            .watches_stream("test", move || {
                futures::stream::unfold(triggers.subscribe(), async |mut triggers| {
                    triggers
                        .recv()
                        .await
                        .ok()
                        .map(|trigger| (trigger, triggers))
                })
            });
        if self.0.outlives {
            check.outlives_reservation()
        } else {
            check
        }
    }
}

/// Returns a policy under which a failing verdict evicts a running job at once.
pub(crate) fn evict_at_once() -> Policy {
    serde_json::from_value(serde_json::json!({"afterAdmission": {"consecutive": 1}})).unwrap()
}

/// Returns a policy that limits waiting.
pub(crate) fn waits_at_most(after: &str) -> Policy {
    let after: HumanDuration = after.parse().unwrap();
    serde_json::from_value(serde_json::json!({"pendingTimeout": {"after": after, "then": "Retry"}}))
        .unwrap()
}
