//! How Kueue's API is served, and when that changes.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::{InformerEvent, brief};
use crate::api::{DiscoveryError, Probed, ServedApi, discover};
use crate::check::redact;
use crate::runtime::backoff::Backoff;
use crate::runtime::health::Health;

/// How often the cluster is asked, although nothing seems to have changed.
pub(crate) const PROBE: Duration = Duration::from_mins(10);
/// The delay after a watch was answered 404, which may only be an outage of discovery.
const SETTLE: Duration = Duration::from_secs(1);

/// Sends each change of what the cluster serves. `changed` says that a watch was answered 404.
pub(crate) async fn watch_served_api(
    client: Client,
    health: Health,
    seed: u64,
    mut known: ServedApi,
    changed: Arc<Notify>,
    to: mpsc::Sender<InformerEvent>,
) {
    loop {
        if timeout(PROBE, changed.notified()).await.is_ok() {
            sleep(SETTLE).await;
        }
        let Probed { served, certain } = find_served(&client, &health, seed).await;
        // An unreadable schema takes nothing back that a readable one has shown.
        let differs = served.version != known.version || (certain && served != known);
        if differs {
            known = served;
            if to.send(InformerEvent::Served(served)).await.is_err() {
                return;
            }
        }
    }
}

/// Asks what the cluster serves, for as long as it takes.
pub(crate) async fn find_served(client: &Client, health: &Health, seed: u64) -> Probed {
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30), seed);
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
                    DiscoveryError::Client(error) => redact(&brief(error)).into_owned(),
                    error => error.to_string(),
                };
                tracing::warn!(message, "cannot use Kueue's API yet");
                health.report("kueue", Some(message));
                sleep(backoff.delay(failures, 0)).await;
            }
        }
    }
}
