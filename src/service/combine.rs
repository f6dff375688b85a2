//! Combinators: several checks as one.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::api::{AdmissionCheck, PodSetUpdate};
use crate::check::builder::{Calls, call};
use crate::check::settings::{Rule, Settings};
use crate::check::{
    Check, CheckError, CheckRequest, ControllerName, ErrorKind, Inactive, Parameters,
    PodSetUpdates, Preview, PreviewOutcome, ReleaseReason, Reservation, Verdict, VerdictKind,
};

impl<P: Parameters> Check<P> {
    /// Makes a check that is Ready when all its members are: its verdict is the strictest of
    /// theirs. The pod set updates of all are combined.
    ///
    /// ```
    /// # use kueue_check::prelude::*;
    /// # use kueue_check::service::example::request;
    /// # #[admission_check(controller = "example.com/window")] async fn window() -> Verdict { Verdict::ready("inside the window") }
    /// # #[admission_check(controller = "example.com/licence")] async fn licence() -> Verdict { Verdict::pending("waits for 3 licences") }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), CheckError> {
    /// const NAME: ControllerName = ControllerName::from_static("example.com/window-and-licence");
    ///
    /// let check = Check::all_of(NAME, [Check::new(window), Check::new(licence)]);
    /// let verdict = check.evaluate(request("train")).await?;
    /// assert!(verdict.is_pending());
    /// assert_eq!(verdict.message(), "waits for 3 licences", "the reason it is not Ready");
    /// # Ok(()) }
    /// ```
    ///
    /// The result is a check, and so can be a member. The members' own names are not used. All are
    /// activated, and all release. Their settings become those of the whole:
    ///
    /// | setting | of the whole |
    /// | --- | --- |
    /// | [`policy`](Self::policy) | each choice by the first member that makes one |
    /// | [`timeout`](Self::timeout) | the longest; a member without one counts with 30 s |
    /// | [`annotations`](Self::annotations), [`permissions`](Self::permissions), [`namespace_permissions`](Self::namespace_permissions), [`definitions`](Self::definitions), [`watches`](Self::watches), [`background`](Self::background), [`observe`](Self::observe), [`metrics`](Self::metrics) | those of all |
    /// | [`state_change_event`](Self::state_change_event) | the first member's that has one |
    /// | [`on_parameters_unavailable`](Self::on_parameters_unavailable) | the first message; with [`any_of`](Self::any_of) only if each has one |
    /// | [`outlives_reservation`](Self::outlives_reservation) | if all set it |
    /// | [`release_at_eviction`](Self::release_at_eviction) | if all set it |
    /// | [`previewable`](Self::previewable) | if all are |
    /// | [`recheck_in`](Verdict::recheck_in) of a Ready | the earliest; the whole then monitors the running job, and a Retry or Rejected of any member counts towards an eviction |
    pub fn all_of(name: ControllerName, members: impl IntoIterator<Item = Self>) -> Self {
        combined(name, Rule::All, members.into_iter().collect())
    }

    /// Makes a check that is Ready when one of its members is: its verdict is the most lenient of
    /// theirs. The pod set updates are those of the first that is Ready; members before it have 1 s
    /// more from the first that admits. The others are dropped at an `await`, so `release` must find
    /// what they have allocated. While none is Ready, an error of a member that may go away keeps the
    /// state, as it would without the others. A recheck of another member shortens a pause: a system
    /// that must not be asked sooner has a [`CircuitBreakerLayer`](super::CircuitBreakerLayer). For
    /// the rest, see [`all_of`](Self::all_of).
    ///
    /// ```
    /// # use kueue_check::prelude::*;
    /// # use kueue_check::service::example::request;
    /// # #[admission_check(controller = "example.com/night")] async fn night() -> Verdict { Verdict::pending("large jobs start at 22:00") }
    /// # #[admission_check(controller = "example.com/urgent")] async fn urgent() -> Verdict { Verdict::pending("not labelled as urgent") }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), CheckError> {
    /// const NAME: ControllerName = ControllerName::from_static("example.com/night-or-urgent");
    ///
    /// let check = Check::any_of(NAME, [Check::new(night), Check::new(urgent)]);
    /// let verdict = check.evaluate(request("train")).await?;
    /// assert!(verdict.is_pending());
    /// assert_eq!(verdict.message(), "large jobs start at 22:00; not labelled as urgent");
    /// # Ok(()) }
    /// ```
    pub fn any_of(name: ControllerName, members: impl IntoIterator<Item = Self>) -> Self {
        combined(name, Rule::Any, members.into_iter().collect())
    }
}

