//! A slow API server: slow status writes do not delay the allocation of free money.

use std::sync::Arc;
use std::time::Duration;

use kueue_check_sim::apiserver::{Faults, RequestFault, RequestInfo, Verb};
use kueue_check_sim::{Cluster, Job};

use super::{approved, simulation};

/// A fault: everything that this check writes besides verdicts takes 10 s.
struct Slow;

impl Faults for Slow {
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let call = &request.call;
        let beside = matches!(&*call.resource.plural, "budgets" | "events" | "localqueues");
        let writes = !matches!(call.verb, Verb::List | Verb::Get);
        (beside && writes).then_some(RequestFault::Delay(Duration::from_secs(10)))
    }
}

#[test]
fn money_that_becomes_free_is_given_while_balances_are_being_written() {
    // The part of `a` that the source has not reported yet fits beside `b`.
    simulation("1.1").run(async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.server().set_faults(Arc::new(Slow));
        cluster.submit(Job::new("b"));
        // The status write that nothing fits any more is in flight.
        cluster.expect_message("b", "needs about 1.00 USD").await;
        cluster.advance(Duration::from_secs(1)).await;
        cluster.complete("a");
        cluster.advance(Duration::from_secs(3)).await;
        assert_eq!(approved(cluster, &["b"]), 1, "{}", cluster.message("b"));
    });
}
