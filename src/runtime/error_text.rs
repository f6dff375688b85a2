//! Texts of errors for logs, `/readyz` and conditions.

use crate::check::redact;

/// Returns the text of a kube error without its repetitions.
pub(crate) fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        kube::Error::Service(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Returns the text of a kube error for users: brief, and without credentials.
pub(crate) fn public(error: &kube::Error) -> String {
    redact(&brief(error)).into_owned()
}
