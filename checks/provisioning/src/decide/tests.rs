use serde_json::{Value, json};

use super::*;
use crate::config::ProvisioningRequestConfig;
use crate::request::{FailureKind, RequestAnnotations};
use kueue_check::Parameters;
use kueue_check::api::{ResourceVersion, Uid};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const RESERVED: &str = "2026-11-21T09:00:00Z";
const FAILED: &str = "2026-11-21T09:05:00Z";
const NOW: &str = "2026-11-21T09:05:01Z";

/// A test case with default values; each test sets those that differ.
struct Case {
    state: CheckState,
    state_since: &'static str,
    retry_count: u32,
    admitted: bool,
    growth: bool,
    needed: bool,
    config: ProvisioningRequestConfig,
    annotations: Vec<(&'static str, &'static str)>,
    requests: Vec<CapacityRequest>,
    earlier: Vec<CapacityRequest>,
    insufficient: Vec<&'static str>,
    checks: Vec<&'static str>,
    workload: String,
    now: &'static str,
}

fn case() -> Case {
    Case {
        state: CheckState::Pending,
        state_since: RESERVED,
        retry_count: 0,
        admitted: false,
        growth: false,
        needed: true,
        config: config(&json!({}), &json!({})),
        annotations: Vec::new(),
        requests: Vec::new(),
        earlier: Vec::new(),
        insufficient: Vec::new(),
        checks: vec!["pr", "other"],
        workload: "wl".to_owned(),
        now: NOW,
    }
}

fn with(requests: Vec<CapacityRequest>) -> Case {
    Case { requests, ..case() }
}

/// Returns a case whose check is Ready.
fn ready(admitted: bool, requests: Vec<CapacityRequest>) -> Case {
    Case {
        state: CheckState::Ready,
        admitted,
        ..with(requests)
    }
}

fn config(strategy: &Value, options: &Value) -> ProvisioningRequestConfig {
    let options = options.as_object().unwrap().iter();
    let annotations: serde_json::Map<String, Value> = options
        .map(|(key, value)| (format!("provisioning.kueue-check.dev/{key}"), value.clone()))
        .collect();
    ProvisioningRequestConfig::decode(json!({
        "metadata": {"annotations": annotations},
        "spec": {"provisioningClassName": "class1", "parameters": {"p1": "v1"}, "retryStrategy": strategy},
    }))
    .unwrap()
}

fn request(attempt: u32, phase: Phase) -> CapacityRequest {
    CapacityRequest {
        namespace: "ns".into(),
        name: format!("wl-pr-{attempt}").into(),
        uid: Uid::new(&format!("r{attempt}")),
        version: ResourceVersion::new("1"),
        workload: Uid::new("w"),
        workload_name: "wl".into(),
        mark: Some(RequestAnnotations {
            controller: "example.com/capacity".into(),
            check: "pr".into(),
            attempt,
            reserved: at(RESERVED).as_second(),
            family: None,
            tally: FailureCounts::default(),
            keep_failed: false,
            merged: BTreeMap::new(),
        }),
        created: at(RESERVED),
        deleting: false,
        class: "class1".into(),
        parameters: [("p1".into(), "v1".into())].into(),
        pods: Box::new([]),
        phase,
        details: BTreeMap::new(),
    }
}

fn failed(attempt: u32) -> CapacityRequest {
    request(attempt, failure(FailureKind::Error))
}

fn failure(kind: FailureKind) -> Phase {
    Phase::Failed {
        kind,
        at: at(FAILED),
        message: "By test".into(),
    }
}

fn expired() -> Phase {
    Phase::BookingExpired {
        at: at(FAILED),
        message: "booking gone".into(),
    }
}

fn revoked() -> Phase {
    Phase::Revoked {
        at: at(FAILED),
        message: "gone".into(),
    }
}

