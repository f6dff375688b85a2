use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn decode(object: Value) -> Result<ProvisioningRequestConfig, String> {
    let config = ProvisioningRequestConfig::decode(object)?;
    config.validate()?;
    Ok(config)
}

fn with_strategy(strategy: &Value) -> Result<ProvisioningRequestConfig, String> {
    decode(json!({"spec": {"provisioningClassName": "c", "retryStrategy": strategy}}))
}

fn with_option(name: &str, value: &str) -> Result<Options, String> {
    let annotations = json!({format!("{}{name}", options::PREFIX): value, "other": "x"});
    let object =
        json!({"metadata": {"annotations": annotations}, "spec": {"provisioningClassName": "c"}});
    decode(object).map(|config| config.options)
}

#[test]
fn every_field_is_read_and_both_versions_are_known() {
    let config = decode(json!({"metadata": {"name": "x"}, "spec": {
        "provisioningClassName": "queued-provisioning.gke.io",
        "parameters": {"p1": "v1"},
        "managedResources": ["nvidia.com/gpu"],
        "retryStrategy": {"backoffLimitCount": 1, "backoffBaseSeconds": 2, "backoffMaxSeconds": 10},
        "podSetUpdates": {"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "NodePoolName"}]},
        "podSetMergePolicy": "IdenticalPodTemplates",
    }}))
    .unwrap();
    let spec = &config.spec;
    assert_eq!(spec.provisioning_class_name, "queued-provisioning.gke.io");
    assert_eq!(spec.parameters["p1"], "v1");
    assert_eq!(spec.managed_resources, ["nvidia.com/gpu"]);
    assert_eq!(spec.retry_strategy.backoff_limit_count, 1);
    assert_eq!(spec.pod_set_updates.node_selector[0].key, "pool");
    assert_eq!(
        spec.pod_set_merge_policy,
        Some(MergePolicy::IdenticalPodTemplates)
    );
    let kind = ProvisioningRequestConfig::kind().unwrap();
    assert_eq!(kind.versions, ["v1beta2", "v1beta1"]);
}

#[test]
fn an_absent_retry_strategy_has_kueues_defaults() {
    for spec in [
        json!({"provisioningClassName": "c"}),
        json!({"provisioningClassName": "c", "retryStrategy": null, "parameters": null, "managedResources": null, "podSetUpdates": null}),
        json!({"provisioningClassName": "c", "retryStrategy": {}}),
        json!({"provisioningClassName": "c", "retryStrategy": {"backoffLimitCount": null}}),
    ] {
        let strategy = decode(json!({"spec": spec})).unwrap().spec.retry_strategy;
        let fields = (
            strategy.backoff_limit_count,
            strategy.backoff_base_seconds,
            strategy.backoff_max_seconds,
        );
        assert_eq!(fields, (3, 60, 1800));
    }
}

#[test]
fn the_backoff_is_kueues() {
    // (base, max, delays of the failures from the first on)
    let table: [(i32, i32, &[u64]); 6] = [
        (60, 1800, &[60, 120, 240, 480, 960, 1800, 1800]),
        (100, 50, &[100, 50, 50]),
        (2, 10, &[2, 4, 8, 10]),
        (60, 0, &[60, 120, 240, 480, 960, 1920]),
        (0, 10, &[0, 0, 0]),
        (1, i32::MAX, &[1, 2]),
    ];
    for (base, max, delays) in table {
        let strategy = RetryStrategy {
            backoff_limit_count: 3,
            backoff_base_seconds: base,
            backoff_max_seconds: max,
        };
        for (failure, seconds) in (1..).zip(delays) {
            let delay = strategy.delay(failure);
            assert_eq!(
                delay,
                Duration::from_secs(*seconds),
                "{base} {max} {failure}"
            );
        }
        let most = strategy.delay(u32::MAX).as_secs();
        assert!(
            most <= i32::MAX.unsigned_abs().into(),
            "fits requeueAfterSeconds"
        );
    }
}

#[test]
fn an_invalid_config_reports_the_problem() {
    let table = [
        (
            with_strategy(&json!({"backoffBaseSeconds": -5})),
            "spec.retryStrategy.backoffBaseSeconds is -5: it must not be negative",
        ),
        (
            with_strategy(&json!({"backoffLimitCount": -1})),
            "spec.retryStrategy.backoffLimitCount is -1: it must not be negative",
        ),
        (
            with_strategy(&json!({"backoffMaxSeconds": -1})),
            "spec.retryStrategy.backoffMaxSeconds is -1: it must not be negative",
        ),
        (
            decode(json!({"spec": {}})),
            "missing field `provisioningClassName`",
        ),
        (decode(json!({"metadata": {}})), "missing field `spec`"),
    ];
    for (result, message) in table {
        assert_eq!(result.unwrap_err(), message);
    }
}

#[test]
fn a_limit_of_zero_is_legal() {
    let config = with_strategy(&json!({"backoffLimitCount": 0})).unwrap();
    assert_eq!(config.spec.retry_strategy.backoff_limit_count, 0);
}

#[test]
fn options_are_off_by_default_and_read_from_annotations() {
    let none = decode(json!({"spec": {"provisioningClassName": "c"}})).unwrap();
    assert_eq!(none.options, Options::default());
    let read = |name, value| with_option(name, value).unwrap();
    assert_eq!(
        read("after-failure", "KeepQuota").after_failure,
        AfterFailure::KeepQuota
    );
    assert_eq!(
        read("after-failure", "ReleaseQuota").after_failure,
        AfterFailure::ReleaseQuota
    );
    assert_eq!(
        read("backoff-limit", "unlimited").backoff_limit,
        Some(Limit::Unlimited)
    );
    assert_eq!(
        read("no-capacity-limit", "40").no_capacity_limit,
        Some(Limit::AtMost(40))
    );
    assert_eq!(
        read("backoff-from", "Creation").backoff_from,
        BackoffFrom::Creation
    );
    let days = Duration::from_secs(3 * 86_400);
    assert_eq!(read("pending-timeout", "3d").pending_timeout, Some(days));
    let retry = OnFailedAfterAdmission::Retry;
    assert_eq!(
        read("failed-after-admission", "Retry").failed_after_admission,
        retry
    );
}

#[test]
fn an_invalid_option_is_rejected_by_name() {
    for (name, value) in [
        ("after-failure", "keep"),
        ("backoff-limit", "-1"),
        ("no-capacity-limit", "many"),
        ("backoff-from", "now"),
        ("pending-timeout", "soon"),
        ("pending-timeout", "0s"),
        ("failed-after-admission", "Evict"),
        ("no-such-option", "1"),
    ] {
        let error = with_option(name, value).unwrap_err();
        assert!(
            error.contains(&format!("{}{name}", options::PREFIX)),
            "{error}"
        );
    }
}

#[test]
fn an_annotation_overrides_a_parameter_of_the_config() {
    let config = decode(
        json!({"spec": {"provisioningClassName": "c", "parameters": {"p1": "v1", "p2": "v2"}}}),
    )
    .unwrap();
    let annotations = [
        ("provreq.kueue.x-k8s.io/p1", "mine"),
        ("provreq.kueue.x-k8s.io/ValidUntilSeconds", "0"),
        ("invalid.kueue.x-k8s.io/p2", "no"),
    ];
    let parameters = config.effective_parameters(annotations.into_iter());
    let expected = [("ValidUntilSeconds", "0"), ("p1", "mine"), ("p2", "v2")];
    assert_eq!(
        parameters,
        expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    );
}

#[test]
fn the_definition_that_validate_knows_is_kueues() {
    let known = ProvisioningRequestConfig::defined_elsewhere().unwrap();
    let mut all = kueue_check_sim::definitions::all().into_iter();
    let theirs = all.find(|definition| definition.metadata.name == known.metadata.name);
    assert!(Some(known) == theirs, "run `cargo xtask crds`");
}
