//! Discovery of Kueue's API and its changes, and detection of a cluster restored from a backup.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::InformerEvent;
use crate::api::{DiscoveryError, Probed, ResourceVersion, ServedApi, WorkloadObject, discover};
use crate::runtime::backoff::Backoff;
use crate::runtime::error_text::public;
use crate::runtime::health::Health;

/// Interval of discovery, although nothing seems to have changed.
pub(crate) const PROBE: Duration = Duration::from_mins(10);
/// Maximum retries of the request for the version of the storage. The next probe tries again.
const TRIES: u32 = 5;
/// The delay after a watch failed with 404, which may only be an outage of discovery.
const SETTLE: Duration = Duration::from_secs(1);

/// Observations of the watches for the task that probes the API server.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// A watch failed with 404.
    pub(crate) not_served: Notify,
    newest: Mutex<Option<ResourceVersion>>,
}

impl Noticed {
    /// Records that a Workload of this version exists, or has existed.
    pub(crate) fn version(&self, version: &ResourceVersion) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest
            .as_ref()
            .is_none_or(|newest| newest.is_older_than(version))
        {
            *newest = Some(version.clone());
        }
    }

    fn newest(&self) -> Option<ResourceVersion> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.clone()
    }
}

/// Sends each change of the served API, and a restore of the cluster from a backup.
pub(crate) async fn watch_served_api(
    client: Client,
    health: Health,
    seed: u64,
    mut known: ServedApi,
    noticed: Arc<Noticed>,
    to: mpsc::Sender<InformerEvent>,
) {
    loop {
        if timeout(PROBE, noticed.not_served.notified()).await.is_ok() {
            sleep(SETTLE).await;
        }
        let Probed { served, certain } = find_served(&client, &health, seed).await;
        // An unreadable schema revokes no feature of an earlier, readable one.
        let differs = served.version != known.version || (certain && served != known);
        if differs {
            known = served;
            if to.send(InformerEvent::Served(served)).await.is_err() {
                return;
            }
        }
        // Events that arrive while the list is in flight may be newer than the list.
        let shown = noticed.newest();
        let now = storage_version(&client, known, seed).await;
        if let (Some(shown), Some(now)) = (shown, now)
            && now.is_older_than(&shown)
        {
            // The receiver ends the process; nothing is watched any more.
            let _ = to.send(InformerEvent::Restored { shown, now }).await;
            return;
        }
    }
}

/// Returns the version of the API server's storage, or `None` after too many failures. It decreases
/// only if etcd is restored from a backup. Then a watch from a later version returns nothing,
/// without an error (measured: `a_watch_from_before_a_restore_of_etcd_shows_nothing`).
async fn storage_version(client: &Client, served: ServedApi, seed: u64) -> Option<ResourceVersion> {
    let api = Api::<WorkloadObject>::all_with(client.clone(), &served.version);
    let backoff = backoff(seed);
    let mut failures = 0;
    loop {
        // One page of a list without a version is as new as the storage.
        match api.list(&ListParams::default().limit(1)).await {
            Ok(list) => {
                let version = list.metadata.resource_version?;
                return Some(ResourceVersion::new(&version));
            }
            Err(_) if failures == TRIES => return None,
            Err(_) => {
                failures += 1;
                sleep(backoff.delay(failures, 0)).await;
            }
        }
    }
}

fn backoff(seed: u64) -> Backoff {
    Backoff::new(Duration::from_secs(1), Duration::from_secs(30), seed)
}

/// Determines what the cluster serves. Retries until that succeeds.
pub(crate) async fn find_served(client: &Client, health: &Health, seed: u64) -> Probed {
    let backoff = backoff(seed);
    let mut failures = 0;
    loop {
        match discover(client).await {
            Ok(probed) => {
                health.report("kueue", None);
                tracing::debug!(served = ?probed.served, "served Kueue API");
                return probed;
            }
            Err(error) => {
                failures += 1;
                let message = match &error {
                    DiscoveryError::Client(error) => public(error),
                    error => error.to_string(),
                };
                tracing::warn!(message, "cannot use Kueue's API yet");
                health.report("kueue", Some(message));
                sleep(backoff.delay(failures, 0)).await;
            }
        }
    }
}