fn combined<P: Parameters>(name: ControllerName, rule: Rule, members: Vec<Check<P>>) -> Check<P> {
    let settings: Vec<Arc<Settings>> = members
        .iter()
        .map(|member| Arc::clone(&member.settings))
        .collect();
    let members: Arc<[Calls<P>]> = members.into_iter().map(|member| member.calls).collect();
    let each = || Arc::clone(&members);
    // Without `..`: each of the calls is shared out.
    let calls = Calls {
        evaluate: {
            let members = each();
            call(move |request: CheckRequest<P>| {
                let all = members
                    .iter()
                    .map(|member| (member.evaluate)(request.clone()));
                let all = results(rule, all.collect());
                async move { combine(rule, all.await) }
            })
        },
        preview: {
            let members = each();
            call(move |request: CheckRequest<P>| {
                let all = join_all(
                    members
                        .iter()
                        .map(|member| (member.preview)(request.clone())),
                );
                async move { combined_preview(rule, all.await) }
            })
        },
        activate: {
            let members = each();
            call(move |(check, parameters): (AdmissionCheck, Arc<P>)| {
                let members = Arc::clone(&members);
                async move {
                    if members.is_empty() {
                        return Err(Inactive::new(
                            "NoMembers",
                            "the combined check has no members: give it some",
                        ));
                    }
                    for member in members.iter() {
                        (member.activate)((check.clone(), Arc::clone(&parameters))).await?;
                    }
                    Ok(())
                }
            })
        },
        release: {
            let members = each();
            call(move |(reservation, why): (Reservation, ReleaseReason)| {
                let all = members
                    .iter()
                    .map(|member| (member.release)((reservation.clone(), why.clone())));
                let all = join_all(all);
                async move {
                    let outcomes = all.await.into_iter().collect::<Result<Vec<_>, _>>()?;
                    let nothing = crate::check::ReleaseOutcome::nothing();
                    Ok(outcomes
                        .into_iter()
                        .fold(nothing, crate::check::ReleaseOutcome::and))
                }
            })
        },
        unreleased: {
            let members = each();
            call(move |()| {
                let members = Arc::clone(&members);
                async move {
                    let mut all = Vec::new();
                    for member in members.iter() {
                        all.extend((member.unreleased)(()).await?);
                    }
                    all.sort_unstable();
                    all.dedup();
                    Ok(all)
                }
            })
        },
    };
    let mut whole = Check::with_calls(name, calls);
    whole.settings = Arc::new(Settings::merge(rule, &settings));
    whole
}

/// Returns a preview if all members have one.
fn combined_preview(
    rule: Rule,
    previews: Vec<Result<Preview, CheckError>>,
) -> Result<Preview, CheckError> {
    let mut results = Vec::new();
    for preview in previews {
        results.push(match preview.map(|preview| preview.0) {
            Ok(PreviewOutcome::Skipped(why)) => {
                return Ok(Preview::skipped(format!("one of its members: {why}")));
            }
            Ok(PreviewOutcome::Verdict(verdict)) => Ok(verdict),
            Err(error) => Err(error),
        });
    }
    combine(rule, results).map(Preview::of)
}

/// How long a member that admits waits for those that would precede it, under [`Rule::Any`].
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(1);

