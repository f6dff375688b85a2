//! Spans for OpenTelemetry: exported over OTLP/HTTP, by the standard environment variables.

use std::env;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{self, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Registry, filter::FilterExt, filter::LevelFilter, reload};

use super::Program;
use crate::runtime::SPANS;

/// How long the end of the program waits for the last spans.
const END: Duration = Duration::from_secs(2);

/// How long one export may take, unless `OTEL_EXPORTER_OTLP_TIMEOUT` sets it.
const EXPORT: Duration = Duration::from_secs(10);

/// The largest response of the collector, in bytes.
const LARGEST_RESPONSE: usize = 64 * 1024;

/// The exporter of spans.
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Returns `None` unless an endpoint is set. A thread of its own sends spans in batches from a
    /// queue that drops excess spans, so nothing waits for the collector.
    pub(super) fn from_environment(program: Program<'_>) -> Result<Option<Self>, String> {
        let Some(endpoint) = endpoint(|name| env::var(name).ok()) else {
            return Ok(None);
        };
        for name in [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ] {
            if let Ok(protocol) = env::var(name)
                && protocol != "http/protobuf"
            {
                return Err(format!(
                    "{name} is `{protocol}`; only `http/protobuf` is supported"
                ));
            }
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(&endpoint)?)
            .build()
            .map_err(|error| format!("{error}"))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource(program))
            .build();
        Ok(Some(Self { provider }))
    }

    /// Returns the layer that exports the runtime's spans and those inside them.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let scope = InstrumentationScope::builder("kueue-check")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer_with_scope(scope))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(InsideTasks)
    }

    /// Sends the remaining spans, for at most [`END`].
    pub(super) async fn end(self) {
        let (done, ended) = oneshot::channel();
        // A blocking task of tokio would delay the end of its runtime.
        std::thread::spawn(move || {
            let _ = done.send(self.provider.shutdown_with_timeout(END));
        });
        match timeout(END, ended).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "cannot send the last spans"),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(limit = ?END, "cannot send the last spans in time");
            }
        }
    }
}

/// Returns the endpoint, if spans are to be exported.
fn endpoint(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name| variable(name).filter(|value| !value.trim().is_empty());
    let off = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || set("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    if off {
        return None;
    }
    set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| set("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

/// Describes the service: the environment takes precedence over the program.
fn resource(program: Program<'_>) -> Resource {
    let text = |value: &str| value.to_owned();
    let resource = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", text(program.name)),
            KeyValue::new("service.version", text(program.version)),
            KeyValue::new("service.instance.id", text(program.instance)),
        ])
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}

/// Sends requests with kube's client, which brings TLS and the system's certificates.
struct Collector {
    client: Client,
    runtime: Handle,
    limit: Duration,
}

impl Collector {
    fn new(endpoint: &str) -> Result<Self, String> {
        let wrong = |problem: &dyn fmt::Display| format!("the endpoint `{endpoint}`: {problem}");
        let uri: Uri = endpoint.parse().map_err(|error| wrong(&error))?;
        // The exporter writes the path.
        let mut parts = uri.into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let server = Uri::from_parts(parts).map_err(|error| wrong(&error))?;
        let mut config = kube::Config::new(server);
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| wrong(&error))?;
        let limit = [
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ]
        .iter()
        .find_map(|name| env::var(name).ok()?.parse().ok())
        .map_or(EXPORT, Duration::from_millis);
        Ok(Self {
            client,
            runtime: Handle::current(),
            limit,
        })
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for Collector {
    /// Sends a request on tokio, which the client needs: the exporter's thread is not one of its.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, limit) = (self.client.clone(), self.limit);
        let send = async move {
            let request = request.map(|body| Body::from(body.to_vec()));
            let (head, body) = client.send(request).await?.into_parts();
            let body = Limited::new(body, LARGEST_RESPONSE).collect().await?;
            Ok::<_, HttpError>(Response::from_parts(head, body.to_bytes()))
        };
        let sent = self.runtime.spawn(async move {
            match timeout(limit, send).await {
                Ok(sent) => sent,
                Err(_) => Err(format!("no response within {limit:?}").into()),
            }
        });
        let sent = sent.await?;
        if let Err(error) = &sent {
            tracing::debug!(%error, "cannot send spans");
        }
        sent
    }
}

/// Passes on the runtime's spans, and those inside them: the requests of kube's client, and spans
/// of the check.
struct InsideTasks;

impl<S> Filter<S> for InsideTasks
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn enabled(&self, metadata: &Metadata<'_>, context: &layer::Context<'_, S>) -> bool {
        metadata.is_span()
            && *metadata.level() <= Level::DEBUG
            && (metadata.target() == SPANS || context.lookup_current().is_some())
    }

    fn callsite_enabled(
        &self,
        metadata: &'static Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        if metadata.is_span() && *metadata.level() <= Level::DEBUG {
            tracing::subscriber::Interest::sometimes()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

/// Returns the log's filter, without the runtime's spans: its lines have ids instead.
pub(super) fn without_spans(
    filter: reload::Layer<EnvFilter, Registry>,
) -> impl Filter<Registry> + Send + Sync + 'static {
    filter.and(filter_fn(|metadata| {
        !(metadata.is_span() && metadata.target() == SPANS)
    }))
}

/// Adds `trace_id` and `span_id` to lines that are logged in a span. The names are OpenTelemetry's
/// for logs in formats other than OTLP.
pub(super) struct WithIds<F> {
    format: F,
    json: bool,
}

impl<F> WithIds<F> {
    pub(super) fn text(format: F) -> Self {
        Self {
            format,
            json: false,
        }
    }

    pub(super) fn json(format: F) -> Self {
        Self { format, json: true }
    }
}

impl<S, N, F> FormatEvent<S, N> for WithIds<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let ids = Context::map_current(|current| {
            let span = current.span();
            let span = span.span_context();
            span.is_valid().then(|| (span.trace_id(), span.span_id()))
        });
        let Some((trace, span)) = ids else {
            return self.format.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.format
            .format_event(context, Writer::new(&mut line), event)?;
        let end = if self.json { "}\n" } else { "\n" };
        let start = line.strip_suffix(end).unwrap_or(&line);
        writer.write_str(start)?;
        if self.json {
            write!(writer, ",\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"")?;
        } else {
            write!(writer, " trace_id={trace} span_id={span}")?;
        }
        writer.write_str(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exported_where_an_endpoint_is_set_and_they_are_not_switched_off() {
        const GENERAL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318");
        const OWN: (&str, &str) = (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://own:4318/v1/traces",
        );
        for (environment, expected) in [
            (&[][..], None),
            (&[GENERAL], Some(GENERAL.1)),
            (&[GENERAL, OWN], Some(OWN.1)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
            (&[GENERAL, ("OTEL_SDK_DISABLED", "true")], None),
            (&[GENERAL, ("OTEL_SDK_DISABLED", "false")], Some(GENERAL.1)),
            (&[GENERAL, ("OTEL_TRACES_EXPORTER", "none")], None),
            (
                &[GENERAL, ("OTEL_TRACES_EXPORTER", "otlp")],
                Some(GENERAL.1),
            ),
        ] {
            let found = endpoint(|name| {
                let set = environment.iter().find(|(set, _)| *set == name);
                set.map(|(_, value)| (*value).to_owned())
            });
            assert_eq!(found.as_deref(), expected, "{environment:?}");
        }
    }
}
