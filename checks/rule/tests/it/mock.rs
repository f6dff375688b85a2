//! `serve-mock` as a process, with requests of the real WebhookCheck and by hand.

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kueue_check::api::{AdmissionCheck, Workload};
use kueue_check::{
    AdmissionCheckController, BackgroundContext, Check, Clock, DynCheck, Parameters,
    ReleaseOutcome, ReleaseReason, RequestBuilder, Verdict,
};
use kueue_check_rule::document::{API_VERSION, HELD, HeldList, REVIEW, ReviewResponse, State};
use kueue_check_rule::mock::{Mock, MockReply, MockRequest, Table};
use kueue_check_rule::webhook::signature::sign;
use kueue_check_rule::{WebhookCheck, webhook::resource};
use kueue_check_testenv::{Folder, Killed};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::program::{BINARY, output};
use crate::sdk::raw;
use crate::server::policy;

const KEY: &str = "a key of the test's own";

const TABLE: &str = "\
seats: 1
cases:
- name: team a
  workload: {labels: {team: a}}
  response: {state: Ready, message: a seat, podSetUpdates: [{name: main, labels: {seat: x}}]}
- name: everybody else
  workload: {namespace: vision}
  response: {state: Pending, message: waits for a seat, recheckAfterSeconds: 60}
";

/// A mock as a process, which ends when this is dropped.
struct Process {
    _child: Killed,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(BINARY)
            .args(["serve-mock", "--listen=127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let url = first.split(' ').next().unwrap().to_owned();
        Self {
            _child: Killed(child),
            lines,
            url,
        }
    }

    fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().parse().unwrap()
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }
}

fn workload(name: &str, namespace: &str, team: &str) -> Workload {
    Workload::from_json(json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("u-{name}"), "labels": {"team": team}},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
            "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": 1}]},
            "admissionChecks": [{"name": "seats", "state": "Pending"}]},
    }))
    .unwrap()
}

fn parameters(url: &str, max_items: u32) -> resource::WebhookCheck {
    resource::WebhookCheck::decode(json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "seats", "generation": 1},
        "spec": {
            "url": format!("{url}/review"), "signingKeyFile": "key",
            "batch": {"maxItems": max_items, "requestsPerMinute": 600},
            "activatePath": "/activate", "releasePath": "/release", "heldPath": "/held"},
    }))
    .unwrap()
}

