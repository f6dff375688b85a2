//! The shipped checks as processes: two replicas of each, with exactly the permissions of their
//! manifests, each behind its own proxy.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use kueue_check_testenv::{Process, exposition, token};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::cluster::{Failure, Writer};
use crate::judge::Sample;
use crate::proxy::{Faults, Server, forward};

/// Any free loopback port.
pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The delay before an exited process is restarted, as a kubelet's back-off.
const BACK_OFF: Duration = Duration::from_secs(1);

/// A shipped check.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// Its namespace, Lease, ServiceAccount and AdmissionCheck.
    pub(crate) name: &'static str,
    /// The path of the program.
    pub(crate) path: PathBuf,
}

/// One replica.
pub(crate) struct Replica {
    /// Its identity.
    pub(crate) name: String,
    /// The check that it runs.
    pub(crate) subject: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    log: PathBuf,
    temporary: PathBuf,
    admin: SocketAddr,
    process: Option<Process>,
    ended: Option<Instant>,
    retired: bool,
    /// The number of starts.
    pub(crate) starts: u32,
    _proxy: Server,
}

/// Returns the certificate of the proxies, and a TLS acceptor that uses it.
pub(crate) fn certificate() -> Result<(TlsAcceptor, String), Failure> {
    let problem = |error: &dyn std::fmt::Display| Failure::Program(error.to_string());
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
        .map_err(|error| problem(&error))?;
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der())
        .map_err(|error| problem(&error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| problem(&error))?
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .map_err(|error| problem(&error))?;
    let text = pem::encode(&pem::Pem::new("CERTIFICATE", pair.cert.der().to_vec()));
    Ok((TlsAcceptor::from(Arc::new(config)), text))
}

/// Installs the output of `manifests`. Returns a token of its ServiceAccount.
pub(crate) async fn install(
    writer: &Writer,
    subject: &Subject,
    seconds: i64,
) -> Result<String, Failure> {
    let name = subject.name;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    writer.apply(&namespace).await?;
    let image = "registry.example.com/check:1";
    let arguments = [
        "manifests",
        "--image",
        image,
        "--namespace",
        name,
        "--name",
        name,
    ];
    let output = Command::new(&subject.path)
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::Program(message));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for document in text.split("---\n").filter(|text| !text.trim().is_empty()) {
        let document = serde_saphyr::from_str::<Option<Value>>(document);
        let document = document.map_err(|error| Failure::Program(error.to_string()))?;
        let Some(document) = document else { continue };
        writer.apply(&document).await?;
        if document["kind"] == "CustomResourceDefinition" {
            let established =
                |found: &Value| crate::judge::condition(found, "Established").is_some();
            let patience = Duration::from_secs(30);
            writer
                .wait(&document, "Established", patience, established)
                .await?;
        }
    }
    Ok(token(&writer.client(), name, name, seconds).await?)
}

/// The folders of a replica.
pub(crate) struct Folders<'a> {
    /// Its kubeconfig and temporary files, which are deleted at the end.
    pub(crate) own: &'a Path,
    /// Its log, which stays.
    pub(crate) logs: &'a Path,
}

/// Returns the body of the response to `path` at `address`.
fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let patience = Duration::from_secs(3);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let body = response
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned());
    Ok(body.unwrap_or_default())
}

impl Replica {
    /// Creates a replica that is not started yet, and its proxy to the API server.
    pub(crate) async fn new(
        subject: &Subject,
        number: u32,
        (token, folders): (&str, Folders<'_>),
        upstream: kube::Client,
        (tls, authority): &(TlsAcceptor, String),
        faults: Faults,
    ) -> Result<Self, Failure> {
        let name = format!("{}-{number}", subject.name);
        let handler = forward(upstream);
        let (proxy, address) = Server::start(LOOPBACK, Some(tls.clone()), faults, handler).await?;
        let certificate = folders.own.join("proxy.crt");
        fs::write(&certificate, authority)?;
        let cluster =
            json!({"server": format!("https://{address}"), "certificate-authority": certificate});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "soak",
            "clusters": [{"name": "soak", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "soak", "context": {"cluster": "soak", "user": name, "namespace": subject.name}}],
        });
        let kubeconfig = folders.own.join(format!("{name}.kubeconfig"));
        fs::write(&kubeconfig, config.to_string())?;
        let temporary = folders.own.join(format!("{name}.tmp"));
        fs::create_dir_all(&temporary)?;
        let admin = TcpListener::bind(LOOPBACK)?.local_addr()?;
        let own = |text: &str| text.to_owned();
        let arguments = vec![
            own("run"),
            format!("--admin-address={admin}"),
            own("--admin-secure=false"),
            format!("--lease-namespace={}", subject.name),
            format!("--lease-name={}", subject.name),
            format!("--identity={name}"),
        ];
        let environment = vec![
            ("KUEUE_CHECK_KUBECONFIG", kubeconfig.display().to_string()),
            ("TMPDIR", temporary.display().to_string()),
            ("BUDGET_CHECK_CREDENTIALS", temporary.display().to_string()),
        ];
        Ok(Self {
            log: folders.logs.join(format!("{name}.log")),
            name,
            subject: subject.name,
            program: subject.path.clone(),
            arguments,
            environment,
            temporary,
            admin,
            process: None,
            ended: None,
            retired: false,
            starts: 0,
            _proxy: proxy,
        })
    }

    /// Starts it, or restarts it 1 s after it has exited.
    pub(crate) fn supervise(&mut self) -> Result<(), Failure> {
        if self.is_running() || self.retired {
            return Ok(());
        }
        let ended = *self.ended.get_or_insert_with(Instant::now);
        if self.starts > 0 && ended.elapsed() < BACK_OFF {
            return Ok(());
        }
        self.process = None;
        let (program, log) = (&self.program, &self.log);
        let environment = &self.environment;
        let process = Process::start_with(program, &self.arguments, environment, log, None)?;
        self.process = Some(process);
        self.starts += 1;
        self.ended = None;
        Ok(())
    }

    /// Sends it the signal to exit. It is not restarted.
    pub(crate) fn retire(&mut self) {
        self.retired = true;
        self.signal("TERM");
    }

    /// Returns true if it runs, even while it is stopped.
    pub(crate) fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_running)
    }

    /// Sends a signal, unless it has exited.
    pub(crate) fn signal(&self, name: &str) {
        if let Some(process) = self.process.as_ref().filter(|process| process.is_running()) {
            drop(process.signal(name));
        }
    }

    /// Returns the samples of its metrics; none if it does not respond.
    pub(crate) async fn metrics(&self) -> Vec<exposition::Sample> {
        let admin = self.admin;
        let response = tokio::task::spawn_blocking(move || get(admin, "/metrics")).await;
        let text = response.ok().and_then(Result::ok).unwrap_or_default();
        exposition::parse(&text).unwrap_or_default()
    }

    /// Returns its memory and descriptors at `at`.
    pub(crate) fn sample(&self, at: f64) -> Option<Sample> {
        let process = self
            .process
            .as_ref()
            .filter(|process| process.is_running())?
            .id();
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let memory = memory.trim().trim_end_matches("kB").trim().parse().ok()?;
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
        let descriptors = u32::try_from(descriptors).ok()?.into();
        Some(Sample {
            process,
            at,
            memory,
            descriptors,
        })
    }

    /// Returns the files that are left in its temporary folder.
    pub(crate) fn temporary_files(&self) -> Vec<String> {
        let files = fs::read_dir(&self.temporary)
            .into_iter()
            .flatten()
            .flatten();
        files
            .map(|file| file.path().display().to_string())
            .collect()
    }
}
