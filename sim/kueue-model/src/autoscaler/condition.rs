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
/// # use example::create_request;
/// use kueue_check_sim::Simulation;
/// use kueue_check_sim::apiserver::Resource;
/// use kueue_check_sim::autoscaler::{Autoscaler, CHECK_CAPACITY, ConditionType, Profile, RequestKey, Settings};
///
/// Simulation::new(|| open).run(async |cluster| {
///     let autoscaler = Autoscaler::new(cluster.server().clone(), cluster.clock().clone(), Settings::new(Profile::Oss137, []));
///     create_request(cluster.server(), "train", CHECK_CAPACITY, 8); // a ProvisioningRequest
///     let train = RequestKey::new("default", "train");
///     autoscaler.set(&train, ConditionType::CapacityRevoked, true, "CapacityRevoked", "the nodes are gone");
///     let requests = Resource::new("autoscaling.x-k8s.io", "v1", "provisioningrequests");
///     let request = cluster.server().get(&requests, "default", "train").unwrap();
///     assert_eq!(request["status"]["conditions"][0]["type"], ConditionType::CapacityRevoked.as_str());
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The autoscaler has picked up the request.
    Accepted,
    /// The capacity is available, or requested; False while there is none.
    Provisioned,
    /// The request ended without capacity.
    Failed,
    /// The capacity is no longer reserved for this request, because the booking timed out or was
    /// used.
    BookingExpired,
    /// The nodes are removed. Only GKE writes it.
    CapacityRevoked,
}

impl ConditionType {
    /// Returns the name in the API.
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

/// A condition of a ProvisioningRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The name of the type; a request may carry types that no autoscaler writes.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word, such as `Failed`.
    pub reason: String,
    /// A message for people.
    pub message: String,
    /// The time of the last write, in whole seconds. Autoscalers update it on every write, even if
    /// the status stays the same.
    pub since: Timestamp,
}

impl Condition {
    /// Creates a condition written at `now`.
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

    /// Returns true if the status is `True`.
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

    /// Returns the condition as JSON. Writes that replace the status carry the generation;
    /// server-side applies do not.
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

/// Returns the time `time` after `moment`, or [`Timestamp::MAX`] if it overflows.
pub(super) fn after(moment: Timestamp, time: Duration) -> Timestamp {
    moment.checked_add(time).unwrap_or(Timestamp::MAX)
}

fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}
