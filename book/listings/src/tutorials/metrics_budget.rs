//! Reading metrics: a small budget check.

/// The program.
///
/// # Errors
/// As [`kueue_check::main()`].
pub fn program() -> kueue_check::Result<()> {
    main()
}

#[test]
fn the_samples_are_accepted() {
    let check = || small_budget.with_state(Spending::new(Source::Prometheus(String::new())));
    let sample = &super::samples::documents("small-budget.yaml")[0];
    let simulation = kueue_check_sim::Simulation::new(check).parameters(sample);
    simulation.run(async |cluster| {
        cluster.expect_active("check").await;
        super::samples::apply(cluster, "after-admission.yaml");
    });
}

// ANCHOR: file
// ANCHOR: check
use kueue_check::prelude::*;
use std::{collections::BTreeMap, time::Duration};

/// The limit of each namespace, and the query for its spending.
#[kueue_check::parameters(group = "example.com", version = "v1alpha1", kind = "SmallBudget")]
struct SmallBudgetSpec {
    /// A PromQL query whose result is the spending of each `namespace`.
    query: String,
    /// By namespace. A namespace without a limit may spend nothing.
    limits: BTreeMap<String, f64>,
    #[serde(flatten)]
    policy: Policy,
}

/// Jobs start only while their namespace has budget.
#[admission_check(controller = "example.com/small-budget", timeout = "10s")]
async fn small_budget(
    Params(budget): Params<SmallBudget>,
    workload: Workload,
    State(spending): State<Spending>,
) -> Result<Verdict, CheckError> {
    let namespace = workload.namespace();
    let all = spending.by_namespace(&budget.spec.query).await?;
    let spent = all.get(namespace).copied().unwrap_or(0.0);
    let limit = budget.spec.limits.get(namespace).copied().unwrap_or(0.0);
    if spent < limit {
        return Ok(Verdict::ready("within budget"));
    }
    let message = format!("namespace {namespace} has spent {spent:.2} of {limit:.2}");
    Ok(Verdict::pending(message).recheck_in(Duration::from_secs(60)))
}
// ANCHOR_END: check

// ANCHOR: spending
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kueue_check::serde_json::{self, Value};
use kueue_check::service::SingleFlight;

/// The spending of namespaces. One query in 30 s serves all Workloads.
#[derive(Clone)]
struct Spending {
    source: Source,
    kept: SingleFlight<String, BTreeMap<String, f64>>,
}

/// The source of the spending.
#[derive(Clone)]
enum Source {
    /// A Prometheus server, by its address.
    Prometheus(String),
    /// A test, which sets Prometheus' response and counts the queries.
    #[cfg(test)]
    Test(tests::Responses),
}

impl Spending {
    fn new(source: Source) -> Self {
        let kept = SingleFlight::new(Duration::from_secs(30));
        Self { source, kept }
    }

    async fn by_namespace(&self, query: &str) -> Result<BTreeMap<String, f64>, CheckError> {
        let request = || async { read(&self.source.query(query).await?) };
        self.kept.get(query.to_owned(), request).await
    }
}

impl Source {
    async fn query(&self, query: &str) -> Result<Value, CheckError> {
        match self {
            Self::Prometheus(address) => {
                let query = form_urlencoded::Serializer::new(String::new())
                    .append_pair("query", query)
                    .finish();
                let address = format!("{address}/api/v1/query?{query}").parse()?;
                let client: Client<_, Empty<Bytes>> =
                    Client::builder(TokioExecutor::new()).build_http();
                let body = client.get(address).await?.into_body().collect().await?;
                Ok(serde_json::from_slice(&body.to_bytes())?)
            }
            #[cfg(test)]
            Self::Test(responses) => responses.next(),
        }
    }
}

/// Returns the samples of an instant query. A response without a result is an error, and with an
/// error no job starts.
fn read(response: &Value) -> Result<BTreeMap<String, f64>, CheckError> {
    let Some(series) = response.pointer("/data/result").and_then(Value::as_array) else {
        let why = response["error"].as_str().unwrap_or("no result");
        return Err(CheckError::transient(format!("Prometheus: {why}")));
    };
    let sample = |series: &Value| {
        let namespace = series.pointer("/metric/namespace")?.as_str()?;
        let spent = series.pointer("/value/1")?.as_str()?.parse().ok()?;
        Some((namespace.to_owned(), spent))
    };
    Ok(series.iter().filter_map(sample).collect())
}
// ANCHOR_END: spending

