//! Calls of check code: with a deadline, and with panics caught.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::timeout;

use super::decide::Outcome;
use crate::check::{CheckError, DynCheck, ErrorKind, Request};

/// The reason why a call of check code returned no result.
#[derive(Debug)]
pub(crate) enum CallError {
    /// It returned an error.
    Error(CheckError),
    /// It panicked.
    Panic(String),
    /// It did not return in time.
    TimedOut(Duration),
}

impl CallError {
    /// Returns the label for metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Error(error) => error.kind().as_str(),
            Self::Panic(_) => "panic",
            Self::TimedOut(_) => "timeout",
        }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Error(error) => error.kind(),
            Self::Panic(_) | Self::TimedOut(_) => ErrorKind::Transient,
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Panic(message) => write!(f, "the check's code panicked: {message}"),
            Self::TimedOut(limit) => write!(f, "the check returned no verdict in {limit:?}"),
        }
    }
}

/// Runs `code` for at most `limit`.
pub(crate) async fn call_with_timeout<T>(
    code: impl Future<Output = Result<T, CheckError>>,
    limit: Duration,
) -> Result<T, CallError> {
    match timeout(limit, AssertUnwindSafe(code).catch_unwind()).await {
        Ok(Ok(result)) => result.map_err(CallError::Error),
        Ok(Err(panic)) => Err(CallError::Panic(panic_message(&*panic))),
        Err(_) => Err(CallError::TimedOut(limit)),
    }
}

/// Evaluates `check`; errors are outcomes too. Also returns the label for metrics.
pub(crate) async fn evaluate(
    check: &DynCheck,
    request: Request,
    limit: Duration,
) -> (Outcome, &'static str) {
    match call_with_timeout(check.check(request), limit).await {
        Ok(verdict) => {
            let label = verdict.kind.as_str();
            (Outcome::Verdict(verdict), label)
        }
        Err(none) => (
            Outcome::Failed {
                kind: none.kind(),
                message: none.to_string().into(),
            },
            none.as_str(),
        ),
    }
}

/// Returns the text of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no message)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Workload;
    use crate::check::{
        AdmissionCheckController, CheckRequest, ControllerName, NoParameters, RequestBuilder,
        Verdict,
    };

    enum Mood {
        Decides,
        Fails,
        Panics,
        Hangs,
    }

    struct Moody(Mood);

    impl AdmissionCheckController for Moody {
        type Parameters = NoParameters;

        fn controller_name(&self) -> ControllerName {
            const { ControllerName::from_static("example.com/moody") }
        }

        async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
            match self.0 {
                Mood::Decides => Ok(Verdict::ready("fine")),
                Mood::Fails => Err(CheckError::permanent("no such thing")),
                Mood::Panics => panic!("index out of {}", "bounds"),
                Mood::Hangs => std::future::pending().await,
            }
        }
    }

    async fn outcome(mood: Mood) -> (Outcome, &'static str) {
        let workload =
            Workload::from_json(serde_json::json!({"metadata": {"name": "w", "uid": "u"}}))
                .unwrap();
        let request =
            RequestBuilder::new(workload, "c").build_any(std::sync::Arc::new(NoParameters));
        evaluate(
            &DynCheck::new(Moody(mood)),
            request,
            Duration::from_secs(30),
        )
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_or_timeout_of_the_check_is_an_outcome() {
        let failed = |kind, message: &str| Outcome::Failed {
            kind,
            message: message.into(),
        };
        assert_eq!(
            outcome(Mood::Decides).await,
            (Outcome::Verdict(Verdict::ready("fine")), "Ready")
        );
        assert_eq!(
            outcome(Mood::Fails).await,
            (failed(ErrorKind::Permanent, "no such thing"), "permanent")
        );
        let panicked = failed(
            ErrorKind::Transient,
            "the check's code panicked: index out of bounds",
        );
        assert_eq!(outcome(Mood::Panics).await, (panicked, "panic"));
        let late = failed(ErrorKind::Transient, "the check returned no verdict in 30s");
        assert_eq!(outcome(Mood::Hangs).await, (late, "timeout"));
    }
}
