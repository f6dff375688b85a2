//! Expectations: a scenario waits for a state of the cluster.

use std::time::Duration;

use kueue_check::api::CheckState;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::failure::fail;
use super::{CHECK, Cluster};
use crate::apiserver::Resource;
use crate::timeline::is_true;

/// The virtual time for which an expectation waits. It is longer than the delay of any single
/// fault. A simulation may have [another limit](super::Simulation::expect_timeout).
pub const EXPECT_TIMEOUT: Duration = Duration::from_secs(600);
/// The interval of checks of an expectation when nothing changes on the cluster, in virtual time.
const TICK: Duration = Duration::from_secs(1);

impl Cluster {
    /// Waits until `holds`.
    ///
    /// # Panics
    /// If it does not within [`EXPECT_TIMEOUT`]. `what` describes the expectation.
    pub async fn expect(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let timeout = self.simulation.expect_timeout;
        let deadline = Instant::now() + timeout;
        let mut changed = self.server.changes();
        loop {
            changed.mark_seen();
            if holds(self) {
                return;
            }
            if Instant::now() >= deadline {
                fail(format!(
                    "{what}: not within {} minutes",
                    timeout.as_secs() / 60
                ));
            }
            // State outside the cluster changes without an event.
            let tick = (Instant::now() + TICK).min(deadline);
            drop(timeout_at(tick, changed.changed()).await);
        }
    }

    /// Waits until the job is admitted.
    ///
    /// # Panics
    /// If it is not within [`EXPECT_TIMEOUT`].
    pub async fn expect_admitted(&self, job: &str) {
        self.expect(&format!("`{job}` is admitted"), |cluster| {
            cluster.is_admitted(job)
        })
        .await;
    }

    /// Waits until the check has that state for the job.
    ///
    /// # Panics
    /// If it has not within [`EXPECT_TIMEOUT`].
    pub async fn expect_state(&self, job: &str, state: CheckState) {
        self.expect_state_of(CHECK, job, state).await;
    }

    /// Waits until one of several checks has that state for the job.
    ///
    /// # Panics
    /// If it has not within [`EXPECT_TIMEOUT`].
    pub async fn expect_state_of(&self, check: &str, job: &str, state: CheckState) {
        let what = format!("`{check}` is {state} for `{job}`");
        self.expect(&what, |cluster| {
            cluster.state_of(check, job).as_ref() == Some(&state)
        })
        .await;
    }

    /// Waits until the check's message for the job contains `text`.
    ///
    /// # Panics
    /// If it does not within [`EXPECT_TIMEOUT`].
    pub async fn expect_message(&self, job: &str, text: &str) {
        let what = format!("the check's message for `{job}` contains {text:?}");
        self.expect(&what, |cluster| cluster.message(job).contains(text))
            .await;
    }

    /// Waits until the job has a Workload without quota.
    ///
    /// # Panics
    /// If it has none within [`EXPECT_TIMEOUT`].
    pub async fn expect_without_quota(&self, job: &str) {
        let what = format!("`{job}` has no quota");
        self.expect(&what, |cluster| {
            let workload = cluster.workload(job);
            workload.is_some_and(|workload| !is_true(&workload, "QuotaReserved"))
        })
        .await;
    }

    /// Waits until the job is deactivated: a person must activate it again.
    ///
    /// # Panics
    /// If it is not within [`EXPECT_TIMEOUT`].
    pub async fn expect_deactivated(&self, job: &str) {
        let inactive = |w: &Value| w["spec"]["active"] == false && !is_true(w, "QuotaReserved");
        self.expect(&format!("`{job}` is deactivated"), |cluster| {
            cluster
                .workload(job)
                .is_some_and(|workload| inactive(&workload))
        })
        .await;
    }

    /// Waits until the job's Workload is finished.
    ///
    /// # Panics
    /// If it is not within [`EXPECT_TIMEOUT`].
    pub async fn expect_finished(&self, job: &str) {
        self.expect(&format!("`{job}` is finished"), |cluster| {
            cluster.condition(job, "Finished")
        })
        .await;
    }

    /// Waits until the AdmissionCheck is active.
    ///
    /// # Panics
    /// If it is not within [`EXPECT_TIMEOUT`].
    pub async fn expect_active(&self, check: &str) {
        self.expect(&format!("AdmissionCheck `{check}` is active"), |cluster| {
            cluster
                .admission_check(check)
                .is_some_and(|found| is_true(&found, "Active"))
        })
        .await;
    }

    /// Waits until the AdmissionCheck is inactive, with a message that contains `text`.
    ///
    /// # Panics
    /// If it is not within [`EXPECT_TIMEOUT`].
    pub async fn expect_inactive(&self, check: &str, text: &str) {
        let matches = |found: &Value| {
            let conditions = found["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "Active"
                    && condition["status"] == "False"
                    && condition["message"]
                        .as_str()
                        .is_some_and(|message| message.contains(text))
            })
        };
        let what = format!("AdmissionCheck `{check}` is inactive with {text:?} in its message");
        self.expect(&what, |cluster| {
            cluster
                .admission_check(check)
                .is_some_and(|found| matches(&found))
        })
        .await;
    }

    /// Advances the time; the job must not be admitted meanwhile.
    ///
    /// # Panics
    /// If it is, or if it has no Workload all the time.
    pub async fn expect_waiting(&self, job: &str, during: Duration) {
        let deadline = Instant::now() + during;
        let mut changed = self.server.changes();
        let mut exists = false;
        loop {
            changed.mark_seen();
            if self.is_admitted(job) {
                fail(format!("`{job}` is admitted, but should wait"));
            }
            exists |= self.workload(job).is_some();
            if timeout_at(deadline, changed.changed()).await.is_err() {
                break;
            }
        }
        if !exists {
            fail(format!("`{job}` should wait, but has no Workload"));
        }
    }

    /// Waits until the check has written a condition of its AdmissionCheck.
    pub(super) async fn expect_condition(&self, check: &str) {
        self.expect(
            &format!("AdmissionCheck `{check}` has a condition"),
            |cluster| {
                let found = cluster.admission_check(check);
                found.is_none_or(|found| {
                    found["status"]["conditions"]
                        .as_array()
                        .is_some_and(|all| !all.is_empty())
                })
            },
        )
        .await;
    }

    fn admission_check(&self, name: &str) -> Option<std::sync::Arc<Value>> {
        let resource = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
        self.server.object(&resource, "", name)
    }
}
