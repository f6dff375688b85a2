//! Alerts and dashboards read only metrics that the programs expose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use kueue_check::DynCheck;
use kueue_check_budget::controller::BudgetCheck;
use kueue_check_budget::source::Credentials;
use kueue_check_chart_tests::{chart, reads};
use kueue_check_rule::{CELCheck, ServerPolicy, Unlisted, WebhookCheck};
use kueue_check_testenv::{or_skipped, prometheus};
use serde_json::{Value, json};

use crate::harness::{helm, values};
use crate::values::{FILES, arguments, everything};

/// Returns the series that the shipped programs expose, and the labels of those that the SDK
/// counts.
fn shown() -> BTreeMap<String, BTreeSet<String>> {
    let mut shown = BTreeMap::new();
    for line in kueue_check::admin::every_metric().lines() {
        if line.starts_with('#') {
            continue;
        }
        let series = line.split(['{', ' ']).next().unwrap().to_owned();
        let labels = line
            .split_once('{')
            .map_or("", |(_, rest)| rest.split('}').next().unwrap());
        let labels = labels.split(',').filter_map(|pair| pair.split_once('='));
        shown.insert(series, labels.map(|(label, _)| label.to_owned()).collect());
    }
    // Series of the checks have samples only where there are parameters; their types are always
    // exposed.
    let budget = DynCheck::new(BudgetCheck::new(Credentials::default()));
    let servers = || ServerPolicy {
        folder: "/nonexistent".into(),
        servers: Vec::new(),
        unlisted: Unlisted::Refuse,
        setting: "--allow-host",
    };
    let rules = [
        DynCheck::new(CELCheck::new(servers())),
        DynCheck::new(WebhookCheck::new(servers())),
    ];
    let of_budget = &["account", "budget", "kind", "result"][..];
    let of_rules = &[
        "admission_check",
        "source",
        "resource",
        "operation",
        "result",
    ][..];
    let budget = (budget.metrics(), of_budget);
    let rules = rules.map(|check| (check.metrics(), of_rules));
    for (text, labels) in std::iter::once(budget).chain(rules) {
        let labels: BTreeSet<String> = labels.iter().map(|&label| label.to_owned()).collect();
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').unwrap();
                let series = match kind {
                    "counter" => format!("{name}_total"),
                    _ => name.to_owned(),
                };
                shown.insert(series, labels.clone());
            }
        }
    }
    shown
}

/// The labels that Prometheus adds to each series that it scrapes through a `ServiceMonitor`.
const TARGET: [&str; 5] = ["namespace", "job", "pod", "service", "instance"];

/// Fails if `expression` reads a metric that no program exposes, or none.
fn check(place: &str, expression: &str, shown: &BTreeMap<String, BTreeSet<String>>) {
    let read = reads(expression);
    assert!(
        !read.series.is_empty(),
        "{place} reads nothing: {expression}"
    );
    let mut labels: BTreeSet<String> = TARGET.map(str::to_owned).into();
    for series in &read.series {
        let of = shown.get(series).unwrap_or_else(|| {
            panic!("{place} reads {series}, which no program exposes: {expression}")
        });
        labels.extend(of.iter().cloned());
    }
    let unknown: Vec<&String> = read.labels.difference(&labels).collect();
    assert!(
        unknown.is_empty(),
        "{place} uses the labels {unknown:?}, which no series has: {expression}"
    );
}

/// Checks the rules of the file `name` with Prometheus' own parser.
fn promtool(name: &str, groups: &Value) {
    let Some(programs) = or_skipped("promtool on the rules", prometheus) else {
        return;
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.rules.json"));
    std::fs::write(&file, json!({"groups": groups}).to_string()).unwrap();
    let output = Command::new(programs.promtool)
        .args(["check", "rules"])
        .arg(&file)
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {problem}");
    let count: usize = groups
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["rules"].as_array().unwrap().len())
        .sum();
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(found.contains(&format!("{count} rules found")), "{found}");
}

/// The page with a section for each alert.
const RUNBOOKS: &str = "book/src/reference/alerts.md";

