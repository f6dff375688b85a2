//! Resources held for a reservation: here a ConfigMap in the check's own namespace for each job,
//! created before the job starts and deleted when it is over.
//!
//! It is not in the job's namespace: to write ConfigMaps there, the check would need permission to
//! write all ConfigMaps of the cluster, those of the system too. In its own, a Role suffices.
//!
//! A licence, a volume or a machine is booked in the same three steps: under a name that follows
//! from the job, so that booking twice books once; cancelled by that name, whether it is there or
//! not; and listed, so that nothing is left over from a process that died.
//!
//! A job has one booking, with a line for each of its Workloads: an elastic job that grows has two
//! for a while. The booking ends with its last line.

use kueue_check::k8s_openapi::api::core::v1::ConfigMap;
use kueue_check::k8s_openapi::api::rbac::v1::PolicyRule;
use kueue_check::kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kueue_check::kube::{self, Api, Client, ResourceExt};
use kueue_check::prelude::{CheckError, Reservation};
use kueue_check::serde_json::{Value, json};

const LABEL: &str = "{{ controller_name | split: "/" | first }}/booked-by";
/// The annotation of a line is this and the Workload's uid.
const ANNOTATION: &str = "{{ controller_name | split: "/" | first }}/reservation-";
const PROGRAM: &str = "{{ project-name }}";

/// The bookings on a cluster.
#[derive(Clone)]
pub struct Bookings(Api<ConfigMap>);

impl Bookings {
    /// Those in the namespace of `client`: in a pod its own, else that of the kubeconfig's context.
    pub fn new(client: Client) -> Self {
        Self(Api::default_namespaced(client))
    }

    /// Books for the job of a reservation, by which `pods` run. What is booked already stays.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn book(&self, reservation: &Reservation, pods: u32) -> Result<(), CheckError> {
        self.write(reservation, &format!("{pods} pods")).await
    }

    async fn write(&self, reservation: &Reservation, what: &str) -> Result<(), CheckError> {
        let uid = reservation.uid().to_string();
        let line = json!({
            "metadata": {"annotations": {format!("{ANNOTATION}{uid}"): reservation.to_string()}},
            "data": {uid: format!("{}: {what}", reservation.name())},
        });
        self.apply(reservation, line).await?;
        Ok(())
    }

    /// Cancels what was booked for a reservation, if anything was, unless another Workload of the
    /// job has a line. `by` is the one by which the job goes on, if it does: what is booked passes
    /// to that.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn cancel(&self, reservation: &Reservation, by: Option<&Reservation>) -> Result<(), CheckError> {
        let left = self.apply(reservation, json!({"metadata": {}})).await?;
        if left.annotations().keys().any(|key| key.starts_with(ANNOTATION)) {
            return Ok(());
        }
        if let Some(by) = by {
            return self.write(by, "the job goes on").await;
        }
        // Not if another Workload of the job has been given a line since.
        let preconditions = Preconditions { resource_version: left.resource_version(), uid: left.uid() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.0.delete(&name(reservation), &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// Makes `line` what the Workload of `reservation` has in the booking of its job. Each Workload
    /// is a field manager of its own, so the lines of others stay.
    async fn apply(&self, reservation: &Reservation, mut line: Value) -> Result<ConfigMap, CheckError> {
        let name = name(reservation);
        line["apiVersion"] = "v1".into();
        line["kind"] = "ConfigMap".into();
        line["metadata"]["name"] = name.as_str().into();
        line["metadata"]["labels"] = json!({LABEL: PROGRAM});
        let manager = format!("{PROGRAM}-{}", reservation.uid());
        Ok(self.0.patch(&name, &PatchParams::apply(&manager).force(), &Patch::Apply(line)).await?)
    }

    /// The reservations for which something is booked.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn all(&self) -> Result<Vec<Reservation>, CheckError> {
        let selected = ListParams::default().labels(&format!("{LABEL}={PROGRAM}"));
        let booked = self.0.list(&selected).await?;
        let lines = booked.iter().flat_map(|booking| booking.annotations().iter().filter(|(key, _)| key.starts_with(ANNOTATION)));
        Ok(lines.filter_map(|(_, reservation)| reservation.parse().ok()).collect())
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

/// The name of a booking: another one for each job and AdmissionCheck, and the same for all
/// Workloads of the job and in each version of this program. Both together can be too long for a
/// name, so this is their hash (FNV-1a, 128 bits). No user can choose it: the API server makes the
/// job's uid.
fn name(reservation: &Reservation) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let text = format!("{}/{}", reservation.admission_check(), reservation.family_key());
    let hash = text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("booking-{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_job_and_stays() {
        let name = |text: &str| name(&text.parse().unwrap());
        let first = name("team-a/train-1/u1/check/1763715605/job");
        assert_eq!(first, "booking-e481c2e89106267511716550d8ebdd33");
        assert_eq!(first, name("team-a/train-2/u2/check/1763715606/job"), "it grows");
        assert_ne!(first, name("team-a/train-1/u1/other/1763715605/job"), "of another check");
        assert_ne!(first, name("team-a/train-1/u1/check/1763715605"), "of another job");
    }
}
