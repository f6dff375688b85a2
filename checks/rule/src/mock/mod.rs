//! A service for `WebhookCheck`s that returns verdicts from a table of cases, to try a check
//! before a service exists.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `table` | the cases, and which one matches a Workload |
//! | `serve` | the HTTP server, on loopback |

mod serve;
mod table;

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::document::{
    ACTIVATION, API_VERSION, Call, HELD, HeldList, HeldReservations, Item, ItemAnswer, RELEASE,
    REVIEW, ReviewAnswers, ReviewRequest, ReviewResponse, State, clean,
};
pub use serve::{Options, Running, serve};
pub use table::Table;

/// The maximum number of Workloads of a review in its line.
const NAMED: usize = 5;

/// The state of a mock: the activated reservations.
#[derive(Clone, Debug, Default)]
pub struct Mock {
    held: BTreeSet<String>,
}

/// A request to a mock.
#[derive(Clone, Copy, Debug)]
pub struct MockRequest<'r> {
    /// Whether it is a GET, which reads the list of activated reservations.
    pub is_get: bool,
    /// The header `Idempotency-Key`.
    pub idempotency_key: Option<&'r str>,
    /// The body.
    pub body: &'r [u8],
}

/// A reply of a mock.
#[derive(Clone, Debug, PartialEq)]
pub struct MockReply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Json,
    /// One line for people: the request and the response.
    pub line: String,
}

impl MockReply {
    /// Returns a reply with the error in the request.
    fn refusal(status: u16, problem: &str) -> Self {
        Self {
            status,
            body: json!({"message": problem}),
            line: problem.to_owned(),
        }
    }

    fn ok(body: Json, line: String) -> Self {
        let status = 200;
        Self { status, body, line }
    }
}

impl Mock {
    /// Returns the reply to `request` from `table`. The kind of the document selects the operation,
    /// so any path is accepted.
    pub fn reply(&mut self, table: &Table, request: MockRequest<'_>) -> MockReply {
        if request.is_get {
            return self.list();
        }
        let document: Json = match serde_json::from_slice(request.body) {
            Ok(document) => document,
            Err(error) => {
                let error = clean(&error.to_string());
                return MockReply::refusal(400, &format!("the body is no JSON: {error}"));
            }
        };
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        if document["apiVersion"] != API_VERSION {
            return MockReply::refusal(400, &format!("expected the apiVersion {API_VERSION}"));
        }
        let reply = match kind.as_str() {
            REVIEW => read(document).map(|review| Self::review(table, &review)),
            ACTIVATION => self.call(document, request, |mock, call| mock.activate(table, call)),
            RELEASE => self.call(document, request, |mock, call| mock.release(table, call)),
            other => Err(format!("no document has the kind `{}`", clean(other))),
        };
        reply.unwrap_or_else(|problem| MockReply::refusal(400, &problem))
    }

    fn review(table: &Table, review: &ReviewRequest) -> MockReply {
        let request = &review.request;
        let mut items = Vec::new();
        let mut words = Vec::new();
        for item in &request.items {
            let (result, case) = evaluate(table, item);
            let state = result.state.map_or("an error", State::as_str);
            let case = case.map_or_else(|| "no case".to_owned(), |name| clean(&name));
            words.push(format!("{} {state} ({case})", of(&item.workload)));
            items.push(result);
        }
        if words.len() > NAMED {
            let more = words.len() - NAMED;
            words.truncate(NAMED);
            words.push(format!("and {more} more"));
        }
        let response = ReviewResponse {
            api_version: API_VERSION.to_owned(),
            kind: REVIEW.to_owned(),
            response: ReviewAnswers { items },
        };
        let dry = if request.dry_run { ", dry run" } else { "" };
        let check = clean(&request.admission_check);
        let line = format!("review by {check}{dry}: {}", words.join(", "));
        MockReply::ok(json!(response), line)
    }

    /// Handles a call about one reservation, whose header must agree with its document.
    fn call(
        &mut self,
        document: Json,
        request: MockRequest<'_>,
        reply: impl FnOnce(&mut Self, &Call) -> MockReply,
    ) -> Result<MockReply, String> {
        let call: Call = read(document)?;
        if request.idempotency_key != Some(call.request.uid.as_str()) {
            return Err("the header Idempotency-Key is not `request.uid`".to_owned());
        }
        Ok(reply(self, &call))
    }

    fn activate(&mut self, table: &Table, call: &Call) -> MockReply {
        let uid = &call.request.uid;
        let is_new = !self.held.contains(uid);
        if is_new && table.seats().is_some_and(|seats| self.held.len() >= seats) {
            let taken = self.taken(table);
            let problem = format!("no seat is free: {taken}");
            let line = format!("activation of {}: {problem}", about(call));
            let body = json!({"message": problem});
            return MockReply {
                status: 409,
                body,
                line,
            };
        }
        self.held.insert(uid.clone());
        let line = format!("activation of {}: {}", about(call), self.taken(table));
        MockReply::ok(json!({}), line)
    }

    fn release(&mut self, table: &Table, call: &Call) -> MockReply {
        self.held.remove(&call.request.uid);
        let reason = clean(call.request.reason.as_deref().unwrap_or_default());
        let taken = self.taken(table);
        let line = format!("release of {} ({reason}): {taken}", about(call));
        MockReply::ok(json!({}), line)
    }

    fn list(&self) -> MockReply {
        let list = HeldList {
            api_version: API_VERSION.to_owned(),
            kind: HELD.to_owned(),
            response: HeldReservations {
                uids: self.held.iter().cloned().collect(),
            },
        };
        let line = format!("list of what is activated: {}", self.held.len());
        MockReply::ok(json!(list), line)
    }

    fn taken(&self, table: &Table) -> String {
        let held = self.held.len();
        match table.seats() {
            Some(seats) => format!("{held} of {seats} seats are taken"),
            None => format!("{held} activated"),
        }
    }
}

/// Returns the result for `item`, and the name of its case.
fn evaluate(table: &Table, item: &Item) -> (ItemAnswer, Option<String>) {
    if let Some(case) = table.find(item) {
        return (case.to_item(&item.uid), Some(case.name.clone()));
    }
    let result = ItemAnswer {
        uid: item.uid.clone(),
        error: Some("no case of the table matches this Workload".to_owned()),
        ..ItemAnswer::default()
    };
    (result, None)
}

fn read<T: DeserializeOwned>(document: Json) -> Result<T, String> {
    let read = serde_json::from_value(document);
    read.map_err(|error| format!("the document cannot be read: {}", clean(&error.to_string())))
}

fn of(workload: &crate::document::ItemWorkload) -> String {
    clean(&format!("{}/{}", workload.namespace, workload.name))
}

fn about(call: &Call) -> String {
    let call = &call.request;
    let check = &call.admission_check;
    clean(&format!("{}/{} by {check}", call.namespace, call.name))
}
