//! AdmissionChecks, their parameters, and the condition `Active`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt};
use kueue_check::handler::Params;
use kueue_check::{
    AdmissionCheckController, Check, CheckError, ControllerName, Inactive, Parameters,
    ParametersKind, Verdict,
};
use kueue_check_testenv::KueueVersion::{self, V0_14_8, V0_17_8, V0_19_2};
use serde_json::{Value, json};

use super::checks::{Scripted, Setting};
use super::faults::{A_WHILE, Fault, RecordedRequest};
use super::harness::{
    Fixture, Running, TestCluster, fixture, setting_reference, test_cluster, unique,
};

async fn follows_its_parameters_on(version: KueueVersion) {
    let Some(Fixture {
        cluster,
        check,
        name,
        running,
        ..
    }) = fixture(version).await
    else {
        return;
    };
    let active = cluster.wait_active(&name, "True", "Active").await;
    assert_eq!(
        (&active["message"], &active["observedGeneration"]),
        (&json!("The admission check is active"), &json!(1))
    );

    cluster
        .settings()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let gone = cluster
        .wait_active(&name, "False", "ParametersNotFound")
        .await;
    assert_eq!(
        gone["message"],
        format!("there is no Setting (group test.kueue-check.dev) `{name}`: create it")
    );
    cluster
        .wait_event("default", &name, "Deactivated: ParametersNotFound")
        .await;

    cluster.setting(&name, "nonsense").await;
    let invalid = cluster
        .wait_active(&name, "False", "ParametersInvalid")
        .await;
    assert_eq!(
        invalid["message"],
        format!("Setting `{name}` is invalid: `word` must not be nonsense")
    );

    cluster.setting(&name, "fine again").await;
    cluster.wait_active(&name, "True", "Active").await;
    cluster.workload("a").await;
    cluster.reserve("a", &[&name]).await;
    cluster.wait_state("a", &name, "Ready").await;
    assert_eq!(
        check.evaluations()[0].word,
        "fine again",
        "without a restart"
    );
    running.stop().await;
}

#[tokio::test]
async fn parameters_that_come_and_go_are_followed_on_kueue_0_19() {
    follows_its_parameters_on(V0_19_2).await;
}

#[tokio::test]
async fn parameters_that_come_and_go_are_followed_on_kueue_0_17() {
    follows_its_parameters_on(V0_17_8).await;
}

#[tokio::test]
async fn parameters_that_come_and_go_are_followed_on_kueue_0_14() {
    follows_its_parameters_on(V0_14_8).await;
}

#[tokio::test]
async fn parameters_have_changed_when_more_than_their_status_has() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let (settings, name) = (fixture.cluster.settings(), &fixture.name);
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    let params = PatchParams::default();
    for seen in 1..4 {
        let status = Patch::Merge(json!({"status": {"seen": seen}}));
        settings.patch_status(name, &params, &status).await.unwrap();
    }
    fixture.cluster.setting(name, "other").await;
    fixture.wait_evaluations("a", 2).await;
    let evaluations = fixture.check.evaluations();
    assert_eq!(
        evaluations[1].word, "other",
        "not evaluated because of its status"
    );
    let label = Patch::Merge(json!({"metadata": {"labels": {"for": "tests"}}}));
    settings.patch(name, &params, &label).await.unwrap();
    fixture.wait_evaluations("a", 3).await;
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_wrong_reference_is_reported_and_can_be_corrected_while_the_program_runs() {
    let Some(Fixture {
        cluster,
        name,
        running,
        ..
    }) = fixture(V0_19_2).await
    else {
        return;
    };
    let refer = async |parameters: Value| {
        let patch = json!({"spec": {"parameters": parameters}});
        cluster.merge("AdmissionCheck", &name, patch).await;
    };
    for (parameters, reason, message) in [
        (
            json!({"apiGroup": "test.kueue-check.dev", "kind": "Other", "name": "x"}),
            "ParametersKindMismatch",
            "refers to an Other (group test.kueue-check.dev)",
        ),
        (
            json!({"apiGroup": "other.example.com", "kind": "Setting", "name": "x"}),
            "ParametersKindMismatch",
            "(group other.example.com)",
        ),
        (
            json!(null),
            "ParametersMissing",
            "it must refer to a Setting (group test.kueue-check.dev)",
        ),
        (
            setting_reference("nobody"),
            "ParametersNotFound",
            "`nobody`: create it",
        ),
    ] {
        refer(parameters).await;
        cluster
            .wait_active_saying(&name, "False", reason, message)
            .await;
    }
    refer(setting_reference(&name)).await;
    let active = cluster.wait_active(&name, "True", "Active").await;
    assert_eq!(active["observedGeneration"], 6);
    running.stop().await;
}

