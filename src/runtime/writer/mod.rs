//! The requests that the runtime makes besides watching: it reads one Workload, and writes check states and conditions.

mod bodies;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use self::bodies::{ApplyMeta, Entry, NamedEntry, WorkloadApply, WorkloadStatus};
use super::connection::{retry_after, status_of};
use super::decide::{EntryPatch, to_the_second};
use super::informers::brief;
use super::lease::Leadership;
use crate::api::{
    AFTER_ADMISSION, AdmissionCheck, AdmissionCheckObject, AdmissionCheckState, ApiVersion,
    Projection, ServedApi, Uid, Workload, WorkloadObject, digest,
};
use crate::check::{CheckError, ReadWorkload, redact};

/// Why something was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WriteError {
    /// Another replica acts.
    #[error("this replica does not hold the lease")]
    NotLeader,
    /// The object has changed since it was seen.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// The object is gone.
    #[error("the object is gone")]
    Gone,
    /// The API server, or Kueue's webhook, does not accept it.
    #[error("refused with {code}: {message}")]
    Refused { code: u16, message: String },
    /// The API server asks for a pause.
    #[error("the API server asks for a pause of {0:?}")]
    Paused(Duration),
    /// No answer, or one that means nothing about the request.
    #[error("{0}")]
    Unavailable(String),
}

impl WriteError {
    /// The word for metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::NotLeader => "not_leader",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Refused { .. } => "refused",
            Self::Paused(_) => "paused",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        if let Some(pause) = retry_after(&error) {
            return Self::Paused(pause);
        }
        let Some(status) = status_of(&error) else {
            return Self::Unavailable(redact(&brief(&error)).into_owned());
        };
        match status.code {
            409 => Self::Conflict,
            404 => Self::Gone,
            // 401 is an expired token, which kube renews by itself.
            400 | 403 | 405 | 413 | 422 => Self::Refused {
                code: status.code,
                message: redact(&status.message).into_owned(),
            },
            _ => Self::Unavailable(redact(&brief(&error)).into_owned()),
        }
    }
}

/// A condition of an AdmissionCheck as it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConditionPatch {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(rename = "lastTransitionTime", serialize_with = "to_the_second")]
    pub(crate) since: Timestamp,
    pub(crate) observed_generation: i64,
}

/// Reads and writes.
pub(crate) struct Writer {
    client: Client,
    served: ServedApi,
    leadership: watch::Receiver<Leadership>,
    projection: Mutex<Projection>,
}

impl Writer {
    pub(crate) fn new(
        client: Client,
        served: ServedApi,
        annotations: BTreeSet<String>,
        leadership: watch::Receiver<Leadership>,
    ) -> Self {
        let projection = Mutex::new(Projection::new(annotations));
        Self {
            client,
            served,
            leadership,
            projection,
        }
    }

    /// Writes the entry of `check`, and nobody else's: one forced apply of one list element, bound to the object and version that were seen (rules 2 to 4).
    /// Returns the Workload as it is now.
    pub(crate) async fn entry(
        &self,
        workload: &Workload,
        check: &str,
        manager: &str,
        patch: &EntryPatch,
    ) -> Result<Workload, WriteError> {
        self.fence()?;
        let body = WorkloadApply {
            api_version: self.served.version.group_version(),
            kind: "Workload",
            metadata: ApplyMeta {
                namespace: workload.namespace(),
                name: workload.name(),
                uid: workload.uid(),
                resource_version: workload.resource_version().to_string(),
            },
            status: WorkloadStatus {
                admission_checks: [NamedEntry {
                    name: check,
                    entry: Entry::new(patch, self.served.requeue_after),
                }],
            },
        };
        let sent = self
            .workloads(workload.namespace())
            .patch_status(workload.name(), &apply(manager), &Patch::Apply(&body))
            .await;
        sent.map(|object| self.project(object))
            .map_err(WriteError::from)
    }

    /// Writes all conditions of `check` that this program has (rule 12). A record replaces what an
    /// earlier leader recorded there, so it is bound to the version that was seen.
    pub(crate) async fn conditions(
        &self,
        check: &AdmissionCheck,
        manager: &str,
        conditions: &[ConditionPatch],
    ) -> Result<AdmissionCheck, WriteError> {
        self.fence()?;
        let mut metadata = serde_json::json!({"name": check.name(), "uid": check.uid()});
        let records = |condition: &ConditionPatch| condition.kind == AFTER_ADMISSION;
        if conditions.iter().any(records) {
            metadata["resourceVersion"] = check.version.to_string().into();
        }
        let body = serde_json::json!({
            "apiVersion": self.served.version.group_version(),
            "kind": "AdmissionCheck",
            "metadata": metadata,
            "status": {"conditions": conditions},
        });
        let api: Api<AdmissionCheckObject> =
            Api::all_with(self.client.clone(), &self.served.version);
        let sent = api
            .patch_status(check.name(), &apply(manager), &Patch::Apply(&body))
            .await;
        sent.map(AdmissionCheck::from).map_err(WriteError::from)
    }

