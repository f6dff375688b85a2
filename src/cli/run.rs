//! The command `run`.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::arguments::{LogFormat, RunArguments};
use super::log::{self, Log, LogFilter};
use super::{Error, Result, cluster};
use crate::admin::{self, Certificates, Endpoint};
use crate::check::DynCheck;
use crate::runtime::{LeaseConfig, LeaseTimes, Runtime, RuntimeHandle};

pub(super) async fn run(
    name: &str,
    version: &str,
    checks: impl FnOnce(&Client) -> Vec<DynCheck>,
    arguments: RunArguments,
) -> Result<()> {
    let identity = arguments.lease.identity.clone().unwrap_or_else(identity);
    let program = log::Program {
        name,
        version,
        instance: &identity,
    };
    let log = log::start(program, arguments.log_format, &arguments.log_filter);
    let json = arguments.log_format == LogFormat::Json;
    let ran = run_logged(program, checks, arguments, &log).await;
    if json && let Err(error) = &ran {
        // The error that `main` prints is not JSON.
        tracing::error!(%error, "failed");
    }
    log.end().await;
    ran
}

async fn run_logged(
    program: log::Program<'_>,
    checks: impl FnOnce(&Client) -> Vec<DynCheck>,
    arguments: RunArguments,
    log: &Log,
) -> Result<()> {
    let log::Program {
        name,
        version,
        instance: identity,
    } = program;
    let config = cluster::config(&arguments.cluster).await?;
    log.take_panics();
    let namespace = arguments
        .lease
        .lease_namespace
        .clone()
        .unwrap_or_else(|| config.default_namespace.clone());
    let checks = checks(&cluster::client(&config)?);
    let mut builder = Runtime::builder(cluster::client(&config)?)
        .lease_client(cluster::client(&config)?)
        .name(name)
        .version(version)
        .instance(identity)
        .concurrency(arguments.concurrency.into())
        .evaluation_timeout(arguments.evaluation_timeout.into())
        .grace(arguments.grace_period.into())
        .seed(seed())
        .checks(checks);
    if arguments.lease.leader_elect {
        let lease_name = arguments
            .lease
            .lease_name
            .clone()
            .unwrap_or_else(|| name.to_owned());
        builder = builder.lease(LeaseConfig {
            namespace,
            name: lease_name,
            identity: identity.to_owned(),
            times: LeaseTimes::default(),
        });
    }
    let runtime = builder.build()?;
    let end_of_input = arguments
        .stop_at_end_of_input
        .then(|| end_of_input(arguments.grace_period.into()));
    let address = arguments.admin_address;
    let filter = log.filter.clone();
    let admin = admin(&arguments, &config, identity, runtime.handle(), filter)?;
    let admin = admin.serve(listen("admin", address).await?);
    let probes = match arguments.probe_address {
        Some(address) => Some(listen("probe", address).await?),
        None => None,
    };
    let health = Endpoint::new(admin::probes(runtime.handle()));
    let probes = async move {
        match probes {
            Some(listener) => health.serve(listener).await,
            None => pending().await,
        }
    };
    tracing::info!(name, version, sdk = env!("CARGO_PKG_VERSION"), identity, cluster = %config.cluster_url, admin = %address, secure = arguments.admin_secure, "starting");
    // A separate task: on the thread that waits for it, each event would wake another thread.
    let mut runs = JoinSet::new();
    runs.spawn(runtime.run(stop_requested(end_of_input)));
    tokio::select! {
        Some(ended) = runs.join_next() => match ended {
            Ok(ran) => ran?,
            Err(died) => resume_unwind(died.into_panic()),
        },
        served = admin => match served {},
        served = probes => match served {},
    }
    tracing::info!("stopped");
    Ok(())
}

/// Makes the admin endpoint.
fn admin(
    arguments: &RunArguments,
    config: &kube::Config,
    identity: &str,
    runtime: RuntimeHandle,
    filter: Option<LogFilter>,
) -> Result<Endpoint> {
    let mut routes = admin::router(runtime);
    if let Some(filter) = filter {
        routes = routes.merge(log::routes(filter));
    }
    let endpoint = Endpoint::new(routes);
    if !arguments.admin_secure {
        return Ok(endpoint);
    }
    let certificates = match &arguments.admin_certificates {
        Some(folder) => Certificates::from_folder(folder)?,
        None => Certificates::self_signed(["localhost".to_owned(), super::dns_label(identity)])?,
    };
    Ok(endpoint.secure(cluster::client(config)?, certificates))
}

async fn listen(name: &'static str, address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|source| Error::Listen {
            name,
            address,
            source,
        })
}

/// Reads the standard input until it ends. The process then has the grace period and 1 s to stop,
/// even if a check blocks every thread of the runtime.
fn end_of_input(grace: Duration) -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        // A broken pipe has ended too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = ended.send(());
        #[expect(clippy::disallowed_methods, reason = "a limit for this process itself")]
        std::thread::sleep(grace + Duration::from_secs(1));
        std::process::exit(1);
    });
    end
}

/// Completes with the first SIGTERM or SIGINT, or the end of the input. A second signal ends the
/// process at once.
async fn stop_requested(end_of_input: Option<oneshot::Receiver<()>>) {
    let end_of_input = async {
        match end_of_input {
            Some(end) => _ = end.await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = next_signal() => {}
        () = end_of_input => {}
    }
    tracing::info!("stopping; a second signal stops at once");
    tokio::spawn(async {
        next_signal().await;
        tracing::warn!("stopping at once");
        std::process::exit(1);
    });
}

async fn next_signal() {
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => {
            tracing::warn!(%error, "cannot listen for signals");
            return pending().await;
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => if result.is_err() { pending::<()>().await },
    }
}

/// Returns the host's name with a suffix that no other process has.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!(
        "{}_{:08x}",
        if host.is_empty() { "unknown" } else { host },
        seed() & 0xffff_ffff
    )
}

/// Returns a number that differs in each process: the standard library seeds its hash maps from the
/// system's randomness.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_have_different_identities() {
        assert_ne!(identity(), identity());
    }
}
