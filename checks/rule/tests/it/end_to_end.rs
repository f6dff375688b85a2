//! The whole check over real HTTP, without a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kueue_check::api::Workload;
use kueue_check::{AdmissionCheckController, Check, Clock, Parameters, RequestBuilder};
use kueue_check_rule::document::{REVIEW, ReviewRequest};
use kueue_check_rule::tools::read_workload;
use kueue_check_rule::{WebhookCheck, webhook::resource};
use serde_json::{Value, json};

use crate::mock::run;
use crate::server::{Received, Reply, Server, open};
use crate::service::document;

fn workload(number: usize) -> Workload {
    let given = json!({"metadata": {"namespace": "vision", "name": format!("job-{number}"), "uid": format!("u-{number}")}});
    read_workload(&given, "window", Clock::system().now()).unwrap()
}

/// Returns Ready for every Workload with an even number.
fn respond(received: &Received) -> Reply {
    let review: ReviewRequest = serde_json::from_str(&received.body).unwrap();
    let items = review.request.items.iter().map(|item| {
        let number: usize = item.workload.name["job-".len()..].parse().unwrap();
        let state = if number.is_multiple_of(2) {
            "Ready"
        } else {
            "Pending"
        };
        json!({"uid": item.uid, "state": state, "message": item.workload.name})
    });
    let items: Vec<Value> = items.collect();
    Reply::json(200, &document(REVIEW, &json!({"items": items})))
}

#[tokio::test]
async fn evaluations_share_requests_and_each_gets_its_own_verdict() {
    const JOBS: usize = 300;
    let broken = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&broken);
    let server = Server::start(move |received: &Received| {
        if fails.load(Ordering::Relaxed) {
            return Reply::json(500, "not yet");
        }
        respond(received)
    })
    .await;
    let check = Check::new(WebhookCheck::new(open(&[&server.url])));
    let object = json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "w", "generation": 1},
        "spec": {"url": format!("{}/review", server.url), "batch": {"maxItems": 500, "requestsPerMinute": 600}},
    });
    let webhook = resource::WebhookCheck::decode(object).unwrap();
    let work = run(&check, "window", &webhook).await;

    let evaluate = |number| {
        let request = RequestBuilder::new(workload(number), "window");
        check.evaluate(request.build(webhook.clone()))
    };
    // While the service is broken, an evaluation returns the error and nothing else.
    let error = evaluate(0).await.unwrap_err();
    assert!(
        error.to_string().contains("responded with 500: not yet"),
        "{error}"
    );
    broken.store(false, Ordering::Relaxed);
    let before = server.received().len();
    // As the runtime does: an evaluation without a verdict is repeated.
    let mut waiting: Vec<usize> = (0..JOBS).collect();
    for _ in 0..100 {
        let verdicts = join_all(waiting.iter().map(|number| evaluate(*number))).await;
        let mut undecided = Vec::new();
        for (number, verdict) in waiting.iter().zip(verdicts) {
            match verdict {
                Ok(verdict) if verdict.is_unchanged() => undecided.push(*number),
                Ok(verdict) => {
                    assert_eq!(verdict.message(), format!("job-{number}"));
                    assert_eq!(verdict.is_ready(), number % 2 == 0, "{verdict:?}");
                }
                // The last failure stays until there is a verdict.
                Err(_) => undecided.push(*number),
            }
        }
        waiting = undecided;
        if waiting.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(waiting.is_empty(), "no verdict for {waiting:?}");
    let requests = server.received().len() - before;
    assert!(requests <= 10, "{requests} requests for {JOBS} Workloads");
    drop(work);
}
