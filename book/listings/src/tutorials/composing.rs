//! Composing checks with tower layers.

/// The program.
///
/// # Errors
/// As [`kueue_check::main()`].
pub fn program() -> kueue_check::Result<()> {
    main()
}

// ANCHOR: file
// ANCHOR: checks
use kueue_check::prelude::*;
use kueue_check::service::{CircuitBreakerLayer, SingleFlightLayer, TimeoutLayer};
use std::time::Duration;
use tower::ServiceBuilder;

/// Jobs start while the scratch file system is healthy. The probe is slow, and its result is the
/// same for a whole namespace.
#[admission_check(controller = "example.com/scratch")]
async fn scratch(workload: Workload, State(probe): State<Probe>) -> Result<Verdict, CheckError> {
    probe.run(workload.namespace()).await?;
    Ok(Verdict::ready("scratch is well"))
}

/// Jobs of at most a hundred pods.
#[admission_check(controller = "example.com/small")]
async fn small(workload: Workload) -> Verdict {
    match workload.pod_sets().iter().map(PodSet::count).sum::<u32>() {
        0..=100 => Verdict::ready("small enough"),
        pods => Verdict::rejected(format!("{pods} pods, at most 100")),
    }
}
// ANCHOR_END: checks

// ANCHOR: layers
/// From the outside in: the verdict of a namespace is shared for 10 s; after three failures in a
/// row nothing is evaluated for 1 min; an evaluation takes at most 5 s.
fn layered(probe: Probe) -> Check {
    let of_namespace =
        |request: &CheckRequest<NoParameters>| request.workload().namespace().to_owned();
    let layers = ServiceBuilder::new()
        .layer(SingleFlightLayer::new(
            Duration::from_secs(10),
            of_namespace,
        ))
        .layer(CircuitBreakerLayer::new(3, Duration::from_secs(60)))
        .layer(TimeoutLayer::new(Duration::from_secs(5)));
    scratch.with_state(probe).layer(layers)
}
// ANCHOR_END: layers

// ANCHOR: all
/// One AdmissionCheck for both: a job starts when both return Ready. The message names each check
/// that does not.
fn both(probe: Probe) -> Check {
    let name = ControllerName::from_static("example.com/scratch-and-small");
    Check::all_of(name, [layered(probe), Check::new(small)])
}
// ANCHOR_END: all

/// Probes the file system.
#[derive(Clone)]
enum Probe {
    /// It is healthy if the metadata of this file can be read.
    File(String),
    #[cfg(test)]
    Test(tests::FileSystem),
}

impl Probe {
    async fn run(&self, namespace: &str) -> Result<(), CheckError> {
        let result = match self {
            Self::File(path) => tokio::fs::metadata(path).await.map(|_| ()),
            #[cfg(test)]
            Self::Test(system) => system.probe().await,
        };
        result.map_err(|error| CheckError::transient(format!("scratch of {namespace}: {error}")))
    }
}

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    let path = std::env::var("SCRATCH").unwrap_or("/scratch".to_owned());
    kueue_check::main(both(Probe::File(path))).await
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kueue_check_sim::simulation::CheckContext;
    use kueue_check_sim::{Cluster, Job, Simulation};

    use super::*;

    // ANCHOR: tests
    /// Whether the file system is healthy, and the number of probes.
    #[derive(Clone, Default)]
    pub(super) struct FileSystem(Arc<Mutex<(Health, usize)>>);

    #[derive(Clone, Copy, Default, PartialEq)]
    enum Health {
        #[default]
        Well,
        Broken,
        Hangs,
    }

    impl FileSystem {
        pub(super) async fn probe(&self) -> std::io::Result<()> {
            let health = {
                let mut state = self.0.lock().unwrap();
                state.1 += 1;
                state.0
            };
            match health {
                Health::Well => Ok(()),
                Health::Broken => Err(std::io::Error::other("stale file handle")),
                Health::Hangs => std::future::pending().await,
            }
        }

        fn is(&self, health: Health) {
            self.0.lock().unwrap().0 = health;
        }

        fn probes(&self) -> usize {
            self.0.lock().unwrap().1
        }
    }

    fn simulation() -> Simulation {
        let probe = |tools: &CheckContext| Probe::Test(tools.external(FileSystem::default));
        Simulation::with_context(move |tools| both(probe(tools))).quota(1000)
    }

    fn system(cluster: &Cluster) -> FileSystem {
        cluster.external()
    }

    #[test]
    fn one_probe_serves_all_jobs_of_a_namespace() {
        simulation().run(async |cluster| {
            for number in 0..50 {
                cluster.submit(Job::new(format!("job-{number}")));
            }
            for number in 0..50 {
                cluster.expect_admitted(&format!("job-{number}")).await;
            }
            assert_eq!(system(cluster).probes(), 1);
        });
    }

    #[test]
    fn an_unavailable_source_opens_the_breaker_and_a_hanging_call_times_out() {
        for health in [Health::Broken, Health::Hangs] {
            simulation().run(async |cluster| {
                system(cluster).is(health);
                for number in 0..50 {
                    cluster.submit(Job::new(format!("job-{number}")));
                }
                cluster.advance(Duration::from_secs(600)).await;
                let probes = system(cluster).probes();
                assert!(probes <= 15, "{probes} probes in ten minutes");
                system(cluster).is(Health::Well);
                for number in 0..50 {
                    cluster.expect_admitted(&format!("job-{number}")).await;
                }
            });
        }
    }

    #[test]
    fn the_strictest_member_decides_with_any_fault() {
        let explored = simulation().run_with_each_fault(async |cluster| {
            cluster.submit(Job::new("small").pods(100));
            cluster.submit(Job::new("large").pods(101));
            cluster.expect_admitted("small").await;
            cluster.expect_deactivated("large").await;
        });
        println!("{explored}");
    }
    // ANCHOR_END: tests
}
// ANCHOR_END: file
