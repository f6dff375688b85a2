//! The settings of the autoscaler.

use std::collections::BTreeMap;
use std::time::Duration;

use super::request::Request;
use super::{Misbehaviour, NodePool, Profile, Selector};

const MINUTE: Duration = Duration::from_secs(60);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// The settings of the autoscaler. The profile sets their defaults; setters of the same names
/// change the fields.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use std::time::Duration;
/// use kueue_check_sim::autoscaler::{CHECK_CAPACITY, Delay, NodePool, Profile, Settings};
///
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .provision_delay(Delay::Fixed(Duration::from_secs(60)))
///     .booking_ttl(Duration::from_secs(120));
/// // The conditions written in ten minutes for a request for eight pods of one CPU; there is a scan every ten seconds.
/// assert_eq!(written_conditions(settings, &[("train", CHECK_CAPACITY, 8)], 10), [
///     "09:00:00 train Accepted=True Accepted",
///     "09:01:00 train Provisioned=True CapacityIsFound",
///     "09:03:10 train BookingExpired=True CapacityReservationTimeExpired",
/// ]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The simulated autoscaler.
    pub profile: Profile,
    /// The node pools. Without any, no request finds capacity.
    pub pools: Vec<NodePool>,
    /// The interval between the starts of loops (10 s).
    pub scan_interval: Duration,
    /// Whether the next loop begins at once after one that picked up a request. Otherwise the
    /// autoscaler handles one request per scan. On from 1.35.
    pub frequent_loops: bool,
    /// The minimum age of a request before it is accepted (none).
    pub accept_delay: Duration,
    /// The time between Accepted and the outcome of the attempt (none).
    pub provision_delay: Delay,
    /// How long capacity stays booked after Provisioned (10 min).
    pub booking_ttl: Duration,
    /// The age at which a request that is not provisioned fails (7 d).
    pub expiration_ttl: Duration,
    /// When old requests are deleted after Provisioned or Failed (7 d); `None`: never. From 1.32.
    pub terminal_ttl: Option<Duration>,
    /// The wait after the first attempt that found nothing (1 min; 10 min in 1.31). It doubles with
    /// each further attempt.
    pub initial_backoff: Duration,
    /// The longest wait between attempts (10 min).
    pub max_backoff: Duration,
    /// Queued provisioning: how long after Provisioned nodes are removed, if the request does not
    /// set it (7 d).
    pub max_run_duration: Duration,
    /// The number of check-capacity requests that one loop handles, each with one write instead of
    /// two; `None`: one at a time.
    pub batch: Option<usize>,
    /// The order in which requests are picked up.
    pub order: Order,
    /// Queued provisioning: `status.provisioningClassDetails` of provisioned requests. `{name}`
    /// stands for the request's name.
    pub details: BTreeMap<String, String>,
    /// Whether the outcome of best-effort-atomic-scale-up is written by server-side apply (from
    /// 1.32) or by update.
    pub apply_provisioned: bool,
    /// The autoscaler's `--check-capacity-processor-instance`.
    pub processor_instance: Option<String>,
    /// How long added nodes stay while unused (10 min).
    pub scale_down_delay: Duration,
    /// For simulations without pods: a provisioned request uses its nodes until it is deleted or
    /// revoked, also after its booking expired. Otherwise (default) only bookings and scheduled
    /// pods do.
    pub jobs_without_pods: bool,
    /// The user agent of all requests; the part before `/` is the field manager of updates.
    pub agent: String,
    /// The seed of random values.
    pub seed: u64,
    pub(super) behaviours: Vec<(Selector, Misbehaviour)>,
}

/// A delay, fixed or random.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use std::time::Duration;
/// use kueue_check_sim::autoscaler::{CHECK_CAPACITY, Delay, NodePool, Profile, Settings};
///
/// let minutes = |count: u64| Duration::from_secs(60 * count);
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .provision_delay(Delay::Between(minutes(2), minutes(5)))
///     .seed(7);
/// // The conditions written in six minutes for a request for eight pods of one CPU.
/// let once = written_conditions(settings.clone(), &[("train", CHECK_CAPACITY, 8)], 6);
/// assert!(("09:02:00".."09:05:11").contains(&once[1].as_str()));
/// assert_eq!(once, written_conditions(settings, &[("train", CHECK_CAPACITY, 8)], 6), "one seed, one delay");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always this long.
    Fixed(Duration),
    /// Between the two, derived from the settings' seed and the request's name, in whole seconds.
    Between(Duration, Duration),
}

