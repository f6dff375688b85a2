//! Lists that fail for a long time: the number of requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kueue_check::runtime::Runtime;
use kueue_check::{Clock, Parameters};
use kueue_check_sim::apiserver::{ApiServer, Faults, RequestFault, RequestInfo, Status, Verb};
use kueue_check_sim::definitions;
use kueue_check_sim::scenarios::{Word, Worded};

/// Responds to every list with 500, and counts the lists of each resource.
#[derive(Default)]
struct NoLists(Mutex<BTreeMap<String, usize>>);

impl Faults for NoLists {
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        if request.call.verb != Verb::List {
            return None;
        }
        let mut counts = self.0.lock().unwrap();
        *counts
            .entry(request.call.resource.plural.clone())
            .or_default() += 1;
        let status = Status::new(500, "InternalError", "etcdserver: request timed out");
        let fault = RequestFault::Refuse {
            status,
            retry_after: None,
        };
        (!request.watch).then_some(fault)
    }
}

/// While every list fails for 10 min, each watch sends at most 30 requests.
#[tokio::test(start_paused = true)]
async fn lists_that_fail_for_ten_minutes_are_requested_ever_more_rarely() {
    let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
    let server = ApiServer::with_definitions(clock.clone(), definitions::kueue());
    server.install(Vec::from_iter(Word::custom_resource_definition()));
    let lists = Arc::new(NoLists::default());
    server.set_faults(Arc::clone(&lists) as _);
    let runtime = Runtime::builder(server.client_as("check-0"))
        .check(Worded::default())
        .clock(clock)
        .build()
        .unwrap();
    tokio::spawn(runtime.run(std::future::pending()));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let counts = lists.0.lock().unwrap().clone();
    println!("{counts:?}");
    for resource in ["admissionchecks", "resourceflavors", "words", "workloads"] {
        let count = counts.get(resource).copied().unwrap_or_default();
        assert!(
            count > 3,
            "{resource}: {count} requests are too few to be noticed"
        );
        assert!(count <= 30, "{resource}: {count} requests in ten minutes");
    }
}
