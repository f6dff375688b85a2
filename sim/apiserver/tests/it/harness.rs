//! Running rows and comparing the responses.

use std::fmt::Write as _;

use std::sync::LazyLock;
use std::time::Duration;

use futures::StreamExt;
use http::{HeaderValue, Method, Request};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::Config;
use kube::client::Body;
use kueue_check_apiserver::{ApiServer, system_time};
use kueue_check_testenv::{Cluster, KueueVersion, crds};
use regex::Regex;
use serde_json::{Value, json};

use super::definitions;

/// The user agent of most requests.
const AGENT: &str = "table/1";

/// One row: requests in order, in a Namespace of their own.
pub(super) struct Row {
    name: &'static str,
    steps: Vec<Step>,
}

/// One request. Paths, bodies and parameters may contain placeholders. `{ns}` is the row's
/// Namespace. `{rv}` and `{uid}` are those of the last returned object. `{first}` is the first
/// version that was returned in the row. `{token}` is the last `continue`.
pub(super) struct Step {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Option<String>,
    accept: &'static str,
    code: u16,
    message: Option<&'static str>,
    until: Option<&'static str>,
    agent: &'static str,
}

pub(super) fn row<const N: usize>(name: &'static str, steps: [Step; N]) -> Row {
    Row {
        name,
        steps: steps.into(),
    }
}

