//! A real Kueue beside a test cluster.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::ByteString;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::build::{Unavailable, build};
use crate::cluster::{Cluster, StartError};
use crate::crds::read;
use crate::process::Process;

/// Kueue's controllers and scheduler. They end when this is dropped.
///
/// Started with [`start`](Self::start) its webhooks are not installed, so nothing is defaulted or
/// refused but by the definitions: write Jobs with `suspend: true`, and ClusterQueues with a
/// `namespaceSelector`, a `queueingStrategy` and a `stopPolicy`.
#[derive(Debug)]
pub struct Kueue {
    _process: Process,
    log: PathBuf,
}

/// What a [`Kueue`] is started with.
#[derive(Clone, Copy, Debug, Default)]
pub struct KueueOptions<'a> {
    /// The groups of API kinds whose webhooks are installed. Until Kueue serves them, the API
    /// server refuses writes of those kinds. With `batch` Jobs are suspended, and pods of elastic
    /// ones get their scheduling gate.
    pub webhooks: &'a [&'a str],
    /// Feature gates, as in `ConcurrentAdmission=true`.
    pub gates: &'a [&'a str],
    /// The labels of jobs that Kueue copies to their Workloads.
    pub label_keys: &'a [&'a str],
    /// Which release, such as `0.18.3`; default: [`Kueue::version`].
    pub release: Option<&'a str>,
}

/// Where the version of Kueue is that is started: such as `0.18.3`. Default: the one that is
/// pinned.
const VERSION: &str = "KUEUE_CHECK_KUEUE_VERSION";

/// The version that the Go module here pins.
const PINNED: &str = "0.19.2";

impl Kueue {
    /// Returns the version that is started: 0.19.2, or what `KUEUE_CHECK_KUEUE_VERSION` says.
    pub fn version() -> String {
        std::env::var(VERSION).unwrap_or_else(|_| PINNED.to_owned())
    }

    /// Starts Kueue 0.19.2 on `cluster`, with its own definitions: for batch/v1 Jobs and, if the
    /// autoscaler's definitions are there, with its own check. Builds it first if that has not been
    /// done: on two cores that takes about ten minutes.
    ///
    /// # Errors
    /// If it can't be built or started. It is not waited for: what it does shows that it works.
    pub async fn start(cluster: &Cluster) -> Result<Self, StartError> {
        Self::start_with(cluster, KueueOptions::default()).await
    }

    /// As [`start`](Self::start), with the webhooks for the kinds of Kueue's own API.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with_webhooks(cluster: &Cluster) -> Result<Self, StartError> {
        let options = KueueOptions {
            webhooks: &["kueue.x-k8s.io"],
            ..KueueOptions::default()
        };
        Self::start_with(cluster, options).await
    }

    /// As [`start`](Self::start), with webhooks and feature gates.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        cluster: &Cluster,
        options: KueueOptions<'_>,
    ) -> Result<Self, StartError> {
        let release = options.release.map_or_else(Self::version, str::to_owned);
        let (program, module) = tokio::task::spawn_blocking(move || program(&release))
            .await
            .map_err(io::Error::other)??;
        let definitions = module.join("config/components/crd/bases");
        let definitions = read(&definitions).map_err(io::Error::other)?;
        let installed = cluster.install(&cluster.client()?, definitions).await;
        installed.map_err(io::Error::other)?;
        let access = cluster.access();
        let folder = access.folder();
        // The webhooks' server requires a certificate, for any caller.
        let certificates = folder.join("kueue");
        fs::create_dir_all(&certificates)?;
        for (from, to) in [("apiserver.crt", "tls.crt"), ("apiserver.key", "tls.key")] {
            let from = folder.join("certificates").join(from);
            fs::copy(from, certificates.join(to))?;
        }
        let config = folder.join("kueue.json");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let version = if has_v1beta2(&module) {
            "v1beta2"
        } else {
            "v1beta1"
        };
        let integrations =
            json!({"frameworks": ["batch/job", "pod"], "labelKeysToCopy": options.label_keys});
        let text = json!({
            "apiVersion": format!("config.kueue.x-k8s.io/{version}"), "kind": "Configuration",
            "health": {"healthProbeBindAddress": "0"}, "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": certificates},
            "leaderElection": {"leaderElect": false}, "internalCertManagement": {"enable": false},
            "integrations": integrations,
            "clientConnection": {"qps": 200, "burst": 400},
        });
        fs::write(&config, text.to_string())?;
        let arguments = [
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", access.kubeconfig()?.display()),
            // It would want to be an API server of its own.
            format!(
                "--feature-gates=VisibilityOnDemand=false,{}",
                options.gates.join(",")
            )
            .trim_end_matches(',')
            .to_owned(),
        ];
        if !options.webhooks.is_empty() {
            let authority = ByteString(fs::read(certificates.join("tls.crt"))?);
            let folder = module.join("config/components/webhook");
            let text = fs::read_to_string(folder.join("manifests.yaml"))?;
            let client = cluster.client()?;
            let groups = options.webhooks;
            install_webhooks(&client, &text, groups, port, &authority).await?;
        }
        let log = folder.join("kueue.log");
        let (program, arguments) = with_metrics_certificate(&program, &arguments, &certificates)?;
        Ok(Self {
            _process: Process::start(&program, &arguments, &log, None)?,
            log,
        })
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Where Kueue expects the certificate of its metrics if it does not make certificates itself.
const METRICS: &str = "kueue/metrics/certs";

/// Runs its arguments with a folder of files laid over `/etc`, which no other process sees.
const OVERLAY: &str = r#"mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/work" /etc || exit 1; shift; exec "$@""#;

