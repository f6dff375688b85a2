//! Errors of a service, from a real server on loopback. Each affects only that response, and the
//! message describes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kueue_check::api::{AdmissionCheck, Workload};
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, Clock, ErrorKind, Parameters,
    ReleaseOutcome, ReleaseReason, RequestBuilder, Verdict,
};
use kueue_check_rule::document::REVIEW;
use kueue_check_rule::webhook::signature::sign;
use kueue_check_rule::{AllowedServer, ServerPolicy, WebhookCheck, webhook::resource};
use kueue_check_testenv::Folder;
use serde_json::{Value, json};

use crate::server::{Received, Reply, Server, policy};
use crate::service::document;

static FILLER: [u8; 65536] = [b' '; 65536];
const UID: &str = "vision/train/u-1/window/1795251600";

fn workload() -> Workload {
    Workload::from_json(json!({
        "metadata": {"namespace": "vision", "name": "train", "uid": "u-1", "labels": {"team": "a"}},
        "spec": {"priority": 7, "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
            "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "3"}}]},
            "admissionChecks": [{"name": "window", "state": "Pending"}, {"name": "other", "state": "Ready"}]},
    }))
    .unwrap()
}

fn webhook(url: &str, patch: &Value) -> resource::WebhookCheck {
    let mut spec = json!({"url": format!("{url}/review"), "timeout": "700ms"});
    for (key, value) in patch.as_object().unwrap() {
        spec[key] = value.clone();
    }
    resource::WebhookCheck::decode(json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "w", "generation": 1}, "spec": spec,
    }))
    .unwrap()
}

fn request(url: &str, patch: &Value) -> CheckRequest<resource::WebhookCheck> {
    RequestBuilder::new(workload(), "window")
        .now("2026-11-21T09:30:00Z".parse().unwrap())
        .build(webhook(url, patch))
}

async fn preview_of(
    server: &Server,
    folder: &Folder,
    patch: &Value,
) -> Result<Verdict, CheckError> {
    let check = WebhookCheck::new(policy(folder, &server.url));
    let preview = check.preview(request(&server.url, patch)).await?;
    Ok(preview.verdict().unwrap().clone())
}

fn items(items: &Value) -> Reply {
    Reply::json(200, &document(REVIEW, &json!({"items": items})))
}

fn item(patch: &Value) -> Reply {
    let mut one = json!({"uid": UID});
    for (key, value) in patch.as_object().unwrap() {
        one[key] = value.clone();
    }
    items(&json!([one]))
}

