//! Minimisation of a history that differs.

use futures::StreamExt;
use futures::stream;
use serde_json::Value;

use crate::Failure;
use crate::compare::differences;
use crate::history::{History, Step};
use crate::record::record;
use crate::stage::Stage;

/// Removes steps while the model still differs from the real Kueue. Returns the shortened history
/// and its trace.
pub(crate) async fn minimise(
    stage: &Stage,
    mut history: History,
    mut trace: Value,
    side_by_side: usize,
) -> Result<(History, Value), Failure> {
    loop {
        let shorter = shorter(&history);
        let mut tried = stream::iter(shorter)
            .map(async |candidate| {
                let trace = record(stage, &candidate).await?;
                let differs = !differences(&trace).await?.is_empty();
                Ok::<_, Failure>(differs.then_some((candidate, trace)))
            })
            .buffered(side_by_side);
        let mut found = None;
        while let Some(outcome) = tried.next().await {
            found = outcome?;
            if found.is_some() {
                break;
            }
        }
        drop(tried);
        let Some(next) = found else {
            return Ok((history, trace));
        };
        (history, trace) = next;
    }
}

/// Returns shorter candidates: without the last four or two steps, and without each single step.
/// The last step is removed first. The first candidates keep more than half of the steps.
fn shorter(history: &History) -> Vec<History> {
    let without = |keep: &dyn Fn(usize) -> bool| {
        let kept = history.steps.iter().enumerate();
        let steps: Vec<Step> = kept
            .filter(|(at, _)| keep(*at))
            .map(|(_, step)| step.clone())
            .collect();
        History {
            name: history.name.clone(),
            full: history.full,
            steps,
        }
    };
    let count = history.steps.len();
    let mut all = Vec::new();
    for part in [4, 2, 1] {
        let last = count.saturating_sub(part);
        if part > 1 && last > count / 2 {
            all.push(without(&|at| at < last));
        }
    }
    all.extend((0..count).rev().map(|out| without(&|at| at != out)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_histories_have_fewer_steps_and_the_same_order() {
        let steps: Vec<Step> = (0..6u8).map(|n| Step::Wait(f64::from(n))).collect();
        let history = History {
            name: "h".to_owned(),
            full: false,
            steps: steps.clone(),
        };
        let all = shorter(&history);
        assert!(all.iter().all(|h| h.steps.len() < steps.len()));
        assert!(all.iter().any(|h| h.steps == steps[..5]));
        assert!(all.iter().any(|h| h.steps == steps[1..]));
    }
}
