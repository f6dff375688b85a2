//! Spans, as a collector receives them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use prost::Message;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::log::objects;
use super::program::{Program, Stage, wait};

/// What a program that waits for an export that hangs takes longer than: such an export ends after
/// 10 s, and at the end of the program after 2 s.
const HANGS: Duration = Duration::from_secs(9);

/// A stand-in for an OpenTelemetry collector: OTLP/HTTP in protobuf.
struct Collector {
    endpoint: String,
    received: Received,
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Span>>>);

/// One span, with the attributes of its resource.
#[derive(Clone, Debug)]
struct Span {
    name: String,
    trace: String,
    id: String,
    parent: String,
    kind: i32,
    failed: Option<String>,
    attributes: BTreeMap<String, String>,
    resource: BTreeMap<String, String>,
}

impl Span {
    fn is(&self, name: &str, workload: &str) -> bool {
        self.name == name && self.of("kueue.workload.name") == workload
    }

    fn of(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

impl Collector {
    async fn start() -> Self {
        let received = Received::default();
        let routes = Router::new()
            .route("/collect/v1/traces", post(receive))
            .with_state(received.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/collect", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, routes).await });
        Self { endpoint, received }
    }

    fn spans(&self) -> Vec<Span> {
        self.received.0.lock().unwrap().clone()
    }

    async fn wait(&self, name: &str, workload: &str) -> Span {
        wait(&format!("the span `{name}` of {workload}"), || {
            let spans = self.spans();
            let found = spans.iter().find(|span| span.is(name, workload));
            found.cloned().ok_or_else(|| format!("{spans:#?}"))
        })
        .await
    }
}

async fn receive(State(received): State<Received>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if headers["content-type"] != "application/x-protobuf" {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    let Ok(request) = ExportTraceServiceRequest::decode(body) else {
        return StatusCode::BAD_REQUEST;
    };
    for resource in request.resource_spans {
        let about = attributes(&resource.resource.unwrap_or_default().attributes);
        for span in resource.scope_spans.into_iter().flat_map(|s| s.spans) {
            let failed = span.status.filter(|status| status.code == 2);
            received.0.lock().unwrap().push(Span {
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind,
                failed: failed.map(|status| status.message),
                attributes: attributes(&span.attributes),
                resource: about.clone(),
            });
        }
    }
    StatusCode::OK
}

fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|v| v.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = pairs.iter();
    pairs
        .map(|pair| (pair.key.clone(), text(&pair.value)))
        .collect()
}

fn environment(endpoint: &str) -> Vec<(&str, &str)> {
    vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ]
}

#[tokio::test]
async fn evaluations_writes_releases_and_activations_are_spans() {
    let (stage, collector) = (Stage::new().await, Collector::start().await);
    let mut variables = environment(&collector.endpoint);
    variables.push((
        "OTEL_RESOURCE_ATTRIBUTES",
        "deployment.environment.name=test",
    ));
    let program = Program::start(&stage, "json", &variables);
    stage.reserve("ready-0");
    stage.wait_ready("ready-0").await;
    stage.finish("ready-0");
    stage.reserve("fails-0");
    stage.reserve("slow-0");
    program
        .line("an evaluation that takes time", |line| {
            line.contains("evaluated slow-0")
        })
        .await;
    stage.annotate("slow-0");
    stage.wait_ready("slow-0").await;
    collector.wait("release", "ready-0").await;
    collector.wait("evaluate", "fails-0").await;
    let (took, lines) = program.stop().await;
    assert!(took < HANGS, "{took:?}");
    let spans = collector.spans();

    let activated = spans.iter().find(|span| span.name == "activate").unwrap();
    assert_eq!(activated.of("kueue.outcome"), "active");
    assert_eq!(activated.of("kueue.admission_check.name"), "seats");
    assert_eq!(activated.of("kueue.controller.name"), "example.com/seats");
    for (attribute, value) in [
        ("service.name", "seat-check"),
        ("service.version", "2.1.0"),
        ("service.instance.id", "seat-check-0"),
        ("deployment.environment.name", "test"),
        ("telemetry.sdk.language", "rust"),
    ] {
        assert_eq!(activated.resource[attribute], value);
    }

    let find = |name: &str, workload: &str| {
        let mut found = spans.iter().filter(|span| span.is(name, workload));
        found
            .next()
            .unwrap_or_else(|| panic!("no {name} of {workload}: {spans:#?}"))
    };
    let inside = |name: &str, parent: &Span| {
        let found = spans
            .iter()
            .find(|span| span.name == name && span.parent == parent.id);
        let found = found.unwrap_or_else(|| panic!("no {name} in {parent:#?}: {spans:#?}"));
        assert_eq!(found.trace, parent.trace);
        found
    };
    let uid = stage.workload("ready-0")["metadata"]["uid"].clone();
    let evaluated = find("evaluate", "ready-0");
    assert_eq!(evaluated.parent, "", "it begins a trace");
    for (attribute, value) in [
        ("k8s.namespace.name", "default"),
        ("kueue.workload.uid", uid.as_str().unwrap()),
        ("kueue.admission_check.name", "seats"),
        ("kueue.controller.name", "example.com/seats"),
        ("kueue.evaluation", "1"),
        ("kueue.outcome", "Ready"),
        ("kueue.dropped", ""),
    ] {
        assert_eq!(evaluated.of(attribute), value, "{attribute}");
    }
    // A span of the check's own.
    assert_eq!(inside("look up", evaluated).of("licence"), "cad");
    let written = inside("write state", evaluated);
    assert_eq!(written.of("kueue.state"), "Ready");
    assert_eq!(written.of("kueue.outcome"), "ok");
    assert_eq!(written.of("kueue.workload.uid"), uid.as_str().unwrap());
    // The request that kube's client sends; 3 means a client.
    let request = spans.iter().find(|span| span.parent == written.id).unwrap();
    assert_eq!((request.kind, request.of("http.method")), (3, "PATCH"));
    assert_eq!(request.trace, evaluated.trace);

    let released = find("release", "ready-0");
    assert_eq!(released.of("kueue.outcome"), "done");
    assert_eq!(released.of("kueue.release.reason"), "Finished");
    assert_eq!(released.of("kueue.controller.name"), "example.com/seats");

    let failed = find("evaluate", "fails-0");
    assert_eq!(failed.of("kueue.outcome"), "transient");
    let why = failed.failed.as_deref();
    assert_eq!(why, Some("no response from the licence server"));
    // A verdict whose inputs have changed meanwhile.
    let dropped = find("evaluate", "slow-0");
    assert_eq!(dropped.of("kueue.outcome"), "Ready");
    assert_eq!(dropped.of("kueue.dropped"), "the Workload changed");
    assert!(
        spans
            .iter()
            .all(|span| span.parent != dropped.id || span.name != "write state")
    );

    // Nothing else starts a trace: no watch, no renewal of the Lease.
    let roots: Vec<&str> = spans
        .iter()
        .filter(|s| s.parent.is_empty())
        .map(|s| &*s.name)
        .collect();
    let known = [
        "evaluate",
        "activate",
        "release",
        "list unreleased",
        "read workload",
        "write state",
        "write conditions",
    ];
    assert!(roots.iter().all(|name| known.contains(name)), "{roots:?}");

    // The ids in the log are those of the spans.
    let log = objects(&lines);
    let verdict = log
        .iter()
        .find(|o| {
            o["message"] == "a seat" || (o["workload"] == "default/ready-0" && o["to"] == "Ready")
        })
        .unwrap();
    assert_eq!(verdict["trace_id"], *evaluated.trace, "{verdict}");
    assert_eq!(verdict["span_id"], *written.id, "{verdict}");
    let own = log.iter().filter(|o| o["message"] == "seat looked up");
    let own: Vec<_> = own.filter(|o| o["trace_id"] == *evaluated.trace).collect();
    assert_eq!(own.len(), 1, "{log:#?}");
    let given_back = log
        .iter()
        .find(|o| o["message"] == "seat released")
        .unwrap();
    assert_eq!(given_back["trace_id"], *released.trace);
    let starting = log.iter().find(|o| o["message"] == "starting").unwrap();
    assert!(starting.get("trace_id").is_none(), "{starting}");
}

#[tokio::test]
async fn a_text_log_has_ids_too_and_a_sampler_decides_what_is_sent() {
    let (stage, collector) = (Stage::new().await, Collector::start().await);
    let mut variables = environment(&collector.endpoint);
    variables.push(("OTEL_SERVICE_NAME", "seats"));
    let program = Program::start(&stage, "text", &variables);
    stage.reserve("ready-0");
    let evaluated = collector.wait("evaluate", "ready-0").await;
    assert_eq!(evaluated.resource["service.name"], "seats");
    let own = program
        .line("a line of the check", |line| {
            line.contains("seat looked up")
        })
        .await;
    assert!(
        own.contains(&format!(" trace_id={} span_id=", evaluated.trace)),
        "{own}"
    );
    program.stop().await;

    let before = collector.spans().len();
    variables.push(("OTEL_TRACES_SAMPLER", "always_off"));
    let program = Program::start(&stage, "text", &variables);
    stage.reserve("ready-1");
    stage.wait_ready("ready-1").await;
    program.stop().await;
    assert_eq!(collector.spans().len(), before);
}

/// The collector does not listen, or accepts requests and never responds, or refuses.
#[tokio::test]
async fn a_collector_that_is_down_or_slow_costs_no_verdict_and_no_end() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_endpoint = format!("http://{}", silent.local_addr().unwrap());
    let held = Arc::new(Mutex::new(Vec::new()));
    let holding = Arc::clone(&held);
    tokio::spawn(async move {
        while let Ok((stream, _)) = silent.accept().await {
            holding.lock().unwrap().push(stream);
        }
    });
    let refusing = Collector::start()
        .await
        .endpoint
        .replace("/collect", "/nothing-here");
    let stage = Stage::new().await;
    for (number, endpoint) in ["http://127.0.0.1:9", &silent_endpoint, &refusing]
        .iter()
        .enumerate()
    {
        let program = Program::start(&stage, "json", &environment(endpoint));
        let name = format!("ready-{number}");
        program
            .line("its start", |line| line.contains("\"role\""))
            .await;
        let began = Instant::now();
        stage.reserve(&name);
        stage.wait_ready(&name).await;
        let took = began.elapsed();
        assert!(took < HANGS, "{endpoint}: {took:?}");
        let (took, lines) = program.stop().await;
        assert!(took < HANGS, "{endpoint}: {took:?}");
        let log = objects(&lines);
        let lost = log.iter().any(|o| {
            o.to_string().contains("spans") || o.to_string().contains("BatchSpanProcessor")
        });
        assert!(
            lost,
            "{endpoint}: nothing reports that spans are lost: {log:#?}"
        );
    }
    assert!(
        !held.lock().unwrap().is_empty(),
        "the silent one received requests"
    );
}

#[tokio::test]
async fn invalid_settings_are_logged_and_the_program_runs() {
    let stage = Stage::new().await;
    for (name, (variable, value, problem)) in [
        (
            "ready-0",
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "grpc",
                "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`; only `http/protobuf` is supported",
            ),
        ),
        (
            "ready-1",
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "http://no host",
                "the endpoint `http://no host`: ",
            ),
        ),
    ] {
        let mut variables = environment("http://127.0.0.1:9");
        variables.push((variable, value));
        let program = Program::start(&stage, "json", &variables);
        let line = program
            .line("a warning", |line| line.contains("no spans are exported"))
            .await;
        assert!(line.contains(problem), "{line}");
        stage.reserve(name);
        stage.wait_ready(name).await;
        program.stop().await;
    }
}
