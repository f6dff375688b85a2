//! Field managers of a write.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::prepared::PreparedWrite;
use super::{Context, builtin};
use crate::apply::{self, Managers, Owner};
use crate::kinds::Kind;
use crate::metadata::list;
use crate::schema::{Schema, prune};

/// Returns the field manager of this request.
pub(super) fn owner(context: &Context<'_>, applies: bool) -> Owner {
    Owner {
        manager: context.manager(),
        applies,
        api_version: context.kind.api_version(),
        subresource: context.subresource().to_owned(),
    }
}

/// Assigns the changed fields to the client that wrote them.
pub(super) fn own(context: &Context<'_>, prepared: &mut PreparedWrite) {
    let kind = &context.kind;
    let sent = prepared.new["metadata"]["managedFields"].as_array();
    // A write of a subresource cannot change the owners of others.
    let sent = sent.filter(|_| context.subresource().is_empty());
    // One empty entry clears all owners. Clients that do not use field managers send no entry,
    // which changes nothing.
    let cleared = sent.is_some_and(|s| s.len() == 1 && s[0].as_object().is_some_and(Map::is_empty));
    let managers = match &prepared.old {
        _ if cleared => Managers::default(),
        _ if sent.is_some_and(|sent| are_usable(sent)) => Managers::of(&prepared.new),
        Some(old) => Managers::of(old),
        None => Managers::default(),
    };
    // Cleared owners stay cleared until a client applies.
    if prepared.old.is_some() && managers.owners.is_empty() {
        managers.write_to(&mut prepared.new);
        return;
    }
    let empty;
    let old = if let Some(old) = prepared.old.as_deref() {
        old
    } else {
        empty = builtin::zero(kind);
        &empty
    };
    if loses_owners(kind, &managers, [old, &prepared.new]) {
        Managers::default().write_to(&mut prepared.new);
        return;
    }
    let next = apply::update(
        old,
        &prepared.new,
        &kind.schema,
        managers,
        &owner(context, false),
        &context.now,
        apply::reset_fields(kind, context.subresource()),
    );
    next.write_to(&mut prepared.new);
}

/// Returns true if an object before or after a change has a field that the version of one of its
/// owners does not have. The fields can't be compared in that version then, and all owners are lost
/// (Kubernetes 1.36.3, `UpdateNoErrors` in
/// `apimachinery/pkg/util/managedfields/internal/fieldmanager.go`).
fn loses_owners(kind: &Kind, managers: &Managers, objects: [&Value; 2]) -> bool {
    let mut schemas: Vec<_> = managers
        .owners
        .keys()
        .filter_map(|owner| kind.other_schema(&owner.api_version))
        .collect();
    schemas.dedup_by(|a, b| Arc::ptr_eq(a, b));
    let lacks = |schema: &Schema, object: &Value| !prune(&mut object.clone(), schema).is_empty();
    schemas
        .iter()
        .any(|schema| objects.iter().any(|object| lacks(schema, object)))
}

/// Returns true if a client sent owners that can be read. Otherwise those that are stored count.
fn are_usable(sent: &[Value]) -> bool {
    let is_usable = |entry: &Value| {
        matches!(entry["operation"].as_str(), Some("Apply" | "Update"))
            && entry["apiVersion"]
                .as_str()
                .is_some_and(|version| !version.is_empty())
            && entry["fieldsType"] == "FieldsV1"
    };
    !sent.is_empty() && sent.iter().all(is_usable)
}

/// Keeps the times of the owners if nothing else differs: nothing was written.
pub(super) fn keep_times(old: &Value, new: &mut Value) {
    let timeless = |a: &Value, b: &Value| {
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
            return false;
        };
        let has = |map: &Map<String, Value>| usize::from(map.contains_key("time"));
        a.len() - has(a) == b.len() - has(b)
            && a.iter()
                .all(|(name, value)| name == "time" || b.get(name) == Some(value))
    };
    let (before, after) = (list(old, "managedFields"), list(new, "managedFields"));
    let same = before.len() == after.len()
        // The order of entries depends on their times.
        && before.iter().all(|entry| after.iter().any(|other| timeless(entry, other)));
    if !same || before == after {
        return;
    }
    let with = Value::Array(before.to_vec());
    let taken = std::mem::replace(&mut new["metadata"]["managedFields"], with);
    if new != old {
        new["metadata"]["managedFields"] = taken;
    }
}