impl Case {
    fn decide(&self) -> Decision {
        let annotations = self.annotations.iter().copied();
        let requests: Vec<Arc<CapacityRequest>> =
            self.requests.iter().cloned().map(Arc::new).collect();
        let insufficient = self.insufficient.iter();
        let insufficient: BTreeMap<Box<str>, String> = insufficient
            .map(|name| ((*name).into(), String::new()))
            .collect();
        decide(&Facts {
            workload: &self.workload,
            created: Some(at("2026-11-21T08:59:00Z")),
            check: "pr",
            checks: &self.checks,
            state: &self.state,
            state_since: Some(at(self.state_since)),
            retry_count: self.retry_count,
            reserved: at(RESERVED),
            admitted: self.admitted,
            growth: self.growth,
            needed: self.needed,
            config: &self.config,
            parameters: &self.config.effective_parameters(annotations),
            requests: &requests,
            earlier: &self
                .earlier
                .iter()
                .cloned()
                .map(Arc::new)
                .collect::<Vec<_>>(),
            insufficient: &insufficient,
            tally: None,
            now: at(self.now),
        })
    }

    /// Returns the decision as one line.
    fn summary(&self) -> String {
        let Decision {
            delete: discard,
            step,
        } = self.decide();
        let discarded: Vec<String> = discard.iter().map(|name| format!("-{name} ")).collect();
        let discarded = discarded.concat();
        let seconds = |delay: Option<Duration>| {
            delay.map_or(String::new(), |delay| {
                format!(" again in {}s", delay.as_secs())
            })
        };
        let outcome = match step {
            Step::Create(NewRequest {
                attempt, replaces, ..
            }) => {
                let replaces = replaces.map_or(String::new(), |name| format!(" for {name}"));
                format!("create {attempt}{replaces}")
            }
            Step::Verdict { result, .. } => match result {
                CheckResult::Ready { message } => format!("Ready: {message}"),
                CheckResult::Pending {
                    message,
                    recheck_in,
                } => {
                    format!("Pending: {message}{}", seconds(recheck_in))
                }
                CheckResult::Unchanged { recheck_in } => {
                    format!("unchanged{}", seconds(recheck_in))
                }
                CheckResult::Retry { delay, message } => {
                    format!("Retry {}s: {message}", delay.as_secs())
                }
                CheckResult::Rejected { message } => format!("Rejected: {message}"),
            },
        };
        format!("{discarded}{outcome}")
    }
}

fn limit(limit: u32) -> ProvisioningRequestConfig {
    config(&json!({"backoffLimitCount": limit}), &json!({}))
}

fn option(name: &str, value: &str) -> ProvisioningRequestConfig {
    config(&json!({"backoffLimitCount": 1}), &json!({ name: value }))
}

#[test]
fn a_workload_without_a_request_gets_the_first() {
    assert_eq!(case().summary(), "create 1");
}

#[test]
fn the_attempt_follows_kueues_count_when_the_request_was_cleaned_up() {
    for (retry_count, expected) in [(1, "create 2"), (2, "create 3")] {
        let mut case = case();
        case.retry_count = retry_count;
        assert_eq!(case.summary(), expected);
    }
}

#[test]
fn what_is_not_needed_is_ready_and_its_requests_go() {
    let mut case = with(vec![failed(1), request(2, Phase::Accepted)]);
    case.needed = false;
    assert_eq!(
        case.summary(),
        "-wl-pr-1 -wl-pr-2 Ready: the provisioning request is not needed"
    );
}

#[test]
fn the_highest_attempt_counts_whatever_the_order() {
    let (one, two) = (failed(1), request(2, Phase::New));
    for requests in [vec![one.clone(), two.clone()], vec![two, one]] {
        let case = with(requests);
        assert_eq!(case.summary(), "-wl-pr-1 Pending:  again in 299s");
    }
}

#[test]
fn each_condition_gives_the_verdict_of_kueues_own_check() {
    let waiting = |text: &str| Phase::Waiting {
        message: text.into(),
    };
    let provisioned = |text: &str| Phase::Provisioned {
        message: text.into(),
    };
    let table = [
        (Phase::New, "Pending:  again in 299s"),
        (Phase::Accepted, "unchanged"),
        (waiting("ETA 10 minutes"), "Pending: ETA 10 minutes"),
        (provisioned("Provisioned"), "Ready: Provisioned"),
        (provisioned(""), "Ready: "),
        (revoked(), "Rejected: gone"),
        (
            expired(),
            "Retry 60s: Retrying after booking expired: booking gone",
        ),
        (
            failure(FailureKind::Error),
            "Retry 60s: Retrying after failure: By test",
        ),
        (
            failure(FailureKind::NoCapacity),
            "Retry 60s: Retrying after failure: By test",
        ),
    ];
    for (phase, expected) in table {
        let case = with(vec![request(1, phase.clone())]);
        assert_eq!(case.summary(), expected, "{phase:?}");
    }
}

