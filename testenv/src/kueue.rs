//! A real Kueue beside a test cluster.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::build::{GoProgram, Unavailable, at, build, locked};
use crate::cluster::{Cluster, StartError};
use crate::crds::{FIELD_MANAGER, read};
use crate::killed::free_address;
use crate::process::Process;

/// Kueue's controllers and scheduler. They end when this is dropped.
///
/// [`start`](Self::start) installs no webhooks, so only the definitions set defaults and refuse
/// requests. Write Jobs with `suspend: true`, and ClusterQueues with a `namespaceSelector`, a
/// `queueingStrategy` and a `stopPolicy`.
#[derive(Debug)]
pub struct Kueue {
    _process: Process,
    log: PathBuf,
}

/// Options for the start of a [`Kueue`].
#[derive(Clone, Copy, Debug, Default)]
pub struct KueueOptions<'a> {
    /// The groups of API kinds whose webhooks are installed. Until Kueue serves them, the API
    /// server refuses writes of those kinds. With `batch` the webhooks suspend Jobs and add the
    /// scheduling gate to pods of elastic Jobs.
    pub webhooks: &'a [&'a str],
    /// Feature gates, as in `ConcurrentAdmission=true`.
    pub gates: &'a [&'a str],
    /// The labels of jobs that Kueue copies to their Workloads.
    pub label_keys: &'a [&'a str],
    /// More fields of Kueue's `Configuration`, such as `waitForPodsReady`.
    pub settings: Option<&'a Value>,
    /// The release, such as `0.18.3`. Default: [`Kueue::version`].
    pub release: Option<&'a str>,
    /// The log level: 0 is Kueue's default; from 6 on every controller logs its actions.
    pub log_level: u8,
}

/// The environment variable with the version of Kueue to start, such as `0.18.3`. Default:
/// [`PINNED`].
const VERSION: &str = "KUEUE_CHECK_KUEUE_VERSION";

/// The version that the Go module in this crate pins.
const PINNED: &str = "0.19.2";

impl Kueue {
    /// Returns the version to start: `KUEUE_CHECK_KUEUE_VERSION`, or 0.19.2 if that is not set.
    pub fn version() -> String {
        std::env::var(VERSION).unwrap_or_else(|_| PINNED.to_owned())
    }

    /// Starts Kueue of [`Kueue::version`] on `cluster`, with its own definitions, for batch/v1 Jobs
    /// and Pods. Its own check runs if the autoscaler's definitions are installed. Builds Kueue
    /// first if necessary, which takes about 10 min on two cores.
    ///
    /// # Errors
    /// If Kueue can't be built or started. This does not wait until Kueue is ready; its actions
    /// show that.
    pub async fn start(cluster: &Cluster) -> Result<Self, StartError> {
        Self::start_with(cluster, KueueOptions::default()).await
    }

    /// Starts Kueue as [`start`](Self::start), with the webhooks for the kinds of Kueue's own API.
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

    /// Starts Kueue as [`start`](Self::start), with `options`.
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
        let installed = cluster
            .install(&cluster.client()?, definitions.clone())
            .await;
        installed.map_err(io::Error::other)?;
        let access = cluster.access();
        let folder = access.folder();
        // The webhook server requires a certificate.
        let certificates = folder.join("kueue");
        fs::create_dir_all(&certificates)?;
        for (from, to) in [("apiserver.crt", "tls.crt"), ("apiserver.key", "tls.key")] {
            let from = folder.join("certificates").join(from);
            fs::copy(from, certificates.join(to))?;
        }
        let config = folder.join("kueue.json");
        let port = free_address()?.port();
        let version = if has_v1beta2(&module) {
            "v1beta2"
        } else {
            "v1beta1"
        };
        let integrations =
            json!({"frameworks": ["batch/job", "pod"], "labelKeysToCopy": options.label_keys});
        let mut configuration = json!({
            "apiVersion": format!("config.kueue.x-k8s.io/{version}"), "kind": "Configuration",
            "health": {"healthProbeBindAddress": "0"}, "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": certificates},
            "leaderElection": {"leaderElect": false}, "internalCertManagement": {"enable": false},
            "integrations": integrations,
            "clientConnection": {"qps": 200, "burst": 400},
        });
        let settings = options.settings.and_then(Value::as_object);
        for (name, setting) in settings.into_iter().flatten() {
            configuration[name] = setting.clone();
        }
        fs::write(&config, configuration.to_string())?;
        let mut arguments = vec![
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", access.kubeconfig()?.display()),
            // This feature would require Kueue to serve an API of its own.
            format!(
                "--feature-gates=VisibilityOnDemand=false,{}",
                options.gates.join(",")
            )
            .trim_end_matches(',')
            .to_owned(),
        ];
        if options.log_level > 0 {
            arguments.push(format!("--zap-log-level={}", options.log_level));
        }
        if !options.webhooks.is_empty() {
            let authority = ByteString(fs::read(certificates.join("tls.crt"))?);
            let authority = serde_json::to_value(authority).map_err(io::Error::other)?;
            let served = |path: &str| json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authority});
            let folder = module.join("config/components/webhook");
            let text = fs::read_to_string(folder.join("manifests.yaml"))?;
            let client = cluster.client()?;
            let groups = options.webhooks;
            install_webhooks(&client, &text, groups, served).await?;
            if groups.contains(&"kueue.x-k8s.io") {
                let text = fs::read_to_string(module.join(CUSTOMIZED))?;
                convert(&client, definitions, &text, &served("/convert")).await?;
            }
        }
        let log = folder.join("kueue.log");
        let (program, arguments) = with_metrics_certificate(&program, &arguments, &certificates)?;
        Ok(Self {
            _process: Process::start(&program, &arguments, &log, None)?,
            log,
        })
    }

    /// Returns the log of Kueue.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The directory in `/etc` where Kueue expects the certificate of its metrics endpoint if it does
