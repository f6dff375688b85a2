//! Validation of labels, selectors, annotations and tolerations, as apimachinery validates them.

use serde_json::{Value, json};

use crate::json::list;
use kueue_check_apiserver::{FieldError, names};

/// Appends the errors in the key of a label.
pub(super) fn label_key(key: &str, field: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::label_key(key).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(field, &json!(key), why)));
}

/// Appends the errors in the keys and values of labels.
pub(super) fn labels(of: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in of.as_object().into_iter().flatten() {
        label_key(key, field, errors);
        let wrong = names::label_value(value.as_str().unwrap_or_default());
        errors.extend(
            wrong
                .into_iter()
                .map(|why| FieldError::invalid(field, value, why)),
        );
    }
}

/// Appends the errors in the keys of annotations.
pub(super) fn annotations(of: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, _) in of.as_object().into_iter().flatten() {
        let wrong = names::qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(field, &json!(key), why)));
    }
}

/// Appends the errors in the keys of tolerations.
pub(super) fn tolerations(of: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (at, toleration) in list(of).enumerate() {
        let key = toleration["key"].as_str().unwrap_or_default();
        if !key.is_empty() {
            label_key(key, &format!("{path}[{at}].key"), errors);
        }
    }
}

/// Appends the errors in a label selector.
pub(super) fn selector(of: &Value, path: &str, errors: &mut Vec<FieldError>) {
    labels(&of["matchLabels"], &format!("{path}.matchLabels"), errors);
    for (at, requirement) in list(&of["matchExpressions"]).enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        let none = list(&requirement["values"]).next().is_none();
        match requirement["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if none => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{path}.values"), why));
            }
            "Exists" | "DoesNotExist" if !none => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{path}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let (field, operator) = (format!("{path}.operator"), &requirement["operator"]);
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(field, operator, why));
            }
        }
        let key = requirement["key"].as_str().unwrap_or_default();
        label_key(key, &format!("{path}.key"), errors);
        for (nth, value) in list(&requirement["values"]).enumerate() {
            let wrong = names::label_value(value.as_str().unwrap_or_default());
            let field = format!("{path}.values[{nth}]");
            let wrong = wrong.into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(field.clone(), value, why)));
        }
    }
}

/// Returns the error of a label or annotation with the name of an object. `kind`: `labels` or
/// `annotations`.
pub(super) fn subdomain(object: &Value, kind: &str, key: &str) -> Option<FieldError> {
    let name = &object["metadata"][kind][key];
    let wrong = names::dns_subdomain(name.as_str()?);
    let field = format!("metadata.{kind}[{key}]");
    (!wrong.is_empty()).then(|| FieldError::invalid(field, name, wrong.join(",")))
}
