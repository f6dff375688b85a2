//! Pod set updates of a verdict, before it is written.

use std::collections::BTreeMap;

use crate::api::{CheckState, ResourceFlavor, Slice, Workload};
use crate::check::{
    CheckEvent, Conflicts, ErrorKind, Family, FamilyRole, PodSetUpdates, ReadWorkload,
    written_updates_are_suspected,
};
use crate::runtime::decide::Outcome;

/// The reason of the event about updates that the pods do not get.
const NOT_APPLIED: &str = "PodSetUpdatesNotApplied";

/// The subject of a verdict.
#[derive(Clone, Copy)]
pub(in crate::runtime) struct About<'a> {
    pub(in crate::runtime) workload: &'a Workload,
    pub(in crate::runtime) family: &'a Family,
    pub(in crate::runtime) check: &'a str,
    pub(in crate::runtime) flavors: &'a BTreeMap<String, ResourceFlavor>,
}

/// Returns `outcome`: with the updates that can be sent, or the failure that states why they cannot,
/// or a conflict of the updates that are written already. Also returns a sentence about updates that
/// the pods do not get.
pub(in crate::runtime) async fn fit_updates(
    outcome: Outcome,
    about: About<'_>,
    reader: &dyn ReadWorkload,
) -> (Outcome, Option<String>) {
    if outcome.keeps_ready(about.workload, about.check)
        && let Some(conflict) = conflict_of_written(about, reader).await
    {
        return (conflict, None);
    }
    let Outcome::Verdict(mut verdict) = outcome else {
        return (outcome, None);
    };
    let About {
        workload, family, ..
    } = about;
    if !verdict.is_ready() || verdict.updates.is_empty() {
        return (Outcome::Verdict(verdict), None);
    }
    let lost = if matches!(workload.slice(), Slice::Replaces(_)) {
        let grows = *family.role() == FamilyRole::Growth || workload.is_admitted();
        match for_later_slice(&verdict.updates, workload, grows, reader).await {
            Ok((updates, lost)) => {
                verdict.updates = updates;
                lost
            }
            Err(failed) => return (failed, None),
        }
    } else if matches!(family.role(), FamilyRole::Variant { .. }) {
        Some(
            "Kueue up to 0.19 does not pass pod set updates of a variant on to the pods".to_owned(),
        )
    } else {
        None
    };
    if let Some(refused) = do_not_fit(&verdict.updates, about, reader).await {
        return (refused, None);
    }
    (Outcome::Verdict(verdict), lost)
}

/// Returns the conflict of updates that were written with Ready: a flavor's labels or another
/// check's updates have changed since. Sends one request, and only if a conflict is suspected.
async fn conflict_of_written(about: About<'_>, reader: &dyn ReadWorkload) -> Option<Outcome> {
    let About {
        workload,
        check,
        flavors,
        ..
    } = about;
    if !written_updates_are_suspected(workload, check, flavors) {
        return None;
    }
    let object = match reader.read(workload).await {
        Ok(object) => object,
        Err(error) => return Some(failed(error.kind(), error.to_string())),
    };
    let written = PodSetUpdates::in_object(&object, check);
    let error = match written.conflicts(workload, check, flavors) {
        Conflicts::Certain(error) => Some(error),
        _ => written.conflict_in_object(&object, check),
    };
    error.map(|error| Outcome::Conflict {
        message: error.to_string().into(),
    })
}

/// Returns the event about updates that the pods do not get. It is recorded once, with the verdict
/// that makes the entry Ready.
pub(super) fn not_passed_on(lost: String, about: About<'_>) -> Option<CheckEvent> {
    let entry = about.workload.check(about.check);
    let is_ready = entry.is_some_and(|entry| *entry.state() == CheckState::Ready);
    (!is_ready).then(|| CheckEvent::warning(NOT_APPLIED, lost))
}

