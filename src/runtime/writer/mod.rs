//! Requests of the runtime besides watches: reads of a Workload, writes of admission check states
//! and conditions.

mod bodies;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{ACCEPT, HeaderValue};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use self::bodies::{ApplyMeta, Entry, NamedEntry, WorkloadApply, WorkloadStatus};
use super::connection::{retry_after, status_of};
use super::decide::{EntryPatch, to_the_second};
use super::error_text::public;
use super::lease::Leadership;
use crate::api::{
    AFTER_ADMISSION, AdmissionCheck, AdmissionCheckObject, AdmissionCheckState, ApiVersion,
    Projection, ResourceVersion, ServedApi, Uid, Workload, WorkloadObject, digest,
};
use crate::check::{CheckError, ReadWorkload, redact};

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WriteError {
    /// This replica does not lead.
    #[error("this replica does not hold the lease")]
    NotLeader,
    /// The object has changed since it was read.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// The object is gone.
    #[error("the object is gone")]
    Gone,
    /// The API server, or Kueue's webhook, rejects it.
    #[error("rejected with {code}: {message}")]
    Refused { code: u16, message: String },
    /// The API server requests a pause.
    #[error("the API server requests a pause of {0:?}")]
    Paused(Duration),
    /// No reply, or one that does not depend on the request.
    #[error("{0}")]
    Unavailable(String),
}

impl WriteError {
    /// Returns the label for metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::NotLeader => "not_leader",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Refused { .. } => "rejected",
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
            return Self::Unavailable(public(&error));
        };
        match status.code {
            409 => Self::Conflict,
            // The version of the API may be served no more; the object may still exist.
            404 if names_an_object(status) => Self::Gone,
            // 401 is an expired token, which kube renews by itself.
            400 | 403 | 405 | 413 | 422 => Self::Refused {
                code: status.code,
                message: redact(&status.message).into_owned(),
            },
            _ => Self::Unavailable(public(&error)),
        }
    }
}

/// Returns true if `status` is about an object: the API server replies with plain text if it does
/// not serve the resource.
fn names_an_object(status: &kube::core::Status) -> bool {
    let details = status.details.as_ref();
    details.is_some_and(|details| !details.name.is_empty())
}

/// The desired state of a condition of an AdmissionCheck.
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

/// Requests a reply without spec and status, which the API server need not send then. A server
/// without that feature replies with the whole object.
const METADATA_ONLY: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);

/// The fields read from such a reply.
#[derive(Deserialize)]
struct Written {
    metadata: WrittenMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMeta {
    resource_version: String,
}

/// Reads Workloads, and writes states and conditions.
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

    /// Writes the entry of `check`, and no other. This is one forced apply of one list element,
    /// with a precondition on the observed UID and `resourceVersion` (rules 2 to 4). Returns the
    /// current Workload. It follows from the request, because the version did not change in
    /// between, so only the metadata is requested as a reply.
    pub(crate) async fn entry(
        &self,
        workload: &Workload,
        check: &str,
        manager: &str,
        patch: &EntryPatch,
    ) -> Result<Workload, WriteError> {
        self.fence()?;
        // Kueue creates the entries.
        let entry = workload.check(check).ok_or(WriteError::Conflict)?;
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
        let path = WorkloadObject::url_path(&self.served.version, Some(workload.namespace()));
        let mut request = Request::new(path)
            .patch_subresource(
                "status",
                workload.name(),
                &apply(manager),
                &Patch::Apply(&body),
            )
            .map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(ACCEPT, METADATA_ONLY);
        let Written { metadata } = self.client.request(request).await?;
        let version = ResourceVersion::new(&metadata.resource_version);
        Ok(workload.with_entry(version, patch.applied_to(entry)))
    }

    /// Writes all conditions of `check` that this program owns (rule 12). A record replaces that of
    /// an earlier leader, so it has a `resourceVersion` precondition.
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

    /// Returns the Workload of that name, if its UID is still `uid`.
    pub(crate) async fn fetch(
        &self,
        namespace: &str,
        name: &str,
        uid: &Uid,
    ) -> Result<Option<Workload>, WriteError> {
        match self.workloads(namespace).get(name).await {
            Ok(object) => Ok(Some(self.project(object)).filter(|workload| workload.uid() == uid)),
            Err(error) => match WriteError::from(error) {
                WriteError::Gone => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Returns an error unless this replica certainly holds the Lease.
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
                        "the API server requests a pause",
                    )),
                    error => Err(CheckError::transient(error)),
                },
            }
        })
    }
}

