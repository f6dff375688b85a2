//! The stories.

mod outside;
mod quota;
mod verdicts;
mod writers;

use std::time::Duration;

use jiff::Timestamp;

use super::{Scenario, Scripted, Vendor};
use crate::simulation::Simulation;

const MINUTE: Duration = Duration::from_secs(60);

/// All of them.
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
            play: |cluster| Box::pin(verdicts::approved(cluster)),
        },
        Scenario {
            name: "wait",
            about: "a job waits until ten past nine",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::until_ten_past(r)))),
            play: |cluster| Box::pin(verdicts::waited(cluster)),
        },
        Scenario {
            name: "retry",
            about: "a job gives its quota back twice, after a delay, before it may start",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::third_time(r)))),
            play: |cluster| Box::pin(verdicts::retried(cluster)),
        },
        Scenario {
            name: "reject",
            about: "a job is rejected, another is not",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::no_giants(r)))),
            play: |cluster| Box::pin(verdicts::rejected(cluster)),
        },
        Scenario {
            name: "errors",
            about: "the check fails for five minutes, and nothing is lost",
            simulation: || Simulation::new(|| Scripted::new(verdicts::fails_at_first)),
            play: |cluster| Box::pin(verdicts::failed(cluster)),
        },
        Scenario {
            name: "two-checks",
            about: "two checks of one process answer for the same jobs, one of them later",
            simulation: || {
                Simulation::new(|| Scripted::new(verdicts::approve))
                    .and("second", |tools| tools.outside(|| Vendor::new(1)))
                    .invariant("sold once", Vendor::sells_once)
                    // Without a Lease two processes may evaluate and release at once.
                    .replicas(2)
            },
            play: |cluster| Box::pin(outside::two(cluster)),
        },
        Scenario {
            name: "preempted",
            about: "a job loses its quota to another and gets it back, all while the check thinks",
            simulation: || {
                let check = || Scripted::new(|r| Ok(quota::by_name(r))).takes(quota::long_for_low);
                quota::preempting(Simulation::new(check))
            },
            play: |cluster| Box::pin(quota::preempted(cluster)),
        },
        Scenario {
            name: "slow-to-stop",
            about: "a Workload without a job is evicted while the check thinks, and nobody stops it",
            simulation: || {
                let check = || Scripted::new(|r| Ok(quota::by_name(r))).takes(quota::long_for_low);
                quota::preempting(Simulation::new(check))
            },
            play: |cluster| Box::pin(quota::slow_to_stop(cluster)),
        },
        Scenario {
            name: "overwritten",
            about: "somebody writes an older copy over the check's entry",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(verdicts::until_ten_past(r)))),
            play: |cluster| Box::pin(writers::overwritten(cluster)),
        },
        Scenario {
            name: "objection",
            about: "a check that watches running jobs stops one after three objections",
            simulation: || {
                Simulation::new(|| {
                    Scripted::new(|r| Ok(writers::until_budget_is_gone(r))).policy(writers::stops())
                })
            },
            play: |cluster| Box::pin(writers::objected(cluster)),
        },
        Scenario {
            name: "licences",
            about: "three jobs share two licences of a server outside the cluster",
            simulation: || {
                Simulation::with_tools(|tools| tools.outside(|| Vendor::new(2)))
                    .invariant("sold once", Vendor::sells_once)
            },
            play: |cluster| Box::pin(outside::licensed(cluster)),
        },
        Scenario {
            name: "passed-on",
            about: "a running job loses its quota and its licence to another, and gets both back",
            simulation: || {
                quota::preempting(Simulation::with_tools(|tools| {
                    tools.outside(|| Vendor::new(1))
                }))
                .invariant("sold once", Vendor::sells_once)
            },
            play: |cluster| Box::pin(outside::passed_on(cluster)),
        },
        Scenario {
            name: "failover",
            about: "two replicas; the one that acts dies, and the other goes on",
            simulation: || {
                Simulation::new(|| Scripted::new(|r| Ok(verdicts::until_four_past(r)))).replicas(2)
            },
            play: |cluster| Box::pin(writers::failed_over(cluster)),
        },
        Scenario {
            name: "hold",
            about: "the queue is stopped while a job waits for a second check, and goes on",
            simulation: || {
                let first = || {
                    Scripted::new(|r| Ok(quota::until_five_past(r)))
                        .takes(quota::longer_after_five_past)
                };
                Simulation::new(first).and("second", |_| quota::AfterFivePast)
            },
            play: |cluster| Box::pin(quota::held(cluster)),
        },
    ]
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_default()
}

fn wait_until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
