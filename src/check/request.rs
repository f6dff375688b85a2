//! The request of one evaluation.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::parameters::AnyParameters;
use super::{CheckError, CheckEvent, Family, Reservation};
use crate::api::{AdmissionCheckState, Quantity, ResourceFlavor, Workload};

/// The request of one evaluation: the Workload, its reservation and the other inputs. Read-only.
///
/// Cheap to clone. Dereferences to [`Request`], which is the same without the parameters' type.
///
/// ```
/// use kueue_check::{CheckError, CheckRequest, RequestBuilder, Verdict, api::Workload};
/// # struct Limit { pods: u32 }
///
/// /// As in `evaluate` of a controller whose parameters are a `Limit`.
/// async fn check(request: CheckRequest<Limit>) -> Result<Verdict, CheckError> {
///     let pods: u32 = request.workload().pod_sets().iter().map(|pod_set| pod_set.count()).sum();
///     Ok(if pods <= request.parameters().pods { Verdict::ready("small enough") } else { Verdict::rejected("too large") })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workload = Workload::from_json(serde_json::json!({
///     "metadata": {"namespace": "team-a", "name": "train", "uid": "1"}, "spec": {"podSets": [{"name": "workers", "count": 9}]},
/// }))?;
/// let request = RequestBuilder::new(workload, "limit").build(Limit { pods: 8 });
/// assert!(check(request).await.is_ok_and(|verdict| verdict.is_rejected()));
/// # Ok(()) }
/// ```
pub struct CheckRequest<P> {
    request: Request,
    parameters: Arc<P>,
}

/// A [`CheckRequest`] without the type of its parameters.
///
/// ```
/// use kueue_check::{Request, Verdict, admission_check};
///
/// /// A function can take the whole request.
/// #[admission_check(controller = "example.com/patience")]
/// async fn patience(request: Request) -> Verdict {
///     if request.waited().as_secs() > 3600 {
///         return Verdict::ready(format!("{} has waited for an hour", request.workload()));
///     }
///     Verdict::pending("waits an hour").recheck_in(std::time::Duration::from_secs(60))
/// }
/// # use kueue_check::{NoParameters, RequestBuilder, api::Workload};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let workload = Workload::from_json(serde_json::json!({"metadata": {"namespace": "team-a", "name": "train", "uid": "1"}}))?;
/// let request = RequestBuilder::new(workload, "patience").now("2026-11-21T09:00:00Z".parse()?).build(NoParameters);
/// assert_eq!(patience::decide(request.request().clone()).await.message(), "team-a/train has waited for an hour");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Request(Arc<Data>);

struct Data {
    workload: Workload,
    reservation: Reservation,
    family: Family,
    now: Timestamp,
    evaluation: u32,
    parameters: AnyParameters,
    parameters_generation: i64,
    flavors: Arc<BTreeMap<String, ResourceFlavor>>,
    reader: Arc<dyn ReadWorkload>,
    events: Mutex<Vec<CheckEvent>>,
}

/// Reads whole Workloads: the only access to the cluster that a request gives.
pub(crate) trait ReadWorkload: Send + Sync {
    fn read<'a>(
        &'a self,
        workload: &'a Workload,
    ) -> BoxFuture<'a, Result<serde_json::Value, CheckError>>;
}

/// The reader of a request that was built in a test.
struct NoReader;

impl ReadWorkload for NoReader {
    fn read<'a>(
        &'a self,
        workload: &'a Workload,
    ) -> BoxFuture<'a, Result<serde_json::Value, CheckError>> {
        Box::pin(async move {
            Err(CheckError::permanent(format!(
                "cannot read {workload}: a request from RequestBuilder has no cluster"
            )))
        })
    }
}

impl Request {
    /// Returns the Workload.
    pub fn workload(&self) -> &Workload {
        &self.0.workload
    }

    /// Returns the quota reservation that is evaluated.
    pub fn reservation(&self) -> &Reservation {
        &self.0.reservation
    }