/// Returns the parameters of a forced apply. Kueue's own manager applies every entry and would be
/// in conflict each time; the version in the body makes force safe.
fn apply(manager: &str) -> PatchParams {
    PatchParams::apply(manager).force()
}

/// Returns the field manager for one check. One manager for two checks would remove the entry of
/// the first when it writes the second (rule 3). At most 128 bytes, and the same in every version
/// of this SDK, or it would share its fields with its older version.
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

/// Returns a hash with a permanent definition, unlike the standard library's.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A digest of an entry's content, to detect a change by another client.
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
    use k8s_openapi::api::core::v1::Toleration;
    use serde_json::json;

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

    /// The reply to a write contains only the new version. The resulting entry must equal what the
    /// watch will return, or the runtime would take its own write for that of another client.
    #[test]
    fn a_written_entry_is_what_will_be_read() {
        let read = |version: &str, entry: &serde_json::Value| {
            let other = json!({"name": "other", "state": "Ready", "message": "yes",
                "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]});
            Workload::from_json(json!({
                "metadata": {"namespace": "n", "name": "w", "uid": "u", "resourceVersion": version},
                "status": {"admissionChecks": [other, entry]},
            }))
            .unwrap()
        };
        let before = json!({"name": "c", "state": "Pending", "message": "before", "retryCount": 3,
            "lastTransitionTime": "2026-11-21T09:00:00Z", "requeueAfterSeconds": 7,
            "podSetUpdates": [{"name": "main", "nodeSelector": {"zone": "a"}}]});
        let toleration = Toleration {
            key: Some("gpu".to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            toleration_seconds: Some(5),
            ..Toleration::default()
        };
        let updates = PodSetUpdates::builder()
            .pod_set("main", |pods| {
                pods.label("l", "1")
                    .annotation("a", "2")
                    .node_selector("zone", "b")
                    .toleration(toleration)
            })
            .build()
            .unwrap();
        for (state, message, requeue_after_seconds, updates) in [
            (CheckState::Ready, "yes", None, updates),
            (CheckState::Ready, "", None, PodSetUpdates::default()),
            (
                CheckState::Retry,
                "no \u{1F6AB}",
                Some(60),
                PodSetUpdates::default(),
            ),
            (
                CheckState::Rejected,
                "never",
                None,
                PodSetUpdates::default(),
            ),
            (CheckState::Pending, "wait", None, PodSetUpdates::default()),
        ] {
            let patch = EntryPatch {
                state,
                message: message.into(),
                since: "2026-11-21T10:00:00.123Z".parse().unwrap(),
                requeue_after_seconds,
                updates,
            };
            let mut after = before.clone();
            let sent = serde_json::to_value(NamedEntry {
                name: "c",
                entry: Entry::new(&patch, true),
            });
            for (field, value) in sent.unwrap().as_object().unwrap() {
                after[field] = value.clone();
            }
            let known = read("1", &before);
            let entry = patch.applied_to(known.check("c").unwrap());
            let written = known.with_entry(ResourceVersion::new("2"), entry);
            assert_eq!(written, read("2", &after), "{patch:?}");
        }
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
    fn responses_are_classified_by_what_to_do_about_them() {
        let api = |code, message: &str| {
            let status = kube::core::Status {
                code,
                message: message.to_owned(),
                ..kube::core::Status::failure(message, "")
            };
            WriteError::from(kube::Error::Api(Box::new(status)))
        };
        assert_eq!(api(409, "x"), WriteError::Conflict);
        let missing = serde_json::json!({"code": 404, "reason": "NotFound", "message": "workloads \"a\" not found",
            "details": {"name": "a", "group": "kueue.x-k8s.io", "kind": "workloads"}});
        let missing: kube::core::Status = serde_json::from_value(missing).unwrap();
        let missing = kube::Error::Api(Box::new(missing));
        assert_eq!(WriteError::from(missing), WriteError::Gone);
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
            (404, "404 page not found"),
        ] {
            assert!(
                matches!(api(code, message), WriteError::Unavailable(_)),
                "{code}"
            );
        }
    }
}
