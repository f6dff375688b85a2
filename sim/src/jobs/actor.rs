//! All job integrations as one actor.

use jiff::Timestamp;
use kueue_check::Clock;

use super::JobController;
use crate::apiserver::ApiServer;
use crate::kueue::{Actor, KueueVersion};

/// Kueue's job integrations: what makes a Workload for a job, starts it, and stops it.
#[derive(Debug)]
pub struct Jobs {
    jobs: JobController,
}

impl Jobs {
    /// The integrations of Kueue 0.19.2.
    pub fn new(server: &ApiServer, clock: &Clock) -> Self {
        Self::of_version(server, clock, KueueVersion::default())
    }

    /// Those of another Kueue.
    pub fn of_version(server: &ApiServer, clock: &Clock, version: KueueVersion) -> Self {
        Self {
            jobs: JobController::new(server, clock, version),
        }
    }
}

impl Actor for Jobs {
    fn step(&mut self) -> bool {
        self.jobs.step()
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        self.jobs.wakes_at()
    }
}
