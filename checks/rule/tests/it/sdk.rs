//! The SDKs for services: the same rule in Python, Go, TypeScript and Rust gives the same verdicts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::{AdmissionCheck, Workload};
use kueue_check::{
    AdmissionCheckController, Check, CheckError, NoParameters, Parameters, ReleaseOutcome,
    ReleaseReason, RequestBuilder, Verdict,
};
use kueue_check_rule::cel::Nothing;
use kueue_check_rule::celcheck::resource::{CELCheckSpec, Variable};
use kueue_check_rule::celcheck::rule::{Environment, Rule};
use kueue_check_rule::document::{API_VERSION, REVIEW};
use kueue_check_rule::webhook::signature::sign;
use kueue_check_rule::{WebhookCheck, webhook::resource};
use kueue_check_testenv::{Folder, free_address, is_skipped};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[path = "../../../../examples/maintenance_window.rs"]
#[expect(dead_code, reason = "its main is not run here")]
mod maintenance_window;

use maintenance_window::{Window, window};

use crate::prometheus::Process;
use crate::server::policy;

const KEY: &str = "a key of the test's own";

fn sdk(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../sdk")
        .join(path)
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Reports that a language is missing. Panics if tests may not be skipped.
fn missing(what: &str) -> Option<Process> {
    assert!(
        std::env::var_os("KUEUE_CHECK_REQUIRE_TESTENV").is_none(),
        "{what} is missing, and KUEUE_CHECK_REQUIRE_TESTENV is set"
    );
    println!("SKIPPED: {what} is missing");
    None
}

/// Starts a server of an SDK's example.
async fn start(mut command: Command, port: u16) -> Option<Process> {
    let service = Process::spawn(command.env("SIGNING_KEY", KEY), port, None);
    service.listens().await;
    Some(service)
}

fn free_port() -> u16 {
    free_address().unwrap().port()
}

async fn python(example: &str) -> Option<Process> {
    if !succeeds(
        Command::new("python3")
            .arg("-c")
            .arg("import zoneinfo; zoneinfo.ZoneInfo('Europe/Berlin')"),
    ) {
        return missing("Python 3.9 with time zones");
    }
    let port = free_port();
    let folder = Folder::new("rule").unwrap();
    // The unchanged example, with a key.
    let text = format!("import {example}\n{example}.app.key = {KEY:?}\napp = {example}.app\n");
    folder.write("signed.py", &text).unwrap();
    let mut command = Command::new("python3");
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/asgi.py");
    command
        .arg("-B")
        .arg(runner)
        .arg(folder.path())
        .arg("signed:app")
        .arg(port.to_string());
    command.env("PYTHONPATH", sdk("python"));
    start(command, port).await
}

async fn go(example: &str) -> Option<Process> {
    // Like the real API server, it takes minutes to compile.
    if is_skipped("the SDK for Go") {
        return None;
    }
    if !succeeds(Command::new("go").arg("version")) {
        return missing("Go");
    }
    let port = free_port();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{example}-go"));
    let mut build = Command::new("go");
    build
        .args(["build", "-o"])
        .arg(&program)
        .arg(format!("./examples/{example}"))
        .current_dir(sdk("go"));
    assert!(
        build.status().unwrap().success(),
        "the Go example does not build"
    );
    let mut command = Command::new(program);
    command.arg(format!("127.0.0.1:{port}"));
    start(command, port).await
}

/// Node 22.6 and later runs TypeScript; an older one needs the compiler `tsc`.
async fn typescript(example: &str, compiled: &Folder) -> Option<Process> {
    let port = free_port();
    let mut node = Command::new("node");
    if succeeds(Command::new("node").args(["--experimental-strip-types", "-e", ""])) {
        node.args(["--experimental-strip-types", "--no-warnings"])
            .arg(sdk(&format!("typescript/{example}.ts")));
    } else if succeeds(Command::new("node").arg("--version"))
        && succeeds(Command::new("tsc").arg("--version"))
    {
        let mut compile = Command::new("tsc");
        compile
            .args([
                "--target",
                "es2022",
                "--module",
                "nodenext",
                "--rewriteRelativeImportExtensions",
                "--noCheck",
                "--outDir",
            ])
            .arg(compiled.path())
            .arg(sdk(&format!("typescript/{example}.ts")));
        assert!(
            compile.status().unwrap().success(),
            "the TypeScript example does not compile"
        );
        compiled
            .write("package.json", r#"{"type": "module"}"#)
            .unwrap();
        node.arg(compiled.path().join(format!("{example}.js")));
    } else {
        println!("SKIPPED: Node 22.6, or an older one with tsc, is missing");
        return None;
    }
    node.arg(port.to_string());
    start(node, port).await
}

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// Returns a Workload, the time of its review, and a window.
fn case(random: &mut Random, number: usize) -> (Workload, Timestamp, Value) {
    let pods = random.below(64) + 1;
    let workload = Workload::from_json(json!({
        "metadata": {"namespace": random.of(&["vision", "nlp"]), "name": format!("job-{number}"), "uid": format!("u-{number}"),
            "labels": {"team": random.of(&["a", "b\u{e9}\u{4e2d}", ""])}},
        "spec": {"priority": random.below(100), "podSets": [{"name": "main", "count": pods, "template": {}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": pods}]},
            "admissionChecks": [{"name": "window", "state": "Pending"}]},
    }));
    let second = 1_767_225_600 + i64::try_from(random.below(366 * 86_400)).unwrap();
    // No hour in which one of these zones changes its clocks. Languages differ in the meaning of a
    // time that does not exist, or exists twice.
    let zones = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Australia/Sydney",
        "America/St_Johns",
    ];
    let mut clock = || {
        format!(
            "{:02}:{:02}:{:02}",
            4 + random.below(20),
            random.below(60),
            random.below(60)
        )
    };
    let (opens, closes) = (clock(), clock());
    let config = json!({"opens": opens, "closes": closes, "timeZone": random.of(&zones)});
    (
        workload.unwrap(),
        Timestamp::from_second(second).unwrap(),
        config,
    )
}

fn webhook(url: &str, config: &Value) -> resource::WebhookCheck {
    resource::WebhookCheck::decode(json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "w"},
        "spec": {"url": format!("{url}/review"), "signingKeyFile": "key", "config": config},
    }))
    .unwrap()
}

