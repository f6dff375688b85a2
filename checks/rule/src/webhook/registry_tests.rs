use kueue_check::api::Workload;
use kueue_check::{NoParameters, RequestBuilder};
use serde_json::json;
use tokio::time::advance;

use super::*;

const CHECK: &str = "check";

/// Returns a request about the Workload `name`, whose quota was reserved in this second.
fn request(name: &str, second: u32) -> Request {
    let since = format!("2026-11-21T09:00:{second:02}Z");
    let workload = Workload::from_json(json!({
        "metadata": {"namespace": "n", "name": name, "uid": name},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": since}],
            "admission": {"clusterQueue": "q", "podSetAssignments": []},
            "admissionChecks": [{"name": CHECK, "state": "Pending"}]},
    }));
    let request = RequestBuilder::new(workload.unwrap(), CHECK).build(NoParameters);
    request.request().clone()
}

fn registry(max_items: u32) -> Registry {
    let mut spec = WebhookCheckSpec::new("https://a.example/review");
    spec.batch = Some(crate::webhook::resource::Batch {
        max_items,
        requests_per_minute: Some(6000),
    });
    let mut registry = Registry::default();
    registry.set_spec(CHECK, &Arc::new(spec));
    registry
}

fn decided(verdict: Verdict, recheck: u64) -> Outcome {
    let recheck = Duration::from_secs(recheck);
    Outcome::Decided(Decision {
        verdict,
        ttl: recheck,
        recheck: Some(recheck),
    })
}

fn names(batch: &Batch) -> Vec<&str> {
    let items = batch.items.iter();
    items.map(|item| item.request.workload().name()).collect()
}

fn is_requested(registry: &mut Registry, request: &Request, fingerprint: u64) -> bool {
    matches!(
        registry.lookup(request, fingerprint, Instant::now()),
        Lookup::Requested(_)
    )
}

fn take(registry: &mut Registry) -> Batch {
    registry.take(CHECK, Instant::now()).unwrap()
}

