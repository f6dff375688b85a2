//! The requests of a step.

use serde_json::{Value, json};

use super::Recorder;
use crate::bodies::{cluster_path, job_path, namespaced_path};
use crate::history::{StateWrite, Step};
use crate::request::Request;

/// Returns the request that sets the phase of a Pod to `Succeeded`.
fn succeeded(pod: &str) -> Request {
    let path = format!("/api/v1/namespaces/t@/pods/{pod}/status");
    Request::merge(path, json!({"status": {"phase": "Succeeded"}}))
}

impl Recorder<'_> {
    /// Returns the requests of a step, or `None` if no object allows the step.
    pub(super) fn requests(&self, step: &Step) -> Option<Vec<Request>> {
        let requests = match step {
            Step::Create(objects) => objects.iter().map(Request::creation).collect(),
            Step::Patch { path, body, .. } => vec![Request::merge(path.clone(), body.clone())],
            Step::Active { check, active } => vec![self.active(check, *active)],
            Step::WriteState(write) => vec![self.write_state(write)?],
            Step::Activate { workload, active } => {
                let path = self.path_of(workload)?;
                vec![Request::merge(path, json!({"spec": {"active": active}}))]
            }
            Step::Delete(name) => vec![Request::delete(if self.job(name).is_some() {
                job_path(name)
            } else if self.pod(name).is_some() {
                format!("/api/v1/namespaces/t@/pods/{name}")
            } else {
                self.path_of(name)?
            })],
            Step::Finish(name) if self.job(name).is_some() => {
                self.end_job(name, "SuccessCriteriaMet", "Complete")?
            }
            Step::Finish(name) => match self.pods_of(name).as_slice() {
                [] => vec![self.finish(name)?],
                pods => pods.iter().map(|pod| succeeded(pod)).collect(),
            },
            Step::Run { job, running } => vec![self.run_job(job, *running)?],
            Step::Done {
                workload,
                set,
                count,
            } => vec![match self.job(workload) {
                Some(_) => self.pods_done(workload, *count)?,
                None => self.reclaim(workload, set, *count)?,
            }],
            Step::Fail(name) => self.end_job(name, "FailureTarget", "Failed")?,
            Step::DeleteWorkload(name) => vec![Request::delete(self.path_of(name)?)],
            Step::Remove { path, .. } => vec![Request::delete(path.clone())],
            Step::Hasty(step) => return self.requests(step),
            Step::Wait(_) => Vec::new(),
        };
        let marked = requests.into_iter().map(|r| r.marked(&self.mark));
        Some(marked.collect())
    }

    fn now(&self) -> String {
        format!("{:.0}", self.clock.now())
    }

    fn path_of(&self, workload: &str) -> Option<String> {
        let found = self.workload(workload)?;
        let name = found["metadata"]["name"].as_str()?;
        Some(format!("{}/{name}", namespaced_path("workloads")))
    }

    fn active(&self, check: &str, active: bool) -> Request {
        let (status, reason, message) = if active {
            ("True", "Active", "The admission check is active")
        } else {
            ("False", "Inactive", "The admission check is not active")
        };
        let condition = json!({
            "type": "Active", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": self.now(), "observedGeneration": 1,
        });
        let path = format!("{}/{check}/status", cluster_path("admissionchecks"));
        Request::merge(path, json!({"status": {"conditions": [condition]}}))
    }

    /// Returns the request by which a check writes its state. The Workload must have an entry for
    /// the check, unless the write is `unlisted`.
    fn write_state(&self, write: &StateWrite) -> Option<Request> {
        let workload = self.workload(&write.workload)?;
        let name = self.marked(&write.check);
        let entries = workload["status"]["admissionChecks"].as_array();
        let listed = entries.is_some_and(|all| all.iter().any(|entry| entry["name"] == name));
        if !listed && !write.unlisted {
            return None;
        }
        let mut entry = json!({
            "name": write.check, "state": write.state, "message": write.message,
            "lastTransitionTime": self.now(),
        });
        if let Some(delay) = write.delay {
            entry["requeueAfterSeconds"] = json!(delay);
        }
        if !write.updates.is_empty() {
            entry["podSetUpdates"] = json!(write.updates);
        }
        let body = self.status(&write.workload, json!({"admissionChecks": [entry]}))?;
        let manager = if write.one_manager {
            "example-com-test".to_owned()
        } else {
            format!("example-com-test-{}", write.check.trim_end_matches('@'))
        };
        let path = self.path_of(&write.workload)?;
        let path = format!("{path}/status?fieldManager={manager}&force=true");
        Some(Request::apply(path, body))
    }

    fn status(&self, workload: &str, status: Value) -> Option<Value> {
        let metadata = &self.workload(workload)?["metadata"];
        Some(json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "status": status,
        }))
    }

    /// Returns the names of the Pods of a group, or of the Pod with that name.
    fn pods_of(&self, group: &str) -> Vec<String> {
        let group = self.marked(group);
        let label = "/metadata/labels/kueue.x-k8s.io~1pod-group-name";
        let pods = self.live.iter().filter(|((kind, _), pod)| {
            let of_group = pod.pointer(label).and_then(Value::as_str) == Some(&*group);
            *kind == "Pod" && (of_group || pod["metadata"]["name"] == *group)
        });
        pods.map(|((_, name), _)| name.clone()).collect()
    }

    fn finish(&self, name: &str) -> Option<Request> {
        let condition = json!({
            "type": "Finished", "status": "True", "reason": "Succeeded",
            "message": "Job finished successfully", "lastTransitionTime": self.now(),
        });
        let body = self.status(name, json!({"conditions": [condition]}))?;
        let path = format!(
            "{}/status?fieldManager=owner&force=true",
            self.path_of(name)?
        );
        Some(Request::apply(path, body))
    }

    /// Returns the request by which a Workload's owner reports completed Pods of a pod set.
    fn reclaim(&self, name: &str, set: &str, count: u64) -> Option<Request> {
        let done = json!({"reclaimablePods": [{"name": set, "count": count}]});
        let body = self.status(name, done)?;
        let path = self.path_of(name)?;
        let path = format!("{path}/status?fieldManager=owner-pods&force=true");
        Some(Request::apply(path, body))
    }

    /// Returns the request that starts or ends the Pods of a job. Pods start only while their job
    /// is not suspended, and may run for some time after.
    fn run_job(&self, name: &str, running: bool) -> Option<Request> {
        let job = self.job(name)?;
        if job["spec"]["suspend"] == true && running {
            return None;
        }
        let count = job["spec"]["parallelism"].as_u64().unwrap_or(1);
        let count = if running { count } else { 0 };
        let mut status = json!({"active": count, "ready": count});
        if running && job["status"]["startTime"].is_null() {
            status["startTime"] = json!(self.now());
        }
        let path = format!("{}/status", job_path(name));
        Some(Request::merge(path, json!({"status": status})))
    }

    /// Returns the request that reports completed Pods of a running job.
    fn pods_done(&self, name: &str, count: u64) -> Option<Request> {
        let job = self.job(name)?;
        let completions = job["spec"]["completions"].as_u64().unwrap_or(1);
        if job["spec"]["suspend"] == true || count >= completions {
            return None;
        }
        let mut status = json!({"succeeded": count, "uncountedTerminatedPods": {}});
        if job["spec"]["completionMode"] == "Indexed" {
            status["completedIndexes"] = json!(match count {
                1 => "0".to_owned(),
                _ => format!("0-{}", count - 1),
            });
            if !job["spec"]["backoffLimitPerIndex"].is_null() {
                status["failedIndexes"] = json!(count.to_string());
                status["failed"] = json!(1);
            }
        }
        if job["status"]["startTime"].is_null() {
            status["startTime"] = json!(self.now());
        }
        let path = format!("{}/status", job_path(name));
        Some(Request::merge(path, json!({"status": status})))
    }

    /// Returns the requests that end a job. Only a running job can end, and only once.
    fn end_job(&self, name: &str, target: &str, end: &str) -> Option<Vec<Request>> {
        let job = self.job(name)?;
        let conditions = job["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let ended = conditions.any(|c| c["type"] == "Complete" || c["type"] == "Failed");
        if job["spec"]["suspend"] == true || ended {
            return None;
        }
        let now = self.now();
        let condition = |kind: &str| {
            json!({
                "type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now,
            })
        };
        let mut done = json!({"status": {"active": 0, "ready": 0}});
        let mut conditions = [condition(target), condition(end)];
        if end == "Complete" {
            done["status"]["completionTime"] = json!(now);
            done["status"]["succeeded"] = job["spec"]["completions"].clone();
        } else {
            for condition in &mut conditions {
                condition["reason"] = json!("BackoffLimitExceeded");
                condition["message"] = json!("Job has reached the specified backoff limit");
            }
        }
        done["status"]["conditions"] = json!(conditions);
        let path = format!("{}/status", job_path(name));
        let mut requests = Vec::new();
        // A running job keeps its start time.
        if job["status"]["startTime"].is_null() {
            let begun = json!({"status": {"startTime": now}});
            requests.push(Request::merge(path.clone(), begun));
        }
        requests.push(Request::merge(path, done));
        Some(requests)
    }
}
