//! The objects of a run: namespaces, checks, a Budget, queues.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The version of Kueue's API.
pub(crate) const KUEUE: &str = "kueue.x-k8s.io/v1beta2";
/// The version of the Budget's API.
const BUDGETS: &str = "budget.kueue-check.dev/v1alpha1";

/// The namespaces of jobs, and whether each belongs to the pool.
pub(crate) const NAMESPACES: [(&str, bool); 3] =
    [("team-a", true), ("team-b", true), ("team-c", false)];

/// The AdmissionCheck of the budget check, named after its program.
pub(crate) const BUDGET: &str = "budget";
/// The AdmissionCheck of the provisioning check, named after its program.
pub(crate) const PROVISIONING: &str = "provisioning";

/// The name of the Budget, the `ProvisioningRequestConfig` and the flavor.
pub(crate) const NAME: &str = "soak";

/// The cost metric of the source.
pub(crate) const COUNTER: &str = "pod_cost_total";
/// The metric with the time up to which the costs are complete.
pub(crate) const FRESHNESS: &str = "pod_cost_seconds";

/// The cost of a CPU per hour; per minute it is 1.
const CPU_PER_HOUR: u32 = 60;
/// The cost of a CPU per second.
pub(crate) const CPU_PER_SECOND: f64 = 1.0 / 60.0;
/// The period of a limit, in seconds.
pub(crate) const PERIOD: f64 = 300.0;
/// The limit of a namespace in a period.
pub(crate) const NAMESPACE_LIMIT: f64 = 80.0;
/// The limit of the namespaces of the pool in a period.
pub(crate) const POOL_LIMIT: f64 = 120.0;
/// The grace period of pods in seconds.
pub(crate) const GRACE: u32 = 5;

/// A ClusterQueue and its checks.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Its name, which is also that of its LocalQueues.
    pub(crate) name: &'static str,
    /// The names of its checks.
    pub(crate) checks: &'static [&'static str],
}

/// The ClusterQueues.
pub(crate) const QUEUES: [Queue; 3] = [
    Queue {
        name: "both",
        checks: &[BUDGET, PROVISIONING],
    },
    Queue {
        name: "money",
        checks: &[BUDGET],
    },
    Queue {
        name: "capacity",
        checks: &[PROVISIONING],
    },
];

/// An account of the Budget.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Account {
    /// Its name.
    pub(crate) name: &'static str,
    /// The namespaces whose costs it covers.
    pub(crate) namespaces: Vec<&'static str>,
    /// Its limit in a period.
    pub(crate) limit: f64,
}

/// Returns all accounts.
pub(crate) fn accounts() -> Vec<Account> {
    let of_namespaces = NAMESPACES.iter().map(|(name, _)| Account {
        name,
        namespaces: vec![name],
        limit: NAMESPACE_LIMIT,
    });
    let in_pool = NAMESPACES.iter().filter(|(_, in_pool)| *in_pool);
    let pool = Account {
        name: "pool",
        namespaces: in_pool.map(|(name, _)| *name).collect(),
        limit: POOL_LIMIT,
    };
    of_namespaces.chain([pool]).collect()
}

/// Returns the Budget. Its limits are `factor` times the original ones.
pub(crate) fn budget(source: &str, anchor: Timestamp, factor: f64) -> Value {
    let amount = |limit: f64| format!("{:.0}", limit * factor);
    let selector = json!({"matchLabels": {"pool": "yes"}});
    let pool = json!({"name": "pool", "limit": amount(POOL_LIMIT), "namespaceSelector": selector});
    let prometheus = json!({
        "url": source, "shape": "Counter", "query": COUNTER, "freshness": FRESHNESS,
        "sampleInterval": "5s",
    });
    let spec = json!({
        "unit": "USD",
        "period": {"every": format!("{PERIOD:.0}s"), "anchor": anchor.to_string()},
        "source": {
            "prometheus": prometheus, "interval": "15s", "settleDelay": "5s",
            "stalenessBound": "60s",
        },
        "namespaceLimits": {"default": amount(NAMESPACE_LIMIT)},
        "pools": [pool],
        "prices": [{"flavor": "*", "resources": {"cpu": CPU_PER_HOUR.to_string()}}],
        "estimate": {"safetyFactor": "1"},
        "markPods": true,
    });
    json!({"apiVersion": BUDGETS, "kind": "Budget", "metadata": {"name": NAME}, "spec": spec})
}

/// Returns all other objects that exist before the checks start.
pub(crate) fn objects() -> Vec<Value> {
    let kueue = |kind: &str, name: &str, spec: Value| json!({"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let check = |name: &str, controller: &str, group: &str, kind: &str| {
        let parameters = json!({"apiGroup": group, "kind": kind, "name": NAME});
        let spec = json!({"controllerName": controller, "parameters": parameters});
        kueue("AdmissionCheck", name, spec)
    };
    let config = json!({
        "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
        "retryStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 2, "backoffMaxSeconds": 8},
    });
    let mut objects: Vec<Value> = NAMESPACES
        .iter()
        .map(|(name, in_pool)| {
            let labels = json!({"pool": if *in_pool { "yes" } else { "no" }});
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        })
        .collect();
    objects.extend([
        kueue(
            "ResourceFlavor",
            NAME,
            json!({"nodeLabels": {"pool": NAME}}),
        ),
        kueue("ProvisioningRequestConfig", NAME, config),
        check(
            BUDGET,
            "kueue-check.dev/budget",
            "budget.kueue-check.dev",
            "Budget",
        ),
        check(
            PROVISIONING,
            "kueue-check.dev/provisioning-request",
            "kueue.x-k8s.io",
            "ProvisioningRequestConfig",
        ),
    ]);
    for queue in QUEUES {
        let checks: Vec<Value> = queue
            .checks
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        let flavor = json!({"name": NAME, "resources": [{"name": "cpu", "nominalQuota": "40"}]});
        let spec = json!({
            "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
            "admissionChecksStrategy": {"admissionChecks": checks},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        });
        objects.push(kueue("ClusterQueue", queue.name, spec));
        for (namespace, _) in NAMESPACES {
            let spec = json!({"clusterQueue": queue.name, "stopPolicy": "None"});
            let mut local = kueue("LocalQueue", queue.name, spec);
            local["metadata"]["namespace"] = json!(namespace);
            objects.push(local);
        }
    }
    objects
}
