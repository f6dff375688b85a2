//! The builder of a check: its functions and its configuration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join};
use futures::stream::Stream;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use serde::de::DeserializeOwned;

use super::settings::Settings;
use super::watches::WatchSource;
use super::{
    AdmissionCheckController, BackgroundContext, CheckError, CheckEvent, CheckRequest,
    ControllerName, Inactive, MetricsText, NoParameters, Parameters, Policy, Preview,
    ReleaseOutcome, ReleaseReason, Reservation, StateChange, Trigger, Verdict, WorkloadEvent,
};
use crate::api::AdmissionCheck;

/// A check, ready to run: a controller and its configuration.
///
/// Functions, types that implement [`AdmissionCheckController`] and tower services all become one.
/// It is a controller itself, so it is accepted wherever one is. Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kueue_check::prelude::*;
///
/// /// Jobs wait while the cluster is under maintenance.
/// #[admission_check(controller = "example.com/maintenance")]
/// async fn maintenance(workload: Workload) -> Verdict {
///     Verdict::ready(format!("{workload} may start"))
/// }
///
/// let check = Check::new(maintenance)
///     .timeout(Duration::from_secs(5))
///     .watches::<ConfigMap>(Default::default(), |_| Trigger::AllWorkloads)
///     .on_release(|reservation, why| async move {
///         println!("{reservation} is over: {}", why.as_str());
///         Ok(ReleaseOutcome::Done)
///     });
/// # let _ = async { kueue_check::main(check).await };
/// ```
///
/// | to | use |
/// | --- | --- |
/// | make one | [`new`](Self::new), [`from_fn`](Self::from_fn), [`from_fn_with_state`](Self::from_fn_with_state), [`from_service`](Self::from_service), [`all_of`](Self::all_of), [`any_of`](Self::any_of) |
/// | wrap its evaluations | [`layer`](Self::layer) |
/// | add to what it does | [`on_activate`](Self::on_activate), [`on_release`](Self::on_release), [`unreleased`](Self::unreleased), [`previewable`](Self::previewable) |
/// | be evaluated again | [`watches`](Self::watches), [`watches_events`](Self::watches_events), [`watches_stream`](Self::watches_stream) |
/// | follow Workloads, work in the background | [`observe`](Self::observe), [`background`](Self::background) |
/// | set limits and defaults | [`policy`](Self::policy), [`timeout`](Self::timeout), [`annotations`](Self::annotations) |
/// | report | [`metrics`](Self::metrics), [`state_change_event`](Self::state_change_event), [`active_message`](Self::active_message) |
/// | be installed | [`permissions`](Self::permissions), [`namespace_permissions`](Self::namespace_permissions), [`definitions`](Self::definitions), [`objects`](Self::objects) |
/// | change what a verdict is tied to | [`on_parameters_unavailable`](Self::on_parameters_unavailable), [`outlives_reservation`](Self::outlives_reservation), [`release_at_eviction`](Self::release_at_eviction) |
#[must_use]
pub struct Check<P = NoParameters> {
    pub(crate) name: ControllerName,
    pub(crate) calls: Calls<P>,
    pub(crate) settings: Arc<Settings>,
}

/// A function of the check author, type-erased.
pub(crate) type Call<A, T, E = CheckError> =
    Arc<dyn Fn(A) -> BoxFuture<'static, Result<T, E>> + Send + Sync>;

/// The functions of a check.
pub(crate) struct Calls<P> {
    pub(crate) evaluate: Call<CheckRequest<P>, Verdict>,
    pub(crate) preview: Call<CheckRequest<P>, Preview>,
    pub(crate) activate: Call<(AdmissionCheck, Arc<P>), (), Inactive>,
    pub(crate) release: Call<(Reservation, ReleaseReason), ReleaseOutcome>,
    pub(crate) unreleased: Call<(), Vec<Reservation>>,
}

impl<P: Parameters> Calls<P> {
    /// Returns the methods of `controller`.
    fn of<C: AdmissionCheckController<Parameters = P>>(controller: &Arc<C>) -> Self {
        Self {
            evaluate: bind(controller, |controller, request| async move {
                controller.evaluate(request).await
            }),
            preview: bind(controller, |controller, request| async move {
                controller.preview(request).await
            }),
            activate: bind(controller, |controller, (check, parameters)| async move {
                controller.activate(&check, &parameters).await
            }),
            release: bind(controller, |controller, (reservation, why)| async move {
                controller.release(&reservation, why).await
            }),
            unreleased: bind(controller, |controller, ()| async move {
                controller.unreleased_reservations().await
            }),
        }
    }

