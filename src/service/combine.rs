//! Combinators: several checks as one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::api::{AdmissionCheck, PodSetUpdate};
use crate::check::{
    AdmissionCheckController, BackgroundContext, CheckError, CheckRequest, ControllerName,
    Inactive, Parameters, ParametersProblem, PodSetUpdates, Preview, PreviewOutcome,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict, VerdictKind, Watches, WorkloadEvent,
};

/// A check that says what the strictest of its members says: Ready when all are. Their pod set updates are put together.
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, RequestBuilder, Verdict, admission_check, api::Workload};
/// # use kueue_check::service::all_of;
/// # #[admission_check(controller = "example.com/window")] async fn window() -> Verdict { Verdict::ready("inside the window") }
/// # #[admission_check(controller = "example.com/licence")] async fn licence() -> Verdict { Verdict::pending("waits for 3 licences") }
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// let check = all_of(ControllerName::from_static("example.com/window-and-licence")).member(window).member(licence);
/// let verdict = check.evaluate(request("train")).await?;
/// assert!(verdict.is_pending());
/// assert_eq!(verdict.message(), "waits for 3 licences", "who is in the way says so");
/// # Ok(()) }
/// ```
pub fn all_of<P: Parameters>(name: ControllerName) -> Combined<P> {
    Combined {
        name,
        rule: Rule::All,
        members: Vec::new(),
    }
}

/// A check that says what the most lenient of its members says: Ready when one is. The pod set updates are those of the first that is.
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, RequestBuilder, Verdict, admission_check, api::Workload};
/// # use kueue_check::service::any_of;
/// # #[admission_check(controller = "example.com/night")] async fn night() -> Verdict { Verdict::pending("large jobs start at 22:00") }
/// # #[admission_check(controller = "example.com/urgent")] async fn urgent() -> Verdict { Verdict::pending("not labelled as urgent") }
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// let check = any_of(ControllerName::from_static("example.com/night-or-urgent")).member(night).member(urgent);
/// let verdict = check.evaluate(request("train")).await?;
/// assert!(verdict.is_pending());
/// assert_eq!(verdict.message(), "large jobs start at 22:00; not labelled as urgent", "any of them would do");
/// # Ok(()) }
/// ```
pub fn any_of<P: Parameters>(name: ControllerName) -> Combined<P> {
    Combined {
        name,
        rule: Rule::Any,
        members: Vec::new(),
    }
}

/// Several checks with the same parameters as one. See [`all_of`] and [`any_of`].
///
/// The members' own names mean nothing. What is released is released by all of them. Their timeouts do not count; the runtime's does, for all together.
///
/// It is a check, and so can be a member:
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, RequestBuilder, Verdict, admission_check, api::Workload};
/// # use kueue_check::service::{Combined, all_of, any_of};
/// # #[admission_check(controller = "example.com/urgent")] async fn urgent() -> Verdict { Verdict::rejected("not labelled as urgent") }
/// # #[admission_check(controller = "example.com/night")] async fn night() -> Verdict { Verdict::ready("it is night") }
/// # #[admission_check(controller = "example.com/cheap")] async fn cheap() -> Verdict { Verdict::ready("power is cheap") }
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// const NAME: ControllerName = ControllerName::from_static("example.com/urgent-or-cheap-night");
///
/// let cheap_night: Combined<NoParameters> = all_of(NAME).member(night).member(cheap);
/// let verdict = any_of(NAME).member(urgent).member(cheap_night).evaluate(request("train")).await?;
/// assert!(verdict.is_ready(), "what one rejects, another may allow");
/// assert_eq!(verdict.message(), "it is night; power is cheap");
/// # Ok(()) }
/// ```
pub struct Combined<P: Parameters> {
    name: ControllerName,
    rule: Rule,
    members: Vec<Box<dyn Member<P>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    All,
    Any,
}