impl Step {
    fn new(method: Method, code: u16, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method,
            code,
            path: path.into(),
            body: body.map(|body| body.to_string()),
            accept: "",
            content_type: "application/json",
            message: None,
            until: None,
            agent: AGENT,
        }
    }

    /// Sets the user agent.
    pub(super) fn by(mut self, agent: &'static str) -> Self {
        self.agent = agent;
        self
    }

    /// Repeats the request until the response has the code and contains this text. The response is
    /// not compared: the real server changes its definitions and kinds in several steps.
    pub(super) fn until(mut self, text: &'static str) -> Self {
        self.until = Some(text);
        self
    }

    /// Sets the form of the response.
    pub(super) fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// Sets the content type of the body.
    pub(super) fn typed(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    /// Sets the body, which may be empty.
    pub(super) fn raw(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Returns the text of the body.
    pub(super) fn body_text(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }

    /// Sets the text that the message of the response must contain.
    pub(super) fn message(mut self, text: &'static str) -> Self {
        self.message = Some(text);
        self
    }
}

/// Returns a step in which the server removes all versions but the newest.
pub(super) fn compact() -> Step {
    Step::new(Method::TRACE, 200, "", None)
}

pub(super) fn call(code: u16, method: Method, path: impl Into<String>) -> Step {
    Step::new(method, code, path, None)
}

pub(super) fn get(code: u16, path: impl Into<String>) -> Step {
    Step::new(Method::GET, code, path, None)
}

pub(super) fn post(code: u16, path: impl Into<String>, body: Value) -> Step {
    Step::new(Method::POST, code, path, Some(body))
}

pub(super) fn put(code: u16, path: impl Into<String>, body: Value) -> Step {
    Step::new(Method::PUT, code, path, Some(body))
}

pub(super) fn delete(code: u16, path: impl Into<String>) -> Step {
    Step::new(Method::DELETE, code, path, None)
}

pub(super) fn delete_with(code: u16, path: impl Into<String>, body: Value) -> Step {
    Step::new(Method::DELETE, code, path, Some(body))
}

fn patch(kind: &'static str, code: u16, path: impl Into<String>, body: Value) -> Step {
    Step {
        content_type: kind,
        ..Step::new(Method::PATCH, code, path, Some(body))
    }
}

pub(super) fn merge(code: u16, path: impl Into<String>, body: Value) -> Step {
    patch("application/merge-patch+json", code, path, body)
}

pub(super) fn jsonpatch(code: u16, path: impl Into<String>, body: Value) -> Step {
    patch("application/json-patch+json", code, path, body)
}

pub(super) fn strategic(code: u16, path: impl Into<String>, body: Value) -> Step {
    patch("application/strategic-merge-patch+json", code, path, body)
}

pub(super) fn ssa(code: u16, path: impl Into<String>, body: Value) -> Step {
    patch("application/apply-patch+yaml", code, path, body)
}

/// The responses of one server to a row.
pub(super) struct Replies(Vec<Reply>);

/// The response of one server to a step, without values that differ from run to run.
struct Reply {
    code: u16,
    body: Value,
}

/// A server under test.
pub(super) struct Side {
    client: Client,
    cluster: Option<Cluster>,
    server: Option<ApiServer>,
}

pub(super) async fn simulated() -> Side {
    let server = ApiServer::new(system_time());
    server.install(definitions::all());
    server.install(crds(KueueVersion::V0_19_2).expect("definitions"));
    Side {
        client: server.client_as(AGENT),
        cluster: None,
        server: Some(server),
    }
}

pub(super) async fn real() -> Option<Side> {
    let cluster = Cluster::start_or_skip("the comparison with a real kube-apiserver").await?;
    let client = cluster.client().expect("client");
    let mut all = definitions::all();
    all.extend(crds(KueueVersion::V0_19_2).expect("definitions"));
    cluster.install(&client, all).await.expect("installed");
    Some(Side {
        client,
        cluster: Some(cluster),
        server: None,
    })
}

impl Side {
    /// Runs the first rows, as many as `together`, at the same time, and the others after them, one
    /// by one.
    pub(super) async fn run(&self, rows: &[Row], together: usize) -> Vec<Replies> {
        let runs = rows.iter().enumerate().map(|(n, row)| self.row(n, row));
        let mut runs: Vec<_> = runs.collect();
        let alone = runs.split_off(together);
        let mut replies: Vec<Replies> = futures::stream::iter(runs).buffered(16).collect().await;
        for run in alone {
            replies.push(run.await);
        }
        replies
    }

    /// Removes all versions but the newest.
    async fn compact(&self) {
        let Some(cluster) = &self.cluster else {
            let server = self.server.as_ref().expect("a server");
            server.compact(server.resource_version() - 1);
            return;
        };
        let etcd = Config::new(cluster.etcd().parse().expect("address"));
        let etcd = Client::try_from(etcd).expect("client");
        let call_etcd = async |path: &str, body: Value| {
            let request = Request::post(path)
                .body(body.to_string().into_bytes())
                .expect("request");
            etcd.request::<Value>(request).await.expect("etcd")
        };
        // The version cannot be read any more once the API server has observed the compaction. It
        // checks every 30 s.
        let revision =
            call_etcd("/v3/kv/range", json!({"key": base64("/")})).await["header"]["revision"]
                .clone();
        call_etcd("/v3/kv/compaction", json!({"revision": revision})).await;
        let noted = revision.as_str().expect("revision");
        let note = json!({"key": base64("compact_rev_key"), "value": base64(noted)});
        call_etcd("/v3/kv/put", note).await;
        let before = noted.parse::<u64>().expect("number") - 1;
        let gone = get(
            410,
            format!("/apis/test.example.com/v1/widgets?limit=1&resourceVersion={before}"),
        );
        for _ in 0..240 {
            if self.send_once(&gone, &Placeholders::default()).await.0 == 410 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("version {before} is still there after two minutes");
    }

    async fn row(&self, number: usize, row: &Row) -> Replies {
        let namespace = format!("row-{number}");
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let mut placeholders = Placeholders {
            namespace,
            ..Placeholders::default()
        };
        self.send(&post(201, "/api/v1/namespaces", body), &mut placeholders)
            .await;
        placeholders = Placeholders {
            namespace: placeholders.namespace,
            ..Placeholders::default()
        };
        let mut replies = Vec::new();
        for step in &row.steps {
            let (code, mut body) = self.send(step, &mut placeholders).await;
            placeholders.update(&body["body"]);
            body = match step.until {
                Some(_) => Value::Null,
                None => normal(&body),
            };
            replies.push(Reply { code, body });
        }
        Replies(replies)
    }

    /// Sends a request, again after 429: the real server needs time until a new kind is ready.
    async fn send(&self, step: &Step, placeholders: &mut Placeholders) -> (u16, Value) {
        if step.method == Method::TRACE {
            self.compact().await;
            return (step.code, json!({"body": null}));
        }
        for _ in 0..100 {
            let (code, reply) = self.send_once(step, placeholders).await;
            let done = match step.until {
                Some(text) => code == step.code && reply.to_string().contains(text),
                None => code != 429,
            };
            if done {
                return (code, reply);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} {}: not done in ten seconds", step.method, step.path);
    }

    /// Returns the code, and the response with the compared headers.
    async fn send_once(&self, step: &Step, placeholders: &Placeholders) -> (u16, Value) {
        let body = step.body.as_ref().map(|body| placeholders.fill(body));
        let mut request = Request::builder()
            .method(step.method.clone())
            .uri(placeholders.fill(&step.path))
            .header("user-agent", step.agent)
            .body(Body::from(body.unwrap_or_default().into_bytes()))
            .expect("request");
        for (name, value) in [("content-type", step.content_type), ("accept", step.accept)] {
            if !value.is_empty() {
                let value = HeaderValue::from_static(value);
                request.headers_mut().insert(name, value);
            }
        }
        // A client of the simulated server has one user agent.
        let other = self.server.as_ref().filter(|_| step.agent != AGENT);
        let other = other.map(|server| server.client_as(step.agent));
        let client = other.as_ref().unwrap_or(&self.client);
        let response = client.send(request).await.expect("response");
        let code = response.status().as_u16();
        let mut reply = json!({});
        for name in ["warning", "retry-after"] {
            let values = response.headers().get_all(name).iter();
            let texts: Vec<Value> = values
                .map(|value| {
                    String::from_utf8_lossy(value.as_bytes())
                        .into_owned()
                        .into()
                })
                .collect();
            if !texts.is_empty() {
                reply[name] = texts.into();
            }
        }
        let bytes = response
            .into_body()
            .collect()
            .await
            .expect("body")
            .to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        reply["body"] = if step.path.contains("watch=") && code == 200 {
            let events = text
                .lines()
                .map(|l| serde_json::from_str::<Value>(l).expect("event"));
            events.filter(is_certain).collect()
        } else {
            serde_json::from_str(&text).unwrap_or_else(|_| text.clone().into())
        };
        (code, reply)
    }
}

fn base64(text: &str) -> Value {
    let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
    serde_json::to_value(bytes).expect("text")
}

/// Returns true except for bookmarks at any time; the one after the initial events is certain.
fn is_certain(event: &Value) -> bool {
    event["type"] != "BOOKMARK" || event.pointer("/object/metadata/annotations").is_some()
}

#[derive(Default)]
struct Placeholders {
    namespace: String,
    version: String,
    first: String,
    uid: String,
    token: String,
}

impl Placeholders {
    fn fill(&self, text: &str) -> String {
        text.replace("{ns}", &self.namespace)
            .replace("{rv}", &self.version)
            .replace("{first}", &self.first)
            .replace("{uid}", &self.uid)
            .replace("{token}", &self.token)
    }

    fn update(&mut self, body: &Value) {
        let text = |name: &str| body["metadata"][name].as_str().map(str::to_owned);
        if let Some(version) = text("resourceVersion") {
            if self.first.is_empty() {
                self.first.clone_from(&version);
            }
            self.version = version;
        }
        self.uid = text("uid").unwrap_or_else(|| self.uid.clone());
        self.token = text("continue").unwrap_or_else(|| self.token.clone());
    }
}

/// Removes values that differ from run to run.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut out: serde_json::Map<String, Value> = map
                .iter()
                .map(|(name, child)| {
                    let plain = match (name.as_str(), child) {
                        ("resourceVersion", Value::String(text)) if text != "0" => json!("VERSION"),
                        ("uid", Value::String(_)) => json!("UID"),
                        ("creationTimestamp" | "deletionTimestamp" | "time", Value::String(_)) => {
                            json!("TIME")
                        }
                        ("continue", Value::String(text)) if !text.is_empty() => json!("TOKEN"),
                        ("cells", Value::Array(cells)) => cells.iter().map(without_age).collect(),
                        // The simulated API server has no descriptions.
                        ("description", Value::String(_)) => json!(""),
                        _ => normal(child),
                    };
                    (name.clone(), plain)
                })
                .collect();
            // Entries of one second are ordered by name, and whether two writes fall into one
            // second varies.
            if let Some(Value::Array(entries)) = out.get_mut("managedFields") {
                let text =
                    |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
                entries.sort_by_key(|e| {
                    ["operation", "manager", "apiVersion", "subresource"].map(|n| text(e, n))
                });
            }
            let several = out
                .get("causes")
                .and_then(Value::as_array)
                .is_some_and(|c| c.len() > 1);
            if several && let Some(Value::Array(causes)) = out.get_mut("causes") {
                causes.sort_by_key(ToString::to_string);
            }
            let many = out
                .get("details")
                .and_then(|d| d.get("causes")?.as_array())
                .is_some_and(|c| c.len() > 1);
            if many
                && out.get("reason") == Some(&json!("Invalid"))
                && let Some(message) = out.get("message").and_then(Value::as_str)
                && let Some((head, _)) = message.split_once(" is invalid: ")
            {
                // The real server uses the order of a map.
                out.insert("message".to_owned(), format!("{head} is invalid").into());
            }
            Value::Object(out)
        }
        Value::Array(list) => Value::Array(list.iter().map(normal).collect()),
        Value::String(text) => json!(plain_text(text)),
        other => other.clone(),
    }
}

