//! Health of the process, as `/readyz` reports it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::lease::Leadership;

/// The health of all parts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    watches: BTreeMap<String, Watch>,
    /// Problems that keep the process from being ready, without those of watches, by subject.
    problems: BTreeMap<&'static str, String>,
}

#[derive(Debug)]
struct Watch {
    synced: bool,
    since: Instant,
    last_sign: Instant,
    last_error: Option<String>,
    /// The start of the current failures, if nothing but failures came since.
    failing: Option<Instant>,
    errors: u64,
}

/// The state of one watch, for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchReport {
    pub(crate) name: String,
    /// Whether its list has been read, and it has not failed for more than 2 min.
    pub(crate) synced: bool,
    /// Seconds for which its list has been read, or has not.
    pub(crate) for_seconds: u64,
    /// Seconds without an event, a bookmark or a new reply.
    pub(crate) idle_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
    pub(crate) errors: u64,
}

/// Maximum silence of a watch: it restarts after 5 min at the latest, and each start is a sign of
/// life.
const IDLE_LIMIT: Duration = Duration::from_mins(6);

/// Maximum time for which a synced watch may fail: its cache is stale then.
const FAILING_LIMIT: Duration = Duration::from_mins(2);

impl Health {
    /// Returns the health of a starting process: it is not ready, because its caches are not
    /// synced.
    pub(crate) fn starting() -> Self {
        let health = Self::default();
        health.report(
            "kueue",
            Some("the served API is not discovered yet".to_owned()),
        );
        health.set_leadership(&Leadership::Undecided { error: None });
        health
    }

    /// Records whether leadership has been determined.
    pub(crate) fn set_leadership(&self, leadership: &Leadership) {
        let problem = match leadership {
            Leadership::Undecided { error: None } => {
                Some("leadership is not determined yet".to_owned())
            }
            Leadership::Undecided { error: Some(error) } => {
                Some(format!("leadership is not determined yet: {error}"))
            }
            _ => None,
        };
        self.report("lease", problem);
    }

    /// Adds the watch `name`, which has not started, and returns its health.
    pub(crate) fn watch(&self, name: &str) -> WatchHealth {
        let now = Instant::now();
        let new = Watch {
            synced: false,
            since: now,
            last_sign: now,
            last_error: None,
            failing: None,
            errors: 0,
        };
        self.lock().watches.insert(name.to_owned(), new);
        WatchHealth {
            health: self.clone(),
            name: name.into(),
        }
    }

    /// Records the problem of `subject`, or that it has none.
    pub(crate) fn report(&self, subject: &'static str, problem: Option<String>) {
        let mut state = self.lock();
        match problem {
            Some(problem) => state.problems.insert(subject, problem),
            None => state.problems.remove(subject),
        };
    }

    /// Returns the problems that keep the process from being ready; empty if it is ready.
    pub(crate) fn problems(&self) -> Vec<String> {
        let state = self.lock();
        let mut problems: Vec<String> = state
            .problems
            .iter()
            .map(|(subject, problem)| format!("{subject}: {problem}"))
            .collect();
        problems.extend(
            state
                .watches
                .iter()
                .filter_map(|(name, watch)| watch.problem(name)),
        );
        problems
    }

    /// Returns the state of all watches.
    pub(crate) fn watches(&self) -> Vec<WatchReport> {
        let state = self.lock();
        let report = |(name, watch): (&String, &Watch)| WatchReport {
            name: name.clone(),
            synced: watch.synced && watch.fails_for().is_none(),
            for_seconds: watch.since.elapsed().as_secs(),
            idle_seconds: watch.last_sign.elapsed().as_secs(),
            last_error: watch.last_error.clone(),
            errors: watch.errors,
        };
        state.watches.iter().map(report).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Returns how long it has failed, if that exceeds the limit.
    fn fails_for(&self) -> Option<Duration> {
        let failing = self.failing?.elapsed();
        (failing > FAILING_LIMIT).then_some(failing)
    }

    fn problem(&self, name: &str) -> Option<String> {
        let error = self
            .last_error
            .as_ref()
            .map(|error| format!("; last error: {error}"))
            .unwrap_or_default();
        if !self.synced {
            return Some(format!(
                "the watch of {name} has not been synced for {} s{error}",
                self.since.elapsed().as_secs()
            ));
        }
        if let Some(failing) = self.fails_for() {
            return Some(format!(
                "the watch of {name} has failed for {} s{error}",
                failing.as_secs()
            ));
        }
        let idle = self.last_sign.elapsed();
        (idle > IDLE_LIMIT).then(|| {
            format!(
                "the watch of {name} has received nothing for {} s{error}",
                idle.as_secs()
            )
        })
    }
}

/// The health of one watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchHealth {
    health: Health,
    name: Arc<str>,
}

impl WatchHealth {
    /// Returns the watch's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Records a sign of life.
    pub(crate) fn record_activity(&self) {
        self.change(|watch| {
            watch.last_sign = Instant::now();
            watch.failing = None;
        });
    }

    /// Records that the whole list has been read.
    pub(crate) fn synced(&self) {
        self.change(|watch| {
            if !watch.synced {
                watch.synced = true;
                watch.since = Instant::now();
            }
            watch.last_error = None;
            watch.failing = None;
            watch.last_sign = Instant::now();
        });
    }

    /// Records that the list is read again.
    pub(crate) fn unsynced(&self) {
        self.change(|watch| {
            if watch.synced {
                watch.synced = false;
                watch.since = Instant::now();
            }
        });
    }

    /// Records a failure.
    pub(crate) fn failed(&self, error: String) {
        self.change(|watch| {
            watch.last_error = Some(error);
            watch.failing.get_or_insert_with(Instant::now);
            watch.errors += 1;
        });
    }

    /// Removes the watch.
    pub(crate) fn remove(&self) {
        self.health.lock().watches.remove(&*self.name);
    }

    fn change(&self, change: impl FnOnce(&mut Watch)) {
        if let Some(watch) = self.health.lock().watches.get_mut(&*self.name) {
            change(watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn readiness_names_the_watch_since_when_and_the_last_error() {
        let health = Health::default();
        let watch = health.watch("workloads");
        tokio::time::advance(Duration::from_secs(12)).await;
        watch.failed("forbidden".to_owned());
        assert_eq!(
            health.problems(),
            ["the watch of workloads has not been synced for 12 s; last error: forbidden"]
        );
        watch.synced();
        assert!(health.problems().is_empty());
        tokio::time::advance(IDLE_LIMIT + Duration::from_secs(1)).await;
        assert_eq!(
            health.problems(),
            ["the watch of workloads has received nothing for 361 s"]
        );
        watch.record_activity();
        assert!(health.problems().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_for_minutes_after_its_list_is_named_until_something_comes() {
        let health = Health::default();
        let watch = health.watch("workloads");
        watch.synced();
        for _ in 0..13 {
            watch.failed("forbidden".to_owned());
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(
            health.problems(),
            ["the watch of workloads has failed for 130 s; last error: forbidden"]
        );
        assert!(!health.watches()[0].synced);
        watch.record_activity();
        assert!(health.problems().is_empty() && health.watches()[0].synced);
        watch.failed("unavailable".to_owned());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(health.problems().is_empty(), "it may be tried again");
        watch.remove();
        assert!(health.watches().is_empty());
    }

    #[test]
    fn other_problems_are_named_until_they_are_gone() {
        let health = Health::default();
        health.report("kueue", Some("not installed".to_owned()));
        assert_eq!(health.problems(), ["kueue: not installed"]);
        health.report("kueue", None);
        assert!(health.problems().is_empty());
    }
}
