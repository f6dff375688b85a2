//! What a check sees and does besides answering.

use std::fmt;

use kube::Client;
use tokio::sync::watch;

use super::Family;
use crate::Clock;
use crate::api::Workload;

/// What the runtime sees of Workloads: see [`observe`](crate::AdmissionCheckController::observe).
///
/// ```
/// use std::collections::BTreeSet;
/// use kueue_check::{Family, Seen, api::Workload};
///
/// /// The Workloads that run, as `observe` keeps them.
/// fn observe(running: &mut BTreeSet<String>, seen: Seen<'_>) {
///     match seen {
///         Seen::Listing => running.clear(),
///         Seen::Workload(workload, _) if workload.is_admitted() => { running.insert(workload.to_string()); }
///         Seen::Workload(workload, _) | Seen::Gone(workload) => { running.remove(&workload.to_string()); }
///         _ => {}
///     }
/// }
///
/// let mut running = BTreeSet::new();
/// let train = Workload::from_json(serde_json::json!({
///     "metadata": {"namespace": "team-a", "name": "train"}, "status": {"conditions": [{"type": "Admitted", "status": "True"}]},
/// }))?;
/// observe(&mut running, Seen::Workload(&train, &Family::of(&train, [])));
/// assert!(running.contains("team-a/train"));
/// observe(&mut running, Seen::Gone(&train));
/// assert!(running.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Seen<'a> {
    /// A list of all that hold quota is about to be shown, up to [`Listed`](Self::Listed): what it does not show is gone.
    Listing,
    /// A Workload as it is now, and what it is to the others of its job. It holds quota, or has just
    /// lost it, or has just finished. It is shown again when the others have changed that.
    Workload(&'a Workload, &'a Family),
    /// A Workload that is no longer among those that hold quota, as it was last seen: it lost the quota, or was deleted. From here they look alike;
    /// [`release`](crate::AdmissionCheckController::release) tells them apart, on the leader.
    Gone(&'a Workload),
    /// The list is complete.
    Listed {
        /// Whether everything between the list before and this one was shown too. If not, a Workload may have come and gone unseen.
        unbroken: bool,
    },
}

/// What [`background`](crate::AdmissionCheckController::background) work is given.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::Background;
///
/// /// Asks another system once a minute; only the leader writes what it hears.
/// async fn background(mut context: Background) {
///     loop {
///         if context.is_acting() {
///             // ask, and write with `context.client()`
///         }
///         tokio::select! {
///             () = tokio::time::sleep(Duration::from_secs(60)) => {}
///             () = context.acting_changed() => {}
///         }
///     }
/// }
/// # let _ = background;
/// ```
#[derive(Clone)]
pub struct Background {
    client: Client,
    clock: Clock,
    acting: watch::Receiver<bool>,
}

impl Background {
    /// For a test, or a program with a runtime of its own.
    pub fn new(client: Client, clock: Clock, acting: watch::Receiver<bool>) -> Self {
        Self {
            client,
            clock,
            acting,
        }
    }

    /// A client for the cluster; no request of it hangs. Its rights are the check's [`permissions`](crate::AdmissionCheckController::permissions).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where the time comes from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether this replica decides. Only then should anything be written.
    pub fn is_acting(&self) -> bool {
        *self.acting.borrow()
    }

    /// Completes when [`is_acting`](Self::is_acting) has changed since this was last awaited; never again once the session is over.
    pub async fn acting_changed(&mut self) {
        if self.acting.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("clock", &self.clock)
            .field("acting", &self.is_acting())
            .finish_non_exhaustive()
    }
}
