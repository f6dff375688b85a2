//! What the check starts for a job, and stops when the job is over: here a ConfigMap in the check's
//! own namespace, with what was booked for the job.
//!
//! It is not in the job's namespace: to write ConfigMaps there, the check would need the right to
//! write all ConfigMaps of the cluster, those of the system too. In its own, a Role is enough.
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
pub struct Bookings(Api<ConfigMap>);

impl Bookings {
    /// Those in the namespace of `client`: in a pod its own, else that of the kubeconfig's context.
    pub fn new(client: Client) -> Self {
        Self(Api::default_namespaced(client))
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
        self.0.patch(&name, &parameters, &Patch::Apply(booking)).await?;
        Ok(())
    }

    /// Cancels what was booked for a reservation, if anything was.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn cancel(&self, reservation: &Reservation) -> Result<(), CheckError> {
        match self.0.delete(&name(reservation), &DeleteParams::default()).await {
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
        let booked = self.0.list(&selected).await?;
        let reservations = booked.iter().filter_map(|booking| booking.annotations().get(ANNOTATION)?.parse().ok());
        Ok(reservations.collect())
    }

    /// What this needs in the check's own namespace. An apply that creates needs both `create` and
    /// `patch`.
    pub fn permissions() -> Vec<PolicyRule> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        vec![PolicyRule {
            api_groups: Some(words(&[""])),
            resources: Some(words(&["configmaps"])),
            verbs: words(&["list", "create", "patch", "delete"]),
            ..PolicyRule::default()
        }]
    }
}

/// The name of a booking: another one for each reservation of each AdmissionCheck, and the same in
/// each version of this program. The reservation itself has slashes and can be too long for a name,
/// so this is its hash (FNV-1a, 128 bits). No user can choose it: the API server makes the
/// Workload's uid.
fn name(reservation: &Reservation) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let text = reservation.to_string();
    let hash = text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("booking-{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_reservation_and_stays() {
        let names: Vec<String> = [
            "team-a/train/u1/check/1763715605",
            "team-a/train/u1/check/1763715606",
            "team-a/train/u1/other/1763715605",
            "team-b/train/u2/check/1763715605",
        ]
        .iter()
        .map(|text| name(&text.parse().unwrap()))
        .collect();
        assert_eq!(names[0], "booking-e2d56205b8988658a4da3fc0f9e9663d");
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
    }
}
