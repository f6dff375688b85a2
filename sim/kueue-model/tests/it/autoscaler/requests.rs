//! The state machine of the open-source autoscaler, row by row.

use std::time::Duration;

use kueue_check_kueue_model::autoscaler::{Order, Profile, Settings};

use super::scenario::{ATOMIC, CHECK, DAY, MINUTE, QUEUED, Scenario, pool};

const LATEST: Profile = Profile::Oss137;

#[test]
fn one_scan_decides() {
    const FAILED: &str = "Failed=True CapacityIsNotFound";
    const FOUND: &str = "Provisioned=True CapacityIsFound";
    const NOT_FOUND: &str = "Provisioned=False CapacityIsNotFound";
    const ADDED: &str = "Provisioned=True CapacityIsProvisioned";
    let all = &Profile::ALL[..];
    let (since_1_32, before) = (&Profile::ALL[1..], &Profile::ALL[..1]);
    // The case, the profiles, the pool, the class and the pods, a parameter, the outcome after Accepted.
    let table = [
        ("fits", all, (2, 2), (CHECK, 8), None, FOUND),
        ("does not fit", all, (2, 2), (CHECK, 9), None, NOT_FOUND),
        ("never adds nodes", all, (0, 9), (CHECK, 1), None, NOT_FOUND),
        (
            "noRetry",
            since_1_32,
            (0, 9),
            (CHECK, 1),
            Some(("noRetry", "true")),
            FAILED,
        ),
        (
            "noRetry is unknown to 1.31",
            before,
            (0, 9),
            (CHECK, 1),
            Some(("noRetry", "true")),
            NOT_FOUND,
        ),
        (
            "noRetry that is no boolean",
            all,
            (0, 9),
            (CHECK, 1),
            Some(("noRetry", "yes")),
            NOT_FOUND,
        ),
        ("fits", all, (2, 9), (ATOMIC, 8), None, FOUND),
        ("can grow", all, (0, 3), (ATOMIC, 12), None, ADDED),
        (
            "cannot grow so far",
            all,
            (0, 3),
            (ATOMIC, 13),
            None,
            NOT_FOUND,
        ),
        (
            "unknown class",
            all,
            (9, 9),
            ("example.com/other", 1),
            None,
            "",
        ),
        (
            "queued provisioning",
            &Profile::ALL[..4],
            (9, 9),
            (QUEUED, 1),
            None,
            "",
        ),
        (
            "meant for another instance",
            since_1_32,
            (9, 9),
            (CHECK, 1),
            Some(("processorInstance", "x")),
            "",
        ),
    ];
    for (case, profiles, (current, max), (class, pods), parameter, outcome) in table {
        for profile in profiles {
            let mut scenario = Scenario::of(*profile, pool(current, max)).request("a", class, pods);
            if let Some((key, value)) = parameter {
                scenario = scenario.parameter(key, value);
            }
            scenario.scan();
            let outcomes = ["Accepted=True Accepted", outcome].map(|line| format!("0 a {line}"));
            let expected = if outcome.is_empty() {
                &[][..]
            } else {
                &outcomes
            };
            assert_eq!(scenario.log, expected, "{class}: {case}, {profile:?}");
        }
    }
}

#[test]
fn the_messages_are_the_autoscalers() {
    let mut scenario = Scenario::of(LATEST, pool(1, 1))
        .request("a", CHECK, 4)
        .request("b", CHECK, 1);
    scenario.until(30);
    assert_eq!(
        scenario.message("a", "Accepted"),
        "ProvisioningRequest is accepted by ClusterAutoscaler"
    );
    assert_eq!(
        scenario.message("a", "Provisioned"),
        "Capacity is found in the cluster"
    );
    assert_eq!(
        scenario.message("b", "Provisioned"),
        "Capacity is not found, CA will try to find it later."
    );
}

#[test]
fn an_instance_takes_what_names_it() {
    let named = |class: &str, instance: Option<&str>| {
        let settings =
            Settings::new(LATEST, [pool(9, 9)]).processor_instance(Some("mine".to_owned()));
        let mut scenario = Scenario::new(settings).request("a", class, 1);
        if let Some(instance) = instance {
            scenario = scenario.parameter("processorInstance", instance);
        }
        scenario.scan();
        !scenario.log.is_empty()
    };
    let table = [
        (CHECK, Some("mine"), true),
        (CHECK, Some("other"), false),
        (CHECK, None, false),
        ("minecheck-capacity.autoscaling.x-k8s.io", None, true),
        (ATOMIC, Some("mine"), false),
    ];
    for (class, instance, expected) in table {
        assert_eq!(named(class, instance), expected, "{class} {instance:?}");
    }
}

