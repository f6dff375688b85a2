//! What the chart accepts and refuses.

use crate::stage::{helm, values};

/// The values files, each with those that it goes on top of.
pub(crate) const FILES: [&[&str]; 3] = [
    &["values-provisioning.yaml"],
    &[
        "values-provisioning.yaml",
        "values-provisioning-as-kueue.yaml",
    ],
    &["values-budget.yaml"],
];

/// Everything that is off by default.
pub(crate) const EVERYTHING: [&str; 2] = [
    "--set",
    "serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true,networkPolicy.enabled=true,networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus,admissionChecks[0].name=sample,admissionChecks[0].parameters.name=sample,serviceAccount.annotations.a=b,priorityClassName=system-cluster-critical,podLabels.a=b,podAnnotations.a=b,nodeSelector.a=b,tolerations[0].operator=Exists,envFrom[0].secretRef.name=s,run.args[0]=--log-format=json,image.pullSecrets[0].name=s",
];

/// The arguments that name `files` and an image.
pub(crate) fn arguments(files: &[&str]) -> Vec<String> {
    let files = files
        .iter()
        .flat_map(|file| ["--values".to_owned(), values(file)]);
    let image = ["--set", "image.repository=example.com/check"].map(str::to_owned);
    files.chain(image).collect()
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn helm_finds_nothing_wrong() {
    let Some(helm) = helm() else { return };
    for files in FILES {
        let arguments = arguments(files);
        let arguments = borrowed(&arguments);
        for more in [&[][..], &EVERYTHING] {
            let arguments = [&arguments, more].concat();
            if let Err(problem) = helm.lint(&arguments) {
                panic!("{files:?}: {problem}");
            }
            helm.template("a", "b", &arguments).unwrap();
        }
    }
}

#[test]
fn wrong_values_are_refused_with_a_reason() {
    let Some(helm) = helm() else { return };
    let base = arguments(FILES[2]);
    let base = borrowed(&base);
    for (set, expected) in [
        ("replicas=two", "'/replicas': got string, want integer"),
        ("replicas=0", "'/replicas': minimum: got 0, want 1"),
        ("replica=2", "additional properties 'replica' not allowed"),
        (
            "resources.limit.cpu=1",
            "'/resources': additional properties 'limit' not allowed",
        ),
        (
            "log.format=xml",
            "'/log/format': value must be one of 'json', 'text'",
        ),
        ("run.gracePeriod=20", "'/run/gracePeriod'"),
        (
            "run.concurrency=0",
            "'/run/concurrency': minimum: got 0, want 1",
        ),
        (
            "podSecurity.runAsUser=0",
            "'/podSecurity/runAsUser': minimum: got 0, want 1",
        ),
        (
            "securityContext.privileged=true",
            "additional properties 'securityContext' not allowed",
        ),
        ("image.tag=a/b", "'/image/tag'"),
        (
            "image.repository=example.com/check:1",
            "'/image/repository'",
        ),
        ("image.digest=abc", "'/image/digest'"),
        ("controllerName=budget", "'/controllerName'"),
        (
            "rbac.extraClusterRules[0].verbs[0]=*",
            "'/rbac/extraClusterRules/0/verbs/0': 'not' failed",
        ),
        ("adminPort=80", "'/adminPort': minimum: got 80"),
        (
            "podDisruptionBudget.maxUnavailable=0",
            "'/podDisruptionBudget/maxUnavailable'",
        ),
        (
            "admissionChecks[0].controllerName=a/b",
            "'/admissionChecks/0': missing property 'name'",
        ),
        (
            "admissionChecks[0].name=x,admissionChecks[0].controllerName=example.com/other",
            "x names the controller example.com/other, which budget-check does not answer; it answers kueue-check.dev/budget",
        ),
        (
            "leaderElection.enabled=false",
            "leaderElection.enabled=false with more than one replica",
        ),
        (
            "dashboard.files[0]=none.json",
            "the chart has no dashboards/none.json",
        ),
        ("image.repository=", "image.repository is missing"),
        ("check.controllers=null", "which check is this?"),
    ] {
        let problem = helm
            .template("a", "b", &[&base[..], &["--set", set]].concat())
            .expect_err(set);
        assert!(problem.contains(expected), "{set}: {problem}");
    }
    let alone = ["--set", "leaderElection.enabled=false,replicas=1"];
    let documents = helm
        .template("a", "b", &[&base[..], &alone].concat())
        .unwrap();
    let kinds: Vec<&str> = documents
        .iter()
        .filter_map(|own| own["kind"].as_str())
        .collect();
    assert!(
        !kinds.contains(&"Role"),
        "without a Lease there is no right to one"
    );
}

#[test]
fn names_follow_the_release() {
    let Some(helm) = helm() else { return };
    let base = arguments(FILES[2]);
    let base = borrowed(&base);
    for (release, more, expected) in [
        ("budget", "", "budget-check"),
        ("team-budget-check", "", "team-budget-check"),
        ("costs", "", "costs-budget-check"),
        ("costs", "fullnameOverride=money", "money"),
        ("costs", "nameOverride=money", "costs-money"),
    ] {
        let documents = helm
            .template(release, "b", &[&base[..], &["--set", more]].concat())
            .unwrap();
        let deployment = documents
            .iter()
            .find(|own| own["kind"] == "Deployment")
            .unwrap();
        assert_eq!(deployment["metadata"]["name"], expected);
        let role = documents
            .iter()
            .find(|own| own["kind"] == "ClusterRole")
            .unwrap();
        assert_eq!(role["metadata"]["name"], format!("b:{expected}"));
    }
}
