//! Evidence for the differences between versions of Kueue: recorded histories that the model
//! reproduces only with the behavior of the recorded version.

use std::collections::BTreeMap;
use std::fmt;

use kueue_check_sim::kueue::KueueVersion;

use super::{Replay, ReplayError, Trace};

/// The histories that show a difference between versions, by release and by field of
/// [`KueueVersion`].
///
/// Its text is the table in the book.
///
/// ```
/// use kueue_check_sim_cli::replay::{Trace, VersionEvidence};
///
/// // Kueue 0.17.0 accepts a check for a flavor that the ClusterQueue does not have.
/// let trace: Trace = serde_json::from_value(serde_json::json!({"scenario": "s", "kueue": "v0.17.0", "steps": [
///     {"step": "make a queue", "t": 0, "calls": [{
///         "method": "POST", "path": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", "code": 201,
///         "body": {
///             "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"},
///             "spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "check", "onFlavors": ["spot"]}]}},
///         },
///     }]},
/// ]}))?;
/// let evidence = VersionEvidence::of("the trace", &trace)?;
/// assert!(evidence.all().any(|(field, release, _)| (field, release) == ("validates_on_flavors", "0.17.0")));
/// # Ok::<(), kueue_check_sim_cli::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VersionEvidence {
    /// The number of histories of each release, and how many of them the model reproduces.
    played: BTreeMap<String, (usize, usize)>,
    /// The names of the histories with their numbers of steps, by field and release.
    shown: BTreeMap<(&'static str, String), BTreeMap<String, usize>>,
}

impl VersionEvidence {
    /// Plays a history with the behaviors of its version, and then with each of another version. A
    /// history that the model does not reproduce, or only with another outcome of a race, shows
    /// nothing.
    ///
    /// # Errors
    /// As [`Replay::run`].
    pub fn of(name: &str, trace: &Trace) -> Result<Self, ReplayError> {
        let release = trace.kueue.as_deref().unwrap_or("0.19");
        let release = release.trim_start_matches('v').to_owned();
        let reproduced = reproduces(trace, trace.version())?;
        let played = BTreeMap::from([(release.clone(), (1, usize::from(reproduced)))]);
        let mut shown = BTreeMap::new();
        for (field, other) in others(trace) {
            if reproduced && !reproduces(trace, other)? {
                let history = BTreeMap::from([(name.to_owned(), trace.steps.len())]);
                shown.insert((field, release.clone()), history);
            }
        }
        Ok(Self { played, shown })
    }

    /// Returns true if a history shows the difference in this field of [`KueueVersion`].
    ///
    /// # Errors
    /// As [`Replay::run`].
    pub fn shows(trace: &Trace, field: &str) -> Result<bool, ReplayError> {
        let Some(other) = others(trace).remove(field) else {
            return Ok(false);
        };
        Ok(reproduces(trace, trace.version())? && !reproduces(trace, other)?)
    }

    /// Adds what other histories show.
    pub fn merge(&mut self, other: Self) {
        for (release, (all, reproduced)) in other.played {
            let counts = self.played.entry(release).or_default();
            counts.0 += all;
            counts.1 += reproduced;
        }
        for (key, histories) in other.shown {
            self.shown.entry(key).or_default().extend(histories);
        }
    }

    /// Returns each field and release with the histories that show it: their names and numbers of
    /// steps.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &BTreeMap<String, usize>)> {
        let all = self.shown.iter();
        all.map(|((field, release), histories)| (*field, release.as_str(), histories))
    }

    /// Returns the number of steps of the shortest history that shows a field.
    fn fewest_steps(&self, field: &str) -> Option<usize> {
        let all = self.all().filter(|(shown, ..)| *shown == field);
        all.flat_map(|(.., histories)| histories.values().copied())
            .min()
    }
}

fn reproduces(trace: &Trace, version: KueueVersion) -> Result<bool, ReplayError> {
    let replay = Replay::new(trace.clone()).version(version);
    replay.reproduces_at_first()
}

/// Returns the version of a history with the behavior of another release in one field, for each
/// field. The latest release counts that differs.
fn others(trace: &Trace) -> BTreeMap<&'static str, KueueVersion> {
    let own = trace.version();
    let releases = KueueVersion::RELEASES.into_iter();
    let others = releases.flat_map(|(_, release)| own.one_by_one(release));
    others.filter(|(field, _)| !is_setting(field)).collect()
}

/// Returns true for the default of a setting, which histories change.
fn is_setting(field: &str) -> bool {
    matches!(field, "wait_for_pods_ready" | "fair_sharing")
}

/// Returns each field in which releases differ, with the releases that changed it.
fn changes() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for pair in KueueVersion::RELEASES.windows(2) {
        let [(_, before), (release, after)] = pair else {
            continue;
        };
        for (field, _) in before.one_by_one(*after) {
            found.entry(field).or_default().push(*release);
        }
    }
    found.retain(|field, _| !is_setting(field));
    found
}

impl fmt::Display for VersionEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let releases = self.played.keys();
        write!(f, "| field | changed in | fewest steps |")?;
        for release in releases.clone() {
            write!(f, " {release} |")?;
        }
        write!(f, "\n| --- | --- | --- |")?;
        for _ in releases.clone() {
            write!(f, " --- |")?;
        }
        write!(f, "\n| histories | | |")?;
        for (all, _) in self.played.values() {
            write!(f, " {all} |")?;
        }
        write!(f, "\n| reproduced at first | | |")?;
        for (_, reproduced) in self.played.values() {
            write!(f, " {reproduced} |")?;
        }
        for (field, changed) in changes() {
            write!(f, "\n| `{field}` | {} |", changed.join(", "))?;
            match self.fewest_steps(field) {
                None => write!(f, " |")?,
                Some(steps) => write!(f, " {steps} |")?,
            }
            for release in releases.clone() {
                match self.shown.get(&(field, release.clone())) {
                    None => write!(f, " |")?,
                    Some(names) => write!(f, " {} |", names.len())?,
                }
            }
        }
        Ok(())
    }
}
