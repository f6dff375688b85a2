//! Conditions of a ProvisioningRequest.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

/// The types of conditions that an autoscaler writes.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use std::time::Duration;
/// # use example::ask;
/// use kueue_check_sim::Simulation;
/// use kueue_check_sim::apiserver::Resource;
/// use kueue_check_sim::autoscaler::{Autoscaler, CHECK_CAPACITY, ConditionType, Profile, RequestKey, Settings};
///
/// Simulation::new(|| open).run(async |cluster| {
///     let autoscaler = Autoscaler::new(cluster.server().clone(), cluster.clock().clone(), Settings::new(Profile::Oss137, []));
///     ask(cluster.server(), "train", CHECK_CAPACITY, 8); // a ProvisioningRequest
///     let train = RequestKey::new("default", "train");
///     autoscaler.set(&train, ConditionType::CapacityRevoked, true, "CapacityRevoked", "the nodes are gone");
///     let requests = Resource::new("autoscaling.x-k8s.io", "v1", "provisioningrequests");
///     let request = cluster.server().get(&requests, "default", "train").unwrap();
///     assert_eq!(request["status"]["conditions"][0]["type"], ConditionType::CapacityRevoked.as_str());
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// Picked up.
    Accepted,
    /// The capacity is there, or requested; False while there is none.
    Provisioned,
    /// Over, without capacity.
    Failed,
    /// The capacity is no longer kept for this request, because time passed or because it is used.
    BookingExpired,
    /// The nodes are taken away. Only GKE writes it.
    CapacityRevoked,
}

impl ConditionType {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Provisioned => "Provisioned",
            Self::Failed => "Failed",
            Self::BookingExpired => "BookingExpired",
            Self::CapacityRevoked => "CapacityRevoked",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The type's name: a request may also carry types that no autoscaler knows.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When it was last written, in whole seconds: autoscalers move it at every write, also where
    /// the status stays.
    pub since: Timestamp,
}

impl Condition {
    /// A condition written at `now`.
    pub fn new(
        kind: ConditionType,
        status: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            kind: kind.as_str().to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: reason.into(),
            message: message.into(),
            since: whole_seconds(now),
        }
    }

    /// Whether the status is True.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub(super) fn read(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Self {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            since: text("lastTransitionTime").parse().unwrap_or_default(),
        }
    }

    /// As it stands in the object. Writes that replace the status carry the generation, applied
    /// ones do not.
    pub(super) fn to_value(&self, generation: Option<i64>) -> Value {
        let mut value = json!({
            "type": self.kind,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": whole_seconds(self.since).to_string(),
        });
        if let Some(generation) = generation {
            value["observedGeneration"] = generation.into();
        }
        value
    }
}

/// `time` after `moment`; the end of all time where that is too far.
pub(super) fn after(moment: Timestamp, time: Duration) -> Timestamp {
    moment.checked_add(time).unwrap_or(Timestamp::MAX)
}

fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}
