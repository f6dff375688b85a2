//! Actors in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::Clock;

use kueue_check_apiserver::ApiServer;

/// A controller that runs in steps. It takes steps until none is left, and then waits for a change
/// or for a time.
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
    /// Takes one step. Returns true if there was one to take.
    fn step(&mut self) -> bool;

    /// Returns true if this actor takes its next step before others take one.
    fn is_first(&self) -> bool {
        false
    }

    /// Returns the time of the next step that needs no change.
    fn wakes_at(&self) -> Option<Timestamp>;
}

/// The number of steps after which a busy actor pauses.
const BURST: u32 = 64;
/// The longest pause between bursts.
const LONGEST: Duration = Duration::from_millis(100);

/// A limit on the steps of actors, until [`go_on`](Self::go_on) removes it.
///
/// Without a limit, a burst of steps takes no time: actors complete what follows a request before
/// the next request. With a limit, requests that follow each other closely find the work half done.
///
/// ```
/// use kueue_check::Clock;
/// use kueue_check_sim::apiserver::ApiServer;
/// use kueue_check_sim::kueue::{Kueue, KueueVersion, Pace, run_at};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
/// let server = ApiServer::with_definitions(clock.clone(), kueue_check_sim::definitions::kueue());
/// let kueue = Kueue::new(&server, &clock, KueueVersion::V0_19);
/// let pace = Pace::default();
/// pace.limit(3); // three more steps
/// tokio::spawn(run_at(kueue, server, clock, pace.clone()));
/// pace.go_on(); // and as many as there are to take
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pace {
    steps: Arc<AtomicU64>,
    /// In milliseconds.
    lag: Arc<AtomicU64>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            steps: Arc::new(AtomicU64::new(u64::MAX)),
            lag: Arc::default(),
        }
    }
}

impl Pace {
    /// Allows `steps` more steps, in total for all actors at this pace.
    pub fn limit(&self, steps: u64) {
        self.steps.store(steps, Ordering::Relaxed);
    }

    /// Removes the limit.
    pub fn go_on(&self) {
        self.limit(u64::MAX);
    }

    /// Returns a pace with the same limit of steps and a [lag](Self::lag) of its own.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            steps: Arc::clone(&self.steps),
            lag: Arc::default(),
        }
    }

    /// Delays each step by `milliseconds`: other actors have done all that they can before it.
    pub fn lag(&self, milliseconds: u64) {
        self.lag.store(milliseconds, Ordering::Relaxed);
    }

    async fn wait(&self) {
        match self.lag.load(Ordering::Relaxed) {
            0 => {}
            lag => tokio::time::sleep(Duration::from_millis(lag)).await,
        }
        while self.is_over() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn is_over(&self) -> bool {
        self.steps.load(Ordering::Relaxed) == 0
    }

    fn count(&self) {
        let left = self.steps.load(Ordering::Relaxed);
        if left != u64::MAX {
            self.limit(left.saturating_sub(1));
        }
    }
}

/// Runs an actor forever. Other tasks may run between its steps.
///
/// A short burst of steps takes no time. An actor that stays busy pauses after each burst, for
/// longer each time, up to 100 ms. Otherwise controllers that undo each other's work would keep
/// virtual time from ever passing.
pub async fn run(actor: impl Actor, server: ApiServer, clock: Clock) {
    run_at(actor, server, clock, Pace::default()).await;
}

/// Runs an actor as [`run`] does, at a pace.
pub async fn run_at(mut actor: impl Actor, server: ApiServer, clock: Clock, pace: Pace) {
    let mut changed = server.changes();
    loop {
        changed.mark_seen();
        let (mut steps, mut pause) = (0, Duration::from_millis(1));
        loop {
            pace.wait().await;
            if !actor.step() {
                break;
            }
            pace.count();
            steps += 1;
            if steps % BURST == 0 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            } else if !actor.is_first() {
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

/// Returns the time from `now` to `at`, plus 1 ms: timers have a resolution of 1 ms.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    let wait = at.duration_since(now);
    Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1)
}