#[tokio::test]
async fn the_result_of_activate_is_the_condition_and_is_retried() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let (check, name) = (Scripted::new(&unique("example.com/picky")), unique("check"));
    let again = std::time::Duration::from_millis(200);
    check.activation(Err(Inactive::new(
        "NoLicenceServer",
        "licences.example.com does not resolve",
    )
    .recheck_in(again)));
    cluster.setting(&name, "fine").await;
    cluster.check(&name, check.controller_name().as_str()).await;
    let running = Running::of(cluster.client.clone(), check.clone());
    let active = cluster.wait_active(&name, "False", "NoLicenceServer").await;
    assert_eq!(active["message"], "licences.example.com does not resolve");
    check.activation(Ok(()));
    cluster.wait_active(&name, "True", "Active").await;
    running.stop().await;
}

#[tokio::test]
async fn workloads_wait_with_the_reason_while_the_check_is_not_active() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let (check, name) = (Scripted::new(&unique("example.com/late")), unique("check"));
    cluster.check(&name, check.controller_name().as_str()).await;
    let running = Running::of(cluster.client.clone(), check.clone());
    cluster.workload("a").await;
    cluster.reserve("a", &[&name]).await;
    let entry = cluster
        .wait_message(
            "a",
            &name,
            "the admission check is not active: there is no Setting",
        )
        .await;
    assert_eq!(
        (&entry["state"], check.evaluations().len()),
        (&json!("Pending"), 0)
    );
    cluster.setting(&name, "fine").await;
    cluster.wait_state("a", &name, "Ready").await;
    running.stop().await;
}

#[tokio::test]
async fn workloads_in_flight_are_evaluated_with_the_last_valid_parameters() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.cluster.setting(&fixture.name, "nonsense").await;
    fixture
        .cluster
        .wait_active(&fixture.name, "False", "ParametersInvalid")
        .await;
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(fixture.check.evaluations()[0].word, "fine");
    fixture.running.stop().await;
}

#[tokio::test]
async fn changed_parameters_cause_a_new_evaluation_of_each_waiting_workload() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .check
        .returns(|request| match request.parameters().spec.word.as_str() {
            "open" => Ok(Verdict::ready("open")),
            word => Ok(Verdict::pending(format!("not open but {word}"))),
        });
    for workload in ["a", "b", "c"] {
        fixture.reserved(workload).await;
        fixture.wait_message(workload, "not open but fine").await;
    }
    fixture.cluster.setting(&fixture.name, "open").await;
    for workload in ["a", "b", "c"] {
        fixture.wait_state(workload, "Ready").await;
    }
    fixture.running.stop().await;
}

#[tokio::test]
async fn parameters_that_the_check_rejects_make_it_inactive_until_they_change() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .check
        .returns(|request| match request.parameters().spec.word.as_str() {
            "fine" => Err(CheckError::parameters("no such budget")),
            _ => Ok(Verdict::ready("ok")),
        });
    fixture.reserved("a").await;
    let active = fixture
        .cluster
        .wait_active(&fixture.name, "False", "ParametersRejected")
        .await;
    assert_eq!(active["message"], "no such budget");
    fixture
        .wait_message("a", "the check's parameters are invalid: no such budget")
        .await;
    fixture.cluster.setting(&fixture.name, "other").await;
    fixture
        .cluster
        .wait_active(&fixture.name, "True", "Active")
        .await;
    fixture.wait_state("a", "Ready").await;
    fixture.running.stop().await;
}

