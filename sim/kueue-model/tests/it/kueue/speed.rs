//! Processor time for many Workloads, and for an idle week.

use std::time::Duration;

use jiff::Timestamp;
use kueue_check_apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb, Watch, WatchOptions};
use kueue_check_kueue_model::jobs;
use kueue_check_kueue_model::kueue::{Actor, KueueVersion, run};
use serde_json::{Value, json};

use kueue_check_testenv::processor_time;

use super::cluster::{Cluster, KUEUE, in_virtual_time, kueue};

/// A check that returns Ready for each Workload, and ends each Job as soon as it runs.
struct Driver {
    server: ApiServer,
    workloads: Watch,
    jobs: Watch,
    finished: usize,
}

impl Driver {
    fn new(cluster: &Cluster) -> Self {
        let server = cluster.server.clone();
        let watch = |resource: &Resource| server.watch(WatchOptions::all(resource)).unwrap();
        Self {
            workloads: watch(&kueue("workloads")),
            jobs: watch(&Resource::new("batch", "v1", "jobs")),
            server: server.clone(),
            finished: 0,
        }
    }

    fn pass(&self, workload: &Value) {
        let status = &workload["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut reserved =
            conditions.filter(|c| c["type"] == "QuotaReserved" && c["status"] == "True");
        let entry = &status["admissionChecks"][0];
        if reserved.next().is_none() || entry["state"] != "Pending" {
            return;
        }
        let metadata = &workload["metadata"];
        let ready = json!({"name": entry["name"], "state": "Ready", "message": "", "lastTransitionTime": entry["lastTransitionTime"]});
        let body = json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": metadata["name"], "namespace": "t", "resourceVersion": metadata["resourceVersion"]}, "status": {"admissionChecks": [ready]}});
        let call = ApiRequest::new(Verb::Patch(Patch::Apply), &kueue("workloads")).namespace("t");
        let call = call
            .name(metadata["name"].as_str().unwrap())
            .subresource("status");
        self.server.call(
            &call
                .query("fieldManager", "check")
                .query("force", "true")
                .body(body),
        );
    }
}

impl Actor for Driver {
    fn step(&mut self) -> bool {
        if let Some(event) = self.workloads.ready() {
            if event.kind != "DELETED" {
                self.pass(&event.object);
            }
            return true;
        }
        if let Some(event) = self.jobs.ready() {
            let job = &event.object;
            if job["status"]["ready"] == 1 && job["status"]["conditions"].is_null() {
                jobs::finish(&self.server, "t", job["metadata"]["name"].as_str().unwrap());
                self.finished += 1;
            }
            return true;
        }
        false
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        None
    }
}

/// The cost of each Workload.
#[derive(Debug)]
struct Cost {
    /// The processor time for each Workload, without that of other processes.
    took: Duration,
    /// The number of writes for each Workload.
    writes: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn whole_life_cycles(count: usize) -> Cost {
    let before = processor_time();
    let writes = in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.server.keep_changes(100_000);
        cluster.queue("1000", &["c"], &json!({}));
        let driver = Driver::new(&cluster);
        tokio::spawn(run(driver, cluster.server.clone(), cluster.clock.clone()));
        for number in 0..count {
            cluster.job(&format!("job-{number}"), "1", None);
        }
        let done = |w: &Value| {
            let conditions = w["status"]["conditions"].as_array().into_iter().flatten();
            let mut finished =
                conditions.filter(|c| c["type"] == "Finished" && c["status"] == "True");
            finished.next().is_some() && w["metadata"]["finalizers"].is_null()
        };
        for _ in 0..count {
            cluster.pass(1.0).await;
            let workloads = cluster.server.objects(&kueue("workloads"), "t");
            if workloads.len() == count && workloads.iter().all(|w| done(w)) {
                return cluster.server.resource_version();
            }
        }
        panic!("not all finished");
    });
    Cost {
        took: processor_time()
            .saturating_sub(before)
            .div_f64(count as f64),
        writes: writes as f64 / count as f64,
    }
}

#[test]
fn each_workload_costs_the_same_however_many_there_are() {
    // The first run creates everything that is created once, such as the kinds.
    whole_life_cycles(5);
    let few = whole_life_cycles(50);
    let many = whole_life_cycles(400);
    println!("each of 50 Workloads: {few:?}; each of 400 Workloads: {many:?}");
    // There were 19 when this was written, including events.
    assert!(
        few.writes < 20.0 && many.writes < 20.0,
        "writes for each Workload"
    );
    // There are eight times as many Workloads. Code that reads all others for each Workload would
    // take eight times as long for each.
    assert!(many.took < few.took * 2, "{few:?} grows to {many:?}");
}

#[test]
fn an_idle_week_takes_less_than_a_second() {
    let before = processor_time();
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("2", &["c"], &json!({}));
        for number in 0..20 {
            cluster.job(&format!("job-{number}"), "1", None);
        }
        // A second later Kueue counts them.
        cluster.pass(3.0).await;
        let version = cluster.server.resource_version();
        cluster.pass(7.0 * 86_400.0).await;
        assert_eq!(
            cluster.server.resource_version(),
            version,
            "something was written in an idle week"
        );
    });
    let took = processor_time().saturating_sub(before);
    println!("an idle week: {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}
