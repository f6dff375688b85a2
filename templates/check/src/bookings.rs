//! What the check starts for a job, and stops when the job is over: here a ConfigMap in the job's namespace, with what was booked for it.
//!
//! A licence, a volume or a machine is booked in the same three steps: under a name that follows from the reservation, so that booking twice books once;
//! cancelled by that name, whether it is there or not; and listed, so that nothing is left over from a process that died.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kueue_check::prelude::{CheckError, Reservation};
use serde_json::json;

const LABEL: &str = "{{ controller_name | split: "/" | first }}/booked-by";
const ANNOTATION: &str = "{{ controller_name | split: "/" | first }}/reservation";
const PROGRAM: &str = "{{ project-name }}";

/// The bookings on a cluster.
#[derive(Clone)]
pub struct Bookings(Client);

impl Bookings {
    /// Those on the cluster of `client`.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// Books `pods` for a reservation. One that is booked already stays as it is.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn book(&self, reservation: &Reservation, pods: u32) -> Result<(), CheckError> {
        let name = name(reservation);
        let booking = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": {LABEL: PROGRAM},
                "annotations": {ANNOTATION: reservation.to_string()},
            },
            "data": {"workload": reservation.name(), "pods": pods.to_string()},
        });
        let parameters = PatchParams::apply(PROGRAM).force();
        self.of(reservation).patch(&name, &parameters, &Patch::Apply(booking)).await?;
        Ok(())
    }

    /// Cancels what was booked for a reservation, if anything was.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn cancel(&self, reservation: &Reservation) -> Result<(), CheckError> {
        match self.of(reservation).delete(&name(reservation), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// The reservations for which something is booked.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn all(&self) -> Result<Vec<Reservation>, CheckError> {
        let selected = ListParams::default().labels(&format!("{LABEL}={PROGRAM}"));
        let booked = Api::<ConfigMap>::all(self.0.clone()).list(&selected).await?;
        let reservations = booked.iter().filter_map(|booking| booking.annotations().get(ANNOTATION)?.parse().ok());
        Ok(reservations.collect())
    }

    /// What this needs of the API server. An apply that creates needs both `create` and `patch`.
    pub fn permissions() -> Vec<PolicyRule> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        vec![PolicyRule {
            api_groups: Some(words(&[""])),
            resources: Some(words(&["configmaps"])),
            verbs: words(&["list", "create", "patch", "delete"]),
            ..PolicyRule::default()
        }]
    }

    fn of(&self, reservation: &Reservation) -> Api<ConfigMap> {
        Api::namespaced(self.0.clone(), reservation.namespace())
    }
}

/// The name of a booking: another one for each reservation of each AdmissionCheck.
fn name(reservation: &Reservation) -> String {
    let (check, uid, since) = (reservation.admission_check(), reservation.uid(), reservation.since().as_second());
    format!("{check}-{uid}-{since}")
}
