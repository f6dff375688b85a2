//! Credentials: how the deployment says in which files they are, and to which servers they may be
//! sent.

use std::path::PathBuf;

use kueue_check_sources::{AllowedServer, ServerPolicy, Unlisted};

/// The variable with the folder of credentials.
const FOLDER: &str = "BUDGET_CHECK_CREDENTIALS";
/// The variable with the servers.
const SERVERS: &str = "BUDGET_CHECK_SOURCES";

/// Which files a Budget may name, and which servers they may be sent to. A user who may edit a
/// Budget chooses a URL and a file; the deployment decides whether that file may be sent there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The folder below which credentials are. No other file is read.
    pub folder: PathBuf,
    /// The servers that may be asked. If there are none, every server may be asked, and none with
    /// credentials.
    pub servers: Vec<AllowedServer>,
}

/// A variable that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{SERVERS}: {0}")]
pub struct CredentialsError(String);

impl Default for Credentials {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("/var/run/secrets/budget-check"),
            servers: Vec::new(),
        }
    }
}

impl Credentials {
    /// As the environment says: `BUDGET_CHECK_CREDENTIALS` is the folder, `BUDGET_CHECK_SOURCES`
    /// the servers as JSON: `[{"url": "https://prometheus.monitoring:9090", "credentials":
    /// "prometheus"}]`.
    ///
    /// # Errors
    /// [`CredentialsError`] says what is invalid in it.
    pub fn from_environment() -> Result<Self, CredentialsError> {
        let default = Self::default();
        let servers = std::env::var(SERVERS).unwrap_or_default();
        Ok(Self {
            folder: std::env::var_os(FOLDER).map_or(default.folder, PathBuf::from),
            servers: AllowedServer::list(&servers).map_err(CredentialsError)?,
        })
    }
}

impl From<Credentials> for ServerPolicy {
    fn from(credentials: Credentials) -> Self {
        Self {
            folder: credentials.folder,
            servers: credentials.servers,
            unlisted: Unlisted::WithoutCredentials,
            setting: SERVERS,
        }
    }
}
