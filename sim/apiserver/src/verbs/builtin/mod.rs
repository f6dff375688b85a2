//! Behavior of particular built-in kinds.

mod check;
mod create;
mod defaults;
mod indexes;
mod priority;
mod zero;

use crate::kinds::Kind;

pub(crate) use check::check;
pub(crate) use create::{on_create, on_update};
pub(crate) use defaults::default_object;
pub(crate) use priority::admit;
pub(crate) use zero::zero;

/// Returns true if objects of this kind have a generation.
pub(crate) fn has_generation(kind: &Kind) -> bool {
    kind.is("", "pods")
        || kind.is("batch", "jobs")
        || kind.is("", "podtemplates")
        || kind.is("scheduling.k8s.io", "priorityclasses")
        || kind.is_definition()
}

/// Returns true if a change of such an object counts: the generation of a PriorityClass stays.
pub(crate) fn counts_changes(kind: &Kind) -> bool {
    has_generation(kind) && !kind.is("scheduling.k8s.io", "priorityclasses")
}

/// Returns true if a deletion returns the object.
pub(crate) fn returns_deleted(kind: &Kind) -> bool {
    kind.resource.group.is_empty()
        && matches!(
            kind.resource.plural.as_str(),
            "pods" | "podtemplates" | "serviceaccounts" | "resourcequotas"
        )
}

/// Returns the propagation policy of a deletion that sets none.
pub(crate) fn default_policy(kind: &Kind) -> &'static str {
    if kind.is("batch", "jobs") {
        "Orphan"
    } else {
        "Background"
    }
}

/// Returns true if an update of a missing object creates it.
pub(crate) fn creates_on_update(kind: &Kind) -> bool {
    kind.is("coordination.k8s.io", "leases")
        || kind.resource.plural == "events"
        || kind.resource.group == "rbac.authorization.k8s.io"
}