    /// Returns the trait's defaults around `evaluate`.
    fn evaluating(evaluate: Call<CheckRequest<P>, Verdict>) -> Self {
        Self {
            evaluate,
            preview: call(|_| async { Ok(Preview::has_side_effects()) }),
            activate: call(|_| async { Ok(()) }),
            release: call(|_| async { Ok(ReleaseOutcome::nothing()) }),
            unreleased: call(|()| async { Ok(Vec::new()) }),
        }
    }
}

pub(crate) fn call<A, T, E, F>(function: impl Fn(A) -> F + Send + Sync + 'static) -> Call<A, T, E>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    Arc::new(move |argument| Box::pin(function(argument)))
}

fn bind<C, A, T, E, F>(
    controller: &Arc<C>,
    method: impl Fn(Arc<C>, A) -> F + Send + Sync + 'static,
) -> Call<A, T, E>
where
    C: Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let controller = Arc::clone(controller);
    call(move |argument| method(Arc::clone(&controller), argument))
}

impl<P: Parameters> Check<P> {
    /// Makes the check that `controller` implements, with its
    /// [`configure`](AdmissionCheckController::configure) applied.
    pub fn new(controller: impl AdmissionCheckController<Parameters = P>) -> Self {
        let controller = Arc::new(controller);
        let check = Self::with_calls(controller.controller_name(), Calls::of(&controller));
        controller.configure(check)
    }

    /// Makes a check that only evaluates.
    pub(crate) fn evaluating(
        name: ControllerName,
        evaluate: Call<CheckRequest<P>, Verdict>,
    ) -> Self {
        Self::with_calls(name, Calls::evaluating(evaluate))
    }

    pub(crate) fn with_calls(name: ControllerName, calls: Calls<P>) -> Self {
        Self {
            name,
            calls,
            settings: Arc::default(),
        }
    }
}

