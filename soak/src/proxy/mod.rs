//! Servers on loopback that inject faults: proxies to the API server, and the source of figures.

mod faults;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body as KubeBody;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

pub(crate) use self::faults::{Counts, Fault, Faults};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Error>;

/// A function that responds to the requests that arrive.
pub(crate) type Handler =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, Error>> + Send + Sync>;

/// A server. It ends, with its connections, when this is dropped.
pub(crate) struct Server {
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts to serve on `address`, over TLS if `tls` is set.
    pub(crate) async fn start(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        faults: Faults,
        handler: Handler,
    ) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(serve(listener, tls, faults, handler));
        Ok((Self { task }, address))
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, faults: Faults, handler: Handler) {
    // Dropped with this task, together with the connections.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let Ok((stream, _)) = accepted else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (tls, faults, handler) = (tls.clone(), faults.clone(), Arc::clone(&handler));
        connections.spawn(connection(stream, tls, faults, handler));
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, faults: Faults, handler: Handler) {
    // A closed connection is reset: the client receives an error, not an end.
    let _ = stream.set_zero_linger();
    match tls {
        None => requests(stream, faults, handler).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                requests(stream, faults, handler).await;
            }
        }
    }
}

async fn requests<S>(stream: S, faults: Faults, handler: Handler)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| respond(request, faults.clone(), Arc::clone(&handler)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    drop(connection.await);
}

/// Returns an error as an API server does.
fn refusal(code: StatusCode) -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
        "reason": code.canonical_reason(), "message": "a fault of the soak",
    });
    let body = Full::new(Bytes::from(status.to_string()));
    let mut response = Response::new(body.map_err(infallible).boxed_unsync());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    let json = http::HeaderValue::from_static("application/json");
    headers.insert(http::header::CONTENT_TYPE, json);
    if code == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(
            http::header::RETRY_AFTER,
            http::HeaderValue::from_static("1"),
        );
    }
    response
}

fn infallible(never: Infallible) -> Error {
    match never {}
}

async fn respond(
    request: Request<Incoming>,
    faults: Faults,
    handler: Handler,
) -> Result<Response<Body>, Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let query = head.uri.query().unwrap_or_default();
    let is_watch = query.contains("watch=");
    let fault = faults.draw(is_watch);
    carry_out(Request::from_parts(head, body), fault, faults, handler).await
}

/// Carries out `request` with `fault`.
async fn carry_out(
    request: Request<Bytes>,
    fault: Option<Fault>,
    faults: Faults,
    handler: Handler,
) -> Result<Response<Body>, Error> {
    match fault {
        Some(Fault::Delay(pause)) => sleep(pause).await,
        Some(Fault::Refuse(code)) => return Ok(refusal(code)),
        Some(Fault::Reset) => return Err("a fault: reset".into()),
        Some(Fault::Hang) => {
            // Until the client times out, or the storm ends.
            faults.calm().await;
            return Err("a fault: no response".into());
        }
        Some(Fault::LostReply | Fault::Truncate | Fault::Silence(_)) | None => {}
    }
    let response = handler(request).await?;
    match fault {
        Some(Fault::LostReply) => Err("a fault: the reply is lost".into()),
        Some(Fault::Truncate) => Ok(response.map(truncated)),
        Some(Fault::Silence(after)) => Ok(response.map(|body| silent(body, after, faults))),
        _ => Ok(response),
    }
}

/// Returns a body with the first half of the data, and then a reset.
fn truncated(body: Body) -> Body {
    let first = body.into_data_stream().take(1).map(|chunk| {
        let chunk = chunk?;
        Ok(Frame::data(chunk.slice(..chunk.len() / 2)))
    });
    let reset = stream::once(async { Err("a fault: truncated".into()) });
    StreamBody::new(first.chain(reset)).boxed_unsync()
}

/// Returns the body without data after `after`, until the storm ends: then a reset.
fn silent(body: Body, after: Duration, faults: Faults) -> Body {
    let chunks = body.into_data_stream().map(|chunk| Ok(Frame::data(chunk?)));
    let before = chunks.take_until(sleep(after));
    let reset = stream::once(async move {
        faults.calm().await;
        Err("a fault: silence".into())
    });
    StreamBody::new(before.chain(reset)).boxed_unsync()
}

