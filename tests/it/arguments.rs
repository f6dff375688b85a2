//! A function with arguments of `#[admission_check]` and with methods of `Check`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kueue_check::prelude::*;
use kueue_check::{HumanDuration, OnTimeout, PendingTimeout};
use kueue_check_sim::simulation::CheckContext;
use kueue_check_sim::{Job, Simulation};

/// Seats that jobs hold. They outlive the check's processes.
type Seats = Arc<Mutex<BTreeSet<String>>>;

/// One seat for all jobs.
#[admission_check(
    controller = "example.com/seats",
    timeout = "5s",
    annotations = ["example.com/"],
    policy = pending_for(Duration::from_mins(5)),
    on_release = release,
)]
async fn seats(reservation: Reservation, State(seats): State<Seats>) -> Verdict {
    let mut seats = seats.lock().unwrap();
    let seat = reservation.to_string();
    if seats.contains(&seat) || seats.is_empty() {
        seats.insert(seat);
        return Verdict::ready("has the seat");
    }
    Verdict::pending("the seat is taken").recheck_in(Duration::from_secs(20))
}

#[expect(clippy::unused_async, reason = "a release is async")]
async fn release(
    held: Arc<Seats>,
    reservation: Reservation,
    _: ReleaseReason,
) -> Result<ReleaseOutcome, CheckError> {
    held.lock().unwrap().remove(&reservation.to_string());
    Ok(ReleaseOutcome::Done)
}

fn pending_for(limit: Duration) -> Policy {
    Policy {
        pending_timeout: Some(PendingTimeout {
            after: HumanDuration::from(limit),
            then: OnTimeout::Reject,
        }),
        ..Policy::default()
    }
}

#[test]
fn a_function_releases_and_has_a_policy_by_its_arguments() {
    let make = |context: &CheckContext| seats.with_state(context.external(Seats::default));
    Simulation::with_context(make).run(async |cluster| {
        cluster.submit(Job::new("first"));
        cluster.expect_admitted("first").await;
        cluster.submit(Job::new("second"));
        cluster.expect_message("second", "the seat is taken").await;
        cluster.complete("first");
        cluster.expect_admitted("second").await;
        cluster.submit(Job::new("third"));
        cluster.expect_message("third", "the seat is taken").await;
        cluster.expect_deactivated("third").await;
        cluster.complete("second");
        let held = cluster.external::<Seats>();
        let is_free = move |_: &kueue_check_sim::Cluster| held.lock().unwrap().is_empty();
        cluster.expect("the seat is free", is_free).await;
    });
}

/// Every job may start.
#[admission_check(controller = "example.com/open")]
async fn open() -> Verdict {
    Verdict::ready("open")
}

#[test]
fn a_function_grows_by_methods_without_being_rewritten() {
    let make = |context: &CheckContext| {
        let over = context.external(Seats::default);
        Check::new(open).on_release(move |reservation, _| {
            let over = Arc::clone(&over);
            async move {
                over.lock().unwrap().insert(reservation.name().to_owned());
                Ok(ReleaseOutcome::Done)
            }
        })
    };
    Simulation::with_context(make).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_admitted("train").await;
        cluster.complete("train");
        let over = cluster.external::<Seats>();
        let released = move |_: &kueue_check_sim::Cluster| over.lock().unwrap().len() == 1;
        cluster
            .expect("the reservation is released", released)
            .await;
    });
}

#[tokio::test]
async fn a_function_is_previewed_as_declared_and_by_default_if_it_has_no_state() {
    #[admission_check(controller = "example.com/effects", previewable = false)]
    async fn effects() -> Verdict {
        Verdict::ready("")
    }
    #[admission_check(controller = "example.com/prices", previewable)]
    async fn prices(_: State<u32>) -> Verdict {
        Verdict::ready("")
    }
    let previewed = async |check: Check| {
        let object = serde_json::json!({"metadata": {"namespace": "n", "name": "w", "uid": "u"}});
        let workload = Workload::from_json(object).unwrap();
        let request = kueue_check::RequestBuilder::new(workload, "c").build(NoParameters);
        check.preview(request).await.unwrap().verdict().is_some()
    };
    assert!(previewed(Check::new(open)).await);
    assert!(!previewed(Check::new(effects)).await);
    assert!(previewed(prices.with_state(1)).await);
    assert!(!previewed(seats.with_state(Seats::default())).await);
}

/// Checks whose names are those of likely locals. All are unit structs, which a binding of the same
/// name would match instead of shadowing it.
mod likely_names {
    use std::sync::Arc;

    use kueue_check::api::AdmissionCheck;
    use kueue_check::prelude::*;
    use kueue_check::{Inactive, NoParameters};

    macro_rules! ready {
        ($($name:ident = $controller:literal),*) => {$(
            #[admission_check(controller = $controller, timeout = "5s")]
            pub(super) async fn $name() -> Verdict {
                Verdict::ready(stringify!($name))
            }
        )*};
    }

    ready!(
        check = "example.com/check",
        state = "example.com/state",
        request = "example.com/request",
        name = "example.com/name",
        a = "example.com/a",
        b = "example.com/b"
    );

    #[admission_check(
        controller = "example.com/stateful",
        on_activate = activate,
        policy = Policy::default(),
    )]
    pub(super) async fn stateful(State(text): State<String>) -> Verdict {
        Verdict::ready(text)
    }

    #[expect(clippy::unused_async, reason = "an activation is async")]
    async fn activate(
        _: Arc<String>,
        _: AdmissionCheck,
        _: Arc<NoParameters>,
    ) -> Result<(), Inactive> {
        Ok(())
    }
}

#[test]
fn a_check_may_have_any_name() {
    use likely_names::{a, b, check, name, request, state, stateful};

    Simulation::new(|| stateful.with_state("the state".to_owned()))
        .and("1", |_| check)
        .and("2", |_| state)
        .and("3", |_| request)
        .and("4", |_| name)
        .and("5", |_| a)
        .and("6", |_| b)
        .run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_message("train", "the state").await;
            cluster.expect_admitted("train").await;
        });
}
