//! Minimisation of a history that differs.

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use crate::Failure;
use crate::history::History;
use crate::record::record;
use crate::stage::Stage;

/// Removes steps while `keeps` returns true for the trace of what is left. Returns the shortened
/// history and its trace.
pub(crate) async fn minimise(
    stage: &Stage,
    mut history: History,
    mut trace: Value,
    side_by_side: usize,
    keeps: impl AsyncFn(&Value) -> Result<bool, Failure>,
) -> Result<(History, Value), Failure> {
    loop {
        let each = stream::iter(0..history.steps.len())
            .map(async |step| {
                let trace = record(stage, &without(&history, &[step])).await?;
                Ok::<_, Failure>(keeps(&trace).await?.then_some((step, trace)))
            })
            .buffered(side_by_side)
            .try_filter_map(async |kept| Ok(kept));
        let mut removable: Vec<(usize, Value)> = each.try_collect().await?;
        // Steps of which each can be removed may need each other: then only the later half is.
        loop {
            let (Some((_, one)), steps) = (removable.first(), steps_of(&removable)) else {
                return Ok((history, trace));
            };
            let candidate = without(&history, &steps);
            let kept = match steps.as_slice() {
                [_] => Some(one.clone()),
                _ => {
                    let trace = record(stage, &candidate).await?;
                    keeps(&trace).await?.then_some(trace)
                }
            };
            if let Some(kept) = kept {
                (history, trace) = (candidate, kept);
                break;
            }
            removable.drain(..removable.len() / 2);
        }
    }
}

fn steps_of(removable: &[(usize, Value)]) -> Vec<usize> {
    removable.iter().map(|(step, _)| *step).collect()
}

/// Returns the history without these steps.
fn without(history: &History, removed: &[usize]) -> History {
    let steps = history.steps.iter().enumerate();
    let steps = steps.filter(|(at, _)| !removed.contains(at));
    History {
        steps: steps.map(|(_, step)| step.clone()).collect(),
        ..history.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Step;

    #[test]
    fn a_history_without_steps_keeps_the_order_of_the_others() {
        let steps: Vec<Step> = (0..4u8).map(|n| Step::Wait(f64::from(n))).collect();
        let history = History {
            name: "h".to_owned(),
            full: false,
            steps: steps.clone(),
        };
        let left = [steps[0].clone(), steps[3].clone()];
        assert_eq!(without(&history, &[1, 2]).steps, left);
        assert_eq!(without(&history, &[]), history);
    }
}