    /// Returns the Workloads of the same job: this one's role among them, and what runs already.
    ///
    /// ```
    /// use kueue_check::{Request, Verdict};
    ///
    /// /// As in `evaluate` of a controller with a number of seats for pods.
    /// fn seats(request: &Request, free: u32) -> Verdict {
    ///     // Pods that run have theirs: of an elastic job that grows, only the others are requested.
    ///     let pod_sets = request.workload().pod_sets().iter();
    ///     let pods: u32 = pod_sets.map(|pod_set| request.family().increase(pod_set)).sum();
    ///     if pods <= free { Verdict::ready("has seats") } else { Verdict::pending("waits for seats") }
    /// }
    /// # let _ = seats;
    /// ```
    pub fn family(&self) -> &Family {
        &self.0.family
    }

    /// Returns the AdmissionCheck's name. One controller may serve several, with different
    /// parameters.
    pub fn admission_check(&self) -> &str {
        self.0.reservation.admission_check()
    }

    /// Returns the time of the evaluation. Use it instead of the machine's clock, so that tests can
    /// set it.
    pub fn now(&self) -> Timestamp {
        self.0.now
    }

    /// Returns the number of the attempt: 1, and one more for each requeue after a Retry of this
    /// check.
    ///
    /// Kueue counts (≥ 0.15; 1 before), and starts again from 1 when the Workload is evicted for
    /// another reason.
    pub fn attempt(&self) -> u32 {
        self.workload()
            .check(self.admission_check())
            .and_then(AdmissionCheckState::retry_count)
            .unwrap_or(0)
            .saturating_add(1)
    }

    /// Returns the number of evaluations of this reservation, this one included. Starts again from
    /// 1 in a new process.
    pub fn evaluation_count(&self) -> u32 {
        self.0.evaluation
    }

    /// Returns how long the Workload has held quota.
    pub fn waited(&self) -> Duration {
        self.reservation().held_for(self.now())
    }

    /// Returns what the job itself uses of `resource` now: its accounted usage once it may run,
    /// else zero.
    ///
    /// Figures of running jobs include the job that is evaluated. Subtract this before comparing,
    /// or the job is counted against itself.
    pub fn own_usage(&self, resource: &str) -> Quantity {
        if self.workload().is_admitted() {
            self.workload().usage(resource)
        } else {
            Quantity::ZERO
        }
    }

    /// Returns the ResourceFlavor `name`, if the cluster has it: the kind of nodes of an
    /// assignment.
    pub fn flavor(&self, name: &str) -> Option<&ResourceFlavor> {
        self.0.flavors.get(name)
    }

    /// Returns all ResourceFlavors, by name.
    pub fn flavors(&self) -> &BTreeMap<String, ResourceFlavor> {
        &self.0.flavors
    }

    /// Returns `metadata.generation` of the parameters; 0 without parameters.
    pub fn parameters_generation(&self) -> i64 {
        self.0.parameters_generation
    }

    /// Reads the whole Workload from the API server, for a check that needs pod templates. One
    /// request.
    ///
    /// # Errors
    /// As any request: transient, or permanent if the Workload was deleted.
    pub async fn full_workload(&self) -> Result<serde_json::Value, CheckError> {
        self.0.reader.read(self.workload()).await
    }

    /// Records an event about the Workload. It is published after the evaluation, whatever that
    /// returns.
    pub fn record_event(&self, note: CheckEvent) {
        self.events().push(note);
    }

    /// Returns the events recorded so far, for tests.
    pub fn recorded_events(&self) -> Vec<CheckEvent> {
        self.events().clone()
    }

    /// Takes the recorded events, to publish them.
    pub(crate) fn take_events(&self) -> Vec<CheckEvent> {
        std::mem::take(&mut *self.events())
    }

    fn events(&self) -> MutexGuard<'_, Vec<CheckEvent>> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the parameters as `P`; `None` if they are of another type.
    pub(crate) fn parameters_as<P: Send + Sync + 'static>(&self) -> Option<Arc<P>> {
        Arc::clone(&self.0.parameters).downcast().ok()
    }

    /// Returns the same request with parameters of the type `P`.
    pub(crate) fn typed<P: Send + Sync + 'static>(self) -> Option<CheckRequest<P>> {
        let parameters = self.parameters_as()?;
        Some(CheckRequest {
            request: self,
            parameters,
        })
    }
}

