//! The servers and files that rules may name. The deployment sets them.

use kueue_check::Inactive;
use kueue_check_sources::{Origin, ServerPolicy};

/// Returns an error if the deployment does not allow the server of the URL in `field`, or does not
/// allow credentials to be sent there.
pub(crate) fn allowed(
    servers: &ServerPolicy,
    field: &str,
    url: &str,
    secret: bool,
) -> Result<(), Inactive> {
    let invalid = |problem: String| Inactive::new("UrlInvalid", format!("`{field}`: {problem}"));
    let uri: http::Uri = url
        .parse()
        .map_err(|_| invalid("the URL is invalid".to_owned()))?;
    let origin = Origin::of(&uri).map_err(invalid)?;
    if servers.allow_request(&uri).is_err() {
        let setting = servers.setting;
        return Err(Inactive::new(
            "HostNotAllowed",
            format!(
                "`{field}`: the server {origin} is not allowed: add `{setting} {origin}` to the check's arguments, and `={{FOLDER}}` to it if credentials are sent there"
            ),
        ));
    }
    if secret && let Err(problem) = servers.allow_sending(&uri) {
        return Err(Inactive::new(
            "CredentialsNotAllowed",
            format!("`{field}`: credentials are to be sent, and {problem}"),
        ));
    }
    Ok(())
}
