//! The log's filter on the admin endpoint.

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Extension, Router};

use super::filter::{FilterError, LogFilter};
use crate::admin::User;
use crate::check::HumanDuration;

/// Kubernetes' components serve `PUT /debug/flags/v`; `/debug/flags/` is followed by a flag's name.
const PATH: &str = "/debug/flags/log-filter";

/// The largest filter, in bytes.
const LARGEST: usize = 4 * 1024;

/// Returns the routes. `GET` shows the filter. `PUT` sets it to the body, with `?for=DURATION` for
/// that time.
pub(in crate::cli) fn routes(filter: LogFilter) -> Router {
    Router::new()
        .route(PATH, get(show).put(set))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(filter)
}

async fn show(State(filter): State<LogFilter>) -> String {
    filter.to_string()
}

async fn set(
    State(filter): State<LogFilter>,
    user: Option<Extension<User>>,
    RawQuery(query): RawQuery,
    body: String,
) -> (StatusCode, String) {
    let lasts = match duration(query.as_deref().unwrap_or_default()) {
        Ok(lasts) => lasts,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem + "\n"),
    };
    let user = user.map(|Extension(user)| user.0);
    match filter.set(&body, lasts, user.as_deref()) {
        Ok(()) => (StatusCode::OK, filter.to_string()),
        Err(error @ FilterError::NotSet(_)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

/// Parses the duration in a query, which has nothing else.
fn duration(query: &str) -> Result<Option<Duration>, String> {
    if query.is_empty() {
        return Ok(None);
    }
    let text = query
        .strip_prefix("for=")
        .ok_or_else(|| format!("unknown query `{query}`; use `for=10m`, or none"))?;
    let duration: HumanDuration = text
        .parse()
        .map_err(|error| format!("`for={text}` is no duration: {error}"))?;
    Ok(Some(duration.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::body::{Body, to_bytes};
    use axum::http::{Method, Request};
    use tower::ServiceExt;

    use super::*;
    use crate::Clock;

    async fn send(routes: &Router, method: Method, query: &str, body: &str) -> (u16, String) {
        let request = Request::builder()
            .method(method)
            .uri(format!("{PATH}{query}"))
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = routes.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_filter_is_shown_set_and_set_back() {
        let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
        let set: Arc<Mutex<Vec<String>>> = Arc::default();
        let sets = Arc::clone(&set);
        let filter = LogFilter::new("info", clock, move |filter| {
            sets.lock().unwrap().push(filter.to_string());
            Ok(())
        });
        let routes = routes(filter);
        let ok = |text: &str| (200, text.to_owned());
        assert_eq!(send(&routes, Method::GET, "", "").await, ok("info\n"));
        assert_eq!(send(&routes, Method::PUT, "", "warn").await, ok("warn\n"));
        let shown = "kueue_check=debug\nuntil 2026-11-21T09:10:00Z, then warn\n";
        let response = send(&routes, Method::PUT, "?for=10m", " kueue_check=debug\n").await;
        assert_eq!(response, ok(shown));
        assert_eq!(send(&routes, Method::GET, "", "").await, ok(shown));
        // A filter that is set meanwhile stays when the time of the first one ends.
        tokio::time::sleep(Duration::from_mins(5)).await;
        let response = send(&routes, Method::PUT, "?for=20m", "debug").await;
        assert_eq!(response.1, "debug\nuntil 2026-11-21T09:25:00Z, then warn\n");
        tokio::time::sleep(Duration::from_mins(19)).await;
        assert_eq!(send(&routes, Method::GET, "", "").await, response);
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(send(&routes, Method::GET, "", "").await, ok("warn\n"));
        let all = ["warn", "kueue_check=debug", "debug", "warn"];
        assert_eq!(*set.lock().unwrap(), all);
    }

    #[tokio::test]
    async fn a_change_is_logged_with_its_user() {
        let filter = || LogFilter::new("info", Clock::system(), |_| Ok(()));
        // Another test may be the first to log this, and register the event without a subscriber.
        send(&routes(filter()), Method::PUT, "", "warn").await;
        let (lines, written) = std::sync::mpsc::channel();
        let writer = move || Lines(lines.clone());
        let log = tracing_subscriber::fmt()
            .json()
            .with_writer(writer)
            .finish();
        let log = tracing::subscriber::set_default(log);
        tracing::callsite::rebuild_interest_cache();
        let routes = routes(filter());
        send(&routes, Method::PUT, "", "warn").await;
        let known = routes.layer(Extension(User("alice".into())));
        send(&known, Method::PUT, "", "debug").await;
        drop(log);
        let users = written.try_iter().map(|line| {
            let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(line["fields"]["message"], "log filter set");
            line["fields"]["user"].clone()
        });
        let users: Vec<_> = users.collect();
        assert_eq!(users, [serde_json::json!(null), "alice".into()]);
    }

    /// Sends each line that is written.
    struct Lines(std::sync::mpsc::Sender<Vec<u8>>);

    impl std::io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            let sent = self.0.send(line.to_owned());
            sent.map_err(std::io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_filter_is_rejected_and_changes_nothing() {
        let filter = LogFilter::new("info", Clock::system(), |_| panic!("it is set"));
        let routes = routes(filter);
        for (query, body, code, problem) in [
            (
                "",
                "",
                400,
                "the filter is empty; send a level such as `info`",
            ),
            (
                "",
                "kueue_check=loud",
                400,
                "the filter `kueue_check=loud` cannot be read: error parsing level filter",
            ),
            ("?for=soon", "debug", 400, "`for=soon` is no duration: "),
            (
                "?during=10m",
                "debug",
                400,
                "unknown query `during=10m`; use `for=10m`",
            ),
            ("", &"x".repeat(LARGEST + 1), 413, ""),
        ] {
            let (status, text) = send(&routes, Method::PUT, query, body).await;
            assert_eq!(status, code, "{text}");
            assert!(
                text.starts_with(problem) && text.ends_with(|c| c == '\n' || code == 413),
                "{text}"
            );
        }
        assert_eq!(send(&routes, Method::POST, "", "debug").await.0, 405);
        assert_eq!(send(&routes, Method::GET, "", "").await.1, "info\n");
    }
}
