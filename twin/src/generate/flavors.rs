//! Flavors.

use serde_json::{Value, json};

use super::Draft;
use super::features::Feature;
use crate::bodies::cluster_object;
use crate::random::Random;

/// Draws the flavors of all resource groups.
pub(super) fn flavors(random: &mut Random, draft: &mut Draft) -> Vec<Value> {
    let mut objects = if draft.has(Feature::Flavors) {
        let count = 3 + random.below(2);
        several(random, &mut draft.flavors, &["a", "b", "c", "d"][..count])
    } else if random.chance(if draft.is_crowded() { 85 } else { 55 }) {
        draft.flavors = vec!["default@".to_owned()];
        vec![cluster_object("ResourceFlavor", "default@", json!({}))]
    } else {
        several(random, &mut draft.flavors, &["a", "b"])
    };
    if draft.has(Feature::Groups) {
        let count = 1 + usize::from(random.chance(50));
        let pools = &["g", "h"][..count];
        objects.extend(several(random, &mut draft.gpu_flavors, pools));
    }
    objects
}

fn several(random: &mut Random, names: &mut Vec<String>, pools: &[&str]) -> Vec<Value> {
    let taint = json!([{"key": "spot", "value": "true", "effect": "NoSchedule"}]);
    let each = pools.iter().map(|pool| {
        let mut spec = json!({});
        if random.chance(60) {
            // No flavor of the second group gives Pods a label that one of the first gives them.
            let key = if matches!(*pool, "g" | "h") {
                "gpu"
            } else {
                "pool"
            };
            spec["nodeLabels"] = json!({key: pool});
        }
        if random.chance(25) {
            spec["nodeTaints"] = taint.clone();
        }
        if random.chance(10) {
            spec["tolerations"] = json!([{"key": "of-flavor", "operator": "Exists"}]);
        }
        let name = format!("f{pool}@");
        names.push(name.clone());
        cluster_object("ResourceFlavor", &name, spec)
    });
    each.collect()
}
