//! CustomResourceDefinitions: this crate's copies of Kueue's, and definitions read from files.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use kueue_check_apiserver::CompiledDefinitions;

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
