//! The state machine of the open-source autoscaler, row by row.

use std::time::Duration;

use kueue_check_kueue_model::autoscaler::{Order, Profile, Settings};

use super::play::{ATOMIC, CHECK, DAY, MINUTE, Play, QUEUED, pool};

const LATEST: Profile = Profile::Oss137;

#[test]
fn one_scan_decides() {
    let not_found = [
        "0 a Accepted=True Accepted",
        "0 a Provisioned=False CapacityIsNotFound",
    ];
    let found = [
        "0 a Accepted=True Accepted",
        "0 a Provisioned=True CapacityIsFound",
    ];
    let added = [
        "0 a Accepted=True Accepted",
        "0 a Provisioned=True CapacityIsProvisioned",
    ];
    let failed = [
        "0 a Accepted=True Accepted",
        "0 a Failed=True CapacityIsNotFound",
    ];
    let all = &Profile::ALL[..];
    let table: [(&str, &[Profile], Play, &[&str]); 12] = [
        (
            "check: fits",
            all,
            Play::of(LATEST, pool(2, 2)).request("a", CHECK, 8),
            &found,
        ),
        (
            "check: does not fit",
            all,
            Play::of(LATEST, pool(2, 2)).request("a", CHECK, 9),
            &not_found,
        ),
        (
            "check: never adds nodes",
            all,
            Play::of(LATEST, pool(0, 9)).request("a", CHECK, 1),
            &not_found,
        ),
        (
            "check: noRetry",
            &Profile::ALL[1..],
            Play::of(LATEST, pool(0, 9))
                .request("a", CHECK, 1)
                .parameter("noRetry", "true"),
            &failed,
        ),
        (
            "check: noRetry is unknown to 1.31",
            &Profile::ALL[..1],
            Play::of(LATEST, pool(0, 9))
                .request("a", CHECK, 1)
                .parameter("noRetry", "true"),
            &not_found,
        ),
        (
            "check: noRetry that is no boolean",
            all,
            Play::of(LATEST, pool(0, 9))
                .request("a", CHECK, 1)
                .parameter("noRetry", "yes"),
            &not_found,
        ),
        (
            "atomic: fits",
            all,
            Play::of(LATEST, pool(2, 9)).request("a", ATOMIC, 8),
            &found,
        ),
        (
            "atomic: can grow",
            all,
            Play::of(LATEST, pool(0, 3)).request("a", ATOMIC, 12),
            &added,
        ),
        (
            "atomic: cannot grow so far",
            all,
            Play::of(LATEST, pool(0, 3)).request("a", ATOMIC, 13),
            &not_found,
        ),
        (
            "unknown class",
            all,
            Play::of(LATEST, pool(9, 9)).request("a", "example.com/other", 1),
            &[],
        ),
        (
            "queued provisioning",
            &Profile::ALL[..4],
            Play::of(LATEST, pool(9, 9)).request("a", QUEUED, 1),
            &[],
        ),
        (
            "meant for another instance",
            &Profile::ALL[1..],
            Play::of(LATEST, pool(9, 9))
                .request("a", CHECK, 1)
                .parameter("processorInstance", "x"),
            &[],
        ),
    ];
    for (case, profiles, play, expected) in table {
        for profile in profiles {
            let settings = Settings::new(*profile, play.settings.pools.clone());
            let mut now = Play::new(settings);
            now.world = play.world.clone();
            now.scan();
            assert_eq!(now.log, expected, "{case}, {profile:?}");
        }
    }
}

#[test]
fn the_messages_are_the_autoscalers() {
    let mut play = Play::of(LATEST, pool(1, 1))
        .request("a", CHECK, 4)
        .request("b", CHECK, 1);
    play.until(30);
    assert_eq!(
        play.message("a", "Accepted"),
        "ProvisioningRequest is accepted by ClusterAutoscaler"
    );
    assert_eq!(
        play.message("a", "Provisioned"),
        "Capacity is found in the cluster"
    );
    assert_eq!(
        play.message("b", "Provisioned"),
        "Capacity is not found, CA will try to find it later."
    );
}

