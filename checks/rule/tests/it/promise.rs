//! The rule check's kinds are compatible with all earlier definitions.

use kueue_check_promise::{Kind, Promise, Server};
use kueue_check_rule::approval::resource::{Approval, ApprovalCheck};
use kueue_check_rule::celcheck::resource::CELCheck;
use kueue_check_rule::webhook::resource::WebhookCheck;

fn promise() -> Promise {
    let kinds = vec![
        Kind::of::<CELCheck>(),
        Kind::of::<WebhookCheck>(),
        Kind::of::<ApprovalCheck>(),
        Kind::of::<Approval>(),
    ];
    Promise::read(env!("CARGO_MANIFEST_DIR"), kinds).unwrap()
}

#[test]
fn no_change_of_the_definitions_breaks_what_was_released() {
    assert_eq!(promise().broken(), [""; 0]);
}

#[test]
fn the_objects_of_a_release_have_every_field_of_its_definitions() {
    assert_eq!(promise().unset_fields(), [""; 0]);
}

#[tokio::test]
async fn objects_survive_upgrade_downgrade_and_upgrade() {
    promise().keep(&Server::simulated()).await.unwrap();
}

#[tokio::test]
async fn objects_survive_upgrade_downgrade_and_upgrade_on_a_real_api_server() {
    if let Some(server) = Server::real().await {
        promise().keep(&server).await.unwrap();
    }
}
