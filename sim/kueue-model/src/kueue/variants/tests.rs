//! Tests of the next step for parents and variants.

use serde_json::json;

use super::{Next, next};
use crate::kueue::objects::{ClusterQueue, Condition, True, Workload};

/// Returns a Workload: `q` with quota, `a` admitted, `e` evicted, `i` inactive, `f` finished.
fn workload(name: &str, state: &str) -> Workload {
    let condition = |kind: &str, letter: char| json!({"type": kind, "status": if state.contains(letter) { "True" } else { "False" }});
    let annotations = json!({"kueue.x-k8s.io/workload-allowed-resource-flavors": name});
    serde_json::from_value(json!({
        "metadata": {"namespace": "t", "name": name, "annotations": annotations},
        "spec": {"active": !state.contains('i')},
        "status": {"conditions": [
            condition("QuotaReserved", 'q'), condition("Admitted", 'a'),
            condition("Evicted", 'e'), condition("Finished", 'f'),
        ]},
    }))
    .unwrap()
}

fn decided(mode: &str, parent: &str, spot: &str, ondemand: &str) -> String {
    let queue: ClusterQueue = serde_json::from_value(json!({"metadata": {"name": "cq"}, "spec": {
        "concurrentAdmissionPolicy": {"migration": {"mode": mode}},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "spot"}, {"name": "ondemand"}]}],
    }}))
    .unwrap();
    let finished = parent.contains('f').then(|| {
        Condition::new(
            "Finished",
            True(true),
            "Succeeded",
            "",
            jiff::Timestamp::UNIX_EPOCH,
        )
    });
    let all = [("ondemand", ondemand), ("spot", spot)];
    let variants = all.iter().filter(|(_, state)| *state != "-");
    let variants: Vec<Workload> = variants
        .map(|(name, state)| workload(name, state))
        .collect();
    let name = |workload: &Workload| workload.metadata.name.clone();
    let now = jiff::Timestamp::UNIX_EPOCH;
    match next(
        &workload("p", parent),
        &variants,
        finished.as_ref(),
        &queue,
        now,
    ) {
        Next::Nothing => "nothing".to_owned(),
        Next::Create(flavors) => format!("create {}", flavors.join(" ")),
        Next::Delete(variant) => format!("delete {}", name(variant)),
        Next::EvictParent(reason, _) => format!("evict parent {reason}"),
        Next::Clear(variant) => format!("clear {}", name(variant)),
        Next::Deactivate(variant, _) => format!("deactivate {}", name(variant)),
        Next::Activate(variant, _) => format!("activate {}", name(variant)),
        Next::Finish(variant, _) => format!("finish {}", name(variant)),
        Next::Admit(variant) => format!("admit {}", name(variant)),
        Next::OpenGate(variant) => format!("open {}", name(variant)),
        Next::Wait(_) => "wait".to_owned(),
    }
}

#[test]
fn one_variant_starts_the_job() {
    let (tries, retains) = ("TryPreferredFlavors", "RetainFirstAdmission");
    // Parent, variant of the better flavor, variant of the other.
    let table = [
        (tries, "", "-", "-", "create spot ondemand"),
        (tries, "", "q", "-", "create ondemand"),
        (tries, "", "q", "q", "nothing"),
        (tries, "", "q", "qa", "admit ondemand"),
        (tries, "qa", "q", "qa", "nothing"),
        // The better variant is admitted: the other is evicted, and the job with it.
        (tries, "qa", "qa", "qa", "deactivate ondemand"),
        (tries, "qa", "qa", "qaei", "evict parent VariantEvicted"),
        (tries, "qae", "qa", "qaei", "nothing"),
        (tries, "", "qa", "qaei", "clear ondemand"),
        (tries, "", "qa", "i", "admit spot"),
        // A variant that a check has rejected is activated again, without effect.
        (tries, "", "q", "qei", "clear ondemand"),
        (tries, "", "q", "i", "activate ondemand"),
        (tries, "qa", "", "i", "activate ondemand"),
        (tries, "qa", "q", "", "evict parent ConcurrentAdmission"),
        (tries, "qa", "i", "qa", "activate spot"),
        (retains, "qa", "i", "qa", "nothing"),
        (retains, "qa", "q", "qa", "deactivate spot"),
        (tries, "i", "q", "q", "deactivate spot"),
        (tries, "qaf", "qa", "i", "finish spot"),
        (tries, "qaf", "qaf", "if", "nothing"),
    ];
    for (mode, parent, spot, ondemand, expected) in table {
        assert_eq!(
            decided(mode, parent, spot, ondemand),
            expected,
            "{parent}, {spot}, {ondemand}"
        );
    }
}

#[test]
fn gates_open_one_after_another_once_all_better_ones_were_tried() {
    let start = jiff::Timestamp::UNIX_EPOCH;
    let at = |minutes: i64| start + jiff::SignedDuration::from_mins(minutes);
    // `b` needs preemptions, `t` tried and waits for other reasons, `-` not tried, `o` open since
    // then.
    let variant = |name: &str, state: &str| {
        let mut variant = workload(name, "");
        let gates = json!([{"name": super::GATE}]);
        variant.spec.preemption_gates = serde_json::from_value(gates).unwrap();
        let condition =
            |kind: &str| Condition::new(kind, True(kind == super::BLOCKED), "", "", start);
        variant.status.conditions = crate::kueue::objects::Conditions::default();
        if state.contains(['b', 't', 'o']) {
            variant.status.conditions.set(condition("QuotaReserved"));
        }
        if state.contains(['b', 'o']) {
            variant.status.conditions.set(condition(super::BLOCKED));
        }
        if state.contains('o') {
            variant.open_gate(super::GATE, start);
        }
        variant
    };
    let next = |states: [&str; 3], minutes: i64| {
        let all: Vec<Workload> = states
            .iter()
            .zip(["a", "b", "c"])
            .map(|(state, name)| variant(name, state))
            .collect();
        let all: Vec<&Workload> = all.iter().collect();
        match super::next_gate(&all, at(minutes)) {
            Next::OpenGate(variant) => variant.metadata.name.clone(),
            Next::Wait(until) => format!("wait until {}", until.duration_since(start).as_mins()),
            _ => "nothing".to_owned(),
        }
    };
    for (states, minutes, expected) in [
        (["b", "b", "-"], 0, "a"),
        (["t", "b", "-"], 0, "b"),
        (["-", "b", "b"], 0, "nothing"),
        (["t", "t", "t"], 0, "nothing"),
        (["o", "b", "b"], 0, "wait until 5"),
        (["o", "b", "b"], 5, "b"),
        (["o", "-", "b"], 9, "nothing"),
    ] {
        assert_eq!(
            next(states, minutes),
            expected,
            "{states:?} after {minutes}"
        );
    }
}
