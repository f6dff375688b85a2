//! The log of `run`: its form, its filter, panics, and the spans that go with it.

mod endpoint;
mod filter;
mod panics;
#[cfg(feature = "otel")]
mod traces;

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

pub(super) use endpoint::routes;
pub(super) use filter::LogFilter;

use super::arguments::LogFormat;
use crate::Clock;

/// What the program passes to the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) instance: &'a str,
}

/// A log that has been started.
pub(super) struct Log {
    /// None if the program had set up a log of its own.
    pub(super) filter: Option<LogFilter>,
    #[cfg(feature = "otel")]
    traces: Option<traces::Traces>,
}

/// Starts the log. A log that the program has set up before stays.
pub(super) fn start(program: Program<'_>, format: LogFormat, filter: &str) -> Log {
    let (text, parsed) = match EnvFilter::try_new(filter) {
        Ok(parsed) => (filter, parsed),
        Err(error) => {
            eprintln!("invalid log filter `{filter}` ({error}); using `info`");
            ("info", EnvFilter::new("info"))
        }
    };
    let (filter, handle) = reload::Layer::new(parsed);
    let log = layer(format, filter);
    #[cfg(feature = "otel")]
    let (traces, problem) = match traces::Traces::from_environment(program) {
        Ok(traces) => (traces, None),
        Err(problem) => (None, Some(problem)),
    };
    #[cfg(feature = "otel")]
    let started = match &traces {
        Some(traces) => {
            let registry = Registry::default().with(log).with(traces.layer());
            registry.try_init()
        }
        None => Registry::default().with(log).try_init(),
    };
    #[cfg(not(feature = "otel"))]
    let started = {
        let _ = program;
        Registry::default().with(log).try_init()
    };
    #[cfg(feature = "otel")]
    if let Some(problem) = problem {
        tracing::warn!(error = problem, "no spans are exported");
    }
    let filter = started.is_ok().then(|| {
        let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
        LogFilter::new(text, Clock::system(), set)
    });
    Log {
        filter,
        #[cfg(feature = "otel")]
        traces,
    }
}

impl Log {
    /// Logs panics from now on, unless the log is the program's own.
    pub(super) fn take_panics(&self) {
        if self.filter.is_some() {
            panics::log();
        }
    }

    /// Sends the remaining spans. It takes at most 2 s, whatever the collector does.
    #[cfg_attr(
        not(feature = "otel"),
        expect(clippy::unused_async, reason = "as with it")
    )]
    pub(super) async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

fn layer(format: LogFormat, filter: reload::Layer<EnvFilter, Registry>) -> BoxedLayer {
    #[cfg(feature = "otel")]
    let filter = traces::without_spans(filter);
    let layer = fmt::layer().with_writer(io::stderr);
    match format {
        LogFormat::Text => {
            let layer = layer.with_ansi(io::stderr().is_terminal());
            #[cfg(feature = "otel")]
            let layer = layer.map_event_format(|format| {
                let format = format.with_ansi(io::stderr().is_terminal());
                traces::WithIds::text(format)
            });
            layer.with_filter(filter).boxed()
        }
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true);
            #[cfg(feature = "otel")]
            let layer = layer.map_event_format(traces::WithIds::json);
            layer.with_filter(filter).boxed()
        }
    }
}
