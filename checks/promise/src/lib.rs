//! Tests that custom resources keep what earlier definitions of them promised.
//!
//! A folder of a check holds one folder for each state of its definitions that was released:
//! `definitions.yaml` as it was, and `objects.yaml` with objects that have every field together.
//! They are never changed. [`Promise`] compares the present definitions with them, and takes the
//! objects through upgrades and downgrades on an API server.

mod frozen;
mod journey;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

pub use frozen::{Frozen, PromiseError};
pub use journey::Server;

/// How a check reads an object of one kind, and writes it again.
pub type ReadAndWrite = fn(Value) -> Result<Value, serde_json::Error>;

/// A kind of a check: its name, and how it reads and writes an object.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Such as `Budget`.
    pub name: &'static str,
    /// How the check reads an object, and writes it again.
    pub read_and_write: ReadAndWrite,
}

/// What the definitions of a check have promised.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The definitions as they are now.
    pub present: Vec<CustomResourceDefinition>,
    /// The kinds.
    pub kinds: Vec<Kind>,
    /// The states that were released.
    pub frozen: Vec<Frozen>,
}

impl Promise {
    /// Everything that the present definitions break, of all states that were released; one line
    /// each.
    pub fn broken(&self) -> Vec<String> {
        let present: Vec<Value> = self.present.iter().filter_map(value).collect();
        self.frozen
            .iter()
            .flat_map(|frozen| frozen.broken_by(&present))
            .collect()
    }

    /// The fields of the released definitions that none of the objects of their time has: what
    /// happens to them is not tested.
    pub fn unset_fields(&self) -> Vec<String> {
        self.frozen.iter().flat_map(Frozen::unset_fields).collect()
    }

    fn kind(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

fn value(definition: &CustomResourceDefinition) -> Option<Value> {
    serde_json::to_value(definition).ok()
}
