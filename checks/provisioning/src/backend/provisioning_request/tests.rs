use std::collections::BTreeMap;

use kueue_check::api::Uid;
use serde_json::{Value, json};

use super::*;
use crate::backend::{Owner, Pods, owner_reference};
use crate::request::{FailureCounts, FailureKind, Phase, RequestAnnotations};

fn plan(mark: RequestAnnotations) -> RequestPlan {
    let pods = |name: &str, count| Pods {
        template_name: format!("ppt-wl-pr-1-{name}"),
        template: json!({}),
        count,
    };
    RequestPlan {
        namespace: "t".to_owned(),
        name: "wl-pr-1".to_owned(),
        workload: Owner {
            api_version: "kueue.x-k8s.io/v1beta2".to_owned(),
            name: "wl".to_owned(),
            uid: Uid::new("w-1"),
        },
        mark,
        class: "class1".to_owned(),
        parameters: [("p1".to_owned(), "v1".to_owned())].into(),
        pods: vec![pods("driver", 1), pods("workers", 3)],
    }
}

fn mark() -> RequestAnnotations {
    RequestAnnotations {
        controller: "example.com/capacity".into(),
        check: "pr".into(),
        attempt: 2,
        reserved: 1_795_000_000,
        family: Some(Uid::new("job-uid")),
        tally: FailureCounts {
            errors: 1,
            no_capacity: 3,
        },
        keep_failed: true,
        merged: BTreeMap::from([("workers".into(), vec!["more".into()])]),
    }
}

/// Returns the owner reference to the first template.
fn owner() -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate", "name": "ppt-wl-pr-1-driver", "uid": "t-1", "controller": true})
}

fn read(object: Value) -> Option<CapacityRequest> {
    view::view(&serde_json::from_value::<RequestObject>(object).unwrap())
}

#[test]
fn what_is_created_is_what_kueue_creates_and_our_annotations() {
    let object = construct::object(&plan(mark()), &owner());
    assert_eq!(
        object["metadata"]["labels"],
        json!({"kueue.x-k8s.io/managed": "true"})
    );
    assert_eq!(object["metadata"]["ownerReferences"], json!([owner()]));
    let spec = json!({
        "provisioningClassName": "class1", "parameters": {"p1": "v1"},
        "podSets": [
            {"count": 1, "podTemplateRef": {"name": "ppt-wl-pr-1-driver"}},
            {"count": 3, "podTemplateRef": {"name": "ppt-wl-pr-1-workers"}},
        ],
    });
    assert_eq!(object["spec"], spec);
}

#[test]
fn owner_references_do_not_block_the_deletion_of_the_owner() {
    let of_template = owner_reference("v1", "PodTemplate", "ppt-wl-pr-1-driver", &Uid::new("t-1"));
    assert_eq!(of_template, owner());
    let of_workload = plan(mark()).workload.reference();
    assert_eq!(
        of_workload,
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "wl", "uid": "w-1", "controller": true})
    );
}

#[test]
fn what_was_written_on_a_request_is_read_again() {
    for mark in [
        mark(),
        RequestAnnotations {
            tally: FailureCounts::default(),
            keep_failed: false,
            merged: BTreeMap::new(),
            ..mark()
        },
    ] {
        let request = read(construct::object(&plan(mark.clone()), &owner())).unwrap();
        assert_eq!(request.mark, Some(mark));
        assert_eq!(request.workload, Uid::new("w-1"));
        assert_eq!(&*request.workload_name, "wl");
        let pods = request
            .pods
            .iter()
            .map(|pods| (&*pods.template, pods.count));
        let requested: Vec<(&str, u64)> = pods.collect();
        assert_eq!(
            requested,
            [("ppt-wl-pr-1-driver", 1), ("ppt-wl-pr-1-workers", 3)]
        );
        assert_eq!(request.phase, Phase::New);
    }
}

#[test]
fn a_request_that_kueue_made_is_for_the_workload_that_owns_it() {
    let mut owner = json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "name": "wl", "uid": "w-2"});
    let owned =
        |owner: &Value| read(json!({"metadata": {"name": "x", "ownerReferences": [owner]}}));
    assert_eq!(owned(&owner), None, "an owner that does not control it");
    owner["controller"] = json!(true);
    let request = owned(&owner).unwrap();
    assert_eq!((request.workload, request.mark), (Uid::new("w-2"), None));
}