/// Returns the address of the page in the chart.
fn runbooks() -> String {
    let values = std::fs::read_to_string(chart().join("values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let url = values["prometheusRule"]["runbookUrl"].as_str().unwrap();
    assert!(url.ends_with(RUNBOOKS), "{url}");
    url.to_owned()
}

#[test]
fn alerts_read_what_is_shown_and_have_a_page() {
    let Some(helm) = helm() else { return };
    let shown = shown();
    let page = std::fs::read_to_string(chart().join("../../").join(RUNBOOKS)).unwrap();
    let sections: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let mut described = BTreeSet::new();
    for files in FILES {
        let arguments = arguments(files);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let documents = helm
            .template("a", "b", &[&arguments[..], &everything(files)].concat())
            .unwrap();
        let rules = documents
            .iter()
            .find(|own| own["kind"] == "PrometheusRule")
            .unwrap();
        promtool(files[0], &rules["spec"]["groups"]);
        let mut names = BTreeSet::new();
        for group in rules["spec"]["groups"].as_array().unwrap() {
            for rule in group["rules"].as_array().unwrap() {
                let name = rule["alert"].as_str().unwrap();
                assert!(names.insert(name.to_owned()), "{name} is there twice");
                let expression = rule["expr"].as_str().unwrap();
                assert!(!expression.contains("$SERIES"), "{name}: {expression}");
                check(name, expression, &shown);
                for text in ["summary", "action"] {
                    assert!(
                        rule["annotations"][text].is_string(),
                        "{name} has no {text}"
                    );
                }
                let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
                assert!(
                    ["critical", "warning", "info"].contains(&severity),
                    "{name}: {severity}"
                );
                check_templates(name, &rule["annotations"], expression);
                let runbook = rule["annotations"]["runbook_url"].as_str();
                let expected = format!("{}#{}", runbooks(), name.to_lowercase());
                assert_eq!(runbook, Some(&*expected), "{name}");
                assert!(sections.contains(name), "{RUNBOOKS} has no section {name}");
                described.insert(name.to_owned());
            }
        }
        assert!(names.contains("KueueCheckForbidden"), "{names:?}");
        for (own, of) in [
            ("BudgetOverspent", "values-budget.yaml"),
            ("RuleDataSourceStale", "values-rule.yaml"),
        ] {
            assert_eq!(names.contains(own), files[0] == of, "{own}: {names:?}");
        }
    }
    let described: BTreeSet<&str> = described.iter().map(String::as_str).collect();
    assert_eq!(sections, described, "each section is of an alert");
}

/// Checks that each label in an annotation is in the result of the expression.
fn check_templates(name: &str, annotations: &Value, expression: &str) {
    let text = annotations.to_string();
    for label in text.split("$labels.").skip(1) {
        let end = label
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap();
        let label = &label[..end];
        assert!(
            reads(expression).labels.contains(label),
            "{name} shows the label {label}, which its result has not"
        );
    }
}

#[test]
fn dashboards_read_what_is_shown() {
    let shown = shown();
    let mut all = BTreeSet::new();
    for file in std::fs::read_dir(chart().join("dashboards")).unwrap() {
        let path = file.unwrap().path();
        let place = path.file_name().unwrap().to_string_lossy().into_owned();
        let board: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let variables: BTreeSet<&str> = board["templating"]["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| variable["name"].as_str().unwrap())
            .collect();
        let (mut ids, mut rules) = (BTreeSet::new(), Vec::new());
        for panel in board["panels"].as_array().unwrap() {
            let place = format!("{place}: {}", panel["title"]);
            assert!(
                ids.insert(panel["id"].as_u64().unwrap()),
                "{place}: its id is taken"
            );
            assert!(
                panel["description"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{place}: what does it show?"
            );
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let query = expression.replace("[$__rate_interval]", "[5m]");
                check(&place, &query, &shown);
                rules.push(json!({"record": "panel", "labels": {"number": rules.len().to_string()}, "expr": query}));
                all.extend(reads(expression).series);
                for used in expression.split('$').skip(1) {
                    let end = used
                        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                        .unwrap();
                    let known =
                        used[..end] == *"__rate_interval" || variables.contains(&used[..end]);
                    assert!(
                        known,
                        "{place}: there is no variable {}: {expression}",
                        &used[..end]
                    );
                }
                let legend = target["legendFormat"].as_str().unwrap();
                for label in legend.split("{{").skip(1) {
                    let label = label.split("}}").next().unwrap();
                    assert!(
                        reads(expression).labels.contains(label),
                        "{place}: the legend shows {label}, which the result has not"
                    );
                }
            }
        }
        let file = path.file_stem().unwrap().to_string_lossy();
        promtool(&file, &json!([{"name": "panels", "rules": rules}]));
        for variable in board["templating"]["list"].as_array().unwrap() {
            if let Some(series) = variable["query"]
                .as_str()
                .and_then(|query| query.strip_prefix("label_values("))
            {
                let series = series.split(['{', ',']).next().unwrap();
                assert!(
                    shown.contains_key(series),
                    "{place}: the variable {} reads {series}",
                    variable["name"]
                );
            }
        }
    }
    // The first panels for an administrator.
    for wanted in [
        "kueue_check_verdicts_total",
        "kueue_check_pending_workloads",
        "kueue_check_evaluation_duration_seconds_bucket",
        "kueue_check_evaluations_total",
        "kueue_check_first_verdict_seconds_bucket",
        "kueue_check_state_overwrites_total",
        "kueue_check_queue_depth",
        "kueue_check_leader",
        "kueue_check_api_requests_total",
        "process_resident_memory_bytes",
        "budget_remaining",
        "budget_spent",
        "rule_data_source_up",
        "rule_data_source_stale",
        "rule_watched_bytes",
        "webhook_requests_total",
        "webhook_workloads",
    ] {
        assert!(all.contains(wanted), "no panel shows {wanted}");
    }
}

#[test]
fn a_name_that_no_program_exposes_is_found() {
    let shown = shown();
    let found = |expression: &'static str| {
        let shown = shown.clone();
        std::panic::catch_unwind(move || check("test", expression, &shown)).is_err()
    };
    assert!(!found("sum by (check) (kueue_check_pending_workloads)"));
    assert!(found("sum by (check) (kueue_check_pending)"));
    assert!(found("sum by (lane) (kueue_check_pending_workloads)"));
    assert!(found("kueue_check_verdicts"));
}

/// Prometheus evaluates the alerts of every check over the series of two replicas while one leads,
/// is restarted, and loses the Lease. The counters of a restarted pod begin at 0, and a new pod has
/// another name.
#[test]
fn the_alerts_of_every_check_follow_two_replicas() {
    const OF: &str = "namespace=\"n\",job=\"j\"";
    let series = |name: &str, labels: &str, pod: &str, values: &str| {
        let own = format!("{name}{{{OF},{labels}pod=\"{pod}\"}}");
        json!({"series": own, "values": values})
    };
    let leader = |pod: &str, values: &str| series("kueue_check_leader", "", pod, values);
    let test = |name: &str, series: Vec<Value>, expected: Vec<Value>| json!({"name": name, "interval": "1m", "input_series": series, "promql_expr_test": expected});
    let check = "check=\"c\",";
    let counted = |name: &str, labels: &str| {
        // The second process continues where the first one was restarted.
        let name = format!("kueue_check_{name}_total");
        let labels = format!("{check}{labels}");
        vec![
            series(&name, &labels, "a", "0x5 1x5 0x50"),
            series(&name, &labels, "b", "0x60"),
        ]
    };
    // A process with high counts is restarted.
    let old = |name: &str, labels: &str| {
        let name = format!("kueue_check_{name}_total");
        let labels = format!("{check}{labels}");
        vec![
            series(&name, &labels, "a", "500x10 0x50"),
            series(&name, &labels, "b", "0x60"),
        ]
    };
    let bucket = |pod: &str, le: &str, values: &str| {
        let labels = format!("{check}le=\"{le}\",");
        series(
            "kueue_check_first_verdict_seconds_bucket",
            &labels,
            pod,
            values,
        )
    };
    let gauge = |name: &str, labels: &str, values: [&str; 2]| {
        let name = format!("kueue_check_{name}");
        vec![
            series(&name, labels, "a", values[0]),
            series(&name, labels, "b", values[1]),
        ]
    };
    let tests = json!([
        test(
            "the leader ends and the other one leads within a minute",
            vec![leader("a", "1x10 stale _x3 0x20"), leader("b", "0x11 1x30")],
            vec![
                is(fires("KueueCheckNoLeader"), "10m", 0.0),
                is(fires("KueueCheckNoLeader"), "13m", 0.0),
                is(fires("KueueCheckMultipleLeaders"), "13m", 0.0),
                is(fires("KueueCheckMultipleLeaders"), "30m", 0.0),
            ],
        ),
        test(
            "no replica leads, and later none is there",
            vec![
                leader("a", "1x5 0x10 stale"),
                leader("b", "0x15 stale _x20 1x10")
            ],
            vec![
                is(fires("KueueCheckNoLeader"), "7m", 0.0),
                is(fires("KueueCheckNoLeader"), "9m", 1.0),
                is(fires("KueueCheckNoLeader"), "30m", 1.0),
                is(fires("KueueCheckNoLeader"), "40m", 0.0),
            ],
        ),
        test(
            "both lead",
            vec![leader("a", "1x20"), leader("b", "0x5 1x5 0x10")],
            vec![
                is(fires("KueueCheckMultipleLeaders"), "5m", 0.0),
                is(fires("KueueCheckMultipleLeaders"), "8m", 1.0),
                is(fires("KueueCheckMultipleLeaders"), "15m", 0.0),
            ],
        ),
        test(
            "one request in a process is forbidden",
            vec![
                series(
                    "kueue_check_api_requests_total",
                    "verb=\"patch\",code=\"403\",",
                    "a",
                    "0x5 1x30"
                ),
                series(
                    "kueue_check_api_requests_total",
                    "verb=\"patch\",code=\"403\",",
                    "b",
                    "0x36"
                ),
            ],
            vec![
                is(fires("KueueCheckForbidden"), "5m", 0.0),
                is(fires("KueueCheckForbidden"), "8m", 1.0),
                is(fires("KueueCheckForbidden"), "20m", 0.0),
            ],
        ),
        test(
            "a policy and a fence decide once, and the process is restarted",
            [
                counted("policy_applied", "outcome=\"pending_timeout\","),
                counted("suppressed_evictions", "outcome=\"growth\","),
            ]
            .concat(),
            vec![
                is(fires("KueueCheckPolicyApplied"), "5m", 0.0),
                is(fires("KueueCheckPolicyApplied"), "12m", 1.0),
                is(fires("KueueCheckEvictionSuppressed"), "12m", 1.0),
            ],
        ),
        test(
            "counters that begin anew are no errors",
            [
                old("state_overwrites", ""),
                old("writes", "outcome=\"rejected\","),
                old("evaluations", "outcome=\"transient\","),
                vec![
                    series(
                        "kueue_check_evaluations_total",
                        "check=\"c\",outcome=\"Ready\",",
                        "a",
                        "0+9x10 0+9x50"
                    ),
                    series(
                        "kueue_check_evaluations_total",
                        "check=\"c\",outcome=\"Ready\",",
                        "b",
                        "0x60"
                    ),
                ],
            ]
            .concat(),
            [
                "KueueCheckStateOverwritten",
                "KueueCheckWriteErrors",
                "KueueCheckEvaluationErrors"
            ]
            .iter()
            .flat_map(|alert| ["8m", "14m", "40m"].map(|at| is(fires(alert), at, 0.0)))
            .collect(),
        ),
        test(
            "errors that go on in the next leader",
            [
                vec![
                    series(
                        "kueue_check_evaluations_total",
                        "check=\"c\",outcome=\"timeout\",",
                        "a",
                        "0+5x10 stale"
                    ),
                    series(
                        "kueue_check_evaluations_total",
                        "check=\"c\",outcome=\"timeout\",",
                        "b",
                        "0x10 0+5x40"
                    ),
                ],
                vec![
                    series(
                        "kueue_check_writes_total",
                        "check=\"c\",outcome=\"unavailable\",",
                        "a",
                        "0+5x10 stale"
                    ),
                    series(
                        "kueue_check_writes_total",
                        "check=\"c\",outcome=\"unavailable\",",
                        "b",
                        "0x10 0+5x40"
                    ),
                ],
            ]
            .concat(),
            vec![
                is(fires("KueueCheckEvaluationErrors"), "30m", 1.0),
                is(fires("KueueCheckWriteErrors"), "30m", 1.0),
            ],
        ),
        test(
            "first verdicts are late, and not after a restart",
            vec![
                bucket("a", "64", "0x30 stale"),
                bucket("a", "256", "0+2x30 stale"),
                bucket("a", "+Inf", "0+2x30 stale"),
                bucket("b", "64", "0x30 0+2x40"),
                bucket("b", "256", "0x30 0+2x40"),
                bucket("b", "+Inf", "0x30 0+2x40"),
            ],
            vec![
                is(fires("KueueCheckSlow"), "29m", 1.0),
                is(fires("KueueCheckSlow"), "60m", 0.0),
            ],
        ),
        test(
            "gauges are those of the leader",
            [
                gauge("admission_check_active", check, ["1x70", "1x70"]),
                gauge("pending_cleanups", check, ["1x10 stale", "0x10 1x60"]),
                gauge(
                    "queue_oldest_seconds",
                    "lane=\"new\",",
                    ["400x10 stale", "0x60"]
                ),
                gauge(
                    "watch_synced",
                    "watch=\"workloads\",",
                    ["1x70", "1x20 0x10 1x40"]
                ),
            ]
            .concat(),
            vec![
                is(fires("KueueCheckAdmissionCheckInactive"), "60m", 0.0),
                is(fires("KueueCheckCleanupStuck"), "45m", 1.0),
                is(fires("KueueCheckQueueStuck"), "8m", 1.0),
                is(fires("KueueCheckQueueStuck"), "20m", 0.0),
                is(fires("KueueCheckWatchNotSynced"), "20m", 0.0),
                is(fires("KueueCheckWatchNotSynced"), "29m", 1.0),
                is(fires("KueueCheckWatchNotSynced"), "40m", 0.0),
            ],
        ),
        test(
            "an inactive AdmissionCheck",
            gauge("admission_check_active", check, ["0x30 1x30", "0x30 1x30"]),
            vec![
                is(fires("KueueCheckAdmissionCheckInactive"), "20m", 1.0),
                is(fires("KueueCheckAdmissionCheckInactive"), "40m", 0.0),
            ],
        ),
    ]);
    let alerts = std::fs::read_to_string(chart().join("files/alerts.yaml")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&alerts.replace("$SERIES", OF)).unwrap();
    let all = alerts["alerts"].as_array().unwrap().iter();
    for alert in all.map(|alert| alert["alert"].as_str().unwrap()) {
        assert!(tests.to_string().contains(alert), "no test of {alert}");
    }
    let groups = json!([{"name": "every check", "rules": alerts["alerts"]}]);
    promtool_test_groups("alerts.yaml", &groups, &tests);
}

/// Prometheus evaluates the budget's alerts and panels over the series of a leader, its successor
/// and a restarted pod. A replica exposes samples only while it leads; `stale` is a series that
/// ends.
#[test]
fn the_budgets_alerts_and_panels_follow_the_leader() {
    let used = |title: &str| {
        panel("budget.json", title)
            .replace("$budget", ".*")
            .replace("$account", ".*")
    };
    let series = |name: &str, pod: &str, values: &str| {
        let labels = if name.starts_with("budget_watermark") || name.starts_with("budget_source") {
            String::new()
        } else {
            "account=\"team\",".to_owned()
        };
        json!({"series": format!("{name}{{budget=\"b\",{labels}pod=\"{pod}\"}}"), "values": values})
    };
    let age = "budget_watermark_age_seconds";
    let tests = json!([
        {
            "name": "a leader that knows nothing, and one that has led",
            "interval": "1m",
            "input_series": [series(age, "a", "0+60x50 stale"), series(age, "b", "_x50 30x60")],
            "promql_expr_test": [
                is(fires("BudgetSourceStale"), "30m", 0.0),
                is(fires("BudgetSourceStale"), "40m", 1.0),
                is(fires("BudgetSourceStale"), "52m", 0.0),
                is(used("Age of spending"), "52m", 30.0),
            ],
        },
        {
            "name": "a source that is down while the pod restarts",
            "interval": "1m",
            "input_series": [series("budget_source_up", "a", "0x7 stale"), series("budget_source_up", "b", "_x7 0x10 1x20")],
            "promql_expr_test": [
                is(fires("BudgetSourceDown"), "9m", 0.0),
                is(fires("BudgetSourceDown"), "12m", 1.0),
                is(fires("BudgetSourceDown"), "20m", 0.0),
            ],
        },
        {
            "name": "figures and lists that cannot be relied on",
            "interval": "1m",
            "input_series": [
                {"series": "budget_period_covered{budget=\"b\",pod=\"a\"}", "values": "1x5 0x30 1x10"},
                {"series": "budget_unknown_namespaces{budget=\"b\",pod=\"a\"}", "values": "0x5 2x30 0x10"},
                {"series": "budget_decisions_total{budget=\"b\",result=\"not_governed\",pod=\"a\"}", "values": "0x20 3x26"},
            ],
            "promql_expr_test": [
                is(fires("BudgetPeriodNotCovered"), "15m", 0.0),
                is(fires("BudgetPeriodNotCovered"), "17m", 1.0),
                is(fires("BudgetPeriodNotCovered"), "40m", 0.0),
                is(fires("BudgetNamespacesUnknown"), "20m", 0.0),
                is(fires("BudgetNamespacesUnknown"), "22m", 1.0),
                is(fires("BudgetNamespacesUnknown"), "40m", 0.0),
                is(fires("BudgetUngoverned"), "19m", 0.0),
                is(fires("BudgetUngoverned"), "30m", 1.0),
            ],
        },
        {
            "name": "the successor knows what has been spent, and the first shows nothing more",
            "interval": "1m",
            "input_series": [
                series("budget_remaining", "a", "7x10 stale"), series("budget_remaining", "b", "_x10 0x10"),
                series("budget_overspent", "a", "5x10 stale"), series("budget_overspent", "b", "_x10 0x10"),
            ],
            "promql_expr_test": [
                is(used("Accounts without money"), "5m", 0.0),
                is(used("Accounts without money"), "15m", 1.0),
                is(fires("BudgetOverspent"), "5m", 1.0),
                is(fires("BudgetOverspent"), "15m", 0.0),
            ],
        },
    ]);
    promtool_test("values-budget.yaml", &tests);
}

/// A rule's sources, in the series of a leader and its successor.
#[test]
fn the_rules_alerts_and_panels_follow_the_leader() {
    let used = |title: &str| {
        panel("rule.json", title)
            .replace("$namespace", "n")
            .replace("$job", "j")
            .replace("$check", ".*")
    };
    let series = |name: &str, labels: &str, pod: &str, values: &str| {
        let own = format!("{name}{{namespace=\"n\",job=\"j\",{labels},pod=\"{pod}\"}}");
        json!({"series": own, "values": values})
    };
    let source = "admission_check=\"c\",source=\"price\"";
    let requests = |result| format!("operation=\"review\",result=\"{result}\"");
    let up = "rule_data_source_up";
    let stale = "rule_data_source_stale";
    let sent = "webhook_requests_total";
    let tests = json!([
        {
            "name": "a source that is down, also while another replica begins to lead",
            "interval": "1m",
            "input_series": [
                series(up, source, "a", "1x3 0x5 stale"), series(up, source, "b", "_x8 0x10 1x20"),
                series(stale, source, "a", "0x8 stale"), series(stale, source, "b", "_x8 1x10 0x20"),
            ],
            "promql_expr_test": [
                is(fires("RuleDataSourceDown"), "13m", 0.0),
                is(fires("RuleDataSourceDown"), "15m", 1.0),
                is(fires("RuleDataSourceDown"), "22m", 0.0),
                is(fires("RuleDataSourceStale"), "12m", 0.0),
                is(fires("RuleDataSourceStale"), "15m", 1.0),
                is(fires("RuleDataSourceStale"), "22m", 0.0),
                is(used("Data sources that are down"), "2m", 0.0),
                is(used("Data sources that are down"), "6m", 1.0),
                is(used("Data sources that are stale"), "15m", 1.0),
                is(used("Data sources that are stale"), "22m", 0.0),
            ],
        },
        {
            "name": "a service that fails",
            "interval": "1m",
            "input_series": [
                series(sent, &requests("ok"), "a", "0+6x20 120+0x40"),
                series(sent, &requests("failed"), "a", "0+1x20 20+6x40"),
            ],
            "promql_expr_test": [
                is(fires("RuleWebhookFailing"), "20m", 0.0),
                is(fires("RuleWebhookFailing"), "40m", 1.0),
            ],
        },
        {
            "name": "a rule with a mistake",
            "interval": "1m",
            "input_series": [
                series("kueue_check_admission_check_active", "check=\"c\"", "a", "0x5"),
                series("kueue_check_admission_check_active", "check=\"d\"", "a", "1x5"),
            ],
            "promql_expr_test": [is(used("Inactive rules"), "3m", 1.0)],
        },
    ]);
    promtool_test("values-rule.yaml", &tests);
}

/// Returns the expression of a panel.
fn panel(board: &str, title: &str) -> String {
    let board = chart().join("dashboards").join(board);
    let board: Value = serde_json::from_str(&std::fs::read_to_string(board).unwrap()).unwrap();
    let mut panels = board["panels"].as_array().unwrap().iter();
    let panel = panels.find(|panel| panel["title"] == title).unwrap();
    let expression = panel["targets"][0]["expr"].as_str().unwrap();
    expression.to_owned()
}

/// Returns the expression for the number of firing instances of `alert`.
fn fires(alert: &str) -> String {
    format!("count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}) or vector(0)")
}

/// Returns a test of promtool: `expression` has one value at a time.
fn is(expression: String, at: &str, value: f64) -> Value {
    json!({"expr": expression, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]})
}

/// Evaluates the alerts of a values file over the series of `tests` with Prometheus.
fn promtool_test(file: &str, tests: &Value) {
    let values = std::fs::read_to_string(values(file)).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    promtool_test_groups(file, &values["prometheusRule"]["extraGroups"], tests);
}

/// Evaluates the alerts of `groups`, in the file `file`, with Prometheus.
fn promtool_test_groups(file: &str, groups: &Value, tests: &Value) {
    let Some(programs) = or_skipped("promtool on the alerts", prometheus) else {
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let groups = json!({"groups": groups});
    let rules = format!("{file}.alerts.json");
    std::fs::write(folder.join(&rules), groups.to_string()).unwrap();
    let tests = json!({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests});
    let tests_file = folder.join(format!("{file}.alerts-test.json"));
    std::fs::write(&tests_file, tests.to_string()).unwrap();
    let output = Command::new(programs.promtool)
        .args(["test", "rules"])
        .arg(&tests_file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:#?}");
}

#[test]
fn series_and_labels_of_an_expression_are_read() {
    for (expression, series, labels) in [
        ("up", vec!["up"], vec![]),
        (
            r#"sum by (check, le) (rate(a_bucket{job="x,y}",code=~"4.."}[5m])) > 0.5e3"#,
            vec!["a_bucket"],
            vec!["check", "code", "job", "le"],
        ),
        (
            "(max(a) or vector(0)) < 1 and on (pod) b offset 5m",
            vec!["a", "b"],
            vec!["pod"],
        ),
        (
            r#"histogram_quantile(0.9, sum by (le) (rate(x{a!="b"}[$__rate_interval])))"#,
            vec!["x"],
            vec!["a", "le"],
        ),
        ("count(a == bool 0) by (budget)", vec!["a"], vec!["budget"]),
    ] {
        let read = reads(expression);
        let list = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>();
        assert_eq!(list(read.series), series, "{expression}");
        assert_eq!(list(read.labels), labels, "{expression}");
    }
}
