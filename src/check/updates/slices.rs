//! Updates for a later slice of an elastic job: which of them can be sent.

use std::collections::BTreeMap;

use serde_json::Value;

use super::conflicts::conflict;
use super::{PodSetUpdate, PodSetUpdates, PodSetUpdatesError};
use crate::api::FingerprintKind;

/// The annotations that Kueue applies to the pods of a growth, in addition to node selectors
/// (`elastic_job_ungater.go` of 0.19.2).
const PASSED_ON: [&str; 2] = [
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "autoscaling.x-k8s.io/provisioning-class-name",
];

/// Updates of a later slice.
#[derive(Debug, PartialEq)]
pub(crate) struct SliceUpdates {
    /// The updates to send.
    pub(crate) sent: PodSetUpdates,
    /// The updates that the pods do not get, such as ``label `team` ``.
    pub(crate) lost: Vec<String>,
}

impl PodSetUpdates {
    /// Returns which of these updates reach the pods of a later slice, whose Workload is `object`.
    ///
    /// Its template is that of the running job, with the updates of earlier slices. A label or an
    /// annotation that the template has keeps its value: another value would prevent the pods from
    /// starting for ever, without an error. While pods run (`grows`), Kueue applies node selectors
    /// and two annotations, and drops the rest without an error (measured on 0.19.2, traces
    /// `elastic-pod-set-updates` and `elastic-pod-set-updates-conflict`).
    ///
    /// # Errors
    /// If a node selector contradicts the template's: it requires other nodes.
    pub(crate) fn for_later_slice(
        &self,
        object: &Value,
        grows: bool,
    ) -> Result<SliceUpdates, PodSetUpdatesError> {
        let mut lost = Vec::new();
        let mut sent = Vec::new();
        for update in &self.0 {
            let template = template(object, &update.name);
            let mut fitting = PodSetUpdate {
                name: update.name.clone(),
                ..PodSetUpdate::default()
            };
            for (kind, values, to) in [
                (
                    FingerprintKind::Label,
                    &update.labels,
                    &mut fitting.labels as &mut BTreeMap<_, _>,
                ),
                (
                    FingerprintKind::Annotation,
                    &update.annotations,
                    &mut fitting.annotations,
                ),
            ] {
                for (key, value) in values {
                    let passed_on = !grows || PASSED_ON.contains(&key.as_str());
                    match set(template, kind, key) {
                        Some(set) if set == value => {}
                        None if passed_on => drop(to.insert(key.clone(), value.clone())),
                        _ => lost.push(format!("{} `{key}`", kind.as_str())),
                    }
                }
            }
            for (key, value) in &update.node_selector {
                let kind = FingerprintKind::NodeSelector;
                match set(template, kind, key) {
                    None => drop(fitting.node_selector.insert(key.clone(), value.clone())),
                    Some(set) if set == value => {}
                    Some(set) => {
                        let setter = "the job's pod template".to_owned();
                        return Err(conflict(update, kind, key, value, set, setter));
                    }
                }
            }
            if !grows {
                fitting.tolerations.clone_from(&update.tolerations);
            } else if !update.tolerations.iter().all(|toleration| {
                let known = template.and_then(|template| template.pointer("/spec/tolerations"));
                let mut known = known.and_then(Value::as_array).into_iter().flatten();
                serde_json::to_value(toleration).is_ok_and(|own| known.any(|known| *known == own))
            }) {
                lost.push("tolerations".to_owned());
            }
            let empty = PodSetUpdate {
                name: update.name.clone(),
                ..PodSetUpdate::default()
            };
            if fitting != empty {
                sent.push(fitting);
            }
        }
        lost.sort();
        lost.dedup();
        let sent = Self(sent);
        Ok(SliceUpdates { sent, lost })
    }
}

fn template<'a>(object: &'a Value, pod_set: &str) -> Option<&'a Value> {
    let pod_sets = object.pointer("/spec/podSets")?.as_array()?;
    let of_name = pod_sets.iter().find(|known| known["name"] == pod_set)?;
    of_name.get("template")
}

