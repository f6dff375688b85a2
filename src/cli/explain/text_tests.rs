use serde_json::{Value, json};

use super::*;
use crate::api::{AdmissionCheck, AdmissionCheckObject, Workload};
use crate::check::Family;
use crate::cli::explain::explanation::{Facts, explain_workload};
use crate::cli::explain::forecast::Written;

fn workload(status: &Value, spec: &Value) -> Value {
    json!({
        "metadata": {"namespace": "team-a", "name": "job-train-a1b2c", "uid": "u", "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": true},
        ]},
        "spec": spec,
        "status": status,
    })
}

fn reserved(entries: &Value, conditions: &[(&str, &str)]) -> Value {
    let mut list = vec![condition(
        "QuotaReserved",
        "True",
        "2026-11-21T09:00:00Z",
        "",
    )];
    list.extend(
        conditions
            .iter()
            .map(|(kind, message)| condition(kind, "True", "2026-11-21T09:30:00Z", message)),
    );
    json!({"conditions": list, "admission": {"clusterQueue": "gpus"}, "admissionChecks": entries})
}

fn condition(kind: &str, status: &str, at: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": at, "message": message})
}

fn admission_checks() -> Vec<AdmissionCheck> {
    let object = |name: &str, controller: &str, active: Value| -> AdmissionCheck {
        let object: AdmissionCheckObject = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"controllerName": controller, "parameters": {"apiGroup": "example.com", "kind": "Window", "name": "night"}},
            "status": {"conditions": active},
        }))
        .unwrap();
        object.into()
    };
    let no = json!([{"type": "Active", "status": "False", "reason": "ParametersNotFound", "message": "there is no Window `night`: create it", "lastTransitionTime": "2026-11-21T08:00:00Z"}]);
    vec![
        object(
            "window",
            "example.com/window",
            json!([{"type": "Active", "status": "True"}]),
        ),
        object("broken", "example.com/window", no),
        object("theirs", "example.com/other", json!([])),
    ]
}

/// Returns the explanation of a Workload at 10:00. `forecast_of` returns the forecast of a check.
fn explained(whole: &Value, mut forecast_of: impl FnMut(&str) -> Option<CheckForecast>) -> String {
    let workload = Workload::from_json(whole.clone()).unwrap();
    let facts = Facts {
        whole,
        workload: &workload,
        family: &Family::of(&workload, []),
        admission_checks: &admission_checks(),
        now: "2026-11-21T10:00:00Z".parse().unwrap(),
    };
    explain_workload(&facts, &mut forecast_of).to_string()
}

fn follows(writes: Option<Written>, looks_again: ForecastRecheck) -> ForecastEffects {
    ForecastEffects {
        writes,
        notes: Vec::new(),
        recheck: looks_again,
    }
}

fn written(state: &str, message: &str) -> Written {
    Written {
        state: state.to_owned(),
        message: message.to_owned(),
        requeue_after_seconds: None,
        pod_set_updates: Vec::new(),
    }
}

