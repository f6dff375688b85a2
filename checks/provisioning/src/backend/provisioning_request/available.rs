//! Availability of the ProvisioningRequest API.

use std::time::Duration;

use http::Request;
use kube::Client;
use kueue_check::Inactive;
use serde::Deserialize;

use super::{API_VERSION, GROUP, code};

/// The interval between checks for a missing definition.
const POLL: Duration = Duration::from_secs(30);

/// Classes that Cluster Autoscaler handles, and the older name of one.
const KNOWN: [&str; 3] = [
    "check-capacity.autoscaling.x-k8s.io",
    "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    "atomic-scale-up.kubernetes.io",
];

/// Domains whose classes only Kubernetes' own projects define.
const RESERVED: [&str; 2] = ["kubernetes.io", "x-k8s.io"];

/// Returns an error unless the cluster serves ProvisioningRequests. Sends one request, or two if it
/// does not.
pub(super) async fn served(client: &Client) -> Result<(), Inactive> {
    #[derive(Deserialize)]
    struct Resources {
        resources: Vec<Resource>,
    }
    #[derive(Deserialize)]
    struct Resource {
        name: String,
    }
    let missing =
        |message: String| Inactive::new("ProvisioningRequestsNotServed", message).recheck_in(POLL);
    match get::<Resources>(client, &format!("/apis/{API_VERSION}")).await {
        Ok(served)
            if served
                .resources
                .iter()
                .any(|own| own.name == "provisioningrequests") =>
        {
            Ok(())
        }
        Ok(_) => Err(missing(absent())),
        Err(error) if code(&error) == 404 => Err(missing(other_versions(client).await)),
        Err(error) => Err(Inactive::new(
            "ProvisioningRequestsUnknown",
            format!("the API server does not say whether it serves {API_VERSION}: {error}"),
        )
        .recheck_in(POLL)),
    }
}

fn absent() -> String {
    format!(
        "the API server does not serve provisioningrequests in {API_VERSION}: install the CustomResourceDefinition of Cluster Autoscaler 1.31 or later"
    )
}

async fn other_versions(client: &Client) -> String {
    #[derive(Deserialize)]
    struct Group {
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    match get::<Group>(client, &format!("/apis/{GROUP}")).await {
        Ok(group) => {
            let versions: Vec<String> = group.versions.into_iter().map(|own| own.version).collect();
            format!(
                "{}; it serves the group in {} only",
                absent(),
                versions.join(", ")
            )
        }
        Err(_) => absent(),
    }
}

async fn get<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
) -> Result<T, kube::Error> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Returns an error unless an autoscaler may handle `class`. Autoscalers ignore an unknown class
/// silently. `accepted` is true if an autoscaler has accepted a request of the class.
pub(super) fn known(class: &str, accepted: bool) -> Result<(), Inactive> {
    let reserved = RESERVED.iter().any(|domain| {
        let before = class.strip_suffix(domain);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    // An autoscaler with `--check-capacity-processor-instance` handles the class prefixed with the
    // name of its instance.
    let instance = class.ends_with(KNOWN[0]);
    if !reserved || instance || KNOWN.contains(&class) || accepted {
        return Ok(());
    }
    let message = format!(
        "the class \"{class}\" is unknown, and an autoscaler would ignore it without a word: expected {} or {}, or a class of another domain",
        KNOWN[0], KNOWN[1]
    );
    Err(Inactive::new("ProvisioningClassUnknown", message).recheck_in(POLL))
}
