//! The search: breadth first, so that it finds a violation by one of the shortest ways; with the
//! large bounds depth first, because the states that are still to be visited fill the memory.

use std::collections::{HashMap, VecDeque};

use super::model::{Action, Bounds, ClusterChange, Model};

/// What a search found.
struct Found {
    states: usize,
    depth: usize,
    /// False if the search ended at its limit.
    complete: bool,
    /// The actions that lead to a violation, and what it is.
    violation: Option<(Vec<Action>, String)>,
}

/// Follows every interleaving within `bounds`, or until a violation, or until about `limit` states.
fn search(bounds: Bounds, limit: usize) -> Found {
    let start = Model::new(bounds);
    let mut seen: HashMap<u64, Option<(u64, Action)>> = HashMap::new();
    let mut frontier = VecDeque::new();
    let first = start.fingerprint();
    seen.insert(first, None);
    frontier.push_back((start, first, 0));
    let mut depth = 0;
    let next = if large() {
        VecDeque::pop_back
    } else {
        VecDeque::pop_front
    };
    while let Some((model, fingerprint, steps)) = next(&mut frontier) {
        depth = depth.max(steps);
        for action in model.actions() {
            let mut next = model.clone();
            next.act(action);
            let to = next.fingerprint();
            let is_new = !seen.contains_key(&to);
            let mut violation = next.violation.take();
            if is_new && violation.is_none() && next.is_idle() {
                violation = next.clone().settles().err();
            }
            if let Some(violation) = violation {
                let mut path = vec![action];
                let mut at = fingerprint;
                while let Some((before, action)) = seen[&at] {
                    path.push(action);
                    at = before;
                }
                path.reverse();
                return Found {
                    states: seen.len(),
                    depth: steps + 1,
                    complete: false,
                    violation: Some((path, violation)),
                };
            }
            if is_new {
                seen.insert(to, Some((fingerprint, action)));
                frontier.push_back((next, to, steps + 1));
            }
        }
        if seen.len() >= limit {
            break;
        }
    }
    Found {
        states: seen.len(),
        depth,
        complete: frontier.is_empty(),
        violation: None,
    }
}

fn verify(name: &str, bounds: Bounds) {
    #[expect(clippy::disallowed_methods, reason = "how long a search takes")]
    let began = std::time::Instant::now();
    let sample = extent() == Some("small");
    let limit = match extent() {
        Some("small") => 10_000,
        Some("large") => 100_000_000,
        _ => 3_000_000,
    };
    let found = search(bounds.clone(), limit);
    println!(
        "{name}: {} states{}, depth {}, {:.1} s, {} violations",
        found.states,
        if found.complete { "" } else { " and more" },
        found.depth,
        began.elapsed().as_secs_f64(),
        usize::from(found.violation.is_some()),
    );
    if let Some((path, violation)) = found.violation {
        let mut model = Model::new(bounds);
        for (step, action) in path.into_iter().enumerate() {
            println!("{:>3}. {}", step + 1, model.describe(action));
            model.act(action);
        }
        panic!("{name}: {violation}");
    }
    assert!(
        found.complete || sample,
        "{name}: more than {limit} states: tighten the bounds"
    );
}

use ClusterChange::{
    Admit, BreakParameters, ChangeFlavor, ChangeParameters, ChangePriority, Delete, DeleteCheck,
    DeleteParameters, Evict, EvictStale, LoseQuota, MakeCheckAgain, ReleaseQuota, Reserve,
};

/// Returns the value of `KUEUE_CHECK_SEARCH`: `small` ends early, `large` goes further than in CI.
fn extent() -> Option<&'static str> {
    let value = std::env::var_os("KUEUE_CHECK_SEARCH")?;
    ["small", "large"]
        .into_iter()
        .find(|extent| value == *extent)
}

fn large() -> bool {
    extent() == Some("large")
}

fn bounds(kinds: &'static [ClusterChange]) -> Bounds {
    Bounds {
        workloads: 1,
        checks: 1,
        replicas: 1,
        changes: 4,
        faults: 1,
        ticks: 2,
        slow: false,
        answers: 0,
        kinds,
        concurrency: 10,
        reserved: false,
        updates: false,
        parameters: false,
    }
}

