//! Verdicts and messages of decisions.
//!
//! A message contains the numbers at the time of the decision. Live numbers are in the status of
//! the Budget. A message that changed with each of them would cause a write and an event for each
//! Workload and minute.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kueue_check::api::{PodSet, Workload};
use kueue_check::{PodSetUpdates, Verdict};

use crate::config::{Account, BudgetConfig};
use crate::ledger::{
    AdmitReason, Awaited, Balance, Decision, Exemption, HoldReason, Run, RunningPods,
};
use crate::money::Amount;
use crate::resource::GROUP;

/// Formats the ledger's decisions about a Workload as verdicts and messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageFormatter<'a> {
    /// The configuration of the Budget.
    pub terms: &'a BudgetConfig,
    /// The Workload.
    pub workload: &'a Workload,
    /// The Workload as a run, with its estimate.
    pub run: &'a Run,
}

impl MessageFormatter<'_> {
    /// Returns the verdict for `decision`.
    pub fn verdict(&self, decision: &Decision) -> Verdict {
        match decision {
            Decision::Unchanged => Verdict::unchanged(),
            Decision::NotGoverned => Verdict::not_applicable(format!(
                "namespace {} has no budget in Budget {}",
                self.workload.namespace(),
                self.terms.budget
            )),
            Decision::Admit(why) => {
                let ready = Verdict::ready(self.admitted(why));
                if self.terms.mark_pods {
                    ready.with_updates(self.marks())
                } else {
                    ready
                }
            }
            Decision::Hold(reason) => Verdict::pending(self.reason(reason)),
            Decision::Reject(reason) => Verdict::rejected(self.reason(reason)),
            Decision::Stop(balance) => Verdict::retry_now(format!(
                "evicted: {} is {}% over its limit; lowest priority first",
                balance.account,
                balance
                    .overspent()
                    .unwrap_or_default()
                    .percent_of(balance.limit)
            )),
        }
    }

    /// Returns the annotation of the pods. Each Budget has its own key, because two values of one
    /// key would prevent the job from starting.
    fn marks(&self) -> PodSetUpdates {
        let key = format!("{GROUP}/{}", self.terms.budget);
        let names = self.workload.pod_sets().iter().map(PodSet::name);
        let updates = PodSetUpdates::builder()
            .pod_sets(names, |pods| pods.annotation(&key, self.estimate()))
            .build();
        // The build cannot fail. An AdmissionCheck refers to a name of at most 63 characters
        // without dots, which is a valid key. A Workload has no more pod sets than updates may
        // have.
        updates.unwrap_or_default()
    }

    fn estimate(&self) -> String {
        self.money(self.run.estimate.total())
    }

    fn money(&self, amount: Amount) -> String {
        format!("{} {}", amount.cents(), self.terms.unit)
    }

    fn admitted(&self, why: &AdmitReason) -> String {
        let estimate = match self.run.grows {
            Some(RunningPods::Known(pods)) => {
                format!(
                    "{} for all pods of the job, {pods} of which run,",
                    self.estimate()
                )
            }
            Some(RunningPods::Unknown) => format!("{} for all pods of the job", self.estimate()),
            None => self.estimate(),
        };
        match why {
            AdmitReason::Fits(balances) => {
                match balances.iter().min_by_key(|balance| balance.remaining()) {
                    Some(balance) => format!(
                        "estimate {estimate} committed to {} ({} per {}); {} left until {}",
                        balance.account,
                        self.money(balance.limit),
                        self.terms.schedule.unit_name(),
                        balance.remaining().cents_down(),
                        self.time(balance.period.end)
                    ),
                    None => format!("estimate {estimate} committed"),
                }
            }
            AdmitReason::Exempt(Exemption::PriorityClass(class)) => {
                format!("exempt by priority class {class}; {estimate} committed")
            }
            AdmitReason::Exempt(Exemption::Namespace(namespace)) => {
                format!("exempt by namespace {namespace}; {estimate} committed")
            }
            AdmitReason::ReportOnly(None) => {
                format!("estimate {estimate} committed; nothing is enforced")
            }
            AdmitReason::ReportOnly(Some(reason)) => format!(
                "nothing is enforced; it would have waited: {}",
                self.reason(reason)
            ),
            AdmitReason::Unpriced => {
                "there is no price for it, and the budget lets such jobs start".to_owned()
            }
            AdmitReason::Stale(reason) => format!(
                "the budget lets jobs start while spending is unknown: {}",
                self.reason(reason)
            ),
        }
    }

    /// Returns `reason` as a sentence.
    pub fn reason(&self, reason: &HoldReason) -> String {
        let word = self.terms.schedule.unit_name();
        match reason {
            HoldReason::DoesNotFit { need, balance } => format!(
                "needs about {}{}, {} is left of {}'s {} ({} spent, {} committed to {} running or starting jobs); starts when they end cheaper than \
                 estimated, or after the reset on {}",
                self.money(*need),
                self.beyond_what_runs(),
                balance.remaining().cents_down(),
                balance.account,
                self.money(balance.limit),
                balance.spent.cents(),
                balance.committed.total().cents(),
                balance.committed.jobs,
                self.time(balance.period.end)
            ),
            HoldReason::Overspent(balance) => format!(
                "{} has spent {} of {} this {word}; next reset {}. {}",
                balance.account,
                balance.spent.cents(),
                self.money(balance.limit),
                self.time(balance.period.end),
                self.contact_hint(balance)
            ),
            HoldReason::BlockedByOrder(balance) => format!(
                "waits behind a job of {} that needs more than the {} {} that are left; the budget keeps their order",
                balance.account,
                balance.remaining().cents_down(),
                self.terms.unit
            ),
            HoldReason::TooLarge {
                estimate,
                most,
                account,
            } => {
                let whose = match account {
                    None => format!("one job may cost ({})", self.money(*most)),
                    Some(account) => {
                        format!("the whole limit of {account} ({})", self.money(*most))
                    }
                };
                format!(
                    "estimate {} ({}) is more than {whose}. Lower maximumExecutionTimeSeconds or the request{}",
                    self.money(*estimate),
                    self.terms
                        .prices
                        .describe(self.workload, &self.run.estimate),
                    self.retry_hint()
                )
            }
            HoldReason::Unpriced { resource, flavor } => {
                format!(
                    "no price for {resource} on flavor {flavor} in Budget {}",
                    self.terms.budget
                )
            }
            HoldReason::ColdStart {
                awaits,
                have,
                problem,
            } => {
                let clock = |at: &Timestamp| self.at(*at).strftime("%H:%M:%S").to_string();
                let awaited = match awaits {
                    Awaited::Workloads => "the list of Workloads".to_owned(),
                    Awaited::NamespaceBudgets => "the list of NamespaceBudgets".to_owned(),
                    Awaited::Namespaces => "the list of Namespaces".to_owned(),
                    Awaited::Spend(need) => {
                        let have = have.as_ref().map_or_else(|| "none".to_owned(), clock);
                        format!("spend data as of {} (have {have})", clock(need))
                    }
                };
                let problem = problem
                    .as_ref()
                    .map(|problem| format!("; {problem}"))
                    .unwrap_or_default();
                format!("waiting for {awaited}{problem}")
            }
            HoldReason::Stale {
                account,
                since,
                problem,
            } => format!(
                "spend of {account} is unknown since {} ({}); jobs wait until data is back",
                self.at(*since).strftime("%H:%M"),
                problem.as_deref().unwrap_or("no newer data")
            ),
            HoldReason::NotCovered => format!(
                "the source has nothing about the beginning of the {word}, so what was spent then is unknown; jobs wait unless Budget {} has onUncovered: Admit",
                self.terms.budget
            ),
            HoldReason::NotGoverned => format!(
                "namespace {} has no limit in Budget {} and is in no pool of it; jobs there wait unless the Budget has onUngoverned: Admit",
                self.workload.namespace(),
                self.terms.budget
            ),
            HoldReason::NoPeriod => format!(
                "the term of Budget {} is over or has not begun",
                self.terms.budget
            ),
        }
    }

    /// Returns the part of a message that names the running pods to which a growth adds.
    fn beyond_what_runs(&self) -> String {
        match self.run.grows {
            None => String::new(),
            Some(RunningPods::Unknown | RunningPods::Known(0)) => {
                " more than what runs of the job".to_owned()
            }
            Some(RunningPods::Known(1)) => " more than the pod that runs".to_owned(),
            Some(RunningPods::Known(pods)) => format!(" more than the {pods} pods that run"),
        }
    }

    fn retry_hint(&self) -> &'static str {
        match &self.run.job {
            // Kueue does not requeue a variant (measured on 0.19.2).
            Some(job) if job.is_variant => " of the job",
            Some(_) if self.run.grows.is_some() => ", or scale the job back",
            // Up to 0.19 Kueue does not queue it again when it is activated.
            _ => ", then delete the Workload: Kueue creates it again from its job",
        }
    }

    fn contact_hint(&self, balance: &Balance) -> String {
        match &balance.account {
            Account::Namespace(namespace) => format!(
                "Ask the owner of NamespaceBudget {namespace}/{} for a top-up",
                self.terms.budget
            ),
            Account::Pool(_) => format!("Ask the owner of Budget {}", self.terms.budget),
        }
    }

    fn at(&self, at: Timestamp) -> jiff::Zoned {
        at.to_zoned(self.terms.schedule.zone())
    }

    fn time(&self, at: Timestamp) -> String {
        when(at, &self.terms.schedule.zone())
    }
}

/// Formats `at` as `Mon 23 Nov 00:00 CET`.
pub fn when(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone())
        .strftime("%a %-d %b %H:%M %Z")
        .to_string()
}