/// Replaces an age, which depends on the time of the request.
fn without_age(cell: &Value) -> Value {
    static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[0-9]+s$").expect("pattern"));
    match cell {
        Value::String(text) if AGE.is_match(text) => json!("AGE"),
        other => normal(other),
    }
}

/// Removes uids, the times of the run, and versions that are named as such.
fn plain_text(text: &str) -> String {
    static PATTERNS: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
        let pattern = |text: &str| Regex::new(text).expect("pattern");
        [
            (pattern("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
            (
                pattern(
                    r"(?i)(version: |current: |version in precondition: |in object meta: |resource version: |resourceVersion\W*:\W*|the precondition \(|in record \()[0-9]+",
                ),
                "${1}VERSION",
            ),
            (pattern(r"\([0-9]+\)$"), "(VERSION)"),
            (pattern("^(gen-|a{58})[a-z0-9]{5}$"), "${1}MADE"),
            (pattern("row-[0-9]+"), "ROW"),
        ]
    });
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").expect("pattern"));
    let now = system_time()();
    let recent = |found: &regex::Captures<'_>| {
        let time: Option<Timestamp> = found[0].parse().ok();
        let near = time.is_some_and(|time| now.duration_since(time).abs().as_mins() < 60);
        if near {
            "TIME".to_owned()
        } else {
            found[0].to_owned()
        }
    };
    let mut text = TIME.replace_all(text, recent).into_owned();
    for (pattern, with) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    text
}

