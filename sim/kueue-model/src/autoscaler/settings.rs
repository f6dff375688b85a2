//! How the autoscaler behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use super::request::Request;
use super::{Misbehaviour, NodePool, Profile, Selector};

const MINUTE: Duration = Duration::from_secs(60);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// How the autoscaler behaves. The fields start as the profile has them; setters of the same names
/// change them.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::told;
/// use std::time::Duration;
/// use kueue_check_sim::autoscaler::{CHECK_CAPACITY, Delay, NodePool, Profile, Settings};
///
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .provision_delay(Delay::Fixed(Duration::from_secs(60)))
///     .booking_ttl(Duration::from_secs(120));
/// // What is said in ten minutes about a request for eight pods of one CPU; there is a scan every ten seconds.
/// assert_eq!(told(settings, &[("train", CHECK_CAPACITY, 8)], 10), [
///     "09:00:00 train Accepted=True Accepted",
///     "09:01:00 train Provisioned=True CapacityIsFound",
///     "09:03:10 train BookingExpired=True CapacityReservationTimeExpired",
/// ]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which autoscaler is played.
    pub profile: Profile,
    /// The nodes. None: no request ever finds capacity.
    pub pools: Vec<NodePool>,
    /// A loop begins every so often (10 s).
    pub scan_interval: Duration,
    /// Whether the next loop begins at once after one that picked up a request; otherwise a loop
    /// handles one request a scan. On from 1.35.
    pub frequent_loops: bool,
    /// A request is not looked at before it is so old (none).
    pub accept_delay: Duration,
    /// Between Accepted and the outcome of the attempt (none).
    pub provision_delay: Delay,
    /// After Provisioned, capacity is kept so long (10 min).
    pub booking_ttl: Duration,
    /// A request that is not provisioned fails so long after its creation (7 d).
    pub expiration_ttl: Duration,
    /// Old requests are deleted so long after Provisioned or Failed (7 d); `None`: never. From
    /// 1.32.
    pub terminal_ttl: Option<Duration>,
    /// How long to wait after the first attempt that found nothing (1 min; 10 min in 1.31); it
    /// doubles with each further one.
    pub initial_backoff: Duration,
    /// The longest wait between attempts (10 min).
    pub max_backoff: Duration,
    /// Queued provisioning: nodes are taken away so long after Provisioned, if the request does not
    /// say (7 d).
    pub max_run_duration: Duration,
    /// How many check-capacity requests one loop handles, each with one write instead of two;
    /// `None`: one at a time.
    pub batch: Option<usize>,
    /// Which of several requests is picked up first.
    pub order: Order,
    /// Queued provisioning: `status.provisioningClassDetails` of what is provisioned. `{name}`
    /// stands for the request's name.
    pub details: BTreeMap<String, String>,
    /// Whether the outcome of best-effort-atomic-scale-up is written by server-side apply (from
    /// 1.32) or by an update.
    pub apply_provisioned: bool,
    /// The autoscaler's `--check-capacity-processor-instance`.
    pub processor_instance: Option<String>,
    /// Added nodes that nobody uses go after so long (10 min).
    pub scale_down_delay: Duration,
    /// In simulations without pods: a provisioned request uses its nodes until it is deleted or
    /// revoked, also after its booking expired. Otherwise (default) only scheduled pods do.
    pub jobs_without_pods: bool,
    /// The user agent of all requests; the part before `/` is the field manager of updates.
    pub agent: String,
    /// Decides what is random.
    pub seed: u64,
    pub(super) behaviours: Vec<(Selector, Misbehaviour)>,
}

/// How long something takes.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::told;
/// use std::time::Duration;
/// use kueue_check_sim::autoscaler::{CHECK_CAPACITY, Delay, NodePool, Profile, Settings};
///
/// let minutes = |count: u64| Duration::from_secs(60 * count);
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .provision_delay(Delay::Between(minutes(2), minutes(5)))
///     .seed(7);
/// // What is said in six minutes about a request for eight pods of one CPU.
/// let once = told(settings.clone(), &[("train", CHECK_CAPACITY, 8)], 6);
/// assert!(("09:02:00".."09:05:11").contains(&once[1].as_str()));
/// assert_eq!(once, told(settings, &[("train", CHECK_CAPACITY, 8)], 6), "one seed, one delay");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always so long.
    Fixed(Duration),
    /// Between the two, by the settings' seed and the request's name; in whole seconds.
    Between(Duration, Duration),
}

/// Which of several requests is picked up first. Real autoscalers promise no order.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::told;
/// use kueue_check_sim::autoscaler::{CHECK_CAPACITY, NodePool, Order, Profile, Settings};
///
/// // What is said first about two requests; `b` was there a second before `a`.
/// let first = |order: Order| {
///     let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)]).order(order);
///     told(settings, &[("b", CHECK_CAPACITY, 1), ("a", CHECK_CAPACITY, 1)], 1)[0].clone()
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
    /// By the settings' seed.
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
    /// The settings of a profile, with nodes.
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

    /// Lets the requests that `who` selects misbehave. What is said later adds to what was said
    /// before; of the same kind, the first counts.
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

    /// Always the same number for the same request.
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
        // Names that differ in their last letter only must not lie side by side.
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }
}