#[tokio::test]
async fn each_invalid_response_affects_only_itself_and_is_quoted() {
    let folder = Folder::new("rule").unwrap();
    let update = |key: &str| json!([{"name": "main", "labels": {key: "x"}}]);
    let head = "HTTP/1.1 200 OK\r\n";
    let large = 100 * 1024 * 1024;
    let many: Vec<Value> = (0..1001).map(|_| json!({"uid": "x"})).collect();
    let nested = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = document(
        REVIEW,
        &json!({"items": [{"uid": UID, "state": "Ready", "message": 7}]}),
    );
    let deep = deep
        .replace(": 7", &format!(": {nested}"))
        .replace(":7", &format!(":{nested}"));
    let escape = "a\u{1b}[31mb\r\nc\u{202e}d token=abcdef1234567890 e";
    for (case, reply, part) in [
        (
            "garbage",
            Reply::json(200, "\u{0}\u{7}no"),
            "it is no AdmissionCheckReview",
        ),
        ("nothing", Reply::json(200, ""), "(empty)"),
        (
            "a page",
            Reply::json(200, "<html><body>Sign in</body></html>"),
            "<html><body>Sign in</body></html>",
        ),
        (
            "another kind",
            Reply::json(
                200,
                r#"{"apiVersion": "v1", "kind": "Pod", "response": {"items": []}}"#,
            ),
            "not `v1` and `Pod`",
        ),
        (
            "no items",
            Reply::json(
                200,
                r#"{"apiVersion": "kueue-check.dev/v1alpha1", "kind": "AdmissionCheckReview"}"#,
            ),
            "missing field `response`",
        ),
        (
            "too many items",
            items(&json!(many)),
            "more than 1000 elements",
        ),
        (
            "a deep one",
            Reply::json(200, &deep),
            "invalid type: sequence",
        ),
        (
            "an unknown state",
            item(&json!({"state": "Maybe"})),
            "unknown variant `Maybe`",
        ),
        ("no state", item(&json!({})), "neither a state nor an error"),
        (
            "a number as state",
            item(&json!({"state": 7})),
            "its response cannot be read (expected value",
        ),
        (
            "a message that is none",
            item(&json!({"state": "Ready", "message": {"a": 1}})),
            "invalid type: map",
        ),
        (
            "a negative delay",
            item(&json!({"state": "Retry", "retryAfterSeconds": -1})),
            "invalid value: integer `-1`",
        ),
        (
            "a delay of ages",
            item(&json!({"state": "Retry", "retryAfterSeconds": 1_u64 << 40})),
            "is more than 2147483647",
        ),
        (
            "an update of Kueue's",
            item(&json!({"state": "Ready", "podSetUpdates": update("kueue.x-k8s.io/queue-name")})),
            "belong to Kueue",
        ),
        (
            "an update that is invalid",
            item(&json!({"state": "Ready", "podSetUpdates": update("a b")})),
            "podSetUpdates are rejected",
        ),
        (
            "an item of 300 KiB",
            item(&json!({"state": "Ready", "message": "x".repeat(300 * 1024)})),
            "larger than 256 KiB",
        ),
        (
            "an error of the author's",
            item(&json!({"error": escape})),
            "it reports an error: a [31mb c d token=*** e",
        ),
        (
            "somebody else",
            items(&json!([{"uid": "vision/other/u-2/window/1795251600", "state": "Rejected"}])),
            "no response for this Workload",
        ),
        ("nobody", items(&json!([])), "no response for this Workload"),
        (
            "an item that is none",
            items(&json!([7, null, "x"])),
            "no response for this Workload",
        ),
        (
            "two minds",
            items(&json!([{"uid": UID, "state": "Ready"}, {"uid": UID, "state": "Rejected"}])),
            "responds twice",
        ),
        (
            "100 MB with its length",
            Reply::Endless {
                head: format!("{head}content-length: {large}\r\n\r\n"),
                filler: &FILLER,
                bytes: large,
            },
            "larger than 8 MiB",
        ),
        (
            "100 MB without it",
            Reply::Endless {
                head: format!("{head}\r\n"),
                filler: &FILLER,
                bytes: large,
            },
            "larger than 8 MiB",
        ),
        (
            "a body that drips",
            Reply::Drip(format!(
                "{head}content-length: 5000\r\n\r\n{}",
                "x".repeat(5000)
            )),
            "did not respond within 700ms",
        ),
        (
            "a head that drips",
            Reply::Drip(format!("{head}x: {}", "x".repeat(5000))),
            "did not respond within 700ms",
        ),
        ("silence", Reply::Silence, "did not respond within 700ms"),
        (
            "half a body",
            Reply::Raw(format!("{head}content-length: 500\r\n\r\n{{").into()),
            "its body cannot be read",
        ),
        (
            "no HTTP",
            Reply::Raw(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
            "cannot be reached",
        ),
        ("hangs up", Reply::Raw(Vec::new()), "cannot be reached"),
        (
            "compressed",
            Reply::with_headers(200, "content-encoding: gzip\r\n", "xxxx"),
            "compressed",
        ),
        (
            "a redirect",
            Reply::with_headers(307, "location: http://169.254.169.254/\r\n", ""),
            "redirects (307)",
        ),
        (
            "a redirect as 301",
            Reply::with_headers(301, "location: /other\r\n", ""),
            "redirects (301)",
        ),
        (
            "unauthorized",
            Reply::json(401, ""),
            "rejected the credentials (401)",
        ),
        (
            "not found",
            Reply::json(404, "no such page"),
            "responded with 404: no such page",
        ),
        (
            "broken",
            Reply::json(500, &"boom \u{1b}[2J ".repeat(200)),
            "responded with 500: boom [2J boom",
        ),
        (
            "bad gateway",
            Reply::json(502, "<h1>502</h1>"),
            "responded with 502: <h1>502</h1>",
        ),
    ] {
        let server = Server::start(move |_: &Received| reply.clone()).await;
        let error = preview_of(&server, &folder, &json!({}))
            .await
            .expect_err(case);
        let text = error.to_string();
        assert!(text.contains(part), "{case}: {text}");
        assert_eq!(error.kind(), ErrorKind::Transient, "{case}: {text}");
        assert!(!text.chars().any(char::is_control), "{case}: {text:?}");
        assert!(text.chars().count() < 500, "{case}: {text}");
        assert_eq!(server.received().len(), 1, "{case}");
    }
}

#[tokio::test]
async fn a_pause_is_kept_within_bounds() {
    let folder = Folder::new("rule").unwrap();
    for (status, headers, seconds) in [
        (429, "retry-after: 7\r\n", 7),
        (429, "", 60),
        (429, "retry-after: 999999\r\n", 900),
        (503, "retry-after: 0\r\n", 1),
        (429, "retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n", 60),
    ] {
        let server =
            Server::start(move |_: &Received| Reply::with_headers(status, headers, "")).await;
        let check = WebhookCheck::new(policy(&folder, &server.url));
        for _ in 0..2 {
            let error = check
                .preview(request(&server.url, &json!({})))
                .await
                .unwrap_err();
            let ErrorKind::Throttled { after } = error.kind() else {
                panic!("{headers}: {error}");
            };
            assert_eq!(
                after.as_secs() + u64::from(after.subsec_nanos() > 0),
                seconds,
                "{headers}: {error}"
            );
        }
        assert_eq!(
            server.received().len(),
            1,
            "nothing is sent during the pause"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_down_receives_few_requests() {
    let folder = Folder::new("rule").unwrap();
    let server = Server::start(|_: &Received| Reply::json(500, "down")).await;
    let check = WebhookCheck::new(policy(&folder, &server.url));
    for _ in 0..20 {
        check
            .preview(request(&server.url, &json!({})))
            .await
            .unwrap_err();
    }
    assert_eq!(server.received().len(), 5);
}

#[tokio::test]
async fn valid_items_become_verdicts() {
    let folder = Folder::new("rule").unwrap();
    let updates = json!([{"name": "main", "labels": {"example.com/seat": "7"}, "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}]);
    let seconds = |verdict: &Verdict| verdict.recheck().map(|delay| delay.as_secs());
    for (patch, holds, recheck) in [
        (
            json!({"state": "Ready", "message": "go", "podSetUpdates": updates}),
            Verdict::is_ready as fn(&Verdict) -> bool,
            None,
        ),
        (
            json!({"state": "Ready", "recheckAfterSeconds": 30}),
            Verdict::is_ready,
            Some(30),
        ),
        (
            json!({"state": "Pending", "unknown": true}),
            Verdict::is_pending,
            Some(300),
        ),
        (
            json!({"state": "Pending", "recheckAfterSeconds": 0}),
            Verdict::is_pending,
            Some(1),
        ),
        (
            json!({"state": "Pending", "recheckAfterSeconds": u64::MAX, "ttlSeconds": u64::MAX}),
            Verdict::is_pending,
            Some(30 * 86_400),
        ),
        (json!({"state": "Retry"}), Verdict::is_retry, None),
        (
            json!({"state": "Retry", "retryAfterSeconds": 90}),
            Verdict::is_retry,
            None,
        ),
        (
            json!({"state": "Rejected", "message": "never"}),
            Verdict::is_rejected,
            None,
        ),
    ] {
        let reply = item(&patch);
        let server = Server::start(move |_: &Received| reply.clone()).await;
        let verdict = preview_of(&server, &folder, &json!({})).await.unwrap();
        assert!(holds(&verdict), "{patch}: {verdict:?}");
        assert_eq!(seconds(&verdict), recheck, "{patch}");
        assert_eq!(
            verdict.message(),
            patch["message"].as_str().unwrap_or_default()
        );
        let expected = patch["podSetUpdates"].as_array().map_or(0, Vec::len);
        assert_eq!(verdict.updates().as_slice().len(), expected, "{patch}");
    }
}

#[tokio::test]
async fn a_request_names_the_workload_and_is_signed() {
    let folder = Folder::new("rule").unwrap();
    folder.write("token", "canary-1\n").unwrap();
    folder.write("key", "0123456789abcdef\n").unwrap();
    let server = Server::start(|_: &Received| item(&json!({"state": "Ready"}))).await;
    let patch = json!({"auth": {"bearerTokenFile": "token"}, "signingKeyFile": "key", "config": {"opens": "22:00"}});
    let time: jiff::Timestamp = "2026-11-21T09:30:00Z".parse().unwrap();
    let check = WebhookCheck::new(policy(&folder, &server.url)).clock(Clock::following_tokio(time));
    let preview = check.preview(request(&server.url, &patch)).await;
    assert!(preview.is_ok());
    let received = server.received().remove(0);
    assert!(
        received.head.starts_with("POST /review HTTP/1.1"),
        "{}",
        received.head
    );
    assert_eq!(received.header("authorization"), Some("Bearer canary-1"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.header("accept-encoding"), None);
    let signature = sign("0123456789abcdef", time.as_second(), &received.body).unwrap();
    assert_eq!(received.header("kueue-check-signature"), Some(&*signature));
    let body: Value = serde_json::from_str(&received.body).unwrap();
    let expected = json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "AdmissionCheckReview",
        "request": {
            "admissionCheck": "window", "time": "2026-11-21T09:30:00Z", "dryRun": true, "config": {"opens": "22:00"},
            "items": [{
                "uid": UID, "reservedAt": "2026-11-21T09:00:00Z", "waitedSeconds": 1800, "attempt": 1,
                "checks": [{"name": "other", "state": "Ready"}],
                "workload": {
                    "namespace": "vision", "name": "train", "uid": "u-1", "jobUid": "u-1", "role": "Whole",
                    "labels": {"team": "a"}, "annotations": {}, "clusterQueue": "gpus", "priority": 7, "admitted": false,
                    "podSets": [{"name": "main", "count": 2, "increase": 2, "resources": {"cpu": {"perPod": "1.5", "total": "3", "flavor": "spot"}}}],
                },
            }],
        },
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_release_has_the_reservation_as_its_key_and_is_repeated() {
    let folder = Folder::new("rule").unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |_: &Received| {
        let replies = [
            (500, ""),
            (200, ""),
            (404, "no such licence"),
            (410, ""),
            (409, ""),
            (200, "<html>Sign in</html>"),
            (200, r#"{"kind": "AdmissionCheckReview"}"#),
            (200, r#"{"released": true}"#),
        ];
        let (status, body) = replies[calls.fetch_add(1, Ordering::Relaxed)];
        Reply::json(status, body)
    })
    .await;
    let check = WebhookCheck::new(policy(&folder, &server.url));
    let reservation = UID.parse().unwrap();
    let error = check
        .release(&reservation, ReleaseReason::Finished)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("is not known"), "{error}");
    let own = AdmissionCheck::from_json(
        json!({"metadata": {"name": "window"}, "spec": {"controllerName": "kueue-check.dev/rule"}}),
    );
    let parameters = Arc::new(webhook(&server.url, &json!({"releasePath": "/release"})));
    check.activate(&own.unwrap(), &parameters).await.unwrap();
    let mut outcomes = Vec::new();
    for _ in 0..8 {
        outcomes.push(
            check
                .release(&reservation, ReleaseReason::Evicted)
                .await
                .ok(),
        );
    }
    let done = Some(ReleaseOutcome::Done);
    assert_eq!(outcomes, [None, done, done, done, None, None, None, done]);
    for received in server.received() {
        assert!(
            received.head.starts_with("POST /release "),
            "{}",
            received.head
        );
        assert_eq!(received.header("idempotency-key"), Some(UID));
        let body: Value = serde_json::from_str(&received.body).unwrap();
        assert_eq!(body["kind"], "AdmissionCheckRelease");
        assert_eq!(body["request"]["reason"], "Evicted");
    }
}

#[tokio::test]
async fn a_service_that_fails_to_list_does_not_affect_the_others() {
    let folder = Folder::new("rule").unwrap();
    let server = Server::start(move |received: &Received| {
        if received.head.starts_with("GET /a ") {
            return Reply::json(500, "");
        }
        let list = json!({
            "apiVersion": "kueue-check.dev/v1alpha1", "kind": "AdmissionCheckHeldList",
            "response": {"uids": [UID.replace("/window/", "/b/")]},
        });
        Reply::json(200, &list.to_string())
    })
    .await;
    let check = WebhookCheck::new(policy(&folder, &server.url));
    let activate = async |name: &str| {
        let own =
            json!({"metadata": {"name": name}, "spec": {"controllerName": "kueue-check.dev/rule"}});
        let patch = json!({"releasePath": "/release", "heldPath": format!("/{name}")});
        let parameters = Arc::new(webhook(&server.url, &patch));
        let own = AdmissionCheck::from_json(own).unwrap();
        check.activate(&own, &parameters).await.unwrap();
    };
    activate("a").await;
    let error = check.unreleased_reservations().await.unwrap_err();
    assert!(error.to_string().contains("responded with 500"), "{error}");
    activate("b").await;
    let held = check.unreleased_reservations().await.unwrap();
    let held: Vec<String> = held.iter().map(ToString::to_string).collect();
    assert_eq!(held, [UID.replace("/window/", "/b/")]);
}

#[tokio::test]
async fn servers_that_are_not_allowed_are_named_in_the_condition() {
    let folder = Folder::new("rule").unwrap();
    let own =
        || AdmissionCheck::from_json(json!({"metadata": {"name": "window"}, "spec": {}})).unwrap();
    let signed = json!({"signingKeyFile": "key"});
    let none = ServerPolicy {
        servers: Vec::new(),
        ..policy(&folder, "https://a.example")
    };
    let without_credentials = ServerPolicy {
        servers: vec!["https://a.example".parse().unwrap()],
        ..none.clone()
    };
    let insecure = ServerPolicy {
        servers: vec![AllowedServer {
            origin: "http://a.example".parse().unwrap(),
            credentials: Some(".".into()),
            allow_insecure: false,
        }],
        ..none.clone()
    };
    let one = || policy(&folder, "https://a.example");
    for (servers, url, patch, expected) in [
        (one(), "https://a.example", json!({}), None),
        (one(), "https://a.example", signed.clone(), None),
        (
            none,
            "https://a.example",
            json!({}),
            Some(("HostNotAllowed", "add `--allow-host https://a.example:443`")),
        ),
        (
            one(),
            "http://169.254.169.254",
            json!({}),
            Some(("HostNotAllowed", "http://169.254.169.254:80")),
        ),
        (
            one(),
            "http://127.0.0.1:8080",
            json!({}),
            Some(("HostNotAllowed", "http://127.0.0.1:8080")),
        ),
        (
            one(),
            "https://[::1]:8080",
            json!({}),
            Some(("HostNotAllowed", "https://[::1]:8080")),
        ),
        (
            one(),
            "https://a.example:8443",
            json!({}),
            Some(("HostNotAllowed", "https://a.example:8443")),
        ),
        (
            one(),
            "http://a.example",
            json!({}),
            Some(("HostNotAllowed", "http://a.example:80")),
        ),
        (
            one(),
            "https://a.example.evil.example",
            json!({}),
            Some(("HostNotAllowed", "evil")),
        ),
        (
            without_credentials,
            "https://a.example",
            signed.clone(),
            Some(("CredentialsNotAllowed", "without credentials")),
        ),
        (
            insecure,
            "http://a.example",
            signed,
            Some(("CredentialsNotAllowed", "plain http")),
        ),
    ] {
        let check = WebhookCheck::new(servers);
        let result = check
            .activate(&own(), &Arc::new(webhook(url, &patch)))
            .await;
        match expected {
            None => assert_eq!(result, Ok(()), "{url}"),
            Some((reason, part)) => {
                let inactive = result.expect_err(url);
                assert_eq!(inactive.reason(), reason, "{url}: {}", inactive.message());
                assert!(
                    inactive.message().contains(part),
                    "{url}: {}",
                    inactive.message()
                );
            }
        }
    }
}