impl<P: Send + Sync + 'static> Check<P> {
    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(Arc::make_mut(&mut self.settings));
        self
    }

    /// Takes over the whole configuration of `other`, for a controller that wraps another one. The
    /// calls are not configuration: the controller forwards each of them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use kueue_check::prelude::*;
    /// use kueue_check::{Inactive, api::AdmissionCheck};
    ///
    /// /// Logs each verdict and each release of a check.
    /// struct Logged<P>(Check<P>);
    ///
    /// impl<P: Parameters> AdmissionCheckController for Logged<P> {
    ///     type Parameters = P;
    ///
    ///     fn controller_name(&self) -> ControllerName {
    ///         self.0.controller_name()
    ///     }
    ///
    ///     async fn evaluate(&self, request: CheckRequest<P>) -> Result<Verdict, CheckError> {
    ///         let verdict = self.0.evaluate(request).await;
    ///         println!("{verdict:?}");
    ///         verdict
    ///     }
    ///
    ///     async fn preview(&self, request: CheckRequest<P>) -> Result<Preview, CheckError> {
    ///         self.0.preview(request).await
    ///     }
    ///
    ///     async fn activate(&self, check: &AdmissionCheck, parameters: &Arc<P>) -> Result<(), Inactive> {
    ///         self.0.activate(check, parameters).await
    ///     }
    ///
    ///     async fn release(
    ///         &self,
    ///         reservation: &Reservation,
    ///         why: ReleaseReason,
    ///     ) -> Result<ReleaseOutcome, CheckError> {
    ///         let outcome = self.0.release(reservation, why).await;
    ///         println!("{outcome:?}");
    ///         outcome
    ///     }
    ///
    ///     async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
    ///         self.0.unreleased_reservations().await
    ///     }
    ///
    ///     fn configure(self: &Arc<Self>, check: Check<P>) -> Check<P> {
    ///         check.configured_as(&self.0)
    ///     }
    /// }
    /// ```
    ///
    /// To wrap evaluations alone, use [`layer`](Self::layer), which keeps everything.
    pub fn configured_as<Q>(mut self, other: &Check<Q>) -> Self {
        self.settings = Arc::clone(&other.settings);
        self
    }

    /// Sets the policy for choices that the parameters leave out. [`u32::MAX`] evictions per hour
    /// mean no limit.
    pub fn policy(self, policy: Policy) -> Self {
        self.set(|settings| settings.policy = policy)
    }

    /// Limits one evaluation. Default: `--evaluation-timeout` (30 s). Other calls of the check
    /// (`activate`, `release`, `unreleased_reservations`) may take the longer of the two.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.timeout = Some(timeout))
    }

    /// Adds annotations of Workloads that the check reads: whole keys, or domains with their slash
    /// (`example.com/`) for all their keys. Other annotations are not kept. Default: none.
    pub fn annotations(self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let keys = keys.into_iter().map(Into::into);
        self.set(|settings| settings.annotations.extend(keys))
    }

    /// Adds rules to the generated ClusterRole, for requests of the check itself in the whole
    /// cluster. The runtime's own rules are always included. Default: none.
    ///
    /// Permission to write objects of others, such as every `ConfigMap`, makes the check's token as
    /// powerful as the administrator's: prefer
    /// [`namespace_permissions`](Self::namespace_permissions).
    pub fn permissions(self, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        self.set(|settings| settings.permissions.extend(rules))
    }

    /// Adds rules to the generated Role, for requests of the check itself in the namespace of its
    /// program. Default: none. In a pod, that namespace is the client's default
    /// ([`kube::Api::default_namespaced`]).
    pub fn namespace_permissions(self, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        self.set(|settings| settings.namespace_permissions.extend(rules))
    }

    /// Adds definitions of resources that the check reads besides its parameters, for `manifests`
    /// and `crds`. Default: none.
    pub fn definitions(
        self,
        definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    ) -> Self {
        self.set(|settings| settings.definitions.extend(definitions))
    }

    /// Adds objects of the cluster that the check relies on, such as an admission policy, for
    /// `manifests` and the Helm chart. They have no namespace. Default: none.
    pub fn objects(self, objects: impl IntoIterator<Item = serde_json::Value>) -> Self {
        self.set(|settings| settings.objects.extend(objects))
    }

    /// Watches the objects of kind `K` in the whole cluster. `trigger` returns which Workloads are
    /// evaluated again when one is changed or deleted; after a change, those that it returned before
    /// are evaluated too. The list is read again every 30 min, and triggers for what has changed
    /// without an event. The generated ClusterRole lets the check list and watch them. A panic in
    /// `trigger` is logged with the object's name, and all Workloads of the check are evaluated.
    pub fn watches<K>(
        self,
        config: watcher::Config,
        trigger: impl Fn(&K) -> Trigger + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        self.set(|settings| {
            settings.watches.push(WatchSource::objects(config, trigger));
        })
    }

    /// Watches the objects of kind `K` for a check that stores them, for example in an index.
    ///
    /// As [`watches`](Self::watches), but `handle` receives every event of the watch, also the
    /// start (`Init`) and the end (`InitDone`) of a list. Objects missing at `InitDone` are
    /// removed. `handle` returns which Workloads are evaluated again, except for `Init`, for an
    /// object that a later list shows unchanged, and for the end of a list without any change.
    pub fn watches_events<K>(
        self,
        config: watcher::Config,
        handle: impl Fn(watcher::Event<K>) -> Trigger + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        self.set(|settings| settings.watches.push(WatchSource::events(config, handle)))
    }

    /// Watches the objects of a resource that is chosen at run time, for example by a flag.
    /// Otherwise as [`watches_events`](Self::watches_events).
    ///
    /// Only the group, the version and the plural of `resource` are used.
    ///
    /// ```
    /// # use kueue_check::{Check, ControllerName, NoParameters, Trigger};
    /// use kube::core::{ApiResource, GroupVersionKind};
    /// use kube::runtime::watcher;
    ///
    /// # fn with(check: Check, flag: &str) -> Check {
    /// let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", ""));
    /// resource.plural = flag.to_owned();
    /// check.watches_resource(resource, watcher::Config::default(), |_| Trigger::AllWorkloads)
    /// # }
    /// # let _ = with;
    /// ```
    pub fn watches_resource(
        self,
        resource: ApiResource,
        config: watcher::Config,
        handle: impl Fn(watcher::Event<DynamicObject>) -> Trigger + Send + Sync + 'static,
    ) -> Self {
        let watch = WatchSource::resource(resource, config, handle);
        self.set(|settings| settings.watches.push(watch))
    }

    /// Evaluates Workloads again when a stream yields their [`Trigger`].
    ///
    /// `open` is called once for each session with the cluster; `name` is for diagnostics. A stream
    /// that ends is not reopened in that session. After a panic in it, `open` is called again, with
    /// a delay that doubles up to 5 min, and all Workloads of the check are evaluated.
    pub fn watches_stream<S>(
        self,
        name: impl Into<String>,
        open: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Stream<Item = Trigger> + Send + 'static,
    {
        self.set(|settings| settings.watches.push(WatchSource::stream(name, open)))
    }

    /// Calls `observe` with each Workload event that the runtime receives, for a check that
    /// accounts for what it has approved. Default: nothing is called.
    ///
    /// `observe` receives each Workload that holds quota, also those for which this check is not
    /// evaluated, on standbys too. It always receives a state before the evaluation that is based
    /// on it. The runtime's loop calls it, so it must return at once. An evaluation takes longer:
    /// meanwhile `observe` may have received a newer state, even the end of the job. The last
    /// observation counts. See [`WorkloadEvent`].
    pub fn observe(self, observe: impl Fn(WorkloadEvent<'_>) + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.observe.push(Arc::new(observe)))
    }

    /// Runs `work` in the background: to poll another system at its own pace, or to write the
    /// status of the parameters. Default: none.
    ///
    /// It is started once for each session with the cluster, on standbys too, and dropped with the
    /// session. [`BackgroundContext::is_leader`] returns true on the leader. When it returns, it is
    /// not started again. A panic ends the process, which is then restarted: what the work and the
    /// evaluations share may be half changed.
    pub fn background<F>(
        self,
        work: impl Fn(BackgroundContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.set(|settings| {
            settings
                .background
                .push(Arc::new(move |context| Box::pin(work(context))));
        })
    }

    /// Adds metrics to `/metrics`: `write` is called at each scrape. Default: none.
    ///
    /// Every replica is scraped: write figures that only the leader has only while
    /// [`BackgroundContext::is_leader`].
    ///
    /// ```
    /// # use kueue_check::{Check, Verdict, admission_check};
    /// # #[admission_check(controller = "example.com/licences")]
    /// # async fn licences() -> Verdict { Verdict::ready("") }
    /// let check = Check::new(licences).metrics(|metrics| {
    ///     metrics.gauge("licence_seats", "Seats of a licence").count(&[("licence", "cad")], 12);
    /// });
    /// ```
    pub fn metrics(self, write: impl Fn(&mut MetricsText) + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.metrics.push(Arc::new(write)))
    }

    /// Sets how the event of a changed state is made. Default: a reason such as
    /// `AdmissionCheckReady`, and a note with both states and the message.
    pub fn state_change_event(
        self,
        event: impl Fn(&StateChange<'_>) -> CheckEvent + Send + Sync + 'static,
    ) -> Self {
        self.set(|settings| settings.state_change_event = Some(Arc::new(event)))
    }

    /// Adds a text for administrators to the message of the condition `Active`, while it is True:
    /// what the check leaves out, for example. Default: nothing is added.
    ///
    /// `message` is called when the AdmissionCheck is activated, and again when a
    /// [watch](Self::watches) of this check yields [`Trigger::AdmissionCheck`] or
    /// [`Trigger::AllWorkloads`]. The runtime's loop calls it, so it must return at once.
    ///
    /// ```
    /// # use kueue_check::{Check, Verdict, admission_check};
    /// # #[admission_check(controller = "example.com/licences")]
    /// # async fn licences() -> Verdict { Verdict::ready("") }
    /// let check = Check::new(licences)
    ///     .active_message(|check| (check.name() == "cad").then(|| "2 of 12 seats are lent".into()));
    /// ```
    pub fn active_message(
        self,
        message: impl Fn(&AdmissionCheck) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.set(|settings| settings.active_message.push(Arc::new(message)))
    }

    /// Sets the message of a Workload that waits while the AdmissionCheck's parameters are missing
    /// or invalid. Default: none, it is evaluated with the last valid parameters.
    ///
    /// With a message, a verdict that Kueue has not acted on becomes Pending with that message. The
    /// resources that the check holds are [released](AdmissionCheckController::release) with
    /// [`ReleaseReason::CheckInactive`]. Evaluations resume when the parameters are valid. An
    /// admitted job keeps its resources.
    ///
    /// Parameters that [evaluations reject](crate::ErrorKind::Parameters) count as invalid only
    /// until a Workload has had a verdict with them: Workloads that reject them afterwards take
    /// nothing from others.
    pub fn on_parameters_unavailable(
        self,
        message: impl Fn(&Inactive) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.set(|settings| settings.on_parameters_unavailable = Some(Arc::new(message)))
    }

    /// Keeps a Ready verdict for the Workload's next reservation too.
    ///
    /// When quota is lost without an eviction (the queue is stopped), Kueue keeps the check's state
    /// and admits the Workload with it the next time (measured on 0.19.2). So the runtime changes a
    /// Ready to Pending, unless this is set.
    pub fn outlives_reservation(self) -> Self {
        self.set(|settings| settings.outlives_reservation = true)
    }

    /// Calls [`release`](AdmissionCheckController::release) as soon as Kueue begins to stop a job.
    /// Default: when the quota is released.
    ///
    /// Kueue stops the pods of a job that is evicted, deactivated or deleted, and keeps its quota
    /// until no pod is active. A check that counts what pods use must wait for that. Set this for
    /// resources that no pod uses any more, such as capacity that was requested.
    pub fn release_at_eviction(self) -> Self {
        self.set(|settings| settings.release_at_eviction = true)
    }

    /// Sets whether the command `explain` may evaluate this check: whether an evaluation has no
    /// effect, and depends on no state of the running process.
    ///
    /// Default: true for functions without state, false for functions with state and for services.
    /// For types, their [`preview`](AdmissionCheckController::preview) decides.
    pub fn previewable(mut self, previewable: bool) -> Self {
        self.calls.preview = if previewable {
            let evaluate = Arc::clone(&self.calls.evaluate);
            call(move |request| {
                let verdict = evaluate(request);
                async move { verdict.await.map(Preview::of) }
            })
        } else {
            call(|_| async { Ok(Preview::has_side_effects()) })
        };
        self
    }

    /// Adds a step to the activation: `activate` is called after the check's own has succeeded. See
    /// [`AdmissionCheckController::activate`].
    pub fn on_activate<F>(
        mut self,
        activate: impl Fn(AdmissionCheck, Arc<P>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Inactive>> + Send + 'static,
    {
        let (own, then) = (self.calls.activate, Arc::new(activate));
        self.calls.activate = call(move |(check, parameters): (AdmissionCheck, Arc<P>)| {
            let own = own((check.clone(), Arc::clone(&parameters)));
            let then = Arc::clone(&then);
            async move {
                own.await?;
                then(check, parameters).await
            }
        });
        self
    }

    /// Adds a step to the release: `release` is called with the check's own, until both are done.
    /// See [`AdmissionCheckController::release`].
    pub fn on_release<F>(
        mut self,
        release: impl Fn(Reservation, ReleaseReason) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ReleaseOutcome, CheckError>> + Send + 'static,
    {
        let (own, other) = (self.calls.release, Arc::new(release));
        self.calls.release = call(move |(reservation, why): (Reservation, ReleaseReason)| {
            let own = own((reservation.clone(), why.clone()));
            let other = Arc::clone(&other);
            async move {
                let (own, other) = join(own, async { other(reservation, why).await }).await;
                Ok(own?.and(other?))
            }
        });
        self
    }

    /// Adds reservations for which this check still holds resources. See
    /// [`AdmissionCheckController::unreleased_reservations`].
    pub fn unreleased<F>(mut self, find: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<Reservation>, CheckError>> + Send + 'static,
    {
        let (own, find) = (self.calls.unreleased, Arc::new(find));
        self.calls.unreleased = call(move |()| {
            let (own, find) = (own(()), Arc::clone(&find));
            async move {
                let mut all = own.await?;
                all.extend(find().await?);
                all.sort_unstable();
                all.dedup();
                Ok(all)
            }
        });
        self
    }
}

impl<P: Parameters> AdmissionCheckController for Check<P> {
    type Parameters = P;

    fn controller_name(&self) -> ControllerName {
        self.name.clone()
    }

    async fn evaluate(&self, request: CheckRequest<P>) -> Result<Verdict, CheckError> {
        (self.calls.evaluate)(request).await
    }

    async fn preview(&self, request: CheckRequest<P>) -> Result<Preview, CheckError> {
        (self.calls.preview)(request).await
    }

    async fn activate(&self, check: &AdmissionCheck, parameters: &Arc<P>) -> Result<(), Inactive> {
        (self.calls.activate)((check.clone(), Arc::clone(parameters))).await
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        (self.calls.release)((reservation.clone(), why)).await
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        (self.calls.unreleased)(()).await
    }

    /// Returns the check as it is: it is configured already.
    fn configure(self: &Arc<Self>, _: Self) -> Self {
        Self::clone(self)
    }
}

impl<P> Clone for Calls<P> {
    fn clone(&self) -> Self {
        Self {
            evaluate: Arc::clone(&self.evaluate),
            preview: Arc::clone(&self.preview),
            activate: Arc::clone(&self.activate),
            release: Arc::clone(&self.release),
            unreleased: Arc::clone(&self.unreleased),
        }
    }
}

impl<P> Clone for Check<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            calls: self.calls.clone(),
            settings: Arc::clone(&self.settings),
        }
    }
}

impl<P> fmt::Debug for Check<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
