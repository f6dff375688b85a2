//! `manifests` and `crds`: what to apply to a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::ManifestArguments;
use super::status_policy::StatusPolicy;
use super::{Error, Result};
use crate::api::GROUP;
use crate::check::{DynCheck, ParametersKind};

/// The ports in the container: of metrics and diagnostics, and of the kubelet's probes.
const ADMIN_PORT: u16 = 8443;
const PROBE_PORT: u16 = 8081;

/// Returns all documents, each with the `---` that begins it.
pub(super) fn manifests(
    program: &str,
    checks: &[DynCheck],
    arguments: &ManifestArguments,
    run_arguments: &[String],
) -> Result<String> {
    let set = Set {
        name: arguments.name.as_deref().unwrap_or(program),
        program,
        checks,
        arguments,
        run_arguments,
    };
    let mut text = crds(checks)?;
    for document in set.documents()? {
        text += &yaml(&document)?;
    }
    text += &set.next_steps();
    Ok(text)
}

/// Returns the documents of the definitions.
pub(super) fn crds(checks: &[DynCheck]) -> Result<String> {
    definitions(checks).iter().map(yaml).collect()
}

/// Returns the definitions of all parameters, each once.
pub(super) fn definitions(checks: &[DynCheck]) -> Vec<CustomResourceDefinition> {
    let mut seen = BTreeSet::new();
    let all = checks.iter().flat_map(DynCheck::definitions);
    all.filter(|definition| seen.insert(definition.metadata.name.clone()))
        .collect()
}

/// Returns the objects that checks rely on, each once, with these labels.
pub(super) fn objects(checks: &[DynCheck], labels: &BTreeMap<String, String>) -> Vec<Value> {
    let all = checks.iter().flat_map(DynCheck::objects).cloned();
    let mut all = distinct(all.collect());
    if !labels.is_empty() {
        for object in &mut all {
            object["metadata"]["labels"] = json!(labels);
        }
    }
    all
}

fn yaml(document: &impl Serialize) -> Result<String> {
    // Through JSON, which leaves out absent fields.
    let value = serde_json::to_value(document).map_err(|error| Error::Yaml(error.to_string()))?;
    let text = serde_saphyr::to_string(&value).map_err(|error| Error::Yaml(error.to_string()))?;
    Ok(format!("---\n{}\n", text.trim_end()))
}

struct Set<'a> {
    name: &'a str,
    program: &'a str,
    checks: &'a [DynCheck],
    arguments: &'a ManifestArguments,
    /// The program's own arguments for `run`.
    run_arguments: &'a [String],
}

