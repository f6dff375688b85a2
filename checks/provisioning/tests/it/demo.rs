//! The demo runs to its expected end.

#[test]
fn the_demo_shows_a_retry_an_expired_booking_and_a_revocation() {
    let table = kueue_check_provisioning::demo::run().timeline().table(140);
    for expected in [
        "Retrying after failure: the cloud said 500",
        "Retrying after booking expired",
        "deactivated",
    ] {
        assert!(table.contains(expected), "{expected}:\n{table}");
    }
}