/// not create certificates itself.
const METRICS: &str = "kueue/metrics/certs";

/// A shell script that runs its arguments with an overlay on `/etc`, visible to no other process.
const OVERLAY: &str = r#"mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/work" /etc || exit 1; shift; exec "$@""#;

/// Returns the command that starts Kueue with a certificate in the folder of [`METRICS`]. That path
/// cannot be configured (0.19.2, `cmd/kueue/main.go`). If the certificate is missing, an overlay on
/// `/etc` provides it for that process only.
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

/// Installs Kueue's webhooks for kinds of `groups`. `served` returns the client configuration for a
/// path.
async fn install_webhooks(
    client: &Client,
    manifests: &str,
    groups: &[&str],
    served: impl Fn(&str) -> Value,
) -> Result<(), StartError> {
    let is_wanted = |hook: &Value| {
        let rules = hook["rules"].as_array().into_iter().flatten();
        let mut of_hook = rules
            .filter_map(|rule| rule["apiGroups"].as_array())
            .flatten();
        of_hook.any(|group| groups.iter().any(|wanted| group == wanted))
    };
    let as_owner = PatchParams::apply(FIELD_MANAGER).force();
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
                hook["clientConfig"] = served(path.unwrap_or_default());
            }
        }
        let kind = all.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(kind).map_err(io::Error::other)?;
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        api.patch("kueue", &as_owner, &Patch::Apply(all)).await?;
    }
    Ok(())
}

/// The list of patches for Kueue's definitions.
const CUSTOMIZED: &str = "config/components/crd/kustomization.yaml";

/// Makes Kueue convert between the served versions of its kinds, as in an installation. Without
/// conversion, fields with different names in two versions are lost where the older version is
/// stored (before 0.16). [`Cluster::install`] has the same field manager, and so removes the
/// conversion of a Kueue that has ended.
async fn convert(
    client: &Client,
    definitions: Vec<CustomResourceDefinition>,
    customized: &str,
    served: &Value,
) -> Result<(), StartError> {
    let conversion = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": served, "conversionReviewVersions": ["v1"],
    }});
    let conversion: CustomResourceConversion =
        serde_json::from_value(conversion).map_err(io::Error::other)?;
    let converted: BTreeSet<&str> = customized
        .lines()
        .filter_map(|line| {
            let file = line.strip_prefix("- path: patches/webhook_in_")?;
            file.strip_suffix(".yaml")
        })
        .collect();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut definition in definitions {
        if !converted.contains(definition.spec.names.plural.as_str()) {
            continue;
        }
        let name = definition.metadata.name.clone().unwrap_or_default();
        definition.spec.conversion = Some(conversion.clone());
        let as_owner = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&name, &as_owner, &Patch::Apply(&definition))
            .await?;
    }
    Ok(())
}

/// The environment variable with the path of a program to use instead of the pinned Kueue.
const PROGRAM: &str = "KUEUE_CHECK_KUEUE";

/// The package of Kueue's program.
const PACKAGE: &str = "sigs.k8s.io/kueue/cmd/kueue";

/// Returns the program of Kueue and the folder of its Go module. Builds the pinned version if the
/// program is missing or was built from another `go.sum`.
fn program(version: &str) -> Result<(PathBuf, PathBuf), Unavailable> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    if version != PINNED {
        return other_version(version, &own.join("bin"));
    }
    let program = match std::env::var_os(PROGRAM) {
        Some(program) => program.into(),
        None => GoProgram::of_own_module("kueue", PACKAGE).path()?,
    };
    Ok((program, folder_of(&own.join("kueue"))?))
}

/// Returns the program of another version of Kueue and the folder of its Go module. Builds it with
/// the dependencies of its release if it is missing.
fn other_version(version: &str, bin: &Path) -> Result<(PathBuf, PathBuf), Unavailable> {
    let _lock = locked(bin, "kueue")?;
    let module = format!("sigs.k8s.io/kueue@v{version}");
    let output = Command::new("go")
        .args(["mod", "download", "-json", &module])
        .output()
        .map_err(at(Path::new("go")))?;
    let download: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let Some(folder) = download["Dir"].as_str().map(PathBuf::from) else {
        let error = download["Error"].as_str().unwrap_or_default();
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
        build(&folder, PACKAGE, "", &program)?;
    }
    Ok((program, folder))
}

/// Returns true if Kueue's module in `folder` has its API and configuration in version v1beta2.
fn has_v1beta2(folder: &Path) -> bool {
    folder.join("apis/config/v1beta2").is_dir()
}

/// Returns the folder in which Go stores Kueue's module.
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
