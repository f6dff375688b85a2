//! Detection of another controller with the same controller name.

use kube::Client;
use serde_json::Value;

use super::CONTROLLER_NAME;
use super::kueue::served;

/// Logs a warning if another controller has written the status of the AdmissionCheck `name`: two
/// controllers of one name undo each other's work.
pub(super) async fn warn_if_kueue_writes(client: &Client, name: &str) {
    let found = served(client, "AdmissionCheck", |api| async move {
        api.get(name).await
    });
    let Ok(object) = found.await else {
        return;
    };
    for (manager, at) in
        other_controllers(&serde_json::to_value(&object.metadata).unwrap_or_default())
    {
        tracing::warn!(
            check = name,
            manager,
            at,
            "another controller has handled this AdmissionCheck under the same controller name: if it still runs, each undoes what the other does. Kueue's own cannot be switched off (0.14 to 0.19): use the controller name {CONTROLLER_NAME}"
        );
    }
}

/// Returns the managers other than this SDK that have written the condition `Active`, and when.
/// This SDK applies, Kueue updates.
fn other_controllers(metadata: &Value) -> Vec<(String, String)> {
    let managers = metadata["managedFields"].as_array().into_iter().flatten();
    let wrote = managers.filter(|entry| {
        entry["subresource"] == "status"
            && entry["operation"] == "Update"
            && entry["fieldsV1"]["f:status"].get("f:conditions").is_some()
    });
    wrote
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            (text("manager"), text("time"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_controller_under_the_same_name_is_detected() {
        let entry = |operation: &str, subresource: &str, fields: Value| json!({"manager": "kueue", "time": "2026-11-21T09:00:00Z", "operation": operation, "subresource": subresource, "fieldsV1": fields});
        let conditions = json!({"f:status": {"f:conditions": {}}});
        let of = |entry: Value| other_controllers(&json!({"managedFields": [entry]}));
        let seen = of(entry("Update", "status", conditions.clone()));
        assert_eq!(
            seen,
            [("kueue".to_owned(), "2026-11-21T09:00:00Z".to_owned())]
        );
        assert!(of(entry("Apply", "status", conditions.clone())).is_empty());
        assert!(of(entry("Update", "", conditions)).is_empty());
        assert!(of(entry("Update", "status", json!({}))).is_empty());
        assert!(other_controllers(&Value::Null).is_empty());
    }
}
