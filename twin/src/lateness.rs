//! How late Kueue acts, since many histories at once slow it down.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout_at};

use crate::bodies::{CPU, Pods, cluster_object, job, namespaced_object, namespaced_path};
use crate::request::{ObservedChange, Request, RequestError, send};

/// The delay between a measurement and the next one.
const PAUSE: Duration = Duration::from_secs(1);
/// The maximum duration of a measurement. A Kueue that is later than this is broken.
const LONGEST: Duration = Duration::from_secs(30);

/// The time from the creation of a Job to the event about its start, measured again and again in a
/// ClusterQueue of its own. Kueue writes its events one after the other, so that under load they
/// come later than its other writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness(Arc<Mutex<Measured>>);

#[derive(Debug, Default)]
struct Measured {
    /// The result of the last measurement.
    last: Duration,
    /// The beginning of the current measurement.
    began: Option<Instant>,
}

impl Lateness {
    /// Returns the last measured time, or that of the current measurement if it is longer.
    pub(crate) fn get(&self) -> Duration {
        let measured = self.lock();
        let current = measured.began.map(|began| began.elapsed());
        measured.last.max(current.unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures until a request fails; then nothing counts as late. `changes` are those of the
    /// objects with `mark`.
    pub(crate) async fn measure(
        self,
        client: Client,
        mark: String,
        changes: UnboundedReceiver<ObservedChange>,
    ) {
        if let Err(error) = self.measure_each(&client, &mark, changes).await {
            *self.lock() = Measured::default();
            eprintln!("cannot measure how late Kueue is: {error}");
        }
    }

    async fn measure_each(
        &self,
        client: &Client,
        mark: &str,
        mut changes: UnboundedReceiver<ObservedChange>,
    ) -> Result<(), RequestError> {
        for object in queue() {
            send(client, &Request::creation(&object).marked(mark)).await?;
        }
        for number in 0.. {
            let request = Request::creation(&started_at_once(number)).marked(mark);
            let name = &request.body["metadata"]["name"];
            let began = Instant::now();
            self.lock().began = Some(began);
            send(client, &request).await?;
            while let Ok(Some(seen)) = timeout_at(began + LONGEST, changes.recv()).await {
                let event = &seen.object;
                if event["regarding"]["name"] == *name && event["reason"] == "Started" {
                    break;
                }
            }
            *self.lock() = Measured {
                last: began.elapsed(),
                began: None,
            };
            let jobs = Request::delete(request.path);
            let workloads = Request::delete(namespaced_path("workloads")).marked(mark);
            for all in [jobs, workloads] {
                send(client, &all).await?;
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }
}

/// Returns the objects that the Jobs need.
fn queue() -> [Value; 4] {
    let flavor = json!({"name": "late@", "resources": [{"name": CPU, "nominalQuota": 1}]});
    let group = json!({"coveredResources": [CPU], "flavors": [flavor]});
    let spec = json!({"namespaceSelector": {}, "resourceGroups": [group]});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t@"}}),
        cluster_object("ResourceFlavor", "late@", json!({})),
        cluster_object("ClusterQueue", "late@", spec),
        namespaced_object("LocalQueue", "late", json!({"clusterQueue": "late@"})),
    ]
}

fn started_at_once(number: u64) -> Value {
    let pods = Pods {
        name: "main",
        count: 1,
        least: None,
        requests: json!({CPU: "1"}),
        selector: None,
        init: None,
        tolerations: None,
    };
    job(&format!("late-{number}@"), "late", None, &pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_counts_before_it_ends() {
        let lateness = Lateness::default();
        assert_eq!(lateness.get(), Duration::ZERO);
        let last = Duration::from_secs(2);
        *lateness.lock() = Measured { last, began: None };
        assert_eq!(lateness.get(), last);
        lateness.lock().began = Some(Instant::now());
        assert_eq!(lateness.get(), last);
        lateness.lock().began = Instant::now().checked_sub(Duration::from_secs(3));
        assert!(lateness.get() >= Duration::from_secs(3));
    }

    #[test]
    fn what_is_created_has_the_mark() {
        let request = Request::creation(&started_at_once(7)).marked("-z00001z");
        assert_eq!(request.path, "/apis/batch/v1/namespaces/t-z00001z/jobs");
        assert_eq!(request.body["metadata"]["name"], "late-7-z00001z");
        let [.., queue] = queue();
        let request = Request::creation(&queue).marked("-z00001z");
        assert_eq!(request.body["spec"]["clusterQueue"], "late-z00001z");
    }
}