/// Returns the part of `updates` that a later slice of an elastic job can be given, and a sentence
/// about the rest. Sends one request.
async fn for_later_slice(
    updates: &PodSetUpdates,
    workload: &Workload,
    grows: bool,
    reader: &dyn ReadWorkload,
) -> Result<(PodSetUpdates, Option<String>), Outcome> {
    let object = reader
        .read(workload)
        .await
        .map_err(|error| failed(error.kind(), error.to_string()))?;
    let fitted = updates.for_later_slice(&object, grows).map_err(|error| {
        let advice = if grows {
            "; the pods that run have that, so return the same value for a growth, or none"
        } else {
            "; the job's template has that since it first ran, so return the same value, or none"
        };
        failed(ErrorKind::Permanent, format!("{error}{advice}"))
    })?;
    let lost = fitted.lost.join(", ");
    let sentence = if grows {
        format!(
            "The further pods of the job are not given {lost}: Kueue does not pass it on, or the pods that run have another value"
        )
    } else {
        format!(
            "The pods are not given {lost}: the job's pod template has other values since it first ran"
        )
    };
    Ok((fitted.sent, (!lost.is_empty()).then_some(sentence)))
}

/// Returns the failure of updates that conflict: such an update would finish the job as
/// FailedToStart (rule 10). Sends one request, and only if a conflict is possible.
async fn do_not_fit(
    updates: &PodSetUpdates,
    about: About<'_>,
    reader: &dyn ReadWorkload,
) -> Option<Outcome> {
    let About {
        workload,
        check,
        flavors,
        ..
    } = about;
    match updates.conflicts(workload, check, flavors) {
        Conflicts::None => None,
        Conflicts::Certain(error) => Some(failed(ErrorKind::Permanent, error.to_string())),
        Conflicts::UnknownFlavor(name) => Some(failed(
            ErrorKind::Transient,
            format!(
                "the ResourceFlavor `{name}` is not known, so its node labels cannot be compared with the updates"
            ),
        )),
        Conflicts::Suspected => match reader.read(workload).await {
            Ok(object) => updates
                .conflict_in_object(&object, check)
                .map(|error| failed(ErrorKind::Permanent, error.to_string())),
            Err(error) => Some(failed(error.kind(), error.to_string())),
        },
    }
}

