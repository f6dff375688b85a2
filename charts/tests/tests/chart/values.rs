//! The values that the chart accepts and rejects.

use kueue_check::DynCheck;
use kueue_check_budget::controller::{BudgetCheck, Feature};
use kueue_check_budget::source::Credentials;
use serde_json::{Value, json};

use crate::harness::{helm, values};

/// The values files, each with those that it is combined with.
pub(crate) const FILES: [&[&str]; 4] = [
    &["values-provisioning.yaml"],
    &[
        "values-provisioning.yaml",
        "values-provisioning-as-kueue.yaml",
    ],
    &["values-budget.yaml"],
    &["values-rule.yaml"],
];

/// Returns the arguments that enable everything that is off by default.
pub(crate) fn everything(files: &[&str]) -> Vec<&'static str> {
    let mut arguments = EVERYTHING.to_vec();
    // The checks of this file have one controller name.
    if files.contains(&"values-rule.yaml") {
        arguments.extend(["--set", "admissionChecks[0].parameters.kind=CELCheck"]);
    }
    arguments
}

const EVERYTHING: [&str; 2] = [
    "--set",
    "serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true,networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus,admissionChecks[0].name=sample,admissionChecks[0].parameters.name=sample,serviceAccount.annotations.a=b,priorityClassName=system-cluster-critical,podLabels.a=b,podAnnotations.a=b,nodeSelector.a=b,tolerations[0].operator=Exists,envFrom[0].secretRef.name=s,run.args[0]=--log-format=json,sources[0].url=https://prometheus.monitoring:9090,sources[0].credentials=prometheus,image.pullSecrets[0].name=s,admin.certificateSecret=tls,admin.metricsReaders[0].namespace=monitoring,admin.metricsReaders[0].name=prometheus,features.some.enabled=true,features.some.args[0]=--some,features.some.clusterRules[0].apiGroups[0]=example.com,features.some.clusterRules[0].resources[0]=things,features.some.clusterRules[0].verbs[0]=get",
];

/// Returns the arguments that name `files` and an image.
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
        for more in [Vec::new(), everything(files)] {
            let arguments = [&arguments[..], &more].concat();
            if let Err(problem) = helm.lint(&arguments) {
                panic!("{files:?}: {problem}");
            }
            helm.template("a", "b", &arguments).unwrap();
        }
    }
}

#[test]
fn invalid_values_are_rejected_with_a_reason() {
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
        ("admin.port=80", "'/admin/port': minimum: got 80"),
        (
            "admin.secured=true",
            "additional properties 'secured' not allowed",
        ),
        (
            "statusPolicy.kueueAccounts[0]=a'b",
            "'/statusPolicy/kueueAccounts/0'",
        ),
        (
            "admin.metricsReaders[0].name=prometheus",
            "'/admin/metricsReaders/0': missing property 'namespace'",
        ),
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
            "x names the controller example.com/other, which budget-check does not have; it has kueue-check.dev/budget",
        ),
        (
            "leaderElection.enabled=false",
            "leaderElection.enabled=false with more than one replica",
        ),
        (
            "dashboard.files[0]=none.json",
            "the chart has no dashboards/none.json",
        ),
        (
            "sources[0].credentials=a",
            "'/sources/0': missing property 'url'",
        ),
        ("sources[0].url=prometheus:9090", "'/sources/0/url'"),
        ("sources[0].url=https://a/path", "'/sources/0/url'"),
        (
            "sources[0].url=https://a,sources[0].credentials=../x",
            "'/sources/0/credentials'",
        ),
        (
            "sources[0].url=http://a,sources[0].credentials=x",
            "credentials for http://a would be sent over plain http",
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
        "without a Lease there is no permission for one"
    );
    let deployment = |documents: &[Value]| {
        let mut all = documents.iter();
        all.find(|own| own["kind"] == "Deployment").unwrap()["spec"].clone()
    };
    let strategy = deployment(&documents)["strategy"].clone();
    assert_eq!(
        strategy,
        json!({"type": "Recreate"}),
        "one leader at a time"
    );
    let replicated = helm.template("a", "b", &base).unwrap();
    let kind = &deployment(&replicated)["strategy"]["type"];
    assert_eq!(*kind, "RollingUpdate");
}

#[test]
fn the_ports_have_the_chosen_address() {
    let Some(helm) = helm() else { return };
    let base = arguments(FILES[2]);
    for (set, expected) in [
        ("probePort=8081", "0.0.0.0:8081"),
        ("listenAddress=[::]", "[::]:8081"),
    ] {
        let set = ["--set", set].map(str::to_owned);
        let base = [&base[..], &set].concat();
        let documents = helm.template("a", "b", &borrowed(&base)).unwrap();
        let mut all = documents.iter();
        let deployment = all.find(|own| own["kind"] == "Deployment").unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let arguments = pod["containers"][0]["args"].as_array().unwrap();
        let address = format!("--probe-address={expected}");
        assert!(arguments.contains(&json!(address)), "{arguments:?}");
    }
}

