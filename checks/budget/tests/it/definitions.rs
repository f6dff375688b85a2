//! The definitions on a real API server: invalid objects are rejected when they are applied.

use serde_json::{Value, json};

use super::harness::{Stage, budget, stage, unique};

pub(crate) fn spec(source: Value) -> Value {
    json!({
        "unit": "USD", "period": {"calendar": "Week", "startDay": "Monday", "timeZone": "Europe/Amsterdam"}, "source": source,
        "namespaceLimits": {"default": "500", "max": "5000", "namespaces": [{"name": "vision", "limit": "2000"}]},
        "prices": [{"flavor": "a100-spot", "resources": {"nvidia.com/gpu": "1.20"}}, {"flavor": "*", "resources": {"nvidia.com/gpu": "2.90", "cpu": "0.031"}}],
    })
}

pub(crate) fn prometheus(url: &str) -> Value {
    json!({"prometheus": {"url": url, "query": "namespace:cost_usd_per_hour:sum", "sampleInterval": "1m", "freshness": "container_cpu_allocation"}})
}

async fn refusal(stage: &Stage, object: &Value) -> Option<String> {
    stage
        .try_apply(object)
        .await
        .err()
        .map(|error| error.to_string())
}

#[tokio::test]
async fn invalid_objects_are_rejected_with_a_reason() {
    let Some(stage) = stage().await else { return };
    let good = spec(prometheus("https://prometheus.monitoring:9090"));
    assert_eq!(refusal(&stage, &budget(&unique("good"), &good)).await, None);
    let mut full = good.clone();
    full["pools"] = json!([{"name": "research", "limit": "10000", "namespaceSelector": {"matchLabels": {"org": "research"}}}]);
    full["estimate"] = json!({"defaultDuration": "4h", "overrunHorizon": "1h", "safetyFactor": "1.1", "maxPerWorkload": "800"});
    full["onExhausted"] = json!({"quota": "Yield", "every": "10m", "max": "1h"});
    full["onOverspent"] =
        json!({"running": "Evict", "order": "LowestPriorityYoungest", "grace": "10m"});
    let classes = json!([
        {"name": "sla-critical", "namespaces": ["serving"]},
        {"name": "system", "kind": "PriorityClass", "namespaceSelector": {"matchLabels": {"tier": "sla"}}},
        {"name": "everywhere", "namespaceSelector": {}},
    ]);
    full["exempt"] = json!({"priorityClasses": classes, "namespaces": ["kube-system"]});
    full["pendingTimeout"] = json!({"after": "7d", "then": "Retry"});
    assert_eq!(refusal(&stage, &budget(&unique("full"), &full)).await, None);
    for (path, value, expected) in [
        ("/period/timeZone", json!("Europe/Amsterdan"), "time zone"),
        (
            "/period",
            json!({"calendar": "Week", "cron": "0 0 * * 1"}),
            "exactly one of calendar",
        ),
        ("/period", json!({}), "exactly one of calendar"),
        (
            "/period",
            json!({"calendar": "Week", "startDay": "12"}),
            "a week starts on a weekday",
        ),
        (
            "/period",
            json!({"calendar": "Month", "startDay": "Monday"}),
            "a month starts on a day",
        ),
        (
            "/period",
            json!({"calendar": "Month", "startDay": "29"}),
            "startDay",
        ),
        (
            "/period",
            json!({"calendar": "Day", "startDay": "1"}),
            "startDay goes with",
        ),
        ("/period", json!({"every": "24h"}), "every and anchor"),
        (
            "/period",
            json!({"term": {"from": "2026-07-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}}),
            "a term ends after",
        ),
        (
            "/period",
            json!({"calendar": "Fortnight"}),
            "Unsupported value",
        ),
        ("/source", json!({}), "exactly one of prometheus"),
        (
            "/source",
            json!({"fixed": {}, "prometheus": prometheus("https://a")["prometheus"]}),
            "exactly one of prometheus",
        ),
        ("/source/prometheus/url", json!("ftp://x/y/z"), "url"),
        (
            "/source/prometheus/url",
            json!("https://user:password@prometheus"),
            "url",
        ),
        (
            "/source/prometheus/sampleInterval",
            Value::Null,
            "needs the sampleInterval",
        ),
        (
            "/source/prometheus/auth",
            json!({}),
            "exactly one of bearerTokenFile",
        ),
        ("/namespaceLimits/default", json!("1500m"), "default"),
        ("/namespaceLimits/default", json!(500), "default"),
        ("/namespaceLimits/default", json!("-5"), "default"),
        (
            "/namespaceLimits/namespaces/0/limit",
            json!("1.0000001"),
            "limit",
        ),
        ("/namespaceLimits", Value::Null, "namespaceLimits or pools"),
        ("/prices", json!([]), "prices"),
        ("/unit", json!("a unit of money that is long"), "unit"),
        ("/enforcement", json!("Maybe"), "Unsupported value"),
        ("/warnAtPercent", json!([0]), "warnAtPercent"),
        (
            "/exempt",
            json!({"priorityClasses": ["sla"]}),
            "expected map",
        ),
        (
            "/exempt",
            json!({"priorityClasses": [{"name": "sla"}]}),
            "exactly one of namespaces and namespaceSelector",
        ),
        (
            "/exempt",
            json!({"priorityClasses": [{"name": "sla", "namespaces": []}]}),
            "should have at least 1 items",
        ),
        (
            "/exempt",
            json!({"priorityClasses": [{"name": "sla", "namespaces": ["n"], "namespaceSelector": {}}]}),
            "exactly one of namespaces and namespaceSelector",
        ),
        (
            "/exempt",
            json!({"priorityClasses": [{"name": "sla", "kind": "Class", "namespaces": ["n"]}]}),
            "Unsupported value",
        ),
    ] {
        let mut bad = good.clone();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = bad.pointer_mut(parent).unwrap();
        if value.is_null() {
            parent.as_object_mut().unwrap().remove(key);
        } else if let Some(list) = parent.as_array_mut() {
            list[key.parse::<usize>().unwrap()] = value.clone();
        } else {
            parent[key] = value.clone();
        }
        let error = refusal(&stage, &budget(&unique("bad"), &bad)).await;
        assert!(
            error.as_ref().is_some_and(|error| error.contains(expected)),
            "{path} = {value}: {error:?}, expected {expected:?}"
        );
    }
}

#[tokio::test]
async fn a_namespace_budget_is_checked_too_and_the_columns_show_balances() {
    let Some(stage) = stage().await else { return };
    let own = |spec: Value| json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "NamespaceBudget", "metadata": {"name": "own", "namespace": stage.namespace}, "spec": spec});
    let top_up = json!({"amount": "300", "validUntil": "2026-11-30T00:00:00Z", "reason": "paper deadline, TICKET-12"});
    assert_eq!(
        refusal(
            &stage,
            &own(json!({"budgetRef": "gpu-weekly", "limit": "2500", "topUps": [top_up]}))
        )
        .await,
        None
    );
    for (spec, expected) in [
        (json!({"limit": "1"}), "budgetRef"),
        (json!({"budgetRef": "b", "limit": "1e3"}), "limit"),
        (
            json!({"budgetRef": "b", "topUps": vec![top_up.clone(); 17]}),
            "topUps",
        ),
        (
            json!({"budgetRef": "b", "topUps": [{"amount": "1", "validUntil": "soon"}]}),
            "validUntil",
        ),
        // The API server's format accepts it, and one object that cannot be read fails the list of
        // all.
        (
            json!({"budgetRef": "b", "topUps": [{"amount": "1", "validUntil": "2026-11-30T00:00:00+99:99"}]}),
            "validUntil",
        ),
    ] {
        let error = refusal(&stage, &own(spec.clone())).await;
        assert!(
            error.as_ref().is_some_and(|error| error.contains(expected)),
            "{spec}: {error:?}"
        );
    }
    let definition = serde_json::to_value(
        <kueue_check_budget::resource::Budget as kube::CustomResourceExt>::crd(),
    )
    .unwrap();
    let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap();
    let names: Vec<&str> = columns
        .iter()
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "Limit",
            "Spent",
            "Remaining",
            "Held",
            "Resets",
            "As-of",
            "Fresh"
        ]
    );
}

#[tokio::test]
async fn what_is_to_be_deployed_is_accepted() {
    let Some(stage) = stage().await else { return };
    for file in ["example", "exemptions"] {
        let path = format!("{}/deploy/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        for document in text.split("---\n") {
            let mut document: Value = serde_saphyr::from_str(document).unwrap();
            if document["metadata"].get("namespace").is_some() {
                document["metadata"]["namespace"] = json!(stage.namespace);
            }
            assert_eq!(refusal(&stage, &document).await, None, "{document}");
        }
    }
}
