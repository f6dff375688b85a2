//! Lease records, which every replica and every account with permission for Leases may write.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kueue_check::runtime::{LeaseConfig, LeaseTimes, lease_after};
use serde_json::json;

use super::{Form, KEPT, Outcome, Target, outcome, shape};
use crate::target::DictionaryWords::Of;

pub(super) const LEASE: Target = Target {
    name: "lease",
    about: "Lease records: what a replica writes that finds one",
    form: Form::Json,
    dictionary: &[Of("
        apiVersion coordination.k8s.io/v1 kind Lease metadata resourceVersion spec holderIdentity
        leaseDurationSeconds acquireTime renewTime leaseTransitions replica-0 replica-1
        2026-11-21T09:00:00.000000Z 9999-12-31T23:59:59Z strategy preferredHolder
    ")],
    memory: KEPT,
    run: lease,
};

fn lease(input: &[u8]) -> Outcome {
    let found: Lease = match serde_json::from_slice(input) {
        Ok(found) => found,
        Err(error) => return outcome(shape(&error.to_string())),
    };
    let config = LeaseConfig {
        namespace: "kueue-check".to_owned(),
        name: "check".to_owned(),
        identity: "replica-0".to_owned(),
        times: LeaseTimes::default(),
    };
    let now = Timestamp::UNIX_EPOCH;
    let spec = found.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.clone().unwrap_or_default();
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or(0);
    let mut written = Vec::new();
    for waited in [
        Duration::ZERO,
        Duration::from_secs(5),
        Duration::from_secs(1 << 33),
    ] {
        let next = lease_after(&config, found.clone(), waited, now);
        let others = !holder.is_empty() && holder != config.identity;
        if next.is_some() && others {
            assert!(
                waited >= Duration::from_secs(seconds),
                "{holder} still holds it"
            );
        }
        written.push(next.is_some());
        let Some(next) = next else { continue };
        let next = next.spec.unwrap_or_default();
        assert_eq!(next.holder_identity.as_deref(), Some("replica-0"));
        // The API server rejects a negative count, and then no replica could lead.
        let transitions = next.lease_transitions.unwrap_or_default();
        let before = spec.lease_transitions.unwrap_or_default();
        assert!(transitions >= 0 || before < 0, "{transitions}");
        assert!(transitions >= before, "{transitions} after {before}");
        let text = json!(next).to_string();
        let again = serde_json::from_str(&text);
        assert!(
            again.is_ok_and(|again: k8s_openapi::api::coordination::v1::LeaseSpec| again == next)
        );
    }
    assert_eq!(written.last(), Some(&true), "it is never taken");
    outcome((
        written,
        holder.is_empty(),
        holder == config.identity,
        spec.acquire_time.is_some(),
        spec.lease_transitions
            .is_some_and(|transitions| transitions < 0),
    ))
}