impl<P> CheckRequest<P> {
    /// Returns the AdmissionCheck's parameters.
    pub fn parameters(&self) -> &Arc<P> {
        &self.parameters
    }

    /// Returns the request without the parameters' type.
    pub fn request(&self) -> &Request {
        &self.request
    }
}

impl<P> Deref for CheckRequest<P> {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl<P> Clone for CheckRequest<P> {
    fn clone(&self) -> Self {
        Self {
            request: self.request.clone(),
            parameters: Arc::clone(&self.parameters),
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Data {
            reservation,
            now,
            evaluation,
            ..
        } = &*self.0;
        f.debug_struct("Request")
            .field("reservation", reservation)
            .field("now", now)
            .field("evaluation", evaluation)
            .finish_non_exhaustive()
    }
}

impl<P: fmt::Debug> fmt::Debug for CheckRequest<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckRequest")
            .field("request", &self.request)
            .field("parameters", &self.parameters)
            .finish()
    }
}

/// A builder of requests: the runtime fills it from the cluster, a test by hand.
///
/// ```
/// use kueue_check::{NoParameters, RequestBuilder, api::Workload};
///
/// let workload = Workload::from_json(serde_json::json!({
///     "metadata": {"namespace": "team-a", "name": "train", "uid": "1"},
///     "status": {
///         "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
///         "admission": {"clusterQueue": "gpus", "podSetAssignments": []},
///     },
/// }))?;
/// let request = RequestBuilder::new(workload, "window").now("2026-11-21T09:30:00Z".parse()?).build(NoParameters);
/// assert_eq!(request.waited().as_secs(), 1800);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct RequestBuilder {
    workload: Workload,
    reservation: Reservation,
    family: Option<Family>,
    now: Option<Timestamp>,
    evaluation: u32,
    parameters_generation: i64,
    flavors: Arc<BTreeMap<String, ResourceFlavor>>,
    reader: Arc<dyn ReadWorkload>,
}

impl RequestBuilder {
    /// Starts a request of the AdmissionCheck `check` about `workload`. A Workload without quota
    /// counts as reserved in 1970.
    pub fn new(workload: Workload, check: &str) -> Self {
        let reservation = Reservation::last_of(&workload, check);
        Self {
            workload,
            reservation,
            family: None,
            now: None,
            evaluation: 1,
            parameters_generation: 0,
            flavors: Arc::default(),
            reader: Arc::new(NoReader),
        }
    }

    /// Sets the time of the evaluation. Default: the time of the reservation.
    pub fn now(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Sets the number of evaluations of this reservation, this one included. Default: 1.
    pub fn evaluation(mut self, evaluation: u32) -> Self {
        self.evaluation = evaluation;
        self
    }

    /// Sets the Workloads of the same job. Default: there are no others.
    pub fn family(mut self, family: Family) -> Self {
        self.family = Some(family);
        self
    }

    pub(crate) fn parameters_generation(mut self, generation: i64) -> Self {
        self.parameters_generation = generation;
        self
    }

    /// Sets the ResourceFlavors of the cluster. Default: none.
    pub fn flavors(mut self, flavors: Arc<BTreeMap<String, ResourceFlavor>>) -> Self {
        self.flavors = flavors;
        self
    }

    pub(crate) fn reader(mut self, reader: Arc<dyn ReadWorkload>) -> Self {
        self.reader = reader;
        self
    }

    /// Builds the request, with `parameters`.
    pub fn build<P: Send + Sync + 'static>(self, parameters: P) -> CheckRequest<P> {
        let parameters = Arc::new(parameters);
        CheckRequest {
            request: self.build_any(parameters.clone()),
            parameters,
        }
    }

    pub(crate) fn build_any(self, parameters: AnyParameters) -> Request {
        let now = self.now.unwrap_or(self.reservation.since());
        let family = self
            .family
            .unwrap_or_else(|| Family::of(&self.workload, []));
        Request(Arc::new(Data {
            family,
            workload: self.workload,
            reservation: self.reservation,
            now,
            evaluation: self.evaluation,
            parameters,
            parameters_generation: self.parameters_generation,
            flavors: self.flavors,
            reader: self.reader,
            events: Mutex::default(),
        }))
    }
}
