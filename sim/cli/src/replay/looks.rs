//! The figures of a ClusterQueue, recorded and simulated.

use kueue_check_sim::apiserver::ApiServer;
use kueue_check_sim::kueue::QueueUsage;

use super::Difference;

/// Returns the difference between recorded figures and those of `server`, if there is one.
pub(super) fn difference(
    step: &str,
    recorded: &QueueUsage,
    server: &ApiServer,
) -> Option<Difference> {
    let present = QueueUsage::of(server);
    (present != without_zero(recorded)).then(|| Difference {
        at: format!("figures at {step:?}"),
        recorded: format!("{recorded:?}"),
        simulated: format!("{present:?}"),
    })
}

fn without_zero(recorded: &QueueUsage) -> QueueUsage {
    let mut recorded = recorded.clone();
    for list in [&mut recorded.usage, &mut recorded.reservation] {
        list.retain(|(.., amount)| amount != "0");
    }
    recorded
}