impl Set<'_> {
    fn documents(&self) -> Result<Vec<Value>> {
        let namespaced = self.meta(true);
        let account = ServiceAccount {
            metadata: namespaced.clone(),
            ..ServiceAccount::default()
        };
        let cluster_role = ClusterRole {
            metadata: self.meta(false),
            rules: Some(cluster_rules(self.checks)),
            ..ClusterRole::default()
        };
        let metrics_reader = ClusterRole {
            metadata: self.named("metrics-reader"),
            rules: Some(vec![PolicyRule {
                non_resource_urls: Some(vec!["/metrics".to_owned()]),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            }]),
            ..ClusterRole::default()
        };
        let role = Role {
            metadata: namespaced.clone(),
            rules: Some([self.lease_rules(), namespace_rules(self.checks)].concat()),
        };
        let subjects = Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: self.name.to_owned(),
            namespace: Some(self.arguments.namespace.clone()),
            ..Subject::default()
        }]);
        let reference = |kind: &str| RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: kind.to_owned(),
            name: self.name.to_owned(),
        };
        let cluster_binding = ClusterRoleBinding {
            metadata: self.meta(false),
            subjects: subjects.clone(),
            role_ref: reference("ClusterRole"),
        };
        // The admin endpoint reviews the token of a request, and what its user may do.
        let reviews = ClusterRoleBinding {
            metadata: self.named("auth-delegator"),
            subjects: subjects.clone(),
            role_ref: RoleRef {
                name: "system:auth-delegator".to_owned(),
                ..reference("ClusterRole")
            },
        };
        let binding = RoleBinding {
            metadata: namespaced,
            subjects,
            role_ref: reference("Role"),
        };
        let typed = [
            value(&account)?,
            value(&cluster_role)?,
            value(&cluster_binding)?,
            value(&reviews)?,
            value(&metrics_reader)?,
            value(&role)?,
            value(&binding)?,
        ];
        Ok(typed
            .into_iter()
            .chain(objects(self.checks, &self.labels()))
            .chain(self.status_policy().documents()?)
            .chain([self.deployment(), self.disruption_budget()])
            .collect())
    }

    fn status_policy(&self) -> StatusPolicy<'_> {
        let controllers = self.checks.iter().map(DynCheck::controller_name);
        let namespace = &self.arguments.namespace;
        StatusPolicy {
            name: self.name,
            account: format!("system:serviceaccount:{namespace}:{}", self.name),
            controllers: distinct(controllers.map(|name| name.to_string()).collect()),
            kueue: &self.arguments.kueue_account,
            version: &self.arguments.kueue_version,
            labels: self.labels(),
        }
    }

    fn meta(&self, namespaced: bool) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.to_owned()),
            namespace: namespaced.then(|| self.arguments.namespace.clone()),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }

    /// Returns the metadata of a further object of the cluster.
    fn named(&self, suffix: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(format!("{}-{suffix}", self.name)),
            ..self.meta(false)
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        [
            ("app.kubernetes.io/name", self.name),
            ("app.kubernetes.io/part-of", "kueue-check"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// Returns the rules for the Lease. A create cannot be limited to a name.
    fn lease_rules(&self) -> Vec<PolicyRule> {
        let group = "coordination.k8s.io";
        let own = PolicyRule {
            resource_names: Some(vec![self.name.to_owned()]),
            ..rule(group, "leases", &["get", "update"])
        };
        vec![rule(group, "leases", &["create"]), own]
    }

    fn deployment(&self) -> Value {
        let ManifestArguments {
            image,
            replicas,
            listen_address,
            ..
        } = self.arguments;
        let mut run = ["run", "--log-format=json"].map(str::to_owned).to_vec();
        run.push(format!("--admin-address={listen_address}:{ADMIN_PORT}"));
        run.push(format!("--probe-address={listen_address}:{PROBE_PORT}"));
        run.push(format!("--lease-name={}", self.name));
        run.extend_from_slice(self.run_arguments);
        let probe = |path: &str, period: u32| json!({"httpGet": {"path": path, "port": "probes"}, "periodSeconds": period, "timeoutSeconds": 6});
        let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
        let mut env = vec![
            json!({"name": "POD_NAME", "valueFrom": field("metadata.name")}),
            json!({"name": "POD_NAMESPACE", "valueFrom": field("metadata.namespace")}),
        ];
        let own = self.arguments.env.iter();
        env.extend(own.map(|(name, value)| json!({"name": name, "value": value})));
        let mut deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.meta(true),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app.kubernetes.io/name": self.name}},
                "template": {
                    "metadata": {"labels": self.labels()},
                    "spec": {
                        "serviceAccountName": self.name,
                        "terminationGracePeriodSeconds": 30,
                        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
                        "containers": [{
                            "name": "check",
                            "image": image,
                            "args": run,
                            "env": env,
                            "ports": [{"name": "admin", "containerPort": ADMIN_PORT}, {"name": "probes", "containerPort": PROBE_PORT}],
                            "livenessProbe": probe("/livez", 20),
                            "readinessProbe": probe("/readyz", 5),
                            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                            "securityContext": {
                                "allowPrivilegeEscalation": false,
                                "readOnlyRootFilesystem": true,
                                "capabilities": {"drop": ["ALL"]},
                            },
                        }],
                        "topologySpreadConstraints": [{
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": self.name}},
                        }],
                    },
                },
            },
        });
        self.mount_secrets(&mut deployment["spec"]["template"]["spec"]);
        deployment
    }

    fn mount_secrets(&self, pod: &mut Value) {
        let secrets = self.arguments.mount_secret.iter().enumerate();
        for (number, (secret, folder)) in secrets {
            let name = format!("secret-{number}");
            push(
                &mut pod["volumes"],
                json!({"name": name, "secret": {"secretName": secret}}),
            );
            push(
                &mut pod["containers"][0]["volumeMounts"],
                json!({"name": name, "mountPath": folder, "readOnly": true}),
            );
        }
    }

    fn disruption_budget(&self) -> Value {
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": self.meta(true),
            "spec": {
                "maxUnavailable": 1,
                // Pods that are not ready do not block a node's drain.
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": {"app.kubernetes.io/name": self.name}},
            },
        })
    }

    /// Returns how a queue uses the check, as comments: the administrator chooses the names.
    fn next_steps(&self) -> String {
        let mut text = String::from(
            "# To use it, refer to it from a ClusterQueue (Kueue 0.15 and later: v1beta2; before: v1beta1):\n",
        );
        for check in self.checks {
            let controller = check.controller_name();
            let same = |other: &&DynCheck| other.controller_name() == controller;
            let shared = self.checks.iter().filter(same).count() > 1;
            let last = controller.as_str().rsplit('/').next();
            let kind = check.parameters().kind.filter(|_| shared);
            let name = match &kind {
                Some(kind) => super::dns_label(&kind.kind),
                None => super::dns_label(last.unwrap_or(self.program)),
            };
            let _ = write!(
                text,
                "#\n# apiVersion: {GROUP}/v1beta2\n# kind: AdmissionCheck\n# metadata:\n#   name: {name}\n# spec:\n#   controllerName: {controller}\n"
            );
            if let Some(kind) = check.parameters().kind {
                let ParametersKind { group, kind, .. } = kind;
                let _ = write!(
                    text,
                    "#   parameters:\n#     apiGroup: {group}\n#     kind: {kind}\n#     name: NAME-OF-YOUR-{}\n",
                    kind.to_uppercase()
                );
            }
            text += "# ---\n# kind: ClusterQueue\n# spec:\n#   admissionChecksStrategy:\n#     admissionChecks:\n";
            let _ = writeln!(text, "#     - name: {name}");
        }
        text
    }
}

/// Returns exactly the rules that are used. Discovery and the schema are open to every
/// authenticated user (ClusterRole `system:discovery`).
pub(super) fn cluster_rules(checks: &[DynCheck]) -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, "workloads", &["get", "list", "watch"]),
        rule(GROUP, "workloads/status", &["patch"]),
        rule(GROUP, "admissionchecks", &["list", "watch"]),
        rule(GROUP, "admissionchecks/status", &["patch"]),
        rule(GROUP, "resourceflavors", &["list", "watch"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    ];
    rules.extend(checks.iter().flat_map(DynCheck::permissions));
    distinct(rules)
}

/// Returns the rules for the namespace of the program, besides the Lease.
pub(super) fn namespace_rules(checks: &[DynCheck]) -> Vec<PolicyRule> {
    let all = checks.iter().flat_map(DynCheck::namespace_permissions);
    distinct(all.collect())
}

pub(super) fn distinct<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

/// Adds `item` to a list that may be missing.
fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        missing => *missing = json!([item]),
    }
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

pub(super) fn value(document: &impl Serialize) -> Result<Value> {
    serde_json::to_value(document).map_err(|error| Error::Yaml(error.to_string()))
}
