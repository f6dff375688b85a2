//! What differs between versions and settings of Kueue.

/// How this Kueue behaves where Kueues differ.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use std::time::Duration;
/// use kueue_check_sim::kueue::KueueVersion;
/// use kueue_check_sim::{Job, Simulation};
/// use serde_json::json;
///
/// // The check is for all flavors, another one is not.
/// let flavors = [("default", "1"), ("spot", "0")].map(|(name, cpus)| {
///     json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": cpus}]})
/// });
/// let queue = json!({
///     "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"},
///     "spec": {
///         "namespaceSelector": {},
///         "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
///         "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}, {"name": "other", "onFlavors": ["spot"]}]},
///     },
/// });
/// let lists_the_check = |version: KueueVersion| {
///     let run = Simulation::new(|| open).kueue(version).object(&queue).run(async |cluster| {
///         cluster.submit(Job::new("large").cpus(2)); // there is no quota for it
///         cluster.advance(Duration::from_secs(10)).await;
///     });
///     run.outcome.jobs["default/large"].states.contains_key("check")
/// };
/// assert!(lists_the_check(KueueVersion::V0_19));
/// assert!(!lists_the_check(KueueVersion::V0_14));
/// assert!(!lists_the_check(KueueVersion { lists_checks_early: false, ..KueueVersion::V0_19 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, as Kueue's feature gates are"
)]
pub struct KueueVersion {
    /// `requeueAfterSeconds` is read (since 0.15); before, every Retry evicts at once.
    pub delays_retries: bool,
    /// Checks for all flavors are listed before quota is reserved (since 0.16.6 and 0.17) also where
    /// another check of the ClusterQueue is for some flavors only; before, only where all are for all
    /// (0.15.0: measured; 0.14.8: `AdmissionChecksForWorkload` in `pkg/workload/workload.go`).
    pub lists_checks_early: bool,
    /// Rejected counts also while the Workload is being evicted (after 0.19).
    pub rejects_while_evicted: bool,
    /// Gate `UnadmittedWorkloadsObservability`: finer reasons of `QuotaReserved` and `Admitted`.
    pub observability_reasons: bool,
    /// Gate `AdmissionGatedBy` (since 0.19): an annotation keeps a Workload from being tried.
    pub admission_gates: bool,
    /// Gate `SchedulingEquivalenceHashing` (since 0.18): Workloads like one that does not fit are
    /// not tried.
    pub equivalence_hashing: bool,
    /// Kueue's message about a Workload whose Namespace its ClusterQueue does not take begins with a
    /// small letter (since 0.19; measured beside 0.18.3).
    pub small_mismatch: bool,
    /// Gate `WorkloadRequestUseMergePatch`: the status is written with merge patches, whole lists
    /// and all, instead of server-side apply.
    pub merge_patches: bool,
    /// Gate `CleanupProvisioningRequestsOnEviction` (since 0.19): what its own check takes for its
    /// requests is deleted on eviction too.
    pub discards_requests_on_eviction: bool,
    /// A Workload that was deactivated by a check is requeued when it is activated again (after
    /// 0.19).
    pub reactivates_rejected: bool,
    /// The scheduler reserves quota with the check states of the copy it last queued, even if the
    /// Workload has changed since: this shows, every time, the race that its writes without
    /// resourceVersion allow.
    pub stale_scheduler: bool,
    /// The scheduler preempts by a copy of the Workload that is older than its check entries: the
    /// eviction resets none of them, and a Ready stays. This shows, every time, the race that its
    /// writes without resourceVersion allow (measured on 0.19.2: 2 to 8 of 1,500 Workloads under
    /// load).
    pub stale_preemption: bool,
    /// Which of the Workloads that wait are reconciled before Kueue's cache knows that their
    /// ClusterQueue has stopped or is gone, so that their conditions do not say it, or that their
    /// LocalQueue is there: the other outcome of a race (measured on 0.19.2: 6 of 23 such
    /// Workloads). Bit n is for the n-th Workload of the ClusterQueue in order of arrival, the last
    /// bit also for all after it.
    pub misses_stop: u8,
    /// The condition of a Workload that misses its new LocalQueue does not name the ClusterQueue,
    /// because the LocalQueue is missing still when the message is written: the other outcome of a
    /// race (0.19.2, `getQueueBlocker` in `pkg/controller/core/workload_controller.go`).
    pub nameless_queue: bool,
    /// The reconciler sees a change of a Workload that blocks a `StrictFIFO` queue before the
    /// scheduler tries it again: the other outcome of a race.
    pub slow_scheduler: bool,
    /// The scheduler reserves quota for a Workload that may be tried again before the reconciler has
    /// removed the entries of checks that are for other flavors: the other outcome of a race
    /// (measured on 0.19.2 under load).
    pub quick_scheduler: bool,
    /// Of Workloads of the same second the later one is the first: the other outcome of a race, since
    /// Kueue orders them by their UIDs (0.19.2, `baseCompareFunc` in
    /// `pkg/cache/queue/cluster_queue.go`).
    pub reversed_ties: bool,
    /// The job reconciler finishes the slice that another has replaced, not the scheduler, and a
    /// moment later: a check may have returned its verdict about the new slice before (measured on
    /// 0.19.2).
    pub late_replacement: bool,
    /// Gate `ConcurrentAdmission` (alpha): Workloads of a ClusterQueue with a
    /// `concurrentAdmissionPolicy` have a variant for each flavor. That variants wait for each
    /// other's preemptions is not in the model.
    pub concurrent_admission: bool,
    /// The controller of variants starts the job before the variant that has lost is evicted, so
    /// that the job starts, stops and starts again: the other outcome of a race.
    pub hasty_variants: bool,
    /// KEP-993's PreemptionRequired and preemptionPolicy, which no Kueue has.
    pub kep993: bool,
}

