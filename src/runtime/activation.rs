//! The condition `Active` and the resolved parameters of an AdmissionCheck. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::evaluate::panic_message;
use super::informers::{Failure, Revision, StoredParameters};
use super::writer::ConditionPatch;
use crate::api::{AFTER_ADMISSION, AdmissionCheck, ParametersReference, StatusCondition};
use crate::check::{
    DecodedParameters, Message, NoParameters, ParametersKind, ParametersType, with_article,
};

/// The cached objects of one kind of parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParametersStore {
    objects: BTreeMap<String, StoredParameters>,
    /// The objects of a list that is not complete yet.
    listing: Option<BTreeMap<String, StoredParameters>>,
    synced: bool,
    failure: Option<Failure>,
}

impl ParametersStore {
    /// Applies an event.
    pub(crate) fn apply(&mut self, event: kube::runtime::watcher::Event<StoredParameters>) {
        use kube::runtime::watcher::Event;
        match event {
            Event::Apply(object) => {
                self.objects.insert(object.name.clone(), object);
                self.failure = None;
            }
            Event::Delete(object) => {
                self.objects.remove(&object.name);
                self.failure = None;
            }
            Event::Init => self.listing = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                self.listing
                    .get_or_insert_default()
                    .insert(object.name.clone(), object);
            }
            Event::InitDone => {
                self.objects = self.listing.take().unwrap_or_default();
                self.synced = true;
                self.failure = None;
            }
        }
    }

    /// Records that the kind is not served or its list is forbidden (404 or 403).
    pub(crate) fn failed(&mut self, failure: Failure) {
        self.failure = Some(failure);
    }
}

/// The located parameters of an AdmissionCheck.
pub(crate) enum Located<'a> {
    /// They exist, in this state; `None` for a check that takes none.
    Found(Option<&'a StoredParameters>, Revision),
    /// They are missing or cannot be used, and a person has to correct that.
    Invalid {
        /// The reason of the condition.
        reason: &'static str,
        /// The problem, and what to do about it.
        message: Message,
    },
    /// Not determined yet.
    Unknown,
}

/// Locates the parameters of `check`, whose controller expects the type `parameters`. Other checks
/// of that controller name take the kinds `others`.
pub(crate) fn locate<'a>(
    check: &AdmissionCheck,
    parameters: &ParametersType,
    others: &[ParametersKind],
    store: Option<&'a ParametersStore>,
) -> Located<'a> {
    let bad = |reason, message: String| Located::Invalid {
        reason,
        message: message.into(),
    };
    let (kind, reference) = match (&parameters.kind, check.parameters()) {
        (None, None) => return Located::Found(None, Revision::default()),
        (None, Some(reference)) => {
            let given = format!("{} `{}`", reference.kind, reference.name);
            let todo = if others.is_empty() {
                "takes no parameters: remove the reference".to_owned()
            } else {
                format!("takes {} or none", described(others))
            };
            return bad(
                "UnexpectedParameters",
                format!("spec.parameters refers to {given}, but this check {todo}"),
            );
        }
        (Some(kind), None) => {
            let all = [kind].into_iter().chain(others);
            return bad(
                "ParametersMissing",
                format!(
                    "spec.parameters is not set: it must refer to {}",
                    described(all)
                ),
            );
        }
        (Some(kind), Some(reference)) => (kind, reference),
    };
    if let Some(message) = wrong_kind(kind, others, reference) {
        return bad("ParametersKindMismatch", message);
    }
    let Some(store) = store else {
        return Located::Unknown;
    };
    if let Some(failure) = &store.failure {
        return unreadable(kind, failure);
    }
    if !store.synced {
        return Located::Unknown;
    }
    match store.objects.get(&reference.name) {
        Some(stored) => Located::Found(Some(stored), stored.revision.clone()),
        None => bad(
            "ParametersNotFound",
            format!(
                "there is no {} (group {}) `{}`: create it",
                kind.kind, kind.group, reference.name
            ),
        ),
    }
}

/// Decodes located parameters, and returns them with their generation. This runs code of the check
/// author, whose panic is an error like any other.
pub(crate) fn decode(
    parameters: &ParametersType,
    stored: Option<&StoredParameters>,
) -> Result<(DecodedParameters, i64), Message> {
    let Some(stored) = stored else {
        let value = std::sync::Arc::new(NoParameters);
        return Ok((
            DecodedParameters {
                value,
                policy: None,
            },
            0,
        ));
    };
    let kind = parameters.kind.as_ref().map_or("", |kind| &kind.kind);
    let object = stored.object.clone();
    let read = std::panic::catch_unwind(|| (parameters.read)(object)).unwrap_or_else(|panic| {
        Err(format!(
            "the check's code panicked: {}",
            panic_message(&*panic)
        ))
    });
    match read {
        Ok(read) => Ok((read, stored.generation)),
        Err(problem) => Err(format!("{kind} `{}` is invalid: {problem}", stored.name).into()),
    }
}

