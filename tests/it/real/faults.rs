//! A client that counts its requests, and injects faults into some of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

/// The requests of a client, and the faults of the next ones.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    seen: Vec<RecordedRequest>,
    rules: Vec<Rule>,
}

/// A request that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    pub(crate) verb: &'static str,
    pub(crate) path: String,
    pub(crate) query: String,
    /// When it was sent.
    pub(crate) at: Instant,
}

impl RecordedRequest {
    /// Returns true if it writes an entry of a Workload.
    pub(crate) fn writes_entry(&self) -> bool {
        self.verb == "patch" && self.path.contains("/workloads/")
    }

    /// Returns true if it writes the condition of an AdmissionCheck.
    pub(crate) fn writes_condition(&self) -> bool {
        self.verb == "patch" && self.path.contains("/admissionchecks/")
    }

    /// Returns true if it selects Workloads by their ClusterQueue.
    pub(crate) fn selects(&self) -> bool {
        self.query
            .contains("fieldSelector=status.admission.clusterQueue")
    }

    /// Returns true for the scan of a new leader for stale verdicts.
    pub(crate) fn searches(&self) -> bool {
        self.query
            .contains("fieldSelector=status.admission.clusterQueue%3D")
    }
}

struct Rule {
    matches: Box<dyn Fn(&RecordedRequest) -> bool + Send>,
    times: usize,
    fault: Fault,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A response that the server did not send.
    Status(u16, Option<u64>),
    /// No response, ever.
    Hang,
    /// The request is carried out, and the response lost.
    LoseResponse,
    /// A watch that ends as soon as it has begun.
    EndAtOnce,
}

impl Faults {
    /// Returns `client`, with faults and a record of its requests.
    pub(crate) fn around(&self, client: &Client) -> Client {
        let (faults, client) = (self.clone(), client.clone());
        let namespace = client.default_namespace().to_owned();
        Client::new(
            tower::service_fn(move |request| send(faults.clone(), client.clone(), request)),
            namespace,
        )
    }

    /// Injects `fault` into the next `times` requests that match.
    pub(crate) fn inject(
        &self,
        times: usize,
        fault: Fault,
        matches: impl Fn(&RecordedRequest) -> bool + Send + 'static,
    ) {
        self.0.lock().unwrap().rules.push(Rule {
            matches: Box::new(matches),
            times,
            fault,
        });
    }

    /// Removes all faults.
    pub(crate) fn heal(&self) {
        self.0.lock().unwrap().rules.clear();
    }

    /// Returns all requests so far that match.
    pub(crate) fn seen(&self, matches: impl Fn(&RecordedRequest) -> bool) -> Vec<RecordedRequest> {
        self.0
            .lock()
            .unwrap()
            .seen
            .iter()
            .filter(|seen| matches(seen))
            .cloned()
            .collect()
    }

    /// Returns how many requests so far match.
    pub(crate) fn count(&self, matches: impl Fn(&RecordedRequest) -> bool) -> usize {
        self.seen(matches).len()
    }

    /// Removes the record of the requests so far.
    pub(crate) fn clear_requests(&self) {
        self.0.lock().unwrap().seen.clear();
    }

    fn next(&self, seen: RecordedRequest) -> Option<Fault> {
        let mut state = self.0.lock().unwrap();
        state.seen.push(seen.clone());
        let rule = state
            .rules
            .iter_mut()
            .find(|rule| rule.times > 0 && (rule.matches)(&seen))?;
        rule.times -= 1;
        Some(rule.fault)
    }
}

async fn send(
    faults: Faults,
    client: Client,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let watches = request
        .uri()
        .query()
        .unwrap_or_default()
        .contains("watch=true");
    let verb = match request.method().as_str() {
        "GET" if watches => "watch",
        "GET" => "get",
        "PATCH" => "patch",
        "POST" => "create",
        "PUT" => "update",
        _ => "other",
    };
    let seen = RecordedRequest {
        verb,
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        at: Instant::now(),
    };
    match faults.next(seen) {
        None => Ok(client.send(request).await?),
        Some(Fault::Status(code, retry_after)) => Ok(status(code, retry_after)),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::LoseResponse) => {
            client.send(request).await?;
            Err("the connection broke".into())
        }
        Some(Fault::EndAtOnce) => Ok(Response::new(Body::empty())),
    }
}

fn status(code: u16, retry_after: Option<u64>) -> Response<Body> {
    let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Injected", "message": "injected"});
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert("retry-after", seconds.to_string().parse().unwrap());
    }
    response
}

/// Long enough for something to happen that must not.
pub(crate) const A_WHILE: Duration = Duration::from_millis(1500);
