//! A strict stand-in for Prometheus: it returns the responses that a test sets, and rejects what a
//! Prometheus would reject.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

#[derive(Default)]
struct ServerState {
    spent: BTreeMap<String, f64>,
    /// The response instead of the spend.
    instead: Option<Reply>,
    /// The next responses, in this order.
    queue: std::collections::VecDeque<Reply>,
    requests: Vec<(String, i64, Option<String>)>,
    token: Option<String>,
}

/// The stand-in. Clones share their state.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<ServerState>>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            state: Arc::default(),
            url: format!("http://{}", listener.local_addr().unwrap()),
        };
        let router = Router::new()
            .route("/api/v1/query", post(handle))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    pub(crate) fn spent(&self, namespace: &str, amount: f64) {
        self.state
            .lock()
            .unwrap()
            .spent
            .insert(namespace.to_owned(), amount);
    }

    /// Sets the response to every query, until it is reset.
    pub(crate) fn instead(&self, reply: Option<Reply>) {
        self.state.lock().unwrap().instead = reply;
    }

    /// Queues the next responses, in this order.
    pub(crate) fn queue(&self, replies: Vec<Reply>) {
        self.state.lock().unwrap().queue.extend(replies);
    }

    /// Accepts only requests with this token.
    pub(crate) fn wants(&self, token: &str) {
        self.state.lock().unwrap().token = Some(token.to_owned());
    }

    /// Returns query, time and authorization of each request so far.
    pub(crate) fn requests(&self) -> Vec<(String, i64, Option<String>)> {
        self.state.lock().unwrap().requests.clone()
    }
}

fn refuse(problem: &str) -> Reply {
    Reply::status(
        400,
        json!({"status": "error", "errorType": "bad_data", "error": problem}).to_string(),
    )
}

async fn handle(State(server): State<Server>, headers: HeaderMap, body: String) -> Response {
    let reply = server.reply(&headers, &body);
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status).unwrap());
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(reply.body)).unwrap()
}

impl Server {
    fn reply(&self, headers: &HeaderMap, body: &str) -> Reply {
        let form: BTreeMap<String, String> = form_urlencoded::parse(body.as_bytes())
            .into_owned()
            .collect();
        let mut state = self.state.lock().unwrap();
        let authorization = headers
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let (Some(query), Some(time)) = (
            form.get("query").cloned(),
            form.get("time").and_then(|time| time.parse::<i64>().ok()),
        ) else {
            return refuse("query and time are needed");
        };
        state
            .requests
            .push((query.clone(), time, authorization.clone()));
        if form.contains_key("limit") || !form.contains_key("timeout") {
            return refuse("a limit truncates, and a timeout is needed");
        }
        if let Some(token) = &state.token
            && authorization.as_deref() != Some(&format!("Bearer {token}"))
        {
            return Reply::status(401, "who are you?");
        }
        if let Some(reply) = state.queue.pop_front() {
            return reply;
        }
        if let Some(reply) = &state.instead {
            return reply.clone();
        }
        if query.contains("timestamp(") {
            let newest = time;
            let start = json!({"metric": {"budget_check_probe": "start"}, "value": [time, "1"]});
            let current = state.spent.keys().map(|name| {
                let metric = json!({"budget_check_probe": "current", "namespace": name});
                json!({"metric": metric, "value": [time, newest.to_string()]})
            });
            let newest = json!({"metric": {}, "value": [time, newest.to_string()]});
            let probe: Vec<Value> = [start, newest].into_iter().chain(current).collect();
            return vector(&probe);
        }
        if !query.starts_with("sum by (namespace) (") {
            return refuse("parse error at char 1");
        }
        let result: Vec<Value> = state.spent.iter().map(|(name, spent)| json!({"metric": {"namespace": name}, "value": [time, spent.to_string()]})).collect();
        vector(&result)
    }
}

pub(crate) fn vector(result: &[Value]) -> Reply {
    Reply::ok(
        json!({"status": "success", "data": {"resultType": "vector", "result": result}})
            .to_string(),
    )
}
