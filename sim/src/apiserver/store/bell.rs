//! Tells that something has changed.
//!
//! Tokio's `watch` wakes its receivers in random order; here the order is always the same, or two runs of one seed would differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Rung with each change.
#[derive(Debug, Default)]
pub(crate) struct Bell(Arc<State>);

#[derive(Debug, Default)]
struct State {
    version: AtomicU64,
    waiting: Notify,
}

impl Bell {
    pub(crate) fn ring(&self, version: u64) {
        self.0.version.store(version, Ordering::Release);
        self.0.waiting.notify_waiters();
    }

    pub(crate) fn listen(&self) -> Changes {
        Changes {
            seen: self.0.version.load(Ordering::Acquire),
            bell: Arc::clone(&self.0),
        }
    }
}

/// Waits for changes that it has not seen. Those who wait are woken in the order in which they began to.
#[derive(Clone, Debug)]
pub struct Changes {
    bell: Arc<State>,
    seen: u64,
}

impl Changes {
    /// Takes all changes so far as seen.
    pub fn mark_seen(&mut self) {
        self.seen = self.bell.version.load(Ordering::Acquire);
    }

    /// Waits until there is one that has not been seen, and marks it.
    pub async fn changed(&mut self) {
        loop {
            // Registered before looking, so that nothing falls between.
            let waiting = self.bell.waiting.notified();
            let version = self.bell.version.load(Ordering::Acquire);
            if version != self.seen {
                self.seen = version;
                return;
            }
            waiting.await;
        }
    }
}
