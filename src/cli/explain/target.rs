//! The target of `explain`, and how it is found. Pure.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// A target: a Workload, by its own name or by that of its job.
///
/// ```
/// # use clap::Parser;
/// use kueue_check::cli::Target;
///
/// /// A command of your own that explains.
/// #[derive(Parser)]
/// struct Why {
///     job: Target,
/// }
///
/// let Why { job } = Why::try_parse_from(["why", "Jobs.batch/train"])?;
/// assert_eq!(job.to_string(), "jobs/train", "as kubectl takes it: in any case, with its group or without");
/// assert!(Why::try_parse_from(["why", "train"]).is_ok(), "a Workload, or a job of any kind");
/// # Ok::<(), clap::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The job's kind in lower case, without a group; none for a Workload, or if the name may be
    /// either.
    kind: Option<String>,
    name: String,
    /// Whether only a Workload of this name matches.
    exact: bool,
}

/// A text that names no target.
///
/// ```
/// use kueue_check::cli::Target;
///
/// let error = "team-a/job/train".parse::<Target>().unwrap_err();
/// let expected = "expected the name of a Workload, or KIND/NAME of its job, such as `job/train`; the namespace is given with -n";
/// assert_eq!(error.to_string(), format!("`team-a/job/train` names nothing: {expected}"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names nothing: expected the name of a Workload, or KIND/NAME of its job, such as `job/train`; the namespace is given with -n"
)]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || TargetError(text.to_owned());
        let (kind, name) = match text.split_once('/') {
            None => (None, text),
            Some((kind, name)) => (Some(kind.split('.').next().unwrap_or_default()), name),
        };
        let legal = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        if !legal(name) || name.contains('/') || !kind.is_none_or(legal) {
            return Err(error());
        }
        let kind = kind.map(str::to_lowercase);
        let exact = matches!(kind.as_deref(), Some("workload" | "workloads" | "wl"));
        Ok(Self {
            kind: kind.filter(|_| !exact),
            name: name.to_owned(),
            exact,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{kind}/{}", self.name),
            None if self.exact => write!(f, "workload/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An existing Workload: its name, and its owners.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) owners: Vec<OwnerReference>,
}

/// The result of a search for a target among all Workloads of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This one.
    One(String),
    /// More than one belongs to the job.
    Several(Vec<String>),
    /// None; the list has similar names.
    None { near: Vec<String> },
}

/// The number of similar names that are shown, and their similarity.
const NEAR: usize = 5;
const ALIKE: f64 = 0.8;

impl Target {
    /// Returns the Workload's own name, if it may be that.
    pub(super) fn workload(&self) -> Option<&str> {
        self.kind.is_none().then_some(&*self.name)
    }

    /// Returns true if it can only be a job.
    pub(super) fn is_job(&self) -> bool {
        self.kind.is_some()
    }

    /// Finds the target among `candidates`.
    pub(super) fn find(&self, candidates: &[Candidate]) -> Found {
        let owned = |candidate: &&Candidate| candidate.owners.iter().any(|owner| self.owns(owner));
        let mut names: Vec<String> = candidates
            .iter()
            .filter(owned)
            .map(|candidate| candidate.name.clone())
            .collect();
        match names.len() {
            0 => Found::None {
                near: self.near(candidates),
            },
            1 => Found::One(names.remove(0)),
            _ => Found::Several(names),
        }
    }

    fn owns(&self, owner: &OwnerReference) -> bool {
        let kind = owner.kind.to_lowercase();
        let named = self.kind.as_deref().is_none_or(|wanted| {
            wanted == kind
                || wanted.strip_suffix('s') == Some(&kind)
                || wanted.strip_suffix("es") == Some(&kind)
        });
        !self.exact && named && owner.name == self.name
    }

    fn near(&self, candidates: &[Candidate]) -> Vec<String> {
        let mut all: Vec<(f64, String)> = Vec::new();
        for candidate in candidates {
            let own = (candidate.name.clone(), candidate.name.clone());
            let owners = candidate.owners.iter();
            let jobs = owners.map(|owner| {
                let shown = format!("{}/{}", owner.kind.to_lowercase(), owner.name);
                (owner.name.clone(), shown)
            });
            for (name, shown) in std::iter::once(own).chain(jobs) {
                let contained = name.contains(&self.name) || self.name.contains(&name);
                let likeness = strsim::jaro_winkler(&name, &self.name) + f64::from(contained);
                if likeness > ALIKE {
                    all.push((likeness, shown));
                }
            }
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        all.dedup_by(|a, b| a.1 == b.1);
        all.into_iter().take(NEAR).map(|(_, shown)| shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, owners: &[(&str, &str)]) -> Candidate {
        let owners = owners.iter().map(|(kind, name)| OwnerReference {
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
            ..OwnerReference::default()
        });
        Candidate {
            name: name.to_owned(),
            owners: owners.collect(),
        }
    }

    #[test]
    fn a_target_is_a_workload_or_a_job() {
        for (text, workload, shown) in [
            ("train", Some("train"), Some("train")),
            ("workload/train", Some("train"), Some("workload/train")),
            ("job/train", None, Some("job/train")),
            ("Jobs.batch/train", None, Some("jobs/train")),
            ("", None, None),
            ("job/", None, None),
            ("/train", None, None),
            ("a/b/c", None, None),
            ("two words", None, None),
        ] {
            let target = text.parse::<Target>().ok();
            assert_eq!(
                target.as_ref().and_then(Target::workload),
                workload,
                "{text}"
            );
            assert_eq!(
                target.map(|target| target.to_string()).as_deref(),
                shown,
                "{text}"
            );
        }
    }

    #[test]
    fn a_job_is_found_by_its_owner_reference_and_similar_names_are_suggested() {
        let all = [
            candidate("job-train-a1b2c", &[("Job", "train")]),
            candidate("rayjob-train-d3e4f", &[("RayJob", "train")]),
            candidate("pod-group", &[("Pod", "p-0"), ("Pod", "p-1")]),
            candidate("bare", &[]),
        ];
        let one = |name: &str| Found::One(name.to_owned());
        let none = |near: &[&str]| Found::None {
            near: near.iter().map(|name| (*name).to_owned()).collect(),
        };
        for (text, expected) in [
            ("job/train", one("job-train-a1b2c")),
            ("jobs.batch/train", one("job-train-a1b2c")),
            ("rayjobs/train", one("rayjob-train-d3e4f")),
            ("pod/p-1", one("pod-group")),
            ("p-1", one("pod-group")),
            (
                "train",
                Found::Several(vec!["job-train-a1b2c".into(), "rayjob-train-d3e4f".into()]),
            ),
            (
                "workload/train",
                none(&[
                    "job/train",
                    "rayjob/train",
                    "job-train-a1b2c",
                    "rayjob-train-d3e4f",
                ]),
            ),
            ("job/trian", none(&["job/train", "rayjob/train"])),
            ("job/bare", none(&["bare"])),
            ("zzz", none(&[])),
        ] {
            assert_eq!(
                text.parse::<Target>().unwrap().find(&all),
                expected,
                "{text}"
            );
        }
    }
}