async fn by_service(
    check: &WebhookCheck,
    url: &str,
    workload: &Workload,
    now: Timestamp,
    config: &Value,
) -> Result<Verdict, CheckError> {
    // A signature is valid for minutes only: it has the current time, and the document that of the
    // case.
    let request = RequestBuilder::new(workload.clone(), "window").now(now);
    let preview = check.preview(request.build(webhook(url, config))).await?;
    Ok(preview.verdict().unwrap().clone())
}

/// Returns the verdict of the example in Rust.
async fn by_rust(workload: &Workload, now: Timestamp, config: &Value) -> Verdict {
    let object = json!({"apiVersion": "example.com/v1alpha1", "kind": "Window", "metadata": {"name": "w"}, "spec": config});
    let request = RequestBuilder::new(workload.clone(), "window").now(now);
    let request = request.build(Window::decode(object).unwrap());
    Check::new(window).evaluate(request).await.unwrap()
}

fn what(verdict: &Verdict) -> (bool, bool, Option<u64>) {
    let seconds = verdict.recheck().map(|delay| delay.as_secs());
    (verdict.is_ready(), verdict.is_pending(), seconds)
}

/// Sends one request by hand. Returns the status and the whole response.
pub(crate) async fn raw(port: u16, method: &str, headers: &str, body: &str) -> (u16, String) {
    raw_to(port, &format!("{method} /review"), headers, body).await
}

/// As [`raw`], with the path after the method.
pub(crate) async fn raw_to(port: u16, line: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text)
}

