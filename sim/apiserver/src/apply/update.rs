//! Effects of a write on field owners, and of an apply on the object.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::compare;
use super::malformed::malformed;
use super::managers::{Managers, Owned, Owner};
use super::merge::merge;
use super::set::FieldSet;
use super::typed::{fields_of, with_parents, without};
use crate::kinds::Kind;
use crate::schema::Schema;
use crate::status::Status;

/// The fields without an owner: they identify the object, or the server writes them.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Returns the top-level fields that a write to this subresource cannot change.
pub(crate) fn reset_fields(kind: &Kind, subresource: &str) -> &'static [&'static str] {
    match (kind.status, subresource) {
        (true, "status") if kind.status_has_metadata() => &["spec"],
        (true, "status") => &["metadata", "spec"],
        (true, "") => &["status"],
        _ => &[],
    }
}

fn owned_part(mut set: FieldSet, reset: &[&str]) -> FieldSet {
    use super::set::Element;
    for field in ["apiVersion", "kind"] {
        set.without_root(field);
    }
    let metadata = Element::Field("metadata".to_owned());
    set.members.remove(&metadata);
    if let Some(below) = set.children.get_mut(&metadata) {
        for field in UNOWNED {
            below.without_root(field);
        }
        if below.is_empty() {
            set.children.remove(&metadata);
        }
    }
    for field in reset {
        set.without_root(field);
    }
    set
}

/// The fields that a change takes from their owners.
struct TakenFields {
    changed: FieldSet,
    conflicts: BTreeMap<Owner, FieldSet>,
}

/// Takes the changed and the removed fields from all owners except `keep`.
fn take_changes(
    old: &Value,
    new: &Value,
    schema: &Schema,
    managers: &mut Managers,
    keep: Option<&Owner>,
    reset: &[&str],
) -> TakenFields {
    let difference = compare(old, new, schema);
    let mut changed = difference.modified;
    changed.add(difference.added);
    let changed = owned_part(changed, reset);
    let removed = owned_part(difference.removed, reset);
    let mut conflicts = BTreeMap::new();
    for (owner, owned) in &mut managers.owners {
        if Some(owner) == keep {
            continue;
        }
        let lost = owned.set.intersection(&changed);
        if !lost.is_empty() {
            owned.set.subtract(&lost);
            conflicts.insert(owner.clone(), lost);
        }
        if !removed.is_empty() {
            owned.set.subtract(&removed);
        }
    }
    TakenFields { changed, conflicts }
}

/// Returns the owners after a write that is not an apply.
pub(crate) fn update(
    old: &Value,
    new: &Value,
    schema: &Schema,
    mut managers: Managers,
    owner: &Owner,
    now: &str,
    reset: &[&str],
) -> Managers {
    let changed = take_changes(old, new, schema, &mut managers, None, reset).changed;
    if !changed.is_empty() {
        let mut set = managers.take(owner).map(|o| o.set).unwrap_or_default();
        set.add(changed);
        let owned = Owned {
            set,
            time: now.to_owned(),
        };
        managers.owners.insert(owner.clone(), owned);
    }
    managers.drop_empty();
    managers.cap();
    managers
}

/// The outcome of an apply.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) object: Value,
    pub(crate) managers: Managers,
}

/// A rejected apply.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// The configuration does not fit the schema.
    Malformed(String),
    /// Other owners have fields that the apply would change.
    Conflicts(BTreeMap<Owner, FieldSet>),
}

impl ApplyError {
    /// Converts the error to a `Status`. `subject` is as in `(ns/name; group/version, Kind=Kind)`.
    pub(crate) fn into_status(self, subject: &str) -> Status {
        match self {
            Self::Malformed(why) => Status::new(
                500,
                "",
                format!("failed to create typed patch object {subject}: {why}"),
            ),
            Self::Conflicts(conflicts) => conflict_status(&conflicts),
        }
    }
}

fn conflict_status(conflicts: &BTreeMap<Owner, FieldSet>) -> Status {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    let mut first = String::new();
    for (owner, set) in conflicts {
        let who = owner.show();
        lines.push(format!("conflicts with {who}:"));
        for path in set.paths() {
            first = format!("{who}: {path}");
            lines.push(format!("- {path}"));
            causes.push(json!({"reason": "FieldManagerConflict", "message": format!("conflict with {who}"), "field": path}));
        }
    }
    let message = if causes.len() == 1 {
        format!("Apply failed with 1 conflict: conflict with {first}")
    } else {
        format!(
            "Apply failed with {} conflicts: {}",
            causes.len(),
            lines.join("\n")
        )
    };
    Status::new(409, "Conflict", message).with_details(json!({"causes": causes}))
}

/// The owner and options of an apply.
pub(crate) struct Request<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) owner: &'a Owner,
    /// Whether to take fields from other owners.
    pub(crate) force: bool,
    pub(crate) now: &'a str,
    /// The top-level fields that this write cannot change.
    pub(crate) reset: &'a [&'a str],
}

/// Applies `config` to `live`.
pub(crate) fn apply(
    live: &Value,
    config: &Value,
    mut managers: Managers,
    request: &Request<'_>,
) -> Result<Applied, ApplyError> {
    let Request { schema, owner, .. } = *request;
    if let Some(why) = malformed(config, schema) {
        return Err(ApplyError::Malformed(why));
    }
    let merged = merge(live, config, schema);
    let last = managers.take(owner);
    let owned = Owned {
        set: owned_part(fields_of(config, schema), request.reset),
        time: last.as_ref().map_or_else(String::new, |o| o.time.clone()),
    };
    managers.owners.insert(owner.clone(), owned);
    let object = match last.filter(|last| !last.set.is_empty()) {
        Some(last) => drop_abandoned(merged, &last.set, &managers, request),
        None => merged,
    };
    // An apply that changes no value keeps the time of the last apply; a first apply then has none.
    if object != *live
        && let Some(owned) = managers.owners.get_mut(owner)
    {
        request.now.clone_into(&mut owned.time);
    }
    let conflicts = take_changes(
        live,
        &object,
        schema,
        &mut managers,
        Some(owner),
        request.reset,
    )
    .conflicts;
    if !request.force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    managers.drop_empty();
    Ok(Applied { object, managers })
}

/// Removes the fields that the owner applied last time and that have no owner now.
fn drop_abandoned(
    merged: Value,
    last: &FieldSet,
    managers: &Managers,
    request: &Request<'_>,
) -> Value {
    let Request { schema, owner, .. } = *request;
    let last = with_parents(last, schema);
    let mut left = last.clone();
    let now = managers.owners.get(owner).into_iter();
    for one in now.chain(managers.owners.values()) {
        if left.is_empty() {
            break;
        }
        left.subtract(&with_parents(&one.set, schema));
    }
    if left.is_empty() {
        return merged;
    }
    let merged = &merged;
    let all = with_parents(&fields_of(merged, schema), schema);
    let mut owned = FieldSet::default();
    for one in managers.owners.values() {
        owned.add(one.set.clone());
    }
    let owned = with_parents(&owned, schema);
    let kept = |value: &Value| with_parents(&fields_of(value, schema), schema);
    // `bare` has no field of the last apply. `with_owned` restores the fields that any owner has
    // now, and `gone` excludes fields outside the last apply.
    let bare = without(merged, &last, schema);
    let mut restored = kept(&bare);
    restored.add(owned);
    let mut unowned = all.clone();
    unowned.subtract(&restored);
    let with_owned = without(merged, &unowned, schema);
    let mut gone = all;
    gone.subtract(&kept(&with_owned));
    let gone = gone.intersection(&last);
    without(merged, &gone, schema)
}
