//! The figures of a ClusterQueue, from the Workloads.

use super::Difference;
use super::trace::Look;
use crate::apiserver::ApiServer;
use crate::kueue::api::kueue;
use crate::kueue::objects::{Workload, read};
use crate::kueue::scheduler::{Usage, show, usage_of};

/// What a look at the ClusterQueue's figures would show here, if it is something else.
pub(super) fn difference(step: &str, recorded: &Look, server: &ApiServer) -> Option<Difference> {
    let workloads = server.objects(&kueue("workloads"), "");
    let workloads = workloads.iter().map(|raw| read::<Workload>(raw));
    let present = figures(workloads.filter(|w| !w.is_finished()));
    (present != without_zero(recorded)).then(|| Difference {
        at: format!("figures at {step:?}"),
        recorded: format!("{recorded:?}"),
        simulated: format!("{present:?}"),
    })
}

fn figures(workloads: impl Iterator<Item = Workload>) -> Look {
    let (mut reserved, mut admitted) = (Usage::default(), Usage::default());
    let mut look = Look::default();
    for workload in workloads.filter(Workload::has_quota) {
        let usage = usage_of(&workload);
        reserved.add_all(&usage);
        look.reserving += 1;
        if workload.is_admitted() {
            admitted.add_all(&usage);
            look.admitted += 1;
        }
    }
    look.reservation = amounts(&reserved);
    look.usage = amounts(&admitted);
    look
}

fn amounts(usage: &Usage) -> Vec<(String, String, String)> {
    let taken = usage.iter().filter(|(_, amount)| **amount != 0);
    taken
        .map(|((flavor, resource), amount)| {
            (flavor.clone(), resource.clone(), show(resource, *amount))
        })
        .collect()
}

fn without_zero(look: &Look) -> Look {
    let mut look = look.clone();
    for list in [&mut look.usage, &mut look.reservation] {
        list.retain(|(.., amount)| amount != "0");
    }
    look
}