#[test]
fn a_failure_beyond_the_limit_is_rejected() {
    let table = [
        (0, 1, "Rejected: By test"),
        (1, 1, "Retry 60s: Retrying after failure: By test"),
        (1, 2, "Rejected: By test"),
        (2, 2, "Retry 120s: Retrying after failure: By test"),
        (3, 3, "Retry 240s: Retrying after failure: By test"),
        (3, 4, "Rejected: By test"),
    ];
    for (limit_count, attempt, expected) in table {
        let case = Case {
            config: limit(limit_count),
            retry_count: attempt - 1,
            requests: vec![failed(attempt)],
            ..case()
        };
        assert_eq!(
            case.summary(),
            expected,
            "limit {limit_count}, attempt {attempt}"
        );
    }
}

#[test]
fn an_expired_booking_counts_only_before_admission() {
    let of = |limit_count, admitted| Case {
        config: limit(limit_count),
        state: CheckState::Ready,
        admitted,
        requests: vec![request(1, expired())],
        ..case()
    };
    assert_eq!(of(1, true).summary(), "unchanged");
    assert_eq!(
        of(1, false).summary(),
        "Retry 60s: Retrying after booking expired: booking gone"
    );
    assert_eq!(of(0, false).summary(), "Rejected: booking gone");
}

fn provisioned() -> Phase {
    Phase::Provisioned {
        message: "Provisioned".into(),
    }
}

#[test]
fn capacity_that_is_revoked_from_pods_that_ran_before_a_growth_rejects_the_grown_job() {
    for (admitted, requests, expected) in [
        (true, vec![request(1, provisioned())], "Rejected: gone"),
        (true, vec![], "Rejected: gone"),
        // The job continues to run.
        (false, vec![request(1, provisioned())], "Ready: Provisioned"),
    ] {
        let state = if admitted {
            CheckState::Ready
        } else {
            CheckState::Pending
        };
        let case = Case {
            state,
            admitted,
            growth: !admitted,
            requests,
            earlier: vec![request(1, revoked())],
            ..case()
        };
        assert_eq!(case.summary(), expected, "admitted: {admitted}");
    }
}

#[test]
fn revoked_capacity_rejects_before_and_after_admission() {
    for admitted in [true, false] {
        let case = ready(admitted, vec![request(1, revoked())]);
        assert_eq!(case.summary(), "Rejected: gone");
    }
}

#[test]
fn a_failure_after_admission_stops_no_running_job_unless_the_options_say_so() {
    let of = |config| Case {
        config,
        ..ready(true, vec![failed(1)])
    };
    assert_eq!(of(limit(3)).summary(), "unchanged");
    let retry = of(option("failed-after-admission", "Retry"));
    assert_eq!(
        retry.summary(),
        "Retry 60s: Retrying after failure: By test"
    );
}

#[test]
fn a_ready_check_needs_no_request_any_more() {
    for admitted in [true, false] {
        let case = ready(admitted, Vec::new());
        assert_eq!(case.summary(), "unchanged");
    }
}

#[test]
fn a_check_that_is_added_to_a_running_job_requests_capacity() {
    let case = Case {
        admitted: true,
        ..case()
    };
    assert_eq!(case.summary(), "create 1");
}

#[test]
fn a_running_job_keeps_its_request_when_class_or_parameters_change() {
    let mut other = request(1, Phase::Provisioned { message: "".into() });
    (other.class, other.parameters) = ("class2".into(), BTreeMap::new());
    let mut revoked = other.clone();
    revoked.phase = self::revoked();
    for (request, expected) in [(other, "Ready: "), (revoked, "Rejected: gone")] {
        let case = ready(true, vec![request]);
        assert_eq!(case.summary(), expected);
    }
}

/// A user may create one with annotations that name the Workload.
#[test]
fn a_running_job_keeps_the_request_that_was_provisioned_first() {
    let (mut own, mut forged) = (request(1, provisioned()), request(99, provisioned()));
    own.created = "2026-11-21T09:00:00Z".parse().unwrap();
    forged.created = "2026-11-21T09:04:00Z".parse().unwrap();
    for phase in [Phase::New, provisioned()] {
        forged.phase = phase;
        for requests in [[&own, &forged], [&forged, &own]] {
            let case = ready(true, requests.map(CapacityRequest::clone).to_vec());
            assert_eq!(case.summary(), "-wl-pr-99 Ready: Provisioned");
        }
    }
}

