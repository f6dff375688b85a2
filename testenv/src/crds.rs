//! The CustomResourceDefinitions that tests load.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use crate::Cluster;

/// A version of Kueue with which the SDK is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KueueVersion {
    /// v1beta1 only; no `requeueAfterSeconds`.
    V0_14_8,
    /// v1beta2, but Workloads cannot be selected by their ClusterQueue.
    V0_17_8,
    /// The newest.
    V0_19_2,
}

/// The reason why definitions could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// A file error.
    #[error("{path}: {reason}")]
    File {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An error of the API server.
    #[error("{0}")]
    Kube(#[from] kube::Error),
    /// The API server accepted the definitions, but does not serve them.
    #[error("{0} is not established after {ESTABLISHED:?}")]
    NotEstablished(String),
}

const ESTABLISHED: Duration = Duration::from_secs(30);

impl KueueVersion {
    fn folder(self) -> &'static str {
        match self {
            Self::V0_14_8 => "kueue-v0.14.8",
            Self::V0_17_8 => "kueue-v0.17.8",
            Self::V0_19_2 => "kueue-v0.19.2",
        }
    }
}

/// Returns Kueue's definitions.
///
/// # Errors
/// If a file can't be read.
pub fn crds(version: KueueVersion) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    read_folder(version.folder())
}

/// Returns the autoscaler's definitions (ProvisioningRequest).
///
/// # Errors
/// If a file can't be read.
pub fn crds_of_autoscaler() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    read_folder("autoscaler")
}

/// Reads the originals if the machine has them, else the copies that `cargo xtask crds` made.
fn read_folder(name: &str) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let originals = crate_folder.join("../../shared/crds").join(name);
    let folder = if originals.is_dir() {
        originals
    } else {
        crate_folder.join("../sim/kueue-model/crds").join(name)
    };
    read(&folder)
}

/// Returns all definitions of a folder.
pub(crate) fn read(folder: &Path) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let fail = |path: &Path, reason: String| CrdError::File {
        path: path.to_owned(),
        reason,
    };
    let entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(|error| fail(folder, error.to_string()))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| fail(path, error.to_string()))?;
        serde_saphyr::from_str(&text).map_err(|error| fail(path, error.to_string()))
    };
    paths.iter().map(read).collect()
}

/// The field manager of all that is installed.
pub(crate) const FIELD_MANAGER: &str = "testenv";

impl Cluster {
    /// Installs `definitions` and waits until they are served.
    ///
    /// Conversion webhooks are removed, because no server may serve them. A real
    /// [`Kueue`](crate::Kueue) with webhooks adds its own.
    ///
    /// # Errors
    /// If the API server rejects one, or does not serve it within 30 s.
    pub async fn install(
        &self,
        client: &Client,
        definitions: Vec<CustomResourceDefinition>,
    ) -> Result<(), CrdError> {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let names: Vec<String> = definitions
            .iter()
            .filter_map(|definition| definition.metadata.name.clone())
            .collect();
        for mut definition in definitions {
            definition.spec.conversion = None;
            let name = definition.metadata.name.clone().unwrap_or_default();
            api.patch(
                &name,
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(&definition),
            )
            .await?;
        }
        for name in names {
            let served = established(&api, &name).await?;
            listed(client, &served).await?;
        }
        Ok(())
    }
}

async fn established(
    api: &Api<CustomResourceDefinition>,
    name: &str,
) -> Result<CustomResourceDefinition, CrdError> {
    let began = Instant::now();
    while began.elapsed() < ESTABLISHED {
        let definition = api.get(name).await?;
        let conditions = definition.status.iter();
        let mut conditions = conditions.flat_map(|status| status.conditions.iter().flatten());
        if conditions
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
        {
            return Ok(definition);
        }
        sleep(Duration::from_millis(50)).await;
    }
    Err(CrdError::NotEstablished(name.to_owned()))
}

/// Waits until its objects can be listed. At first, an established resource responds with 429
/// ("storage is (re)initializing").
async fn listed(client: &Client, definition: &CustomResourceDefinition) -> Result<(), CrdError> {
    let spec = &definition.spec;
    let version = spec.versions.iter().find(|version| version.served);
    let version = version.map_or("", |version| version.name.as_str());
    let resource = ApiResource {
        group: spec.group.clone(),
        version: version.to_owned(),
        api_version: format!("{}/{version}", spec.group),
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let began = Instant::now();
    loop {
        match api.list(&ListParams::default().limit(1)).await {
            Ok(_) => return Ok(()),
            Err(error) if began.elapsed() >= ESTABLISHED => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}
