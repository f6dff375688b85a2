//! A check with state and cleanup.

/// The program.
///
/// # Errors
/// As [`kueue_check::main()`].
pub fn program() -> kueue_check::Result<()> {
    main()
}

/// Three jobs, two licences.
pub(crate) fn picture() -> (kueue_check_sim::Simulation, crate::Scenario) {
    use kueue_check_sim::{Job, Simulation};
    let simulation = Simulation::with_context(|tools| Licences {
        server: tools.external(|| LicenceServer::new(2)),
    });
    let scenario: crate::Scenario = |cluster| {
        Box::pin(async move {
            for job in ["a", "b", "c"] {
                cluster.submit(Job::new(job));
                cluster.advance(Duration::from_secs(60)).await;
            }
            cluster.advance(Duration::from_secs(420)).await;
            cluster.complete("a");
            cluster.advance(Duration::from_secs(300)).await;
            cluster.complete("b");
            cluster.complete("c");
            cluster.advance(Duration::from_secs(60)).await;
        })
    };
    (simulation, scenario)
}

// ANCHOR: file
// ANCHOR: check
use kueue_check::prelude::*;
use std::time::Duration;

/// Jobs start only with a licence of the licence server.
struct Licences {
    server: LicenceServer,
}

impl AdmissionCheckController for Licences {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/licences") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        // The reservation is the key: a repeated request returns the same licence.
        if !self.server.take(request.reservation()).await? {
            return Ok(Verdict::pending("all licences are in use").recheck_in(HALF_A_MINUTE));
        }
        let names = request.workload().pod_sets().iter().map(PodSet::name);
        let updates = PodSetUpdates::builder()
            .pod_sets(names, |pods| pods.annotation("example.com/licence", "yes"))
            .build()?;
        Ok(Verdict::ready("has a licence").with_updates(updates))
    }

    async fn release(
        &self,
        over: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        if let ReleaseReason::Replaced { by, .. } | ReleaseReason::VariantAdmitted { by } = &why {
            // The job continues under another Workload.
            self.server.take(by).await?;
        }
        self.server.give_back(over).await?;
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        Ok(self.server.taken().await?)
    }
}

const HALF_A_MINUTE: Duration = Duration::from_secs(30);
// ANCHOR_END: check

// ANCHOR: server
use kueue_check::api::Uid;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The licence server with its three calls, each of which may be repeated. This one lives in the
/// process; yours is reached over the network, and each of its calls can fail. A job has one
/// licence, however many reservations it has.
#[derive(Clone)]
struct LicenceServer {
    licences: usize,
    taken: Arc<Mutex<BTreeMap<Uid, BTreeSet<Reservation>>>>,
}

impl LicenceServer {
    fn new(licences: usize) -> Self {
        Self {
            licences,
            taken: Arc::default(),
        }
    }

    /// Returns true if the job of `key` has a licence now.
    async fn take(&self, key: &Reservation) -> io::Result<bool> {
        let mut taken = self.taken.lock().await;
        let job = key.family_key();
        let may = taken.contains_key(job) || taken.len() < self.licences;
        if may {
            taken.entry(job.clone()).or_default().insert(key.clone());
        }
        Ok(may)
    }

    /// Does nothing if `key` has no licence.
    async fn give_back(&self, key: &Reservation) -> io::Result<()> {
        let mut taken = self.taken.lock().await;
        if let Some(of_job) = taken.get_mut(key.family_key()) {
            of_job.remove(key);
        }
        taken.retain(|_, of_job| !of_job.is_empty());
        Ok(())
    }

    /// Returns the keys of all licences in use.
    async fn taken(&self) -> io::Result<Vec<Reservation>> {
        Ok(self
            .taken
            .lock()
            .await
            .values()
            .flatten()
            .cloned()
            .collect())
    }
}
// ANCHOR_END: server

// ANCHOR: main
#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    let server = LicenceServer::new(2);
    kueue_check::main(Licences { server }).await
}
// ANCHOR_END: main

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use kueue_check_sim::{Cluster, Job, Simulation};

    use super::*;

    fn out(cluster: &Cluster) -> usize {
        let server = cluster.external::<LicenceServer>();
        let taken = server
            .taken
            .try_lock()
            .expect("it is not locked between steps");
        taken.len()
    }

    #[test]
    fn no_licence_is_lost_or_given_twice_with_any_fault() {
        let simulation = Simulation::with_context(|tools| Licences {
            server: tools.external(|| LicenceServer::new(2)),
        });
        let explored = simulation.run_with_each_fault(async |cluster| {
            for job in ["a", "b", "c"] {
                cluster.submit(Job::new(job));
            }
            cluster.expect_admitted("a").await;
            cluster.expect_admitted("b").await;
            cluster.expect_message("c", "all licences are in use").await;
            assert_eq!(out(cluster), 2);

            cluster.complete("a");
            cluster.expect_admitted("c").await;
            cluster.complete("b");
            cluster.complete("c");
            cluster
                .expect("every licence is back", |cluster| out(cluster) == 0)
                .await;
        });
        println!("{explored}");
    }

    #[test]
    fn a_job_that_grows_has_one_licence_with_any_fault() {
        let simulation = Simulation::with_context(|tools| Licences {
            server: tools.external(|| LicenceServer::new(1)),
        });
        let explored = simulation.run_with_each_fault(async |cluster| {
            cluster.submit(Job::new("train").pods(2).elastic());
            let runs = |pods: usize| move |c: &Cluster| c.running_pods("train") == pods;
            cluster.expect("two pods run", runs(2)).await;
            cluster.scale("train", 4);
            cluster.expect("four pods run", runs(4)).await;
            cluster.submit(Job::new("other"));
            cluster
                .expect_message("other", "all licences are in use")
                .await;
            cluster.complete("train");
            cluster.expect_admitted("other").await;
            assert_eq!(out(cluster), 1);
        });
        println!("{explored}");
    }
}
// ANCHOR_END: tests
// ANCHOR_END: file