/// Writes the condition `Active` as another client.
async fn spoil(cluster: &TestCluster, name: &str) {
    let spoiled = json!({"conditions": [{"type": "Active", "status": "False", "reason": "Spoiled", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    cluster
        .merge_status_of("AdmissionCheck", name, spoiled)
        .await;
}

#[tokio::test]
async fn the_condition_is_written_once_and_again_when_another_client_changes_it() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let Fixture {
        cluster,
        name,
        faults,
        running,
        ..
    } = fixture;
    let patches = || faults.count(RecordedRequest::writes_condition);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(patches(), 1);
    spoil(&cluster, &name).await;
    cluster.wait_active(&name, "True", "Active").await;
    assert_eq!(patches(), 2);
    running.stop().await;
}

#[tokio::test]
async fn another_writer_of_the_condition_is_not_fought_in_a_hot_loop() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let Fixture {
        cluster,
        name,
        faults,
        running,
        ..
    } = fixture;
    let until = tokio::time::Instant::now() + 2 * A_WHILE;
    while tokio::time::Instant::now() < until {
        spoil(&cluster, &name).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let patches = faults.count(RecordedRequest::writes_condition);
    assert!(patches <= 12, "{patches} patches in three seconds");
    running.stop().await;
}

#[tokio::test]
async fn a_watch_of_parameters_that_fails_after_the_list_hides_nothing() {
    let Some(Fixture {
        cluster,
        check,
        name,
        faults,
        running,
        ..
    }) = fixture(V0_19_2).await
    else {
        return;
    };
    running.stop().await;
    // As an API server does whose watch cache for a new kind is not ready.
    faults.inject(1, Fault::Status(429, Some(1)), |seen| {
        seen.verb == "watch" && seen.path.ends_with("/settings")
    });
    let other = unique("check");
    cluster.setting(&other, "fine").await;
    cluster
        .check(&other, check.controller_name().as_str())
        .await;
    let running = Running::of(faults.around(&cluster.client), check);
    cluster.wait_active(&other, "True", "Active").await;
    cluster.setting(&name, "nonsense").await;
    cluster
        .wait_active(&name, "False", "ParametersInvalid")
        .await;
    running.stop().await;
}

/// A Role with `list` and without `watch`, or a proxy that rejects watches.
#[tokio::test]
async fn parameters_that_can_only_be_listed_do_not_make_the_check_flap() {
    let Some(Fixture {
        cluster,
        check,
        name,
        faults,
        running,
        ..
    }) = fixture(V0_19_2).await
    else {
        return;
    };
    running.stop().await;
    faults.inject(usize::MAX, Fault::Status(403, None), |seen| {
        seen.verb == "watch" && seen.path.ends_with("/settings")
    });
    let running = Running::of(faults.around(&cluster.client), check);
    cluster.wait_active(&name, "True", "Active").await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let patches = faults.count(RecordedRequest::writes_condition);
    assert!(patches <= 1, "{patches} patches");
    cluster.setting(&name, "nonsense").await;
    cluster
        .wait_active(&name, "False", "ParametersInvalid")
        .await;
    running.stop().await;
}

#[tokio::test]
async fn permission_that_is_removed_and_restored_is_noticed() {
    let Some(Fixture {
        cluster,
        check,
        name,
        faults,
        running,
        ..
    }) = fixture(V0_19_2).await
    else {
        return;
    };
    running.stop().await;
    faults.inject(2, Fault::Status(403, None), |seen| {
        seen.path.ends_with("/settings")
    });
    let running = Running::of(faults.around(&cluster.client), check);
    let active = cluster
        .wait_active(&name, "False", "ParametersForbidden")
        .await;
    assert!(
        active["message"]
            .as_str()
            .unwrap()
            .contains("may not list settings.test.kueue-check.dev: apply its ClusterRole"),
        "{active}"
    );
    cluster.wait_active(&name, "True", "Active").await;
    running.stop().await;
}

#[tokio::test]
async fn parameters_whose_definition_is_not_installed_yet() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut definition = Setting::crd();
    let (kind, plural) = ("Latecomer", "latecomers");
    definition.metadata.name = Some(format!("{plural}.test.kueue-check.dev"));
    definition.spec.names.kind = kind.into();
    definition.spec.names.plural = plural.into();
    definition.spec.names.singular = Some("latecomer".into());

    let name = unique("check");
    cluster
        .admission_check(
            &name,
            "example.com/latecomer",
            json!({"apiGroup": "test.kueue-check.dev", "kind": kind, "name": name}),
        )
        .await;
    let late = async |_: Params<Latecomer>| Verdict::ready("ok");
    let controller = ControllerName::from_static("example.com/latecomer");
    let running = Running::of(cluster.client.clone(), Check::from_fn(controller, late));
    let active = cluster
        .wait_active(&name, "False", "ParametersKindNotServed")
        .await;
    assert!(
        active["message"]
            .as_str()
            .unwrap()
            .contains("does not serve latecomers.test.kueue-check.dev: install the definition"),
        "{active}"
    );
    let problems = running.handle.problems();
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("latecomers.test.kueue-check.dev has not been synced")),
        "{problems:?}"
    );

    api.create(&PostParams::default(), &definition)
        .await
        .unwrap();
    cluster
        .wait_active(&name, "False", "ParametersNotFound")
        .await;
    running.wait_ready().await;
    running.stop().await;
    api.delete(
        definition.metadata.name.as_deref().unwrap(),
        &DeleteParams::default(),
    )
    .await
    .unwrap();
}

/// Parameters that have no definition.
struct Latecomer;

impl Parameters for Latecomer {
    fn kind() -> Option<ParametersKind> {
        let (group, kind, plural) = (
            "test.kueue-check.dev".into(),
            "Latecomer".into(),
            "latecomers".into(),
        );
        Some(ParametersKind {
            group,
            kind,
            plural,
            versions: vec!["v1".into()],
        })
    }

    fn decode(_: Value) -> Result<Self, String> {
        Ok(Self)
    }
}