#[test]
fn a_request_for_something_else_is_replaced_under_the_same_number() {
    let mut other_class = request(1, Phase::Accepted);
    other_class.class = "class2".into();
    let mut other_parameter = request(1, Phase::Accepted);
    other_parameter.parameters.insert("p1".into(), "v0".into());
    let mut missing_parameter = request(1, Phase::Accepted);
    missing_parameter.parameters.clear();
    for stale in [other_class, other_parameter, missing_parameter] {
        let case = with(vec![stale.clone()]);
        assert_eq!(case.summary(), "-wl-pr-1 create 1");
        let ready = Case {
            state: CheckState::Ready,
            requests: vec![stale],
            ..case
        };
        assert_eq!(ready.summary(), "-wl-pr-1 unchanged");
    }
    let mut more = request(1, Phase::Accepted);
    more.parameters.insert("p2".into(), "v2".into());
    assert_eq!(with(vec![more]).summary(), "unchanged");
}

#[test]
fn an_annotation_that_overrides_a_parameter_does_not_recreate_the_request() {
    let mut own = request(1, Phase::Accepted);
    own.parameters.insert("p1".into(), "mine".into());
    let mut case = with(vec![own]);
    case.annotations = vec![("provreq.kueue.x-k8s.io/p1", "mine")];
    assert_eq!(case.summary(), "unchanged");
}

#[test]
fn a_request_whose_name_was_cut_is_recognized_by_its_mark() {
    let workload = "w".repeat(250);
    let mut long = request(1, Phase::Accepted);
    long.name = crate::names::request_name(&workload, "pr", 1).into();
    let case = Case {
        workload,
        requests: vec![long],
        ..case()
    };
    assert_eq!(case.summary(), "unchanged");
}

#[test]
fn requests_that_kueue_created_are_taken_over_by_their_names() {
    let mut kueues = request(2, Phase::Accepted);
    kueues.mark = None;
    assert_eq!(with(vec![kueues]).summary(), "unchanged");
}

/// Neither the capacity nor the failure of the request counts for the Workload.
#[test]
fn an_insufficient_request_is_ignored() {
    let provisioned = || Phase::Provisioned {
        message: "there".into(),
    };
    for phase in [
        provisioned(),
        failure(FailureKind::Error),
        revoked(),
        expired(),
        Phase::New,
    ] {
        let mut alone = with(vec![request(1, phase.clone())]);
        alone.insufficient = vec!["wl-pr-1"];
        let alone = alone.summary();
        assert!(alone.starts_with("-wl-pr-1 create 1"), "{alone}");
        let mut beside = with(vec![request(1, provisioned()), request(9, phase)]);
        beside.insufficient = vec!["wl-pr-9"];
        let beside = beside.summary();
        assert!(beside.starts_with("-wl-pr-9 Ready"), "{beside}");
    }
}

#[test]
fn requests_of_checks_that_the_workload_does_not_need_go() {
    let of = |check: &str, mark| {
        let mut request = request(1, Phase::Accepted);
        request.name = format!("wl-{check}-1").into();
        if mark {
            request.mark.as_mut().unwrap().check = check.into();
        } else {
            request.mark = None;
        }
        request
    };
    for mark in [true, false] {
        let case = with(vec![of("check2", mark)]);
        assert_eq!(
            case.summary(),
            "-wl-check2-1 create 1",
            "not one of its checks"
        );
        let case = Case {
            requests: vec![of("other", mark)],
            ..case
        };
        assert_eq!(case.summary(), "create 1", "another of its checks");
    }
}

#[test]
fn a_request_that_is_being_deleted_does_not_count() {
    let mut going = request(1, Phase::Accepted);
    going.deleting = true;
    assert_eq!(with(vec![going]).summary(), "create 1");
}

#[test]
fn a_failure_that_kueue_has_counted_leads_to_the_next_attempt() {
    let mut case = with(vec![failed(1)]);
    case.retry_count = 1;
    assert_eq!(case.summary(), "create 2 for wl-pr-1");
}

