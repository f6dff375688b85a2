//! Independent runs on all processors.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::{FaultPlan, Run};

/// A run that is done.
pub(super) struct Done {
    /// The run, if it failed.
    pub(super) failed: Option<Run>,
    /// Whether all faults of its plan were injected.
    pub(super) injected: bool,
}

impl Done {
    pub(super) fn of(run: Run) -> Self {
        Self {
            injected: run.not_injected.is_none(),
            failed: Some(run).filter(Run::failed),
        }
    }
}

/// Runs each plan with `try_plan`, one at a time on each processor. `finished` receives the run if
/// it failed, in the order of the plans, until it breaks. Log lines go to the subscriber of this
/// thread.
///
/// # Panics
/// If `try_plan` panics.
pub(super) fn run_each(
    plans: &[FaultPlan],
    try_plan: impl Fn(&FaultPlan) -> Run + Sync,
    finished: impl FnMut(Done) -> ControlFlow<()>,
) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let logs = tracing::dispatcher::get_default(Clone::clone);
    let done = |plan: &FaultPlan| {
        let run = tracing::dispatcher::with_default(&logs, || try_plan(plan));
        // A run contains its whole history, so the thread that created it frees it.
        Done::of(run)
    };
    in_order(threads, plans, done, finished);
}

/// Calls `work` for each item, on `threads` threads. `finished` receives the results in the order
/// of the items.
fn in_order<Item: Sync, Output: Send>(
    threads: usize,
    items: &[Item],
    work: impl Fn(&Item) -> Output + Sync,
    mut finished: impl FnMut(Output) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        // Workers do not run far ahead of the one who listens.
        let (sender, results) = mpsc::sync_channel(threads);
        let workers: Vec<_> = (0..threads.min(items.len()))
            .map(|_| {
                let (sender, next, work) = (sender.clone(), &next, &work);
                scope.spawn(move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(index) else {
                            return;
                        };
                        if sender.send((index, work(item))).is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        let mut early: BTreeMap<usize, Output> = BTreeMap::new();
        let mut expected = 0;
        'all: for (index, done) in &results {
            early.insert(index, done);
            while let Some(done) = early.remove(&expected) {
                expected += 1;
                if finished(done).is_break() {
                    break 'all;
                }
            }
        }
        // A worker's next send then fails and ends it.
        drop(results);
        for worker in workers {
            if let Err(panic) = worker.join() {
                resume_unwind(panic);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Returns the results that `finished` received, and the number of calls of `work`.
    fn tried(threads: usize, items: &[usize], until: usize) -> (Vec<usize>, usize) {
        let (worked, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut handed_on = Vec::new();
        let work = |item: &usize| {
            worked.fetch_add(1, Ordering::Relaxed);
            // No thread runs ahead of the end.
            while *item > until && !ended.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            // The first item is finished last.
            while *item == 0 && threads > 1 && worked.load(Ordering::Relaxed) < 5 {
                thread::yield_now();
            }
            *item
        };
        in_order(threads, items, work, |item| {
            handed_on.push(item);
            if item == until {
                ended.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        (handed_on, worked.into_inner())
    }

    #[test]
    fn results_come_in_the_order_of_the_items_whoever_is_first() {
        let items: Vec<usize> = (0..20).collect();
        for threads in [1, 2, 7, 50] {
            assert_eq!(tried(threads, &items, 99), (items.clone(), 20));
        }
        assert_eq!(tried(3, &[], 99), (Vec::new(), 0));
    }

    #[test]
    fn nothing_is_begun_after_the_end() {
        let items: Vec<usize> = (0..10_000).collect();
        let (handed_on, worked) = tried(2, &items, 7);
        assert_eq!(handed_on, (0..=7).collect::<Vec<_>>());
        assert!(worked < 10_000, "{worked}");
        assert_eq!(tried(1, &items, 0).0, [0]);
    }

    #[test]
    #[should_panic(expected = "this plan has no run")]
    fn a_panic_is_that_of_the_caller() {
        in_order(
            2,
            &[1, 2, 3],
            |item| assert!(*item != 2, "this plan has no run"),
            |()| ControlFlow::Continue(()),
        );
    }
}
