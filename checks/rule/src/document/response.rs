//! The responses of a service, and their decoding.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use kueue_check::api::PodSetUpdate;
use kueue_check::{Message, PodSetUpdates, Reservation, Verdict};
use kueue_check_sources::at_most;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{API_VERSION, HELD, REVIEW};
use crate::webhook::resource::MAX_ITEMS;

/// The maximum number of items that are read of a response.
const MOST_ITEMS: usize = 2 * MAX_ITEMS as usize;
/// The maximum size of an item, in bytes.
const LARGEST_ITEM: usize = 256 * 1024;
/// The maximum number of reservations in a list of held ones.
const MOST_HELD: usize = 100_000;
/// The maximum number of characters that are quoted of an invalid response.
const QUOTED: usize = 200;

/// The response to a review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewResponse {
    /// `kueue-check.dev/v1alpha1`.
    pub api_version: String,
    /// `AdmissionCheckReview`.
    pub kind: String,
    /// The results.
    pub response: ReviewAnswers,
}

/// The results of a review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewAnswers {
    /// One for each item of the request, in any order.
    pub items: Vec<ItemAnswer>,
}

/// The result for one Workload: `state`, or `error`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemAnswer {
    /// The `uid` of the item.
    pub uid: String,
    /// The verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Why, for people: one line, of which 1,024 characters are kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Of a Retry: after how long Kueue queues the Workload again. Default: 0, at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 2_147_483_647))]
    pub retry_after_seconds: Option<u64>,
    /// Of Ready: what is added to the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 18))]
    pub pod_set_updates: Vec<UpdateAnswer>,
    /// After how long the Workload is reviewed again. Default: `spec.recheckAfter` while it is
    /// Pending; not at all when it is Ready. With it, a Ready job is reviewed while it runs, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck_after_seconds: Option<u64>,
    /// How long the verdict is valid while the Workload stays as it is. Default: until it is
    /// reviewed again, or `spec.recheckAfter`. A Ready is reviewed again after it while the job
    /// waits for other checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Why there is no verdict: the state stays as it is, and the review is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum State {
    /// The job may start.
    Ready,
    /// Not yet: the Workload waits, and holds its quota.
    Pending,
    /// Not now: Kueue takes the quota back and queues the Workload again.
    Retry,
    /// Never: Kueue deactivates the Workload.
    Rejected,
}

impl State {
    /// Returns the state as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Pending => "Pending",
            Self::Retry => "Retry",
            Self::Rejected => "Rejected",
        }
    }
}

/// What is added to the pods of one pod set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateAnswer {
    /// The pod set.
    pub name: String,
    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Node labels that the pods' nodes must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub tolerations: Vec<Toleration>,
}

/// The response of `spec.heldPath`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldList {
    /// `kueue-check.dev/v1alpha1`.
    pub api_version: String,
    /// `AdmissionCheckHeldList`.
    pub kind: String,
    /// The list.
    pub response: HeldReservations,
}

/// The reservations for which something is allocated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldReservations {
    /// Their `uid`s.
    #[serde(deserialize_with = "at_most::<MOST_HELD, _, _>")]
    #[schemars(length(max = 100_000))]
    pub uids: Vec<String>,
}

/// The outcome of one item of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemResult {
    /// A verdict.
    Decided(Decision),
    /// No verdict: the error in the response.
    Unusable(String),
}

/// A verdict of a service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    /// How long it holds.
    pub(crate) ttl: Duration,
    /// The delay until the next review.
    pub(crate) recheck: Option<Duration>,
}

/// A response whose items are not decoded yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unread<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    response: UnreadItems<'a>,
}

#[derive(Deserialize)]
struct UnreadItems<'a> {
    #[serde(borrow, deserialize_with = "raw_items")]
    items: Vec<&'a RawValue>,
}

fn raw_items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error> {
    at_most::<MOST_ITEMS, _, _>(deserializer)
}

/// The key of an item.
#[derive(Deserialize)]
struct Keyed {
    uid: String,
}

/// Reads the response `body` to a review of `requested`. A body that is no review is an error; an
/// invalid item affects only itself.
pub(crate) fn read_review(
    body: &[u8],
    requested: &[Reservation],
    recheck_after: Duration,
) -> Result<BTreeMap<String, ItemResult>, String> {
    let refuse = |problem: String| format!("{problem}: {}", quote(body));
    let unread: Unread<'_> = serde_json::from_slice(body)
        .map_err(|error| refuse(format!("it is no {REVIEW} ({})", plain(&error))))?;
    expect_kind(&unread.api_version, &unread.kind, REVIEW).map_err(refuse)?;
    let keys: BTreeSet<String> = requested.iter().map(ToString::to_string).collect();
    let mut results = BTreeMap::new();
    for raw in unread.response.items {
        // An item that was not requested, or has no key, is ignored.
        let Ok(Keyed { uid }) = serde_json::from_str(raw.get()) else {
            continue;
        };
        if !keys.contains(&uid) {
            continue;
        }
        let result = match read_item(raw.get(), recheck_after) {
            Ok(decision) => ItemResult::Decided(decision),
            Err(problem) => ItemResult::Unusable(problem),
        };
        let twice = |one: &ItemResult| *one != result;
        let result = match results.get(&uid) {
            Some(earlier) if twice(earlier) => {
                ItemResult::Unusable("it responds twice for this Workload".to_owned())
            }
            _ => result,
        };
        results.insert(uid, result);
    }
    for uid in keys {
        let missing = || ItemResult::Unusable("it has no response for this Workload".to_owned());
        results.entry(uid).or_insert_with(missing);
    }
    Ok(results)
}

