//! Custom resources of the shipped checks. A check must read every object that the API server
//! stores.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::{SignedDuration, Timestamp};
use kube::CustomResourceExt;
use kueue_check::Parameters;
use kueue_check_budget::config::BudgetConfig;
use kueue_check_budget::resource::{Budget, NamespaceBudget};
use kueue_check_provisioning::config::ProvisioningRequestConfig;
use kueue_check_rule::approval::resource::{Approval, ApprovalCheck};
use kueue_check_rule::celcheck::resource::CELCheck;
use kueue_check_rule::webhook::resource::WebhookCheck;
use kueue_check_schema::{
    Schema, compile, default_fields, drop_nulls, prune, validate, violated_rules,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Form, LARGE, Outcome, Target, assert_line, outcome, shape};
use crate::target::DictionaryWords::{Of, One};

pub(super) const PARAMETERS: Target = Target {
    name: "parameters",
    about: "custom resources of the shipped checks: what the definition takes is read, whole",
    form: Form::Json,
    dictionary: &[
        Of("
            kind Budget NamespaceBudget WebhookCheck CELCheck ApprovalCheck Approval
            ProvisioningRequestConfig metadata name annotations spec status unit period calendar
            Week Month Day startDay Monday 31 timeZone Europe/Amsterdam cron
        "),
        One("0 0 * * 1"),
        One("*/5 1-3 L * 5#2"),
        Of("
            every 24h anchor term from until 2026-11-21T09:00:00Z 0000-01-01T00:00:00Z
            9999-12-31T23:59:59Z 2026-11-21t09:00:00z 2026-11-21T09:00:00.123456789123Z
            2026-11-21T09:00:00+23:59 2026-11-21T09:00:00+99:99 source prometheus datadog fixed url
            https://a.example query freshness sampleInterval 1m 0 0.5h 500000d namespaceLimits
            default max namespaces limit 500 999999999999.999999 pools namespaceSelector matchLabels
            matchExpressions key operator In Exists values prices flavor * resources cpu estimate
            safetyFactor onExhausted onOverspent exempt priorityClasses corrections budgetRef topUps
            amount validUntil reason pendingTimeout after then Retry onError afterAdmission
            onFailure Evict maxEvictionsPerHour approvers users groups required validFor 7d batch
            maxItems config retryLimits ready variables expression true provisioningClassName
            parameters managedResources retryStrategy backoffLimitCount backoffBaseSeconds
            provisioning.kueue-check.dev/
        "),
    ],
    memory: LARGE,
    run: parameters,
};

/// A kind: its schema, and the check's reader.
struct Kind {
    schema: Arc<Schema>,
    read: fn(Value) -> ReadResult,
}

/// The result of a read: the object written again, and a problem that the schema does not find.
type ReadResult = Result<(Value, Option<String>), String>;

static KINDS: LazyLock<BTreeMap<&str, Kind>> = LazyLock::new(|| {
    BTreeMap::from([
        ("Budget", kind::<Budget>(budget)),
        (
            "NamespaceBudget",
            kind::<NamespaceBudget>(plain::<NamespaceBudget>),
        ),
        ("WebhookCheck", kind::<WebhookCheck>(valid::<WebhookCheck>)),
        ("CELCheck", kind::<CELCheck>(valid::<CELCheck>)),
        (
            "ApprovalCheck",
            kind::<ApprovalCheck>(valid::<ApprovalCheck>),
        ),
        ("Approval", kind::<Approval>(plain::<Approval>)),
    ])
});

fn kind<K: CustomResourceExt>(read: fn(Value) -> ReadResult) -> Kind {
    let definition = serde_json::to_value(K::crd()).unwrap_or_default();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    Kind {
        schema: compile(schema),
        read,
    }
}

fn again<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn plain<K: DeserializeOwned + Serialize>(object: Value) -> ReadResult {
    let read: K = serde_json::from_value(object).map_err(|error| error.to_string())?;
    Ok((again(&read), None))
}

fn valid<K: Parameters + Serialize>(object: Value) -> ReadResult {
    let read = K::decode(object)?;
    Ok((again(&read), read.validate().err()))
}

fn budget(object: Value) -> ReadResult {
    let read = Budget::decode(object)?;
    let problem = read.validate().err();
    match BudgetConfig::of(&read) {
        Ok(config) => periods(&config),
        Err(invalid) => {
            // Both validate the same: a Budget without a reported problem has a config.
            assert!(problem.is_some(), "{invalid}");
        }
    }
    Ok((again(&read), problem))
}

/// Asserts that each moment is in its period, and that the next period follows it.
fn periods(config: &BudgetConfig) {
    for second in [0, 1_795_000_000, 1_774_746_000, 253_402_300_000] {
        let at = Timestamp::from_second(second).unwrap_or_default();
        let Some(period) = config.schedule.at(at) else {
            continue;
        };
        assert!(period.contains(at), "{at} in {period:?}");
        let day = SignedDuration::from_hours(24);
        assert!(period.start < period.end, "{period:?}");
        if let Ok(before) = period.end.checked_sub(SignedDuration::from_secs(1)) {
            let same = config.schedule.at(before.max(period.start));
            assert_eq!(same, Some(period), "at the end of the period of {at}");
        }
        let _ = period
            .end
            .checked_add(day)
            .map(|later| config.schedule.at(later));
    }
}

fn parameters(input: &[u8]) -> Outcome {
    let Ok(mut object) = serde_json::from_slice::<Value>(input) else {
        return 0;
    };
    let name = object["kind"].as_str().unwrap_or_default().to_owned();
    if name == "ProvisioningRequestConfig" {
        return provisioning(object);
    }
    let Some(kind) = KINDS.get(name.as_str()) else {
        return 1;
    };
    // As the API server treats an applied object.
    if !object["metadata"].is_object() {
        return 2;
    }
    prune(&mut object, &kind.schema);
    object["kind"] = Value::String(name.clone());
    object["metadata"] = serde_json::json!({"name": "a", "namespace": "team-a", "uid": "1"});
    default_fields(&mut object, &kind.schema);
    drop_nulls(&mut object, &kind.schema);
    let mut errors = validate(&object, &kind.schema);
    if errors.is_empty() {
        errors = violated_rules(&object, None, &kind.schema);
    }
    let read = (kind.read)(object.clone());
    match read {
        Err(problem) => {
            // One unreadable object would fail the list of all objects.
            assert!(
                !errors.is_empty(),
                "{name}: it is stored, and cannot be read: {problem}"
            );
            outcome((name, false, shape(&problem)))
        }
        Ok((again, problem)) => {
            let once_more = (kind.read)(again.clone());
            assert_eq!(
                once_more.as_ref().map(|(value, _)| value),
                Ok(&again),
                "{name}"
            );
            if errors.is_empty() {
                let mut whole = again;
                whole["metadata"] = object["metadata"].clone();
                assert!(
                    validate(&whole, &kind.schema).is_empty(),
                    "{name}: what was read is not valid when it is written: {whole}"
                );
            }
            if let Some(problem) = &problem {
                assert_line(kueue_check::Message::new(problem).as_str(), 1024);
            }
            let problem = problem.as_deref().map(shape);
            outcome((
                name,
                errors.is_empty(),
                problem,
                errors.first().map(|error| shape(&error.message)),
            ))
        }
    }
}

/// Kueue's own parameters, with the users' annotations.
fn provisioning(object: Value) -> Outcome {
    let read = match ProvisioningRequestConfig::decode(object) {
        Ok(read) => read,
        Err(problem) => return outcome(shape(&problem)),
    };
    let problem = read.validate().err();
    for failure in [0, 1, 7, u32::MAX] {
        let delay = read.spec.retry_strategy.delay(failure);
        assert!(u32::try_from(delay.as_secs()).is_ok(), "{delay:?}");
    }
    outcome((
        problem.as_deref().map(shape),
        read.spec.managed_resources.len().min(5),
    ))
}