#[tokio::test(start_paused = true)]
async fn one_workload_through_every_change() {
    verify(
        "one Workload, one check, every change",
        bounds(&[
            Reserve,
            Admit,
            LoseQuota,
            Evict,
            EvictStale,
            ReleaseQuota,
            Delete,
            ChangePriority,
        ]),
    );
}

#[tokio::test(start_paused = true)]
async fn two_checks_with_contradicting_updates() {
    verify(
        "one Workload, two checks, contradicting updates",
        Bounds {
            checks: 2,
            changes: 2,
            updates: true,
            ..bounds(&[Reserve, ChangePriority, LoseQuota])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn two_replicas_that_lead_in_turn() {
    verify(
        "one Workload, two replicas",
        Bounds {
            replicas: 2,
            changes: if large() { 4 } else { 3 },
            faults: 2,
            ..bounds(&[Reserve, Evict, ReleaseQuota, LoseQuota, Delete])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn two_workloads_and_two_checks() {
    verify(
        "two Workloads, two checks",
        Bounds {
            workloads: 2,
            checks: 2,
            changes: if large() { 3 } else { 2 },
            faults: usize::from(large()),
            ticks: 1,
            ..bounds(&[Reserve, Delete, LoseQuota])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn every_answer_of_a_check() {
    verify(
        "one Workload, every answer",
        Bounds {
            changes: if large() { 4 } else { 3 },
            answers: 2,
            ..bounds(&[Reserve, Admit, LoseQuota, Evict, ReleaseQuota, Delete])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn timers_that_fire_while_everything_is_on_its_way() {
    verify(
        "one Workload, a slow API server",
        Bounds {
            slow: true,
            changes: if large() { 4 } else { 3 },
            answers: 1,
            ..bounds(&[Reserve, LoseQuota, Evict, ReleaseQuota, Delete])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn answers_to_replicas_that_lead_in_turn() {
    verify(
        "one Workload, two replicas, every answer",
        Bounds {
            replicas: 2,
            changes: if large() { 3 } else { 2 },
            answers: if large() { 2 } else { 1 },
            ..bounds(&[Reserve, Evict, ReleaseQuota, LoseQuota, Delete])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn an_activation_that_fails() {
    verify(
        "one Workload, parameters, every answer",
        Bounds {
            parameters: true,
            changes: if large() { 3 } else { 2 },
            answers: if large() { 2 } else { 1 },
            ..bounds(&[Reserve, ChangeParameters, BreakParameters])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn parameters_that_change_while_everything_is_on_its_way() {
    verify(
        "one Workload, parameters that change",
        Bounds {
            parameters: true,
            changes: if large() { 4 } else { 3 },
            ..bounds(&[
                Reserve,
                LoseQuota,
                ChangeParameters,
                BreakParameters,
                DeleteParameters,
            ])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn a_flavor_that_changes_while_everything_is_on_its_way() {
    verify(
        "one Workload, a flavor that changes",
        Bounds {
            updates: true,
            ..bounds(&[Reserve, LoseQuota, ChangeFlavor, ChangePriority])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn an_admission_check_that_is_deleted_and_made_again() {
    verify(
        "an AdmissionCheck that is deleted and made again",
        Bounds {
            workloads: if large() { 2 } else { 1 },
            ..bounds(&[Reserve, LoseQuota, Delete, DeleteCheck, MakeCheckAgain])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn two_of_everything() {
    verify(
        "two Workloads, two checks, two replicas",
        Bounds {
            workloads: 2,
            checks: 2,
            replicas: 2,
            reserved: true,
            concurrency: 1,
            // A change in addition has millions of states.
            changes: usize::from(large()),
            ticks: 1,
            ..bounds(&[Reserve, Evict, ReleaseQuota, LoseQuota, Delete])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn two_workloads_and_two_replicas() {
    verify(
        "two Workloads, two replicas",
        Bounds {
            workloads: 2,
            replicas: 2,
            reserved: true,
            changes: if large() { 2 } else { 1 },
            ticks: 1,
            ..bounds(&[Reserve, Evict, ReleaseQuota, LoseQuota, Delete])
        },
    );
}

#[tokio::test(start_paused = true)]
async fn two_checks_and_two_replicas() {
    verify(
        "one Workload, two checks, two replicas",
        Bounds {
            checks: 2,
            replicas: 2,
            reserved: true,
            changes: if large() { 2 } else { 1 },
            ticks: 1,
            ..bounds(&[Reserve, Evict, ReleaseQuota, LoseQuota, Delete])
        },
    );
}
