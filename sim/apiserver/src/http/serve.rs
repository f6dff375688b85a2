//! The server on a port.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::handle;
use crate::server::ApiServer;
use crate::state::Core;

impl ApiServer {
    /// Serves plain HTTP/1.1 on this port until the future is dropped. Agents are distinguished by
    /// their user agent. There is no authentication: listen on loopback.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<Infallible> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted?;
                    connections.spawn(connection(Arc::clone(&self.core), stream));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn connection(core: Arc<Core>, stream: TcpStream) {
    let service = service_fn(move |request: Request<Incoming>| {
        let core = Arc::clone(&core);
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
            handle(core, None, Request::from_parts(head, bytes)).await
        }
    });
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}
