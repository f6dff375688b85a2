//! A job starts only when a licence is free: a check with state, release and a watch of its own.
//!
//! Licences are counted in memory. That is safe across restarts, because a new leader evaluates what
//! was approved before anything new; and a replica that loses leadership ends its process, so it
//! never leads again with what it counted before.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::CustomResource;
use kueue_check::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// How many licences there are.
#[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1alpha1", kind = "LicencePool")]
struct LicencePoolSpec {
    total: usize,
    #[serde(flatten)]
    policy: Policy,
}

/// Who holds a licence, by pool.
struct Licences {
    held: Mutex<BTreeSet<Reservation>>,
    returned: broadcast::Sender<String>,
}

impl Licences {
    fn held(&self) -> MutexGuard<'_, BTreeSet<Reservation>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdmissionCheckController for Licences {
    type Parameters = LicencePool;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/licences") }
    }

    async fn check(&self, request: CheckRequest<LicencePool>) -> Result<Verdict, CheckError> {
        let total = request.parameters().spec.total;
        let pool = request.admission_check();
        let approved = request
            .workload()
            .check(pool)
            .is_some_and(|entry| entry.state().as_str() == "Ready");
        let mut held = self.held();
        let in_use = held
            .iter()
            .filter(|reservation| reservation.admission_check() == pool)
            .count();
        // Who was told Ready has one, whatever this process remembers.
        if !approved && !held.contains(request.reservation()) && in_use >= total {
            return Ok(Verdict::pending(format!("all {total} licences are in use")));
        }
        held.insert(request.reservation().clone());
        let names = request.workload().pod_sets().iter().map(PodSet::name);
        let licence = request.reservation().since().as_second().to_string();
        let updates = PodSetUpdates::builder()
            .pod_sets(names, |pods| {
                pods.annotation("example.com/licence", &licence)
            })
            .build()?;
        Ok(Verdict::ready("has a licence").with_updates(updates))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        _: ReleaseReason,
    ) -> Result<Released, CheckError> {
        if self.held().remove(reservation) {
            // Nobody listens while nothing waits.
            let _ = self.returned.send(reservation.admission_check().to_owned());
        }
        Ok(Released::Done)
    }

    fn watches(&self) -> Watches {
        let returned = futures::stream::unfold(self.returned.subscribe(), async |mut returned| {
            loop {
                match returned.recv().await {
                    Ok(pool) => return Some((pool, returned)),
                    // Some were missed; the next one wakes the same Workloads.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        });
        Watches::none().stream("returned licences", returned.map(Wake::AdmissionCheck))
    }
}

#[tokio::main]
async fn main() -> kueue_check::Result<()> {
    let licences = Licences {
        held: Mutex::default(),
        returned: broadcast::channel(64).0,
    };
    kueue_check::main(licences).await
}
