//! A server with limits, which clients on the network cannot exhaust.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Router, middleware};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::access::{Access, authorize};
use super::certificates::Certificates;

/// The most connections at one time. A further one ends an idle one.
const CONNECTIONS: usize = 64;

/// How long the TLS handshake may take, and the head of a request including the idle time before
/// it.
const HEAD: Duration = Duration::from_secs(5);

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// How old a connection may be.
const AGE: Duration = Duration::from_secs(120);

/// The largest head of a request, in bytes.
const HEAD_SIZE: usize = 16 * 1024;

/// How often files with certificates are read again.
const RELOAD: Duration = Duration::from_secs(10);

/// Serves routes over HTTP/1.1 within limits: 64 connections, of which a further one ends the
/// oldest idle one; 5 s for the head of a request and for what comes before it; 10 s for a request;
/// 16 KiB for its head; 2 min for a connection.
///
/// ```no_run
/// # use kueue_check::{Verdict, admission_check, runtime::Runtime, admin::{Certificates, Endpoint, probes, router}};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder(client.clone()).check(open).build()?;
/// let listen = |port: u16| tokio::net::TcpListener::bind(("0.0.0.0", port));
/// let health = Endpoint::new(probes(runtime.handle()));
/// let admin = Endpoint::new(router(runtime.handle())).secure(client, Certificates::self_signed(["localhost"])?);
/// tokio::spawn(health.serve(listen(8081).await?)); // for the kubelet
/// tokio::spawn(admin.serve(listen(8443).await?)); // for who may
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Endpoint {
    routes: Router,
    tls: Option<Certificates>,
}

impl Endpoint {
    /// Serves without TLS and without authentication.
    pub fn new(routes: Router) -> Self {
        Self { routes, tls: None }
    }

    /// Serves over TLS, to users with permission: a request needs the bearer token of a user of the
    /// cluster (`TokenReview`, else 401).
    ///
    /// The user needs permission for the method on the path (`SubjectAccessReview` for a
    /// `nonResourceURL`, else 403). For `/livez` and `/readyz` that of `/diagnostics` is required,
    /// because Kubernetes allows everyone the two. `client` needs permission to create both
    /// reviews. Decisions are cached, 60 s if they allow and 10 s if they refuse. While the API
    /// server does not respond: 503.
    #[must_use]
    pub fn secure(self, client: Client, certificates: Certificates) -> Self {
        let access = Arc::new(Access::new(client));
        let guard = middleware::from_fn_with_state(access, authorize);
        Self {
            routes: self.routes.layer(guard),
            tls: Some(certificates),
        }
    }

    /// Serves on `listener` until it is dropped. A connection that fails is closed; while the
    /// process has no file descriptors left, new connections wait.
    pub async fn serve(self, listener: TcpListener) -> Infallible {
        let mut connections = Connections::default();
        let mut reload = interval(RELOAD);
        reload.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => connections.add(|in_request| self.clone().connection(stream, in_request)),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection; will retry");
                        sleep(Duration::from_millis(200)).await;
                    }
                },
                _ = reload.tick() => if let Some(certificates) = self.tls.clone() {
                    let _ = tokio::task::spawn_blocking(move || certificates.reload()).await;
                },
            }
        }
    }

    async fn connection(self, stream: TcpStream, in_request: Arc<AtomicBool>) {
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => serve_connection(stream, self.routes, in_request).await,
            Some(certificates) => {
                let acceptor = TlsAcceptor::from(certificates.config());
                if let Ok(Ok(stream)) = timeout(HEAD, acceptor.accept(stream)).await {
                    serve_connection(stream, self.routes, in_request).await;
                }
            }
        }
    }
}

/// Serves the requests of a connection, until either side ends it.
async fn serve_connection<S>(stream: S, routes: Router, in_request: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (routes, in_request) = (routes.clone(), Arc::clone(&in_request));
        async move {
            in_request.store(true, Ordering::Relaxed);
            let response = timeout(REQUEST, routes.oneshot(request.map(Body::new))).await;
            in_request.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(match response {
                Ok(Ok(response)) => response,
                Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        () = sleep(AGE) => connection.as_mut().graceful_shutdown(),
    }
    let _ = timeout(REQUEST, connection).await;
}

/// The open connections, the oldest first.
#[derive(Debug, Default)]
struct Connections {
    tasks: JoinSet<()>,
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    task: AbortHandle,
    /// Whether a request of it is in flight.
    in_request: Arc<AtomicBool>,
}

impl Connections {
    fn add<F>(&mut self, connection: impl FnOnce(Arc<AtomicBool>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|open| !open.task.is_finished());
        if self.open.len() >= CONNECTIONS {
            let idle = |open: &Open| !open.in_request.load(Ordering::Relaxed);
            let victim = self.open.iter().position(idle).unwrap_or_default();
            if let Some(open) = self.open.remove(victim) {
                open.task.abort();
            }
        }
        let in_request = Arc::new(AtomicBool::new(false));
        let task = self.tasks.spawn(connection(Arc::clone(&in_request)));
        self.open.push_back(Open { task, in_request });
    }
}