/// Returns the value in the template.
fn set<'a>(template: Option<&'a Value>, kind: FingerprintKind, key: &str) -> Option<&'a str> {
    let map = match kind {
        FingerprintKind::Label => template?.pointer("/metadata/labels"),
        FingerprintKind::Annotation => template?.pointer("/metadata/annotations"),
        FingerprintKind::NodeSelector => template?.pointer("/spec/nodeSelector"),
    };
    map?.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Toleration;
    use serde_json::json;

    use super::*;
    use crate::check::PodSetUpdateBuilder;

    const REQUEST: &str = PASSED_ON[0];

    /// Returns an object as in the trace: the template has the updates of the first slice.
    fn object() -> Value {
        json!({"spec": {"podSets": [{"name": "main", "template": {
            "metadata": {
                "labels": {"example.com/lab": "one"},
                "annotations": {"example.com/licence": "one", REQUEST: "pr-one"},
            },
            "spec": {
                "nodeSelector": {"example.com/pool": "a"},
                "tolerations": [{"key": "spot", "operator": "Exists"}],
            },
        }}]}})
    }

    fn spot(key: &str) -> Toleration {
        Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        }
    }

    type Build = fn(PodSetUpdateBuilder) -> PodSetUpdateBuilder;

    fn fitted(grows: bool, build: Build) -> Result<SliceUpdates, PodSetUpdatesError> {
        let updates = PodSetUpdates::builder().pod_set("main", build).build();
        updates.unwrap().for_later_slice(&object(), grows)
    }

    #[test]
    fn what_the_template_has_keeps_its_value_and_what_kueue_drops_is_not_sent() {
        let nothing: Build = |pods| pods;
        let rows: [(&str, Build, Build, &[&str]); 8] = [
            (
                "the same values",
                |pods| {
                    pods.label("example.com/lab", "one")
                        .annotation("example.com/licence", "one")
                        .node_selector("example.com/pool", "a")
                        .toleration(spot("spot"))
                },
                nothing,
                &[],
            ),
            (
                "another licence",
                |pods| pods.annotation("example.com/licence", "two"),
                nothing,
                &["annotation `example.com/licence`"],
            ),
            (
                "another request",
                |pods| pods.annotation(REQUEST, "pr-two"),
                nothing,
                &["annotation `autoscaling.x-k8s.io/consume-provisioning-request`"],
            ),
            (
                "an annotation that is passed on",
                |pods| pods.annotation(PASSED_ON[1], "class"),
                |pods| pods.annotation(PASSED_ON[1], "class"),
                &[],
            ),
            (
                "another annotation",
                |pods| pods.annotation("new", "1"),
                nothing,
                &["annotation `new`"],
            ),
            (
                "a label",
                |pods| pods.label("new", "1"),
                nothing,
                &["label `new`"],
            ),
            (
                "a toleration",
                |pods| pods.toleration(spot("gpu")),
                nothing,
                &["tolerations"],
            ),
            (
                "a node selector",
                |pods| pods.node_selector("new", "1"),
                |pods| pods.node_selector("new", "1"),
                &[],
            ),
        ];
        for (case, build, sent, lost) in rows {
            let fitted = fitted(true, build).unwrap();
            assert_eq!(fitted.lost, lost, "{case}");
            let sent = PodSetUpdates::builder().pod_set("main", sent).build();
            let mut sent = sent.unwrap();
            let name = "main".to_owned();
            let empty = PodSetUpdate {
                name,
                ..PodSetUpdate::default()
            };
            sent.0.retain(|update| *update != empty);
            assert_eq!(fitted.sent, sent, "{case}");
        }
    }

    #[test]
    fn a_slice_that_starts_anew_gets_what_its_template_does_not_contradict() {
        let fitted = fitted(false, |pods| {
            pods.label("new", "1")
                .label("example.com/lab", "two")
                .toleration(spot("gpu"))
        });
        let sent = PodSetUpdates::builder()
            .pod_set("main", |pods| {
                pods.label("new", "1").toleration(spot("gpu"))
            })
            .build();
        let lost = vec!["label `example.com/lab`".to_owned()];
        let sent = sent.unwrap();
        assert_eq!(fitted.unwrap(), SliceUpdates { sent, lost });
    }

    #[test]
    fn a_node_selector_that_contradicts_is_rejected() {
        for grows in [false, true] {
            let refused = fitted(grows, |pods| pods.node_selector("example.com/pool", "b"));
            assert_eq!(
                refused.unwrap_err().to_string(),
                "pod set `main`: node selector `example.com/pool` would be `b`, but the job's pod template sets it to `a`"
            );
        }
    }
}
