//! The YAML files of the book, on the simulated cluster.

use std::fs;

use kueue_check_sim::Cluster;
use serde_json::Value;

use super::first_check;
use crate::repository;

/// Returns the documents of `file`.
pub(super) fn documents(file: &str) -> Vec<Value> {
    let path = repository().join("book/listings/yaml").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let documents = text.split("---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

/// Applies all documents of `file`.
pub(super) fn apply(cluster: &Cluster, file: &str) {
    for object in documents(file) {
        cluster.apply(&object);
    }
}

#[test]
fn the_samples_are_accepted_and_the_job_waits_for_the_window() {
    let (simulation, _) = first_check::picture();
    simulation.run(async |cluster| {
        for file in ["window.yaml", "queue.yaml", "job.yaml"] {
            apply(cluster, file);
        }
        cluster.expect_active("window").await;
        // Five o'clock UTC is six in Berlin.
        let message = |cluster: &Cluster| cluster.message_of("window", "train");
        cluster
            .expect("the job waits", |cluster| {
                message(cluster) == "jobs start at 07:00:00"
            })
            .await;
        cluster.advance_to("2026-11-21T06:00:00Z").await;
        cluster.expect_admitted("train").await;
    });
}
