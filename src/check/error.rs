//! Errors of a check. None of them is a verdict.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::PodSetUpdatesError;

/// The error of an evaluation. **It never changes the check's state**, so an outage never evicts a
/// job.
///
/// Every error converts to a transient one, so `?` is enough:
///
/// ```
/// # use kueue_check::{CheckError, Verdict};
/// async fn spent() -> Result<f64, std::io::Error> { Ok(12.5) }
///
/// async fn budget() -> Result<Verdict, CheckError> {
///     let spent = spent().await?; // an outage: the check stays Pending and is evaluated again with a growing delay
///     Ok(if spent < 100.0 { Verdict::ready("within budget") } else { Verdict::pending("over budget") })
/// }
/// ```
///
/// The administrator chooses what happens when errors last:
/// [`Policy::on_error`](super::Policy::on_error).
pub struct CheckError {
    kind: ErrorKind,
    source: Box<dyn Error + Send + Sync>,
}

/// The kind of an error: it determines what happens next.
///
/// ```
/// use kueue_check::{CheckError, ErrorKind};
///
/// fn read(figure: &str) -> Result<f64, CheckError> {
///     Ok(figure.parse()?) // any error is transient, unless converted otherwise
/// }
///
/// assert_eq!(read("a lot").unwrap_err().kind(), ErrorKind::Transient);
/// assert_eq!(CheckError::permanent("the Workload has no label `team`").kind(), ErrorKind::Permanent);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It may go away by itself: evaluated again after a delay that doubles with each failure, up
    /// to 5 min.
    Transient,
    /// The other side requires a pause: evaluated again after it.
    Throttled {
        /// The pause.
        after: Duration,
    },
    /// The AdmissionCheck's parameters are invalid: the check's message reports it. The Workload is
    /// evaluated again after 1 to 5 min, or when the parameters change.
    ///
    /// One Workload alone does not stop a ClusterQueue. The AdmissionCheck's condition `Active`
    /// becomes False if all Workloads that were asked reject the parameters, or a second one in a
    /// row does after verdicts. It becomes True again with the first verdict. The AdmissionCheck is
    /// also activated again after 1 to 5 min, and is then active if fewer than two Workloads with
    /// quota reject the parameters: those without quota have not been asked.
    Parameters,
    /// This Workload cannot be evaluated: the check stays Pending and reports why, until the
    /// Workload or the parameters change.
    Permanent,
}

impl ErrorKind {
    /// Returns true for [`Transient`](Self::Transient) and [`Throttled`](Self::Throttled).
    pub(crate) fn may_go_away(self) -> bool {
        matches!(self, Self::Transient | Self::Throttled { .. })
    }

    /// Returns the name for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled { .. } => "throttled",
            Self::Parameters => "parameters",
            Self::Permanent => "permanent",
        }
    }
}

impl CheckError {
    /// Makes an error that may go away by itself. `?` makes the same.
    pub fn transient(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind: ErrorKind::Transient,
            source: source.into(),
        }
    }

    /// Makes an error for a system that requires a pause of `after`, from 1 s to 1 h.
    pub fn throttled(after: Duration, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind: ErrorKind::Throttled { after },
            source: source.into(),
        }
    }

    /// Makes an error for invalid parameters of the AdmissionCheck.
    pub fn parameters(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind: ErrorKind::Parameters,
            source: source.into(),
        }
    }

    /// Makes an error for a Workload that cannot be evaluated as it is.
    pub fn permanent(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind: ErrorKind::Permanent,
            source: source.into(),
        }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn new(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }
}

/// An error in pod set updates is permanent: it stays until the code or the Workload changes. Any
/// other counts as transient.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for CheckError {
    fn from(source: E) -> Self {
        let source = source.into();
        let permanent = source.downcast_ref::<PodSetUpdatesError>().is_some();
        Self {
            kind: if permanent {
                ErrorKind::Permanent
            } else {
                ErrorKind::Transient
            },
            source,
        }
    }
}

/// Prints the error and the chain of its causes, each once.
impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = self.source.to_string();
        f.write_str(&printed)?;
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors repeat their cause in their own text.
            if !printed.contains(&text) {
                write!(f, ": {text}")?;
                printed = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("querying Prometheus")]
    struct Outer(#[source] std::io::Error);

    fn query() -> Result<(), CheckError> {
        Err(Outer(std::io::Error::other("connection refused")))?;
        Ok(())
    }

    #[test]
    fn any_error_is_transient_and_prints_its_causes() {
        let error = query().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient);
        assert_eq!(error.to_string(), "querying Prometheus: connection refused");
        assert_eq!(CheckError::from("plain text").to_string(), "plain text");
    }

    #[test]
    fn a_cause_that_is_already_printed_is_not_repeated() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Repeats(#[source] std::io::Error);
        assert_eq!(
            CheckError::from(Repeats(std::io::Error::other("inner"))).to_string(),
            "outer: inner"
        );
    }

    #[test]
    fn rejected_updates_are_permanent_errors() {
        let error = CheckError::from(PodSetUpdatesError::Duplicate {
            pod_set: "main".to_owned(),
        });
        assert_eq!(error.kind(), ErrorKind::Permanent);
    }
}
