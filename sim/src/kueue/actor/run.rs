//! Actors in virtual time.

use jiff::Timestamp;
use kueue_check::Clock;

use crate::apiserver::ApiServer;

/// A controller as a machine: it takes steps until there is nothing to do, and then waits for a change or for a time.
pub trait Actor {
    /// Does one thing. Says whether there was one.
    fn step(&mut self) -> bool;

    /// When it has something to do again without a change.
    fn wakes_at(&self) -> Option<Timestamp>;
}

/// Runs an actor for ever. Between steps others may run.
pub async fn run(mut actor: impl Actor, server: ApiServer, clock: Clock) {
    let mut changed = server.changed();
    loop {
        changed.mark_seen();
        while actor.step() {
            tokio::task::yield_now().await;
            changed.mark_seen();
        }
        let timer = async {
            match actor.wakes_at() {
                Some(at) => tokio::time::sleep(until(at, clock.now())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = timer => {}
            () = changed.changed() => {}
        }
    }
}

/// How long from now until then; timers have milliseconds.
fn until(at: Timestamp, now: Timestamp) -> std::time::Duration {
    let wait = at.duration_since(now);
    std::time::Duration::try_from(wait).unwrap_or_default() + std::time::Duration::from_millis(1)
}