#[test]
fn missing_templates_fail_at_the_first_scan_and_the_next_request_is_handled() {
    let mut scenario = Scenario::of(LATEST, pool(1, 1))
        .request("a", CHECK, 1)
        .request("b", CHECK, 1);
    scenario.snapshot.requests[0].pod_sets[0].template = "gone".to_owned();
    scenario.scan();
    scenario.expect(&[
        "0 a Failed=True FailedToCreatePods",
        "0 b Accepted=True Accepted",
        "0 b Provisioned=True CapacityIsFound",
    ]);
}

#[test]
fn attempts_are_1_2_4_8_10_10_minutes_apart_and_each_is_accepted_anew() {
    let mut scenario = Scenario::of(LATEST, pool(0, 0)).request("a", CHECK, 1);
    scenario.until(40 * MINUTE);
    let accepted: Vec<i64> = scenario
        .log
        .iter()
        .filter(|line| line.contains("Accepted"))
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    // An attempt follows at the first scan after the backoff, strictly later.
    assert_eq!(accepted, [0, 70, 200, 450, 940, 1550, 2160]);
}

#[test]
fn release_1_31_tries_every_ten_minutes() {
    let mut scenario = Scenario::of(Profile::Oss131, pool(0, 0)).request("a", CHECK, 1);
    scenario.until(25 * MINUTE);
    let tries = scenario
        .log
        .iter()
        .filter(|line| line.contains("Accepted"))
        .count();
    assert_eq!(tries, 3);
}

#[test]
fn a_restart_resets_backoffs() {
    let mut scenario = Scenario::of(LATEST, pool(0, 0)).request("a", CHECK, 1);
    scenario.until(210);
    scenario.log.clear();
    scenario.state.restart();
    scenario.until(280);
    scenario.expect(&[
        "270 a Accepted=True Accepted",
        "270 a Provisioned=False CapacityIsNotFound",
    ]);
}

#[test]
fn provisioned_unknown_is_never_tried() {
    let mut scenario = Scenario::of(LATEST, pool(1, 1)).request("a", CHECK, 9);
    scenario.scan();
    let condition = &mut scenario.snapshot.requests[0].conditions[1];
    condition.status = "Unknown".to_owned();
    scenario.log.clear();
    scenario.until(DAY);
    scenario.expect(&[]);
}

#[test]
fn bookings_and_requests_end() {
    let mut scenario = Scenario::of(LATEST, pool(1, 1))
        .request("a", CHECK, 4)
        .request("b", CHECK, 9);
    scenario.until(11 * MINUTE);
    assert!(
        scenario
            .log
            .contains(&"610 a BookingExpired=True CapacityReservationTimeExpired".to_owned())
    );
    scenario.log.clear();
    scenario.until(7 * DAY - 1);
    let failed = "604810 b Failed=True Expired".to_owned();
    assert!(!scenario.log.contains(&failed));
    scenario.until(7 * DAY + 60);
    assert!(scenario.log.contains(&failed));
    assert!(scenario.log.contains(&"604810 a deleted".to_owned()));
}

#[test]
fn release_1_31_deletes_nothing() {
    let mut scenario = Scenario::of(Profile::Oss131, pool(1, 1)).request("a", CHECK, 4);
    scenario.until(9 * DAY);
    scenario.expect(&[
        "0 a Accepted=True Accepted",
        "0 a Provisioned=True CapacityIsFound",
        "610 a BookingExpired=True CapacityReservationTimeExpired",
    ]);
}

#[test]
fn old_requests_of_any_class_are_deleted() {
    let mut scenario = Scenario::of(LATEST, pool(1, 1)).request("a", CHECK, 1);
    scenario.scan();
    scenario.snapshot.requests[0].class = "example.com/other".to_owned();
    scenario.log.clear();
    scenario.until(8 * DAY);
    scenario.expect(&["604810 a deleted"]);
}

#[test]
fn a_booking_ends_when_all_pods_are_there() {
    for (profile, expected) in [
        (Profile::Oss135, vec![]),
        (
            Profile::Oss137,
            vec!["10 a BookingExpired=True CapacityBookingConsumed"],
        ),
    ] {
        let mut scenario = Scenario::of(profile, pool(2, 2)).request("a", CHECK, 4);
        scenario.scan();
        scenario.log.clear();
        scenario.now += Duration::from_secs(10);
        scenario.pods("a", 3);
        scenario.scan();
        scenario.expect(&[]);
        scenario.pods("a", 1);
        scenario.scan();
        assert_eq!(scenario.log, expected, "{profile:?}");
    }
}

