//! Credentials: the files that contain them, and the servers to which they may be sent, as the
//! deployment configures them.

use std::path::PathBuf;

use kueue_check_sources::{AllowedServer, ServerPolicy, Unlisted};

/// The environment variable with the folder of credentials.
const FOLDER: &str = "BUDGET_CHECK_CREDENTIALS";
/// The environment variable with the servers.
const SERVERS: &str = "BUDGET_CHECK_SOURCES";

/// The files that a Budget may name, and the servers to which they may be sent.
///
/// A user who may edit a Budget chooses a URL and a file. The deployment decides whether that file
/// may be sent there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The folder below which credentials are. No other file is read.
    pub folder: PathBuf,
    /// The servers that may be queried. If there are none, every server may be queried, but none
    /// with credentials.
    pub servers: Vec<AllowedServer>,
}

/// The error of an invalid environment variable.
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
    /// Reads the environment. `BUDGET_CHECK_CREDENTIALS` is the folder. `BUDGET_CHECK_SOURCES`
    /// contains the servers as JSON: `[{"url": "https://prometheus.monitoring:9090", "credentials":
    /// "prometheus"}]`.
    ///
    /// # Errors
    /// Returns [`CredentialsError`] if the list of servers is invalid.
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
