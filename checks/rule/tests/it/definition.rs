//! The definition on a real API server: what is wrong is refused when it is applied.

use kube::api::{Patch, PatchParams};
use kube::{Api, CustomResourceExt};
use kueue_check_rule::webhook::resource::WebhookCheck;
use kueue_check_testenv::Cluster;
use serde_json::{Value, json};

use crate::service::{licences, webhook};

#[tokio::test]
async fn what_is_wrong_is_refused_with_a_reason() {
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
