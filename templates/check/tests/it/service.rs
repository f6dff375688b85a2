//! {% if source == "http" %}The service that knows how much room there is{% else %}A Prometheus
//! server that knows how much room there is{% endif %}, for tests: in memory, and on a port.

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
    room: u32,
    down: bool,
    asked: Vec<String>,
}

impl Service {
    /// One with room for so many pods.
    pub fn with_room(room: u32) -> Self {
        let service = Self::default();
        service.set_room(room);
        service
    }

    /// From now on there is room for so many pods.
    pub fn set_room(&self, room: u32) {
        self.0.lock().unwrap().room = room;
    }

    /// Whether it answers.
    pub fn set_down(&self, down: bool) {
        self.0.lock().unwrap().down = down;
    }

    /// What it has been asked so far: paths with their queries.
    pub fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    /// How to ask it without a network.
    pub fn fetch(&self) -> Fetch {
        let service = self.clone();
        Arc::new(move |uri| {
            let answer = service.answer(&uri.to_string());
            Box::pin(async move {
                // It takes its time, as anything does.
                tokio::time::sleep(Duration::from_millis(20)).await;
                answer.map(Into::into).ok_or_else(|| CheckError::transient("the service is down"))
            })
        })
    }

    /// The body of its answer, unless it is down.
    fn answer(&self, asked: &str) -> Option<String> {
        let mut figures = self.0.lock().unwrap();
        figures.asked.push(asked.to_owned());
        let room = figures.room;
{%- if source == "http" %}
        let answer = kueue_check::serde_json::json!({"room": room});
{%- else %}
        let result = kueue_check::serde_json::json!([{"metric": {}, "value": [1_795_000_000, room.to_string()]}]);
        let answer = kueue_check::serde_json::json!({"status": "success", "data": {"resultType": "vector", "result": result}});
{%- endif %}
        (!figures.down).then(|| answer.to_string())
    }

    /// Its address, on a port of its own, until the test is over.
    pub async fn listen(&self) -> String {
        let service = self.clone();
        serve(move |request| {
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            match service.answer(&path) {
                Some(body) => ok(&body),
                None => "HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\ndown".to_owned(),
            }
        })
        .await
    }
}

/// An answer with `body`.
pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A server that answers each request with what `answer` makes of its head; with nothing, if that
/// is empty. Its address.
pub async fn serve(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while let Ok(byte) = connection.read_u8().await {
                    head.push(byte);
                    if !head.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let text = answer(&String::from_utf8_lossy(&head));
                    head.clear();
                    if !text.is_empty() && connection.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}{% if source == "http" %}/room{% endif %}")
}
