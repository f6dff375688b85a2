//! The cluster that the check runs on.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kueue_check::Clock;
use kueue_check_sim::apiserver::ApiServer;
use kueue_check_sim::definitions;
use kueue_check_sim::jobs::{Jobs, Nodes};
use kueue_check_sim::kueue::{self, Actor, Kueue, KueueVersion, Webhook};
#[cfg(feature = "real")]
use kueue_check_testenv as testenv;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::Failure;

/// The kind of cluster.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// An API server and a model of Kueue, in this process.
    Simulated,
    /// A real API server.
    #[cfg(feature = "real")]
    Real {
        /// Whether with a real Kueue; without it, its two steps are imitated.
        kueue: bool,
    },
}

/// A running cluster. It ends when this is dropped.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    /// Whether Kueue's steps are imitated.
    #[cfg(feature = "real")]
    imitates: bool,
    _parts: Parts,
}

/// The parts that end with the cluster.
#[expect(dead_code, reason = "only held")]
enum Parts {
    Simulated(JoinSet<()>),
    /// Kueue is dropped before the cluster that it works on.
    #[cfg(feature = "real")]
    Real(Option<testenv::Kueue>, Box<testenv::Cluster>),
}

impl Kind {
    /// Returns a description for people.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Simulated => "starting a simulated API server and Kueue 0.19.2's model",
            #[cfg(feature = "real")]
            Self::Real { kueue: false } => "starting etcd and kube-apiserver on 127.0.0.1",
            #[cfg(feature = "real")]
            Self::Real { kueue: true } => "starting etcd, kube-apiserver and Kueue on 127.0.0.1",
        }
    }
}

impl Cluster {
    /// Starts a cluster with Kueue's definitions and these. `folder` is for files.
    pub(crate) async fn start(
        kind: Kind,
        definitions: Vec<CustomResourceDefinition>,
        folder: &Path,
    ) -> Result<Self, Failure> {
        match kind {
            Kind::Simulated => Self::simulated(definitions, folder).await,
            #[cfg(feature = "real")]
            Kind::Real { kueue } => Self::real(kueue, definitions).await,
        }
    }

    async fn simulated(
        definitions: Vec<CustomResourceDefinition>,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let clock = Clock::system();
        let server = ApiServer::with_definitions(clock.clone(), definitions::kueue());
        server.install(definitions);
        server.collect_garbage(true);
        let version = KueueVersion::V0_19;
        server.set_admission(Arc::new(Webhook::of_version(version)));
        let mut tasks = JoinSet::new();
        spawn(&mut tasks, &server, Kueue::new(&server, &clock, version));
        spawn(&mut tasks, &server, Jobs::new(&server, &clock));
        spawn(&mut tasks, &server, Nodes::new(&server, &clock));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let path = folder.join("kubeconfig");
        fs::write(&path, kubeconfig(listener.local_addr()?))?;
        let serving = server.clone();
        tasks.spawn(async move {
            let _ = serving.serve(listener).await;
        });
        Ok(Self {
            client: server.client_as("samples"),
            kubeconfig: path,
            #[cfg(feature = "real")]
            imitates: false,
            _parts: Parts::Simulated(tasks),
        })
    }

    #[cfg(feature = "real")]
    async fn real(
        kueue: bool,
        definitions: Vec<CustomResourceDefinition>,
    ) -> Result<Self, Failure> {
        let cluster = testenv::Cluster::start().await?;
        let client = cluster.client()?;
        if !kueue {
            let own = testenv::crds(testenv::KueueVersion::V0_19_2)?;
            cluster.install(&client, own).await?;
        }
        cluster.install(&client, definitions).await?;
        // This Kueue installs its definitions itself.
        let started = if kueue {
            let started = testenv::Kueue::start_with_webhooks(&cluster).await?;
            webhooks_respond(&client).await?;
            Some(started)
        } else {
            None
        };
        Ok(Self {
            client,
            kubeconfig: cluster.access().kubeconfig()?,
            imitates: !kueue,
            _parts: Parts::Real(started, Box::new(cluster)),
        })
    }

    /// Imitates Kueue's next step for each Workload, where there is no Kueue.
    #[cfg(feature = "real")]
    pub(crate) async fn imitate_kueue(&self) -> Result<(), Failure> {
        if self.imitates {
            crate::imitation::step(&self.client).await?;
        }
        Ok(())
    }
}

/// Runs an actor until the set of tasks is dropped.
fn spawn(tasks: &mut JoinSet<()>, server: &ApiServer, actor: impl Actor + Send + Sync + 'static) {
    tasks.spawn(kueue::run(actor, server.clone(), Clock::system()));
}

/// Waits until Kueue's webhooks respond. Until then the API server refuses writes of its kinds.
#[cfg(feature = "real")]
async fn webhooks_respond(client: &Client) -> Result<(), Failure> {
    use kube::api::{DynamicObject, PostParams};
    let limit = std::time::Duration::from_secs(60);
    let flavor = serde_json::json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
        "metadata": {"name": "try"}, "spec": {},
    });
    let flavor: DynamicObject = serde_json::from_value(flavor)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api = crate::playground::api(client, "ResourceFlavor");
    let responded = async {
        while api.create(&dry_run, &flavor).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(limit, responded).await;
    Ok(waited.map_err(|_| format!("Kueue's webhooks did not respond within {limit:?}"))?)
}

/// Makes a kubeconfig without credentials.
fn kubeconfig(server: SocketAddr) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: try
clusters: [{{name: try, cluster: {{server: 'http://{server}'}}}}]
contexts: [{{name: try, context: {{cluster: try, user: try, namespace: default}}}}]
users: [{{name: try, user: {{}}}}]
"
    )
}
