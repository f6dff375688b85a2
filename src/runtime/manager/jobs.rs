//! What takes time, and what comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use super::checks::Good;
use super::tracked::Key;
use crate::api::{AdmissionCheck, Name, ResourceFlavor, Uid, Workload};
use crate::check::{
    Check, CheckError, Conflicts, ErrorKind, EventNote, Inactive, ReadWorkload, ReleaseReason,
    Released, Request, Reservation,
};
use crate::runtime::decide::{Conclusion, EntryPatch, Outcome};
use crate::runtime::evaluate::{NoAnswer, ask, guarded};
use crate::runtime::intake::Revision;
use crate::runtime::writer::{ActivePatch, WriteError, Writer};

/// A job's result.
pub(super) enum Done {
    Evaluated {
        key: Key,
        reservation: Timestamp,
        outcome: Outcome,
        word: &'static str,
        took: Duration,
        told: Vec<EventNote>,
    },
    Written {
        key: Key,
        conclusion: Box<Conclusion>,
        result: Result<Workload, WriteError>,
    },
    Fetched {
        key: Key,
        result: Result<Option<Workload>, WriteError>,
    },
    FoundOut {
        key: Key,
        result: Result<Option<Workload>, WriteError>,
    },
    Withdrawn {
        key: Key,
        result: Result<Workload, WriteError>,
    },
    Released {
        key: Key,
        result: Result<Released, NoAnswer>,
    },
    Outstanding {
        controller: usize,
        result: Result<Vec<Reservation>, NoAnswer>,
    },
    Activated {
        check: Name,
        tried: Tried,
        good: Good,
        result: Result<(), NotActivated>,
    },
    Announced {
        check: Name,
        result: Result<AdmissionCheck, WriteError>,
    },
}

/// Which AdmissionCheck and parameters were tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) uid: Uid,
    pub(super) generation: i64,
    pub(super) parameters: Revision,
}

/// Why an AdmissionCheck was not activated.
#[derive(Debug)]
pub(super) enum NotActivated {
    /// The author says so.
    Inactive(Inactive),
    /// The author's code gave no answer, which says nothing.
    NoAnswer(NoAnswer),
}

/// Asks the check, and looks whether the updates that it wants fit.
pub(super) async fn evaluate(
    key: Key,
    check: Check,
    request: Request,
    limit: Duration,
    flavors: Arc<BTreeMap<String, ResourceFlavor>>,
    writer: Arc<Writer>,
) -> Done {
    let started = Instant::now();
    let reservation = request.reservation().since();
    let workload = request.workload().clone();
    let (outcome, word) = ask(&check, request.clone(), limit).await;
    let took = started.elapsed();
    let told = std::mem::take(&mut *request.told());
    let refused = match &outcome {
        Outcome::Verdict(verdict) if verdict.is_ready() && !verdict.updates.is_empty() => {
            updates_do_not_fit(&verdict.updates, &workload, &key.check, &flavors, &*writer).await
        }
        _ => None,
    };
    Done::Evaluated {
        key,
        reservation,
        outcome: refused.unwrap_or(outcome),
        word,
        took,
        told,
    }
}

/// Rule 10: an update that contradicts something else would finish the job as FailedToStart. One request, and only when there seems to be a conflict.
pub(in crate::runtime) async fn updates_do_not_fit(
    updates: &crate::check::PodSetUpdates,
    workload: &Workload,
    check: &str,
    flavors: &BTreeMap<String, ResourceFlavor>,
    reader: &dyn ReadWorkload,
) -> Option<Outcome> {
    let failed = |kind, message: String| {
        Some(Outcome::Failed {
            kind,
            message: message.into(),
        })
    };
    match updates.conflicts(workload, check, flavors) {
        Conflicts::None => None,
        Conflicts::Certain(error) => failed(ErrorKind::Permanent, error.to_string()),
        Conflicts::UnknownFlavor(name) => failed(
            ErrorKind::Transient,
            format!(
                "the ResourceFlavor `{name}` is not known, so its node labels cannot be compared with the updates"
            ),
        ),
        Conflicts::Suspected => match reader.read(workload).await {
            Ok(object) => updates
                .conflict_in_object(&object, check)
                .and_then(|error| failed(ErrorKind::Permanent, error.to_string())),
            Err(error) => failed(error.kind(), error.to_string()),
        },
    }
}

pub(super) async fn write(
    key: Key,
    workload: Workload,
    manager: Arc<str>,
    conclusion: Box<Conclusion>,
    patch: EntryPatch,
    writer: Arc<Writer>,
) -> Done {
    let result = writer.entry(&workload, &key.check, &manager, &patch).await;
    Done::Written {
        key,
        conclusion,
        result,
    }
}

pub(super) async fn fetch(key: Key, workload: Workload, writer: Arc<Writer>) -> Done {
    let result = writer
        .fetch(workload.namespace(), workload.name(), workload.uid())
        .await;
    Done::Fetched { key, result }
}

pub(super) async fn find_out(key: Key, reservation: Reservation, writer: Arc<Writer>) -> Done {
    let result = writer
        .fetch(
            reservation.namespace(),
            reservation.name(),
            reservation.uid(),
        )
        .await;
    Done::FoundOut { key, result }
}

pub(super) async fn withdraw(
    key: Key,
    workload: Workload,
    manager: Arc<str>,
    patch: EntryPatch,
    writer: Arc<Writer>,
) -> Done {
    let result = writer.entry(&workload, &key.check, &manager, &patch).await;
    Done::Withdrawn { key, result }
}

pub(super) async fn release(
    key: Key,
    check: Check,
    reservation: Reservation,
    why: ReleaseReason,
    limit: Duration,
) -> Done {
    let result = guarded(check.release(&reservation, why), limit).await;
    Done::Released { key, result }
}

pub(super) async fn outstanding(controller: usize, check: Check, limit: Duration) -> Done {
    let result = guarded(check.outstanding(), limit).await;
    Done::Outstanding { controller, result }
}

pub(super) async fn activate(
    object: AdmissionCheck,
    check: Check,
    good: Good,
    tried: Tried,
    limit: Duration,
) -> Done {
    let name: Name = object.name().into();
    let code =
        async { Ok::<_, CheckError>(check.activate(&object, good.read.value.clone()).await) };
    let result = match guarded(code, limit).await {
        Ok(answer) => answer.map_err(NotActivated::Inactive),
        Err(none) => Err(NotActivated::NoAnswer(none)),
    };
    Done::Activated {
        check: name,
        tried,
        good,
        result,
    }
}

pub(super) async fn announce(
    object: AdmissionCheck,
    manager: Arc<str>,
    patch: ActivePatch,
    writer: Arc<Writer>,
) -> Done {
    let result = writer.active(&object, &manager, &patch).await;
    Done::Announced {
        check: object.name().into(),
        result,
    }
}

/// Waits for `jobs` to end, for as long as `grace` allows. Returns what they did.
pub(super) async fn finish(jobs: &mut tokio::task::JoinSet<Done>, grace: Duration) -> Vec<Done> {
    let mut done = Vec::new();
    let all = async {
        while let Some(job) = jobs.join_next().await {
            done.extend(job.ok());
        }
    };
    if timeout(grace, all).await.is_err() {
        tracing::warn!(
            abandoned = jobs.len(),
            "some evaluations did not end within the grace time"
        );
    }
    done
}
