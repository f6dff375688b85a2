//! AdmissionCheck: its controller, its parameters and its conditions.

use kube::core::{ClusterResourceScope, ObjectMeta};
use serde::Deserialize;

use super::{Lenient, Name, ResourceVersion, SlimMeta, Uid, slim_resource};

/// The condition in which a leader records the state of admitted jobs for the next leader.
pub(crate) const AFTER_ADMISSION: &str = "AfterAdmission";

/// An AdmissionCheck object (cluster-scoped).
///
/// ```
/// use kueue_check::api::AdmissionCheck;
///
/// let check = AdmissionCheck::from_json(serde_json::json!({
///     "metadata": {"name": "budget", "uid": "1", "generation": 2},
///     "spec": {"controllerName": "example.com/budget", "parameters": {"apiGroup": "example.com", "kind": "Budget", "name": "team-a"}},
/// }))?;
/// assert_eq!((check.name(), check.controller_name()), ("budget", "example.com/budget"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionCheck {
    pub(crate) name: Name,
    pub(crate) uid: Uid,
    pub(crate) version: ResourceVersion,
    pub(crate) generation: i64,
    pub(crate) controller_name: Name,
    pub(crate) parameters: Option<ParametersReference>,
    pub(crate) active: Option<StatusCondition>,
    pub(crate) after_admission: Option<StatusCondition>,
    pub(crate) deleting: bool,
}

/// A reference to a cluster-scoped object with the check's configuration (`spec.parameters`). It
/// names no namespace and no version.
///
/// ```
/// use kueue_check::api::AdmissionCheck;
///
/// let check = AdmissionCheck::from_json(serde_json::json!({
///     "metadata": {"name": "budget"},
///     "spec": {"controllerName": "example.com/budget", "parameters": {"apiGroup": "example.com", "kind": "Budget", "name": "team-a"}},
/// }))?;
/// assert_eq!(check.parameters().map(|parameters| parameters.name.as_str()), Some("team-a"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParametersReference {
    /// The object's API group.
    pub group: String,
    /// The object's kind.
    pub kind: String,
    /// The object's name: at most 63 characters, a DNS label (Kueue's schema).
    pub name: String,
}

/// A condition of the status, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusCondition {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) since: Option<jiff::Timestamp>,
}

impl AdmissionCheck {
    /// Decodes an AdmissionCheck from JSON, for tests of
    /// [`activate`](crate::AdmissionCheckController::activate). A field of the wrong shape counts
    /// as absent.
    ///
    /// # Errors
    /// If it is not an object with metadata.
    pub fn from_json(object: serde_json::Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value::<AdmissionCheckObject>(object).map(Self::from)
    }

    /// Returns the object's name, by which ClusterQueues and Workloads refer to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Returns `metadata.generation`: the number of the spec's revision.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns `spec.controllerName`: the name of its controller.
    pub fn controller_name(&self) -> &str {
        &self.controller_name
    }

    /// Returns `spec.parameters`.
    pub fn parameters(&self) -> Option<&ParametersReference> {
        self.parameters.as_ref()
    }

    /// Returns true if it is being deleted. Kueue keeps it, and treats it as active, until no
    /// ClusterQueue refers to it.
    pub fn is_being_deleted(&self) -> bool {
        self.deleting
    }
}

/// The object as it is decoded.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AdmissionCheckObject {
    #[serde(deserialize_with = "SlimMeta::object_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Lenient<Spec>,
    #[serde(default)]
    status: Lenient<Status>,
}

slim_resource!(
    AdmissionCheckObject,
    "AdmissionCheck",
    "admissionchecks",
    ClusterResourceScope
);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    controller_name: Lenient<String>,
    #[serde(default)]
    parameters: Lenient<Option<Reference>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    #[serde(default)]
    api_group: Lenient<String>,
    #[serde(default)]
    kind: Lenient<String>,
    #[serde(default)]
    name: Lenient<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Lenient<Vec<Lenient<Condition>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(default, rename = "type")]
    kind: Lenient<String>,
    #[serde(default)]
    status: Lenient<String>,
    #[serde(default)]
    reason: Lenient<String>,
    #[serde(default)]
    message: Lenient<String>,
    #[serde(default)]
    observed_generation: Lenient<Option<i64>>,
    #[serde(default)]
    last_transition_time: Lenient<Option<jiff::Timestamp>>,
}

impl From<AdmissionCheckObject> for AdmissionCheck {
    fn from(object: AdmissionCheckObject) -> Self {
        let (meta, spec) = (object.metadata, object.spec.0);
        let conditions = object.status.0.conditions.0;
        let condition = |kind: &str| {
            let mut conditions = conditions.iter().map(|condition| &condition.0);
            conditions
                .find(|condition| condition.kind.0 == kind)
                .cloned()
                .map(StatusCondition::from)
        };
        Self {
            name: meta.name.unwrap_or_default().into(),
            uid: Uid::new(&meta.uid.unwrap_or_default()),
            version: ResourceVersion::new(&meta.resource_version.unwrap_or_default()),
            generation: meta.generation.unwrap_or_default(),
            controller_name: spec.controller_name.0.into(),
            parameters: spec.parameters.0.map(|reference| ParametersReference {
                group: reference.api_group.0,
                kind: reference.kind.0,
                name: reference.name.0,
            }),
            active: condition("Active"),
            after_admission: condition(AFTER_ADMISSION),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

impl From<Condition> for StatusCondition {
    fn from(condition: Condition) -> Self {
        Self {
            status: condition.status.0,
            reason: condition.reason.0,
            message: condition.message.0,
            observed_generation: condition.observed_generation.0,
            since: condition.last_transition_time.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admission_check_is_read() {
        let check = AdmissionCheck::from_json(serde_json::json!({
            "metadata": {"name": "budget", "uid": "u", "resourceVersion": "7", "generation": 3, "managedFields": [{"x": 1}]},
            "spec": {"controllerName": "example.com/budget", "parameters": {"apiGroup": "example.com", "kind": "Budget", "name": "team"}, "retryDelayMinutes": 15},
            "status": {"conditions": [{"type": "Other", "status": "True"}, {"type": "Active", "status": "True", "reason": "Active", "message": "m", "observedGeneration": 2}]},
        }))
        .unwrap();
        assert_eq!(
            (check.name(), check.controller_name(), check.generation()),
            ("budget", "example.com/budget", 3)
        );
        assert_eq!(
            check.parameters().map(|reference| reference.kind.as_str()),
            Some("Budget")
        );
        assert_eq!(
            check
                .active
                .map(|active| (active.status, active.observed_generation)),
            Some(("True".to_owned(), Some(2)))
        );
    }

    #[test]
    fn a_malformed_one_is_still_read() {
        let check = AdmissionCheck::from_json(serde_json::json!({
            "metadata": {"name": "odd"}, "spec": {"controllerName": 7, "parameters": "x"}, "status": [],
        }))
        .unwrap();
        assert_eq!(
            (check.name(), check.controller_name(), check.parameters()),
            ("odd", "", None)
        );
    }
}
