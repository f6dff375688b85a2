//! The cluster of the command line, and a client for it.

use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::arguments::ClusterArguments;
use super::{Error, Result};
use crate::check::redact;

/// Returns the configuration of the cluster that the command line names.
pub(super) async fn config(arguments: &ClusterArguments) -> Result<Config> {
    let options = KubeConfigOptions {
        context: arguments.context.clone(),
        ..KubeConfigOptions::default()
    };
    let none =
        |error: &dyn std::fmt::Display| Error::NoCluster(redact(&error.to_string()).into_owned());
    let mut config = match (&arguments.kubeconfig, &arguments.context) {
        (Some(file), _) => {
            let read = Kubeconfig::read_from(file).map_err(|error| none(&error))?;
            Config::from_custom_kubeconfig(read, &options)
                .await
                .map_err(|error| none(&error))?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| none(&error))?,
        (None, None) => Config::infer().await.map_err(|error| none(&error))?,
    };
    // The work queue retries: it counts retries, can stop them, and depends on the Lease.
    config.default_retry = false;
    Ok(config)
}

/// Makes a client for the cluster.
pub(super) fn client(config: &Config) -> Result<Client> {
    let builder =
        ClientBuilder::try_from(config.clone()).map_err(|error| Error::Client(Box::new(error)))?;
    Ok(builder.build())
}
