//! Field managers: `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::set::FieldSet;
use crate::metadata;

/// A field manager: an owner of fields, with its kind of write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) manager: String,
    /// True for apply, false for any other write.
    pub(crate) applies: bool,
    /// For an apply it does not distinguish owners; it is the version of the last apply.
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl Owner {
    fn operation(&self) -> &'static str {
        if self.applies { "Apply" } else { "Update" }
    }

    /// Formats the owner as conflict messages do.
    pub(crate) fn show(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        if self.applies {
            text
        } else {
            format!("{text} using {}", self.api_version)
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.applies == other.applies
            && self.subresource == other.subresource
            && (self.applies || self.api_version == other.api_version)
    }
}

/// The fields of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) set: FieldSet,
    pub(crate) time: String,
}

/// All field managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    pub(crate) owners: BTreeMap<Owner, Owned>,
}

impl Managers {
    /// Reads the field managers from an object's metadata.
    pub(crate) fn of(object: &Value) -> Self {
        let mut owners = BTreeMap::new();
        for entry in metadata::list(object, "managedFields") {
            let text = |name: &str| {
                entry
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let owner = Owner {
                manager: text("manager"),
                applies: text("operation") == "Apply",
                api_version: text("apiVersion"),
                subresource: text("subresource"),
            };
            let set = entry
                .get("fieldsV1")
                .map(FieldSet::decode)
                .unwrap_or_default();
            owners.insert(
                owner,
                Owned {
                    set,
                    time: text("time"),
                },
            );
        }
        Self { owners }
    }

    /// Removes and returns the entry of this owner; for an apply, in any version.
    pub(crate) fn take(&mut self, owner: &Owner) -> Option<Owned> {
        let found = self.owners.keys().find(|o| o.is_same(owner))?.clone();
        self.owners.remove(&found)
    }

    pub(crate) fn drop_empty(&mut self) {
        self.owners.retain(|_, owned| !owned.set.is_empty());
    }

    /// Limits the entries of owners that do not apply to ten. The oldest entries are merged into
    /// `ancient-changes`.
    pub(crate) fn cap(&mut self) {
        const MAX: usize = 10;
        let mut updates: Vec<(String, Owner)> = self
            .owners
            .iter()
            .filter(|(owner, _)| !owner.applies)
            .map(|(owner, owned)| (owned.time.clone(), owner.clone()))
            .collect();
        if updates.len() <= MAX {
            return;
        }
        updates.sort();
        let mut left = updates.len();
        for (_, owner) in updates {
            if left <= MAX {
                return;
            }
            let bucket = Owner {
                manager: "ancient-changes".to_owned(),
                subresource: String::new(),
                ..owner.clone()
            };
            let Some(owned) = self.owners.remove(&owner) else {
                continue;
            };
            match self.owners.get_mut(&bucket) {
                Some(old) => {
                    old.set.add(owned.set);
                    left -= 1;
                }
                None => {
                    self.owners.insert(bucket, owned);
                }
            }
        }
    }

    /// Returns the entries of `metadata.managedFields`, in the order of the real server.
    pub(crate) fn encode(&self) -> Vec<Value> {
        let mut entries: Vec<(&Owner, &Owned)> = self.owners.iter().collect();
        entries.sort_by(|(a, x), (b, y)| {
            (
                a.operation(),
                &x.time,
                &a.manager,
                &a.api_version,
                &a.subresource,
            )
                .cmp(&(
                    b.operation(),
                    &y.time,
                    &b.manager,
                    &b.api_version,
                    &b.subresource,
                ))
        });
        entries
            .into_iter()
            .map(|(owner, owned)| {
                let mut entry = json!({
                    "manager": owner.manager, "operation": owner.operation(), "apiVersion": owner.api_version, "fieldsType": "FieldsV1",
                });
                entry["fieldsV1"] = owned.set.encode();
                if !owned.time.is_empty() {
                    entry["time"] = owned.time.clone().into();
                }
                if !owner.subresource.is_empty() {
                    entry["subresource"] = owner.subresource.clone().into();
                }
                entry
            })
            .collect()
    }

    /// Writes the field managers into an object's metadata.
    pub(crate) fn write_to(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let entries = self.encode();
        if entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{manager}"): {}}, "time": time})
    }

    fn names(managers: &Managers) -> Vec<String> {
        let entries = managers.encode();
        let name = |entry: &Value| entry["manager"].as_str().unwrap_or_default().to_owned();
        entries.iter().map(name).collect()
    }

    #[test]
    fn appliers_come_first_and_then_who_wrote_first() {
        let entries = [
            entry("a", "Update", "2025-03-01T09:00:02Z"),
            entry("b", "Update", "2025-03-01T09:00:01Z"),
            entry("d", "Apply", "2025-03-01T09:00:09Z"),
            entry("c", "Apply", "2025-03-01T09:00:09Z"),
        ];
        let managers = Managers::of(&json!({"metadata": {"managedFields": entries}}));
        assert_eq!(names(&managers), ["c", "d", "b", "a"]);
    }

    #[test]
    fn the_oldest_of_many_are_put_together() {
        let entries: Vec<Value> = (0..12)
            .map(|n| {
                entry(
                    &format!("m{n:02}"),
                    "Update",
                    &format!("2025-03-01T09:00:{n:02}Z"),
                )
            })
            .collect();
        let mut managers = Managers::of(&json!({"metadata": {"managedFields": entries}}));
        managers.cap();
        let names = names(&managers);
        assert_eq!(names.len(), 10);
        assert_eq!(names[0], "ancient-changes");
        assert_eq!(names[1], "m03");
    }
}
