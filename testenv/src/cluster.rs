//! One API server with its etcd.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::config::{AuthInfo, Config};
use kube::{Client, client::ClientBuilder};
use tokio::time::{Instant, sleep};

use crate::build::{Programs, Unavailable, programs};
use crate::folder::create;
use crate::killed::free_address;
use crate::process::Process;

/// A running kube-apiserver and etcd, without controller manager, scheduler or Kueue.
///
/// Its files are in a folder of its own, which is removed with the cluster.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    folder: PathBuf,
    ports: Ports,
    apiserver: Option<Process>,
    etcd: Option<Process>,
    certificate: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    apiserver: u16,
    etcd: u16,
    peer: u16,
}

/// The reason why a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are no programs.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A file or process error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It did not become ready.
    #[error("the API server was not ready after {waited:?}; the end of its log:\n{log}")]
    NotReady {
        /// The time for which the test waited.
        waited: Duration,
        /// The last lines of the log.
        log: String,
    },
    /// The client can't be built.
    #[error("{0}")]
    Client(#[from] kube::Error),
}

/// The administrator's token, for a server that runs for one test, on loopback.
const TOKEN: &str = "testenv";
const READY: Duration = Duration::from_secs(90);

impl Cluster {
    /// Starts both and waits until the API server is ready.
    ///
    /// # Errors
    /// [`StartError`] with the end of the log if it is not ready within 90 s.
    pub async fn start() -> Result<Self, StartError> {
        // Building may take minutes and blocks.
        let programs = tokio::task::spawn_blocking(programs)
            .await
            .map_err(io::Error::other)??;
        let folder = create("kueue-check-testenv")?;
        fs::write(
            folder.join("tokens.csv"),
            format!("{TOKEN},admin,admin,\"system:masters\"\n"),
        )?;
        let (private, public) = service_account_keys()?;
        fs::write(folder.join("service-account.key"), private)?;
        fs::write(folder.join("service-account.pub"), public)?;
        let ports = Ports::free()?;
        let mut cluster = Self {
            programs,
            folder,
            ports,
            apiserver: None,
            etcd: None,
            certificate: Vec::new(),
        };
        cluster.start_etcd()?;
        cluster.start_apiserver().await?;
        Ok(cluster)
    }

    fn start_etcd(&mut self) -> io::Result<()> {
        self.etcd = Some(Process::start(
            &self.programs.etcd,
            &etcd_arguments(&self.folder, self.ports),
            &self.folder.join("etcd.log"),
            Some(&self.folder),
        )?);
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.stop_apiserver();
        self.etcd.take().map_or(Ok(()), Process::stop)
    }

    /// Saves the stored objects for [`restore`](Self::restore). Both programs restart for it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn backup(&mut self) -> Result<(), StartError> {
        self.stop()?;
        copy(&self.folder.join("etcd"), &self.folder.join("backup"))?;
        self.start_etcd()?;
        self.start_apiserver().await
    }

    /// Restores the objects of the [`backup`](Self::backup), with their versions. Both programs
    /// restart for it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn restore(&mut self) -> Result<(), StartError> {
        self.stop()?;
        fs::remove_dir_all(self.folder.join("etcd"))?;
        copy(&self.folder.join("backup"), &self.folder.join("etcd"))?;
        self.start_etcd()?;
        self.start_apiserver().await
    }

    /// Starts the API server, on the port that it had before.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_apiserver(&mut self) -> Result<(), StartError> {
        let arguments = apiserver_arguments(&self.folder, self.ports);
        self.apiserver = Some(Process::start(
            &self.programs.apiserver,
            &arguments,
            &self.log(),
            None,
        )?);
        let began = Instant::now();
        while began.elapsed() < READY {
            if let Ok(certificate) = fs::read(self.folder.join("certificates/apiserver.crt"))
                && !certificate.is_empty()
            {
                self.certificate = certificate;
                if self.is_ready().await {
                    return Ok(());
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(30).collect();
        Err(StartError::NotReady {
            waited: READY,
            log: last.into_iter().rev().collect::<Vec<_>>().join("\n"),
        })
    }

    /// Stops the API server without warning; etcd keeps the objects.
    pub fn stop_apiserver(&mut self) {
        self.apiserver = None;
    }

    /// Returns the address of etcd's plain HTTP, for tests that compact its versions.
    pub fn etcd(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.etcd)
    }

    /// Returns the address, certificate and credentials for clients.
    pub fn access(&self) -> Access {
        let (folder, certificate) = (self.folder.clone(), self.certificate.clone());
        Access {
            folder,
            certificate,
            url: format!("https://127.0.0.1:{}", self.ports.apiserver),
        }
    }

    /// Returns a client with all permissions.
    ///
    /// # Errors
    /// If it can't be built.
    pub fn client(&self) -> Result<Client, StartError> {
        self.access().client()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("apiserver.log")
    }

    async fn is_ready(&self) -> bool {
        let Ok(client) = self.client() else {
            return false;
        };
        let request = http_get("/readyz");
        matches!(tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await, Ok(Ok(text)) if text == "ok")
    }
}