/// Returns the members' results in their order. Under [`Rule::Any`], those that are no longer
/// needed are canceled, so that a member that hangs does not hold up the others.
async fn results<F>(rule: Rule, members: Vec<F>) -> Vec<Result<Verdict, CheckError>>
where
    F: Future<Output = Result<Verdict, CheckError>>,
{
    if rule == Rule::All {
        return join_all(members).await;
    }
    let mut results: Vec<_> = members.iter().map(|_| None).collect();
    let numbered = |(number, member): (usize, F)| async move { (number, member.await) };
    let mut running: FuturesUnordered<_> = members.into_iter().enumerate().map(numbered).collect();
    // The number of members that are waited for, and until when.
    let mut needed = results.len();
    let mut deadline = None;
    while results[..needed].iter().any(Option::is_none) {
        let next = match deadline {
            None => running.next().await,
            Some(until) => timeout_at(until, running.next()).await.unwrap_or(None),
        };
        let Some((number, result)) = next else {
            break;
        };
        if let Ok(verdict) = &result {
            if verdict.kind == VerdictKind::Ready {
                needed = needed.min(number);
            }
            if verdict.is_ready() {
                deadline.get_or_insert_with(|| Instant::now() + WAIT_FOR_OTHERS);
            }
        }
        results[number] = Some(result);
    }
    results.into_iter().flatten().collect()
}

/// Ranks results from lenient to strict. An error is no verdict, so it cannot lead to Ready under
/// `all_of`, nor to Retry or Rejected under `any_of`. Under `any_of`, one that may go away also
/// keeps the state before those that only wait: with its member's verdict, the whole may be Ready.
/// Of the two that admit, Ready decides: it has the updates.
fn strictness(rule: Rule, result: &Result<Verdict, CheckError>) -> u8 {
    match result {
        Ok(verdict) => match verdict.kind {
            VerdictKind::NotApplicable => u8::from(rule == Rule::Any),
            VerdictKind::Ready => u8::from(rule == Rule::All),
            // It leaves the state as it is, so it does not count as Ready.
            VerdictKind::Unchanged => 4,
            VerdictKind::Pending => 5,
            VerdictKind::PreemptionRequired => 6,
            VerdictKind::Retry { .. } => 11,
            VerdictKind::Rejected => 12,
        },
        Err(error) => match (error.kind(), rule) {
            // Before the other, so that its pause is kept.
            (ErrorKind::Throttled { .. }, Rule::Any) => 2,
            (ErrorKind::Transient, Rule::Any) => 3,
            (ErrorKind::Transient, Rule::All) => 7,
            (ErrorKind::Throttled { .. }, Rule::All) => 8,
            (ErrorKind::Permanent, _) => 9,
            (ErrorKind::Parameters, _) => 10,
        },
    }
}

fn combine(
    rule: Rule,
    mut results: Vec<Result<Verdict, CheckError>>,
) -> Result<Verdict, CheckError> {
    // Stable, so that of equals the first member's counts.
    results.sort_by_key(|result| strictness(rule, result));
    if rule == Rule::All {
        results.reverse();
    }
    let Some(decisive) = results.first().map(|result| strictness(rule, result)) else {
        return Err(CheckError::permanent("the combined check has no members"));
    };
    let same = results
        .iter()
        .take_while(|result| strictness(rule, result) == decisive)
        .count();
    let others = results.split_off(same);
    if rule == Rule::All {
        results.reverse();
    }
    if let Some(Err(error)) = results.first()
        && error.kind().may_go_away()
    {
        let waiting = match rule {
            Rule::Any => &*others,
            Rule::All => &[],
        };
        return Err(with_reasons(results, waiting));
    }
    let mut agreeing = results
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?
        .into_iter();
    let Some(mut verdict) = agreeing.next() else {
        return Err(CheckError::permanent("the combined check has no members"));
    };
    if rule == Rule::Any && verdict.is_ready() {
        // The others cannot change it, and may be canceled. Their rechecks would monitor the job
        // while it runs.
        return Ok(verdict);
    }
    let rest: Vec<Verdict> = agreeing.collect();
    if verdict.is_ready() && rule == Rule::All {
        let lenient = others.into_iter().flatten();
        return ready_together(verdict, rest.into_iter().chain(lenient));
    }
    for other in rest {
        take_rechecks(&mut verdict, &other);
        if let (VerdictKind::Retry { delay }, VerdictKind::Retry { delay: longer }) =
            (&mut verdict.kind, other.kind)
        {
            *delay = (*delay).max(longer);
        }
        verdict.message = join(&verdict, &other);
    }
    // The recheck of any member may change the whole verdict, so the earliest counts.
    for other in others.iter().flatten() {
        take_rechecks(&mut verdict, other);
    }
    Ok(verdict)
}