fn expect_kind(api_version: &str, kind: &str, expected: &str) -> Result<(), String> {
    if api_version == API_VERSION && kind == expected {
        return Ok(());
    }
    Err(format!(
        "expected apiVersion {API_VERSION} and kind {expected}, not `{}` and `{}`",
        clean(api_version),
        clean(kind)
    ))
}

/// Returns an error unless the runtime would accept the item of a response in `text`.
pub(crate) fn check_item(text: &str) -> Result<(), String> {
    read_item(text, SHORTEST).map(|_| ())
}

fn read_item(text: &str, recheck_after: Duration) -> Result<Decision, String> {
    if text.len() > LARGEST_ITEM {
        return Err("its response is larger than 256 KiB".to_owned());
    }
    let refuse = |problem: String| format!("{problem}: {}", quote(text.as_bytes()));
    let item: ItemAnswer = serde_json::from_str(text)
        .map_err(|error| refuse(format!("its response cannot be read ({})", plain(&error))))?;
    if let Some(error) = item.error {
        return Err(format!("it reports an error: {}", clean(&error)));
    }
    let state = item
        .state
        .ok_or_else(|| refuse("it has neither a state nor an error".to_owned()))?;
    let seconds = |value: Option<u64>| value.map(|value| Duration::from_secs(value).min(LONGEST));
    let recheck = seconds(item.recheck_after_seconds).map(|delay| delay.max(SHORTEST));
    let verdict = match state {
        State::Ready => Verdict::ready(item.message),
        State::Pending => Verdict::pending(item.message),
        State::Rejected => Verdict::rejected(item.message),
        State::Retry => match item.retry_after_seconds.unwrap_or_default() {
            0 => Verdict::retry_now(item.message),
            after if after <= i32::MAX.unsigned_abs().into() => {
                Verdict::retry_after(Duration::from_secs(after), item.message)
            }
            after => return Err(format!("retryAfterSeconds {after} is more than 2147483647")),
        },
    };
    let updates = updates(item.pod_set_updates)?;
    let recheck = recheck.or((state == State::Pending).then_some(recheck_after));
    let ttl = seconds(item.ttl_seconds);
    Ok(Decision {
        verdict: verdict.with_updates(updates),
        ttl: ttl.unwrap_or(recheck.unwrap_or(recheck_after)),
        recheck,
    })
}

/// The minimum delay until the next review.
const SHORTEST: Duration = Duration::from_secs(1);
/// The maximum time in a response; a longer one is reduced to it.
const LONGEST: Duration = Duration::from_hours(30 * 24);

/// Returns the updates, if Kueue would accept them.
fn updates(requested: Vec<UpdateAnswer>) -> Result<PodSetUpdates, String> {
    let updates: Vec<PodSetUpdate> = requested
        .into_iter()
        .map(|update| PodSetUpdate {
            name: update.name,
            labels: update.labels,
            annotations: update.annotations,
            node_selector: update.node_selector,
            tolerations: update.tolerations,
        })
        .collect();
    let updates = PodSetUpdates::try_from(updates);
    updates.map_err(|error| {
        format!(
            "its podSetUpdates are rejected: {}",
            clean(&error.to_string())
        )
    })
}

/// Reads the response of `spec.heldPath`. Reservations of other checks are left out.
pub(crate) fn read_held(body: &[u8], admission_check: &str) -> Result<Vec<Reservation>, String> {
    let refuse = |problem: String| format!("{problem}: {}", quote(body));
    let list: HeldList = serde_json::from_slice(body)
        .map_err(|error| refuse(format!("it is no {HELD} ({})", plain(&error))))?;
    expect_kind(&list.api_version, &list.kind, HELD).map_err(refuse)?;
    let reservations = list.response.uids.iter();
    let reservations = reservations.filter_map(|uid| uid.parse::<Reservation>().ok());
    Ok(reservations
        .filter(|reservation| reservation.admission_check() == admission_check)
        .collect())
}

/// Returns why an activation is refused: `message` of a JSON object, or the text itself.
pub(crate) fn read_refusal(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => clean(&refusal.message),
        Err(_) => quote(body),
    }
}

/// Returns the first 200 characters of `body`, for people: one line, without control characters.
pub(crate) fn quote(body: &[u8]) -> String {
    if body.is_empty() {
        return "(empty)".to_owned();
    }
    // Four bytes for each character, and for those that are skipped.
    let head = &body[..body.len().min(8 * QUOTED)];
    clean(&String::from_utf8_lossy(head))
}

/// Returns `text` in one line of at most 200 characters, without control characters and
/// credentials.
pub(crate) fn clean(text: &str) -> String {
    let invisible = |c: &char| {
        c.is_control()
            || matches!(*c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let spaced = text.chars().map(|c| if invisible(&c) { ' ' } else { c });
    let text: String = spaced.take(4 * QUOTED).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = Message::new(words.join(" "));
    match line.as_str().char_indices().nth(QUOTED) {
        None => line.as_str().to_owned(),
        Some((end, _)) => format!("{}…", &line.as_str()[..end]),
    }
}

/// Returns the error of the decoder, cleaned, because it may quote what was read.
fn plain(error: &serde_json::Error) -> String {
    clean(&error.to_string())
}