#[test]
fn an_object_of_another_owner_is_no_request() {
    let owner = json!({"apiVersion": "batch/v1", "kind": "Workload", "name": "wl", "uid": "1"});
    for owners in [json!(null), json!([]), json!([owner])] {
        assert_eq!(
            read(json!({"metadata": {"name": "x", "ownerReferences": owners}})),
            None
        );
    }
}

fn with_status(status: Value) -> CapacityRequest {
    let mut object = construct::object(&plan(mark()), &owner());
    object["metadata"]["creationTimestamp"] = json!("2026-11-21T09:00:00Z");
    object["status"] = status;
    read(object).unwrap()
}

#[test]
fn of_several_conditions_the_first_in_kueues_order_counts() {
    let at = "2026-11-21T09:01:00Z";
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": format!("{kind}!"), "lastTransitionTime": at});
    let yes = |kind: &str| condition(kind, "True", kind);
    let message = |kind: &str| -> Box<str> { format!("{kind}!").into() };
    let failed = |kind| Phase::Failed {
        kind,
        at: at.parse().unwrap(),
        message: message("Failed"),
    };
    let waiting = Phase::Waiting {
        message: message("Provisioned"),
    };
    let not_found = condition("Provisioned", "False", "CapacityIsNotFound");
    let table = [
        (
            json!([
                yes("Accepted"),
                yes("Provisioned"),
                yes("BookingExpired"),
                yes("CapacityRevoked"),
                yes("Failed")
            ]),
            failed(FailureKind::Error),
        ),
        (
            json!([condition("Failed", "True", "CapacityIsNotFound")]),
            failed(FailureKind::NoCapacity),
        ),
        (
            json!([condition("Failed", "False", "x"), yes("Accepted")]),
            Phase::Accepted,
        ),
        (
            json!([
                yes("Provisioned"),
                yes("BookingExpired"),
                yes("CapacityRevoked")
            ]),
            Phase::Revoked {
                at: at.parse().unwrap(),
                message: message("CapacityRevoked"),
            },
        ),
        (
            json!([yes("Provisioned"), yes("BookingExpired")]),
            Phase::BookingExpired {
                at: at.parse().unwrap(),
                message: message("BookingExpired"),
            },
        ),
        (
            json!([yes("Accepted"), yes("Provisioned")]),
            Phase::Provisioned {
                message: message("Provisioned"),
            },
        ),
        (json!([yes("Accepted"), not_found.clone()]), waiting),
        (json!([yes("Accepted")]), Phase::Accepted),
        (
            json!([condition("Accepted", "False", "NotAccepted")]),
            Phase::New,
        ),
        (json!([not_found]), Phase::New),
        (json!([]), Phase::New),
        (Value::Null, Phase::New),
        (json!("odd"), Phase::New),
    ];
    for (conditions, phase) in table {
        let request = with_status(
            json!({"conditions": conditions.clone(), "provisioningClassDetails": null}),
        );
        assert_eq!(request.phase, phase, "{conditions}");
    }
}

#[test]
fn details_are_read() {
    let request = with_status(json!({"provisioningClassDetails": {"NodePoolName": "p"}}));
    assert_eq!(
        request.details.get("NodePoolName").map(|name| &**name),
        Some("p")
    );
}

#[test]
fn a_reserved_class_that_no_autoscaler_handles_is_reported() {
    let ok = [
        "check-capacity.autoscaling.x-k8s.io",
        "my-instance.check-capacity.autoscaling.x-k8s.io",
        "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        "queued-provisioning.gke.io",
        "example.com",
        "class1",
        "atomic.acme-kubernetes.io",
        "pool.mykubernetes.io",
    ];
    for class in ok {
        assert!(available::known(class, false).is_ok(), "{class}");
    }
    for class in ["typo.kubernetes.io", "kubernetes.io", "typo.x-k8s.io"] {
        assert!(available::known(class, false).is_err(), "{class}");
    }
    let typo = "check-capcity.autoscaling.x-k8s.io";
    assert!(available::known(typo, false).is_err());
    assert!(
        available::known(typo, true).is_ok(),
        "an autoscaler handles it"
    );
}
