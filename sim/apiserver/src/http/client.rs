//! A client of this server, without a network.

use std::sync::Arc;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;

use super::handle;
use crate::server::ApiServer;

impl ApiServer {
    /// Returns a client. Its default field manager is `sim`.
    pub fn client(&self) -> Client {
        self.client_as("sim")
    }

    /// Returns a client. `agent` selects its faults and is its default field manager.
    pub fn client_as(&self, agent: &str) -> Client {
        let (core, agent) = (Arc::clone(&self.core), Arc::<str>::from(agent));
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (core, agent) = (Arc::clone(&core), Arc::clone(&agent));
            async move {
                let (head, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let request = Request::from_parts(head, bytes);
                let response = handle(core, Some(agent), request).await?;
                Ok::<_, tower::BoxError>(response)
            }
        });
        Client::new(service, "default")
    }
}
