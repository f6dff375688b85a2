//! Errors of data sources.

use std::time::Duration;

/// Why a source gives no usable answer. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It can't be reached.
    #[error("{0} cannot be reached: {1}")]
    Unreachable(&'static str, String),
    /// It took too long.
    #[error("{0} did not answer in {1:?}")]
    TimedOut(&'static str, Duration),
    /// It accepts no request with these credentials.
    #[error("{0} refused the credentials ({1})")]
    Unauthorized(&'static str, u16),
    /// Credentials can't be read.
    #[error("the credentials cannot be used: {0}")]
    Credentials(String),
    /// It refuses the query as invalid.
    #[error("{0} refused the query (400): {1}")]
    BadQuery(&'static str, String),
    /// The query failed.
    #[error("{0}: the query failed: {1}")]
    QueryFailed(&'static str, String),
    /// It is overloaded, or down.
    #[error("{0}: {1} {2}")]
    Unavailable(&'static str, u16, String),
    /// It asks for a pause.
    #[error("{0} asks for a pause of {1:?}")]
    Throttled(&'static str, Duration),
    /// What it says is no answer of its API.
    #[error("{0} gave no answer of its API: {1}")]
    BadResponse(&'static str, String),
    /// The query's result is of another kind than a vector with a certain label.
    #[error("the query's result is {0}; expected a vector with the label `{1}`")]
    WrongShape(String, String),
    /// The answer may be incomplete.
    #[error("{0} warned that the answer may be incomplete: {1}")]
    Incomplete(&'static str, String),
    /// A raw metric has no sample that is new enough.
    #[error("nothing is measured: the newest sample of {0}")]
    NotMeasured(String),
}

impl SourceError {
    /// One word for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(..) => "Unreachable",
            Self::TimedOut(..) => "TimedOut",
            Self::Unauthorized(..) => "Unauthorized",
            Self::Credentials(_) => "CredentialsUnusable",
            Self::BadQuery(..) => "BadQuery",
            Self::QueryFailed(..) => "QueryFailed",
            Self::Unavailable(..) => "Unavailable",
            Self::Throttled(..) => "Throttled",
            Self::BadResponse(..) => "BadResponse",
            Self::WrongShape(..) => "WrongShape",
            Self::Incomplete(..) => "Incomplete",
            Self::NotMeasured(_) => "NotMeasured",
        }
    }

    /// The same for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(..) => "unreachable",
            Self::TimedOut(..) => "timeout",
            Self::Unauthorized(..) => "unauthorized",
            Self::Credentials(_) => "credentials",
            Self::BadQuery(..) => "bad_query",
            Self::QueryFailed(..) => "query_failed",
            Self::Unavailable(..) => "unavailable",
            Self::Throttled(..) => "throttled",
            Self::BadResponse(..) => "bad_response",
            Self::WrongShape(..) => "wrong_shape",
            Self::Incomplete(..) => "incomplete",
            Self::NotMeasured(_) => "not_measured",
        }
    }

    /// Whether the configuration is wrong, and not the source: another request is of no use before
    /// it changes.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::BadQuery(..) | Self::WrongShape(..))
    }

    /// How long to wait after `failures` in a row: as the source requires, or from a second to a
    /// minute; for a wrong configuration ten minutes. `jitter` is from 0 to 1.
    pub fn pause(&self, failures: u32, jitter: f64) -> Duration {
        match self {
            Self::Throttled(_, after) => {
                (*after).clamp(Duration::from_secs(1), Duration::from_hours(1))
            }
            error if error.is_configuration() => Duration::from_mins(10),
            _ => {
                let longest = Duration::from_secs(1 << failures.saturating_sub(1).min(6))
                    .min(Duration::from_secs(60));
                longest.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
            }
        }
    }
}

/// Text of a server for a condition: one line, at most 256 characters.
pub fn brief(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(256)
        .collect();
    // A credential can be shorter than what stands in its place.
    let message = kueue_check::Message::new(line.trim());
    message.as_str().chars().take(256).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_is_one_line_of_256_characters_without_credentials() {
        for text in [
            format!("password=a {}", "x".repeat(300)),
            format!("two\nlines {}", "é".repeat(300)),
        ] {
            let text = brief(&text);
            assert_eq!(text.chars().count(), 256, "{text}");
            assert!(!text.contains("=a") && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn pauses_grow_to_a_minute_and_a_wrong_query_waits_longer() {
        let down = SourceError::Unavailable("Prometheus", 503, String::new());
        let seconds: Vec<u64> = (1..9)
            .map(|failures| down.pause(failures, 1.0).as_secs())
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(down.pause(3, 0.0), Duration::from_secs(2));
        assert_eq!(
            SourceError::BadQuery("Prometheus", String::new()).pause(1, 0.5),
            Duration::from_mins(10)
        );
        assert_eq!(
            SourceError::Throttled("Datadog", Duration::from_secs(17)).pause(1, 0.5),
            Duration::from_secs(17)
        );
    }
}
