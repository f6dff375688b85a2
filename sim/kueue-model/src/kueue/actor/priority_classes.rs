//! `WorkloadPriorityClass` controller: writes a new value into the Workloads of a class.

use serde_json::json;

use super::Kueue;
use crate::kueue::api::kueue;

impl Kueue {
    /// Writes the value of a class into all its Workloads (Kueue 0.19.2,
    /// `pkg/controller/core/workloadpriorityclass_controller.go`).
    pub(super) fn reconcile_priority_class(&mut self, name: &str) {
        let Some(class) = self.cache.classes.get(name) else {
            return;
        };
        let stale = self.cache.workloads.values().filter(|known| {
            let spec = &known.workload.spec;
            spec.priority_class() == Some(name) && spec.priority != class.value
        });
        for known in stale {
            let mut object = (*known.raw).clone();
            object["spec"]["priority"] = json!(class.value);
            self.api.update(&kueue("workloads"), object, "");
        }
    }
}
