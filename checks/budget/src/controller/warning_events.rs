//! Warning events of a Budget, each published once.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kueue_check::{BackgroundContext, CheckEvent};

use super::shared::SharedState;
use crate::config::Account;
use crate::resource::Budget;

/// The events that were published already.
#[derive(Default)]
pub(super) struct WarningEvents {
    /// The highest warning level of each account.
    levels: BTreeMap<(String, Account), u32>,
    /// The reason for which each Budget's source fails.
    outages: BTreeMap<String, &'static str>,
    unapproved_starts: BTreeMap<String, u64>,
}

impl WarningEvents {
    /// Resets what is counted since this replica began to lead.
    pub(super) fn begin(&mut self) {
        self.unapproved_starts.clear();
    }

    /// Publishes new events.
    pub(super) fn publish_new(&mut self, shared: &SharedState, context: &BackgroundContext) {
        for (budget, uid, reason, note) in self.unpublished(shared) {
            let regarding = ObjectReference {
                api_version: Some(Budget::api_version(&()).into_owned()),
                kind: Some(Budget::kind(&()).into_owned()),
                name: Some(budget),
                uid: Some(uid),
                ..ObjectReference::default()
            };
            let event = CheckEvent::warning(reason, note).action("Watch");
            context.record_event(regarding, event);
        }
    }

    fn unpublished(&mut self, shared: &SharedState) -> Vec<(String, String, &'static str, String)> {
        let now = shared.now();
        let mut events = Vec::new();
        let ledgers = shared.ledgers();
        // The state of removed Budgets is dropped.
        let known: BTreeSet<&str> = ledgers.all().map(|(name, _)| name).collect();
        self.levels.retain(|(name, _), _| known.contains(&**name));
        self.outages.retain(|name, _| known.contains(&**name));
        self.unapproved_starts
            .retain(|name, _| known.contains(&**name));
        for (name, ledger) in ledgers.all() {
            let terms = ledger.terms();
            let mut warn =
                |reason, note| events.push((name.to_owned(), terms.uid.clone(), reason, note));
            if let Some(last_result) = shared.source_result(name) {
                let reason = last_result
                    .result
                    .as_ref()
                    .err()
                    .map(crate::source::SourceError::reason);
                if let (Some(reason), Err(error)) = (reason, &last_result.result)
                    && self.outages.get(name) != Some(&reason)
                {
                    warn("SourceFailed", error.to_string());
                }
                match reason {
                    Some(reason) => self.outages.insert(name.to_owned(), reason),
                    None => self.outages.remove(name),
                };
            }
            let seen = self.unapproved_starts.entry(name.to_owned()).or_default();
            if ledger.unapproved_starts() > *seen {
                warn(
                    "UnapprovedStart",
                    format!(
                        "{} jobs may start that the check has not approved",
                        ledger.unapproved_starts() - *seen
                    ),
                );
                *seen = ledger.unapproved_starts();
            }
            let Some(period) = ledger
                .period(now)
                .filter(|_| ledger.limits_are_known().is_ok())
            else {
                continue;
            };
            let index = ledger.index();
            for account in ledger.known_accounts(now) {
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
                    warn(
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
        events
    }
}
