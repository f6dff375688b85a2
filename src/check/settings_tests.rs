use std::sync::Mutex;

use tower::layer::layer_fn;

use super::*;
use crate::api::{AdmissionCheck, CheckState};
use crate::check::watches::Start;
use crate::check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, DynCheck, OnError,
    OnFailure, Preview, ReleaseOutcome, ReleaseReason, Trigger, Verdict,
};
use crate::service::example::request;
use crate::{NoParameters, Reservation};

const NAME: ControllerName = ControllerName::from_static("example.com/c");

type Wrap = fn(Check) -> Check;
type Combine = fn(ControllerName, Vec<Check>) -> Check;

/// The actions of checks' closures.
type Log = Arc<Mutex<Vec<String>>>;

fn rule(resource: &str) -> PolicyRule {
    PolicyRule {
        resources: Some(vec![resource.to_owned()]),
        ..PolicyRule::default()
    }
}

fn definition(name: &str) -> CustomResourceDefinition {
    let mut definition = CustomResourceDefinition::default();
    definition.metadata.name = Some(name.to_owned());
    definition
}

fn bare() -> Check {
    Check::from_fn(NAME, async || Verdict::ready("ok"))
}

fn admission_check() -> AdmissionCheck {
    let object =
        serde_json::json!({"metadata": {"name": "own"}, "spec": {"controllerName": NAME.as_str()}});
    AdmissionCheck::from_json(object).unwrap()
}

/// Makes a check with every setting; its names contain `tag`.
fn configured(tag: &'static str, log: &Log) -> Check {
    let (background, observe) = (Arc::clone(log), Arc::clone(log));
    bare()
        .policy(Policy {
            on_error: Some(OnError::Admit),
            ..Policy::default()
        })
        .timeout(Duration::from_secs(5))
        .annotations([format!("{tag}/")])
        .permissions([rule(tag)])
        .namespace_permissions([rule(tag)])
        .definitions([definition(tag)])
        .objects([serde_json::Value::from(tag)])
        .watches_stream(tag, futures::stream::pending::<Trigger>)
        .background(move |_| {
            background.lock().unwrap().push(format!("background {tag}"));
            std::future::ready(())
        })
        .observe(move |_| observe.lock().unwrap().push(format!("observe {tag}")))
        .metrics(move |metrics| {
            metrics.gauge(tag, "").count(&[], 1);
        })
        .state_change_event(move |_| CheckEvent::normal(tag, ""))
        .active_message(move |check| Some(format!("{tag} {}", check.name())))
        .on_parameters_unavailable(move |_| Some(tag.to_owned()))
        .outlives_reservation()
        .release_at_eviction()
}

/// Returns each setting, in words. Without `..`: a new setting needs a line here.
async fn words(settings: &Settings, log: &Log) -> Vec<(&'static str, String)> {
    let Settings {
        policy,
        timeout,
        annotations,
        permissions,
        namespace_permissions,
        definitions,
        objects,
        watches,
        background,
        observe,
        metrics,
        state_change_event,
        active_message,
        on_parameters_unavailable,
        outlives_reservation,
        release_at_eviction,
    } = settings;
    let rules = |rules: &[PolicyRule]| {
        let resources = rules.iter().filter_map(|rule| rule.resources.clone());
        resources.flatten().collect::<Vec<_>>().join(" ")
    };
    let logged = || log.lock().unwrap().drain(..).collect::<Vec<_>>().join(" ");
    let names = definitions
        .iter()
        .filter_map(|one| one.metadata.name.clone());
    let names = names.collect::<Vec<_>>().join(" ");
    let watched = watches.iter().map(|source| match source.start {
        Start::Stream(_) => source.name.as_str(),
        Start::Objects { .. } => panic!("not of this test"),
    });
    let change = StateChange::new("c", &CheckState::Pending, &CheckState::Ready, "");
    let problem = Inactive::new("ParametersNotFound", "");
    let mut text = MetricsText::new();
    for write in metrics {
        write(&mut text);
    }
    let text = text.finish();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    vec![
        ("policy", serde_json::to_string(policy).unwrap()),
        ("timeout", format!("{timeout:?}")),
        ("annotations", annotations.join(" ")),
        ("permissions", rules(permissions)),
        ("namespace_permissions", rules(namespace_permissions)),
        ("definitions", names),
        ("objects", {
            let names = objects.iter().filter_map(serde_json::Value::as_str);
            names.collect::<Vec<_>>().join(" ")
        }),
        ("watches", watched.collect::<Vec<_>>().join(" ")),
        ("background", {
            for work in background {
                let (_, leads) = tokio::sync::watch::channel(false);
                let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
                    Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("none"))
                });
                let client = kube::Client::new(service, "default");
                let context = BackgroundContext::new(client, crate::Clock::system(), leads);
                work(context).await;
            }
            logged()
        }),
        ("observe", {
            for observe in observe {
                observe(WorkloadEvent::ListStarted);
            }
            logged()
        }),
        ("metrics", samples.collect::<Vec<_>>().join(" ")),
        (
            "state_change_event",
            state_change_event
                .as_ref()
                .map(|event| event(&change).reason().to_owned())
                .unwrap_or_default(),
        ),
        (
            "active_message",
            active_message
                .iter()
                .filter_map(|message| message(&admission_check()))
                .collect::<Vec<_>>()
                .join(" "),
        ),
        (
            "on_parameters_unavailable",
            on_parameters_unavailable
                .as_ref()
                .and_then(|message| message(&problem))
                .unwrap_or_default(),
        ),
        ("outlives_reservation", outlives_reservation.to_string()),
        ("release_at_eviction", release_at_eviction.to_string()),
    ]
}

