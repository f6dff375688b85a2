//! Tests that custom resources stay compatible with earlier released definitions.
//!
//! A folder of a check has one folder for each released state of its definitions:
//! `definitions.yaml` as released, and `objects.yaml` with objects that together have every field.
//! They never change. [`Promise`] compares the present definitions with them, and takes the objects
//! through upgrades and downgrades on an API server.

mod frozen;
mod journey;

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use frozen::{Frozen, PromiseError};
pub use journey::Server;

/// A kind of a check: its present definition, and the check's decoding and encoding of an object.
#[derive(Clone, Debug)]
pub struct Kind {
    definition: CustomResourceDefinition,
    read_and_write: fn(Value) -> Result<Value, serde_json::Error>,
}

impl Kind {
    /// Returns the kind whose objects the check reads as `K`.
    pub fn of<K: CustomResourceExt + DeserializeOwned + Serialize>() -> Self {
        Self {
            definition: K::crd(),
            read_and_write: |object| {
                let read: K = serde_json::from_value(object)?;
                serde_json::to_value(read)
            },
        }
    }
}

/// The released definitions and objects of a check.
#[derive(Clone, Debug)]
pub struct Promise {
    kinds: Vec<Kind>,
    frozen: Vec<Frozen>,
}

impl Promise {
    /// Reads the released states of the check in the folder `package` for its `kinds`. They are in
    /// `tests/promise`.
    ///
    /// # Errors
    /// If a file cannot be read, or there is no state.
    pub fn read(package: &str, kinds: Vec<Kind>) -> Result<Self, PromiseError> {
        let folder = Path::new(package).join("tests/promise");
        let frozen = Frozen::read_all(&folder)?;
        if frozen.is_empty() {
            return Err(PromiseError::File(
                folder,
                "no state of a release".to_owned(),
            ));
        }
        Ok(Self { kinds, frozen })
    }

    /// Returns the incompatibilities of the present definitions with all released states, one per
    /// line.
    pub fn broken(&self) -> Vec<String> {
        let present: Vec<Value> = self.present().iter().filter_map(value).collect();
        self.frozen
            .iter()
            .flat_map(|frozen| frozen.broken_by(&present))
            .collect()
    }

    /// Returns the fields of the released definitions that none of their objects has. They are not
    /// tested.
    pub fn unset_fields(&self) -> Vec<String> {
        self.frozen.iter().flat_map(Frozen::unset_fields).collect()
    }

    fn present(&self) -> Vec<CustomResourceDefinition> {
        let kinds = self.kinds.iter();
        kinds.map(|kind| kind.definition.clone()).collect()
    }

    fn kind(&self, name: &str) -> Option<&Kind> {
        let mut kinds = self.kinds.iter();
        kinds.find(|kind| kind.definition.spec.names.kind == name)
    }
}

fn value(definition: &CustomResourceDefinition) -> Option<Value> {
    serde_json::to_value(definition).ok()
}
