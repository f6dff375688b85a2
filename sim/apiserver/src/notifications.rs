//! Change notifications.
//!
//! Tokio's `watch` channel wakes its receivers in random order. Here receivers are woken in the
//! order in which they began to wait, so that the same calls give the same history.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Shared {
    changes: AtomicU64,
    waiting: Notify,
}

/// The sender of change notifications.
#[derive(Debug, Default)]
pub(crate) struct ChangeNotifier {
    shared: Arc<Shared>,
}

/// A receiver of change notifications, for a controller. It covers a server or one kind of object.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use kueue_check_apiserver::{ApiRequest, ApiServer, Resource, Verb, system_time};
///
/// let server = ApiServer::new(system_time());
/// let mut changes = server.changes();
/// server.call(&ApiRequest::new(Verb::Delete, &Resource::new("", "v1", "namespaces")).name("kube-node-lease"));
/// changes.changed().await; // at once: something was written since
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ChangeReceiver {
    shared: Arc<Shared>,
    seen: u64,
}

impl ChangeNotifier {
    pub(crate) fn notify(&self) {
        self.shared.changes.fetch_add(1, Ordering::Release);
        self.shared.waiting.notify_waiters();
    }

    pub(crate) fn subscribe(&self) -> ChangeReceiver {
        ChangeReceiver {
            seen: self.shared.changes.load(Ordering::Acquire),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl ChangeReceiver {
    /// Returns the number of notifications until now.
    pub(crate) fn newest(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Marks all changes until now as seen.
    pub fn mark_seen(&mut self) {
        self.seen = self.newest();
    }

    /// Waits until there is a change that is not marked as seen, and marks it. Dropping the future
    /// loses no change.
    pub async fn changed(&mut self) {
        loop {
            let waiting = self.shared.waiting.notified();
            tokio::pin!(waiting);
            // From here on no notification is missed.
            waiting.as_mut().enable();
            let newest = self.newest();
            if newest != self.seen {
                self.seen = newest;
                return;
            }
            waiting.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_order() {
        let notifier = ChangeNotifier::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..20 {
            let (mut changes, order) = (notifier.subscribe(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                changes.changed().await;
                order.lock().unwrap().push(number);
            }));
        }
        tokio::task::yield_now().await;
        notifier.notify();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn an_earlier_notification_is_received_at_once() {
        let notifier = ChangeNotifier::default();
        let mut changes = notifier.subscribe();
        notifier.notify();
        changes.changed().await;
        let more = changes.changed();
        assert!(futures::FutureExt::now_or_never(more).is_none());
    }
}
