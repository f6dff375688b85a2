//! Failures of a simulation.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use futures::FutureExt;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// The reason why a simulation failed.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use futures::FutureExt;
/// use kueue_check_sim::{Job, Simulation, simulation::Failure};
///
/// Simulation::new(|| open).quota(4).run(async |cluster| {
///     cluster.submit(Job::new("huge").pods(5));
///     let expected = std::panic::AssertUnwindSafe(cluster.expect_admitted("huge"));
///     let unwound = expected.catch_unwind().await.unwrap_err();
///     let Failure(why) = *unwound.downcast().expect("what an expectation unwinds with");
///     assert_eq!(why, "`huge` is admitted: not within 10 minutes");
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

/// Ends the scenario. It unwinds as a panic does, but prints nothing: an exploration has many
/// failing runs.
pub(super) fn fail(why: impl Into<String>) -> ! {
    resume_unwind(Box::new(Failure(why.into())))
}

/// Runs the preparation of a scenario. Its failures are not collected, so they become panics.
pub(crate) fn or_panic<T>(prepare: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(prepare)).unwrap_or_else(|panic| {
        match panic.downcast::<Failure>() {
            Ok(failure) => panic!("{}", failure.0),
            // The panic has already printed its message.
            Err(other) => resume_unwind(other),
        }
    })
}

/// Runs a scenario; returns the reason of an early end.
pub(crate) async fn caught(scenario: impl Future<Output = ()>) -> Option<Failure> {
    let ended = AssertUnwindSafe(scenario).catch_unwind().await;
    ended.err().map(|panic| reason(&*panic))
}

fn reason(panic: &(dyn Any + Send)) -> Failure {
    if let Some(failure) = panic.downcast_ref::<Failure>() {
        return failure.clone();
    }
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure(text.unwrap_or_else(|| "the scenario panicked".to_owned()))
}

/// Returns a runtime with one thread, whose time passes only while all tasks wait.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    built.unwrap_or_else(|error| fail(format!("no runtime: {error}")))
}

pub(super) fn time(text: &str) -> Timestamp {
    text.parse()
        .unwrap_or_else(|error| fail(format!("{text:?} is no time: {error}")))
}

pub(super) fn json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_else(|error| fail(format!("not JSON: {error}")))
}