fn failed(kind: ErrorKind, message: String) -> Outcome {
    Outcome::Failed {
        kind,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use serde_json::{Value, json};

    use super::*;
    use crate::check::{CheckError, Verdict};

    struct Stored(Value);

    impl ReadWorkload for Stored {
        fn read<'a>(&'a self, _: &'a Workload) -> BoxFuture<'a, Result<Value, CheckError>> {
            Box::pin(async { Ok(self.0.clone()) })
        }
    }

    /// Returns the growth of a job that runs with the licence `one` on nodes of the pool `a`.
    fn growth(state: &str) -> Value {
        json!({
            "metadata": {"namespace": "t", "name": "el-2", "uid": "el-2",
                "annotations": {"kueue.x-k8s.io/workload-slice-replacement-for": "t/el-1"}},
            "spec": {"podSets": [{"name": "main", "count": 4, "template": {
                "metadata": {"annotations": {"example.com/licence": "one"}},
                "spec": {"nodeSelector": {"pool": "a"}},
            }}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True"}],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 4}]},
                "admissionChecks": [{"name": "c1", "state": state}],
            },
        })
    }

    /// Returns the number of updates sent or the message of a failure, and the note of the event.
    async fn fitted(
        object: Value,
        updates: PodSetUpdates,
    ) -> (Result<usize, String>, Option<String>) {
        let workload = Workload::from_json(object.clone()).unwrap();
        let about = About {
            workload: &workload,
            family: &Family::of(&workload, []),
            check: "c1",
            flavors: &BTreeMap::new(),
        };
        let verdict = Verdict::ready("yes").with_updates(updates);
        let outcome = Outcome::Verdict(verdict);
        let (outcome, lost) = fit_updates(outcome, about, &Stored(object)).await;
        let event = lost.and_then(|lost| not_passed_on(lost, about));
        let sent = match outcome {
            Outcome::Verdict(verdict) => Ok(verdict.updates.as_slice().len()),
            Outcome::Failed { message, .. } => Err(message.as_str().to_owned()),
            Outcome::Conflict { .. } | Outcome::Blocked { .. } => unreachable!(),
        };
        (sent, event.map(|event| event.note().to_owned()))
    }

    fn licence() -> PodSetUpdates {
        let updates = PodSetUpdates::builder()
            .pod_set("main", |pods| pods.annotation("example.com/licence", "two"));
        updates.build().unwrap()
    }

    #[tokio::test]
    async fn a_growth_does_not_wait_for_ever_for_updates_that_differ_from_those_of_the_running_pods()
     {
        let (sent, note) = fitted(growth("Pending"), licence()).await;
        assert_eq!(sent, Ok(0), "the pods keep the licence that they have");
        assert_eq!(
            note.as_deref(),
            Some(
                "The further pods of the job are not given annotation `example.com/licence`: Kueue does not pass it on, or the pods that run have another value"
            )
        );
        let (sent, note) = fitted(growth("Ready"), licence()).await;
        assert_eq!((sent, note), (Ok(0), None), "it is reported once");
    }

    #[tokio::test]
    async fn a_growth_that_would_run_elsewhere_is_rejected_with_the_next_step() {
        let updates = PodSetUpdates::builder()
            .pod_set("main", |pods| pods.node_selector("pool", "b"))
            .build();
        let (sent, note) = fitted(growth("Pending"), updates.unwrap()).await;
        assert_eq!(note, None);
        assert_eq!(
            sent.unwrap_err(),
            "pod set `main`: node selector `pool` would be `b`, but the job's pod template sets it to `a`; the pods that run have that, so return the same value for a growth, or none"
        );
    }

    #[tokio::test]
    async fn updates_of_a_variant_come_with_a_warning() {
        let mut variant = growth("Pending");
        variant["metadata"]["annotations"] = json!({});
        variant["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "j", "uid": "j", "controller": true},
        ]);
        let updates = PodSetUpdates::builder().pod_set("main", |pods| pods.label("new", "1"));
        let (sent, note) = fitted(variant, updates.build().unwrap()).await;
        assert_eq!(sent, Ok(1));
        assert_eq!(
            note.as_deref(),
            Some("Kueue up to 0.19 does not pass pod set updates of a variant on to the pods")
        );
    }

    /// Returns the outcomes that replace those of a Workload whose check has written `pool: a`, on a
    /// flavor with `pool: b`.
    async fn on_changed_flavor(state: &str, admitted: bool, outcomes: &[Outcome]) -> Vec<bool> {
        let mut object = growth(state);
        object["metadata"]["annotations"] = json!({});
        object["spec"]["podSets"][0]["template"] = json!({});
        object["status"]["admission"]["podSetAssignments"][0]["flavors"] = json!({"cpu": "spot"});
        object["status"]["admissionChecks"][0]["podSetUpdates"] =
            json!([{"name": "main", "nodeSelector": {"pool": "a"}}]);
        if admitted {
            object["status"]["conditions"] = json!([
                {"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"}]);
        }
        let workload = Workload::from_json(object.clone()).unwrap();
        let spot = ResourceFlavor {
            name: "spot".to_owned(),
            node_labels: [("pool".to_owned(), "b".to_owned())].into(),
            ..ResourceFlavor::default()
        };
        let about = About {
            workload: &workload,
            family: &Family::of(&workload, []),
            check: "c1",
            flavors: &[("spot".to_owned(), spot)].into(),
        };
        let mut replaced = Vec::new();
        for outcome in outcomes {
            let (fitted, _) = fit_updates(outcome.clone(), about, &Stored(object.clone())).await;
            let message = "pod set `main`: node selector `pool` would be `a`, but the ResourceFlavor `spot` sets it to `b`";
            let conflict = Outcome::Conflict {
                message: message.into(),
            };
            replaced.push(fitted == conflict);
        }
        replaced
    }

    #[tokio::test]
    async fn ready_is_withdrawn_if_its_updates_contradict_a_flavor_by_now() {
        let pool = |value| {
            let updates =
                PodSetUpdates::builder().pod_set("main", |pods| pods.node_selector("pool", value));
            Outcome::Verdict(Verdict::ready("yes").with_updates(updates.build().unwrap()))
        };
        let outcomes = [
            pool("a"),
            pool("b"),
            Outcome::Verdict(Verdict::ready("yes")),
            Outcome::Verdict(Verdict::unchanged()),
            failed(ErrorKind::Transient, "down".to_owned()),
            Outcome::Verdict(Verdict::pending("no")),
            Outcome::Verdict(Verdict::rejected("no")),
        ];
        let of_ready = on_changed_flavor("Ready", false, &outcomes).await;
        assert_eq!(of_ready, [true, true, true, true, true, false, false]);
        assert_eq!(
            on_changed_flavor("Ready", true, &outcomes).await,
            [false; 7]
        );
        assert_eq!(
            on_changed_flavor("Pending", false, &outcomes).await,
            [false; 7]
        );
    }
}