/// Forwards requests with all their headers to the server of `client`.
pub(crate) fn forward(client: Client) -> Handler {
    Arc::new(move |request| {
        let client = client.clone();
        Box::pin(async move {
            let mut request = request.map(KubeBody::from);
            let own = [http::header::HOST, http::header::CONNECTION];
            for name in own {
                request.headers_mut().remove(name);
            }
            let response = client.send(request).await?;
            Ok(response.map(|body| body.map_err(Error::from).boxed_unsync()))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::watch;
    use tokio::time::{Instant, timeout};

    use super::*;

    /// Returns the result of a request with `fault`, and how often it arrived. The storm ends after
    /// 60 s.
    async fn befallen(fault: Option<Fault>) -> (Result<Response<Body>, Error>, u32) {
        let (storm, rate) = watch::channel(100);
        tokio::spawn(async move {
            sleep(Duration::from_secs(60)).await;
            storm.send_replace(0);
        });
        let faults = Faults::new(1, "test", rate, Arc::new(Mutex::default()));
        let arrived = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&arrived);
        let handler: Handler = Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                let events = stream::unfold(0, |number| async move {
                    sleep(Duration::from_secs(number)).await;
                    let event = Frame::data(Bytes::from(format!("event {number}")));
                    (number < 5).then_some((Ok::<_, Error>(event), number + 1))
                });
                Ok(Response::new(StreamBody::new(events).boxed_unsync()))
            })
        });
        let result = carry_out(Request::default(), fault, faults, handler).await;
        (result, arrived.load(Ordering::Relaxed))
    }

    /// Returns the part of a body that arrives, and whether its end does.
    async fn read(response: Response<Body>) -> (String, bool) {
        let mut chunks = response.into_body().into_data_stream();
        let mut text = String::new();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => text += &String::from_utf8_lossy(&chunk),
                Err(_) => return (text, false),
            }
        }
        (text, true)
    }

    #[tokio::test(start_paused = true)]
    async fn the_response_to_what_gets_through_is_unchanged_or_delayed() {
        for (fault, pause) in [(None, 0), (Some(Fault::Delay(Duration::from_secs(3))), 3)] {
            let began = Instant::now();
            let (result, arrived) = befallen(fault).await;
            assert_eq!((began.elapsed().as_secs(), arrived), (pause, 1));
            let (text, whole) = read(result.unwrap()).await;
            assert_eq!(
                (&*text, whole),
                ("event 0event 1event 2event 3event 4", true)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_get_through_is_rejected_or_has_no_response() {
        let refused = befallen(Some(Fault::Refuse(StatusCode::TOO_MANY_REQUESTS))).await;
        let response = refused.0.unwrap();
        assert_eq!((response.status().as_u16(), refused.1), (429, 0));
        assert_eq!(response.headers()["retry-after"], "1");
        let (result, arrived) = befallen(Some(Fault::Reset)).await;
        assert!(result.is_err() && arrived == 0);
        // Until the storm ends.
        let began = Instant::now();
        let (result, arrived) = befallen(Some(Fault::Hang)).await;
        assert!(result.is_err() && arrived == 0);
        assert_eq!(began.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_carried_out_may_have_no_response_or_half_of_one() {
        let (result, arrived) = befallen(Some(Fault::LostReply)).await;
        assert!(result.is_err() && arrived == 1);
        let (result, arrived) = befallen(Some(Fault::Truncate)).await;
        assert_eq!(
            (read(result.unwrap()).await, arrived),
            (("eve".to_owned(), false), 1)
        );
        let silence = Fault::Silence(Duration::from_millis(3500));
        let (result, _) = befallen(Some(silence)).await;
        let began = Instant::now();
        let read = timeout(Duration::from_secs(90), read(result.unwrap())).await;
        assert_eq!(read.unwrap(), ("event 0event 1event 2".to_owned(), false));
        assert_eq!(began.elapsed().as_secs(), 60);
    }
}
