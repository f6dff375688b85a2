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
    let trial = Simulation::with_context(|tools| Licences {
        server: tools.external(|| LicenceServer::new(2)),
    });
    let play: crate::Scenario = |cluster| {
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
    (trial, play)
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
        // The reservation is the key: asking again is the same licence.
        let key = request.reservation().to_string();
        if !self.server.take(&key).await? {
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
        _: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.server.give_back(&over.to_string()).await?;
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        let keys = self.server.taken().await?;
        Ok(keys.iter().filter_map(|key| key.parse().ok()).collect())
    }
}

const HALF_A_MINUTE: Duration = Duration::from_secs(30);
// ANCHOR_END: check

// ANCHOR: server
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The licence server as its clients see it: three calls, each of which may be repeated. This one
/// lives in the process; yours is reached over the network, and each of its calls can fail.
#[derive(Clone)]
struct LicenceServer {
    licences: usize,
    taken: Arc<Mutex<BTreeSet<String>>>,
}

impl LicenceServer {
    fn new(licences: usize) -> Self {
        Self {
            licences,
            taken: Arc::default(),
        }
    }

    /// Whether `key` has a licence now.
    async fn take(&self, key: &str) -> io::Result<bool> {
        let mut taken = self.taken.lock().await;
        if taken.contains(key) || taken.len() < self.licences {
            taken.insert(key.to_owned());
            return Ok(true);
        }
        Ok(false)
    }

    /// What is not out is not missed.
    async fn give_back(&self, key: &str) -> io::Result<()> {
        self.taken.lock().await.remove(key);
        Ok(())
    }

    /// The keys of all licences that are out.
    async fn taken(&self) -> io::Result<Vec<String>> {
        Ok(self.taken.lock().await.iter().cloned().collect())
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
            .expect("nobody holds it between steps");
        taken.len()
    }

    #[test]
    fn no_licence_is_lost_or_given_twice_whatever_goes_wrong() {
        let trial = Simulation::with_context(|tools| Licences {
            server: tools.external(|| LicenceServer::new(2)),
        });
        let explored = trial.run_with_each_fault(async |cluster| {
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
}
// ANCHOR_END: tests
// ANCHOR_END: file
