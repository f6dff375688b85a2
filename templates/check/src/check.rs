{%- assign kind = project-name | upper_camel_case | append: "Rule" -%}
{%- capture body -%}
{%- if source == "none" %}
        let verdict = rule::decide(pods, {% if parameters %}rule.most_pods_by_day, rule.night(){% else %}MAX_PODS_BY_DAY, NIGHT{% endif %}, request.now());
{%- elsif source == "http" %}
        let namespace = request.workload().namespace();
        let verdict = rule::decide(pods, source.free_pods({% if parameters %}&rule.url, {% endif %}namespace).await?);
{%- else %}
        let verdict = rule::decide(pods, source.free_pods({% if parameters %}&rule.url, &rule.query{% endif %}).await?);
{%- endif %}
{%- if state or cleanup %}
        if !verdict.is_ready() {
            return Ok(verdict);
        }
{%- endif %}
{%- if state %}
        if let Err(wait) = pace.start(&request, {% if parameters %}rule.start_interval.into(){% else %}START_INTERVAL{% endif %}) {
            return Ok(Verdict::pending("another job has just started").recheck_in(wait));
        }
{%- endif %}
{%- if cleanup %}
        bookings.book(request.reservation(), request.workload().pod_sets().iter().map(PodSet::count).sum()).await?;
{%- endif %}
{%- endcapture -%}
//! The check: it collects the inputs of the rule, and returns its verdict.
{%- if source == "none" %}
//!
//! By day, large jobs wait for the night.
{%- else %}
//!
//! A job starts when enough pods are free. The figures do not yet include jobs that have just been
//! admitted: where that matters, count them.
{%- endif %}
{% if source != "none" or state and parameters == false %}
use std::time::Duration;
{% endif %}
{%- if cleanup %}
use kueue_check::kube::Client;
{%- endif %}
use kueue_check::prelude::*;
{%- if source != "none" %}
use kueue_check::service::CircuitBreakerLayer;
{%- endif %}
{% if cleanup %}
use crate::bookings::Bookings;
{%- endif %}
{%- if state %}
use crate::rate_limit::RateLimiter;
{%- endif %}
{%- if parameters %}
use crate::parameters::{{ kind }};
{%- endif %}
{%- if source == "none" and parameters == false %}
use crate::rule::{self, NightWindow};
{%- else %}
use crate::rule;
{%- endif %}
{%- if source != "none" %}
use crate::source::Source;
{%- endif %}
{% if source == "none" and parameters == false %}
/// By day, jobs of more pods than this wait.
pub const MAX_PODS_BY_DAY: u32 = 10;
/// When they start.
pub const NIGHT: NightWindow = NightWindow { begins: 22, ends: 6 };
{%- endif %}
{%- if state and parameters == false %}
/// The time between two starts.
pub const START_INTERVAL: Duration = Duration::from_secs(10);
{%- endif %}
{%- if source != "none" %}
/// The number of consecutive failures after which no requests are sent for a time.
const FAILURES: u32 = 5;
/// For how long.
const PAUSE: Duration = Duration::from_secs(60);
{%- endif %}

/// The check, as it runs.
pub fn new({% if cleanup %}client: Client{% endif %}{% if cleanup and source != "none" %}, {% endif %}{% if source != "none" %}source: Source{% endif %}) -> impl AdmissionCheckController {
{%- capture made -%}
{%- if cleanup -%}
MayStart { bookings: Bookings::new(client){% if source != "none" %}, source{% endif %}{% if state %}, pace: RateLimiter::default(){% endif %} }
{%- elsif source != "none" and state -%}
may_start.with_state(Inputs { source, pace: RateLimiter::default() })
{%- elsif source != "none" -%}
may_start.with_state(source)
{%- elsif state -%}
may_start.with_state(RateLimiter::default())
{%- else -%}
may_start
{%- endif -%}
{%- endcapture %}
{%- if source != "none" %}
    Check::new({{ made }}).layer(CircuitBreakerLayer::new(FAILURES, PAUSE))
{%- else %}
    {{ made }}
{%- endif %}
}
{% if cleanup %}
/// What the check works with.
struct MayStart {
    bookings: Bookings,
{%- if source != "none" %}
    source: Source,
{%- endif %}
{%- if state %}
    pace: RateLimiter,
{%- endif %}
}

impl AdmissionCheckController for MayStart {
    type Parameters = {% if parameters %}{{ kind }}{% else %}NoParameters{% endif %};

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("{{ controller_name }}") }
    }

    async fn evaluate(&self, request: CheckRequest<Self::Parameters>) -> Result<Verdict, CheckError> {
        let Self { bookings{% if source != "none" %}, source{% endif %}{% if state %}, pace{% endif %} } = self;
{%- if parameters %}
        let rule = &request.parameters().spec;
{%- endif %}
        // Of an elastic job that grows, the further pods.
        let pods = request.workload().pod_sets().iter().map(|pod_set| request.family().increase(pod_set)).sum();
        {{- body }}
        Ok(verdict)
    }

    async fn release(&self, reservation: &Reservation, why: ReleaseReason) -> Result<ReleaseOutcome, CheckError> {
        let by = match &why {
            ReleaseReason::Replaced { by, .. } | ReleaseReason::VariantAdmitted { by } => Some(by),
            _ => None,
        };
        self.bookings.cancel(reservation, by).await?;
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        self.bookings.all().await
    }

    fn configure(self: &std::sync::Arc<Self>, check: Check<Self::Parameters>) -> Check<Self::Parameters> {
        check.namespace_permissions(Bookings::permissions())
    }
}
{%- else %}
{%- if source != "none" and state %}
/// What the check works with.
#[derive(Clone)]
pub struct Inputs {
    source: Source,
    pace: RateLimiter,
}
{% endif %}
/// {% if source == "none" %}By day, large jobs wait for the night.{% else %}A job starts when
/// enough pods are free.{% endif %}
#[admission_check(controller = "{{ controller_name }}"{% if source != "none" %}, timeout = "10s"{% endif %})]
pub async fn may_start(
    request: Request,
{%- if parameters %}
    Params(parameters): Params<{{ kind }}>,
{%- endif %}
{%- if source != "none" and state %}
    State(Inputs { source, pace }): State<Inputs>,
{%- elsif source != "none" %}
    State(source): State<Source>,
{%- elsif state %}
    State(pace): State<RateLimiter>,
{%- endif %}
) -> {% if source == "none" and state == false %}Verdict{% else %}Result<Verdict, CheckError>{% endif %} {
{%- if parameters %}
        let rule = &parameters.spec;
{%- endif %}
        // Of an elastic job that grows, the further pods.
        let pods = request.workload().pod_sets().iter().map(|pod_set| request.family().increase(pod_set)).sum();
{%- if source == "none" and state == false %}
    rule::decide(pods, {% if parameters %}rule.most_pods_by_day, rule.night(){% else %}MAX_PODS_BY_DAY, NIGHT{% endif %}, request.now())
{%- elsif state == false %}
{%- if source == "http" %}
        let namespace = request.workload().namespace();
{%- endif %}
        Ok(rule::decide(pods, source.free_pods({% if source == "http" %}{% if parameters %}&rule.url, {% endif %}namespace{% elsif parameters %}&rule.url, &rule.query{% endif %}).await?))
{%- else %}
        {{- body }}
        Ok(verdict)
{%- endif %}
}
{%- endif %}
