//! Syntax of keys, values and tolerations that Kubernetes and Kueue accept.

use k8s_openapi::api::core::v1::Toleration;
#[cfg(feature = "cli")]
use serde_json::Value;

use super::{FingerprintKind, MAX_TOLERATIONS, PodSetUpdate, PodSetUpdatesError};

const NAME_LIMIT: usize = 63;
const PREFIX_LIMIT: usize = 253;
/// The most bytes of all keys and values of an object's annotations together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Returns the first error of one update.
pub(super) fn check(update: &PodSetUpdate) -> Result<(), PodSetUpdatesError> {
    let refuse = |place, text: &str, problem| {
        Err(PodSetUpdatesError::Syntax {
            pod_set: update.name.clone(),
            place,
            text: text.to_owned(),
            problem,
        })
    };
    for (kind, key, value) in update.keys() {
        if let Err(problem) = qualified_name(key) {
            return refuse(kind.key_place(), key, problem);
        }
        if kind != FingerprintKind::NodeSelector && key.starts_with("kueue.x-k8s.io/") {
            let pod_set = update.name.clone();
            return Err(PodSetUpdatesError::KueueKey {
                pod_set,
                place: kind.as_str(),
                key: key.to_owned(),
            });
        }
        if kind != FingerprintKind::Annotation
            && let Err(problem) = label_value(value)
        {
            return refuse(
                if kind == FingerprintKind::Label {
                    "label value"
                } else {
                    "node selector value"
                },
                value,
                problem,
            );
        }
    }
    let annotations: usize = update
        .annotations
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if annotations > ANNOTATIONS_LIMIT {
        return refuse(
            "annotations",
            &format!("{annotations} bytes"),
            "all keys and values together have at most 256 KiB",
        );
    }
    if update.tolerations.len() > MAX_TOLERATIONS {
        return Err(PodSetUpdatesError::TooManyTolerations {
            pod_set: update.name.clone(),
            count: update.tolerations.len(),
        });
    }
    for toleration in &update.tolerations {
        if let Err((text, problem)) = check_toleration(toleration) {
            return refuse("toleration", &text, problem);
        }
    }
    Ok(())
}

/// Returns what is wrong with the name, the labels and the annotations of an object, with the field
/// (Kubernetes 1.36.3, `apimachinery/pkg/api/validation/objectmeta.go`).
#[cfg(feature = "cli")]
pub(crate) fn metadata_errors(metadata: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    let mut check = |field: &str, text: &str, result: Result<(), &str>| {
        if let Err(problem) = result {
            errors.push(format!(
                "metadata.{field}: Invalid value: {text:?}: {problem}"
            ));
        }
    };
    let problem = "it must be a DNS subdomain: lower-case letters, digits, `-` and `.`, at most 253 characters";
    for field in ["name", "generateName"] {
        let text = metadata[field].as_str().unwrap_or_default();
        // The API server appends to the latter.
        let begins = text.strip_suffix('-').filter(|_| field == "generateName");
        let name = begins.unwrap_or(text);
        let is_valid = name.is_empty() || is_dns_subdomain(name);
        check(field, text, is_valid.then_some(()).ok_or(problem));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        check("labels", key, qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        check("labels", value, label_value(value));
    }
    for key in metadata["annotations"].as_object().into_iter().flatten() {
        // Their keys may have upper-case letters everywhere.
        check("annotations", key.0, qualified_name(&key.0.to_lowercase()));
    }
    errors
}

/// Validates `[prefix/]name`: the prefix is a DNS subdomain, the name at most 63 letters, digits,
/// `-`, `_` and `.`.
fn qualified_name(key: &str) -> Result<(), &'static str> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if prefix.is_some_and(|prefix| !is_dns_subdomain(prefix)) {
        return Err(
            "the part before `/` must be a DNS subdomain: lower-case letters, digits, `-` and `.`, at most 253 characters",
        );
    }
    if name.is_empty() || !is_plain_name(name) {
        return Err(
            "the name must be 1 to 63 letters, digits, `-`, `_` or `.`, and start and end with a letter or a digit",
        );
    }
    Ok(())
}

