//! Minimisation of a history.

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use crate::Failure;
use crate::history::{History, Step};
use crate::record::record;
use crate::stage::Stage;

/// A way to shorten a history at a step.
#[derive(Clone, Copy)]
enum Edit {
    /// The step is removed.
    Remove,
    /// The step creates also what the next one creates.
    Join,
}

/// Removes steps and joins others while `keeps` returns true for the trace of what is left. Returns
/// the shortened history and its trace.
pub(crate) async fn minimise(
    stage: &Stage,
    mut history: History,
    mut trace: Value,
    side_by_side: usize,
    keeps: impl AsyncFn(&Value) -> Result<bool, Failure>,
) -> Result<(History, Value), Failure> {
    let tried = async |candidate: &History| {
        let trace = record(stage, candidate).await?;
        Ok::<_, Failure>(keeps(&trace).await?.then_some(trace))
    };
    for edit in [Edit::Remove, Edit::Join] {
        loop {
            let places: Vec<usize> = stream::iter(edit.places(&history))
                .map(async |place| {
                    let kept = tried(&edit.at(&history, &[place])).await?;
                    Ok::<_, Failure>(kept.map(|_| place))
                })
                .buffered(side_by_side)
                .try_filter_map(async |place| Ok(place))
                .try_collect()
                .await?;
            // Each of the places works alone, but not always together with the others.
            let mut left = places.as_slice();
            let shorter = loop {
                if left.is_empty() {
                    break None;
                }
                let candidate = edit.at(&history, left);
                if let Some(trace) = tried(&candidate).await? {
                    break Some((candidate, trace));
                }
                left = &left[left.len().div_ceil(2)..];
            };
            let Some(shorter) = shorter else { break };
            (history, trace) = shorter;
        }
    }
    Ok((history, trace))
}

impl Edit {
    /// Returns the steps at which the history can be shortened.
    fn places(self, history: &History) -> Vec<usize> {
        let steps = &history.steps;
        let all = 0..steps.len();
        match self {
            Self::Remove => all.collect(),
            Self::Join => all
                .filter(|at| creates(steps, at + 1) && creates(steps, *at))
                .collect(),
        }
    }

    /// Returns the history that is shortened at these steps.
    fn at(self, history: &History, places: &[usize]) -> History {
        let mut steps: Vec<Step> = Vec::new();
        for (at, step) in history.steps.iter().enumerate() {
            let joins = at > 0 && places.contains(&(at - 1));
            match (self, step, steps.last_mut()) {
                (Self::Remove, ..) if places.contains(&at) => {}
                (Self::Join, Step::Create(more), Some(Step::Create(objects))) if joins => {
                    objects.extend(more.iter().cloned());
                }
                _ => steps.push(step.clone()),
            }
        }
        History {
            steps,
            ..history.clone()
        }
    }
}

fn creates(steps: &[Step], at: usize) -> bool {
    matches!(steps.get(at), Some(Step::Create(_)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_removed_or_joined() {
        let history = |steps: &[Step]| History {
            name: "h".to_owned(),
            full: false,
            steps: steps.to_vec(),
        };
        let create = |names: &[&str]| Step::Create(names.iter().map(|name| json!(name)).collect());
        let (a, b, wait, c) = (
            create(&["a"]),
            create(&["b"]),
            Step::Wait(1.0),
            create(&["c"]),
        );
        let all = history(&[a.clone(), b, wait.clone(), c.clone()]);
        assert_eq!(Edit::Remove.places(&all), [0, 1, 2, 3]);
        assert_eq!(Edit::Remove.at(&all, &[1, 3]), history(&[a, wait.clone()]));
        assert_eq!(Edit::Join.places(&all), [0]);
        assert_eq!(
            Edit::Join.at(&all, &[0]),
            history(&[create(&["a", "b"]), wait, c])
        );
        let three = history(&[create(&["a"]), create(&["b"]), create(&["c"])]);
        assert_eq!(
            Edit::Join.at(&three, &[0, 1]),
            history(&[create(&["a", "b", "c"])])
        );
    }
}