#[test]
fn checks_of_one_controller_name_are_distinguished_by_the_kind_of_their_parameters() {
    let Some(helm) = helm() else { return };
    let base = arguments(FILES[2]);
    let both = r#"check.controllers=[
        {"name": "example.com/shared", "parameters": {"apiGroup": "example.com", "kind": "Limit"}},
        {"name": "example.com/shared", "parameters": {"apiGroup": "example.com", "kind": "Quota"}}]"#;
    let more = ["--set-json", both, "--set"].map(str::to_owned);
    let base = [&base[..], &more].concat();
    let rendered = |set: &str| helm.template("a", "b", &[&borrowed(&base)[..], &[set]].concat());
    let sample = "admissionChecks[0].name=x,admissionChecks[0].parameters.name=p";
    for (kind, controller) in [("Limit", ""), ("Quota", "example.com/chosen")] {
        let set = format!(
            "{sample},admissionChecks[0].parameters.kind={kind},controllerName={controller},statusPolicy.kueueAccounts[0]=kueue"
        );
        let documents = rendered(&set).unwrap();
        let mut checks = documents
            .iter()
            .filter(|own| own["kind"] == "AdmissionCheck");
        let spec = &checks.next().unwrap()["spec"];
        let controller_name = if controller.is_empty() {
            "example.com/shared"
        } else {
            controller
        };
        let parameters = json!({"apiGroup": "example.com", "kind": kind, "name": "p"});
        let expected = json!({"controllerName": controller_name, "parameters": parameters});
        assert_eq!(*spec, expected);
        let named = format!("params.spec.controllerName in ['{controller_name}']");
        let text = json!(documents).to_string();
        assert_eq!(text.matches(&named).count(), 1, "once: {text}");
    }
    for kind in ["", ",admissionChecks[0].parameters.kind=Door"] {
        let problem = rendered(&format!("{sample}{kind}")).unwrap_err();
        assert!(
            problem.contains("x requires a parameters.kind that budget-check has for example.com/shared: Limit (apiGroup example.com), Quota (apiGroup example.com)"),
            "{problem}"
        );
    }
}

#[test]
fn sources_become_the_programs_variable_and_open_their_ports() {
    let Some(helm) = helm() else { return };
    let base = arguments(FILES[2]);
    let base = borrowed(&base);
    let rendered = |set: &str| {
        let documents = helm
            .template("budget", "b", &[&base[..], &["--set", set]].concat())
            .unwrap();
        let of_kind = |kind: &str| {
            let mut own = documents.iter().filter(|own| own["kind"] == kind);
            own.next().cloned().unwrap_or_default()
        };
        let container = &of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0];
        let env = container["env"].as_array().unwrap().clone();
        let mut named = env
            .into_iter()
            .filter(|variable| variable["name"] == "BUDGET_CHECK_SOURCES");
        let value = named.next().map(|variable| variable["value"].clone());
        let value: Option<Value> =
            value.map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap());
        let egress = of_kind("NetworkPolicy")["spec"]["egress"].clone();
        let ports: Vec<u64> = egress
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|rule| rule["ports"].as_array().unwrap())
            .filter_map(|port| port["port"].as_u64())
            .collect();
        (value, ports)
    };
    let (value, ports) = rendered("replicas=1");
    assert_eq!((value, ports), (None, vec![53, 53, 443, 6443, 9090]));
    assert_eq!(rendered("networkPolicy.enabled=false"), (None, vec![]));
    let (value, ports) = rendered(
        "sources[0].url=https://p:9091,sources[0].credentials=p,sources[1].url=http://q,sources[1].credentials=q,sources[1].allowInsecure=true,sources[2].url=https://[::1]",
    );
    let expected = json!([
        {"url": "https://p:9091", "credentials": "p"},
        {"url": "http://q", "credentials": "q", "allowInsecure": true},
        {"url": "https://[::1]"},
    ]);
    assert_eq!(value, Some(expected));
    assert_eq!(ports, [53, 53, 443, 6443, 9091, 80, 443, 9090]);
}

