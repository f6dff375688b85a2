//! Background work of a check, and the Workload events that it receives.

use std::fmt;

use kube::Client;
use tokio::sync::watch;

use super::Family;
use crate::Clock;
use crate::api::Workload;

/// What the runtime sees of Workloads: see [`observe`](crate::Check::observe).
///
/// ```
/// use std::collections::BTreeSet;
/// use kueue_check::{Family, WorkloadEvent, api::Workload};
///
/// /// The Workloads that run, as a closure of `Check::observe` keeps them.
/// fn observe(running: &mut BTreeSet<String>, seen: WorkloadEvent<'_>) {
///     match seen {
///         WorkloadEvent::ListStarted => running.clear(),
///         WorkloadEvent::Applied(workload, _) if workload.is_admitted() => { running.insert(workload.to_string()); }
///         WorkloadEvent::Applied(workload, _) | WorkloadEvent::Removed(workload) => { running.remove(&workload.to_string()); }
///         _ => {}
///     }
/// }
///
/// let mut running = BTreeSet::new();
/// let train = Workload::from_json(serde_json::json!({
///     "metadata": {"namespace": "team-a", "name": "train"}, "status": {"conditions": [{"type": "Admitted", "status": "True"}]},
/// }))?;
/// observe(&mut running, WorkloadEvent::Applied(&train, &Family::of(&train, [])));
/// assert!(running.contains("team-a/train"));
/// observe(&mut running, WorkloadEvent::Removed(&train));
/// assert!(running.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkloadEvent<'a> {
    /// A list of all that hold quota is about to be shown, up to [`Listed`](Self::ListCompleted):
    /// what it does not show is gone.
    ListStarted,
    /// A Workload as it is now, and what it is to the others of its job. It holds quota, or has
    /// just lost it, or has just finished. It is shown again when the others have changed that.
    Applied(&'a Workload, &'a Family),
    /// A Workload that is no longer among those that hold quota, as it was last seen: it lost the
    /// quota, or was deleted. From here they look alike;
    /// [`release`](crate::AdmissionCheckController::release) tells them apart, on the leader.
    Removed(&'a Workload),
    /// The list is complete.
    ListCompleted {
        /// Whether everything between the list before and this one was shown too. If not, a
        /// Workload may have come and gone unseen.
        continuous: bool,
    },
}

/// What [`background`](crate::Check::background) work is given.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::BackgroundContext;
///
/// /// Asks another system once a minute; only the leader writes what it hears.
/// async fn background(mut context: BackgroundContext) {
///     loop {
///         if context.is_leader() {
///             // ask, and write with `context.client()`
///         }
///         tokio::select! {
///             () = tokio::time::sleep(Duration::from_secs(60)) => {}
///             () = context.leadership_changed() => {}
///         }
///     }
/// }
/// # let _ = background;
/// ```
#[derive(Clone)]
pub struct BackgroundContext {
    client: Client,
    clock: Clock,
    leading: watch::Receiver<bool>,
}

impl BackgroundContext {
    /// For a test, or a program with a runtime of its own.
    pub fn new(client: Client, clock: Clock, acting: watch::Receiver<bool>) -> Self {
        Self {
            client,
            clock,
            leading: acting,
        }
    }

    /// A client for the cluster; no request of it hangs. Its rights are the check's
    /// [`permissions`](crate::Check::permissions).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where the time comes from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether this replica decides. Only then should anything be written.
    pub fn is_leader(&self) -> bool {
        *self.leading.borrow()
    }

    /// Completes when [`is_leader`](Self::is_leader) has changed since this was last awaited; never
    /// again once the session is over.
    pub async fn leadership_changed(&mut self) {
        if self.leading.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for BackgroundContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("clock", &self.clock)
            .field("leading", &self.is_leader())
            .finish_non_exhaustive()
    }
}
