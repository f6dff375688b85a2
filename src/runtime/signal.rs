//! A signal that is sent once.

use tokio::sync::watch;

/// Waits until `signal` is true, or its sender is gone.
pub(crate) async fn cancelled(signal: &mut watch::Receiver<bool>) {
    let _ = signal.wait_for(|given| *given).await;
}
