//! The scan of Workloads without quota, which are not watched.
//!
//! A leader may die between the end of a reservation and the withdrawal of its verdict. It leaves a
//! stale verdict on a Workload without quota, which is not watched. So does an AdmissionCheck that
//! is deleted and recreated. Kueue would reuse a Ready for the next reservation, and never requeue
//! the Workload after a Retry or Rejected (measured on 0.19.2).
//!
//! The eviction of a growth of an elastic job has stopped the pods of the slice before it. No other
//! object shows that: that slice still has the state of one whose pods run.
//!
//! So each new leader, and a leader that gets a new AdmissionCheck, reads the Workloads without
//! quota once. It reads them page by page, and keeps none of them.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::mpsc;

use super::{BACKOFF, InformerEvent};
use crate::api::{CheckState, Projection, ServedApi, Slice, Workload, WorkloadObject};
use crate::runtime::backoff::Backoff;
use crate::runtime::connection::retry_after;
use crate::runtime::error_text::brief;

/// Workloads in one page, which is decoded at once.
const PAGE: u32 = 50;
/// Delay between two pages: 100,000 Workloads take at least 100 s.
const PAUSE: Duration = Duration::from_millis(50);
/// Selects Workloads without quota, if the API server can: a missing value selects as the empty
/// string.
const WITHOUT_QUOTA: &str = "status.admission.clusterQueue=";

/// Sends each Workload without quota that has a verdict or is a growth, then ends. `term` marks the
/// events.
pub(crate) async fn scan_without_quota(
    client: Client,
    served: ServedApi,
    term: u64,
    seed: u64,
    to: mpsc::Sender<InformerEvent>,
) {
    let api = Api::<WorkloadObject>::all_with(client, &served.version);
    let mut projection = Projection::new(BTreeSet::new());
    let backoff = Backoff::new(BACKOFF.0, BACKOFF.1, seed);
    let mut pages = ListParams::default().limit(PAGE);
    if served.selects_reserved {
        pages = pages.fields(WITHOUT_QUOTA);
    }
    let mut failures = 0;
    loop {
        let page = match api.list(&pages).await {
            Ok(page) => page,
            Err(error) => {
                failures += 1;
                tracing::debug!(
                    error = brief(&error),
                    "the scan of Workloads without quota failed; will retry"
                );
                // The position in the list may be the cause: too old, or from before a restart.
                pages.continue_token = token_in(&error);
                let pause = retry_after(&error).unwrap_or_default();
                tokio::time::sleep(pause.max(backoff.delay(failures, term)).min(BACKOFF.1)).await;
                continue;
            }
        };
        for object in page.items {
            let workload = projection.project(object);
            if is_of_interest(&workload)
                && to
                    .send(InformerEvent::WithoutQuota { workload, term })
                    .await
                    .is_err()
            {
                return;
            }
        }
        pages.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if pages.continue_token.is_none() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the token of a 410, with which the rest of the list continues at a newer version.
///
/// A list that takes longer than the API server keeps old versions (5 min by default) has no other
/// end (Kubernetes 1.36.3, `handleCompactedErrorForPaging` in
/// `staging/src/k8s.io/apiserver/pkg/storage/etcd3/errors.go`).
fn token_in(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let token = status.metadata.as_ref()?.continue_.clone()?;
    (status.code == 410 && !token.is_empty()).then_some(token)
}

/// Returns true if `workload` holds no quota, and it has a verdict of some check or is a growth.
fn is_of_interest(workload: &Workload) -> bool {
    let has_verdict = || {
        let mut entries = workload.checks().iter();
        entries.any(|entry| *entry.state() != CheckState::Pending)
    };
    !workload.holds_quota() && (matches!(workload.slice(), Slice::Replaces(_)) || has_verdict())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::ApiVersion;

    /// Returns the response of a server whose versions are gone after the first page.
    fn respond(query: &str) -> Value {
        let page = |name: &str, token: &str| {
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadList",
                "metadata": {"resourceVersion": "7", "continue": token},
                "items": [{
                    "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"},
                    "spec": {"podSets": []},
                    "status": {"admissionChecks": [{
                        "name": "check", "state": "Ready", "message": "",
                        "lastTransitionTime": "2026-11-21T09:00:00Z",
                    }]},
                }],
            })
        };
        match query {
            query if query.contains("continue=old") => json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
                "code": 410, "message": "too old", "metadata": {"continue": "new"},
            }),
            query if query.contains("continue=new") => page("second", ""),
            _ => page("first", "old"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_takes_too_long_continues_at_a_newer_version() {
        let queries = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&queries);
        let server = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let body = respond(&query);
            seen.lock().unwrap().push(query);
            let code = body["code"].as_u64().unwrap_or(200);
            let response = Response::builder().status(u16::try_from(code).unwrap());
            let response = response.body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, tower::BoxError>(response.unwrap()) }
        });
        let (sender, mut receiver) = mpsc::channel(8);
        let client = Client::new(server, "default");
        let scan = scan_without_quota(
            client,
            ServedApi::fallback(ApiVersion::V1beta2),
            1,
            0,
            sender,
        );
        tokio::time::timeout(Duration::from_mins(5), scan)
            .await
            .unwrap();
        let mut names = Vec::new();
        while let Some(InformerEvent::WithoutQuota { workload, .. }) = receiver.recv().await {
            names.push(workload.name().to_owned());
        }
        assert_eq!(names, ["first", "second"]);
        assert_eq!(queries.lock().unwrap().len(), 3, "no page twice");
    }
}
