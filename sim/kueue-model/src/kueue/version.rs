//! Differences between versions and settings of Kueue.

use super::fair_sharing::FairSharing;
use super::pods_ready::{RequeuingTimestamp, WaitForPodsReady};

/// The behavior of a Kueue: its version, feature gates and outcomes of races.
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
    /// Kueue reads `requeueAfterSeconds` (since 0.15). Before, every Retry evicts at once.
    pub delays_retries: bool,
    /// Kueue lists checks for all flavors before it reserves quota, even if another check of the
    /// ClusterQueue is for some flavors only (since 0.16.6 and 0.17.1, by their release notes).
    /// Before, it does so only if all checks are for all flavors (0.15.0 and 0.17.0: measured;
    /// 0.14.8: `AdmissionChecksForWorkload` in `pkg/workload/workload.go`).
    pub lists_checks_early: bool,
    /// Rejected counts also while the Workload is being evicted (after 0.19).
    pub rejects_while_evicted: bool,
    /// Gate `UnadmittedWorkloadsObservability`: finer reasons of `QuotaReserved` and `Admitted`.
    pub observability_reasons: bool,
    /// Gate `AdmissionGatedBy` (on since 0.19): an annotation keeps a Workload from being tried. If
    /// it is off, the annotation is neither validated nor copied from a job to its Workload.
    pub admission_gates: bool,
    /// Gate `SchedulingEquivalenceHashing` (since 0.18): Workloads like one that does not fit are
    /// not tried.
    pub equivalence_hashing: bool,
    /// The scheduler tries the resources of a Workload in the order of a hash of their names (since
    /// 0.19), and names all of a flavor that do not fit. Before, it names the first of them, in the
    /// order of a Go map, which varies from attempt to attempt (0.18.3, `findFlavorForPodSets` in
    /// `pkg/scheduler/flavorassigner/flavorassigner.go`). The model always takes the order of 0.19.
    pub sorts_requests: bool,
    /// Two messages have the text of 0.19: the one about a Workload whose Namespace the
    /// ClusterQueue does not take begins with a small letter, and the one about fewer reclaimable
    /// Pods says "less than", not "less then" (measured beside 0.18.3).
    pub revised_messages: bool,
    /// Gate `WorkloadRequestUseMergePatch`: Kueue writes the status with merge patches, which carry
    /// whole lists, instead of server-side apply.
    pub merge_patches: bool,
    /// The messages about evictions and deactivations by checks name the checks and have their
    /// messages (since 0.18; not in 0.17.0: `reconcileCheckBasedEviction` in
    /// `pkg/controller/core/workload_controller.go`).
    pub explains_evictions: bool,
    /// An event about a preemption has the priorities of both Workloads, the preemptor has an event
    /// as well, and the event of a quota reservation names the kind of preemption that each flavor
    /// would need (0.17.0, not 0.15.0: `IssuePreemptions` in
    /// `pkg/scheduler/preemption/preemption.go`, `FormatFlavorAssignmentAttemptsForEvents` in
    /// `pkg/scheduler/flavorassigner/flavor_assigner_attempts.go`).
    pub explains_preemptions: bool,
    /// Workloads that do not fit are tried again a second after the first change that may let them
    /// fit (0.17.0: `requeueBatchPeriod` in `pkg/cache/queue/inadmissible_workloads.go`; not
    /// 0.15.0, which tries them at once).
    pub batches_retries: bool,
    /// A job that gets a `WorkloadPriorityClass` after its Workload has reserved quota goes on
    /// without (0.19.2: `updateWorkloadPriorities` in `pkg/controller/jobframework/reconciler.go`).
    /// Before, its controller fails at each attempt, since the API server refuses the request
    /// (0.18.3: `UpdateWorkloadPriority`).
    pub omits_refused_classes: bool,
    /// The Pods of an elastic job that has grown run once the new slice is admitted, with the
    /// updates of its checks. Before, they run once it has quota. Its slices follow its
    /// `WorkloadPriorityClass`, and a superfluous one that another replaces is finished as
    /// `WorkloadSliceReplaced`, not `OutOfSync` (0.19.2, not 0.18.3:
    /// `pkg/controller/elasticjobs/elastic_job_ungater.go`, `syncWorkloadSlicePriority` in
    /// `pkg/controller/jobframework/reconciler.go`, `pkg/workloadslicing/workloadslicing.go`).
    pub revised_slices: bool,
    /// A flavor for which others could be preempted is better than one without candidates, whatever
    /// is preferred (0.19.2: `isPreferred` in `pkg/scheduler/flavorassigner/flavorassigner.go`; not
    /// 0.18.3).
    pub ranks_candidates: bool,
    /// `flavorFungibility.preference` means the opposite (0.15.0: `isPreferred`; not 0.17.0).
    pub inverts_preference: bool,
    /// The Workload of a single Pod is requeued after a preemption (before 0.19, gate
    /// `SkipReassignmentForPodOwnedWorkloads`), although its Pod is gone.
    pub requeues_pods: bool,
    /// The end of a Workload releases its quota and its admission (0.15.0: `setFinish` in
    /// `pkg/workload/workload.go`; not 0.17.0). The Workload of a job that has tolerations of its
    /// flavors then no longer matches the job, and is deleted; that of a Pod is changed.
    pub releases_at_end: bool,
    /// A node selector or affinity excludes a flavor without the label if another flavor of the
    /// resource group has it (before 0.18: `updateLabelKeys` in
    /// `pkg/cache/scheduler/clusterqueue.go`). Since 0.18 only the labels of the flavor count.
    pub excludes_unlabeled: bool,
    /// The webhook rejects a check for flavors that the ClusterQueue does not have (since 0.16.6
    /// and 0.17.1, by their release notes; 0.18.3, not 0.17.0: `validateAdmissionCheckOnFlavors`
    /// in `pkg/webhooks/clusterqueue_webhook.go`).
    pub validates_on_flavors: bool,
    /// Events are recorded as in `core/v1`: one that has the text of an earlier one about the same
    /// object is counted there and creates no object (0.17.0: `GetEventRecorderFor` in
    /// `pkg/controller/core/core.go`). Since 0.18 (measured: 0.18.3) they are recorded as in
    /// `events.k8s.io`: one is counted if it is about the same version of the object.
    pub counts_messages: bool,
    /// A change of the taints, tolerations or labels of a flavor makes Kueue try the Workloads of
    /// the ClusterQueues that name it again (0.19.2: `flavorSchedulingFieldsChanged` in
    /// `pkg/controller/core/resourceflavor_controller.go`; not 0.18.3).
    pub retries_on_flavor_changes: bool,
    /// Gate `FlavorFungibilityPreserveScanProgress` (on since 0.19): a Workload that has changed,
    /// or was skipped for another one, continues with the flavor after the last that it tried.
    /// Before, it starts with the first, unless the change is the message of the last attempt.
    pub keeps_flavor_progress: bool,
    /// The counts and the condition `Active` of a ClusterQueue change also while it is being
    /// deleted (0.19.2: `Reconcile` in `pkg/controller/core/clusterqueue_controller.go`; not
    /// 0.18.3).
    pub updates_deleted_queues: bool,
    /// A job that had no `WorkloadPriorityClass` may get one (0.17.0: `UpdateWorkloadPriority` in
    /// `pkg/controller/jobframework/reconciler.go`; not 0.15.0).
    pub adds_priority_classes: bool,
    /// A new value of a `WorkloadPriorityClass` changes its Workloads (0.17.0:
    /// `workloadpriorityclass_controller.go` in `pkg/controller/core`; not 0.15.0).
    pub follows_class_values: bool,
    /// A deleted Workload without quota triggers a retry of those that did not fit (0.17.0: `Delete`
    /// in `pkg/controller/core/workload_controller.go`; not 0.15.0).
    pub retries_on_deletion: bool,
    /// A Pod group that waits for replacements of failed Pods gets no quota (0.18.3:
    /// `IsAdmissible` in `pkg/workload/workload.go`; not 0.17.0).
    pub waits_for_replacements: bool,
    /// Preemption also frees quota for Pods (up to 0.17: `assignFlavors` in
    /// `pkg/scheduler/flavorassigner/flavorassigner.go`). Later, a Workload that lacks only that
    /// "no longer fits" in each cycle, and preempts nobody.
    pub preempts_for_pods: bool,
    /// The labels, annotations, limits and negative amounts of pod templates are validated (since
    /// 0.19: `validatePodSet` in `pkg/webhooks/workload_webhook.go`).
    pub validates_templates: bool,
    /// The largest number of pod sets that the definition of Workloads allows, and of roles in a Pod
    /// group: 8 up to 0.17, 10 in 0.18, 18 since 0.19 (`MaxPodSets` in
    /// `pkg/controller/jobframework/constants.go`). Below 18 the `queueName` of a Workload with
    /// quota may be removed, or added.
    pub most_pod_sets: usize,
    /// Limits of a Pod itself count as missing requests, and its requests may not exceed them (since
    /// 0.18: `pkg/workload/resources.go`).
    pub compares_pod_limits: bool,
    /// A change of a job leaves its Workload inactive (0.17.0: `updateWorkloadToMatchJob` in
    /// `pkg/controller/jobframework/reconciler.go`). Before, it activates it (0.15.0: measured).
    pub keeps_inactive: bool,
    /// Gate `FinishOrphanedWorkloads` (since 0.18): a Workload whose job is gone is finished.
    /// Before, only its finalizer is removed.
    pub finishes_orphans: bool,
    /// Gate `ElasticJobsViaWorkloadSlices` (on since 0.18): a job with the annotation
    /// `kueue.x-k8s.io/elastic-job` has slices.
    pub elastic_jobs: bool,
    /// Gate `AssignQueueLabelsForPods` (0.17.0, not 0.15.0): Pods have labels with the names of
    /// their queues.
    pub labels_pods: bool,
    /// The annotation `kueue.x-k8s.io/pod-group-name` names the group of a Pod, and only without it
    /// the label (gate `WorkloadIdentifierAnnotations`, on since 0.18: `GetPodGroupName` in
    /// `pkg/controller/jobs/pod/pod_controller.go`). Before, only the label does (0.17.0:
    /// `podGroupName` there).
    pub reads_group_annotation: bool,
    /// The Pods of an Indexed Job that are done are those of its completed and failed indexes
    /// (0.19.2: `terminalIndexesCount` in `pkg/controller/jobs/job/job_controller.go`). Before,
    /// those that succeeded (0.18.3: `ReclaimablePods` there).
    pub counts_indexes: bool,
    /// Two tolerations are the same even if their `tolerationSeconds` differ, or if one has no
    /// operator and the other `Equal` (0.18.3: `Equal` in `pkg/util/tolerations`). Before, they must
    /// agree in all fields, and one with `tolerationSeconds` is like no other (0.17.0: `Merge` in
    /// `pkg/podset/podset.go` compares the pointers).
    pub matches_tolerations: bool,
    /// Gate `PodIntegrationValidateGroupOwner` (0.19.2, not 0.18.3): a Pod group does not take over a
    /// Workload of its name that is not that of a group. Before, it rewrites or replaces it, or
    /// adds itself to the owners (0.18.3: `FindMatchingWorkloads` in
    /// `pkg/controller/jobs/pod/pod_controller.go`).
    pub refuses_other_workloads: bool,
    /// Only the value `true` of the annotation `kueue.x-k8s.io/pod-group-fast-admission` counts, and
    /// such a group lacks Pods only if a role has none (0.18.3: `fastAdmission` and
    /// `countAbsentPods` in `pkg/controller/jobs/pod/pod_controller.go`). Before, any value counts,
    /// and the group lacks Pods until it has all (0.17.0: `FindMatchingWorkloads` there).
    pub revised_fast_admission: bool,
    /// A Workload that requests none of a resource that its ClusterQueue does not cover fits (since
    /// 0.16.0, by its release notes; 0.17.0, not 0.15.0: `assignFlavors` in
    /// `pkg/scheduler/flavorassigner/flavorassigner.go`). The model has it since 0.16.6.
    pub skips_zero_requests: bool,
    /// The Pods of a group are ready only if it has as many as its total count (0.18.3: `PodsReady`
    /// in `pkg/controller/jobs/pod/pod_controller.go`). Before, those that exist must be (0.17.0).
    pub counts_ready_pods: bool,
    /// The Workload of a serving group of Pods stays in its LocalQueue (0.18.3:
    /// `CustomQueueNameChange` in `pkg/controller/jobs/pod/pod_controller.go`; not 0.17.0).
    pub keeps_serving_queues: bool,
    /// A Workload that does not match its job and is already being deleted is not deleted again
    /// (0.18.3: `Delete` in `pkg/workload/workload.go`). Before, it is, with an event (0.17.0:
    /// `ensureOneWorkload` in `pkg/controller/jobframework/reconciler.go`).
    pub deletes_once: bool,
    /// The setting `waitForPodsReady` (on by default since 0.19). `None`: Kueue writes no condition
    /// `PodsReady`.
    pub wait_for_pods_ready: Option<WaitForPodsReady>,
    /// The setting `fairSharing` (off by default).
    pub fair_sharing: Option<FairSharing>,
    /// Quota of one's own is exempt from fair sharing: a ClusterQueue that borrows nothing comes
    /// first and reclaims its quota, whatever the shares (gates `FairSharingPrioritizeNonBorrowing`
    /// and `FairSharingPreemptWithinNominal`, 0.17.0: `less` in
    /// `pkg/scheduler/fair_sharing_iterator.go`, `runFirstFsStrategy` in
    /// `pkg/scheduler/preemption/preemption.go`). Before, only the shares decide (0.15.0).
    pub nominal_first: bool,
    /// Gate `CleanupProvisioningRequestsOnEviction` (since 0.18.3): on eviction, too, Kueue's own
    /// check deletes the requests that it attributes to itself.
    pub discards_requests_on_eviction: bool,
    /// A Workload that was deactivated by a check is requeued when it is activated again (after
    /// 0.19).
    pub reactivates_rejected: bool,
    /// The scheduler reserves quota with the check states of the copy it last queued, even if the
    /// Workload has changed since. This reproduces, every time, the race that its writes without
    /// `resourceVersion` allow.
    pub stale_scheduler: bool,
    /// The scheduler preempts with a copy of the Workload that is older than its check entries. The
    /// eviction resets none of them, and a Ready stays. This reproduces, every time, the race that
    /// its writes without `resourceVersion` allow (measured on 0.19.2: 2 to 8 of 1,500 Workloads
    /// under load).
    pub stale_preemption: bool,
    /// The waiting Workloads that Kueue reconciles too early: before its cache has the creation,
    /// stop, deletion or other checks of their ClusterQueue, or the start of their LocalQueue. Their
    /// conditions then do not report the change. This is the other outcome of a race (measured on
    /// 0.19.2: 6 of 23 such Workloads). Bit n is for the n-th Workload of the ClusterQueue in order
    /// of arrival, the last bit also for all after it.
    pub misses_stop: u8,
    /// The condition of a Workload that misses its LocalQueue does not name the ClusterQueue. Up to
    /// 0.18 it never does (0.18.3: `Reconcile` in `pkg/controller/core/workload_controller.go`).
    /// Later, the LocalQueue is still missing when Kueue writes the message: the other outcome of a
    /// race (0.19.2, `getQueueBlocker` there).
    pub nameless_queue: bool,
    /// The reconciler receives a change of a Workload that blocks a `StrictFIFO` queue, or that may
    /// be tried again, before the scheduler tries it: the other outcome of a race.
    pub slow_scheduler: bool,
    /// The scheduler reserves quota for a Workload that may be tried again before the reconciler
    /// has removed its entries of checks for other flavors, and after a reservation it tries the
    /// next Workloads before the reconciler acts. This is the other outcome of a race (measured on
    /// 0.19.2 under load).
    pub quick_scheduler: bool,
    /// The number of changes of their Workloads after which the scheduler's writes come, at most
    /// 120 ms after its decisions; 0 is at once. What they change is lost if the write carries the
    /// field, such as the end of a group of Pods. Other numbers than 0 are other outcomes of a race
    /// (measured on 0.19.2).
    pub late_scheduler: u8,
    /// The later of two Workloads of the same second is the first. This is the other outcome of a
    /// race, since Kueue orders them by their UIDs (0.19.2, `baseCompareFunc` in
    /// `pkg/cache/queue/cluster_queue.go`).
    pub reversed_ties: bool,
    /// The Workloads that one Workload preempts are evicted in reverse order. This is another
    /// outcome of a race, since Kueue evicts them at once (0.19.2, `IssuePreemptions` in
    /// `pkg/scheduler/preemption/preemption.go`).
    pub reversed_evictions: bool,
    /// The job reconciler, not the scheduler, finishes a replaced slice, and does so later. A check
    /// may have returned its verdict about the new slice before (measured on 0.19.2).
    pub late_replacement: bool,
    /// The scheduler has retried a Workload that blocks a `StrictFIFO` queue fewer than 25 times,
    /// which takes two seconds, so that its next warning is recorded. This is the other outcome of
    /// a race, before 0.18 (measured on 0.15.0).
    pub slow_retries: bool,
    /// The scheduler is about to try a Workload that blocks a `StrictFIFO` queue while this becomes
    /// inactive or finished, and puts it back. This is the other outcome of a race, before 0.18
    /// (0.17.0, `RequeueWorkload` in `pkg/cache/queue/manager.go`; measured on it).
    pub requeues_inactive: bool,
    /// Gate `ConcurrentAdmission` (alpha): Workloads of a ClusterQueue with a
    /// `concurrentAdmissionPolicy` have a variant for each flavor. The preemption gates of variants
    /// open one after another.
    pub concurrent_admission: bool,
    /// The controller of variants starts the job before the variant that has lost is evicted, so
    /// that the job starts, stops and starts again: the other outcome of a race.
    pub hasty_variants: bool,
    /// KEP-993's `PreemptionRequired` and `preemptionPolicy`, which no Kueue release has.
    pub kep993: bool,
}