#[test]
fn a_failure_from_before_the_reservation_is_not_a_second_retry() {
    let mut before = failed(1);
    before.phase = Phase::Failed {
        kind: FailureKind::Error,
        at: at("2026-11-21T08:59:30Z"),
        message: "no nodes".into(),
    };
    let early = Case {
        requests: vec![before],
        now: "2026-11-21T09:00:10Z",
        ..case()
    };
    assert_eq!(
        early.summary(),
        "Pending: Retrying after failure: no nodes (the next attempt begins at 2026-11-21T09:00:30Z) again in 20s"
    );
    let due = Case {
        now: "2026-11-21T09:00:30Z",
        ..early
    };
    assert_eq!(due.summary(), "create 2 for wl-pr-1");
}

#[test]
fn quota_may_be_kept_between_attempts() {
    let of = |attempt, now| Case {
        config: config(
            &json!({"backoffLimitCount": 2}),
            &json!({"after-failure": "KeepQuota"}),
        ),
        requests: vec![failed(attempt)],
        now,
        ..case()
    };
    let waits = "Pending: Retrying after failure: By test (the next attempt begins at 2026-11-21T09:06:00Z) again in 59s";
    assert_eq!(of(1, NOW).summary(), waits);
    assert_eq!(
        of(1, "2026-11-21T09:06:00Z").summary(),
        "create 2 for wl-pr-1"
    );
    assert_eq!(of(3, NOW).summary(), "Rejected: By test");
    let expired = Case {
        state: CheckState::Ready,
        requests: vec![request(1, expired())],
        ..of(1, NOW)
    };
    assert!(
        expired
            .summary()
            .starts_with("Pending: Retrying after booking expired")
    );
}

/// A Retry would make Kueue evict the running job, and Kueue counts none of a growth.
#[test]
fn attempts_of_a_growth_are_counted_by_its_requests() {
    let of = |attempt, phase, now, options| Case {
        config: config(&json!({"backoffLimitCount": 2}), &options),
        growth: true,
        requests: vec![request(attempt, phase)],
        now,
        ..case()
    };
    let failures = [
        (failure(FailureKind::Error), "failure: By test"),
        (expired(), "booking expired: booking gone"),
        (revoked(), "capacity revoked: gone"),
    ];
    for (phase, why) in failures {
        for options in ["Requeue", "ReleaseQuota", "KeepQuota"] {
            let of = |attempt, now| {
                let options = json!({"after-failure": options});
                of(attempt, phase.clone(), now, options).summary()
            };
            let waits = |until: &str, left: &str| {
                format!(
                    "Pending: Retrying after {why} (the next attempt begins at 2026-11-21T09:{until}Z) again in {left}"
                )
            };
            assert_eq!(of(1, NOW), waits("06:00", "59s"));
            assert_eq!(of(1, "2026-11-21T09:06:00Z"), "create 2 for wl-pr-1");
            assert_eq!(of(2, NOW), waits("07:00", "119s"));
            assert_eq!(of(2, "2026-11-21T09:07:00Z"), "create 3 for wl-pr-2");
            let (_, reason) = why.split_once(": ").unwrap();
            assert_eq!(
                of(3, NOW),
                format!(
                    "Rejected: {reason} (attempt 3, and no other follows: scale the job back, or begin again by deleting the request \"wl-pr-3\")"
                )
            );
        }
    }
}

#[test]
fn quota_may_be_released_during_the_backoff() {
    let give_back = || config(&json!({}), &json!({"after-failure": "ReleaseQuota"}));
    let fails = Case {
        config: give_back(),
        requests: vec![failed(1)],
        ..case()
    };
    assert_eq!(fails.summary(), "Retry 0s: Retrying after failure: By test");
    // Evicted at 09:05:02, and quota reserved again at once.
    let again = |now| Case {
        config: give_back(),
        retry_count: 1,
        state_since: "2026-11-21T09:05:02Z",
        now,
        ..case()
    };
    assert_eq!(
        again("2026-11-21T09:05:03Z").summary(),
        "Pending: attempt 2 begins at 2026-11-21T09:06:02Z again in 59s"
    );
    assert_eq!(again("2026-11-21T09:06:02Z").summary(), "create 2");
}

