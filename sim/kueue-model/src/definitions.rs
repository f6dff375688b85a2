//! CustomResourceDefinitions: this crate's copies of Kueue's, and definitions read from files.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use kueue_check_apiserver::CompiledDefinitions;
use serde_json::Value;

use crate::kueue::KueueVersion;

pub use kueue_check_apiserver::definitions::{DefinitionError, read};

/// The definitions of Kueue 0.19.2 and the autoscaler, without the Pod schema, which is nine tenths
/// of them.
const TEXTS: [&str; 10] = [
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_admissionchecks.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_clusterqueues.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_cohorts.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_localqueues.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_provisioningrequestconfigs.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_resourceflavors.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_topologies.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_workloadpriorityclasses.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_workloads.yaml"),
    include_str!("../crds/autoscaler/autoscaling.x-k8s.io_provisioningrequests.yaml"),
];

/// Returns the definitions of Kueue 0.19.2 and Cluster Autoscaler, to install on a real API server.
/// They have no descriptions, no conversion and no Pod schema.
///
/// ```
/// use kube::ResourceExt;
/// use kueue_check_sim::definitions;
///
/// let names: Vec<_> = definitions::all().iter().map(ResourceExt::name_any).collect();
/// assert!(names.contains(&"workloads.kueue.x-k8s.io".to_owned()));
/// assert!(names.contains(&"provisioningrequests.autoscaling.x-k8s.io".to_owned()));
/// ```
pub fn all() -> Vec<CustomResourceDefinition> {
    // The texts are part of this crate, and a test parses them all.
    let read = TEXTS
        .iter()
        .filter_map(|text| serde_saphyr::from_str(text).ok());
    read.collect()
}

/// Returns the compiled kinds of Kueue 0.19.2 and Cluster Autoscaler, read once.
///
/// ```
/// use kueue_check::Clock;
/// use kueue_check_sim::apiserver::{ApiServer, ApiRequest, Resource, Verb};
/// use kueue_check_sim::definitions;
/// use serde_json::json;
///
/// let server = ApiServer::with_definitions(Clock::system(), definitions::kueue());
/// let queues = Resource::new("kueue.x-k8s.io", "v1beta2", "localqueues");
/// let queue = json!({"apiVersion": queues.api_version(), "kind": "LocalQueue", "metadata": {"name": "a"}, "spec": {"clusterQueue": "Not a name"}});
/// let response = server.call(&ApiRequest::new(Verb::Create, &queues).namespace("default").body(queue));
/// assert_eq!(response.code, 422); // Kueue's definition has rules for names
/// ```
pub fn kueue() -> &'static CompiledDefinitions {
    static KINDS: LazyLock<CompiledDefinitions> = LazyLock::new(|| CompiledDefinitions::new(all()));
    &KINDS
}

/// Returns the same kinds as a version of Kueue defines them: versions before 0.19 allow fewer pod
/// sets, and allow a Workload with quota to lose its `queueName` or to get one. The limit is 8, 10 or
/// 18; another `most_pod_sets` has the next lower one, or 8.
///
/// ```
/// use kueue_check_sim::definitions;
/// use kueue_check_sim::kueue::KueueVersion;
///
/// let newest = definitions::of_version(KueueVersion::V0_19);
/// assert!(std::ptr::eq(newest, definitions::kueue()));
/// assert!(!std::ptr::eq(newest, definitions::of_version(KueueVersion::V0_18)));
/// ```
pub fn of_version(version: KueueVersion) -> &'static CompiledDefinitions {
    static V0_18: LazyLock<CompiledDefinitions> = LazyLock::new(|| with_fewer_pod_sets(10));
    static V0_17: LazyLock<CompiledDefinitions> = LazyLock::new(|| with_fewer_pod_sets(8));
    match version.most_pod_sets {
        ..10 => &V0_17,
        10..18 => &V0_18,
        18.. => kueue(),
    }
}

