//! ResourceFlavor controller: the finalizer, and tasks enqueued on changes.
//!
//! The rules are those of Kueue 0.19.2: `pkg/controller/core/resourceflavor_controller.go`.

use serde_json::json;

use super::cache::Change;
use super::{Kueue, Task};
use crate::kueue::api::kueue;
use crate::kueue::objects::{FINALIZER, ResourceFlavor};

impl Kueue {
    pub(super) fn flavor_changed(&mut self, change: &Change<ResourceFlavor>) {
        let (old, new) = match change {
            Change::Now { old, new } => (old.as_ref(), new),
            Change::Gone(gone) => (Some(gone), gone),
        };
        let name = new.metadata.name.as_str();
        self.enqueue(Task::Flavor(name.to_owned()));
        let gone = matches!(change, Change::Gone(_));
        if new.metadata.deletion_timestamp.is_some() && !gone {
            return;
        }
        let came = old.is_none_or(|old| old.spec.topology_name != new.spec.topology_name) || gone;
        let unchanged = old.is_some_and(|old| old.spec == new.spec);
        if !came && unchanged {
            return;
        }
        for user in self.users_of(name) {
            if came {
                self.may_be_active(&user);
                self.batch(Task::ClusterQueue(user));
            } else if self.version.retries_on_flavor_changes {
                self.quota_changed(&user);
            } else {
                self.retry_head(user);
            }
        }
    }

    /// Returns the ClusterQueues that name a flavor.
    fn users_of(&self, flavor: &str) -> Vec<String> {
        let queues = self.cache.cluster_queues.values();
        let users = queues.filter(|queue| queue.flavors().any(|name| name == flavor));
        users.map(|queue| queue.metadata.name.clone()).collect()
    }

    /// Reconciles the finalizer of a flavor. A flavor that is being deleted keeps it while a
    /// ClusterQueue names the flavor.
    pub(super) fn reconcile_flavor(&mut self, name: &str) {
        let Some(flavor) = self.cache.flavors.get(name) else {
            return;
        };
        let has = flavor.metadata.finalizers.iter().any(|f| f == FINALIZER);
        let going = flavor.metadata.deletion_timestamp.is_some();
        let wanted = !going || has && !self.users_of(name).is_empty();
        if wanted == has {
            return;
        }
        let Some(raw) = self.api.get(&kueue("resourceflavors"), "", name) else {
            return;
        };
        let mut object = (*raw).clone();
        let mut finalizers = flavor.metadata.finalizers.clone();
        finalizers.retain(|f| f != FINALIZER);
        if wanted {
            finalizers.push(FINALIZER.to_owned());
        }
        object["metadata"]["finalizers"] = json!(finalizers);
        self.api.update(&kueue("resourceflavors"), object, "");
    }
}
