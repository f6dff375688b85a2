//! Errors of data sources.

use std::time::Duration;

/// The reason for which a source returns no usable response. It contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The source cannot be reached.
    #[error("{0} cannot be reached: {1}")]
    Unreachable(&'static str, String),
    /// It did not respond in time.
    #[error("{0} did not respond within {1:?}")]
    TimedOut(&'static str, Duration),
    /// It rejects the credentials.
    #[error("{0} rejected the credentials ({1})")]
    Unauthorized(&'static str, u16),
    /// The credentials cannot be used.
    #[error("the credentials cannot be used: {0}")]
    Credentials(String),
    /// It rejects the query as invalid.
    #[error("{0} rejected the query (400): {1}")]
    BadQuery(&'static str, String),
    /// The query failed.
    #[error("{0}: the query failed: {1}")]
    QueryFailed(&'static str, String),
    /// It is overloaded, or down.
    #[error("{0}: {1} {2}")]
    Unavailable(&'static str, u16, String),
    /// It requests a pause.
    #[error("{0} requests a pause of {1:?}")]
    Throttled(&'static str, Duration),
    /// The response is not one of its API.
    #[error("{0} returned no response of its API: {1}")]
    BadResponse(&'static str, String),
    /// The query's result is not a vector with the expected label.
    #[error("the query's result is {0}; expected a vector with the label `{1}`")]
    WrongShape(String, String),
    /// The response may be incomplete.
    #[error("{0} warned that the response may be incomplete: {1}")]
    Incomplete(&'static str, String),
    /// A raw metric has no sample that is new enough.
    #[error("nothing is measured: the newest sample of {0}")]
    NotMeasured(String),
}

impl SourceError {
    /// Returns the reason for conditions, in one word.
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

    /// Returns the label for metrics.
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

    /// Returns true if the configuration is wrong, and not the source: another request is useless
    /// before it changes.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::BadQuery(..) | Self::WrongShape(..))
    }

    /// Returns the pause after `failures` in a row.
    ///
    /// A source that requests a pause gets it, within 1 s and 1 h. A wrong configuration gets 10
    /// min. Other errors get an exponential backoff from 1 s to 60 s, which a `jitter` of 0 halves
    /// and a `jitter` of 1 leaves as it is.
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

/// Formats text of a server for a condition: one line, at most 256 characters.
pub fn brief(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(256)
        .collect();
    // A credential can be shorter than its replacement, so the text is cut again.
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