/// The access to a cluster. It is cheap to clone, and valid while the cluster runs.
#[derive(Clone, Debug)]
pub struct Access {
    folder: PathBuf,
    certificate: Vec<u8>,
    url: String,
}

impl Access {
    /// Returns a client with all permissions.
    ///
    /// # Errors
    /// If it can't be built.
    pub fn client(&self) -> Result<Client, StartError> {
        Ok(ClientBuilder::try_from(self.config(TOKEN)?)?.build())
    }

    /// Returns a client that impersonates `user` in `groups`.
    ///
    /// # Errors
    /// The cluster's certificate can't be read.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client, StartError> {
        let mut config = self.config(TOKEN)?;
        config.auth_info.impersonate = Some(user.to_owned());
        let groups = groups.iter().map(|group| (*group).to_owned());
        config.auth_info.impersonate_groups = Some(groups.collect());
        Ok(ClientBuilder::try_from(config)?.build())
    }

    /// Returns a client without credentials: each request sets its own `Authorization`.
    ///
    /// # Errors
    /// The cluster's certificate can't be read.
    pub fn client_without_credentials(&self) -> Result<Client, StartError> {
        let mut config = self.config(TOKEN)?;
        config.auth_info = AuthInfo::default();
        Ok(ClientBuilder::try_from(config)?.build())
    }

    /// Returns the cluster's folder, which is removed with the cluster.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn config(&self, token: &str) -> Result<Config, StartError> {
        let mut config = Config::new(self.url.parse().map_err(io::Error::other)?);
        config.root_cert = Some(certificates(&self.certificate)?);
        config.default_retry = false;
        // A struct literal would require the secret's type.
        config.auth_info = serde_json::from_value::<AuthInfo>(serde_json::json!({"token": token}))
            .map_err(io::Error::other)?;
        Ok(config)
    }

    /// Writes a kubeconfig with all permissions to a file; returns its path.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn kubeconfig(&self) -> Result<PathBuf, StartError> {
        self.kubeconfig_with_token("admin", TOKEN)
    }

    /// Writes a kubeconfig for the bearer of `token` to the file `name`.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn kubeconfig_with_token(&self, name: &str, token: &str) -> Result<PathBuf, StartError> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let authority = self.folder.join("certificates/apiserver.crt");
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "testenv",
            "clusters": [{"name": "testenv", "cluster": {"server": self.url, "certificate-authority": authority}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "testenv", "context": {"cluster": "testenv", "user": name}}],
        });
        let text = serde_json::to_vec_pretty(&config).map_err(io::Error::other)?;
        // Another test may read it meanwhile, so it is replaced as a whole.
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let new = self.folder.join(format!("{name}.kubeconfig.{number}"));
        fs::write(&new, text)?;
        fs::rename(&new, &path)?;
        Ok(path)
    }
}

/// Copies a folder and its contents.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = path.parse().unwrap_or_default();
    request
}

impl Ports {
    /// Returns three ports without a listener.
    fn free() -> io::Result<Self> {
        let port = || free_address().map(|address| address.port());
        Ok(Self {
            apiserver: port()?,
            etcd: port()?,
            peer: port()?,
        })
    }
}

fn etcd_arguments(folder: &Path, ports: Ports) -> Vec<String> {
    let (client, peer) = (
        format!("http://127.0.0.1:{}", ports.etcd),
        format!("http://127.0.0.1:{}", ports.peer),
    );
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=error".to_owned(),
    ]
}

fn apiserver_arguments(folder: &Path, ports: Ports) -> Vec<String> {
    vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.apiserver),
        format!("--cert-dir={}", folder.join("certificates").display()),
        format!("--token-auth-file={}", folder.join("tokens.csv").display()),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--service-account-issuer=https://testenv.example.com".to_owned(),
        format!(
            "--service-account-key-file={}",
            folder.join("service-account.pub").display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            folder.join("service-account.key").display()
        ),
        // No controller creates the default ServiceAccount that this plugin would add to each Pod.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

/// Returns new keys that sign and verify ServiceAccount tokens: private and public, as PEM.
fn service_account_keys() -> io::Result<(String, String)> {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING as ALGORITHM, EcdsaKeyPair, KeyPair};
    /// The bytes before the point in the public key of a P-256 key (RFC 5480).
    const HEAD: [u8; 26] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    let random = SystemRandom::new();
    let failed = |error: String| io::Error::other(error);
    let private = EcdsaKeyPair::generate_pkcs8(&ALGORITHM, &random)
        .map_err(|error| failed(error.to_string()))?;
    let pair = EcdsaKeyPair::from_pkcs8(&ALGORITHM, private.as_ref(), &random)
        .map_err(|error| failed(error.to_string()))?;
    let public = [&HEAD, pair.public_key().as_ref()].concat();
    Ok((
        pem::encode(&pem::Pem::new("PRIVATE KEY", private.as_ref())),
        pem::encode(&pem::Pem::new("PUBLIC KEY", public)),
    ))
}

/// Returns the certificates of a PEM file, in the form for kube's client.
fn certificates(text: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let blocks = pem::parse_many(text).map_err(io::Error::other)?;
    Ok(blocks
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE")
        .map(pem::Pem::into_contents)
        .collect())
}