/// Returns the kinds as before Kueue 0.19. The maximum of pod sets is that of five lists
/// (`config/components/crd/bases/kueue.x-k8s.io_workloads.yaml` of 0.17.0, 0.18.3 and 0.19.2).
fn with_fewer_pod_sets(most: usize) -> CompiledDefinitions {
    let changed = all().into_iter().map(|definition| {
        if definition.spec.names.plural != "workloads" {
            return definition;
        }
        let older = serde_json::to_value(&definition)
            .ok()
            .and_then(|mut object| {
                make_older(&mut object, most);
                serde_json::from_value(object).ok()
            });
        older.unwrap_or(definition)
    });
    CompiledDefinitions::new(changed.collect())
}

/// Lowers each maximum of 0.19 for pod sets, and restricts the rule for `queueName` to Workloads
/// that have and had one.
fn make_older(schema: &mut Value, most: usize) {
    if schema["maxItems"] == KueueVersion::V0_19.most_pod_sets {
        schema["maxItems"] = most.into();
    }
    if schema["message"] == "queueName is immutable while workload quota reserved"
        && let Some(rule) = schema["rule"].as_str()
    {
        let both = "has(oldSelf.spec.queueName) && has(self.spec.queueName)";
        schema["rule"] = format!("!({both}) || ({rule})").into();
    }
    let parts: Vec<&mut Value> = match schema {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    for part in parts {
        make_older(part, most);
    }
}

/// Returns the same kinds with Kueue's in `v1beta1` too, as Kueue 0.15 to 0.19 serve them.
///
/// Use it to simulate an upgrade while a check runs. `v1beta1` has the schema of `v1beta2` without
/// its selectable fields, because there is no conversion webhook.
///
/// ```
/// use kueue_check::Clock;
/// use kueue_check_sim::apiserver::{ApiServer, ApiRequest, Resource, Verb};
/// use kueue_check_sim::definitions;
///
/// let server = ApiServer::with_definitions(Clock::system(), definitions::kueue_in_both_versions());
/// for version in ["v1beta1", "v1beta2"] {
///     let list = ApiRequest::new(Verb::List, &Resource::new("kueue.x-k8s.io", version, "workloads"));
///     assert_eq!(server.call(&list).code, 200, "{version}");
/// }
/// ```
pub fn kueue_in_both_versions() -> &'static CompiledDefinitions {
    static KINDS: LazyLock<CompiledDefinitions> = LazyLock::new(|| {
        let mut definitions = all();
        for definition in &mut definitions {
            let spec = &mut definition.spec;
            if spec.group != "kueue.x-k8s.io" {
                continue;
            }
            spec.conversion = None;
            spec.versions.retain(|version| version.storage);
            let older = spec.versions.first().map(|stored| {
                let mut older = stored.clone();
                "v1beta1".clone_into(&mut older.name);
                older.storage = false;
                older.selectable_fields = None;
                older
            });
            spec.versions.extend(older);
        }
        CompiledDefinitions::new(definitions)
    });
    &KINDS
}

/// The versions of Kueue's API that are served.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use kueue_check_sim::definitions::KueueApi;
/// use kueue_check_sim::{Job, Simulation};
///
/// Simulation::new(|| open).kueue_api(KueueApi::V1beta1).run(async |cluster| {
///     cluster.submit(Job::new("before"));
///     cluster.expect_admitted("before").await;
///     cluster.serve(KueueApi::Both);
///     cluster.serve(KueueApi::V1beta2);
///     cluster.submit(Job::new("after"));
///     cluster.expect_admitted("after").await;
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KueueApi {
    /// `v1beta1` only, as by Kueue 0.14.
    V1beta1,
    /// Both versions, as by Kueue 0.15 to 0.19.
    Both,
    /// `v1beta2` only.
    V1beta2,
}

impl KueueApi {
    /// Returns the definitions that are served to clients.
    pub fn offered(self) -> &'static CompiledDefinitions {
        static OLDER: LazyLock<CompiledDefinitions> =
            LazyLock::new(|| kueue_in_both_versions().without("kueue.x-k8s.io", "v1beta2"));
        static NEWER: LazyLock<CompiledDefinitions> =
            LazyLock::new(|| kueue_in_both_versions().without("kueue.x-k8s.io", "v1beta1"));
        match self {
            Self::V1beta1 => &OLDER,
            Self::Both => kueue_in_both_versions(),
            Self::V1beta2 => &NEWER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_own_copies_are_definitions() {
        for text in TEXTS {
            serde_saphyr::from_str::<CustomResourceDefinition>(text).unwrap();
        }
    }
}
