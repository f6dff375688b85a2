//! Authentication: the files with credentials that parameters of a check name.

use base64::engine::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ServerPolicy, SourceError, secret_header};

/// How to authenticate: exactly one of the fields. Files are read only below the folder that the
/// deployment of the check names, and sent only to the servers that it names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.bearerTokenFile) != has(self.basic)", "message": "exactly one of bearerTokenFile and basic must be set"}
]))]
pub struct Auth {
    /// A file with a bearer token. It is read again when the server rejects the token, so that it
    /// can be rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub bearer_token_file: Option<String>,
    /// A user and a file with the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicAuth>,
}

/// A user and a password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// The user.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[^:]+$"))]
    pub user: String,
    /// A file with the password.
    #[schemars(length(min = 1, max = 1024))]
    pub password_file: String,
}

impl Auth {
    /// Returns the header `Authorization` for `url`, from the current content of the files.
    ///
    /// # Errors
    /// [`SourceError::Credentials`]: a file cannot be read, or may not be sent to `url`.
    pub async fn header(
        &self,
        servers: &ServerPolicy,
        url: &str,
    ) -> Result<(HeaderName, HeaderValue), SourceError> {
        let value = match self {
            Self {
                bearer_token_file: Some(file),
                ..
            } => format!("Bearer {}", servers.read(file, url).await?),
            Self {
                basic: Some(basic), ..
            } => {
                let password = servers.read(&basic.password_file, url).await?;
                let pair = format!("{}:{password}", basic.user);
                format!("Basic {}", STANDARD.encode(pair))
            }
            _ => return Err(SourceError::Credentials("auth names none".to_owned())),
        };
        secret_header(AUTHORIZATION, &value)
    }
}
