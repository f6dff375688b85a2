//! Fault plans: faults and their injection points.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::Fault;

/// An injection point: a request or event at which a fault is possible.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Cluster, Job, FaultPlan, Simulation, explore::Fault};
///
/// async fn admitted(cluster: &Cluster) {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// }
/// let simulation = Simulation::new(|| open);
/// let run = simulation.run(admitted);
/// let write = run.points.iter().find(|point| point.what == "apply workloads/status").expect("the verdict is written");
/// assert_eq!((write.agent.as_str(), write.event), ("check-0", false));
/// // The write is done and its response is lost: the check finds what it wrote.
/// assert!(!simulation.run_with(&admitted, &FaultPlan::of(write.clone(), Fault::LoseReply)).failed());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InjectionPoint {
    /// The replica of the check, such as `check-0`.
    pub agent: String,
    /// Whether it is an event of a watch; otherwise it is a request.
    pub event: bool,
    /// The number among the replica's requests, or among its events.
    pub number: u64,
    /// A description for people: `apply workloads/status`.
    pub what: String,
}

impl InjectionPoint {
    /// Returns a key that similar points share.
    pub(crate) fn kind(&self) -> String {
        format!("{}{}{}", self.agent, self.event, self.what)
    }

    fn is(&self, agent: &str, event: bool, number: u64) -> bool {
        self.agent == agent && self.event == event && self.number == number
    }
}

/// The faults of one run.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Cluster, Job, FaultPlan, Simulation};
///
/// async fn admitted(cluster: &Cluster) {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// }
/// // What a run that failed prints, to see it again.
/// let plan: FaultPlan = "check-0/event/1/delay-event,check-0/request/3/crash-before".parse()?;
/// let run = Simulation::new(|| open).run_with(&admitted, &plan);
/// assert!(!run.failed(), "{run}");
/// # Ok::<(), kueue_check_sim::explore::PlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan(Vec<(InjectionPoint, Fault)>);

impl FaultPlan {
    /// Returns a plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a plan with one fault.
    pub fn of(point: InjectionPoint, fault: Fault) -> Self {
        Self(vec![(point, fault)])
    }

    /// Adds a fault.
    #[must_use]
    pub fn and(mut self, point: InjectionPoint, fault: Fault) -> Self {
        self.0.push((point, fault));
        self
    }

    /// Returns the number of faults.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn without(&self, index: usize) -> Self {
        let mut rest = self.0.clone();
        rest.remove(index);
        Self(rest)
    }

    /// Returns the faults.
    pub(crate) fn faults(&self) -> impl Iterator<Item = Fault> {
        self.0.iter().map(|(_, fault)| *fault)
    }

    /// Returns true if the plan has no faults.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first fault at this point, with its index in the plan.
    pub(crate) fn at(&self, agent: &str, event: bool, number: u64) -> Option<(usize, Fault)> {
        let mut all = self.0.iter().enumerate();
        let here = all.find(|(_, (point, _))| point.is(agent, event, number));
        here.map(|(index, (_, fault))| (index, *fault))
    }

    /// Returns the plan without the faults of these indexes.
    pub(crate) fn except(&self, indexes: &BTreeSet<usize>) -> Self {
        let all = self.0.iter().enumerate();
        let rest = all.filter(|(index, _)| !indexes.contains(index));
        Self(rest.map(|(_, one)| one.clone()).collect())
    }
}

/// Prints `check-0/request/7/crash-before`, separated by commas, without the description.
impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (point, fault)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let kind = if point.event { "event" } else { "request" };
            write!(
                f,
                "{comma}{}/{kind}/{}/{}",
                point.agent,
                point.number,
                fault.as_str()
            )?;
        }
        Ok(())
    }
}

/// An error: the text is no plan.
///
/// ```
/// use kueue_check_sim::FaultPlan;
///
/// let error = "check-0/request/seven/409".parse::<FaultPlan>().unwrap_err();
/// assert_eq!(error.to_string(), "`check-0/request/seven/409` is no plan: it looks like `check-0/request/7/crash-before`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no plan: it looks like `check-0/request/7/crash-before`")]
pub struct PlanError(String);

impl FromStr for FaultPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let one = |text: &str| {
            let mut parts = text.split('/');
            let (agent, kind) = (parts.next()?, parts.next()?);
            let (number, fault) = (parts.next()?.parse().ok()?, parts.next()?);
            let point = InjectionPoint {
                agent: agent.to_owned(),
                event: match kind {
                    "event" => true,
                    "request" => false,
                    _ => return None,
                },
                number,
                what: String::new(),
            };
            Some((point, Fault::named(fault)?))
        };
        let faults: Option<Vec<_>> = text.split(',').map(one).collect();
        faults.map(Self).ok_or_else(|| PlanError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_is_printed() {
        for text in [
            "check-0/request/7/crash-before",
            "check-1/event/0/close,check-0/request/2/500",
            "check-0/request/0/stale-list,check-0/event/3/second-leader",
        ] {
            assert_eq!(text.parse::<FaultPlan>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "check-0/request/x/500",
            "check-0/reply/1/500",
            "check-0/request/1/bang",
        ] {
            assert!(text.parse::<FaultPlan>().is_err(), "{text}");
        }
    }
}