#[test]
fn a_workload_that_waits_for_checks_is_explained_in_full() {
    let entries = json!([
        {"name": "window", "state": "Pending", "message": "opens at 22:00", "lastTransitionTime": "2026-11-21T09:00:05Z", "retryCount": 2},
        {"name": "broken", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"},
        {"name": "theirs", "state": "Ready", "message": "fine", "lastTransitionTime": "2026-11-21T09:10:00Z"},
        {"name": "gone", "state": "Pending", "message": ""},
    ]);
    let text = explained(
        &workload(&reserved(&entries, &[]), &json!({"queueName": "main"})),
        |name| match name {
            "window" => Some(CheckForecast::Evaluated {
                verdict: "Ready".into(),
                message: "inside the window".into(),
                follows: follows(
                    Some(written("Ready", "inside the window")),
                    ForecastRecheck::After { seconds: 90 },
                ),
                waits_at_most: Some(Bound {
                    until: "2026-11-22T09:00:00Z".parse().unwrap(),
                    then: "Retry",
                }),
            }),
            "broken" => Some(CheckForecast::Inactive {
                reason: "ParametersNotFound".into(),
                message: "there is no Window `night`: create it".into(),
            }),
            _ => None,
        },
    );
    let expected = "\
Workload team-a/job-train-a1b2c of Job/train
  queues      LocalQueue main, ClusterQueue gpus
  phase       waits for 3 of 4 admission checks (window, broken, gone), and holds quota since 2026-11-21T09:00:00Z (1h ago)

window: Pending since 2026-11-21T09:00:05Z (59m55s ago)
  message     opens at 22:00
  retries     2 so far
  controller  this program (example.com/window), with Window/night
  active      yes
  now         would return Ready: inside the window
  written     Ready: inside the window
  recheck     after 1m30s, or when something changes
  waits       until 2026-11-22T09:00:00Z (in 23h), then Retry (pendingTimeout)

broken: Pending since 2026-11-21T09:00:00Z (1h ago)
  controller  this program (example.com/window), with Window/night
  active      no since 2026-11-21T08:00:00Z (2h ago), ParametersNotFound: there is no Window `night`: create it
  now         cannot be evaluated, ParametersNotFound: there is no Window `night`: create it

theirs: Ready since 2026-11-21T09:10:00Z (50m ago)
  message     fine
  controller  another program (example.com/other), with Window/night
  active      unknown: no controller has set it; is the controller running?

gone: Pending
  controller  no program: there is no AdmissionCheck `gone`. Create it, or remove it from the ClusterQueue
";
    assert_eq!(text, expected);
}

#[test]
fn every_phase_is_explained() {
    let ready = json!([{"name": "theirs", "state": "Ready"}]);
    let rejected = json!([{"name": "theirs", "state": "Rejected"}]);
    let queue = json!({"queueName": "main"});
    let no_quota = json!({"conditions": [condition("QuotaReserved", "False", "2026-11-21T09:59:00Z", "couldn't assign flavors: insufficient quota")]});
    let mut evicted = reserved(
        &ready,
        &[("Evicted", "At least one admission check is false")],
    );
    evicted["requeueState"] = json!({"count": 1, "requeueAt": "2026-11-21T10:05:00Z"});
    for (name, status, spec, expected) in [
        (
            "nothing yet",
            json!({}),
            queue.clone(),
            vec![
                "waits for quota; admission checks are evaluated when it is reserved",
                "checks      none so far",
            ],
        ),
        (
            "no quota",
            no_quota,
            queue.clone(),
            vec![
                "waits for quota since 2026-11-21T09:59:00Z (1m ago)",
                "message     couldn't assign flavors: insufficient quota",
            ],
        ),
        (
            "all ready",
            reserved(&ready, &[]),
            queue.clone(),
            vec!["all admission checks are Ready, Kueue has yet to admit it"],
        ),
        (
            "admitted",
            reserved(&ready, &[("Admitted", "The workload is admitted")]),
            queue.clone(),
            vec!["admitted: it may run since 2026-11-21T09:30:00Z (30m ago)"],
        ),
        (
            "evicted",
            evicted,
            queue.clone(),
            vec![
                "evicted since 2026-11-21T09:30:00Z (30m ago); it waits for quota again",
                "message     At least one admission check is false",
                "requeue     Kueue requeues it at 2026-11-21T10:05:00Z (in 5m)",
            ],
        ),
        (
            "deactivated",
            reserved(&ready, &[("Evicted", "The workload is deactivated")]),
            json!({"active": false}),
            vec![
                "deactivated since 2026-11-21T09:30:00Z (30m ago): nothing happens until spec.active is set to true",
            ],
        ),
        (
            "rejected",
            reserved(&rejected, &[("Evicted", "The workload is deactivated")]),
            json!({"active": false}),
            vec![
                "rejected by the check theirs since 2026-11-21T09:30:00Z (30m ago): delete the Workload",
            ],
        ),
        (
            "rejected, and activated again",
            json!({"conditions": [], "admissionChecks": rejected}),
            queue.clone(),
            vec!["rejected by the check theirs: delete the Workload"],
        ),
        (
            "finished",
            reserved(&ready, &[("Finished", "Job finished successfully")]),
            queue.clone(),
            vec!["finished since", "message     Job finished successfully"],
        ),
    ] {
        let text = explained(&workload(&status, &spec), |_| None);
        for expected in expected {
            assert!(text.contains(expected), "{name}: {text}");
        }
    }
}

#[test]
fn a_retry_shows_when_kueue_evicts_and_why_the_check_is_not_evaluated() {
    let entries = json!([{"name": "window", "state": "Retry", "message": "busy", "lastTransitionTime": "2026-11-21T09:58:00Z", "requeueAfterSeconds": 300}]);
    let text = explained(&workload(&reserved(&entries, &[]), &json!({})), |_| {
        Some(CheckForecast::NothingToDecide {
            why: "the check has returned Retry".into(),
        })
    });
    for expected in [
        "retry       Kueue evicts the Workload at 2026-11-21T10:03:00Z (in 3m)",
        "now         would not be evaluated: the check has returned Retry",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn kueue_evicts_after_the_delays_of_all_checks() {
    let retry = |name: &str, seconds: u64| json!({"name": name, "state": "Retry", "lastTransitionTime": "2026-11-21T09:58:00Z", "requeueAfterSeconds": seconds});
    let entries = json!([
        retry("window", 300),
        retry("licences", 0),
        retry("budget", 900)
    ]);
    let evicts = |requeue_at: &str| {
        let mut status = reserved(&entries, &[]);
        status["requeueState"] = json!({"requeueAt": requeue_at});
        explained(&workload(&status, &json!({})), |_| None)
    };
    for (requeue_at, at) in [
        ("2026-11-21T09:00:00Z", "10:13:00Z (in 13m)"),
        ("2026-11-21T10:20:00Z", "10:20:00Z (in 20m)"),
    ] {
        let text = evicts(requeue_at);
        let line = format!("retry       Kueue evicts the Workload at 2026-11-21T{at}");
        assert_eq!(text.matches(&line).count(), 3, "{text}");
    }
}

#[test]
fn the_effects_are_shown_for_every_outcome() {
    let entries = json!([{"name": "window", "state": "Pending"}]);
    let whole = workload(&reserved(&entries, &[]), &json!({}));
    let retry = Written {
        requeue_after_seconds: Some(600),
        pod_set_updates: vec!["main".into(), "driver".into()],
        ..written("Retry", "busy")
    };
    let returned = |follows| CheckForecast::Evaluated {
        verdict: "Retry".into(),
        message: "busy".into(),
        follows,
        waits_at_most: None,
    };
    let failed = CheckForecast::Failed {
        error: "connection refused".into(),
        follows: ForecastEffects {
            notes: vec!["by the parameters' onError: Admit".into()],
            ..follows(
                None,
                ForecastRecheck::AfterBackoff {
                    at_most_seconds: Some(60),
                },
            )
        },
        waits_at_most: None,
    };
    let declined = CheckForecast::Declined {
        why: "it counts in memory".into(),
        waits_at_most: None,
    };
    for (forecast, expected) in [
        (
            returned(follows(Some(retry), ForecastRecheck::OnChange)),
            "  now         would return Retry: busy\n  written     Retry after 10m: busy, with updates of main, driver\n  recheck     when something changes\n",
        ),
        (
            returned(follows(None, ForecastRecheck::OnChange)),
            "  written     nothing would be written\n",
        ),
        (
            failed,
            "  now         would fail: connection refused\n  written     nothing would be written\n              by the parameters' onError: Admit\n  recheck     after an exponential backoff, 1m at most, or when something changes\n",
        ),
        (
            declined,
            "  now         was not evaluated: it counts in memory\n",
        ),
    ] {
        let text = explained(&whole, |_| Some(forecast.clone()));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn the_role_of_a_workload_in_its_job_is_shown() {
    let slice = |name: &str, pods: u32, replaces: Option<&str>, conditions: &[&str]| {
        let mut annotations = json!({"kueue.x-k8s.io/elastic-job": "true"});
        if let Some(replaces) = replaces {
            let key = "kueue.x-k8s.io/workload-slice-replacement-for";
            annotations[key] = format!("team-a/{replaces}").into();
        }
        let conditions: Vec<(&str, &str)> = conditions.iter().map(|kind| (*kind, "")).collect();
        let mut status = reserved(&json!([]), &conditions);
        for condition in status["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Finished" {
                condition["reason"] = json!("WorkloadSliceReplaced");
            }
        }
        let mut object = workload(
            &status,
            &json!({"podSets": [{"name": "main", "count": pods}]}),
        );
        object["metadata"]["name"] = name.into();
        object["metadata"]["uid"] = name.into();
        object["metadata"]["annotations"] = annotations;
        object
    };
    let first = slice("el-1", 4, None, &["Admitted"]);
    let replaced = slice("el-1", 4, None, &["Admitted", "Finished"]);
    let growth = slice("el-2", 6, Some("el-1"), &[]);
    let line = |whole: &Value, other: &Value| {
        let [workload, other] = [whole, other].map(|object| Workload::from_json(object.clone()));
        let (workload, other) = (workload.unwrap(), other.unwrap());
        let facts = Facts {
            whole,
            workload: &workload,
            family: &Family::of(&workload, [&other]),
            admission_checks: &admission_checks(),
            now: "2026-11-21T10:00:00Z".parse().unwrap(),
        };
        let text = explain_workload(&facts, |_| None).to_string();
        let line = text.lines().find(|line| line.starts_with("  job "));
        line.map(|line| line["  job".len()..].trim().to_owned())
    };
    let expected = "requests 2 more pods for the job; 4 run by Workload el-1";
    assert_eq!(line(&growth, &first).as_deref(), Some(expected));
    let expected = "a growth of the job has replaced it; its pods run until that is admitted";
    assert_eq!(line(&replaced, &growth).as_deref(), Some(expected));
    assert_eq!(line(&first, &growth), None);
}

#[test]
fn the_json_output_has_the_same_facts() {
    let entries = json!([{"name": "window", "state": "Pending", "message": "opens at 22:00", "lastTransitionTime": "2026-11-21T09:00:05Z"}]);
    let whole = workload(&reserved(&entries, &[]), &json!({"queueName": "main"}));
    let workload = Workload::from_json(whole.clone()).unwrap();
    let facts = Facts {
        whole: &whole,
        workload: &workload,
        family: &Family::of(&workload, []),
        admission_checks: &admission_checks(),
        now: "2026-11-21T10:00:00Z".parse().unwrap(),
    };
    let explanation = explain_workload(&facts, |_| {
        Some(CheckForecast::Evaluated {
            verdict: "Ready".into(),
            message: "inside the window".into(),
            follows: follows(
                Some(written("Ready", "inside the window")),
                ForecastRecheck::After { seconds: 90 },
            ),
            waits_at_most: None,
        })
    });
    let value = serde_json::to_value(&explanation).unwrap();
    assert_eq!(value["phase"], "WaitsForChecks");
    assert_eq!(value["waitsFor"], json!(["window"]));
    let check = &value["checks"][0];
    assert_eq!(
        (&check["state"], &check["since"], &check["ours"]),
        (
            &json!("Pending"),
            &json!("2026-11-21T09:00:05Z"),
            &json!(true)
        )
    );
    let expected = json!({
        "result": "Evaluated", "verdict": "Ready", "message": "inside the window", "waitsAtMost": null,
        "follows": {
            "writes": {"state": "Ready", "message": "inside the window", "requeueAfterSeconds": null, "podSetUpdates": []},
            "notes": [],
            "recheck": {"when": "After", "seconds": 90},
        },
    });
    assert_eq!(check["forecast"], expected);
}

#[test]
fn a_span_has_two_units_at_most() {
    for (seconds, expected) in [
        (0, "0s"),
        (59, "59s"),
        (61, "1m1s"),
        (3600, "1h"),
        (3661, "1h1m"),
        (3605, "1h"),
        (90_061, "1d1h"),
    ] {
        assert_eq!(rough(seconds), expected);
    }
}

/// As kubectl's CVE-2021-25743: text in a status reaches the administrator's terminal.
#[test]
fn control_characters_of_other_clients_are_removed() {
    let escape = "\u{1b}[2J\u{9b}1A\r\nwindow: Ready";
    let entries = json!([
        {"name": "theirs", "state": "Pending", "message": format!("no{escape}"), "lastTransitionTime": "2026-11-21T09:10:00Z"},
        {"name": "gone", "state": format!("Re{escape}"), "message": ""},
    ]);
    let mut whole = workload(
        &reserved(&entries, &[("Evicted", escape)]),
        &json!({"queueName": "main"}),
    );
    whole["metadata"]["ownerReferences"][0]["kind"] = json!(format!("Job{escape}"));
    let text = explained(&whole, |_| None);
    assert!(text.contains("no [2J 1A  window: Ready"), "{text}");
    let controls: Vec<char> = text
        .chars()
        .filter(|c| c.is_control() && *c != '\n')
        .collect();
    assert_eq!(controls, [], "{text:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("window: Ready")),
        "{text}"
    );
}
