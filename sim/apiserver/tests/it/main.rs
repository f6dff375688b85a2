//! One table of requests, run on the in-memory server and on a real kube-apiserver. Both must
//! return the same responses.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on ends"
)]

mod apply;
mod builtin;
mod contract;
mod crud;
mod definitions;
mod deletes;
mod expiry;
mod forms;
mod garbage;
mod harness;
mod kubectl;
mod kueue;
mod lists;
mod options;
mod patches;
mod rejections;
mod rules;
mod selectors;
mod validation;
mod versions;
mod watches;

use harness::{Row, compare, real, simulated};

fn table() -> Vec<Row> {
    let tables = [
        crud::rows(),
        patches::rows(),
        apply::rows(),
        validation::rows(),
        rules::rows(),
        versions::rows(),
        builtin::rows(),
        forms::rows(),
        options::rows(),
        rejections::rows(),
        selectors::rows(),
        lists::rows(),
        watches::rows(),
        deletes::rows(),
        kueue::rows(),
        contract::rows(),
    ];
    tables.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_respond_alike() {
    let mut rows = table();
    let together = rows.len();
    rows.extend(expiry::rows());
    assert!(rows.len() >= 400, "only {} rows", rows.len());
    let sim = simulated().await;
    let ours = sim.run(&rows, together).await;
    let Some(cluster) = real().await else {
        for (row, replies) in rows.iter().zip(&ours) {
            row.check_literals("in memory", replies);
        }
        return;
    };
    let theirs = cluster.run(&rows, together).await;
    compare(&rows, &ours, &theirs);
}
