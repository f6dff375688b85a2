//! A history: what people, queues, jobs and checks do, one step after the other.

use serde_json::Value;

/// Stands in names for what makes those of one history unlike all others'.
pub(crate) const MARK: &str = "@";

/// Steps, each of which waits until Kueue has nothing left to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History {
    /// Its name, such as `7-12`: seed and number.
    pub(crate) name: String,
    /// Whether the trace has all that tells the Workloads of a job apart.
    pub(crate) full: bool,
    /// What is done.
    pub(crate) steps: Vec<Step>,
}

impl History {
    /// Whether ClusterQueues share quota.
    pub(crate) fn has_cohorts(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Create(objects) => objects.iter().any(|o| o["spec"]["cohortName"].is_string()),
            _ => false,
        })
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Objects are created.
    Create(Vec<Value>),
    /// A merge patch for an object, or for a part of it.
    Patch {
        /// What it is for.
        about: String,
        /// The path, with the subresource.
        path: String,
        /// The patch.
        body: Value,
    },
    /// An AdmissionCheck becomes active or inactive.
    Active {
        /// The AdmissionCheck.
        check: String,
        /// What it becomes.
        active: bool,
    },
    /// A check sets its state in a Workload.
    Answer(Answer),
    /// `spec.active` of a Workload.
    Activate {
        /// Its short name.
        workload: String,
        /// What it becomes.
        active: bool,
    },
    /// A Workload is deleted, or the job that it is for.
    Delete(String),
    /// A Workload has finished, or the job that it is for.
    Finish(String),
    /// The Pods of a job run, or run no longer.
    Run {
        /// The job.
        job: String,
        /// Whether they run.
        running: bool,
    },
    /// Pods of a pod set are done and will not run again.
    Done {
        /// The Workload's short name.
        workload: String,
        /// The pod set.
        set: &'static str,
        /// How many.
        count: u64,
    },
    /// The job that a Workload is for has failed.
    Fail(String),
    /// The Workload of a job is deleted; the job stays.
    DeleteWorkload(String),
    /// An object without which others do nothing is deleted.
    Remove {
        /// What it is.
        about: String,
        /// Its path.
        path: String,
    },
    /// The next step follows 10 ms later.
    Hasty(Box<Step>),
    /// Nothing is done for so many seconds.
    Wait(f64),
}

/// What a check says of a Workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The Workload's short name.
    pub(crate) workload: String,
    /// The AdmissionCheck.
    pub(crate) check: String,
    /// The state.
    pub(crate) state: &'static str,
    /// Its message.
    pub(crate) message: &'static str,
    /// Of a Retry.
    pub(crate) delay: Option<u64>,
    /// For pod sets.
    pub(crate) updates: Vec<Value>,
    /// Whether the check writes even if Kueue does not list it.
    pub(crate) unlisted: bool,
    /// Whether all checks write under one name.
    pub(crate) one_manager: bool,
}

impl Step {
    /// What the trace calls it.
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
            Self::Answer(answer) => {
                let delay = answer.delay.map(|d| format!(" after {d} s"));
                let delay = delay.unwrap_or_default();
                let updates = if answer.updates.is_empty() {
                    ""
                } else {
                    " with updates"
                };
                let Answer {
                    workload,
                    check,
                    state,
                    ..
                } = answer;
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