#[test]
fn an_instance_takes_what_names_it() {
    let named = |class: &str, instance: Option<&str>| {
        let settings =
            Settings::new(LATEST, [pool(9, 9)]).processor_instance(Some("mine".to_owned()));
        let mut play = Play::new(settings).request("a", class, 1);
        if let Some(instance) = instance {
            play = play.parameter("processorInstance", instance);
        }
        play.scan();
        !play.log.is_empty()
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
    let mut play = Play::of(LATEST, pool(1, 1))
        .request("a", CHECK, 1)
        .request("b", CHECK, 1);
    play.world.requests[0].pod_sets[0].template = "gone".to_owned();
    play.scan();
    play.expect(&[
        "0 a Failed=True FailedToCreatePods",
        "0 b Accepted=True Accepted",
        "0 b Provisioned=True CapacityIsFound",
    ]);
}

#[test]
fn attempts_are_1_2_4_8_10_10_minutes_apart_and_each_is_accepted_anew() {
    let mut play = Play::of(LATEST, pool(0, 0)).request("a", CHECK, 1);
    play.until(40 * MINUTE);
    let accepted: Vec<i64> = play
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
    let mut play = Play::of(Profile::Oss131, pool(0, 0)).request("a", CHECK, 1);
    play.until(25 * MINUTE);
    let tries = play
        .log
        .iter()
        .filter(|line| line.contains("Accepted"))
        .count();
    assert_eq!(tries, 3);
}

#[test]
fn a_restart_resets_backoffs() {
    let mut play = Play::of(LATEST, pool(0, 0)).request("a", CHECK, 1);
    play.until(210);
    play.log.clear();
    play.memory.restart();
    play.until(280);
    play.expect(&[
        "270 a Accepted=True Accepted",
        "270 a Provisioned=False CapacityIsNotFound",
    ]);
}

#[test]
fn provisioned_unknown_is_never_tried() {
    let mut play = Play::of(LATEST, pool(1, 1)).request("a", CHECK, 9);
    play.scan();
    let condition = &mut play.world.requests[0].conditions[1];
    condition.status = "Unknown".to_owned();
    play.log.clear();
    play.until(DAY);
    play.expect(&[]);
}

#[test]
fn bookings_and_requests_end() {
    let mut play = Play::of(LATEST, pool(1, 1))
        .request("a", CHECK, 4)
        .request("b", CHECK, 9);
    play.until(11 * MINUTE);
    assert!(
        play.log
            .contains(&"610 a BookingExpired=True CapacityReservationTimeExpired".to_owned())
    );
    play.log.clear();
    play.until(7 * DAY - 1);
    let failed = "604810 b Failed=True Expired".to_owned();
    assert!(!play.log.contains(&failed));
    play.until(7 * DAY + 60);
    assert!(play.log.contains(&failed));
    assert!(play.log.contains(&"604810 a deleted".to_owned()));
}

#[test]
fn release_1_31_deletes_nothing() {
    let mut play = Play::of(Profile::Oss131, pool(1, 1)).request("a", CHECK, 4);
    play.until(9 * DAY);
    play.expect(&[
        "0 a Accepted=True Accepted",
        "0 a Provisioned=True CapacityIsFound",
        "610 a BookingExpired=True CapacityReservationTimeExpired",
    ]);
}

#[test]
fn old_requests_of_any_class_are_deleted() {
    let mut play = Play::of(LATEST, pool(1, 1)).request("a", CHECK, 1);
    play.scan();
    play.world.requests[0].class = "example.com/other".to_owned();
    play.log.clear();
    play.until(8 * DAY);
    play.expect(&["604810 a deleted"]);
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
        let mut play = Play::of(profile, pool(2, 2)).request("a", CHECK, 4);
        play.scan();
        play.log.clear();
        play.now += Duration::from_secs(10);
        play.pods("a", 3);
        play.scan();
        play.expect(&[]);
        play.pods("a", 1);
        play.scan();
        assert_eq!(play.log, expected, "{profile:?}");
    }
}

#[test]
fn a_booking_whose_templates_are_gone_fails_and_stays_provisioned() {
    let mut play = Play::of(LATEST, pool(1, 1)).request("a", CHECK, 1);
    play.scan();
    play.log.clear();
    play.world.templates.clear();
    play.scan();
    play.expect(&["0 a Failed=True FailedToBookCapacity"]);
    assert!(
        play.message("a", "Failed")
            .starts_with("Couldn't create pods, err: ")
    );
    assert_eq!(
        play.message("a", "Provisioned"),
        "Capacity is found in the cluster"
    );
}

#[test]
fn a_booking_keeps_others_out_until_it_expires() {
    let settings = Settings::new(LATEST, [pool(1, 1)]).booking_ttl(Duration::from_secs(60));
    let mut play = Play::new(settings)
        .request("a", CHECK, 3)
        .request("b", CHECK, 2);
    play.until(3 * MINUTE);
    play.expect(&[
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
        let mut play = Play::of(profile, pool(1, 1))
            .request("a", CHECK, 1)
            .request("b", CHECK, 1);
        play.until(30);
        play.log[2].clone()
    };
    assert_eq!(second(Profile::Oss133), "10 b Accepted=True Accepted");
    assert_eq!(second(Profile::Oss135), "0 b Accepted=True Accepted");
}

#[test]
fn a_batch_is_one_loop_and_one_write_each() {
    let settings = Settings::new(Profile::Oss133, [pool(1, 1)]).batch(Some(2));
    let mut play = Play::new(settings)
        .request("a", CHECK, 1)
        .request("b", CHECK, 1)
        .request("c", CHECK, 1);
    play.scan();
    play.expect(&[
        "0 a Accepted=True Accepted",
        "0 a Provisioned=True CapacityIsFound",
        "0 b Accepted=True Accepted",
        "0 b Provisioned=True CapacityIsFound",
    ]);
    assert_eq!(play.modes, ["update", "update"]);
}

#[test]
fn atomic_outcomes_are_applied_from_1_32() {
    let modes = |profile| {
        let mut play = Play::of(profile, pool(0, 1)).request("a", ATOMIC, 1);
        play.scan();
        play.modes
    };
    assert_eq!(modes(Profile::Oss131), ["update", "update"]);
    assert_eq!(modes(Profile::Oss133), ["update", "apply"]);
}

#[test]
fn the_order_is_chosen() {
    let first = |order, seed| {
        let settings = Settings::new(LATEST, [pool(1, 1)]).order(order).seed(seed);
        let mut play = Play::new(settings);
        for name in ["c", "b", "a"] {
            play = play.request(name, CHECK, 1);
            play.now += Duration::from_secs(1);
        }
        play.world.requests.reverse();
        play.scan();
        play.log[0].split(' ').nth(1).unwrap().to_owned()
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
    let mut play = Play::new(settings)
        .request("a", CHECK, 1)
        .request("b", CHECK, 1);
    play.until(5 * MINUTE);
    play.expect(&[
        "40 a Accepted=True Accepted",
        "40 b Accepted=True Accepted",
        "160 a Provisioned=True CapacityIsFound",
        "160 b Provisioned=True CapacityIsFound",
    ]);
}
