//! What becomes of a replica.

use std::sync::atomic::AtomicI64;
use std::sync::{Mutex, PoisonError};

use kueue_check::runtime::RuntimeHandle;
use tokio::sync::Notify;

/// How a replica receives its faults.
#[derive(Debug, Default)]
pub(crate) struct ReplicaFault {
    /// Its process dies.
    pub(crate) dies: Notify,
    /// Another acts beside it.
    pub(crate) rivalled: Notify,
    /// Its process stands still.
    pub(crate) paused: Notify,
    /// The Lease is taken from its holder, who gets it back later.
    pub(crate) deposed: Notify,
    /// How many seconds the wall clock is off where the process starts next.
    pub(crate) skew: AtomicI64,
    /// The newest process.
    handle: Mutex<Option<RuntimeHandle>>,
}

impl ReplicaFault {
    /// The newest process, as an administrator sees it.
    pub(crate) fn handle(&self) -> Option<RuntimeHandle> {
        let handle = self.handle.lock();
        handle.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_handle(&self, handle: Option<RuntimeHandle>) {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }
}
