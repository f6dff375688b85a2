//! Discovery documents: `/api` and `/apis`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Kind, Registry};

/// Returns the document `/api`.
pub(crate) fn versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// Returns the document `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let mut names: Vec<&str> = registry
        .iter()
        .map(|k| k.resource.group.as_str())
        .filter(|g| !g.is_empty())
        .collect();
    names.dedup();
    let groups: Vec<Value> = names
        .into_iter()
        .filter_map(|name| group_entry(registry, name))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the document `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut entry = group_entry(registry, name)?;
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

fn group_entry(registry: &Registry, name: &str) -> Option<Value> {
    let mut versions: Vec<&str> = registry
        .iter()
        .filter(|k| k.resource.group == name)
        .map(|k| k.resource.version.as_str())
        .collect();
    versions.sort_by_key(|version| std::cmp::Reverse(order(version)));
    versions.dedup();
    let list: Vec<Value> = versions
        .iter()
        .map(|v| json!({"groupVersion": format!("{name}/{v}"), "version": v}))
        .collect();
    let preferred = list.first()?.clone();
    Some(json!({"name": name, "versions": list, "preferredVersion": preferred}))
}

/// Returns the sort key of a version: stable, then beta, then alpha; newest first in each.
pub(super) fn order(version: &str) -> (u8, u32, u32) {
    let numbers = |text: &str| text.parse::<u32>().unwrap_or(0);
    let rest = version.trim_start_matches('v');
    if let Some((major, minor)) = rest.split_once("beta") {
        (1, numbers(major), numbers(minor))
    } else if let Some((major, minor)) = rest.split_once("alpha") {
        (0, numbers(major), numbers(minor))
    } else {
        (2, numbers(rest), 0)
    }
}

/// Returns the document `/api/v1` or `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    let kinds = registry
        .iter()
        .filter(|k| k.resource.group == group && k.resource.version == version);
    for kind in kinds {
        found.insert(kind.resource.plural.clone(), entry(kind));
        if kind.status {
            let status = json!({
                "name": format!("{}/status", kind.resource.plural), "singularName": "", "namespaced": kind.namespaced, "kind": kind.kind,
                "verbs": ["get", "patch", "update"],
            });
            found.insert(format!("{}/status", kind.resource.plural), status);
        }
    }
    if found.is_empty() {
        return None;
    }
    let name = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let list: Vec<Value> = found.into_values().collect();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": list}),
    )
}

fn entry(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.resource.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = kind.short_names.clone().into();
    }
    if !kind.categories.is_empty() {
        entry["categories"] = kind.categories.clone().into();
    }
    entry
}
