//! Phases and states derived from conditions.

use kueue_check::api::CheckState;
use kueue_check_sim::timeline::{Phase, Timeline, Track};

use super::fixtures::{Scenario, at, checks};

fn track(scenario: Scenario) -> Track {
    let timeline = Timeline::new(scenario.seen, at(100));
    timeline.tracks.into_iter().next().unwrap()
}

/// Returns each phase with its first and last second.
fn phases(track: &Track) -> Vec<(Phase, i64, i64)> {
    let seconds = |moment: jiff::Timestamp| moment.duration_since(at(0)).as_secs();
    let spans = track.phases.iter();
    spans
        .map(|span| (span.what, seconds(span.from), seconds(span.until)))
        .collect()
}

fn states(track: &Track, check: &str) -> Vec<(String, i64, i64)> {
    let seconds = |moment: jiff::Timestamp| moment.duration_since(at(0)).as_secs();
    let spans = track.checks[check].iter();
    spans
        .map(|span| {
            (
                span.what.to_string(),
                seconds(span.from),
                seconds(span.until),
            )
        })
        .collect()
}

#[test]
fn conditions_determine_the_phase() {
    let scenario = || Scenario::new("one");
    let table = [
        ("new", scenario(), Phase::Waiting),
        ("quota", scenario().reserved(), Phase::QuotaReserved),
        ("admitted", scenario().reserved().admitted(), Phase::Running),
        (
            "evicted, quota still held",
            scenario().reserved().admitted().evicted(""),
            Phase::Evicted,
        ),
        (
            "evicted, an earlier requeue still written",
            scenario()
                .condition("Requeued", true, "")
                .reserved()
                .evicted(""),
            Phase::Evicted,
        ),
        (
            "evicted, in backoff",
            scenario().evicted("").quota_taken(false),
            Phase::Evicted,
        ),
        (
            "evicted, in the queue again",
            scenario().evicted("").quota_taken(true),
            Phase::Waiting,
        ),
        (
            "deactivated, quota still held",
            scenario().reserved().evicted("").active(false),
            Phase::Evicted,
        ),
        (
            "deactivated",
            scenario().evicted("").active(false).quota_taken(false),
            Phase::Deactivated,
        ),
        (
            "reactivated, not yet requeued",
            scenario()
                .evicted("")
                .quota_taken(false)
                .because("DeactivatedDueToAdmissionCheck"),
            Phase::Waiting,
        ),
        (
            "quota lost without eviction",
            scenario().condition("QuotaReserved", false, ""),
            Phase::Waiting,
        ),
        (
            "finished",
            scenario().reserved().admitted().finished(),
            Phase::Finished,
        ),
    ];
    for (case, scenario, expected) in table {
        assert_eq!(
            track(scenario.seen(0)).last_phase(),
            Some(expected),
            "{case}"
        );
    }
}

#[test]
fn a_life_is_a_row_of_phases_without_gaps() {
    let scenario = Scenario::new("one")
        .seen(0)
        .reserved()
        .seen(10)
        .seen(15)
        .admitted()
        .seen(20)
        .finished()
        .seen(70);
    let expected = [
        (Phase::Waiting, 0, 10),
        (Phase::QuotaReserved, 10, 20),
        (Phase::Running, 20, 70),
        (Phase::Finished, 70, 100),
    ];
    assert_eq!(phases(&track(scenario)), expected);
}

#[test]
fn an_eviction_within_an_instant_is_kept_and_what_led_to_it_in_that_instant_is_not() {
    let scenario = Scenario::new("one")
        .seen(0)
        .reserved()
        .check("budget", "Pending", "")
        .seen(10)
        .check("budget", "Retry", "no money")
        .seen(20)
        .evicted("no money")
        .check("budget", "Pending", "")
        .seen(20)
        .quota_taken(false)
        .seen(20)
        .quota_taken(true)
        .seen(20)
        .reserved()
        .seen(20);
    let track = track(scenario);
    let expected = [
        (Phase::Waiting, 0, 10),
        (Phase::QuotaReserved, 10, 20),
        (Phase::Evicted, 20, 20),
        (Phase::QuotaReserved, 20, 100),
    ];
    assert_eq!(phases(&track), expected);
    assert_eq!(track.times_in(Phase::Evicted), 1);
    let expected = [("Pending", 10, 20), ("Retry", 20, 20), ("Pending", 20, 100)];
    assert_eq!(
        states(&track, "budget"),
        expected.map(|(state, from, until)| (state.to_owned(), from, until))
    );
}

#[test]
fn a_pending_check_without_quota_is_a_gap_and_a_ready_one_is_not() {
    let scenario = checks(Scenario::new("one"))
        .seen(0)
        .reserved()
        .check("budget", "Ready", "")
        .seen(10)
        .condition("QuotaReserved", false, "ClusterQueue is stopped")
        .seen(20)
        .reserved()
        .seen(30)
        .finished()
        .seen(40);
    let track = track(scenario);
    let owned = |(state, from, until): (&str, _, _)| (state.to_owned(), from, until);
    assert_eq!(
        states(&track, "window"),
        [("Pending", 10, 20), ("Pending", 30, 40)].map(owned)
    );
    assert_eq!(states(&track, "budget"), [("Ready", 10, 40)].map(owned));
}

#[test]
fn the_last_message_of_a_state_is_kept() {
    let scenario = Scenario::new("one")
        .reserved()
        .check("window", "Pending", "in 9 m")
        .seen(0)
        .check("window", "Pending", "in 5 m")
        .seen(4);
    let track = track(scenario);
    assert_eq!(track.checks["window"].len(), 1);
    assert_eq!(track.checks["window"][0].what, CheckState::Pending);
    assert_eq!(track.checks["window"][0].message, "in 5 m");
}

#[test]
fn a_deleted_workload_ends_and_one_of_the_same_name_is_another() {
    let mut again = Scenario::new("one");
    again.set_uid("second");
    let seen = Scenario::new("one")
        .seen(0)
        .reserved()
        .seen(5)
        .deleted(10)
        .seen;
    let again = again.seen(20).seen;
    let timeline = Timeline::new(again.into_iter().chain(seen), at(100));
    let [first, second] = &timeline.tracks[..] else {
        panic!("two tracks, not {:?}", timeline.tracks);
    };
    assert_eq!(
        phases(first),
        [(Phase::Waiting, 0, 5), (Phase::QuotaReserved, 5, 10)]
    );
    assert_eq!(first.deleted, Some(at(10)));
    assert_eq!(phases(second), [(Phase::Waiting, 20, 100)]);
}

#[test]
fn what_comes_after_the_end_is_left_out() {
    let scenario = Scenario::new("one").seen(0).reserved().seen(101);
    assert_eq!(phases(&track(scenario)), [(Phase::Waiting, 0, 100)]);
}
