//! Which sources are queried. A Budget can name any server: credentials are sent only for Budgets
//! that an AdmissionCheck refers to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kueue_check_budget::controller::BudgetCheck;
use kueue_check_budget::ledger::Observation;
use kueue_check_budget::source::{Source, SourceError, SpendQuery, SpendReport};
use serde_json::{Value, json};

use super::*;

/// How often each source was queried.
type QueryCounts = Arc<Mutex<BTreeMap<String, usize>>>;

/// A source that counts queries, and reports after a time that nothing is spent.
struct Counting {
    name: String,
    counts: QueryCounts,
    takes: Duration,
}

impl Source for Counting {
    fn query_spend(
        &self,
        spend_query: SpendQuery,
    ) -> BoxFuture<'_, Result<SpendReport, SourceError>> {
        *self
            .counts
            .lock()
            .unwrap()
            .entry(self.name.clone())
            .or_default() += 1;
        let observation = Observation::of(spend_query.period, spend_query.at);
        let notes = Vec::new();
        let takes = self.takes;
        async move {
            tokio::time::sleep(takes).await;
            Ok(SpendReport { observation, notes })
        }
        .boxed()
    }
}

fn of_source(source: Value) -> Value {
    let mut spec = spec("2");
    spec["source"] = source;
    spec["source"]["settleDelay"] = json!("1s");
    spec
}

#[test]
fn the_source_of_a_budget_without_admission_checks_is_not_queried_with_credentials() {
    let counts = QueryCounts::default();
    let prometheus = |auth: Value| {
        let mut prometheus =
            json!({"url": "https://p", "query": "q", "sampleInterval": "1m", "freshness": "raw"});
        if auth.is_object() {
            prometheus["auth"] = auth;
        }
        of_source(json!({"prometheus": prometheus}))
    };
    let datadog = of_source(
        json!({"datadog": {"site": "datadoghq.com", "query": "x by {kube_namespace}", "freshness": "x"}}),
    );
    let counted = Arc::clone(&counts);
    let simulation = Simulation::new(move || {
        let counts = Arc::clone(&counted);
        BudgetCheck::with_sources(move |terms| {
            Arc::new(Counting {
                name: terms.budget.to_string(),
                counts: Arc::clone(&counts),
                takes: Duration::ZERO,
            })
        })
    });
    let token = json!({"bearerTokenFile": "token"});
    let simulation = simulation
        .parameters(&budget("budget", &prometheus(token.clone())))
        .object(&NamespaceBudget::crd())
        .object(&budget("datadog", &datadog))
        .object(&budget("token", &prometheus(token)))
        .object(&budget("anonymous", &prometheus(Value::Null)));
    let count = |name: &str| counts.lock().unwrap().get(name).copied().unwrap_or(0);
    simulation.run(async |cluster| {
        cluster.expect_active("check").await;
        cluster
            .expect("a source without credentials is queried", |_| {
                count("anonymous") > 1 && count("budget") > 1
            })
            .await;
        assert_eq!((count("datadog"), count("token")), (0, 0));
        let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "second"}, "spec": {
            "controllerName": "kueue-check.dev/budget", "parameters": {"apiGroup": "budget.kueue-check.dev", "kind": "Budget", "name": "datadog"}}});
        cluster.apply(&check);
        cluster
            .expect("it is queried once a check refers to it", |_| {
                count("datadog") > 1
            })
            .await;
        assert_eq!(count("token"), 0);
    });
}

/// A server that hangs is replaced by another one. The change arrives while it is queried.
#[test]
fn a_source_that_changes_during_a_query_is_queried_after_it() {
    let counts = QueryCounts::default();
    let with_query = |query: &str| {
        let prometheus =
            json!({"url": "https://p", "query": query, "sampleInterval": "1m", "freshness": "raw"});
        budget("budget", &of_source(json!({"prometheus": prometheus})))
    };
    let counted = Arc::clone(&counts);
    let simulation = Simulation::new(move || {
        let counts = Arc::clone(&counted);
        BudgetCheck::with_sources(move |terms| {
            let hangs = terms.generation == 1;
            Arc::new(Counting {
                name: format!("generation {}", terms.generation),
                counts: Arc::clone(&counts),
                takes: Duration::from_secs(if hangs { 30 } else { 0 }),
            })
        })
    });
    let simulation = simulation
        .parameters(&with_query("hangs"))
        .object(&NamespaceBudget::crd());
    let count = |name: &str| counts.lock().unwrap().get(name).copied().unwrap_or(0);
    simulation.run(async |cluster| {
        cluster
            .expect("it is queried", |_| count("generation 1") == 1)
            .await;
        cluster.apply(&with_query("other"));
        cluster
            .expect("the other one is queried", |_| count("generation 2") > 1)
            .await;
        cluster.advance(Duration::from_secs(300)).await;
        assert_eq!(count("generation 1"), 1);
    });
}
