//! Stand-ins for Cluster Autoscaler and the garbage collector.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cluster::{How, Writer};
use crate::judge::condition;
use crate::meter::Seconds;
use crate::random::Random;
use crate::witness::{Kind, Witness};

const TICK: Duration = Duration::from_millis(300);

/// How long an object without its owner stays, in seconds: long enough for a check to delete its
/// own.
const COLLECTED: f64 = 20.0;

/// The outcome of a request, and its time in seconds after the request was observed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScheduledOutcome {
    accepted: f64,
    decided: f64,
    /// The condition that is True then.
    outcome: &'static str,
    /// The condition that is True later, if any, and when.
    later: Option<(f64, &'static str)>,
}

impl ScheduledOutcome {
    /// Draws the outcome of the request `key`.
    fn draw(seed: u64, key: &str) -> Self {
        let mut random = Random::new(seed, key);
        let accepted = random.between(0.2, 2.0);
        let decided = accepted + random.between(0.2, 6.0);
        let after = random.between(5.0, 40.0);
        let (outcome, later) = random
            .weighted(&[
                (80, ("Provisioned", None)),
                (12, ("Failed", None)),
                (4, ("Provisioned", Some("BookingExpired"))),
                (4, ("Provisioned", Some("CapacityRevoked"))),
            ])
            .unwrap_or(("Provisioned", None));
        Self {
            accepted,
            decided,
            outcome,
            later: later.map(|what| (decided + after, what)),
        }
    }

    /// Returns the conditions that are True at that age.
    fn conditions(self, age: f64) -> Vec<&'static str> {
        let mut all = Vec::new();
        if age >= self.accepted {
            all.push("Accepted");
        }
        if age >= self.decided {
            all.push(self.outcome);
        }
        all.extend(
            self.later
                .filter(|(after, _)| age >= *after)
                .map(|(_, what)| what),
        );
        all
    }
}

/// Updates requests until it is dropped.
pub(crate) async fn autoscaler(writer: Writer, witness: Witness, seed: u64) {
    let mut first_seen: BTreeMap<String, Seconds> = BTreeMap::new();
    loop {
        let now = writer.now();
        let all: Vec<(String, Arc<Value>)> = {
            let seen = witness.seen();
            let requests = seen.all(Kind::Request);
            requests
                .map(|(key, object)| (key.to_owned(), Arc::clone(object)))
                .collect()
        };
        first_seen.retain(|key, _| all.iter().any(|(there, _)| there == key));
        for (key, object) in all {
            let seen = *first_seen.entry(key.clone()).or_insert(now);
            let wanted = ScheduledOutcome::draw(seed, &key).conditions(now - seen);
            if wanted.iter().all(|kind| condition(&object, kind).is_some()) {
                continue;
            }
            let time = writer.time();
            let conditions: Vec<Value> = wanted
                .iter()
                .map(|kind| {
                    let since = condition(&object, kind).unwrap_or(&time);
                    json!({
                        "type": kind, "status": "True", "reason": kind, "message": kind,
                        "lastTransitionTime": since,
                    })
                })
                .collect();
            let body = json!({"status": {"conditions": conditions}});
            // The next pass will retry.
            drop(writer.patch(&object, How::Merge, true, &body).await);
        }
        sleep(TICK).await;
    }
}

/// Deletes objects whose owners are all deleted, until it is dropped. Counts the objects that the
/// checks have created.
pub(crate) async fn collector(writer: Writer, witness: Witness, count: Arc<Mutex<u64>>) {
    let mut orphans: BTreeMap<String, Seconds> = BTreeMap::new();
    loop {
        let now = writer.now();
        let unowned = {
            let seen = witness.seen();
            let kinds = [Kind::Job, Kind::Workload, Kind::Request, Kind::Template];
            let all = kinds.into_iter().flat_map(|kind| seen.all(kind));
            let there: BTreeSet<&str> = all.filter_map(|(_, object)| uid(object)).collect();
            let dependents = [Kind::Workload, Kind::Pod, Kind::Request, Kind::Template];
            let all = dependents.into_iter().flat_map(|kind| seen.all(kind));
            let unowned = all.filter(|(_, object)| {
                let owners = object["metadata"]["ownerReferences"].as_array();
                owners.is_some_and(|owners| {
                    !owners.is_empty()
                        && !owners.iter().any(|owner| {
                            let uid = owner["uid"].as_str();
                            uid.is_some_and(|uid| there.contains(uid))
                        })
                })
            });
            let unowned = unowned
                .filter_map(|(_, object)| Some((uid(object)?.to_owned(), Arc::clone(object))));
            unowned.collect::<BTreeMap<_, _>>()
        };
        orphans.retain(|uid, _| unowned.contains_key(uid));
        for (uid, object) in unowned {
            let since = *orphans.entry(uid.clone()).or_insert(now);
            let of_check = object["kind"] != "Pod" && object["kind"] != "Workload";
            let after = if of_check { COLLECTED } else { 0.5 };
            if now - since > after && writer.delete(&object).await.is_ok() {
                *count.lock().unwrap_or_else(PoisonError::into_inner) += u64::from(of_check);
                witness.note(now, &format!("collected {} {uid}", object["kind"]));
                orphans.insert(uid, f64::MAX);
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_what_becomes_of_a_request_and_all_fates_are_drawn() {
        let outcomes =
            || (0..300).map(|number| ScheduledOutcome::draw(1, &format!("a/r-{number}")));
        assert_eq!(
            outcomes().collect::<Vec<_>>(),
            outcomes().collect::<Vec<_>>()
        );
        let ends = |what: &str| {
            let ends = outcomes().filter(|outcome| outcome.conditions(1e6).last() == Some(&what));
            ends.count()
        };
        for what in ["Provisioned", "Failed", "BookingExpired", "CapacityRevoked"] {
            assert!(ends(what) > 1, "{what}");
        }
        let outcome = ScheduledOutcome::draw(1, "a/r-1");
        assert_eq!(outcome.conditions(0.0), Vec::<&str>::new());
        assert_eq!(outcome.conditions(outcome.accepted), ["Accepted"]);
    }
}
