//! What Kueue's webhooks refuse and fill in.

mod labels;
mod workload;

use serde_json::{Value, json};

use crate::apiserver::{Admission, FieldError, Operation, Phase, Review, Status};

/// Kueue's webhooks for Workloads and Jobs, and `inner` behind them, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Webhook;

impl Admission for Webhook {
    fn review(&self, review: &Review) -> Result<Option<Value>, Status> {
        if review.operation == Operation::Delete {
            return Ok(None);
        }
        match (
            review.phase,
            review.resource.group.as_str(),
            review.resource.plural.as_str(),
        ) {
            (Phase::Validating, "kueue.x-k8s.io", "workloads") => {
                refuse(
                    "vworkload.kb.io",
                    &workload::errors(&review.object, &review.old),
                )?;
                Ok(None)
            }
            (Phase::Mutating, "batch", "jobs") => Ok(suspended(review)),
            _ => Ok(None),
        }
    }
}

fn refuse(webhook: &str, errors: &[FieldError]) -> Result<(), Status> {
    let texts: Vec<String> = errors
        .iter()
        .map(|e| format!("{}: {}", e.field, e.message))
        .collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(Status::denied(webhook, one)),
        many => Err(Status::denied(webhook, &format!("[{}]", many.join(", ")))),
    }
}

/// A new Job of a queue starts suspended.
fn suspended(review: &Review) -> Option<Value> {
    let queued = review
        .object
        .pointer("/metadata/labels/kueue.x-k8s.io~1queue-name");
    let runs = review.object["spec"]["suspend"] != json!(true);
    if review.operation != Operation::Create || queued.is_none() || !runs {
        return None;
    }
    let mut object = review.object.clone();
    object["spec"]["suspend"] = json!(true);
    Some(object)
}
