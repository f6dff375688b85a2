//! The HTTP server of a mock.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kueue_check::Clock;
use tokio::net::TcpListener;

use super::{Mock, MockReply, MockRequest, Table};
use crate::webhook::service::lock;
use crate::webhook::signature::{SIGNATURE, verify};

/// The maximum size of a request, in bytes.
const LARGEST: usize = 8 * 1024 * 1024;

/// The options of a mock.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file with the table. It is read for each request, so changes take effect at once.
    pub table: PathBuf,
    /// The address on which it listens: one of loopback.
    pub listen: SocketAddr,
    /// The file with the key of signatures. Without it, signatures are not checked.
    pub signing_key: Option<PathBuf>,
}

/// A mock that listens for requests.
#[derive(Debug)]
pub struct Running {
    listener: TcpListener,
    router: Router,
}

struct Shared {
    table: PathBuf,
    key: Option<String>,
    clock: Clock,
    mock: Mutex<Mock>,
}

/// Starts to listen. [`Running::run`] serves the requests.
///
/// # Errors
/// If the table or the key cannot be read, or the address is in use or not one of loopback.
pub async fn serve(options: &Options) -> Result<Running, String> {
    let listen = options.listen;
    if !listen.ip().is_loopback() {
        return Err(format!(
            "--listen {listen}: a mock has no TLS, so it listens on loopback only, such as 127.0.0.1:8080"
        ));
    }
    read_table(&options.table)?;
    let key = options.signing_key.as_deref().map(read_key).transpose()?;
    let shared = Arc::new(Shared {
        table: options.table.clone(),
        key,
        clock: Clock::system(),
        mock: Mutex::default(),
    });
    let listener = TcpListener::bind(listen).await;
    let listener = listener.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let router = Router::new()
        .fallback(handle)
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(shared);
    Ok(Running { listener, router })
}

impl Running {
    /// Returns the URL of the mock.
    ///
    /// # Errors
    /// If the socket is closed.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}", self.listener.local_addr()?))
    }

    /// Serves requests, and prints a line for each.
    ///
    /// # Errors
    /// If the socket is closed.
    pub async fn run(self) -> io::Result<()> {
        axum::serve(self.listener, self.router).await
    }
}

fn read_table(path: &Path) -> Result<Table, String> {
    let in_file = |problem: String| format!("{}: {problem}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| in_file(error.to_string()))?;
    Table::read(&text).map_err(in_file)
}

fn read_key(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let request = MockRequest {
        is_get: method == Method::GET,
        idempotency_key: value("idempotency-key"),
        body: &body,
    };
    let signed = shared.key.as_deref().map_or(Ok(()), |key| {
        let now = shared.clock.now().as_second();
        verify(key, value(SIGNATURE).unwrap_or_default(), &body, now)
    });
    let reply = match (signed, read_table(&shared.table)) {
        (Err(problem), _) => MockReply::refusal(401, &problem),
        (_, Err(problem)) => MockReply::refusal(500, &problem),
        (Ok(()), Ok(table)) => lock(&shared.mock).reply(&table, request),
    };
    // The reader of the lines may have exited.
    let _ = writeln!(io::stdout(), "{} {}", reply.status, reply.line);
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, reply.body.to_string()).into_response()
}