/// Checks the behavior that all SDKs must have in common.
async fn plays_the_table(language: &str, service: &Process) {
    let folder = Folder::new("rule").unwrap();
    folder.write("key", KEY).unwrap();
    let url = service.url();
    let check = WebhookCheck::new(policy(&folder, &url));
    let (mut random, mut ready) = (Random(20), 0);
    for number in 0..500 {
        let (workload, now, config) = case(&mut random, number);
        let expected = by_rust(&workload, now, &config).await;
        let verdict = by_service(&check, &url, &workload, now, &config).await;
        let verdict =
            verdict.unwrap_or_else(|error| panic!("{language}: {config} at {now}: {error}"));
        assert_eq!(
            what(&verdict),
            what(&expected),
            "{language}: {config} at {now}: {verdict:?}"
        );
        ready += usize::from(expected.is_ready());
    }
    assert!(
        (100..400).contains(&ready),
        "{ready} of 500 are inside their window"
    );
    // An error of the author's function affects only the item.
    let (workload, now, _) = case(&mut random, 500);
    let nowhere = json!({"opens": "22:00:00", "closes": "06:00:00", "timeZone": "Nowhere/At_All"});
    let error = by_service(&check, &url, &workload, now, &nowhere)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("it reports an error"),
        "{language}: {error}"
    );

    let review = |version: &str, kind: &str| {
        json!({"apiVersion": version, "kind": kind, "request": {"admissionCheck": "w", "time": "2026-11-21T09:00:00.5Z", "items": []}}).to_string()
    };
    let seconds = kueue_check::Clock::system().now().as_second();
    let header = |value: &str| format!("kueue-check-signature: {value}\r\n");
    let signed = |later, body: &str| header(&sign(KEY, seconds + later, body).unwrap());
    let valid = |body: &str| signed(0, body);
    let good = review(API_VERSION, REVIEW);
    let mut nested: Value = serde_json::from_str(&good).unwrap();
    nested["request"]["items"] = json!([{"uid": "UID"}]);
    let lists = [("[", "]")].map(|(open, close)| open.repeat(20_000) + &close.repeat(20_000));
    let nested = nested.to_string().replace("\"UID\"", &lists.concat());
    let (version, kind) = (review("v2", REVIEW), review(API_VERSION, "Pod"));
    let activation = review(API_VERSION, "AdmissionCheckActivation");
    let no_clock = header(&format!("t={},v1=00", "9".repeat(400)));
    let tomorrow = signed(86_400, &good);
    for (case, headers, body, expected) in [
        ("a review of nobody", valid(&good), &*good, 200),
        ("no signature", String::new(), &good, 401),
        ("another body", valid("x"), &good, 401),
        ("an old signature", signed(-400, &good), &good, 401),
        ("a signature of tomorrow", tomorrow, &good, 401),
        ("half a signature", header("t=,v1=zz"), &good, 401),
        ("garbage", valid("{{"), "{{", 400),
        ("a list", valid("[]"), "[]", 400),
        ("a UID of lists", valid(&nested), &nested, 400),
        ("a time that no clock has", no_clock, &good, 401),
        ("another version", valid(&version), &version, 400),
        ("another kind", valid(&kind), &kind, 404),
        ("an activation", valid(&activation), &activation, 404),
    ] {
        let (status, text) = raw(service.port, "POST", &headers, body).await;
        assert_eq!(status, expected, "{language}: {case}: {text}");
    }
    let (status, text) = raw(service.port, "GET", &valid(""), "").await;
    assert_eq!(status, 404, "{language}: what is held: {text}");
}

/// Checks the service that allocates: the same calls have the same effects in all languages.
async fn allocates(language: &str, service: &Process) {
    let folder = Folder::new("rule").unwrap();
    folder.write("key", KEY).unwrap();
    let url = service.url();
    let check = WebhookCheck::new(policy(&folder, &url));
    let own = AdmissionCheck::from_json(json!({"metadata": {"name": "licences"}, "spec": {}}));
    let parameters = resource::WebhookCheck::decode(json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "w"},
        "spec": {"url": format!("{url}/review"), "signingKeyFile": "key", "releasePath": "/release", "heldPath": "/held"},
    }));
    let parameters = Arc::new(parameters.unwrap());
    check.activate(&own.unwrap(), &parameters).await.unwrap();
    let uid = |job: &str| format!("vision/{job}/u-{job}/licences/1795251600");
    let activate = async |job: &str| {
        let request = json!({"uid": uid(job), "admissionCheck": "licences", "namespace": "vision", "name": job, "jobUid": format!("u-{job}")});
        let body = json!({"apiVersion": API_VERSION, "kind": "AdmissionCheckActivation", "request": request}).to_string();
        let seconds = kueue_check::Clock::system().now().as_second();
        let signature = format!(
            "kueue-check-signature: {}\r\n",
            sign(KEY, seconds, &body).unwrap()
        );
        raw(service.port, "POST", &signature, &body).await
    };
    let held = async || {
        let held = check.unreleased_reservations().await.unwrap();
        let mut names: Vec<String> = held.iter().map(|one| one.name().to_owned()).collect();
        names.sort();
        names
    };
    let release = async |job: &str| {
        let reservation = uid(job).parse().unwrap();
        check
            .release(&reservation, ReleaseReason::Finished)
            .await
            .unwrap()
    };
    let none: [&str; 0] = [];
    assert_eq!(held().await, none, "{language}");
    for (job, expected) in [("a", 204), ("a", 204), ("b", 204), ("c", 409)] {
        let (status, text) = activate(job).await;
        assert_eq!(status, expected, "{language}: {job}: {text}");
        assert_eq!(
            text.contains("all licences are in use"),
            status == 409,
            "{language}: {text}"
        );
    }
    assert_eq!(held().await, ["a", "b"], "{language}");
    for _ in 0..2 {
        assert_eq!(release("a").await, ReleaseOutcome::Done, "{language}");
    }
    assert_eq!(activate("c").await.0, 204, "{language}");
    assert_eq!(held().await, ["b", "c"], "{language}");
}

