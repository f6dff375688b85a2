//! The admission check that returns the verdicts of its services, and queues requests to them.

use std::sync::Arc;
use std::time::Duration;

use kueue_check::api::AdmissionCheck;
use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, Inactive, Preview,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict, WorkloadEvent,
};
use kueue_check_sources::ServerPolicy;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::registry::{Lookup, RESPONSE_TIMEOUT};
use super::resource;
use super::service::Services;
use super::transport::{HttpTransport, Operation, Transport};
use super::worker::{self, Shared};
use crate::CONTROLLER;
use crate::document::fingerprint;
use crate::servers::allowed;

/// The maximum number of evaluations that wait for a response. The others end at once and are
/// repeated when the response arrives, so that other checks of the program are evaluated meanwhile.
const SEATS: usize = 4;

/// The check. One instance decides for any number of AdmissionChecks.
pub struct WebhookCheck {
    name: ControllerName,
    servers: ServerPolicy,
    annotations: Vec<String>,
    clock: kueue_check::Clock,
    seats: Semaphore,
    shared: Arc<Shared>,
}

impl WebhookCheck {
    /// Creates a check that reaches its services over HTTP, as far as the deployment allows.
    pub fn new(servers: ServerPolicy) -> Self {
        let transport = HttpTransport::new(servers.clone());
        Self::with_transport(servers, Arc::new(transport))
    }

    /// Creates a check with a stand-in for HTTP, for tests.
    pub fn with_transport(servers: ServerPolicy, transport: Arc<dyn Transport>) -> Self {
        Self {
            name: const { ControllerName::from_static(CONTROLLER) },
            servers,
            annotations: Vec::new(),
            clock: kueue_check::Clock::system(),
            seats: Semaphore::new(SEATS),
            shared: Arc::new(Shared::new(Services::new(transport))),
        }
    }

    /// Sets another controller name, for a program that has several kinds of checks.
    #[must_use]
    pub fn named(mut self, name: ControllerName) -> Self {
        self.name = name;
        self
    }

    /// Adds annotations of Workloads that are sent to services: whole keys, or domains with their
    /// slash. Default: none.
    #[must_use]
    pub fn annotations(mut self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.annotations.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Sets another clock for signatures, for tests.
    #[must_use]
    pub fn clock(mut self, clock: kueue_check::Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl AdmissionCheckController for WebhookCheck {
    type Parameters = resource::WebhookCheck;

    fn controller_name(&self) -> ControllerName {
        self.name.clone()
    }

    async fn activate(
        &self,
        check: &AdmissionCheck,
        webhook: &Arc<resource::WebhookCheck>,
    ) -> Result<(), Inactive> {
        allowed(
            &self.servers,
            "spec.url",
            &webhook.spec.url,
            webhook.spec.has_credentials(),
        )?;
        let spec = Arc::new(webhook.spec.clone());
        self.shared.registry().set_spec(check.name(), &spec);
        if spec.held_path.is_some() {
            self.shared.relist();
        }
        Ok(())
    }

    async fn evaluate(
        &self,
        request: CheckRequest<resource::WebhookCheck>,
    ) -> Result<Verdict, CheckError> {
        let webhook = request.parameters();
        let metadata = &webhook.metadata;
        let version = (metadata.uid.as_deref(), metadata.generation);
        let fingerprint = fingerprint(&request, version);
        let lookup = self
            .shared
            .registry()
            .lookup(&request, fingerprint, Instant::now());
        let completed = match lookup {
            Lookup::Verdict(verdict) => return Ok(verdict),
            Lookup::Failed(error) => return Err(error),
            Lookup::Requested(completed) => completed,
        };
        self.shared.queued.notify_one();
        if let Ok(_seat) = self.seats.try_acquire() {
            // The registry has the result, whether the wait timed out or not.
            let _ = timeout(RESPONSE_TIMEOUT, completed).await;
        }
        let concluded = self
            .shared
            .registry()
            .conclude(&request, fingerprint, Instant::now());
        // If the Workload has changed since, it is reviewed again.
        self.shared.queued.notify_one();
        concluded
    }

    async fn preview(
        &self,
        request: CheckRequest<resource::WebhookCheck>,
    ) -> Result<Preview, CheckError> {
        let spec = Arc::new(request.parameters().spec.clone());
        let verdict = worker::preview(&self.shared, &spec, &request, self.clock.now());
        Ok(Preview::of(verdict.await?))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        let check = reservation.admission_check();
        let spec = {
            let mut registry = self.shared.registry();
            // After this no activation begins; one that is in flight is completed first.
            registry.remove(reservation);
            if registry.is_activating(reservation) {
                return Ok(ReleaseOutcome::RetryAfter(Duration::from_secs(1)));
            }
            registry.spec(check)
        };
        let spec = spec.ok_or_else(|| {
            CheckError::transient(format!(
                "the WebhookCheck of AdmissionCheck {check} is not known, so nothing can be released there"
            ))
        })?;
        if spec.release_path.is_some() {
            let now = self.clock.now();
            worker::release(&self.shared, &spec, reservation, why.as_str(), now).await?;
        }
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        worker::all_held(&self.shared, self.clock.now()).await
    }

    fn configure(
        self: &Arc<Self>,
        check: Check<resource::WebhookCheck>,
    ) -> Check<resource::WebhookCheck> {
        let share = || Arc::clone(&self.shared);
        let (observer, background, triggers, metrics) = (share(), share(), share(), share());
        check
            .annotations(self.annotations.iter().cloned())
            .observe(move |event| match event {
                WorkloadEvent::Applied(workload, _) if workload.holds_quota() => {}
                WorkloadEvent::Applied(workload, _) | WorkloadEvent::Removed(workload) => {
                    observer.registry().remove_workload(workload.uid());
                }
                _ => {}
            })
            .background(move |context| worker::run(Arc::clone(&background), context))
            .watches_stream("responses of webhooks", move || {
                Arc::clone(&triggers).triggers()
            })
            .metrics(move |text| {
                let counts = metrics.services.counts();
                let mut requests = text.counter("webhook_requests", "Requests to webhooks");
                for ((operation, result), count) in counts {
                    let operation = Operation::as_str(operation);
                    requests.count(&[("operation", operation), ("result", result)], count);
                }
                let sizes = metrics.registry().sizes();
                let mut workloads = text.gauge(
                    "webhook_workloads",
                    "Workloads with quota that webhooks review",
                );
                for (check, size) in sizes {
                    let size = u64::try_from(size).unwrap_or(u64::MAX);
                    workloads.count(&[("admission_check", &check)], size);
                }
            })
    }
}
