//! The objects of a sample file.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::discovery::{Scope, pinned_kind};
use tokio::time::sleep;

use crate::Failure;

/// The objects that a user writes: Workloads, and all that exist before them.
pub(crate) struct Samples {
    settings: Vec<DynamicObject>,
    workloads: Vec<DynamicObject>,
}

impl Samples {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| named(&error))?;
        let documents: Vec<Option<DynamicObject>> =
            serde_saphyr::from_multiple(&text).map_err(|error| named(&error))?;
        let (workloads, settings) =
            documents
                .into_iter()
                .flatten()
                .partition(|object: &DynamicObject| {
                    object
                        .types
                        .as_ref()
                        .is_some_and(|types| types.kind == "Workload")
                });
        Ok(Self {
            settings,
            workloads,
        })
    }

    /// Applies the settings, and submits the Workloads anew.
    pub(crate) async fn submit(&self, client: &Client) -> Result<(), Failure> {
        for object in &self.workloads {
            remove(client, object).await?;
        }
        for object in self.settings.iter().chain(&self.workloads) {
            apply(client, object).await?;
        }
        Ok(())
    }
}

/// Returns when the file was last changed; `None` while an editor replaces it.
pub(crate) fn changed_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

async fn apply(client: &Client, object: &DynamicObject) -> Result<(), Failure> {
    let name = name(object)?;
    let parameters = PatchParams::apply("samples").force();
    api(client, object)
        .await?
        .patch(name, &parameters, &Patch::Apply(object))
        .await
        .map_err(|error| match error {
            // The server's own message; the rest of the error repeats it.
            kube::Error::Api(status) => status.message,
            other => format!("{name}: {other}"),
        })?;
    Ok(())
}

async fn remove(client: &Client, object: &DynamicObject) -> Result<(), Failure> {
    let (api, name) = (api(client, object).await?, name(object)?);
    while api.get_opt(name).await?.is_some() {
        let deleted = api.delete(name, &DeleteParams::default()).await;
        if let Err(error) = deleted
            && !matches!(&error, kube::Error::Api(status) if status.is_not_found())
        {
            return Err(error.into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn name(object: &DynamicObject) -> Result<&str, Failure> {
    let name = object.metadata.name.as_deref();
    Ok(name.ok_or("a sample has no metadata.name")?)
}

async fn api(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>, Failure> {
    let types = object
        .types
        .as_ref()
        .ok_or("a sample has no apiVersion or no kind")?;
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::try_from(types)?).await?;
    let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}