impl KueueVersion {
    /// Returns the released version of a number, such as `0.18.3` or `v0.18.3`.
    ///
    /// It has the default feature gates. Returns `None` for a release before 0.14, and if `number`
    /// is not a version number.
    ///
    /// ```
    /// use kueue_check_sim::kueue::KueueVersion;
    ///
    /// assert_eq!(KueueVersion::of_release("v0.15.0"), Some(KueueVersion::V0_15));
    /// assert_eq!(KueueVersion::of_release("0.16.6"), Some(KueueVersion::V0_17));
    /// assert_eq!(KueueVersion::of_release("0.17.1"), Some(KueueVersion::V0_17));
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
            ((0, 17, 1), Self::V0_17),
            ((0, 17, 0), Self::V0_17_0),
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
        sorts_requests: true,
        revised_messages: true,
        explains_evictions: true,
        explains_preemptions: true,
        batches_retries: true,
        retries_on_flavor_changes: true,
        keeps_flavor_progress: true,
        updates_deleted_queues: true,
        omits_refused_classes: true,
        revised_slices: true,
        ranks_candidates: true,
        inverts_preference: false,
        requeues_pods: false,
        adds_priority_classes: true,
        follows_class_values: true,
        retries_on_deletion: true,
        waits_for_replacements: true,
        preempts_for_pods: false,
        validates_templates: true,
        most_pod_sets: 18,
        compares_pod_limits: true,
        keeps_inactive: true,
        releases_at_end: false,
        excludes_unlabeled: false,
        validates_on_flavors: true,
        counts_messages: false,
        finishes_orphans: true,
        elastic_jobs: true,
        labels_pods: true,
        reads_group_annotation: true,
        counts_indexes: true,
        matches_tolerations: true,
        refuses_other_workloads: true,
        revised_fast_admission: true,
        skips_zero_requests: true,
        counts_ready_pods: true,
        keeps_serving_queues: true,
        deletes_once: true,
        merge_patches: false,
        wait_for_pods_ready: Some(WaitForPodsReady::DEFAULT),
        fair_sharing: None,
        nominal_first: true,
        discards_requests_on_eviction: true,
        reactivates_rejected: false,
        stale_scheduler: false,
        stale_preemption: false,
        misses_stop: 0,
        nameless_queue: false,
        slow_scheduler: false,
        quick_scheduler: false,
        late_scheduler: 0,
        reversed_ties: false,
        reversed_evictions: false,
        late_replacement: false,
        slow_retries: false,
        requeues_inactive: false,
        concurrent_admission: false,
        hasty_variants: false,
        kep993: false,
    };

    /// Kueue 0.18.
    pub const V0_18: Self = Self {
        admission_gates: false,
        sorts_requests: false,
        revised_messages: false,
        retries_on_flavor_changes: false,
        keeps_flavor_progress: false,
        updates_deleted_queues: false,
        omits_refused_classes: false,
        revised_slices: false,
        ranks_candidates: false,
        requeues_pods: true,
        validates_templates: false,
        most_pod_sets: 10,
        nameless_queue: true,
        counts_indexes: false,
        refuses_other_workloads: false,
        wait_for_pods_ready: None,
        ..Self::V0_19
    };

    /// Kueue 0.17 from 0.17.1 on, and 0.16.6.
    pub const V0_17: Self = Self {
        equivalence_hashing: false,
        explains_evictions: false,
        excludes_unlabeled: true,
        counts_messages: true,
        finishes_orphans: false,
        waits_for_replacements: false,
        preempts_for_pods: true,
        most_pod_sets: 8,
        compares_pod_limits: false,
        elastic_jobs: false,
        reads_group_annotation: false,
        matches_tolerations: false,
        revised_fast_admission: false,
        counts_ready_pods: false,
        keeps_serving_queues: false,
        deletes_once: false,
        discards_requests_on_eviction: false,
        ..Self::V0_18
    };

    /// Kueue 0.17.0.
    const V0_17_0: Self = Self {
        lists_checks_early: false,
        validates_on_flavors: false,
        ..Self::V0_17
    };

    /// Kueue 0.15, and 0.16 up to 0.16.5.
    pub const V0_15: Self = Self {
        explains_preemptions: false,
        batches_retries: false,
        adds_priority_classes: false,
        follows_class_values: false,
        retries_on_deletion: false,
        keeps_inactive: false,
        labels_pods: false,
        releases_at_end: true,
        inverts_preference: true,
        skips_zero_requests: false,
        nominal_first: false,
        ..Self::V0_17_0
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

    /// Kueue 0.19.2 with KEP-993.
    pub const KEP993: Self = Self {
        kep993: true,
        ..Self::V0_19
    };
}