/// The command that starts Kueue with a certificate in the folder of [`METRICS`], whose path cannot
/// be configured (0.19.2, `cmd/kueue/main.go`). Where it is not there, it is laid over `/etc` for
/// that process only.
fn with_metrics_certificate(
    program: &Path,
    arguments: &[String],
    certificates: &Path,
) -> io::Result<(PathBuf, Vec<String>)> {
    if Path::new("/etc").join(METRICS).join("tls.crt").exists() {
        return Ok((program.to_owned(), arguments.to_vec()));
    }
    let layer = certificates.join("etc").join(METRICS);
    fs::create_dir_all(&layer)?;
    fs::create_dir_all(certificates.join("work"))?;
    for name in ["tls.crt", "tls.key"] {
        fs::copy(certificates.join(name), layer.join(name))?;
    }
    let shell = ["-rm", "sh", "-c", OVERLAY, "sh"].map(str::to_owned);
    let mut all = shell.to_vec();
    all.push(certificates.display().to_string());
    all.push(program.display().to_string());
    all.extend_from_slice(arguments);
    Ok((PathBuf::from("unshare"), all))
}

/// Installs those of Kueue's webhooks that are for kinds of `groups`, as served on a loopback port.
async fn install_webhooks(
    client: &Client,
    manifests: &str,
    groups: &[&str],
    port: u16,
    authority: &ByteString,
) -> Result<(), StartError> {
    let is_wanted = |hook: &Value| {
        let rules = hook["rules"].as_array().into_iter().flatten();
        let mut of_hook = rules
            .filter_map(|rule| rule["apiGroups"].as_array())
            .flatten();
        of_hook.any(|group| groups.iter().any(|wanted| group == wanted))
    };
    let authority = serde_json::to_value(authority).map_err(io::Error::other)?;
    let as_owner = PatchParams::apply("testenv").force();
    for document in manifests.split("\n---") {
        if !document.contains("WebhookConfiguration") {
            continue;
        }
        let mut all: DynamicObject = serde_saphyr::from_str(document).map_err(io::Error::other)?;
        all.metadata.name = Some("kueue".to_owned());
        if let Some(hooks) = all.data["webhooks"].as_array_mut() {
            hooks.retain(is_wanted);
            for hook in hooks {
                let path = hook["clientConfig"]["service"]["path"].as_str();
                let url = format!("https://127.0.0.1:{port}{}", path.unwrap_or_default());
                hook["clientConfig"] = json!({"url": url, "caBundle": authority});
            }
        }
        let kind = all.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(kind).map_err(io::Error::other)?;
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        api.patch("kueue", &as_owner, &Patch::Apply(all)).await?;
    }
    Ok(())
}

/// Where another Kueue is than the one that is built here: the path of the program.
const PROGRAM: &str = "KUEUE_CHECK_KUEUE";

/// Kueue, built from its pinned Go module if it is missing or older than that; and the folder of
/// that module.
fn program(version: &str) -> Result<(PathBuf, PathBuf), Unavailable> {
    const PACKAGE: &str = "sigs.k8s.io/kueue/cmd/kueue";
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("kueue");
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("bin");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Unavailable::Io { path, source }
    };
    if version != PINNED {
        return other_version(version, &bin);
    }
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok((program.into(), folder_of(&module)?));
    }
    let lock = fs::File::create(bin.join(".kueue.lock")).map_err(at(&bin))?;
    lock.lock().map_err(at(&bin))?;
    let (program, stamp) = (bin.join("kueue"), bin.join(".kueue-built-from"));
    let wanted = fs::read_to_string(module.join("go.sum")).map_err(at(&module))?;
    let built = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
    if !built || !program.exists() {
        eprintln!("building Kueue from its Go module, once (about 10 minutes on 2 cores) ...");
        build(&module, PACKAGE, "-s -w", &program)?;
        fs::write(&stamp, wanted).map_err(at(&stamp))?;
    }
    Ok((program, folder_of(&module)?))
}

/// Another version of Kueue, built from its Go module with the dependencies that it was released
/// with; and the folder of that module.
fn other_version(version: &str, bin: &Path) -> Result<(PathBuf, PathBuf), Unavailable> {
    const PACKAGE: &str = "sigs.k8s.io/kueue/cmd/kueue";
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Unavailable::Io { path, source }
    };
    let lock = fs::File::create(bin.join(".kueue.lock")).map_err(at(bin))?;
    lock.lock().map_err(at(bin))?;
    let module = format!("sigs.k8s.io/kueue@v{version}");
    let output = Command::new("go")
        .args(["mod", "download", "-json", &module])
        .output()
        .map_err(at(Path::new("go")))?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let Some(folder) = said["Dir"].as_str().map(PathBuf::from) else {
        let error = said["Error"].as_str().unwrap_or_default();
        let reason = format!(
            "{module}: {error}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return Err(Unavailable::Build {
            package: PACKAGE,
            reason,
        });
    };
    let program = bin.join(format!("kueue-{version}"));
    if !program.exists() {
        eprintln!(
            "building Kueue {version} from its Go module, once (about 10 minutes on 2 cores) ..."
        );
        build(&folder, PACKAGE, "-s -w", &program)?;
    }
    Ok((program, folder))
}

/// Whether Kueue's module in `folder` has its API and configuration in version v1beta2.
fn has_v1beta2(folder: &Path) -> bool {
    folder.join("apis/config/v1beta2").is_dir()
}

/// The folder in which Go keeps Kueue's module.
fn folder_of(module: &Path) -> Result<PathBuf, Unavailable> {
    let folder = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue"])
        .current_dir(module)
        .output()
        .map_err(|source| Unavailable::Io {
            path: module.to_owned(),
            source,
        })?;
    let folder = String::from_utf8_lossy(&folder.stdout).trim().to_owned();
    Ok(PathBuf::from(folder))
}