trait Member<P>: Send + Sync {
    fn check(&self, request: CheckRequest<P>) -> BoxFuture<'_, Result<Verdict, CheckError>>;
    fn preview(&self, request: CheckRequest<P>) -> BoxFuture<'_, Result<Preview, CheckError>>;
    fn activate<'a>(
        &'a self,
        check: &'a AdmissionCheck,
        parameters: &'a Arc<P>,
    ) -> BoxFuture<'a, Result<(), Inactive>>;
    fn release<'a>(
        &'a self,
        reservation: &'a Reservation,
        why: ReleaseReason,
    ) -> BoxFuture<'a, Result<ReleaseOutcome, CheckError>>;
    fn outstanding(&self) -> BoxFuture<'_, Result<Vec<Reservation>, CheckError>>;
    fn watches(&self) -> Watches;
    fn observe(&self, seen: WorkloadEvent<'_>);
    fn background(&self, context: BackgroundContext) -> BoxFuture<'_, ()>;
    fn metrics(&self) -> String;
    fn definitions(&self) -> Vec<CustomResourceDefinition>;
    fn annotations(&self) -> Vec<String>;
    fn outlives_reservation(&self) -> bool;
    fn releases_at_eviction(&self) -> bool;
    fn without_parameters(&self, problem: &ParametersProblem<'_>) -> Option<String>;
    fn permissions(&self) -> Vec<PolicyRule>;
    fn namespace_permissions(&self) -> Vec<PolicyRule>;
}

impl<C: AdmissionCheckController> Member<C::Parameters> for C {
    fn check(
        &self,
        request: CheckRequest<C::Parameters>,
    ) -> BoxFuture<'_, Result<Verdict, CheckError>> {
        Box::pin(AdmissionCheckController::evaluate(self, request))
    }

    fn preview(
        &self,
        request: CheckRequest<C::Parameters>,
    ) -> BoxFuture<'_, Result<Preview, CheckError>> {
        Box::pin(AdmissionCheckController::preview(self, request))
    }

    fn activate<'a>(
        &'a self,
        check: &'a AdmissionCheck,
        parameters: &'a Arc<C::Parameters>,
    ) -> BoxFuture<'a, Result<(), Inactive>> {
        Box::pin(AdmissionCheckController::activate(self, check, parameters))
    }

    fn release<'a>(
        &'a self,
        reservation: &'a Reservation,
        why: ReleaseReason,
    ) -> BoxFuture<'a, Result<ReleaseOutcome, CheckError>> {
        Box::pin(AdmissionCheckController::release(self, reservation, why))
    }

    fn outstanding(&self) -> BoxFuture<'_, Result<Vec<Reservation>, CheckError>> {
        Box::pin(AdmissionCheckController::unreleased_reservations(self))
    }

    fn watches(&self) -> Watches {
        AdmissionCheckController::watches(self)
    }

    fn observe(&self, seen: WorkloadEvent<'_>) {
        AdmissionCheckController::observe(self, seen);
    }

    fn background(&self, context: BackgroundContext) -> BoxFuture<'_, ()> {
        Box::pin(AdmissionCheckController::background(self, context))
    }

    fn metrics(&self) -> String {
        AdmissionCheckController::metrics(self)
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        AdmissionCheckController::definitions(self)
    }

    fn annotations(&self) -> Vec<String> {
        AdmissionCheckController::annotations(self)
    }

    fn outlives_reservation(&self) -> bool {
        AdmissionCheckController::outlives_reservation(self)
    }

    fn releases_at_eviction(&self) -> bool {
        AdmissionCheckController::releases_at_eviction(self)
    }

    fn without_parameters(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        AdmissionCheckController::on_parameters_unavailable(self, problem)
    }

    fn permissions(&self) -> Vec<PolicyRule> {
        AdmissionCheckController::permissions(self)
    }

    fn namespace_permissions(&self) -> Vec<PolicyRule> {
        AdmissionCheckController::namespace_permissions(self)
    }
}

impl<P: Parameters> Combined<P> {
    /// Adds a member.
    #[must_use]
    pub fn member(mut self, check: impl AdmissionCheckController<Parameters = P>) -> Self {
        self.members.push(Box::new(check));
        self
    }
}

impl<P: Parameters> AdmissionCheckController for Combined<P> {
    type Parameters = P;

    fn controller_name(&self) -> ControllerName {
        self.name.clone()
    }

    async fn evaluate(&self, request: CheckRequest<P>) -> Result<Verdict, CheckError> {
        let answers = join_all(
            self.members
                .iter()
                .map(|member| member.check(request.clone())),
        )
        .await;
        combine(self.rule, answers)
    }

    /// If all members can be asked.
    async fn preview(&self, request: CheckRequest<P>) -> Result<Preview, CheckError> {
        let previews = self
            .members
            .iter()
            .map(|member| member.preview(request.clone()));
        let mut answers = Vec::new();
        for preview in join_all(previews).await {
            answers.push(match preview.map(|preview| preview.0) {
                Ok(PreviewOutcome::Skipped(why)) => {
                    return Ok(Preview::skipped(format!("one of its members: {why}")));
                }
                Ok(PreviewOutcome::Verdict(verdict)) => Ok(verdict),
                Err(error) => Err(error),
            });
        }
        combine(self.rule, answers).map(Preview::of)
    }