#[test]
fn the_admin_endpoint_is_closed_unless_the_values_open_it() {
    let Some(helm) = helm() else { return };
    let base = arguments(FILES[2]);
    let base = borrowed(&base);
    let rendered = |set: &str| {
        let set = format!("serviceMonitor.enabled=true{set}");
        let all = [&base[..], &["--set", &set]].concat();
        helm.template("budget", "b", &all).unwrap()
    };
    let one = |documents: &[Value], kind: &str, name: &str| {
        let mut own = documents.iter().filter(|own| own["kind"] == kind);
        own.find(|own| own["metadata"]["name"] == name).cloned()
    };
    let endpoint = |documents: &[Value]| {
        let monitor = one(documents, "ServiceMonitor", "budget-check").unwrap();
        monitor["spec"]["endpoints"][0].clone()
    };
    let arguments = |documents: &[Value]| {
        let deployment = one(documents, "Deployment", "budget-check").unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        for probe in ["livenessProbe", "readinessProbe"] {
            assert_eq!(container[probe]["httpGet"]["port"], "probes");
        }
        container["args"].to_string()
    };

    let closed = rendered("");
    let policy = one(&closed, "NetworkPolicy", "budget-check").unwrap();
    assert_eq!(policy["spec"]["ingress"], json!([]));
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(arguments(&closed).contains("--admin-secure=true"));
    let reads = endpoint(&closed);
    assert_eq!(reads["scheme"], "https");
    assert_eq!(reads["tlsConfig"], json!({"insecureSkipVerify": true}));
    assert!(reads["bearerTokenFile"].is_string());
    let delegates = one(
        &closed,
        "ClusterRoleBinding",
        "b:budget-check:auth-delegator",
    )
    .unwrap();
    assert_eq!(delegates["roleRef"]["name"], "system:auth-delegator");
    let reader = "b:budget-check:metrics-reader";
    let role = one(&closed, "ClusterRole", reader).unwrap();
    let rule = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    assert_eq!(role["rules"], rule);
    assert_eq!(one(&closed, "ClusterRoleBinding", reader), None);

    let opened = rendered(
        ",admin.certificateSecret=tls,admin.metricsReaders[0].namespace=m,admin.metricsReaders[0].name=p,networkPolicy.metricsFrom[0].podSelector.matchLabels.app=p",
    );
    let policy = one(&opened, "NetworkPolicy", "budget-check").unwrap();
    let ingress = json!([{"from": [{"podSelector": {"matchLabels": {"app": "p"}}}], "ports": [{"port": "admin", "protocol": "TCP"}]}]);
    assert_eq!(policy["spec"]["ingress"], ingress);
    assert!(arguments(&opened).contains("--admin-certificates=/var/run/secrets/admin"));
    let reads = endpoint(&opened);
    assert_eq!(
        reads["tlsConfig"],
        json!({"serverName": "budget-check.b.svc"})
    );
    let binding = one(&opened, "ClusterRoleBinding", reader).unwrap();
    let subject = json!({"kind": "ServiceAccount", "name": "p", "namespace": "m"});
    assert_eq!(binding["subjects"], json!([subject]));

    let plain = rendered(",admin.secure=false");
    assert!(arguments(&plain).contains("--admin-secure=false"));
    assert_eq!(endpoint(&plain)["scheme"], Value::Null);
    assert_eq!(
        one(
            &plain,
            "ClusterRoleBinding",
            "b:budget-check:auth-delegator"
        ),
        None
    );
}

#[test]
fn rules_of_the_namespace_go_into_the_role() {
    let Some(helm) = helm() else { return };
    let base = arguments(FILES[2]);
    let base = borrowed(&base);
    let rule = "check.rules[0].apiGroups[0]=,check.rules[0].resources[0]=configmaps,check.rules[0].verbs[0]=create";
    for more in ["", ",leaderElection.enabled=false,replicas=1"] {
        let set = format!("{rule}{more}");
        let documents = helm
            .template("a", "b", &[&base[..], &["--set", &set]].concat())
            .unwrap();
        let has = |kind: &str| {
            let role = documents.iter().find(|own| own["kind"] == kind).unwrap();
            let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]});
            role["rules"].as_array().unwrap().contains(&rule)
        };
        assert_eq!((has("Role"), has("ClusterRole")), (true, false), "{more}");
    }
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

/// Permissions that few installations need are granted only with the feature that needs them.
#[test]
fn permissions_of_a_feature_come_with_it_and_are_those_of_the_program() {
    let Some(helm) = helm() else { return };
    let arguments = arguments(FILES[2]);
    let rendered = |sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let arguments = [borrowed(&arguments), sets].concat();
        let documents = helm.template("a", "b", &arguments).unwrap();
        let find = |kind: &str| {
            let found = documents.iter().find(|document| document["kind"] == kind);
            found.unwrap().clone()
        };
        let pod = &find("Deployment")["spec"]["template"]["spec"];
        let run = pod["containers"][0]["args"].as_array().unwrap().clone();
        let rules = find("ClusterRole")["rules"].as_array().unwrap().clone();
        (rules, run)
    };
    let (least, run) = rendered(&[]);
    assert!(
        !run.iter()
            .any(|word| word.as_str().unwrap().starts_with("--with"))
    );
    for (value, feature) in [
        ("closeLocalQueues", Feature::CloseLocalQueues),
        ("clusterQueues", Feature::ClusterQueues),
    ] {
        let (rules, run) = rendered(&[&format!("features.{value}.enabled=true")]);
        assert!(
            run.contains(&json!(format!("--with={}", feature.name()))),
            "{run:?}"
        );
        let more: Vec<&Value> = rules.iter().filter(|rule| !least.contains(rule)).collect();
        let with = |features: &[Feature]| {
            let check = BudgetCheck::new(Credentials::default());
            DynCheck::new(check.with(features.iter().copied())).permissions()
        };
        let without = with(&[]);
        let own = with(&[feature]).into_iter();
        let own = own.filter(|rule| !without.contains(rule));
        let own: Vec<Value> = own.map(|rule| json!(rule)).collect();
        assert_eq!(more, own.iter().collect::<Vec<_>>(), "{value}");
        assert_eq!(more.len(), 1, "{value}");
    }
}