/// Returns `$one` with one field of `$other` at a time, for each field in which they differ.
macro_rules! one_by_one {
    ($one:expr, $other:expr, $($field:ident),+ $(,)?) => {{
        // Does not compile if a field is missing.
        let KueueVersion { $($field: _),+ } = $one;
        let mut found = Vec::new();
        $(if $one.$field != $other.$field {
            let $field = $other.$field;
            found.push((stringify!($field), KueueVersion { $field, ..$one }));
        })+
        found
    }};
}

impl KueueVersion {
    /// The releases that differ from the one before, oldest first. 0.16.6 is as 0.17.1.
    pub const RELEASES: [(&'static str, Self); 6] = [
        ("0.14", Self::V0_14),
        ("0.15", Self::V0_15),
        ("0.17.0", Self::V0_17_0),
        ("0.17.1", Self::V0_17),
        ("0.18", Self::V0_18),
        ("0.19", Self::V0_19),
    ];

    /// Returns this version with one behavior of `other` at a time, with the name of the field, for
    /// each in which they differ.
    ///
    /// ```
    /// use kueue_check_sim::kueue::KueueVersion;
    ///
    /// let changed = KueueVersion::V0_14.one_by_one(KueueVersion::V0_15);
    /// assert_eq!(changed, [("delays_retries", KueueVersion::V0_15)]);
    /// ```
    #[must_use]
    pub fn one_by_one(self, other: Self) -> Vec<(&'static str, Self)> {
        one_by_one!(
            self,
            other,
            delays_retries,
            lists_checks_early,
            rejects_while_evicted,
            observability_reasons,
            admission_gates,
            equivalence_hashing,
            sorts_requests,
            revised_messages,
            merge_patches,
            explains_evictions,
            explains_preemptions,
            batches_retries,
            omits_refused_classes,
            revised_slices,
            ranks_candidates,
            inverts_preference,
            requeues_pods,
            releases_at_end,
            excludes_unlabeled,
            validates_on_flavors,
            counts_messages,
            retries_on_flavor_changes,
            keeps_flavor_progress,
            updates_deleted_queues,
            adds_priority_classes,
            follows_class_values,
            retries_on_deletion,
            waits_for_replacements,
            preempts_for_pods,
            validates_templates,
            most_pod_sets,
            compares_pod_limits,
            keeps_inactive,
            finishes_orphans,
            elastic_jobs,
            labels_pods,
            reads_group_annotation,
            counts_indexes,
            matches_tolerations,
            refuses_other_workloads,
            revised_fast_admission,
            skips_zero_requests,
            counts_ready_pods,
            keeps_serving_queues,
            deletes_once,
            wait_for_pods_ready,
            fair_sharing,
            nominal_first,
            discards_requests_on_eviction,
            reactivates_rejected,
            stale_scheduler,
            stale_preemption,
            misses_stop,
            nameless_queue,
            slow_scheduler,
            quick_scheduler,
            late_scheduler,
            reversed_ties,
            reversed_evictions,
            late_replacement,
            slow_retries,
            requeues_inactive,
            concurrent_admission,
            hasty_variants,
            kep993,
        )
    }
}

impl KueueVersion {
    /// Returns one of two reasons: `finer` with gate `UnadmittedWorkloadsObservability`, else
    /// `plain`.
    pub(crate) fn reason(self, finer: &'static str, plain: &'static str) -> &'static str {
        if self.observability_reasons {
            finer
        } else {
            plain
        }
    }

    /// Returns the time that decides the place of a Workload whose Pods were not ready in time.
    pub(crate) fn requeuing_timestamp(self) -> RequeuingTimestamp {
        let setting = self.wait_for_pods_ready;
        setting.map_or_else(RequeuingTimestamp::default, |it| it.requeuing_timestamp)
    }

    /// Returns the reason of a Workload that waits to be tried.
    pub(crate) fn reason_while_pending(self) -> &'static str {
        self.reason("PendingEvaluation", "Pending")
    }
}

impl Default for KueueVersion {
    fn default() -> Self {
        Self::V0_19
    }
}