// ANCHOR: main
#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    let address = std::env::var("PROMETHEUS").unwrap_or("http://prometheus:9090".to_owned());
    let spending = Spending::new(Source::Prometheus(address));
    kueue_check::main(small_budget.with_state(spending)).await
}
// ANCHOR_END: main

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kueue_check_sim::{Cluster, Job, Simulation};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    // ANCHOR: tests
    /// The spending of the namespace `default` (`None`: Prometheus is down), and the number of
    /// queries.
    #[derive(Clone, Default)]
    pub(super) struct Responses(Arc<Mutex<(Option<f64>, usize)>>);

    impl Responses {
        pub(super) fn next(&self) -> Result<Value, CheckError> {
            let mut state = self.0.lock().unwrap();
            state.1 += 1;
            let spent = state.0.ok_or("connection refused")?;
            Ok(response(
                &json!([{"metric": {"namespace": "default"}, "value": [0, spent.to_string()]}]),
            ))
        }

        fn set(&self, spent: Option<f64>) {
            self.0.lock().unwrap().0 = spent;
        }

        fn queries(&self) -> usize {
            self.0.lock().unwrap().1
        }
    }

    fn response(result: &Value) -> Value {
        json!({"status": "success", "data": {"resultType": "vector", "result": result}})
    }

    fn simulation() -> Simulation {
        let budget = json!({
            "apiVersion": "example.com/v1alpha1", "kind": "SmallBudget", "metadata": {"name": "month"},
            "spec": {"query": "sum by (namespace) (cost)", "limits": {"default": 100.0}},
        });
        let check = |tools: &kueue_check_sim::simulation::CheckContext| {
            let responses = tools.external(Responses::default);
            small_budget.with_state(Spending::new(Source::Test(responses)))
        };
        Simulation::with_context(check).parameters(&budget)
    }

    fn prometheus(cluster: &Cluster) -> Responses {
        cluster.external()
    }

    #[test]
    fn a_spent_budget_holds_jobs_until_it_is_raised_with_any_fault() {
        let explored = simulation().run_with_each_fault(async |cluster| {
            prometheus(cluster).set(Some(120.0));
            cluster.submit(Job::new("train"));
            cluster
                .expect_message("train", "has spent 120.00 of 100.00")
                .await;
            prometheus(cluster).set(Some(80.0));
            cluster.expect_admitted("train").await;
        });
        println!("{explored}");
    }

    #[test]
    fn an_outage_holds_new_jobs_and_stops_no_running_one() {
        let run = simulation().run(async |cluster| {
            prometheus(cluster).set(Some(80.0));
            cluster.submit(Job::new("runs"));
            cluster.expect_admitted("runs").await;
            prometheus(cluster).set(None);
            cluster.advance(Duration::from_secs(60)).await;
            cluster.submit(Job::new("waits"));
            cluster.expect_message("waits", "connection refused").await;
            cluster.advance(Duration::from_secs(3600)).await;
            assert!(cluster.is_admitted("runs"));
            prometheus(cluster).set(Some(80.0));
            cluster.expect_admitted("waits").await;
        });
        assert!(!run.failed());
    }

    #[test]
    fn two_hundred_jobs_make_one_query() {
        simulation().quota(1000).run(async |cluster| {
            prometheus(cluster).set(Some(80.0));
            for number in 0..200 {
                cluster.submit(Job::new(format!("job-{number}")));
            }
            for number in 0..200 {
                cluster.expect_admitted(&format!("job-{number}")).await;
            }
            assert_eq!(prometheus(cluster).queries(), 1);
        });
    }
    // ANCHOR_END: tests

    #[tokio::test]
    async fn prometheus_receives_the_query() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 4096];
            let read = stream.read(&mut buffer).await.unwrap();
            let body =
                response(&json!([{"metric": {"namespace": "a"}, "value": [1, "7.5"]}])).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.unwrap();
            String::from_utf8_lossy(&buffer[..read]).into_owned()
        });
        let spending = Spending::new(Source::Prometheus(address));
        let spent = spending
            .by_namespace("sum by (namespace) (x)")
            .await
            .unwrap();
        assert_eq!(spent, BTreeMap::from([("a".to_owned(), 7.5)]));
        let request = served.await.unwrap();
        let line = "GET /api/v1/query?query=sum+by+%28namespace%29+%28x%29 HTTP/1.1";
        assert!(request.starts_with(line), "{request}");
    }

    #[test]
    fn an_error_of_prometheus_is_not_a_verdict() {
        let refused = json!({"status": "error", "error": "parse error: unexpected end"});
        let error = read(&refused).unwrap_err().to_string();
        assert_eq!(error, "Prometheus: parse error: unexpected end");
    }
}
// ANCHOR_END: file