fn label_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() || is_plain_name(value) {
        return Ok(());
    }
    Err(
        "a value must be empty or at most 63 letters, digits, `-`, `_` or `.`, and start and end with a letter or a digit",
    )
}

fn is_plain_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    text.len() <= NAME_LIMIT
        && ends.into_iter().flatten().all(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        !label.is_empty()
            && bytes
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
            && bytes.first() != Some(&b'-')
            && bytes.last() != Some(&b'-')
    };
    text.len() <= PREFIX_LIMIT && text.split('.').all(label)
}

/// Applies the rules of Kueue's CRD, which are those of a pod's tolerations.
fn check_toleration(toleration: &Toleration) -> Result<(), (String, &'static str)> {
    let Toleration {
        effect,
        key,
        operator,
        toleration_seconds,
        value,
    } = toleration;
    let key = key.as_deref().unwrap_or_default();
    let value = value.as_deref().unwrap_or_default();
    let refuse = |text: &str, problem| Err((text.to_owned(), problem));
    let operator = operator.as_deref().unwrap_or("Equal");
    if !key.is_empty()
        && let Err(problem) = qualified_name(key)
    {
        return refuse(key, problem);
    }
    if !matches!(operator, "Equal" | "Exists") {
        return refuse(operator, "the operator must be Equal or Exists");
    }
    if key.is_empty() && operator != "Exists" {
        return refuse(operator, "without a key the operator must be Exists");
    }
    if operator == "Exists" && !value.is_empty() {
        return refuse(value, "with the operator Exists the value must be empty");
    }
    if let Err(problem) = label_value(value) {
        return refuse(value, problem);
    }
    let effect = effect.as_deref().unwrap_or_default();
    if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        return refuse(
            effect,
            "the effect must be NoSchedule, PreferNoSchedule or NoExecute",
        );
    }
    if toleration_seconds.is_some() && effect != "NoExecute" {
        return refuse(
            effect,
            "with tolerationSeconds the effect must be NoExecute",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::PodSetUpdates;
    use super::*;

    #[test]
    fn keys_and_values_follow_kubernetes_rules() {
        let long = "a".repeat(64);
        for (key, legal) in [
            ("a", true),
            ("app.kubernetes.io/name", true),
            ("A-b_c.D9", true),
            ("example.com/", false),
            ("/name", false),
            ("Example.com/name", false),
            ("a/b/c", false),
            ("-a", false),
            ("a-", false),
            ("", false),
            ("ä", false),
            (long.as_str(), false),
        ] {
            for built in [
                PodSetUpdates::builder().pod_set("p", |pods| pods.label(key, "v")),
                PodSetUpdates::builder().pod_set("p", |pods| pods.annotation(key, "any thing\n")),
                PodSetUpdates::builder().pod_set("p", |pods| pods.node_selector(key, "v")),
            ] {
                assert_eq!(built.build().is_ok(), legal, "{key}");
            }
        }
        for (value, legal) in [
            ("", true),
            ("v", true),
            ("a b", false),
            (long.as_str(), false),
            (".x", false),
        ] {
            assert_eq!(
                PodSetUpdates::builder()
                    .pod_set("p", |pods| pods.label("k", value))
                    .build()
                    .is_ok(),
                legal,
                "{value}"
            );
            assert_eq!(
                PodSetUpdates::builder()
                    .pod_set("p", |pods| pods.node_selector("k", value))
                    .build()
                    .is_ok(),
                legal,
                "{value}"
            );
        }
    }

    #[test]
    fn keys_of_kueue_are_rejected() {
        let error = PodSetUpdates::builder()
            .pod_set("p", |pods| pods.label("kueue.x-k8s.io/podset", "x"))
            .build()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "pod set `p`: label `kueue.x-k8s.io/podset`: keys under kueue.x-k8s.io/ belong to Kueue"
        );
    }

    #[test]
    fn counts_are_bounded_and_a_pod_set_is_named_once() {
        let names = |count: usize| (0..count).map(|n| format!("p{n}"));
        assert!(
            PodSetUpdates::builder()
                .pod_sets(names(18), |pods| pods.label("k", "v"))
                .build()
                .is_ok()
        );
        let error = PodSetUpdates::builder()
            .pod_sets(names(19), |pods| pods.label("k", "v"))
            .build();
        assert_eq!(error, Err(PodSetUpdatesError::TooManyPodSets { count: 19 }));
        let error = PodSetUpdates::builder()
            .pod_sets(["p", "p"], |pods| pods)
            .build();
        assert_eq!(
            error,
            Err(PodSetUpdatesError::Duplicate {
                pod_set: "p".to_owned()
            })
        );
        let many = |count| {
            let exists = Toleration {
                operator: Some("Exists".into()),
                ..Toleration::default()
            };
            PodSetUpdates::builder()
                .pod_set("p", |pods| {
                    (0..count).fold(pods, |pods, _| pods.toleration(exists.clone()))
                })
                .build()
        };
        assert!(many(8).is_ok());
        assert_eq!(
            many(9),
            Err(PodSetUpdatesError::TooManyTolerations {
                pod_set: "p".to_owned(),
                count: 9
            })
        );
        let huge = PodSetUpdates::builder()
            .pod_set("p", |pods| pods.annotation("k", "x".repeat(256 * 1024)))
            .build();
        assert!(huge.unwrap_err().to_string().contains("256 KiB"));
    }

    #[test]
    fn tolerations_follow_the_rules_of_the_crd() {
        let toleration =
            |key: &str, operator: &str, value: &str, effect: &str, seconds| Toleration {
                key: (!key.is_empty()).then(|| key.to_owned()),
                operator: (!operator.is_empty()).then(|| operator.to_owned()),
                value: (!value.is_empty()).then(|| value.to_owned()),
                effect: (!effect.is_empty()).then(|| effect.to_owned()),
                toleration_seconds: seconds,
            };
        for (toleration, legal) in [
            (toleration("k", "", "v", "NoSchedule", None), true),
            (toleration("k", "Equal", "v", "", None), true),
            (toleration("", "Exists", "", "", None), true),
            (toleration("k", "Exists", "", "NoExecute", Some(30)), true),
            (toleration("", "", "v", "", None), false),
            (toleration("", "Equal", "", "", None), false),
            (toleration("k", "Exists", "v", "", None), false),
            (toleration("k", "Lt", "5", "", None), false),
            (toleration("k", "Equal", "v", "Sometimes", None), false),
            (toleration("k", "Equal", "v", "NoSchedule", Some(30)), false),
            (toleration("k", "Equal", "v", "", Some(30)), false),
            (toleration("k k", "Exists", "", "", None), false),
            (toleration("k", "Equal", "v v", "", None), false),
        ] {
            let built = PodSetUpdates::builder()
                .pod_set("p", |pods| pods.toleration(toleration.clone()))
                .build();
            assert_eq!(built.is_ok(), legal, "{toleration:?}: {built:?}");
            // Empty values are omitted.
            let some = |value: &Option<String>| Some(value.clone().unwrap_or_default());
            let with_empty = Toleration {
                key: some(&toleration.key),
                operator: some(&toleration.operator),
                value: some(&toleration.value),
                effect: some(&toleration.effect),
                toleration_seconds: toleration.toleration_seconds,
            };
            let same = PodSetUpdates::builder()
                .pod_set("p", |pods| pods.toleration(with_empty))
                .build();
            assert_eq!(same.ok(), built.ok(), "{toleration:?}");
        }
    }
}
