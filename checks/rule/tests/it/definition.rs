//! The definitions on a real API server: it rejects invalid objects when they are applied.

use kube::api::{Patch, PatchParams};
use kube::{Api, CustomResourceExt};
use kueue_check_rule::celcheck::resource::CELCheck;
use kueue_check_rule::webhook::resource::WebhookCheck;
use kueue_check_testenv::Cluster;
use serde_json::{Value, json};

use crate::service::{licences, webhook};

#[tokio::test]
async fn invalid_objects_are_rejected_with_a_reason() {
    let Some(cluster) = Cluster::start_or_skip("WebhookCheck on a real API server").await else {
        return;
    };
    let client = cluster.client().unwrap();
    cluster
        .install(&client, vec![WebhookCheck::crd()])
        .await
        .unwrap();
    let api: Api<WebhookCheck> = Api::all(client);
    let apply = async |object: &Value| {
        let parameters = PatchParams::apply("kubectl").force();
        api.patch("webhook", &parameters, &Patch::Apply(object))
            .await
    };
    let config = json!({"opens": "22:00", "nested": {"list": [1, "two", null]}});
    let mut full = licences();
    full["spec"]["config"] = config.clone();
    full["spec"]["auth"] = json!({"bearerTokenFile": "token"});
    full["spec"]["signingKeyFile"] = json!("key");
    full["spec"]["clientCertificate"] = json!({"certificateFile": "tls.crt", "keyFile": "tls.key"});
    full["spec"]["onError"] = json!("Retry");
    full["spec"]["pendingTimeout"] = json!({"after": "7d", "then": "Retry"});
    let stored = apply(&full).await.unwrap();
    let kept = stored.spec.config.map(Value::Object);
    assert_eq!(kept, Some(config), "what is free-form is kept");
    for (patch, expected) in [
        (json!({"url": "ftp://a.example"}), "spec.url"),
        (json!({"url": "https://user@a.example/"}), "spec.url"),
        (json!({"batch": {"maxItems": 0}}), "spec.batch.maxItems"),
        (json!({"batch": {"maxItems": 501}}), "spec.batch.maxItems"),
        (
            json!({"batch": {"maxItems": 9, "requestsPerMinute": 1}}),
            "requestsPerMinute",
        ),
        (json!({"activatePath": "activate"}), "spec.activatePath"),
        (json!({"releasePath": "/a?b"}), "spec.releasePath"),
        (json!({"heldPath": "/held"}), "heldPath needs releasePath"),
        (json!({"timeout": "ten seconds"}), "spec.timeout"),
        (
            json!({"auth": {"bearerTokenFile": "a", "basic": {"user": "me", "passwordFile": "b"}}}),
            "exactly one of bearerTokenFile and basic",
        ),
        (
            json!({"clientCertificate": {"keyFile": "a"}}),
            "certificateFile",
        ),
        (json!({"config": ["a"]}), "spec.config"),
        (json!({"onError": "Ignore"}), "spec.onError"),
    ] {
        let error = apply(&webhook(&patch)).await.expect_err(expected);
        assert!(error.to_string().contains(expected), "{patch}: {error}");
    }
}

#[tokio::test]
async fn an_invalid_cel_check_is_rejected_with_a_reason() {
    let Some(cluster) = Cluster::start_or_skip("CELCheck on a real API server").await else {
        return;
    };
    let client = cluster.client().unwrap();
    cluster
        .install(&client, vec![CELCheck::crd()])
        .await
        .unwrap();
    let api: Api<CELCheck> = Api::all(client);
    let apply = async |spec: &Value| {
        let object = json!({"apiVersion": "kueue-check.dev/v1alpha1", "kind": "CELCheck", "metadata": {"name": "rule"}, "spec": spec});
        let parameters = PatchParams::apply("kubectl").force();
        api.patch("rule", &parameters, &Patch::Apply(object)).await
    };
    let full = json!({
        "ready": "http('price') < 3 && variables.a", "retry": "false", "retryAfter": "5m", "reject": "false",
        "message": "'x'", "variables": [{"name": "a", "expression": "true"}],
        "data": [
            {"name": "price", "http": {"url": "https://a.example/x?y=z", "method": "GET", "bodyExpression": "'{}'", "jsonPath": "$.a[*]['b']"}, "interval": "1m", "maxAge": "1h", "timeout": "2s", "maxBytes": 1_048_576},
            {"name": "alerts", "prometheus": {"url": "https://a.example", "query": "ALERTS", "auth": {"bearerTokenFile": "t"}, "caFile": "ca"}},
        ],
        "podSetUpdates": [{"name": "main", "labels": {"a": "'b'"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}],
        "recheckAfter": "10m", "onError": "Retry", "pendingTimeout": {"after": "7d", "then": "Retry"},
    });
    let stored = apply(&full).await.unwrap();
    assert_eq!(serde_json::to_value(&stored.spec).unwrap(), full);
    let source = |source: Value| json!({"ready": "true", "data": [source]});
    for (spec, expected) in [
        (json!({"message": "3"}), "spec.ready"),
        (json!({"ready": ""}), "spec.ready"),
        (json!({"ready": "x".repeat(8193)}), "spec.ready"),
        (
            json!({"ready": "true", "variables": [{"name": "a-b", "expression": "1"}]}),
            "spec.variables[0].name",
        ),
        (
            json!({"ready": "true", "variables": vec![json!({"name": "a", "expression": "1"}); 33]}),
            "spec.variables",
        ),
        (
            source(json!({"name": "a"})),
            "a data source is either prometheus or http",
        ),
        (
            source(
                json!({"name": "a", "http": {"url": "https://a.example"}, "prometheus": {"url": "https://a.example", "query": "x"}}),
            ),
            "either prometheus or http",
        ),
        (
            source(json!({"name": "a", "http": {"url": "ftp://a.example"}})),
            "spec.data[0].http.url",
        ),
        (
            source(json!({"name": "a", "http": {"url": "https://a.example", "method": "PUT"}})),
            "spec.data[0].http.method",
        ),
        (
            source(
                json!({"name": "a", "http": {"url": "https://a.example"}, "maxBytes": 1_048_577}),
            ),
            "spec.data[0].maxBytes",
        ),
        (
            source(json!({"name": "a", "http": {"url": "https://u@a.example"}})),
            "spec.data[0].http.url",
        ),
        (
            source(
                json!({"name": "a", "prometheus": {"url": "https://a.example?x", "query": "x"}}),
            ),
            "spec.data[0].prometheus.url",
        ),
        (
            source(json!({"name": "A b", "http": {"url": "https://a.example"}})),
            "spec.data[0].name",
        ),
        (
            json!({"ready": "true", "recheckAfter": "soon"}),
            "spec.recheckAfter",
        ),
        (
            json!({"ready": "true", "onError": "Ignore"}),
            "spec.onError",
        ),
    ] {
        let error = apply(&spec).await.expect_err(expected);
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}