/// The order in which requests are picked up. Real autoscalers guarantee no order.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use kueue_check_sim::autoscaler::{CHECK_CAPACITY, NodePool, Order, Profile, Settings};
///
/// // The first condition written for two requests; `b` was there a second before `a`.
/// let first = |order: Order| {
///     let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)]).order(order);
///     written_conditions(settings, &[("b", CHECK_CAPACITY, 1), ("a", CHECK_CAPACITY, 1)], 1)[0].clone()
/// };
/// assert_eq!(first(Order::Listed), "09:00:01 a Accepted=True Accepted");
/// assert_eq!(first(Order::Fifo), "09:00:01 b Accepted=True Accepted");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By namespace and name, as the API server lists them.
    Listed,
    /// The oldest first.
    Fifo,
    /// A random order derived from the settings' seed.
    Random,
}

macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {
        $(
            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )*
    };
}

impl Settings {
    /// Creates the settings of a profile, with nodes.
    pub fn new(profile: Profile, pools: impl IntoIterator<Item = NodePool>) -> Self {
        let details = profile.queues().then(|| {
            let name = "{name}".to_owned();
            BTreeMap::from([
                ("ResizeRequestName".to_owned(), name.clone()),
                ("NodePoolName".to_owned(), format!("pool-{name}")),
            ])
        });
        Self {
            profile,
            pools: pools.into_iter().collect(),
            scan_interval: Duration::from_secs(10),
            frequent_loops: profile.frequent_loops(),
            accept_delay: Duration::ZERO,
            provision_delay: Delay::Fixed(Duration::ZERO),
            booking_ttl: 10 * MINUTE,
            expiration_ttl: WEEK,
            terminal_ttl: profile.deletes_old().then_some(WEEK),
            initial_backoff: profile.initial_backoff(),
            max_backoff: 10 * MINUTE,
            max_run_duration: WEEK,
            batch: None,
            order: Order::Listed,
            details: details.unwrap_or_default(),
            apply_provisioned: profile.applies_provisioned(),
            processor_instance: None,
            scale_down_delay: 10 * MINUTE,
            jobs_without_pods: false,
            agent: "cluster-autoscaler/v1".to_owned(),
            seed: 0,
            behaviours: Vec::new(),
        }
    }

    setters! {
        scan_interval: Duration,
        frequent_loops: bool,
        accept_delay: Duration,
        provision_delay: Delay,
        booking_ttl: Duration,
        expiration_ttl: Duration,
        terminal_ttl: Option<Duration>,
        initial_backoff: Duration,
        max_backoff: Duration,
        max_run_duration: Duration,
        batch: Option<usize>,
        order: Order,
        details: BTreeMap<String, String>,
        apply_provisioned: bool,
        processor_instance: Option<String>,
        scale_down_delay: Duration,
        jobs_without_pods: bool,
        agent: String,
        seed: u64,
    }

    /// Injects misbehaviour `how` for the requests that `who` selects. Later calls add to earlier
    /// ones; of the same kind, the first counts.
    #[must_use]
    pub fn misbehave(mut self, who: Selector, how: Misbehaviour) -> Self {
        self.behaviours.push((who, how));
        self
    }

    pub(super) fn delay(&self, delay: Delay, request: &Request) -> Duration {
        match delay {
            Delay::Fixed(delay) => delay,
            Delay::Between(least, most) => {
                let span = most.saturating_sub(least).as_secs() + 1;
                least + Duration::from_secs(self.random(request) % span)
            }
        }
    }

    /// Returns a random number that is always the same for the same request.
    pub(super) fn random(&self, request: &Request) -> u64 {
        let names = request
            .key
            .namespace
            .bytes()
            .chain([b'/'])
            .chain(request.key.name.bytes());
        let mixed = names.fold(self.seed ^ 0x9e37_79b9_7f4a_7c15, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // Names that differ only in their last letter must not get adjacent numbers.
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }
}