/// Returns the kinds with articles, of which one is required.
fn described<'k>(kinds: impl IntoIterator<Item = &'k ParametersKind>) -> String {
    let kinds = kinds.into_iter();
    let kinds = kinds.map(|kind| format!("{} (group {})", with_article(&kind.kind), kind.group));
    kinds.collect::<Vec<_>>().join(" or ")
}

fn wrong_kind(
    kind: &ParametersKind,
    others: &[ParametersKind],
    reference: &ParametersReference,
) -> Option<String> {
    if reference.name.is_empty() {
        return Some(format!(
            "spec.parameters.name is empty: it must name {}",
            described([kind])
        ));
    }
    let all = [kind].into_iter().chain(others);
    (reference.kind != kind.kind || reference.group != kind.group).then(|| {
        format!(
            "spec.parameters refers to {} (group {}), but this check takes {}",
            with_article(&reference.kind),
            reference.group,
            described(all)
        )
    })
}

/// Returns the problem of a kind that cannot be watched.
fn unreadable(kind: &ParametersKind, failure: &Failure) -> Located<'static> {
    let resource = format!("{}.{}", kind.plural, kind.group);
    let (reason, what) = if failure.code == 404 {
        let what = format!(
            "the API server does not serve {resource}: install the definition (the check's command `crds` prints it)"
        );
        ("ParametersKindNotServed", what)
    } else {
        let what = format!(
            "the check may not list {resource}: apply its ClusterRole (the check's command `manifests` prints it)"
        );
        ("ParametersForbidden", what)
    };
    Located::Invalid {
        reason,
        message: what.into(),
    }
}

/// Returns the condition `Active` as of `generation`. An active check may have a further message;
/// any other has a problem.
pub(crate) fn active(
    check: &AdmissionCheck,
    result: Result<Option<&Message>, (&str, &Message)>,
    generation: i64,
    now: Timestamp,
) -> ConditionPatch {
    let (status, reason, message) = match result {
        Ok(more) => {
            let mut message = "The admission check is active".to_owned();
            if let Some(more) = more {
                message = format!("{message}: {}", more.as_str());
            }
            ("True", "Active", Message::new(message))
        }
        Err((reason, message)) => ("False", reason, message.clone()),
    };
    ConditionPatch {
        kind: "Active",
        status,
        reason: reason.to_owned(),
        message: message.as_str().to_owned(),
        since: since(check.active.as_ref(), status, now),
        observed_generation: generation,
    }
}

/// Returns the condition `AfterAdmission`, the record for the next leader.
pub(crate) fn after_admission(
    check: &AdmissionCheck,
    message: String,
    now: Timestamp,
) -> ConditionPatch {
    ConditionPatch {
        kind: AFTER_ADMISSION,
        status: "True",
        reason: "Recorded".to_owned(),
        message,
        since: since(check.after_admission.as_ref(), "True", now),
        observed_generation: check.generation(),
    }
}

/// Returns the time at which a condition got its status.
fn since(condition: Option<&StatusCondition>, status: &str, now: Timestamp) -> Timestamp {
    condition
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.since)
        .unwrap_or(now)
}