impl Row {
    /// Checks the codes and texts of the table.
    pub(super) fn check_literals(&self, who: &str, replies: &Replies) {
        let mut wrong = String::new();
        self.literals(who, replies, &mut wrong);
        assert!(wrong.is_empty(), "{wrong}");
    }

    fn literals(&self, who: &str, replies: &Replies, wrong: &mut String) {
        for (number, (step, reply)) in self.steps.iter().zip(&replies.0).enumerate() {
            let (code, body) = (reply.code, &reply.body["body"]);
            let text = body.to_string();
            if code != step.code {
                let _ = writeln!(
                    wrong,
                    "{}, step {number}: {who}: {code}, not {}: {text:.300}",
                    self.name, step.code
                );
            }
            let mut message = body["message"].as_str().map_or(text, str::to_owned);
            // If there are several causes, the message is not compared.
            for cause in body["details"]["causes"].as_array().into_iter().flatten() {
                for name in ["field", "message"] {
                    let _ = write!(message, " {}", cause[name].as_str().unwrap_or_default());
                }
            }
            if let Some(expected) = step.message.filter(|expected| !message.contains(expected)) {
                let _ = writeln!(
                    wrong,
                    "{}, step {number}: {who}: not {expected:?} but {message:?}",
                    self.name
                );
            }
        }
    }
}

/// Checks that both servers agree with each other and with the table.
pub(super) fn compare(rows: &[Row], ours: &[Replies], theirs: &[Replies]) {
    let (mut wrong, mut bad) = (String::new(), 0);
    for ((row, ours), theirs) in rows.iter().zip(ours).zip(theirs) {
        let before = wrong.len();
        row.literals("real", theirs, &mut wrong);
        row.literals("in memory", ours, &mut wrong);
        for (number, (a, b)) in ours.0.iter().zip(&theirs.0).enumerate() {
            let (a, b) = (&a.body, &b.body);
            if a != b {
                let _ = writeln!(wrong, "{}, step {number}:", row.name);
                differences("", a, b, &mut wrong);
            }
        }
        bad += usize::from(wrong.len() > before);
    }
    assert!(
        wrong.is_empty(),
        "{bad} of {} rows differ (- in memory, + real):\n{wrong}",
        rows.len()
    );
    eprintln!("{} rows agree", rows.len());
}

fn differences(path: &str, a: &Value, b: &Value, out: &mut String) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let names: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for name in names {
                let (x, y) = (x.get(name), y.get(name));
                if x != y {
                    match (x, y) {
                        (Some(x), Some(y)) => differences(&format!("{path}.{name}"), x, y, out),
                        _ => show(&format!("{path}.{name}"), x, y, out),
                    }
                }
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (index, (x, y)) in x.iter().zip(y).enumerate() {
                if x != y {
                    differences(&format!("{path}[{index}]"), x, y, out);
                }
            }
        }
        _ => show(path, Some(a), Some(b), out),
    }
}

fn show(path: &str, a: Option<&Value>, b: Option<&Value>, out: &mut String) {
    let text =
        |v: Option<&Value>| v.map_or("nothing".to_owned(), |v| format!("{:.700}", v.to_string()));
    let _ = writeln!(out, "  {path}\n    - {}\n    + {}", text(a), text(b));
}