/// A controller that wraps another, as a check author would write it.
struct Wrapper(Check);

impl AdmissionCheckController for Wrapper {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        NAME
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        self.0.evaluate(request).await
    }

    fn configure(self: &Arc<Self>, check: Check) -> Check {
        check.configured_as(&self.0)
    }
}

#[tokio::test]
async fn every_setting_is_kept_whatever_wraps_the_check() {
    let log = Log::default();
    let expected = [
        ("policy", r#"{"onError":"Admit"}"#),
        ("timeout", "Some(5s)"),
        ("annotations", "a/"),
        ("permissions", "a"),
        ("namespace_permissions", "a"),
        ("definitions", "a"),
        ("objects", "a"),
        ("watches", "a"),
        ("background", "background a"),
        ("observe", "observe a"),
        ("metrics", "a 1"),
        ("state_change_event", "a"),
        ("active_message", "a own"),
        ("on_parameters_unavailable", "a"),
        ("outlives_reservation", "true"),
        ("release_at_eviction", "true"),
    ]
    .map(|(setting, word)| (setting, word.to_owned()));
    let unset = words(&bare().settings, &log).await;
    for ((setting, word), (_, default)) in expected.iter().zip(&unset) {
        assert_ne!(word, default, "the test makes no difference for {setting}");
    }
    let wraps: [(&str, Wrap); 11] = [
        ("nothing", |check| check),
        ("new", Check::new),
        ("a layer", |check| check.layer(layer_fn(|inner| inner))),
        ("previewable", |check| check.previewable(false)),
        ("on_activate", |check| {
            check.on_activate(|_, _| async { Ok(()) })
        }),
        ("on_release", |check| {
            check.on_release(|_, _| async { Ok(ReleaseOutcome::Done) })
        }),
        ("unreleased", |check| {
            check.unreleased(|| async { Ok(Vec::new()) })
        }),
        ("a wrapper", |check| Check::new(Wrapper(check))),
        ("all_of one", |check| Check::all_of(NAME, [check])),
        ("any_of one", |check| Check::any_of(NAME, [check])),
        ("all of a combination", |check| {
            Check::all_of(NAME, [Check::any_of(NAME, [check])])
        }),
    ];
    for (name, wrap) in wraps {
        let wrapped = wrap(configured("a", &log));
        assert_eq!(words(&wrapped.settings, &log).await, expected, "{name}");
        let erased = DynCheck::new(wrapped);
        assert_eq!(
            words(erased.settings(), &log).await,
            expected,
            "{name}, erased"
        );
    }
}

#[tokio::test]
async fn settings_of_members_are_merged_by_a_rule_for_each() {
    let log = Log::default();
    let other = || {
        configured("b", &log)
            .timeout(Duration::from_secs(9))
            .policy(Policy {
                on_error: Some(OnError::Retry),
                after_admission: Some(AfterAdmission {
                    on_failure: Some(OnFailure::Ignore),
                    ..AfterAdmission::default()
                }),
                ..Policy::default()
            })
    };
    // (setting, of two that make it, of all of one that does and one that does not, of any of them)
    let policy = r#"{"onError":"Admit","afterAdmission":{"onFailure":"Ignore"}}"#;
    let table = [
        (
            "policy",
            policy,
            r#"{"onError":"Admit"}"#,
            r#"{"onError":"Admit"}"#,
        ),
        ("timeout", "Some(9s)", "None", "None"),
        ("annotations", "a/ b/", "a/", "a/"),
        ("permissions", "a b", "a", "a"),
        ("namespace_permissions", "a b", "a", "a"),
        ("definitions", "a b", "a", "a"),
        ("objects", "a b", "a", "a"),
        ("watches", "a b", "a", "a"),
        (
            "background",
            "background a background b",
            "background a",
            "background a",
        ),
        ("observe", "observe a observe b", "observe a", "observe a"),
        ("metrics", "a 1 b 1", "a 1", "a 1"),
        ("state_change_event", "a", "a", "a"),
        ("active_message", "a own b own", "a own", "a own"),
        ("on_parameters_unavailable", "a", "a", ""),
        ("outlives_reservation", "true", "false", "false"),
        ("release_at_eviction", "true", "false", "false"),
    ];
    let cases: [(Combine, bool, usize); 4] = [
        (Check::all_of, true, 0),
        (Check::any_of, true, 0),
        (Check::all_of, false, 1),
        (Check::any_of, false, 2),
    ];
    for (combine, both_configured, column) in cases {
        let second = if both_configured { other() } else { bare() };
        let whole = combine(NAME, vec![configured("a", &log), second]);
        let expected =
            table.map(|(setting, two, all, any)| (setting, [two, all, any][column].to_owned()));
        assert_eq!(
            words(&whole.settings, &log).await,
            expected,
            "column {column}"
        );
    }
    let none = Check::<NoParameters>::all_of(NAME, []);
    let expected = words(&bare().settings, &log).await;
    assert_eq!(words(&none.settings, &log).await, expected);
}

#[test]
fn a_member_without_a_timeout_counts_with_the_default() {
    let seconds = Duration::from_secs;
    // (members, the whole)
    let table: [(&[Option<Duration>], Option<Duration>); 5] = [
        (&[], None),
        (&[None, None], None),
        (&[Some(seconds(2)), Some(seconds(5))], Some(seconds(5))),
        (&[Some(seconds(2)), None], None),
        (&[Some(seconds(90)), None], Some(seconds(90))),
    ];
    for (members, whole) in table {
        assert_eq!(longest(members), whole, "{members:?}");
    }
}

#[test]
fn all_go_on_without_parameters_only_if_each_does_and_any_if_one_does() {
    // (members, all, any)
    type Message = Option<&'static str>;
    let table: [(&[Message], Message, Message); 4] = [
        (&[], None, None),
        (&[None, None], None, None),
        (&[None, Some("no rules")], Some("no rules"), None),
        (
            &[Some("no rules"), Some("no limits")],
            Some("no rules"),
            Some("no rules"),
        ),
    ];
    let problem = Inactive::new("ParametersNotFound", "");
    for (members, all, any) in table {
        for (rule, message) in [(Rule::All, all), (Rule::Any, any)] {
            let members = members.iter().map(|message| {
                let message = *message;
                let given = move |_: &Inactive| message.map(str::to_owned);
                let check = bare().on_parameters_unavailable(given);
                check.settings
            });
            let whole = Settings::merge(rule, &members.collect::<Vec<_>>());
            let given = whole.on_parameters_unavailable.and_then(|on| on(&problem));
            assert_eq!(given.as_deref(), message);
        }
    }
}

#[tokio::test]
async fn hooks_are_called_with_the_checks_own() {
    struct Starter(Log);

    impl AdmissionCheckController for Starter {
        type Parameters = NoParameters;

        fn controller_name(&self) -> ControllerName {
            NAME
        }

        async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
            Ok(Verdict::ready(""))
        }

        async fn activate(
            &self,
            _: &AdmissionCheck,
            _: &Arc<NoParameters>,
        ) -> Result<(), Inactive> {
            self.0.lock().unwrap().push("activate".to_owned());
            Ok(())
        }

        async fn release(
            &self,
            _: &Reservation,
            _: ReleaseReason,
        ) -> Result<ReleaseOutcome, CheckError> {
            self.0.lock().unwrap().push("release".to_owned());
            Ok(ReleaseOutcome::Done)
        }
    }

    let log = Log::default();
    let (activated, released) = (Arc::clone(&log), Arc::clone(&log));
    let reservation = request("train").reservation().clone();
    let left = reservation.clone();
    let later = ReleaseOutcome::RetryAfter(Duration::from_secs(3));
    let check = Check::new(Starter(Arc::clone(&log)))
        .on_activate(move |_, _| {
            activated.lock().unwrap().push("on_activate".to_owned());
            async { Ok(()) }
        })
        .on_release(move |reservation, _| {
            let line = format!("on_release {}", reservation.name());
            released.lock().unwrap().push(line);
            async move { Ok(later) }
        })
        .unreleased(move || {
            let left = left.clone();
            async move { Ok(vec![left]) }
        });
    let object = serde_json::json!({"metadata": {"name": "c"}, "spec": {"controllerName": "x"}});
    let object = AdmissionCheck::from_json(object).unwrap();
    check
        .activate(&object, &Arc::new(NoParameters))
        .await
        .unwrap();
    let outcome = check.release(&reservation, ReleaseReason::Finished).await;
    assert_eq!(outcome.unwrap(), later, "done when both are");
    assert_eq!(
        check.unreleased_reservations().await.unwrap(),
        [reservation]
    );
    assert_eq!(
        *log.lock().unwrap(),
        ["activate", "on_activate", "release", "on_release train"]
    );
}

#[tokio::test]
async fn a_wrapped_controller_is_evaluated_and_the_default_preview_evaluates_nothing() {
    let wrapped = Check::new(Wrapper(bare()));
    assert!(wrapped.evaluate(request("train")).await.unwrap().is_ready());
    let preview: Preview = wrapped.preview(request("train")).await.unwrap();
    assert_eq!(preview.verdict(), None);
}
