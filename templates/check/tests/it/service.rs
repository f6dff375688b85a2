//! {% if source == "http" %}The service that returns the number of free pods{% else %}A Prometheus
//! server that returns the number of free pods{% endif %}, for tests: in memory, and on a port.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kueue_check::prelude::CheckError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use {{ crate_name }}::http::Fetch;

/// The service. Clones are the same one.
#[derive(Clone, Default)]
pub struct Service(Arc<Mutex<Figures>>);

#[derive(Default)]
struct Figures {
    free_pods: u32,
    down: bool,
    requests: Vec<String>,
}

impl Service {
    /// Creates a service with `count` free pods.
    pub fn with_free_pods(count: u32) -> Self {
        let service = Self::default();
        service.set_free_pods(count);
        service
    }

    /// Sets the number of free pods.
    pub fn set_free_pods(&self, count: u32) {
        self.0.lock().unwrap().free_pods = count;
    }

    /// Sets whether it is down.
    pub fn set_down(&self, down: bool) {
        self.0.lock().unwrap().down = down;
    }

    /// Returns the requests so far: paths with their queries.
    pub fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    /// Returns a client that needs no network.
    pub fn fetch(&self) -> Fetch {
        let service = self.clone();
        Arc::new(move |uri| {
            let body = service.response_body(&uri.to_string());
            Box::pin(async move {
                // Requests take time.
                tokio::time::sleep(Duration::from_millis(20)).await;
                body.map(Into::into).ok_or_else(|| CheckError::transient("the service is down"))
            })
        })
    }

    /// Returns the body of its response, unless it is down.
    fn response_body(&self, request: &str) -> Option<String> {
        let mut figures = self.0.lock().unwrap();
        figures.requests.push(request.to_owned());
        let count = figures.free_pods;
{%- if source == "http" %}
        let body = kueue_check::serde_json::json!({"free": count});
{%- else %}
        let result = kueue_check::serde_json::json!([{"metric": {}, "value": [1_795_000_000, count.to_string()]}]);
        let body = kueue_check::serde_json::json!({"status": "success", "data": {"resultType": "vector", "result": result}});
{%- endif %}
        (!figures.down).then(|| body.to_string())
    }

    /// Its address, on a port of its own, until the test is over.
    pub async fn listen(&self) -> String {
        let service = self.clone();
        serve(move |request| {
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            match service.response_body(&path) {
                Some(body) => ok(&body),
                None => "HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\ndown".to_owned(),
            }
        })
        .await
    }
}

/// Returns a response with `body`.
pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Starts a server that responds to each request with what `handler` makes of its head; with
/// nothing, if that is empty. Returns its address.
pub async fn serve(handler: impl Fn(&str) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let handler = Arc::new(handler);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let handler = Arc::clone(&handler);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while let Ok(byte) = connection.read_u8().await {
                    head.push(byte);
                    if !head.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let text = handler(&String::from_utf8_lossy(&head));
                    head.clear();
                    if !text.is_empty() && connection.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}{% if source == "http" %}/free-pods{% endif %}")
}
