//! Built-in scenarios.

mod cohorts;
mod deleted;
mod elastic;
mod external;
mod later;
mod quota;
mod terms;
mod variants;
mod verdicts;
mod writers;

use std::time::Duration;

use jiff::Timestamp;

use super::{Counter, Depot, LicenceVendor, Scenario, Scripted, Word, Worded};
use crate::definitions::KueueApi;
use crate::explore::Fault;
use crate::kueue::KueueVersion;
use crate::simulation::{Cluster, Simulation};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// The number of injection points of each kind in scenarios with many requests.
const FEW: usize = 4;

async fn expect_quota(cluster: &Cluster, job: &str) {
    let holds = |c: &Cluster| c.condition(job, "QuotaReserved");
    let what = format!("`{job}` has quota");
    cluster.expect(&what, holds).await;
}

/// Returns all built-in scenarios.
///
/// ```
/// use kueue_check_sim::scenarios;
///
/// let waits: Vec<_> = scenarios::all().into_iter().filter(|scenario| scenario.about.contains("wait")).map(|scenario| scenario.name).collect();
/// assert_eq!(waits, ["wait", "hold"]);
/// ```
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "approve",
            about: "two jobs are approved with pod set updates; one completes",
            simulation: || Simulation::new(|| Scripted::new(verdicts::approve)),
            run_on: |cluster| Box::pin(verdicts::approved(cluster)),
        },
        Scenario {
            name: "wait",
            about: "a job waits until ten past nine",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::until_ten_past(r)))),
            run_on: |cluster| Box::pin(verdicts::waited(cluster)),
        },
        Scenario {
            name: "retry",
            about: "a job gives its quota back twice, after a delay, before it may start",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::third_time(r)))),
            run_on: |cluster| Box::pin(verdicts::retried(cluster)),
        },
        Scenario {
            name: "reject",
            about: "a job is rejected, another is not",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::no_giants(r)))),
            run_on: |cluster| Box::pin(verdicts::rejected(cluster)),
        },
        Scenario {
            name: "errors",
            about: "the check fails for five minutes, and nothing is lost",
            // With a slow clock the service is unavailable for longer. The backoff after that many
            // errors exceeds the timeout of an expectation.
            simulation: || {
                Simulation::new(|| Scripted::new(verdicts::fails_at_first))
                    .exclude_fault(Fault::ClockBack)
            },
            run_on: |cluster| Box::pin(verdicts::failed(cluster)),
        },
        Scenario {
            name: "two-checks",
            about: "two checks of one process evaluate the same jobs, one of them later",
            simulation: || {
                Simulation::new(|| Scripted::new(verdicts::approve))
                    .and("second", |tools| tools.external(|| LicenceVendor::new(1)))
                    .invariant("sold once", LicenceVendor::each_licence_sold_once)
                    // Without a Lease two processes may evaluate and release at once.
                    .replicas(2)
            },
            run_on: |cluster| Box::pin(external::two(cluster)),
        },
        Scenario {
            name: "preempted",
            about: "a job loses its quota to another and gets it back, all during one evaluation",
            simulation: || {
                let check =
                    || Scripted::new(|r| Ok(quota::by_name(r))).latency(quota::long_for_low);
                quota::preempting(Simulation::new(check))
            },
            run_on: |cluster| Box::pin(quota::preempted(cluster)),
        },
        Scenario {
            name: "reclaimed",
            about: "a job borrows quota, which its owner reclaims: during an evaluation, and later",
            simulation: || {
                let check = || {
                    Scripted::new(|r| Ok(quota::by_name(r))).latency(cohorts::long_for_borrowers)
                };
                cohorts::sharing(Simulation::new(check))
            },
            run_on: |cluster| Box::pin(cohorts::reclaimed(cluster)),
        },
        Scenario {
            name: "slow-to-stop",
            about: "a Workload without a job is evicted during an evaluation; nothing stops it",
            simulation: || {
                let check =
                    || Scripted::new(|r| Ok(quota::by_name(r))).latency(quota::long_for_low);
                quota::preempting(Simulation::new(check))
            },
            run_on: |cluster| Box::pin(quota::slow_to_stop(cluster)),
        },
        Scenario {
            name: "overwritten",
            about: "another client writes an older copy over the check's entry",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::until_ten_past(r)))),
            run_on: |cluster| Box::pin(writers::overwritten(cluster)),
        },
        Scenario {
            name: "failing-verdict",
            about: "a check that watches running jobs stops one after three failing verdicts",
            simulation: || {
                Simulation::new(|| {
                    Scripted::new(|r| Ok(writers::until_budget_is_spent(r)))
                        .policy(writers::stops())
                })
            },
            run_on: |cluster| Box::pin(writers::objected(cluster)),
        },
        Scenario {
            name: "licences",
            about: "three jobs share two licences of a server outside the cluster",
            simulation: || {
                Simulation::with_context(|tools| tools.external(|| LicenceVendor::new(2)))
                    .invariant("sold once", LicenceVendor::each_licence_sold_once)
            },
            run_on: |cluster| Box::pin(external::licensed(cluster)),
        },
        Scenario {
            name: "passed-on",
            about: "a running job loses its quota and its licence to another, and gets both back",
            simulation: || {
                quota::preempting(Simulation::with_context(|tools| {
                    tools.external(|| LicenceVendor::new(1))
                }))
                .invariant("sold once", LicenceVendor::each_licence_sold_once)
            },
            run_on: |cluster| Box::pin(external::passed_on(cluster)),
        },
        Scenario {
            name: "failover",
            about: "two replicas; the leader dies, and the other takes over",
            simulation: || {
                Simulation::new(|| Scripted::new(|r| Ok(verdicts::until_four_past(r)))).replicas(2)
            },
            run_on: |cluster| Box::pin(writers::failed_over(cluster)),
        },
        Scenario {
            name: "hold",
            about: "the queue is stopped while a job waits for a second check, and goes on",
            simulation: || {
                let first = || {
                    Scripted::new(|r| Ok(quota::until_five_past(r)))
                        .latency(quota::longer_after_five_past)
                };
                Simulation::new(first).and("second", |_| quota::AfterFivePast)
            },
            run_on: |cluster| Box::pin(quota::held(cluster)),
        },
        Scenario {
            name: "delete-evaluated",
            about: "a job and a Workload are deleted while they are evaluated",
            simulation: deleted::depot,
            run_on: |cluster| Box::pin(deleted::while_evaluated(cluster)),
        },
        Scenario {
            name: "delete-written",
            about: "a job and a Workload are deleted at the moment in which they become Ready",
            simulation: deleted::depot,
            run_on: |cluster| Box::pin(deleted::while_written(cluster)),
        },
        Scenario {
            name: "delete-stopping",
            about: "a job and a Workload are deleted while what they had is released",
            simulation: deleted::depot,
            run_on: |cluster| Box::pin(deleted::while_released(cluster)),
        },
        Scenario {
            name: "no-check",
            about: "the AdmissionCheck is deleted while a Workload is evaluated, and made again",
            simulation: deleted::depot,
            run_on: |cluster| Box::pin(deleted::check_while_evaluated(cluster)),
        },
        Scenario {
            name: "no-check-written",
            about: "the AdmissionCheck is deleted at the moment in which a job becomes Ready",
            simulation: deleted::depot,
            run_on: |cluster| Box::pin(deleted::check_while_written(cluster)),
        },
        Scenario {
            name: "no-check-stopping",
            about: "the AdmissionCheck is deleted while a machine stops, and made again",
            simulation: deleted::depot,
            run_on: |cluster| Box::pin(deleted::check_while_released(cluster)),
        },
        Scenario {
            name: "no-parameters-written",
            about: "the parameters are deleted at the moment in which a job becomes Ready",
            simulation: || {
                Simulation::with_context(|tools| tools.external(Worded::default))
                    .parameters(&Word::object("words", "day"))
            },
            run_on: |cluster| Box::pin(deleted::parameters_while_written(cluster)),
        },
        Scenario {
            name: "no-parameters",
            about: "the parameters are deleted while a Workload is evaluated, and made again",
            simulation: || {
                Simulation::with_context(|tools| tools.external(Worded::default))
                    .parameters(&Word::object("words", "day"))
                    .and("second", |tools| tools.external(Depot::default))
                    .invariant("all stopped", Depot::stops_all)
            },
            run_on: |cluster| Box::pin(deleted::parameters_while_evaluated(cluster)),
        },
        Scenario {
            name: "switched",
            about: "an AdmissionCheck refers to other parameters, whose activation hangs once",
            simulation: || {
                Simulation::with_context(|tools| tools.external(Worded::default))
                    .parameters(&Word::object("by-day", "day"))
                    .object(&Word::object("by-night", "night"))
                    .points_of_a_kind(FEW)
            },
            run_on: |cluster| Box::pin(terms::switched(cluster)),
        },
        Scenario {
            name: "panics",
            about: "the check panics at new parameters, which are corrected",
            simulation: || {
                Simulation::with_context(|tools| tools.external(Worded::default))
                    .parameters(&Word::object("words", "day"))
                    .and("second", |_| Scripted::new(verdicts::approve))
            },
            run_on: |cluster| Box::pin(terms::panicked(cluster)),
        },
        Scenario {
            name: "objects-anew",
            about: "the process dies a moment before its check would object to a running job",
            simulation: || {
                Simulation::new(|| Scripted::new(|r| Ok(writers::until_budget_is_spent(r))))
            },
            run_on: |cluster| Box::pin(terms::objected_anew(cluster)),
        },
        Scenario {
            name: "two-zones",
            about: "two checks send a job to two zones; one of them takes five seconds",
            simulation: || {
                let first = || Scripted::new(|r| terms::in_zone(r, "a"));
                Simulation::new(first).and("second", |_| {
                    Scripted::new(|r| terms::in_zone(r, "b"))
                        .latency(|_| 5 * SECOND)
                        .named("example.com/other-zone")
                })
            },
            run_on: |cluster| Box::pin(terms::two_zones(cluster)),
        },
        Scenario {
            name: "flap",
            about: "quota is lost and regained while verdicts are written",
            simulation: || {
                let depot = deleted::depot().and("second", |_| quota::AfterFivePast);
                depot.points_of_a_kind(FEW)
            },
            run_on: |cluster| Box::pin(terms::flapped(cluster)),
        },
        Scenario {
            name: "restored",
            about: "etcd is restored from a backup while the check runs on",
            simulation: || {
                let depot = deleted::depot().points_of_a_kind(FEW);
                depot.expect_timeout(15 * MINUTE)
            },
            run_on: |cluster| Box::pin(terms::restored(cluster)),
        },
        Scenario {
            name: "restored-ahead",
            about: "etcd is restored, and its versions pass the old ones before that is noticed",
            simulation: || {
                let depot = deleted::depot().points_of_a_kind(FEW);
                // The caches are compared after 30 minutes.
                depot.expect_timeout(45 * MINUTE)
            },
            run_on: |cluster| Box::pin(terms::restored_ahead(cluster)),
        },
        Scenario {
            name: "upgrade",
            about: "Kueue's API is replaced while machines start, run and stop",
            simulation: || {
                let depot = || Depot::default().stops_in(2 * MINUTE);
                Simulation::with_context(move |tools| tools.external(depot))
                    .invariant("all stopped", Depot::stops_all)
                    .kueue_api(KueueApi::V1beta1)
                    .points_of_a_kind(FEW)
            },
            run_on: |cluster| Box::pin(terms::upgraded(cluster)),
        },
        Scenario {
            name: "led-again",
            about: "a leader loses the Lease and leads again; a job ends meanwhile",
            simulation: || {
                let two = Simulation::new(|| Counter::new(2)).replicas(2);
                two.points_of_a_kind(FEW)
            },
            run_on: |cluster| Box::pin(terms::lease_regained(cluster)),
        },
        Scenario {
            name: "taken-over",
            about: "a leader loses the Lease while it evaluates, and the next one evaluates too",
            simulation: || {
                let check = || Scripted::new(|r| Ok(quota::by_name(r))).latency(|_| 25 * SECOND);
                Simulation::new(check).replicas(2).points_of_a_kind(FEW)
            },
            run_on: |cluster| Box::pin(terms::taken_over(cluster)),
        },
        Scenario {
            name: "later-switched",
            about: "an AdmissionCheck refers to other parameters while a machine stops",
            simulation: || later::zoned().points_of_a_kind(FEW),
            run_on: |cluster| Box::pin(later::switched(cluster)),
        },
        Scenario {
            name: "later-zones",
            about: "two checks send a job to two zones, and agree while a machine stops",
            simulation: || later::two_zones().points_of_a_kind(FEW),
            run_on: |cluster| Box::pin(later::zones(cluster)),
        },
        Scenario {
            name: "later-led-again",
            about: "a leader loses the Lease and leads again while a machine stops",
            simulation: || later::slow_to_stop().points_of_a_kind(FEW),
            run_on: |cluster| Box::pin(later::led_again(cluster)),
        },
        Scenario {
            name: "later-taken-over",
            about: "each of two replicas dies while a machine stops",
            simulation: || later::slow_to_stop().points_of_a_kind(FEW),
            run_on: |cluster| Box::pin(later::taken_over(cluster)),
        },
        Scenario {
            name: "still-stopping",
            about: "a machine takes an hour to stop, and the run ends before",
            simulation: || later::never_stopped().points_of_a_kind(FEW),
            run_on: |cluster| Box::pin(later::stopping(cluster)),
        },
        Scenario {
            name: "kept-ready",
            about: "a preemption leaves a Ready as it stands, and quota comes again later",
            simulation: || {
                let check = || Scripted::new(|r| Ok(quota::until_five_past(r)));
                let version = KueueVersion {
                    stale_preemption: true,
                    ..KueueVersion::V0_19
                };
                quota::preempting_with_second(Simulation::new(check)).kueue(version)
            },
            run_on: |cluster| Box::pin(quota::kept_ready(cluster)),
        },
        Scenario {
            name: "two-an-hour",
            about: "a check objects to four running jobs, of which it may stop two in an hour",
            simulation: || {
                Simulation::new(|| {
                    Scripted::new(|r| Ok(terms::until_five_past_nine(r)))
                        .policy(terms::stops_two_in_an_hour())
                })
                .points_of_a_kind(FEW)
            },
            run_on: |cluster| Box::pin(terms::objected_to_all(cluster)),
        },
        Scenario {
            name: "grow",
            about: "an elastic job grows, shrinks and grows on one seat",
            simulation: elastic::seated,
            run_on: |cluster| Box::pin(elastic::grown(cluster)),
        },
        Scenario {
            name: "grow-late",
            about: "an elastic job grows, and what it has replaced is finished late",
            simulation: || {
                elastic::seated().kueue(KueueVersion {
                    late_replacement: true,
                    ..KueueVersion::V0_19
                })
            },
            run_on: |cluster| Box::pin(elastic::grown(cluster)),
        },
        Scenario {
            name: "grow-refused",
            about: "an elastic job requests more than a check allows, and runs on",
            simulation: elastic::seated,
            run_on: |cluster| Box::pin(elastic::refused(cluster)),
        },
        Scenario {
            name: "grow-twice",
            about: "an elastic job grows again while its growth is undecided",
            simulation: elastic::seated_slowly,
            run_on: |cluster| Box::pin(elastic::grown_twice(cluster)),
        },
        Scenario {
            name: "grow-drained",
            about: "a queue is drained while an elastic job grows, and the pods run on",
            simulation: || elastic::seated().and("second", |_| elastic::NoGrowth),
            run_on: |cluster| Box::pin(elastic::drained(cluster)),
        },
        Scenario {
            name: "grow-preempted",
            about: "an elastic job that has grown is preempted; its pods take six seconds to end",
            simulation: || quota::preempting(elastic::seated()),
            run_on: |cluster| Box::pin(elastic::preempted(cluster)),
        },
        Scenario {
            name: "variants",
            about: "a job with two variants starts by one of them, on one seat",
            simulation: variants::seated,
            run_on: |cluster| Box::pin(variants::won(cluster)),
        },
    ]
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_default()
}

fn wait_until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
