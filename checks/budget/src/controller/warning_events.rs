//! Warning events of a Budget, once each.

use std::collections::BTreeMap;

use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kueue_check::BackgroundContext;

use super::shared::SharedState;
use crate::config::Account;
use crate::resource::Budget;

/// What was told already.
pub(super) struct WarningEvents {
    recorder: Recorder,
    /// The highest warning level of each account.
    levels: BTreeMap<(String, Account), u32>,
    /// The reason for which each Budget's source fails.
    outages: BTreeMap<String, &'static str>,
    unsanctioned: BTreeMap<String, u64>,
}

impl WarningEvents {
    pub(super) fn new(context: &BackgroundContext) -> Self {
        let reporter = Reporter {
            controller: super::CONTROLLER.to_owned(),
            instance: std::env::var("POD_NAME").ok(),
        };
        Self {
            recorder: Recorder::new(context.client().clone(), reporter),
            levels: BTreeMap::new(),
            outages: BTreeMap::new(),
            unsanctioned: BTreeMap::new(),
        }
    }

    /// This replica has begun to lead: it counts from here.
    pub(super) fn begin(&mut self) {
        self.unsanctioned.clear();
    }

    /// Tells what is new.
    pub(super) async fn publish_new(&mut self, shared: &SharedState) {
        for (budget, uid, reason, note) in self.unpublished(shared) {
            let mut reference = Budget {
                metadata: kube::api::ObjectMeta::default(),
                spec: empty(),
                status: None,
            }
            .object_ref(&());
            reference.name = Some(budget);
            reference.uid = Some(uid);
            let event = Event {
                type_: EventType::Warning,
                reason: reason.to_owned(),
                note: Some(note),
                action: "Watch".to_owned(),
                secondary: None,
            };
            if let Err(error) = self.recorder.publish(&event, &reference).await {
                tracing::debug!(%error, "an event was not written");
            }
        }
    }

    fn unpublished(&mut self, shared: &SharedState) -> Vec<(String, String, &'static str, String)> {
        let now = shared.now();
        let mut news = Vec::new();
        let books = shared.books();
        for (name, book) in books.all() {
            let terms = book.terms();
            let mut tell =
                |reason, note| news.push((name.to_owned(), terms.uid.clone(), reason, note));
            if let Some(asked) = shared.source_result(name) {
                let reason = asked
                    .result
                    .as_ref()
                    .err()
                    .map(crate::source::SourceError::reason);
                if let (Some(reason), Err(error)) = (reason, &asked.result)
                    && self.outages.get(name) != Some(&reason)
                {
                    tell("SourceFailed", error.to_string());
                }
                match reason {
                    Some(reason) => self.outages.insert(name.to_owned(), reason),
                    None => self.outages.remove(name),
                };
            }
            let seen = self.unsanctioned.entry(name.to_owned()).or_default();
            if book.unapproved_starts() > *seen {
                tell(
                    "Unsanctioned",
                    format!(
                        "{} jobs may start that this check has not let start",
                        book.unapproved_starts() - *seen
                    ),
                );
                *seen = book.unapproved_starts();
            }
            let Some(period) = book.period(now).filter(|_| book.limits_are_known().is_ok()) else {
                continue;
            };
            let index = book.index();
            for account in book.known_accounts(now) {
                let balance = index.balance(&account, period, now);
                let level = terms
                    .warn_at
                    .iter()
                    .rev()
                    .find(|level| balance.used_percent() >= **level)
                    .copied()
                    .unwrap_or(0);
                let key = (name.to_owned(), account);
                if level > self.levels.get(&key).copied().unwrap_or(0) {
                    tell(
                        "BudgetNearlyUsed",
                        format!(
                            "{}: {level}% of the limit of {} {} is spent or committed",
                            key.1,
                            balance.limit.cents(),
                            terms.unit
                        ),
                    );
                }
                self.levels.insert(key, level);
            }
        }
        news
    }
}

fn empty() -> crate::resource::BudgetSpec {
    serde_json::from_value(
        serde_json::json!({"unit": "x", "period": {}, "source": {}, "prices": []}),
    )
    .unwrap_or_else(|_| unreachable!("these fields are all that it needs"))
}
