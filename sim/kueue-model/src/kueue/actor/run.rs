//! Actors in virtual time.

use std::time::Duration;

use jiff::Timestamp;
use kueue_check::Clock;

use kueue_check_apiserver::ApiServer;

/// A controller as a machine: it takes steps until there is nothing to do, and then waits for a
/// change or for a time.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use jiff::Timestamp;
/// use kueue_check::Clock;
/// use kueue_check_sim::apiserver::ApiServer;
/// use kueue_check_sim::kueue::Actor;
/// use kueue_check_sim::{Job, Simulation, jobs};
///
/// /// The job `train` is done at ten.
/// struct AtTen { server: ApiServer, clock: Clock, at: Option<Timestamp> }
///
/// impl Actor for AtTen {
///     fn step(&mut self) -> bool {
///         let Some(_) = self.at.take_if(|at| *at <= self.clock.now()) else { return false };
///         jobs::finish(&self.server, "default", "train");
///         true
///     }
///
///     fn wakes_at(&self) -> Option<Timestamp> { self.at }
/// }
///
/// let make = |server: &ApiServer, clock: &Clock| AtTen { server: server.clone(), clock: clock.clone(), at: "2026-11-21T10:00:00Z".parse().ok() };
/// Simulation::new(|| open).starting_at("2026-11-21T09:00:00Z").actor(make).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     cluster.advance_to("2026-11-21T09:59:59Z").await;
///     assert!(!cluster.condition("train", "Finished"));
///     cluster.expect_finished("train").await;
/// });
/// ```
pub trait Actor {
    /// Does one thing. Says whether there was one.
    fn step(&mut self) -> bool;

    /// When it has something to do again without a change.
    fn wakes_at(&self) -> Option<Timestamp>;
}

/// So many steps are free.
const BURST: u32 = 64;
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(100);

/// Runs an actor for ever. Between steps others may run.
///
/// A short burst of steps takes no time. An actor that does not come to rest pauses after each
/// burst, for longer each time, up to 100 ms: controllers that undo each other's work would else
/// keep virtual time from ever passing.
pub async fn run(mut actor: impl Actor, server: ApiServer, clock: Clock) {
    let mut changed = server.changes();
    loop {
        changed.mark_seen();
        let (mut steps, mut pause) = (0, Duration::from_millis(1));
        while actor.step() {
            steps += 1;
            if steps % BURST == 0 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            } else {
                tokio::task::yield_now().await;
            }
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
fn until(at: Timestamp, now: Timestamp) -> Duration {
    let wait = at.duration_since(now);
    Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1)
}