impl ConditionPatch {
    /// Returns true if `condition` has the same content.
    pub(crate) fn is(&self, condition: Option<&StatusCondition>) -> bool {
        condition.is_some_and(|condition| {
            condition.status == self.status
                && condition.reason == self.reason
                && condition.message == self.message
                && condition.observed_generation == Some(self.observed_generation)
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::api::AdmissionCheckObject;
    use crate::check::samples::kind;
    use crate::check::{Parameters, Policy};

    struct Window {
        policy: Policy,
    }

    impl Parameters for Window {
        fn kind() -> Option<ParametersKind> {
            Some(kind("Window"))
        }

        fn decode(object: serde_json::Value) -> Result<Self, String> {
            let spec = object.get("spec").ok_or("missing field `spec`")?;
            Ok(Self {
                policy: serde_json::from_value(spec.clone()).map_err(|error| error.to_string())?,
            })
        }

        fn validate(&self) -> Result<(), String> {
            if self.policy.on_error_after.is_some() {
                Ok(())
            } else {
                Err("`onErrorAfter` is needed".to_owned())
            }
        }

        fn policy(&self) -> Option<&Policy> {
            Some(&self.policy)
        }
    }

    fn check(parameters: serde_json::Value, conditions: serde_json::Value) -> AdmissionCheck {
        let object: AdmissionCheckObject = serde_json::from_value(json!({
            "metadata": {"name": "c", "uid": "u", "resourceVersion": "1", "generation": 4},
            "spec": {"controllerName": "example.com/window", "parameters": parameters},
            "status": {"conditions": conditions},
        }))
        .unwrap();
        object.into()
    }

    fn reference(group: &str, kind: &str, name: &str) -> serde_json::Value {
        json!({"apiGroup": group, "kind": kind, "name": name})
    }

    fn stored(name: &str, spec: serde_json::Value) -> StoredParameters {
        StoredParameters {
            name: name.to_owned(),
            revision: Revision::default(),
            generation: 2,
            object: json!({"spec": spec}),
        }
    }

    fn store() -> ParametersStore {
        let mut store = ParametersStore::default();
        store.apply(Event::Init);
        store.apply(Event::InitApply(stored(
            "good",
            json!({"onErrorAfter": "1m"}),
        )));
        store.apply(Event::InitApply(stored("invalid", json!({}))));
        store.apply(Event::InitApply(stored(
            "garbage",
            json!({"onErrorAfter": 7}),
        )));
        store.apply(Event::InitDone);
        store
    }

    /// Returns the reason, `Good` or `Unknown`; and the message.
    fn outcome(
        check: &AdmissionCheck,
        parameters: &ParametersType,
        store: Option<&ParametersStore>,
    ) -> (String, String) {
        match locate(check, parameters, &[], store) {
            Located::Found(stored, _) => match decode(parameters, stored) {
                Ok((_, generation)) => ("Good".to_owned(), generation.to_string()),
                Err(problem) => ("ParametersInvalid".to_owned(), problem.to_string()),
            },
            Located::Invalid { reason, message } => (reason.to_owned(), message.to_string()),
            Located::Unknown => ("Unknown".to_owned(), String::new()),
        }
    }

    #[test]
    fn each_problem_has_a_reason_and_a_message_with_what_to_do() {
        let window = ParametersType::of::<Window>();
        let store = store();
        for (parameters, reason, message) in [
            (reference("example.com", "Window", "good"), "Good", "2"),
            (
                json!(null),
                "ParametersMissing",
                "spec.parameters is not set: it must refer to a Window (group example.com)",
            ),
            (
                reference("example.com", "Window", ""),
                "ParametersKindMismatch",
                "spec.parameters.name is empty: it must name a Window (group example.com)",
            ),
            (
                reference("example.com", "Door", "good"),
                "ParametersKindMismatch",
                "spec.parameters refers to a Door (group example.com), but this check takes a Window (group example.com)",
            ),
            (
                reference("other.com", "Window", "good"),
                "ParametersKindMismatch",
                "spec.parameters refers to a Window (group other.com), but this check takes a Window (group example.com)",
            ),
            (
                reference("example.com", "Window", "gone"),
                "ParametersNotFound",
                "there is no Window (group example.com) `gone`: create it",
            ),
            (
                reference("example.com", "Window", "invalid"),
                "ParametersInvalid",
                "Window `invalid` is invalid: `onErrorAfter` is needed",
            ),
        ] {
            assert_eq!(
                outcome(&check(parameters, json!([])), &window, Some(&store)),
                (reason.to_owned(), message.to_owned())
            );
        }
        let garbage = outcome(
            &check(reference("example.com", "Window", "garbage"), json!([])),
            &window,
            Some(&store),
        );
        assert!(
            garbage.0 == "ParametersInvalid" && garbage.1.contains("invalid type: integer `7`"),
            "{garbage:?}"
        );
    }

    #[test]
    fn a_check_without_parameters_takes_none() {
        let none = ParametersType::of::<NoParameters>();
        assert_eq!(
            outcome(&check(json!(null), json!([])), &none, None).0,
            "Good"
        );
        let (reason, message) = outcome(
            &check(reference("example.com", "Window", "w"), json!([])),
            &none,
            None,
        );
        assert_eq!(reason, "UnexpectedParameters");
        assert_eq!(
            message,
            "spec.parameters refers to Window `w`, but this check takes no parameters: remove the reference"
        );
    }

    #[test]
    fn the_kinds_of_all_checks_of_the_name_are_reported() {
        let (window, none) = (
            ParametersType::of::<Window>(),
            ParametersType::of::<NoParameters>(),
        );
        let door = reference("example.com", "Door", "d");
        for (parameters, others, given, expected) in [
            (
                &window,
                vec![kind("Gate")],
                door.clone(),
                "spec.parameters refers to a Door (group example.com), but this check takes a Window (group example.com) or a Gate (group example.com)",
            ),
            (
                &window,
                vec![kind("Gate")],
                json!(null),
                "spec.parameters is not set: it must refer to a Window (group example.com) or a Gate (group example.com)",
            ),
            (
                &window,
                vec![kind("Approval"), kind("User")],
                reference("example.com", "Entry", "e"),
                "spec.parameters refers to an Entry (group example.com), but this check takes a Window (group example.com) or an Approval (group example.com) or a User (group example.com)",
            ),
            (
                &none,
                vec![kind("Gate"), kind("Window")],
                door,
                "spec.parameters refers to Door `d`, but this check takes a Gate (group example.com) or a Window (group example.com) or none",
            ),
        ] {
            let check = check(given, json!([]));
            let Located::Invalid { message, .. } = locate(&check, parameters, &others, None) else {
                panic!("nothing takes it: {expected}");
            };
            assert_eq!(message.to_string(), expected);
        }
    }

    #[test]
    fn nothing_is_reported_before_the_objects_are_listed() {
        let (window, wanted) = (
            ParametersType::of::<Window>(),
            check(reference("example.com", "Window", "good"), json!([])),
        );
        assert_eq!(outcome(&wanted, &window, None).0, "Unknown");
        let mut store = ParametersStore::default();
        store.apply(Event::Init);
        assert_eq!(outcome(&wanted, &window, Some(&store)).0, "Unknown");
        for (code, reason) in [
            (404, "ParametersKindNotServed"),
            (403, "ParametersForbidden"),
        ] {
            store.failed(Failure {
                code,
                message: String::new(),
                lists: true,
            });
            assert_eq!(outcome(&wanted, &window, Some(&store)).0, reason);
        }
        store.apply(Event::InitDone);
        assert_eq!(
            outcome(&wanted, &window, Some(&store)).0,
            "ParametersNotFound"
        );
    }

    #[test]
    fn what_vanished_while_the_watch_was_down_is_gone() {
        let (window, mut store) = (ParametersType::of::<Window>(), store());
        let wanted = check(reference("example.com", "Window", "good"), json!([]));
        store.apply(Event::Init);
        assert_eq!(
            outcome(&wanted, &window, Some(&store)).0,
            "Good",
            "while it is being read again"
        );
        store.apply(Event::InitDone);
        assert_eq!(
            outcome(&wanted, &window, Some(&store)).0,
            "ParametersNotFound"
        );
    }

    #[test]
    fn the_condition_is_written_when_it_differs_and_its_time_changes_with_the_status() {
        let now = "2026-11-21T09:00:00Z".parse().unwrap();
        let is = |status: &str, reason: &str, message: &str, generation: i64| {
            check(
                json!(null),
                json!([{"type": "Active", "status": status, "reason": reason, "message": message, "observedGeneration": generation,
                        "lastTransitionTime": "2026-11-20T00:00:00Z"}]),
            )
        };
        let ok = "The admission check is active";
        let message = Message::new("gone");
        let gone = Err(("ParametersNotFound", &message));
        let more = Message::new("2 seats are lent");
        let extended = "The admission check is active: 2 seats are lent";
        let before = "2026-11-20T00:00:00Z".parse().unwrap();
        for (check, result, same, status, since) in [
            (is("True", "Active", ok, 4), Ok(None), true, "True", before),
            (check(json!(null), json!([])), Ok(None), false, "True", now),
            (is("True", "Active", ok, 3), Ok(None), false, "True", before),
            (
                is("True", "Active", ok, 4),
                Ok(Some(&more)),
                false,
                "True",
                before,
            ),
            (
                is("True", "Active", extended, 4),
                Ok(Some(&more)),
                true,
                "True",
                before,
            ),
            (is("True", "Active", ok, 4), gone, false, "False", now),
            (
                is("False", "ParametersNotFound", "x", 4),
                gone,
                false,
                "False",
                before,
            ),
        ] {
            let patch = active(&check, result, 4, now);
            let found = (patch.is(check.active.as_ref()), patch.status, patch.since);
            assert_eq!(found, (same, status, since), "{check:?}");
            assert_eq!(patch.observed_generation, 4);
        }
    }

    #[test]
    fn a_panic_while_parameters_are_read_is_a_problem_of_these_parameters() {
        struct Careless;
        impl Parameters for Careless {
            fn kind() -> Option<ParametersKind> {
                Window::kind()
            }
            fn decode(_: serde_json::Value) -> Result<Self, String> {
                Ok(Self)
            }
            fn validate(&self) -> Result<(), String> {
                panic!("no such zone")
            }
        }
        let wanted = check(reference("example.com", "Window", "good"), json!([]));
        let (reason, message) = outcome(&wanted, &ParametersType::of::<Careless>(), Some(&store()));
        assert_eq!(reason, "ParametersInvalid");
        assert_eq!(
            message,
            "Window `good` is invalid: the check's code panicked: no such zone"
        );
    }
}
