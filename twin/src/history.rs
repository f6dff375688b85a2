//! Histories: sequences of actions by users, queues, jobs and checks.

use serde_json::Value;

/// A placeholder in names for the mark that makes the names of one history unique.
pub(crate) const MARK: &str = "@";

/// A sequence of steps. Each step but a hasty one waits until Kueue is idle.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History {
    /// Its name, such as `7-12`: seed and number.
    pub(crate) name: String,
    /// Whether the trace contains all fields that distinguish the Workloads of a job.
    pub(crate) full: bool,
    /// The steps, in order.
    pub(crate) steps: Vec<Step>,
}

impl History {
    /// Returns true if any ClusterQueue is in a cohort.
    pub(crate) fn has_cohorts(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Create(objects) => objects.iter().any(|o| o["spec"]["cohortName"].is_string()),
            _ => false,
        })
    }
}

/// One step of a history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Creation of objects.
    Create(Vec<Value>),
    /// A merge patch for an object, or for a part of it.
    Patch {
        /// Its title in the trace.
        about: String,
        /// The path, with any subresource.
        path: String,
        /// The patch.
        body: Value,
    },
    /// An AdmissionCheck that becomes active or inactive.
    Active {
        /// The AdmissionCheck.
        check: String,
        /// What it becomes.
        active: bool,
    },
    /// An admission check state, written by a check.
    WriteState(StateWrite),
    /// A change of `spec.active` of a Workload.
    Activate {
        /// Its short name.
        workload: String,
        /// What it becomes.
        active: bool,
    },
    /// Deletion of a Job, a Pod, or a Workload.
    Delete(String),
    /// The successful end of a Job, of Pods, or of a Workload without either.
    Finish(String),
    /// A change of whether the Pods of a job run.
    Run {
        /// The job.
        job: String,
        /// Whether they run.
        running: bool,
    },
    /// Completed Pods of a pod set, which will not run again.
    Done {
        /// The Workload's short name.
        workload: String,
        /// The pod set.
        set: &'static str,
        /// The number of completed Pods.
        count: u64,
    },
    /// The failure of a job.
    Fail(String),
    /// Deletion of the Workload of a job; the job stays.
    DeleteWorkload(String),
    /// Deletion of an object that others depend on.
    Remove {
        /// Its name in the trace.
        about: String,
        /// Its path.
        path: String,
    },
    /// A step that the next one follows after 10 ms.
    Hasty(Box<Step>),
    /// No request, until nothing has changed for this many seconds.
    Wait(f64),
}

/// The admission check state that a check writes in a Workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StateWrite {
    /// The Workload's short name.
    pub(crate) workload: String,
    /// The AdmissionCheck.
    pub(crate) check: String,
    /// The state.
    pub(crate) state: &'static str,
    /// Its message.
    pub(crate) message: &'static str,
    /// The delay of a Retry, in seconds.
    pub(crate) delay: Option<u64>,
    /// The pod set updates.
    pub(crate) updates: Vec<Value>,
    /// Whether the check writes even if the Workload has no entry for it.
    pub(crate) unlisted: bool,
    /// Whether all checks write with the same field manager.
    pub(crate) one_manager: bool,
}

impl Step {
    /// Returns the title of the step in the trace.
    pub(crate) fn title(&self) -> String {
        let title = match self {
            Self::Create(objects) => {
                let each = objects.iter().map(|object| {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
                    format!("{} {}", text(kind), text(name))
                });
                format!("create {}", each.collect::<Vec<_>>().join(", "))
            }
            Self::Patch { about, .. } => about.clone(),
            Self::Active { check, active } => format!("set AdmissionCheck {check} Active={active}"),
            Self::WriteState(write) => {
                let delay = write.delay.map(|d| format!(" after {d} s"));
                let delay = delay.unwrap_or_default();
                let updates = if write.updates.is_empty() {
                    ""
                } else {
                    " with updates"
                };
                let StateWrite {
                    workload,
                    check,
                    state,
                    ..
                } = write;
                format!("{workload} {check}: {state}{delay}{updates}")
            }
            Self::Activate { workload, active } => format!("set {workload} active={active}"),
            Self::Delete(name) => format!("delete {name}"),
            Self::Finish(name) => format!("finish {name}"),
            Self::Run { job, running } => {
                format!("pods of {job} {}", if *running { "run" } else { "end" })
            }
            Self::Done {
                workload,
                set,
                count,
            } => format!("{count} pods of {workload}/{set} are done"),
            Self::Fail(name) => format!("fail {name}"),
            Self::DeleteWorkload(name) => format!("delete the Workload of {name}"),
            Self::Remove { about, .. } => format!("delete {about}"),
            Self::Hasty(step) => step.title(),
            Self::Wait(seconds) => format!("wait {seconds} s"),
        };
        title.replace(MARK, "")
    }
}