/// Returns the error that decides, with the longest pause, but not longer than until the recheck of
/// one of the others, and with what those wait for. After a transient error the usual delay counts,
/// up to 5 min.
fn with_reasons(
    errors: Vec<Result<Verdict, CheckError>>,
    others: &[Result<Verdict, CheckError>],
) -> CheckError {
    let recheck = others.iter().flatten().filter_map(|other| other.recheck_in);
    let recheck = recheck.min();
    let errors: Vec<CheckError> = errors.into_iter().filter_map(Result::err).collect();
    let pause = |error: &CheckError| match error.kind() {
        ErrorKind::Throttled { after } => after,
        _ => Duration::ZERO,
    };
    let reasons = others
        .iter()
        .flatten()
        .filter(|verdict| verdict.is_pending())
        .map(|verdict| verdict.message.as_str().to_owned());
    let texts = errors.iter().map(ToString::to_string).chain(reasons);
    let text = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>();
    let text = text.join("; ");
    match errors.iter().map(pause).max() {
        Some(after) if !after.is_zero() => {
            CheckError::throttled(recheck.map_or(after, |recheck| recheck.min(after)), text)
        }
        _ => CheckError::transient(text),
    }
}

fn take_rechecks(verdict: &mut Verdict, other: &Verdict) {
    verdict.recheck_in = earlier(verdict.recheck_in, other.recheck_in);
    verdict.recheck_until_admitted =
        earlier(verdict.recheck_until_admitted, other.recheck_until_admitted);
}

fn ready_together(
    mut verdict: Verdict,
    others: impl Iterator<Item = Verdict>,
) -> Result<Verdict, CheckError> {
    let mut updates: Vec<PodSetUpdate> = verdict.updates.as_slice().to_vec();
    for other in others {
        take_rechecks(&mut verdict, &other);
        verdict.message = join(&verdict, &other);
        for update in other.updates.as_slice() {
            merge(&mut updates, update)?;
        }
    }
    verdict.updates = PodSetUpdates::try_from(updates)?;
    Ok(verdict)
}

/// Merges `update` into that of the same pod set.
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
    let texts = [verdict.message.as_str(), other.message.as_str()];
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    crate::check::Message::new(texts.join("; "))
}

fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    [a, b].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn summary(rule: Rule, results: Vec<Result<Verdict, CheckError>>) -> String {
        match combine(rule, results) {
            Ok(verdict) => format!("{} {}", verdict.kind.as_str(), verdict.message),
            Err(error) => format!("error {error}"),
        }
    }

    type EvaluationResult = Result<Verdict, CheckError>;

    #[expect(clippy::unnecessary_wraps, reason = "one of several results")]
    fn ready(message: &str) -> EvaluationResult {
        Ok(Verdict::ready(message))
    }

    #[expect(clippy::unnecessary_wraps, reason = "one of several results")]
    fn pending(message: &str) -> EvaluationResult {
        Ok(Verdict::pending(message))
    }

    fn down() -> Result<Verdict, CheckError> {
        Err(CheckError::transient("down"))
    }

    #[test]
    fn all_of_returns_the_strictest() {
        let all = |results| summary(Rule::All, results);
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
        let unchanged = || Ok(Verdict::unchanged());
        assert_eq!(all(vec![unchanged(), pending("b")]), "Pending b");
        assert_eq!(all(vec![pending("a"), unchanged()]), "Pending a");
        assert_eq!(all(vec![ready("a"), unchanged()]), "Unchanged ");
        assert_eq!(all(vec![ready("a"), down()]), "error down");
        assert_eq!(all(vec![pending("a"), down()]), "error down");
        assert_eq!(all(vec![]), "error the combined check has no members");
    }

    #[test]
    fn any_of_returns_the_most_lenient() {
        let any = |results| summary(Rule::Any, results);
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
            any(vec![pending("a"), down()]),
            "error down; a",
            "with its verdict, the whole may be Ready"
        );
        assert_eq!(any(vec![Ok(Verdict::unchanged()), down()]), "error down");
        let never = || Err(CheckError::permanent("never"));
        assert_eq!(any(vec![pending("a"), never()]), "Pending a");
        assert_eq!(any(vec![never(), down()]), "error down");
        let busy = |seconds, text: &str| {
            Err(CheckError::throttled(
                Duration::from_secs(seconds),
                text.to_owned(),
            ))
        };
        let throttled = combine(Rule::Any, vec![down(), busy(60, "b"), busy(90, "c")]);
        let after = Duration::from_secs(90);
        let opens = Ok(Verdict::pending("opens").recheck_in(Duration::from_secs(5)));
        let sooner = combine(Rule::Any, vec![busy(60, "b"), opens]).unwrap_err();
        let recheck = Duration::from_secs(5);
        assert_eq!(sooner.kind(), ErrorKind::Throttled { after: recheck });
        let both = combine(Rule::All, vec![busy(60, "b"), busy(90, "c")]).unwrap_err();
        assert_eq!(both.kind(), ErrorKind::Throttled { after });
        assert_eq!(
            throttled.unwrap_err().kind(),
            ErrorKind::Throttled { after },
            "no system is asked within its pause"
        );
        assert_eq!(
            any(vec![Ok(Verdict::rejected("a")), Ok(Verdict::rejected("b"))]),
            "Rejected a; b"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn any_of_does_not_wait_for_a_member_that_hangs() {
        let after = async |seconds: Option<u64>, result: EvaluationResult| match seconds {
            Some(seconds) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                result
            }
            None => std::future::pending().await,
        };
        let hangs = || after(None, pending("a"));
        let exempt = || Ok(Verdict::not_applicable("exempt"));
        for (members, seconds, wanted) in [
            (vec![after(Some(5), ready("b")), hangs()], 5, "Ready b"),
            (vec![hangs(), after(Some(5), ready("b"))], 6, "Ready b"),
            (
                vec![after(Some(5), ready("a")), after(Some(4), ready("b"))],
                5,
                "Ready a",
            ),
            (
                vec![after(Some(4), exempt()), after(Some(5), ready("b"))],
                5,
                "Ready b",
            ),
            (
                vec![after(Some(4), exempt()), hangs()],
                5,
                "NotApplicable exempt",
            ),
        ] {
            let began = Instant::now();
            let all = results(Rule::Any, members).await;
            assert_eq!(summary(Rule::Any, all), wanted);
            assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{wanted}");
        }
    }

    #[test]
    fn the_earliest_recheck_counts() {
        let results = || {
            vec![
                Ok(Verdict::pending("a").recheck_in(5 * MINUTE)),
                Ok(Verdict::ready("b").recheck_in(MINUTE)),
            ]
        };
        assert_eq!(
            combine(Rule::All, results()).unwrap().recheck_in,
            Some(MINUTE)
        );
        assert_eq!(
            combine(Rule::Any, results()).unwrap().recheck_in,
            Some(MINUTE)
        );
        let until = Ok(Verdict::ready("a").recheck_until_admitted(MINUTE));
        let all = combine(Rule::All, vec![until, Ok(Verdict::unchanged())]).unwrap();
        assert_eq!(all.recheck_until_admitted, Some(MINUTE));
        let ready = || Ok(Verdict::ready("a"));
        let waits = || Ok(Verdict::pending("b").recheck_in(MINUTE));
        let any = combine(Rule::Any, vec![ready(), waits()]).unwrap();
        assert_eq!(any.recheck_in, None, "the other one cannot change it");
        let delays = vec![
            Ok(Verdict::retry_after(MINUTE, "a")),
            Ok(Verdict::retry_after(5 * MINUTE, "b")),
        ];
        assert_eq!(
            combine(Rule::All, delays).unwrap().kind,
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
        let exempt = || Ok(Verdict::not_applicable("exempt"));
        for results in [
            vec![exempt(), with("a", "k", "1")],
            vec![with("a", "k", "1"), exempt()],
        ] {
            let ready = combine(Rule::Any, results).unwrap();
            assert_eq!(ready.updates.as_slice().len(), 1);
        }
    }
}