    /// The Workload of that name, if it is still the one with `uid`.
    pub(crate) async fn fetch(
        &self,
        namespace: &str,
        name: &str,
        uid: &Uid,
    ) -> Result<Option<Workload>, WriteError> {
        match self.workloads(namespace).get_opt(name).await {
            Ok(object) => Ok(object
                .map(|object| self.project(object))
                .filter(|workload| workload.uid() == uid)),
            Err(error) => Err(WriteError::from(error)),
        }
    }

    /// Nothing is sent unless the lease is certainly ours.
    fn fence(&self) -> Result<(), WriteError> {
        if self.leadership.borrow().may_write(Instant::now()) {
            Ok(())
        } else {
            Err(WriteError::NotLeader)
        }
    }

    fn project(&self, object: WorkloadObject) -> Workload {
        self.projection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .project(object)
    }

    fn workloads(&self, namespace: &str) -> Api<WorkloadObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.served.version)
    }

    fn path(version: ApiVersion, workload: &Workload) -> String {
        format!(
            "/apis/{}/namespaces/{}/workloads/{}",
            version.group_version(),
            workload.namespace(),
            workload.name()
        )
    }
}

impl ReadWorkload for Writer {
    fn read<'a>(
        &'a self,
        workload: &'a Workload,
    ) -> BoxFuture<'a, Result<serde_json::Value, CheckError>> {
        Box::pin(async move {
            let request =
                http::Request::get(Self::path(self.served.version, workload)).body(Vec::new())?;
            match self.client.request::<serde_json::Value>(request).await {
                Ok(object) => Ok(object),
                Err(error) => match WriteError::from(error) {
                    WriteError::Gone => Err(CheckError::permanent(format!("{workload} is gone"))),
                    WriteError::Paused(after) => Err(CheckError::throttled(
                        after,
                        "the API server asks for a pause",
                    )),
                    error => Err(CheckError::transient(error)),
                },
            }
        })
    }
}

/// Force, because Kueue's own manager applies every entry and would be in conflict each time; the version in the body makes it safe.
fn apply(manager: &str) -> PatchParams {
    PatchParams::apply(manager).force()
}

/// The field manager for one check: one manager for two checks would strip the first when it writes the second (rule 3). At most 128 bytes, and the same in
/// every version of this SDK, or it would share its fields with its older self.
pub(crate) fn field_manager(controller: &str, check: &str) -> String {
    const LIMIT: usize = 128;
    let whole = format!("{controller}:{check}");
    if whole.len() <= LIMIT {
        return whole;
    }
    let hash = format!("~{:016x}", fnv1a(whole.as_bytes()));
    let mut end = LIMIT - hash.len();
    while !whole.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{hash}", &whole[..end])
}

/// A hash that is defined for ever, unlike the standard library's.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What identifies an entry's content, to see whether somebody else has changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryDigest(NonZeroU64);

impl EntryDigest {
    pub(crate) fn of(entry: &AdmissionCheckState) -> Self {
        let digest = digest(&(&entry.state, entry.message_digest, entry.updates_digest));
        Self(NonZeroU64::new(digest).unwrap_or(NonZeroU64::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::CheckState;
    use crate::check::PodSetUpdates;

    #[test]
    fn a_field_manager_is_one_for_each_check_and_fits() {
        assert_eq!(
            field_manager("example.com/budget", "team-a"),
            "example.com/budget:team-a"
        );
        let long = |check: &str| field_manager(&"c".repeat(253), check);
        assert_eq!(long("a").len(), 128);
        assert_ne!(long("a"), long("b"));
        assert_eq!(
            long("a"),
            format!("{}~{}", "c".repeat(111), "1bbed1e94324df3f"),
            "the same for ever"
        );
    }

    #[test]
    fn kueue_0_14_is_not_sent_a_field_that_it_does_not_have() {
        let patch = EntryPatch {
            state: CheckState::Retry,
            message: "no".into(),
            since: Timestamp::UNIX_EPOCH,
            requeue_after_seconds: Some(0),
            updates: PodSetUpdates::default(),
        };
        let sent = |served| {
            serde_json::to_value(NamedEntry {
                name: "c",
                entry: Entry::new(&patch, served),
            })
            .unwrap()
        };
        assert_eq!(sent(true)["requeueAfterSeconds"], 0);
        assert_eq!(sent(false).get("requeueAfterSeconds"), None);
        assert_eq!(sent(false)["name"], "c");
    }

    #[test]
    fn answers_are_told_apart_by_what_to_do_about_them() {
        let api = |code, message: &str| {
            let status = kube::core::Status {
                code,
                message: message.to_owned(),
                ..kube::core::Status::failure(message, "")
            };
            WriteError::from(kube::Error::Api(Box::new(status)))
        };
        assert_eq!(api(409, "x"), WriteError::Conflict);
        assert_eq!(api(404, "x"), WriteError::Gone);
        assert_eq!(api(429, "x"), WriteError::Paused(Duration::from_secs(1)));
        for code in [400, 403, 422] {
            assert_eq!(
                api(code, "x"),
                WriteError::Refused {
                    code,
                    message: "x".to_owned()
                }
            );
        }
        for (code, message) in [
            (500, "failed calling webhook \"vworkload.kb.io\""),
            (503, "x"),
            (504, "x"),
            (401, "x"),
        ] {
            assert!(
                matches!(api(code, message), WriteError::Unavailable(_)),
                "{code}"
            );
        }
    }
}