impl KueueVersion {
    /// The released version of this number, such as `0.18.3` or `v0.18.3`, with its default feature
    /// gates. None for one before 0.14, and for what is no number.
    ///
    /// ```
    /// use kueue_check_sim::kueue::KueueVersion;
    ///
    /// assert_eq!(KueueVersion::of_release("v0.15.0"), Some(KueueVersion::V0_15));
    /// assert_eq!(KueueVersion::of_release("0.16.6"), Some(KueueVersion::V0_17));
    /// assert_eq!(KueueVersion::of_release("0.13.9"), None);
    /// ```
    #[must_use]
    pub fn of_release(number: &str) -> Option<Self> {
        let number = number.strip_prefix('v').unwrap_or(number);
        let mut parts = number.split('.').map(|part| part.parse().ok());
        let mut next = || parts.next().flatten();
        let release: (u32, u32, u32) = (next()?, next()?, next()?);
        let since = [
            ((0, 19, 0), Self::V0_19),
            ((0, 18, 0), Self::V0_18),
            ((0, 16, 6), Self::V0_17),
            ((0, 15, 0), Self::V0_15),
            ((0, 14, 0), Self::V0_14),
        ];
        let found = since.into_iter().find(|(first, _)| release >= *first);
        found.map(|(_, version)| version)
    }

    /// Kueue 0.19.2 with its default feature gates.
    pub const V0_19: Self = Self {
        delays_retries: true,
        lists_checks_early: true,
        rejects_while_evicted: false,
        observability_reasons: false,
        admission_gates: true,
        equivalence_hashing: true,
        small_mismatch: true,
        merge_patches: false,
        discards_requests_on_eviction: true,
        reactivates_rejected: false,
        stale_scheduler: false,
        stale_preemption: false,
        misses_stop: 0,
        nameless_queue: false,
        slow_scheduler: false,
        quick_scheduler: false,
        reversed_ties: false,
        late_replacement: false,
        concurrent_admission: false,
        hasty_variants: false,
        kep993: false,
    };

    /// Kueue 0.18.
    pub const V0_18: Self = Self {
        admission_gates: false,
        small_mismatch: false,
        discards_requests_on_eviction: false,
        ..Self::V0_19
    };

    /// Kueue 0.17.
    pub const V0_17: Self = Self {
        equivalence_hashing: false,
        ..Self::V0_18
    };

    /// Kueue 0.15, and 0.16 up to 0.16.5.
    pub const V0_15: Self = Self {
        lists_checks_early: false,
        ..Self::V0_17
    };

    /// Kueue 0.14, the last without delayed retries.
    pub const V0_14: Self = Self {
        delays_retries: false,
        ..Self::V0_15
    };

    /// Kueue's main branch after 0.19.
    pub const NEXT: Self = Self {
        rejects_while_evicted: true,
        observability_reasons: true,
        reactivates_rejected: true,
        ..Self::V0_19
    };

    /// 0.19.2 as KEP-993 would have it.
    pub const KEP993: Self = Self {
        kep993: true,
        ..Self::V0_19
    };
}

impl KueueVersion {
    /// One of two reasons: the finer one of gate `UnadmittedWorkloadsObservability`, or the one
    /// before it.
    pub(crate) fn reason(self, finer: &'static str, plain: &'static str) -> &'static str {
        if self.observability_reasons {
            finer
        } else {
            plain
        }
    }

    /// The reason of a Workload that waits to be tried.
    pub(crate) fn reason_while_pending(self) -> &'static str {
        self.reason("PendingEvaluation", "Pending")
    }
}

impl Default for KueueVersion {
    fn default() -> Self {
        Self::V0_19
    }
}