/// Returns the verdict of an evaluation for which no request is needed.
fn verdict(registry: &mut Registry, request: &Request, fingerprint: u64) -> Option<Verdict> {
    match registry.lookup(request, fingerprint, Instant::now()) {
        Lookup::Verdict(verdict) => Some(verdict),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_valid_for_its_time_and_its_facts() {
    let (mut registry, train) = (registry(10), request("train", 0));
    assert!(is_requested(&mut registry, &train, 1));
    assert!(
        is_requested(&mut registry, &train, 1),
        "once in the queue is enough"
    );
    let batch = take(&mut registry);
    assert_eq!(names(&batch), ["train"]);
    assert!(registry.take(CHECK, Instant::now()).is_none());
    assert!(registry.record(
        &batch,
        &batch.items[0],
        decided(Verdict::pending("wait"), 60)
    ));
    advance(Duration::from_secs(20)).await;
    let first = verdict(&mut registry, &train, 1).unwrap();
    assert_eq!(
        first.recheck(),
        Some(Duration::from_secs(40)),
        "of the sixty seconds"
    );
    advance(Duration::from_secs(39)).await;
    assert!(verdict(&mut registry, &train, 1).is_some());
    advance(Duration::from_secs(1)).await;
    assert!(is_requested(&mut registry, &train, 1), "its time is over");
    let batch = take(&mut registry);
    registry.record(
        &batch,
        &batch.items[0],
        decided(Verdict::pending("wait"), 60),
    );
    assert!(verdict(&mut registry, &train, 1).is_some());
    assert!(is_requested(&mut registry, &train, 2), "it has changed");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_without_a_ttl_is_returned_once() {
    let (mut registry, train) = (registry(10), request("train", 0));
    assert!(is_requested(&mut registry, &train, 1));
    let batch = take(&mut registry);
    let at_once = Outcome::Decided(Decision {
        verdict: Verdict::ready("go"),
        ttl: Duration::ZERO,
        recheck: None,
    });
    assert!(registry.record(&batch, &batch.items[0], at_once));
    assert!(verdict(&mut registry, &train, 1).is_some());
    assert!(is_requested(&mut registry, &train, 1));
}

/// No evaluation runs while the replica does not lead.
#[tokio::test(start_paused = true)]
async fn a_verdict_that_no_evaluation_returned_becomes_too_old() {
    let (mut registry, train) = (registry(10), request("train", 0));
    for (age, ttl, holds) in [(31 * 60, 60, false), (20, 0, true), (59, 60, true)] {
        assert!(is_requested(&mut registry, &train, 1));
        let batch = take(&mut registry);
        registry.record(&batch, &batch.items[0], decided(Verdict::ready("go"), ttl));
        advance(Duration::from_secs(age)).await;
        let returned = verdict(&mut registry, &train, 1);
        assert_eq!(returned.is_some(), holds, "{ttl} s, after {age} s");
        advance(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_about_an_earlier_version_is_dropped() {
    let mut registry = registry(10);
    // Another reservation.
    assert!(is_requested(&mut registry, &request("train", 0), 1));
    let batch = take(&mut registry);
    let later = request("train", 30);
    assert!(is_requested(&mut registry, &later, 2));
    assert!(!registry.record(
        &batch,
        &batch.items[0],
        decided(Verdict::rejected("no"), 60)
    ));
    let batch = take(&mut registry);
    assert_eq!(batch.items[0].request.reservation(), later.reservation());
    // The fingerprint differs: the Workload is reviewed again without an evaluation.
    assert!(is_requested(&mut registry, &later, 3));
    assert!(!registry.record(
        &batch,
        &batch.items[0],
        decided(Verdict::rejected("no"), 60)
    ));
    let batch = take(&mut registry);
    assert!(registry.record(&batch, &batch.items[0], decided(Verdict::ready("go"), 60)));
    assert!(verdict(&mut registry, &later, 3).unwrap().is_ready());
    // The Workload was removed.
    assert!(is_requested(&mut registry, &later, 4));
    let batch = take(&mut registry);
    registry.remove_workload(later.workload().uid());
    assert!(!registry.record(
        &batch,
        &batch.items[0],
        decided(Verdict::rejected("no"), 60)
    ));
    assert_eq!(registry.sizes(), [(CHECK.to_owned(), 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_returned_once_and_then_reviewed_again() {
    let (mut registry, train) = (registry(10), request("train", 0));
    assert!(is_requested(&mut registry, &train, 1));
    let batch = take(&mut registry);
    let failure = Failure::transient("no response".to_owned());
    assert!(registry.record(&batch, &batch.items[0], Outcome::Failed(failure)));
    let Lookup::Failed(error) = registry.lookup(&train, 1, Instant::now()) else {
        panic!("it failed");
    };
    assert_eq!(error.to_string(), "no response");
    assert!(is_requested(&mut registry, &train, 1));
    // Without a new result the failure stays: the policy counts its time.
    assert!(registry.conclude(&train, 1, Instant::now()).is_err());
    let batch = take(&mut registry);
    registry.record(
        &batch,
        &batch.items[0],
        decided(Verdict::pending("wait"), 60),
    );
    assert!(
        registry
            .meanwhile(&train)
            .is_ok_and(|verdict| verdict.is_unchanged())
    );
}

#[tokio::test(start_paused = true)]
async fn free_places_in_a_request_are_for_those_due_next() {
    let mut registry = registry(3);
    let held: Vec<Request> = ["a", "b", "c", "d"].map(|name| request(name, 0)).into();
    for (number, one) in held.iter().enumerate() {
        assert!(is_requested(&mut registry, one, 1));
        let batch = take(&mut registry);
        let recheck = [100, 60, 80, 1000][number];
        registry.record(
            &batch,
            &batch.items[0],
            decided(Verdict::pending("wait"), recheck),
        );
        assert!(verdict(&mut registry, one, 1).is_some());
    }
    advance(Duration::from_secs(45)).await;
    assert!(is_requested(&mut registry, &request("new", 0), 1));
    let batch = take(&mut registry);
    // `a` has not reached half of its interval, and `d` is far from it.
    assert_eq!(names(&batch), ["new", "b", "c"]);
    let wait = || decided(Verdict::pending("wait"), 1000);
    assert!(registry.record(&batch, &batch.items[0], wait()));
    // An unchanged result of an early review triggers no evaluation; a new result does, and a
    // failure is ignored.
    assert!(!registry.record(
        &batch,
        &batch.items[1],
        decided(Verdict::pending("wait"), 60)
    ));
    let same = verdict(&mut registry, &held[1], 1).unwrap();
    assert_eq!(same.recheck(), Some(Duration::from_secs(60)));
    let failure = Failure::transient("no response".to_owned());
    assert!(!registry.record(&batch, &batch.items[2], Outcome::Failed(failure)));
    assert!(verdict(&mut registry, &held[2], 1).is_some());
    advance(Duration::from_secs(30)).await;
    assert!(is_requested(&mut registry, &request("new", 0), 2));
    let batch = take(&mut registry);
    assert_eq!(names(&batch)[1..], ["c", "a"]);
    assert!(registry.record(&batch, &batch.items[1], decided(Verdict::ready("go"), 60)));
}

#[tokio::test(start_paused = true)]
async fn requests_become_smaller_after_failures_and_larger_again() {
    let mut registry = registry(500);
    let down = CheckError::transient("down");
    let throttled = CheckError::throttled(Duration::from_secs(5), "busy");
    for number in 0..40 {
        assert!(is_requested(
            &mut registry,
            &request(&format!("job-{number}"), 0),
            1
        ));
    }
    let mut sizes = Vec::new();
    for error in [
        Some(&down),
        Some(&down),
        Some(&throttled),
        Some(&down),
        None,
        None,
    ] {
        let batch = take(&mut registry);
        sizes.push(batch.items.len());
        registry.replied(CHECK, batch.items.len(), error);
        for item in &batch.items {
            registry.record(&batch, item, Outcome::Failed(Failure::of(&down)));
            let again = &item.request;
            assert!(matches!(
                registry.lookup(again, 1, Instant::now()),
                Lookup::Failed(_)
            ));
            assert!(is_requested(&mut registry, again, 1));
        }
    }
    assert_eq!(sizes, [40, 20, 10, 10, 5, 10]);
}

#[tokio::test(start_paused = true)]
async fn an_activation_begins_once_and_not_for_what_is_over() {
    let (mut registry, train) = (registry(10), request("train", 0));
    assert!(is_requested(&mut registry, &train, 1));
    let batch = take(&mut registry);
    let item = &batch.items[0];
    assert!(registry.begin_activation(CHECK, item));
    assert!(registry.is_activating(train.reservation()));
    assert!(!registry.begin_activation(CHECK, item), "it is under way");
    registry.end_activation(CHECK, item, true);
    assert!(registry.is_activated(CHECK, item) && !registry.is_activating(train.reservation()));
    registry.remove(request("train", 30).reservation());
    assert!(
        registry.is_activated(CHECK, item),
        "another reservation is over"
    );
    registry.remove(train.reservation());
    assert!(!registry.is_activated(CHECK, item));
    assert!(!registry.begin_activation(CHECK, item));
}

#[tokio::test(start_paused = true)]
async fn a_new_session_repeats_reviews_that_were_in_flight() {
    let (mut registry, train) = (registry(10), request("train", 0));
    assert!(is_requested(&mut registry, &train, 1));
    assert_eq!(registry.collect(Instant::now()).0.len(), 1);
    assert_eq!(
        registry.collect(Instant::now()).0.len(),
        0,
        "it is being put together"
    );
    let batch = take(&mut registry);
    assert!(registry.begin_activation(CHECK, &batch.items[0]));
    assert_eq!(registry.collect(Instant::now()).0.len(), 0);
    registry.reset();
    assert!(!registry.is_activating(train.reservation()));
    assert_eq!(registry.collect(Instant::now()).0.len(), 1);
    assert_eq!(names(&take(&mut registry)), ["train"]);
}