#[test]
fn a_booking_whose_templates_are_gone_fails_and_stays_provisioned() {
    let mut scenario = Scenario::of(LATEST, pool(1, 1)).request("a", CHECK, 1);
    scenario.scan();
    scenario.log.clear();
    scenario.snapshot.templates.clear();
    scenario.scan();
    scenario.expect(&["0 a Failed=True FailedToBookCapacity"]);
    assert!(
        scenario
            .message("a", "Failed")
            .starts_with("Couldn't create pods, err: ")
    );
    assert_eq!(
        scenario.message("a", "Provisioned"),
        "Capacity is found in the cluster"
    );
}

#[test]
fn a_booking_keeps_others_out_until_it_expires() {
    let settings = Settings::new(LATEST, [pool(1, 1)]).booking_ttl(Duration::from_secs(60));
    let mut scenario = Scenario::new(settings)
        .request("a", CHECK, 3)
        .request("b", CHECK, 2);
    scenario.until(3 * MINUTE);
    scenario.expect(&[
        "0 a Accepted=True Accepted",
        "0 a Provisioned=True CapacityIsFound",
        "0 b Accepted=True Accepted",
        "0 b Provisioned=False CapacityIsNotFound",
        "70 a BookingExpired=True CapacityReservationTimeExpired",
        "70 b Accepted=True Accepted",
        "70 b Provisioned=True CapacityIsFound",
        "140 b BookingExpired=True CapacityReservationTimeExpired",
    ]);
}

#[test]
fn one_request_a_scan_before_1_35_and_all_at_once_after() {
    let second = |profile| {
        let mut scenario = Scenario::of(profile, pool(1, 1))
            .request("a", CHECK, 1)
            .request("b", CHECK, 1);
        scenario.until(30);
        scenario.log[2].clone()
    };
    assert_eq!(second(Profile::Oss133), "10 b Accepted=True Accepted");
    assert_eq!(second(Profile::Oss135), "0 b Accepted=True Accepted");
}

#[test]
fn a_batch_is_one_loop_and_one_write_each() {
    let settings = Settings::new(Profile::Oss133, [pool(1, 1)]).batch(Some(2));
    let mut scenario = Scenario::new(settings)
        .request("a", CHECK, 1)
        .request("b", CHECK, 1)
        .request("c", CHECK, 1);
    scenario.scan();
    scenario.expect(&[
        "0 a Accepted=True Accepted",
        "0 a Provisioned=True CapacityIsFound",
        "0 b Accepted=True Accepted",
        "0 b Provisioned=True CapacityIsFound",
    ]);
    assert_eq!(scenario.modes, ["update", "update"]);
}

#[test]
fn atomic_outcomes_are_applied_from_1_32() {
    let modes = |profile| {
        let mut scenario = Scenario::of(profile, pool(0, 1)).request("a", ATOMIC, 1);
        scenario.scan();
        scenario.modes
    };
    assert_eq!(modes(Profile::Oss131), ["update", "update"]);
    assert_eq!(modes(Profile::Oss133), ["update", "apply"]);
}

#[test]
fn the_order_is_chosen() {
    let first = |order, seed| {
        let settings = Settings::new(LATEST, [pool(1, 1)]).order(order).seed(seed);
        let mut scenario = Scenario::new(settings);
        for name in ["c", "b", "a"] {
            scenario = scenario.request(name, CHECK, 1);
            scenario.now += Duration::from_secs(1);
        }
        scenario.snapshot.requests.reverse();
        scenario.scan();
        scenario.log[0].split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(first(Order::Listed, 0), "a");
    assert_eq!(first(Order::Fifo, 0), "c");
    let random: std::collections::BTreeSet<_> =
        (0..20).map(|seed| first(Order::Random, seed)).collect();
    assert_eq!(random.len(), 3);
    assert_eq!(first(Order::Random, 7), first(Order::Random, 7));
}

#[test]
fn attempts_take_their_time_without_holding_up_others() {
    let settings = Settings::new(LATEST, [pool(1, 1)])
        .accept_delay(Duration::from_secs(30))
        .provision_delay(kueue_check_kueue_model::autoscaler::Delay::Fixed(
            Duration::from_secs(120),
        ));
    let mut scenario = Scenario::new(settings)
        .request("a", CHECK, 1)
        .request("b", CHECK, 1);
    scenario.until(5 * MINUTE);
    scenario.expect(&[
        "40 a Accepted=True Accepted",
        "40 b Accepted=True Accepted",
        "160 a Provisioned=True CapacityIsFound",
        "160 b Provisioned=True CapacityIsFound",
    ]);
}
