//! Faults of a replica's process.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};

use kueue_check::runtime::RuntimeHandle;
use tokio::sync::Notify;

/// The signals for a replica's faults.
#[derive(Debug, Default)]
pub(crate) struct ReplicaFault {
    /// Its process dies.
    pub(crate) dies: Notify,
    /// A second process leads beside it.
    pub(crate) rivalled: Notify,
    /// Its process is paused.
    pub(crate) paused: Notify,
    /// The Lease is taken from its holder, who regains it later.
    pub(crate) deposed: Notify,
    /// The offset of its wall clock, in seconds. It changes while the process runs.
    pub(crate) skew: Arc<AtomicI64>,
    /// The handle of the newest process.
    handle: Mutex<Option<RuntimeHandle>>,
}

impl ReplicaFault {
    /// Returns the handle of the newest process, for an administrator's view.
    pub(crate) fn handle(&self) -> Option<RuntimeHandle> {
        let handle = self.handle.lock();
        handle.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_handle(&self, handle: Option<RuntimeHandle>) {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }
}
