//! The admission policy that guarantees `spec.approvedBy`. It rejects an `Approval` that names
//! another user than its author, or a group that the author is not in. The check counts no approval
//! while the policy or its binding is missing.

use serde_json::{Value, json};

/// The name of the policy and of its binding.
pub const NAME: &str = "kueue-check-approvals";

/// Returns the policy and its binding.
pub fn objects() -> Vec<Value> {
    let api_version = "admissionregistration.k8s.io/v1";
    vec![
        json!({
            "apiVersion": api_version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": NAME},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["kueue-check.dev"], "apiVersions": ["*"],
                    "resources": ["approvals"], "operations": ["CREATE"],
                }]},
                "validations": [
                    {
                        "expression": "object.spec.approvedBy == request.userInfo.username",
                        "messageExpression": "'spec.approvedBy must be your own name, which is ' + request.userInfo.username",
                    },
                    {
                        "expression": "!has(object.spec.groups) || object.spec.groups.all(group, group in request.userInfo.groups)",
                        "message": "spec.groups may have only groups that you are in: kubectl auth whoami",
                    },
                ],
            },
        }),
        json!({
            "apiVersion": api_version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        }),
    ]
}
