//! A Budget that the program cannot read, because its definition is newer.

use kube::CustomResourceExt;
use kueue_check_budget::resource::Budget;
use kueue_check_sim::Job;
use serde_json::json;

use super::super::harness::budget;
use super::{simulation, spec};

/// A watch of typed objects ends at the first that cannot be read, so that no Budget would be
/// known.
#[test]
fn a_budget_that_cannot_be_read_costs_itself_only() {
    let mut definition = serde_json::to_value(Budget::crd()).unwrap();
    let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/enforcement";
    let enforcement = definition.pointer_mut(pointer).unwrap();
    enforcement["enum"]
        .as_array_mut()
        .unwrap()
        .push(json!("Later"));
    let mut later = spec("5");
    later["enforcement"] = json!("Later");
    simulation("1").run(async |cluster| {
        cluster.apply(&definition);
        cluster.apply(&budget("later", &later));
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b"));
        cluster
            .expect_message("b", "is left of namespace default")
            .await;
        // Changes of the Budget that can be read are still applied.
        cluster.apply(&budget("budget", &spec("2")));
        cluster.expect_admitted("b").await;
    });
}
