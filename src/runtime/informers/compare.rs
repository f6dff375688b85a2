//! The periodic comparison of the cache of Workloads with the API server.
//!
//! A watch returns every change, so the comparison should find nothing. If an event was lost, it
//! corrects the Workload within the interval.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::sources::{HOLDS_QUOTA, PAGE};
use super::{InformerEvent, RESYNC};
use crate::api::{Projection, ResourceVersion, ServedApi, Uid, WorkloadObject};
use crate::runtime::error_text::brief;

/// Delay until the next try after a failure.
const RETRY: Duration = Duration::from_mins(1);

/// Delay between two pages.
const PAUSE: Duration = Duration::from_millis(50);

/// Lists the Workloads with quota every 30 min, page by page, and sends them.
pub(crate) async fn compare(
    client: Client,
    served: ServedApi,
    annotations: BTreeSet<String>,
    term: u64,
    to: mpsc::Sender<InformerEvent>,
) {
    let api = Api::<WorkloadObject>::all_with(client, &served.version);
    let mut projection = Projection::new(annotations);
    let mut delay = RESYNC;
    loop {
        sleep(delay).await;
        match list(&api, served, &mut projection, term, &to).await {
            Ok(named) => {
                delay = RESYNC;
                if to
                    .send(InformerEvent::Compared { named, term })
                    .await
                    .is_err()
                {
                    return;
                }
            }
            // The watch reports the cause.
            Err(error) => {
                delay = RETRY;
                tracing::debug!(error = brief(&error), "cannot compare Workloads");
            }
        }
    }
}

/// Sends each Workload with quota, and returns their UIDs.
async fn list(
    api: &Api<WorkloadObject>,
    served: ServedApi,
    projection: &mut Projection,
    term: u64,
    to: &mpsc::Sender<InformerEvent>,
) -> kube::Result<BTreeSet<Uid>> {
    let mut pages = ListParams::default().limit(PAGE);
    if served.selects_reserved {
        pages = pages.fields(HOLDS_QUOTA);
    }
    let mut named = BTreeSet::new();
    loop {
        let page = match api.list(&pages).await {
            // The API server does not select Workloads by their ClusterQueue, as the watch finds too.
            Err(kube::Error::Api(status)) if status.code == 400 => {
                if pages.field_selector.take().is_none() {
                    return Err(kube::Error::Api(status));
                }
                continue;
            }
            page => page?,
        };
        let as_of = ResourceVersion::new(&page.metadata.resource_version.unwrap_or_default());
        for object in page.items {
            let workload = projection.project(object);
            if !workload.holds_quota() {
                continue;
            }
            named.insert(workload.uid().clone());
            // The caller detects a receiver that is gone.
            let compare = InformerEvent::Compare {
                workload,
                as_of: as_of.clone(),
                term,
            };
            let _ = to.send(compare).await;
        }
        pages.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if pages.continue_token.is_none() {
            return Ok(named);
        }
        sleep(PAUSE).await;
    }
}
