//! `demo`: a week of two teams in a simulated cluster, in seconds. One runs out of money on
//! Thursday and gets a top-up on Friday.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::CustomResourceExt;
use kueue_check_sim::{Cluster, Job, Simulation};
use kueue_check_sim_cli::demo::{Demo, DemoError};
use serde_json::{Value, json};

use crate::controller::BudgetCheck;
use crate::ledger::Observation;
use crate::money::Amount;
use crate::resource::NamespaceBudget;
use crate::source::{Source, SourceError, SpendQuery, SpendReport};

/// The duration of each job, in hours.
const HOURS: u32 = 4;

/// A source with the bill as a monitoring system reports it: once an hour.
#[derive(Clone, Default)]
struct Meter(Arc<Mutex<Bill>>);

/// The time of the last bill, and the spend of each namespace.
type Bill = (Timestamp, BTreeMap<Arc<str>, Amount>);

impl Meter {
    fn read(&self) -> Bill {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn bill(&self, at: Timestamp, namespaces: &[&str]) {
        let mut meter = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        meter.0 = at;
        for namespace in namespaces {
            let spent = meter.1.entry((*namespace).into()).or_default();
            *spent = *spent + Amount::units(1);
        }
    }
}

impl Source for Meter {
    fn query_spend(
        &self,
        spend_query: SpendQuery,
    ) -> BoxFuture<'_, Result<SpendReport, SourceError>> {
        let (at, spent) = self.read();
        let as_of = at.max(spend_query.period.start).min(spend_query.at);
        let observation = Observation {
            spent,
            ..Observation::of(spend_query.period, as_of)
        };
        futures::future::ready(Ok(SpendReport {
            observation,
            notes: Vec::new(),
        }))
        .boxed()
    }
}

fn budget() -> Value {
    json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "Budget", "metadata": {"name": "weekly"}, "spec": {
        "unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}, "settleDelay": "1s", "stalenessBound": "3h"},
        "namespaceLimits": {"default": "100"}, "prices": [{"flavor": "*", "resources": {"cpu": "1"}}],
        "estimate": {"safetyFactor": "1", "defaultDuration": "3h59m30s"},
    }})
}

/// Runs the week, and prints the spend of each day.
///
/// # Errors
/// If a file can't be written, or the port is taken.
pub fn demo(shown: &Demo) -> Result<(), DemoError> {
    let (simulation, meter) = simulation();
    let title =
        "A week of two teams; one runs out of money on Thursday and gets a top-up on Friday";
    shown.run(title, &simulation, async |cluster: &Cluster| {
        let text = week(cluster, &meter).await;
        println!("\n{text}");
    })
}

fn simulation() -> (Simulation, Meter) {
    let meter = Meter::default();
    let source = meter.clone();
    let simulation = Simulation::new(move || {
        let source = source.clone();
        BudgetCheck::with_sources(move |_| Arc::new(source.clone()))
    });
    let simulation = simulation
        .parameters(&budget())
        .object(&NamespaceBudget::crd())
        .starting_at("2026-11-16T00:00:00Z");
    (simulation, meter)
}

async fn week(cluster: &Cluster, meter: &Meter) -> String {
    let mut text = String::new();
    let mut running: BTreeMap<String, u32> = BTreeMap::new();
    for hour in 0..7 * 24_u32 {
        let (day, time) = (hour / 24, hour % 24);
        if time == 9 {
            for (team, jobs) in [("vision", 7), ("nlp", 2)] {
                for number in 0..jobs {
                    let name = format!(
                        "{team}-{}-{number}",
                        ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][day as usize]
                    );
                    cluster.submit(Job::new(&name).namespace(team));
                    running.insert(format!("{team}/{name}"), 0);
                }
            }
        }
        if (day, time) == (4, 10) {
            let top_up = json!([{"amount": "60", "validUntil": "2026-11-23T00:00:00Z", "reason": "paper deadline"}]);
            cluster.apply(&json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "NamespaceBudget",
                "metadata": {"name": "weekly", "namespace": "vision"}, "spec": {"budgetRef": "weekly", "topUps": top_up}}));
            let _ = writeln!(text, "Fri 10:00  vision gets a top-up of 60 USD");
        }
        cluster.advance(Duration::from_secs(3600)).await;
        let billed: Vec<String> = running
            .iter_mut()
            .filter(|(job, _)| cluster.is_admitted(job))
            .map(|(job, hours)| {
                *hours += 1;
                job.clone()
            })
            .collect();
        meter.bill(
            cluster.now(),
            &billed
                .iter()
                .filter_map(|job| job.split('/').next())
                .collect::<Vec<_>>(),
        );
        let ended: Vec<String> = billed
            .into_iter()
            .filter(|job| running.get(job) >= Some(&HOURS))
            .collect();
        for job in &ended {
            cluster.complete(job);
            running.remove(job);
        }
        if time == 17 {
            let waits = running
                .keys()
                .filter(|job| !cluster.is_admitted(job))
                .collect::<Vec<_>>();
            let (_, spent) = meter.read();
            let spent: Vec<String> = spent
                .iter()
                .map(|(team, spent)| format!("{team} {}", spent.cents()))
                .collect();
            let _ = writeln!(
                text,
                "{} 18:00  spent: {}; {} wait",
                ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][day as usize],
                spent.join(", "),
                waits.len()
            );
            if let Some(job) = waits.first() {
                let _ = writeln!(text, "           {job}: {}", cluster.message(job));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_team_runs_out_on_thursday_and_goes_on_after_a_top_up_on_friday() {
        let (simulation, meter) = super::simulation();
        let text = std::sync::Mutex::new(String::new());
        let run = simulation.run(async |cluster: &super::Cluster| {
            let week = super::week(cluster, &meter).await;
            text.lock().unwrap().push_str(&week);
        });
        let text = text.into_inner().unwrap();
        println!("{text}\n{}", run.timeline().chart(140));
        assert!(
            text.contains("Wed 18:00")
                && text.contains("Wed 18:00  spent: nlp 24.00, vision 84.00; 0 wait"),
            "{text}"
        );
        assert!(
            text.contains("Thu 18:00  spent: nlp 32.00, vision 100.00; 3 wait"),
            "{text}"
        );
        assert!(text.contains("vision/vision-"), "{text}");
    }
}