#[test]
fn the_backoff_may_count_from_the_workloads_creation() {
    let options = json!({"after-failure": "ReleaseQuota", "backoff-from": "Creation"});
    let of = |now| Case {
        config: config(&json!({"backoffBaseSeconds": 600}), &options),
        retry_count: 1,
        state_since: "2026-11-21T09:05:02Z",
        now,
        ..case()
    };
    // Created at 08:59:00.
    assert_eq!(
        of("2026-11-21T09:05:03Z").summary(),
        "Pending: attempt 2 begins at 2026-11-21T09:09:00Z again in 237s"
    );
    assert_eq!(of("2026-11-21T09:09:00Z").summary(), "create 2");
}

#[test]
fn the_number_of_attempts_may_be_unlimited() {
    let config = option("backoff-limit", "unlimited");
    let case = Case {
        config,
        retry_count: 99,
        requests: vec![failed(100)],
        ..case()
    };
    assert_eq!(
        case.summary(),
        "Retry 1800s: Retrying after failure: By test"
    );
}

#[test]
fn failures_for_want_of_capacity_may_be_counted_apart() {
    let of = |kind, errors, no_capacity| {
        let attempt = errors + no_capacity + 1;
        let mut request = request(attempt, failure(kind));
        let mark = request.mark.as_mut().unwrap();
        mark.tally = FailureCounts {
            errors,
            no_capacity,
        };
        let case = Case {
            config: option("no-capacity-limit", "3"),
            retry_count: attempt - 1,
            requests: vec![request],
            ..case()
        };
        case.summary().starts_with("Retry")
    };
    let table = [
        (FailureKind::NoCapacity, 0, 2, true),
        (FailureKind::NoCapacity, 0, 3, false),
        (FailureKind::Error, 0, 3, true),
        (FailureKind::Error, 1, 0, false),
        (FailureKind::NoCapacity, 1, 2, true),
    ];
    for (kind, errors, no_capacity, retries) in table {
        assert_eq!(
            of(kind, errors, no_capacity),
            retries,
            "{kind:?} {errors} {no_capacity}"
        );
    }
    // The next attempt continues the count.
    let mut kept = request(1, failure(FailureKind::NoCapacity));
    kept.mark.as_mut().unwrap().keep_failed = true;
    let config = option("no-capacity-limit", "3");
    let case = Case {
        config,
        retry_count: 1,
        requests: vec![kept],
        ..case()
    };
    let Step::Create(next) = case.decide().step else {
        panic!()
    };
    assert_eq!(
        next.tally,
        FailureCounts {
            errors: 0,
            no_capacity: 1
        }
    );
}

#[test]
fn a_request_without_an_end_may_be_given_up() {
    let of = |phase, now| Case {
        config: option("pending-timeout", "3d"),
        requests: vec![request(1, phase)],
        now,
        ..case()
    };
    let (early, late) = ("2026-11-24T08:59:00Z", "2026-11-24T09:00:00Z");
    let eta = || Phase::Waiting {
        message: "queued".into(),
    };
    assert_eq!(
        of(Phase::Accepted, early).summary(),
        "unchanged again in 60s"
    );
    assert_eq!(of(eta(), early).summary(), "Pending: queued again in 60s");
    let table = [
        (Phase::New, "no autoscaler has taken it up"),
        (Phase::Accepted, "accepted, and nothing since"),
        (eta(), "queued"),
    ];
    for (phase, last) in table {
        let summary = of(phase.clone(), late).summary();
        assert_eq!(
            summary,
            format!("Retry 60s: Retrying after timeout: not provisioned in 3d: {last}")
        );
        let admitted = Case {
            admitted: true,
            state: CheckState::Ready,
            ..of(phase.clone(), late)
        };
        assert_eq!(admitted.summary(), "unchanged");
        let off = Case {
            config: limit(1),
            ..of(phase, late)
        };
        assert!(!off.summary().contains("Retry"), "off by default");
    }
    let mut second = of(Phase::Accepted, late);
    second.retry_count = 1;
    second.requests = vec![request(2, Phase::Accepted)];
    assert_eq!(
        second.summary(),
        "Rejected: not provisioned in 3d: accepted, and nothing since"
    );
}

#[test]
fn a_class_without_an_autoscaler_is_reported() {
    let case = Case {
        requests: vec![request(1, Phase::New)],
        now: "2026-11-21T09:10:00Z",
        ..case()
    };
    assert_eq!(
        case.summary(),
        "Pending: no autoscaler has taken up the request for 10 minutes: is there one for the class \"class1\"?"
    );
}
