//! The actions of a counterexample, as lines of a timeline.

use kube::runtime::watcher::Event;

use super::replica::Stage;
use super::server::{name_of, uid_of};
use super::{Action, Model, Stream};
use crate::api::Workload;
use crate::runtime::core::{Task, TaskId};

impl Model {
    /// Returns `action`, which is possible now, as a sentence.
    pub(in super::super) fn describe(&self, action: Action) -> String {
        match action {
            Action::ClusterChange(kind, uid) if kind.is_of_a_workload() => {
                format!("the cluster: {kind:?}, w{uid}")
            }
            Action::ClusterChange(kind, _) => format!("the cluster: {kind:?}"),
            Action::Deliver(replica, stream) => {
                format!(
                    "replica {replica} receives {}",
                    self.next_event(replica, stream)
                )
            }
            Action::Apply(replica, id) => {
                format!(
                    "the API server carries out {} of replica {replica}",
                    self.task(replica, id)
                )
            }
            Action::Reply(replica, id) => {
                format!(
                    "replica {replica} receives the result of {}",
                    self.task(replica, id)
                )
            }
            Action::Answer(replica, id, answer) => {
                format!(
                    "replica {replica} receives {answer:?} from {}",
                    self.task(replica, id)
                )
            }
            Action::Lose(replica, id) => {
                format!(
                    "the reply to {} of replica {replica} is lost",
                    self.task(replica, id)
                )
            }
            Action::ApplyLate(place) => {
                let write = &self.late[place];
                format!(
                    "the write of {} by {} on w{} arrives late",
                    write.patch.state.as_str(),
                    name_of(write.check),
                    write.uid
                )
            }
            Action::Lapse(replica) => format!("the Lease of replica {replica} lapses"),
            Action::Regain(replica) => format!("replica {replica} renews the Lease again"),
            Action::Acquire(replica) => format!("replica {replica} acquires the Lease"),
            Action::Die(replica) => format!("replica {replica} dies"),
            Action::Tick => {
                let until = self.next_timer().unwrap_or(self.now.instant);
                let passes = until.saturating_duration_since(self.now.instant);
                format!("{passes:?} pass")
            }
        }
    }

    fn next_event(&self, replica: usize, stream: Stream) -> String {
        let replica = &self.replicas[replica];
        match stream {
            Stream::Workloads => match replica.events.front() {
                Some(Event::Apply(workload) | Event::InitApply(workload)) => shown(workload),
                Some(Event::Delete(workload)) => format!("the deletion of {}", shown(workload)),
                Some(Event::InitDone) => "the end of the list of Workloads".to_owned(),
                Some(Event::Init) | None => "the start of the list of Workloads".to_owned(),
            },
            Stream::Checks => "the AdmissionCheck".to_owned(),
            Stream::Parameters => "the parameters".to_owned(),
            Stream::Flavors => "the flavor".to_owned(),
        }
    }

    fn task(&self, replica: usize, id: TaskId) -> String {
        let stage = self.replicas[replica].tasks.get(&id);
        let Some(Stage::Sent(task) | Stage::Applied(task, _)) = stage else {
            return "nothing".to_owned();
        };
        match task {
            Task::Evaluate(task) => {
                let uid = uid_of(task.workload.uid());
                format!("the evaluation of {} for w{uid}", task.check)
            }
            Task::WriteEntry {
                workload,
                check,
                patch,
                ..
            } => {
                let (state, uid) = (patch.state.as_str(), uid_of(workload.uid()));
                format!("the write of {state} by {check} on w{uid}")
            }
            Task::Read { uid, .. } => format!("the read of w{}", uid_of(uid)),
            Task::Release { reservation, .. } => format!("the release of {reservation}"),
            Task::ListUnreleased { controller } => {
                format!("the unreleased reservations of {}", name_of(*controller))
            }
            Task::Activate { object, .. } => format!("the activation of {}", object.name()),
            Task::WriteConditions { object, .. } => format!("the conditions of {}", object.name()),
        }
    }
}

fn shown(workload: &Workload) -> String {
    let uid = uid_of(workload.uid());
    format!("w{uid} version {}", workload.resource_version())
}