/// Evaluates as the runtime does: again while there is no verdict.
pub(crate) async fn verdict(
    check: &Check<resource::WebhookCheck>,
    workload: &Workload,
    parameters: &resource::WebhookCheck,
) -> Result<Verdict, String> {
    for _ in 0..100 {
        let request = RequestBuilder::new(workload.clone(), "seats");
        match check.evaluate(request.build(parameters.clone())).await {
            Ok(verdict) if verdict.is_unchanged() => {}
            Ok(verdict) => return Ok(verdict),
            Err(error) => return Err(error.to_string()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no verdict within 5 s");
}

/// The background task of a check, which ends when this is dropped.
pub(crate) struct Work {
    task: JoinHandle<()>,
    _leads: watch::Sender<bool>,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Activates the check for the AdmissionCheck `name`, and runs its background task, as the leader
/// does.
pub(crate) async fn run(
    check: &Check<resource::WebhookCheck>,
    name: &str,
    parameters: &resource::WebhookCheck,
) -> Work {
    let own = AdmissionCheck::from_json(json!({"metadata": {"name": name}, "spec": {}}));
    let shared = Arc::new(parameters.clone());
    check.activate(&own.unwrap(), &shared).await.unwrap();
    let nothing = tower::service_fn(async |_: Request<Body>| {
        Ok::<_, std::io::Error>(Response::new(Body::empty()))
    });
    let (leads, leading) = watch::channel(true);
    let context = BackgroundContext::new(Client::new(nothing, "default"), Clock::system(), leading);
    let background = DynCheck::new(check.clone());
    let task = tokio::spawn(async move { background.background(context).await });
    Work {
        task,
        _leads: leads,
    }
}

#[tokio::test]
async fn a_webhook_check_gets_its_verdicts_from_the_table() {
    for max_items in [1, 500] {
        evaluate_from_the_table(max_items).await;
    }
}

async fn evaluate_from_the_table(max_items: u32) {
    let folder = Folder::new("rule").unwrap();
    folder.write("table.yaml", TABLE).unwrap();
    folder.write("key", &format!("{KEY}\n")).unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut mock = Process::start(&["-f", &file("table.yaml"), "--signing-key", &file("key")]);
    let check = Check::new(WebhookCheck::new(policy(&folder, &mock.url)));
    let parameters = parameters(&mock.url, max_items);
    let work = run(&check, "seats", &parameters).await;

    let first = workload("first", "vision", "a");
    let ready = verdict(&check, &first, &parameters).await.unwrap();
    assert!(ready.is_ready(), "{ready:?}");
    let label = &ready.updates().as_slice()[0].labels["seat"];
    assert_eq!(label, "x");
    assert_eq!(
        mock.line(),
        "200 review by seats: vision/first Ready (team a)"
    );
    let taken = "activation of vision/first by seats: 1 of 1 seats are taken";
    assert_eq!(mock.line(), format!("200 {taken}"));

    let second = workload("second", "vision", "a");
    let waits = verdict(&check, &second, &parameters).await.unwrap();
    assert!(waits.is_pending());
    assert_eq!(waits.message(), "no seat is free: 1 of 1 seats are taken");
    mock.line();
    assert!(mock.line().starts_with("409 activation of vision/second"));

    let other = workload("other", "vision", "b");
    let waits = verdict(&check, &other, &parameters).await.unwrap();
    assert!(waits.is_pending());
    let recheck = waits.recheck().unwrap().as_secs();
    assert!((50..=60).contains(&recheck), "{recheck}");
    assert_eq!(
        mock.line(),
        "200 review by seats: vision/other Pending (everybody else)"
    );
    let nobody = verdict(&check, &workload("n", "nlp", "b"), &parameters).await;
    let error = nobody.unwrap_err();
    assert!(error.contains("no case of the table matches"), "{error}");
    assert_eq!(mock.line(), "200 review by seats: nlp/n an error (no case)");

    let held = check.unreleased_reservations().await.unwrap();
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(mock.line(), "200 list of what is activated: 1");
    for _ in 0..2 {
        let released = check.release(&held[0], ReleaseReason::Finished).await;
        assert_eq!(released.unwrap(), ReleaseOutcome::Done);
        assert_eq!(
            mock.line(),
            "200 release of vision/first by seats (Finished): 0 of 1 seats are taken"
        );
    }
    // The table is read for each request.
    folder
        .write(
            "table.yaml",
            "cases: [{name: all, response: {state: Rejected, message: never}}]",
        )
        .unwrap();
    let third = workload("third", "vision", "a");
    let rejected = verdict(&check, &third, &parameters).await.unwrap();
    assert!(rejected.is_rejected(), "{rejected:?}");
    mock.line();
    folder.write("table.yaml", "cases: []").unwrap();
    let fourth = workload("fourth", "vision", "a");
    let error = verdict(&check, &fourth, &parameters).await.unwrap_err();
    assert!(error.contains("it has no cases"), "{error}");
    assert!(mock.line().starts_with("500 "));
    drop(work);
}

#[tokio::test]
async fn a_mock_rejects_what_is_no_document_and_what_is_not_signed() {
    let folder = Folder::new("rule").unwrap();
    folder.write("table.yaml", TABLE).unwrap();
    folder.write("key", KEY).unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let table = file("table.yaml");
    let mut mock = Process::start(&["-f", &table, "--signing-key", &file("key")]);
    let seconds = Clock::system().now().as_second();
    let body = json!({"apiVersion": API_VERSION, "kind": REVIEW, "request": {"admissionCheck": "a\nb", "time": "2026-11-21T09:00:00Z", "items": []}}).to_string();
    let signed = |key, at| {
        format!(
            "kueue-check-signature: {}\r\n",
            sign(key, at, &body).unwrap()
        )
    };
    for (headers, status, line) in [
        (signed(KEY, seconds), 200, "200 review by a b: "),
        (String::new(), 401, "401 the request is not signed"),
        (
            signed("another key of 16", seconds),
            401,
            "401 the signature is wrong: it is of another key or another body",
        ),
        (
            signed(KEY, seconds - 400),
            401,
            "401 the signature is 400 s away from now",
        ),
    ] {
        let (found, text) = raw(mock.port(), "POST", &headers, &body).await;
        assert_eq!(found, status, "{text}");
        let shown = mock.line();
        // The clock may have advanced.
        assert!(shown == line || line.contains("400 s"), "{shown}");
    }
    for (listen, expected) in [("0.0.0.0:0", "on loopback only"), ("x", "--listen")] {
        let (code, _, error) = output(&["serve-mock", "-f", &table, "--listen", listen]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    folder
        .write(
            "wrong.yaml",
            "cases: [{name: a, workload: {nmae: a}, response: {state: Ready}}]",
        )
        .unwrap();
    let (code, _, error) = output(&["serve-mock", "-f", &file("wrong.yaml")]);
    assert_eq!(code, Some(2));
    let expected =
        "wrong.yaml: `cases[0].workload`: there is no field `nmae`: did you mean `name`?";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn the_table_of_the_readme_is_one() {
    let table = include_str!("../../../../book/listings/yaml/seats.yaml");
    assert!(include_str!("../../README.md").contains(table));
    assert_eq!(Table::read(table).unwrap().seats(), Some(1));
}

/// A mock without a process: its replies match the schemas of the documents.
#[test]
fn replies_of_a_mock_are_documents() {
    let table = Table::read(TABLE).unwrap();
    let mut mock = Mock::default();
    let mut send = |key: Option<&str>, body: &Value| {
        let body = body.to_string();
        mock.reply(
            &table,
            MockRequest {
                is_get: body == "null",
                idempotency_key: key,
                body: body.as_bytes(),
            },
        )
    };
    let call = |kind: &str, uid: &str| json!({"apiVersion": API_VERSION, "kind": kind, "request": {"uid": uid, "admissionCheck": "seats", "namespace": "vision", "name": uid, "jobUid": "j"}});
    let problem = |reply: &MockReply| (reply.status, reply.line.clone());
    for (key, body, status, expected) in [
        (None, json!([]), 400, "expected the apiVersion"),
        (
            None,
            json!({"apiVersion": API_VERSION, "kind": "Pod"}),
            400,
            "no document has the kind `Pod`",
        ),
        (
            None,
            json!({"apiVersion": API_VERSION, "kind": REVIEW}),
            400,
            "cannot be read",
        ),
        (
            None,
            call("AdmissionCheckActivation", "a"),
            400,
            "Idempotency-Key",
        ),
        (
            Some("b"),
            call("AdmissionCheckRelease", "a"),
            400,
            "Idempotency-Key",
        ),
        (
            Some("a"),
            call("AdmissionCheckActivation", "a"),
            200,
            "1 of 1 seats",
        ),
        (
            Some("a"),
            call("AdmissionCheckActivation", "a"),
            200,
            "1 of 1 seats",
        ),
        (
            Some("b"),
            call("AdmissionCheckActivation", "b"),
            409,
            "no seat is free",
        ),
    ] {
        let (found, line) = problem(&send(key, &body));
        assert_eq!(found, status, "{line}");
        assert!(line.contains(expected), "{line}");
    }
    let list = send(None, &Value::Null);
    let read: HeldList = serde_json::from_value(list.body.clone()).unwrap();
    assert_eq!(
        (read.kind.as_str(), read.response.uids),
        (HELD, vec!["a".to_owned()])
    );

    let items: Vec<Value> = (0..7)
        .map(|number| {
            json!({"uid": number.to_string(), "reservedAt": "2026-11-21T09:00:00Z", "waitedSeconds": 1, "attempt": 1,
                "workload": {"namespace": "vision", "name": format!("n{number}"), "uid": "u", "jobUid": "j", "role": "Whole",
                    "labels": {"team": if number == 3 { "a" } else { "b" }}, "priority": 0, "admitted": false, "podSets": []}})
        })
        .collect();
    let review = json!({"apiVersion": API_VERSION, "kind": REVIEW, "request": {"admissionCheck": "seats", "time": "2026-11-21T09:00:00Z", "dryRun": true, "items": items}});
    let reply = send(None, &review);
    let read: ReviewResponse = serde_json::from_value(reply.body.clone()).unwrap();
    assert_eq!(json!(read), reply.body, "nothing but the document");
    let states: Vec<_> = read.response.items.iter().map(|item| item.state).collect();
    assert_eq!(states[3], Some(State::Ready));
    assert_eq!(states[4], Some(State::Pending));
    assert!(
        reply
            .line
            .starts_with("review by seats, dry run: vision/n0 Pending (everybody else), ")
    );
    assert!(reply.line.ends_with("and 2 more"), "{}", reply.line);
}