    async fn activate(&self, check: &AdmissionCheck, parameters: &Arc<P>) -> Result<(), Inactive> {
        if self.members.is_empty() {
            return Err(Inactive::new(
                "NoMembers",
                "the combined check has no members: add some with `member`",
            ));
        }
        for member in &self.members {
            member.activate(check, parameters).await?;
        }
        Ok(())
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        let mut released = ReleaseOutcome::NeverAllocates;
        for answer in join_all(
            self.members
                .iter()
                .map(|member| member.release(reservation, why.clone())),
        )
        .await
        {
            released = match (released, answer?) {
                (ReleaseOutcome::RetryAfter(a), ReleaseOutcome::RetryAfter(b)) => {
                    ReleaseOutcome::RetryAfter(a.max(b))
                }
                (ReleaseOutcome::RetryAfter(delay), _) | (_, ReleaseOutcome::RetryAfter(delay)) => {
                    ReleaseOutcome::RetryAfter(delay)
                }
                (ReleaseOutcome::Done, _) | (_, ReleaseOutcome::Done) => ReleaseOutcome::Done,
                (ReleaseOutcome::NeverAllocates, ReleaseOutcome::NeverAllocates) => {
                    ReleaseOutcome::NeverAllocates
                }
            };
        }
        Ok(released)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        let mut all = Vec::new();
        for member in &self.members {
            all.extend(member.outstanding().await?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    fn watches(&self) -> Watches {
        Watches(
            self.members
                .iter()
                .flat_map(|member| member.watches().0)
                .collect(),
        )
    }

    fn observe(&self, seen: WorkloadEvent<'_>) {
        for member in &self.members {
            member.observe(seen);
        }
    }

    async fn background(&self, context: BackgroundContext) {
        join_all(
            self.members
                .iter()
                .map(|member| member.background(context.clone())),
        )
        .await;
    }

    fn metrics(&self) -> String {
        self.members.iter().map(|member| member.metrics()).collect()
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        self.members
            .iter()
            .flat_map(|member| member.definitions())
            .collect()
    }

    fn annotations(&self) -> Vec<String> {
        self.members
            .iter()
            .flat_map(|member| member.annotations())
            .collect()
    }

    /// All of them go on only if each does; of any, one is enough.
    fn on_parameters_unavailable(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        let members = self.members.iter();
        let mut said = members.map(|member| member.without_parameters(problem));
        match self.rule {
            Rule::All => said.find_map(std::convert::identity),
            Rule::Any => said.reduce(Option::and).flatten(),
        }
    }

    fn outlives_reservation(&self) -> bool {
        self.members
            .iter()
            .all(|member| member.outlives_reservation())
    }

    fn releases_at_eviction(&self) -> bool {
        self.members
            .iter()
            .all(|member| member.releases_at_eviction())
    }

    fn permissions(&self) -> Vec<PolicyRule> {
        self.members
            .iter()
            .flat_map(|member| member.permissions())
            .collect()
    }

    fn namespace_permissions(&self) -> Vec<PolicyRule> {
        self.members
            .iter()
            .flat_map(|member| member.namespace_permissions())
            .collect()
    }
}

/// From lenient to strict. An error is no verdict: it stands between those that leave the state alone and those that change it, so that no Ready comes of it
/// under `all_of`, and no Retry or Rejected under `any_of`.
fn strictness(answer: &Result<Verdict, CheckError>) -> u8 {
    match answer {
        Ok(verdict) => match verdict.answer {
            VerdictKind::NotApplicable => 0,
            VerdictKind::Ready => 1,
            // It says only that what stands there may stay, which is no consent.
            VerdictKind::Pending | VerdictKind::Unchanged => 2,
            VerdictKind::PreemptionRequired => 3,
            VerdictKind::Retry { .. } => 5,
            VerdictKind::Rejected => 6,
        },
        Err(_) => 4,
    }
}

fn combine(
    rule: Rule,
    mut answers: Vec<Result<Verdict, CheckError>>,
) -> Result<Verdict, CheckError> {
    // Stable, so that of equals the first member's counts.
    answers.sort_by_key(strictness);
    if rule == Rule::All {
        answers.reverse();
    }
    let Some(decisive) = answers.first().map(strictness) else {
        return Err(CheckError::permanent("the combined check has no members"));
    };
    let same = answers
        .iter()
        .take_while(|answer| strictness(answer) == decisive)
        .count();
    let others = answers.split_off(same);
    if rule == Rule::All {
        answers.reverse();
    }
    let mut agreeing = answers
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?
        .into_iter();
    let Some(mut verdict) = agreeing.next() else {
        return Err(CheckError::permanent("the combined check has no members"));
    };
    let rest: Vec<Verdict> = agreeing.collect();
    if verdict.is_ready() && rule == Rule::All {
        let lenient = others.into_iter().flatten();
        return ready_together(verdict, rest.into_iter().chain(lenient));
    }
    for other in rest {
        verdict.recheck_in = earlier(verdict.recheck_in, other.recheck_in);
        if let (VerdictKind::Retry { delay }, VerdictKind::Retry { delay: longer }) =
            (&mut verdict.answer, other.answer)
        {
            *delay = (*delay).max(longer);
        }
        verdict.message = join(&verdict, &other);
    }
    // Whoever is to be asked again soonest may change the whole.
    let soonest = others
        .iter()
        .flatten()
        .filter_map(|other| other.recheck_in)
        .min();
    verdict.recheck_in = earlier(verdict.recheck_in, soonest);
    Ok(verdict)
}

fn ready_together(
    mut verdict: Verdict,
    others: impl Iterator<Item = Verdict>,
) -> Result<Verdict, CheckError> {
    let mut updates: Vec<PodSetUpdate> = verdict.updates.as_slice().to_vec();
    for other in others {
        verdict.recheck_in = earlier(verdict.recheck_in, other.recheck_in);
        verdict.message = join(&verdict, &other);
        for update in other.updates.as_slice() {
            merge(&mut updates, update)?;
        }
    }
    verdict.updates = PodSetUpdates::try_from(updates)?;
    Ok(verdict)
}

/// Puts `update` together with that of the same pod set.
fn merge(updates: &mut Vec<PodSetUpdate>, update: &PodSetUpdate) -> Result<(), CheckError> {
    let Some(known) = updates.iter_mut().find(|known| known.name == update.name) else {
        updates.push(update.clone());
        return Ok(());
    };
    for (kind, key, value) in update.keys() {
        let clash = known
            .keys()
            .find(|(other, name, set)| *other == kind && *name == key && *set != value)
            .map(|(_, _, set)| set.to_owned());
        if let Some(set) = clash {
            let place = kind.as_str();
            return Err(CheckError::permanent(format!(
                "two members set {place} `{key}` of pod set `{}` to `{set}` and `{value}`",
                update.name
            )));
        }
    }
    known.labels.extend(update.labels.clone());
    known.annotations.extend(update.annotations.clone());
    known.node_selector.extend(update.node_selector.clone());
    let new = update
        .tolerations
        .iter()
        .filter(|toleration| !known.tolerations.contains(toleration))
        .cloned()
        .collect::<Vec<_>>();
    known.tolerations.extend(new);
    Ok(())
}

fn join(verdict: &Verdict, other: &Verdict) -> crate::check::Message {
    crate::check::Message::new(format!("{}; {}", verdict.message, other.message))
}

fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    [a, b].into_iter().flatten().min()
}

impl<P: Parameters> fmt::Debug for Combined<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combined")
            .field("name", &self.name)
            .field("rule", &self.rule)
            .field("members", &self.members.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn word(rule: Rule, answers: Vec<Result<Verdict, CheckError>>) -> String {
        match combine(rule, answers) {
            Ok(verdict) => format!("{} {}", verdict.answer.as_str(), verdict.message),
            Err(error) => format!("error {error}"),
        }
    }

    type Said = Result<Verdict, CheckError>;

    #[expect(clippy::unnecessary_wraps, reason = "one of several answers")]
    fn ready(message: &str) -> Said {
        Ok(Verdict::ready(message))
    }

    #[expect(clippy::unnecessary_wraps, reason = "one of several answers")]
    fn pending(message: &str) -> Said {
        Ok(Verdict::pending(message))
    }

    fn down() -> Result<Verdict, CheckError> {
        Err(CheckError::transient("down"))
    }

    #[test]
    fn all_of_says_what_the_strictest_says() {
        let all = |answers| word(Rule::All, answers);
        assert_eq!(all(vec![ready("a"), ready("b")]), "Ready a; b");
        assert_eq!(
            all(vec![ready("a"), Ok(Verdict::not_applicable("b"))]),
            "Ready a; b"
        );
        assert_eq!(
            all(vec![ready("a"), pending("b"), pending("c")]),
            "Pending b; c"
        );
        assert_eq!(
            all(vec![pending("a"), Ok(Verdict::retry_now("b"))]),
            "Retry b"
        );
        assert_eq!(
            all(vec![
                Ok(Verdict::rejected("a")),
                Ok(Verdict::retry_now("b")),
                down()
            ]),
            "Rejected a"
        );
        assert_eq!(all(vec![ready("a"), down()]), "error down");
        assert_eq!(all(vec![pending("a"), down()]), "error down");
        assert_eq!(all(vec![]), "error the combined check has no members");
    }

    #[test]
    fn any_of_says_what_the_most_lenient_says() {
        let any = |answers| word(Rule::Any, answers);
        assert_eq!(
            any(vec![pending("a"), ready("b"), Ok(Verdict::rejected("c"))]),
            "Ready b"
        );
        assert_eq!(
            any(vec![Ok(Verdict::rejected("a")), pending("b")]),
            "Pending b"
        );
        assert_eq!(
            any(vec![Ok(Verdict::rejected("a")), down()]),
            "error down",
            "an outage never rejects"
        );
        assert_eq!(any(vec![ready("a"), down()]), "Ready a");
        assert_eq!(
            any(vec![Ok(Verdict::rejected("a")), Ok(Verdict::rejected("b"))]),
            "Rejected a; b"
        );
    }

    /// A check that goes on without parameters, or gives up with these words.
    struct Needs(Option<&'static str>);

    impl AdmissionCheckController for Needs {
        type Parameters = crate::check::NoParameters;

        fn controller_name(&self) -> ControllerName {
            ControllerName::from_static("example.com/needs")
        }

        async fn evaluate(&self, _: CheckRequest<Self::Parameters>) -> Said {
            ready("")
        }

        fn on_parameters_unavailable(&self, _: &ParametersProblem<'_>) -> Option<String> {
            self.0.map(str::to_owned)
        }
    }

    #[test]
    fn all_go_on_without_parameters_only_if_each_does_and_any_if_one_does() {
        // (members, what all say, what any say)
        type Said = Option<&'static str>;
        let table: [(&[Said], Said, Said); 4] = [
            (&[], None, None),
            (&[None, None], None, None),
            (&[None, Some("no rules")], Some("no rules"), None),
            (
                &[Some("no rules"), Some("no limits")],
                Some("no rules"),
                Some("no limits"),
            ),
        ];
        let problem = ParametersProblem::new("ParametersNotFound", "");
        for (members, all, any) in table {
            let name = ControllerName::from_static("example.com/combined");
            for (combined, said) in [(all_of(name.clone()), all), (any_of(name), any)] {
                let whole = members.iter();
                let whole = whole.fold(combined, |whole, words| whole.member(Needs(*words)));
                let told = AdmissionCheckController::on_parameters_unavailable(&whole, &problem);
                assert_eq!(told.as_deref(), said);
            }
        }
    }

    #[test]
    fn whoever_is_to_be_asked_soonest_counts() {
        let answers = || {
            vec![
                Ok(Verdict::pending("a").recheck_in(5 * MINUTE)),
                Ok(Verdict::ready("b").recheck_in(MINUTE)),
            ]
        };
        assert_eq!(
            combine(Rule::All, answers()).unwrap().recheck_in,
            Some(MINUTE)
        );
        assert_eq!(
            combine(Rule::Any, answers()).unwrap().recheck_in,
            Some(MINUTE)
        );
        let delays = vec![
            Ok(Verdict::retry_after(MINUTE, "a")),
            Ok(Verdict::retry_after(5 * MINUTE, "b")),
        ];
        assert_eq!(
            combine(Rule::All, delays).unwrap().answer,
            VerdictKind::Retry { delay: 5 * MINUTE }
        );
    }

    #[test]
    fn updates_are_put_together_unless_they_contradict() {
        let with = |pod_set: &str, key: &str, value: &str| {
            let updates = PodSetUpdates::builder()
                .pod_set(pod_set, |pods| pods.label(key, value))
                .build()
                .unwrap();
            Ok(Verdict::ready("x").with_updates(updates))
        };
        let together = combine(
            Rule::All,
            vec![
                with("a", "k", "1"),
                with("a", "l", "2"),
                with("b", "k", "3"),
            ],
        )
        .unwrap();
        let names: Vec<_> = together
            .updates
            .as_slice()
            .iter()
            .map(|update| (update.name.as_str(), update.labels.len()))
            .collect();
        assert_eq!(names, [("a", 2), ("b", 1)]);
        let error = combine(Rule::All, vec![with("a", "k", "1"), with("a", "k", "2")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "two members set label `k` of pod set `a` to `1` and `2`"
        );
        let first = combine(Rule::Any, vec![with("a", "k", "1"), with("a", "k", "2")]).unwrap();
        assert_eq!(first.updates.as_slice()[0].labels["k"], "1");
    }
}
