//! What earlier definitions of Budget and NamespaceBudget promised is kept.

use std::path::Path;

use kube::CustomResourceExt;
use kueue_check_budget::resource::{Budget, NamespaceBudget};
use kueue_check_promise::{Frozen, Kind, Promise, Server};
use kueue_check_testenv::Cluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn promise() -> Promise {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promise");
    Promise {
        present: vec![Budget::crd(), NamespaceBudget::crd()],
        kinds: vec![
            kind::<Budget>("Budget"),
            kind::<NamespaceBudget>("NamespaceBudget"),
        ],
        frozen: Frozen::read_all(&folder).unwrap(),
    }
}

fn kind<K: DeserializeOwned + Serialize>(name: &'static str) -> Kind {
    let read_and_write = |object: Value| {
        let read: K = serde_json::from_value(object)?;
        serde_json::to_value(read)
    };
    Kind {
        name,
        read_and_write,
    }
}

#[test]
fn no_change_of_the_definitions_breaks_what_was_released() {
    let promise = promise();
    assert!(!promise.frozen.is_empty());
    assert_eq!(promise.broken(), [""; 0]);
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
    let what = "upgrade and downgrade of definitions on a real API server";
    let Some(cluster) = Cluster::start_or_skip(what).await else {
        return;
    };
    let server = Server::Real(Box::new(cluster));
    promise().keep(&server).await.unwrap();
}