/// Returns the number of lines of code in `text`: neither empty nor a comment.
fn lines_of_code(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    let comment = |line: &&str| line.starts_with("//") || line.starts_with("\"\"\"");
    lines
        .filter(|line| !line.is_empty() && !comment(line))
        .count()
}

#[test]
fn a_check_is_ten_lines_of_python_or_25_of_go() {
    let read = |path| std::fs::read_to_string(sdk(path)).unwrap();
    let python = read("python/window.py");
    assert!(lines_of_code(&python) <= 10, "{python}");
    let go = read("go/examples/window/main.go");
    let start = go.find("func window").unwrap();
    let rule = &go[start..go.find("func main").unwrap()];
    assert!(lines_of_code(rule) <= 25, "{rule}");
}

/// The same window without code. Only the recheck interval differs: 1 min.
#[tokio::test]
async fn cel_decides_as_rust() {
    let (mut random, mut ready) = (Random(20), 0);
    for number in 0..500 {
        let (workload, now, config) = case(&mut random, number);
        let (opens, closes) = (
            config["opens"].as_str().unwrap(),
            config["closes"].as_str().unwrap(),
        );
        let expected = by_rust(&workload, now, &config).await;
        let zone = config["timeZone"].as_str().unwrap();
        let mut spec = CELCheckSpec::new(&format!(
            "'{opens}' <= '{closes}' ? variables.time >= '{opens}' && variables.time < '{closes}' : variables.time >= '{opens}' || variables.time < '{closes}'"
        ));
        spec.variables.push(Variable {
            name: "time".to_owned(),
            expression: format!("now.time('{zone}')"),
        });
        let rule = Rule::new(&spec, &Environment::default()).unwrap();
        let request = RequestBuilder::new(workload, "window").now(now);
        let decided = rule.decide(&request.build(NoParameters), &Nothing).unwrap();
        let verdict = decided.verdict;
        assert_eq!(
            (verdict.is_ready(), verdict.is_pending()),
            (expected.is_ready(), expected.is_pending()),
            "{now} {config}"
        );
        ready += usize::from(verdict.is_ready());
    }
    assert!((100..400).contains(&ready), "{ready}");
}

#[tokio::test]
async fn python_decides_as_rust() {
    if let Some(service) = python("window").await {
        plays_the_table("Python", &service).await;
    }
}

#[tokio::test]
async fn go_decides_as_rust() {
    if let Some(service) = go("window").await {
        plays_the_table("Go", &service).await;
    }
}

#[tokio::test]
async fn typescript_decides_as_rust() {
    let compiled = Folder::new("rule").unwrap();
    if let Some(service) = typescript("window", &compiled).await {
        plays_the_table("TypeScript", &service).await;
    }
}

#[tokio::test]
async fn python_allocates() {
    if let Some(service) = python("licences").await {
        allocates("Python", &service).await;
    }
}

#[tokio::test]
async fn go_allocates() {
    if let Some(service) = go("licences").await {
        allocates("Go", &service).await;
    }
}

#[tokio::test]
async fn typescript_allocates() {
    let compiled = Folder::new("rule").unwrap();
    if let Some(service) = typescript("licences", &compiled).await {
        allocates("TypeScript", &service).await;
    }
}

/// JSON has no NaN, which Python and Go do not see before they encode the whole response.
#[test]
fn a_verdict_that_is_no_json_is_an_error_of_its_item() {
    if !succeeds(Command::new("python3").arg("--version")) {
        missing("Python");
        return;
    }
    let review = json!({"apiVersion": API_VERSION, "kind": REVIEW, "request": {
        "admissionCheck": "budget", "time": "2026-11-21T10:00:00Z", "items": [{"uid": "a"}, {"uid": "b"}],
    }});
    let program = format!(
        r#"
import asyncio, sys
import kueue_check

def review(item, config, now):
    verdict = kueue_check.ready()
    return dict(verdict, cost=float("nan")) if item["uid"] == "a" else verdict

async def receive():
    return {{"type": "http.request", "body": b'''{review}'''}}

async def send(message):
    sys.stdout.buffer.write(message.get("body", b""))

app = kueue_check.check(review)
asyncio.run(app({{"type": "http", "method": "POST", "headers": []}}, receive, send))
"#
    );
    let mut python = Command::new("python3");
    python.args(["-B", "-c", &program]);
    let output = python.env("PYTHONPATH", sdk("python")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let response: Value = serde_json::from_slice(&output.stdout).expect(&error);
    let items = &response["response"]["items"];
    assert_eq!(items[0]["uid"], "a");
    assert!(items[0]["error"].is_string(), "{items}");
    assert_eq!(items[1]["state"], "Ready", "{items}");
}
