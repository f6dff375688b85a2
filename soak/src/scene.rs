//! The objects of a run: namespaces, checks, a Budget, queues.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The version of Kueue's API.
pub(crate) const KUEUE: &str = "kueue.x-k8s.io/v1beta2";
/// The version of the Budget's API.
const BUDGETS: &str = "budget.kueue-check.dev/v1alpha1";

/// The namespaces of jobs, and whether each is in the pool.
pub(crate) const NAMESPACES: [(&str, bool); 3] =
    [("team-a", true), ("team-b", true), ("team-c", false)];

/// The AdmissionChecks, named after their programs.
pub(crate) const BUDGET: &str = "budget";
/// The other one.
pub(crate) const PROVISIONING: &str = "provisioning";

/// The Budget, the `ProvisioningRequestConfig`, the flavor: all have this name.
pub(crate) const NAME: &str = "soak";

/// The metrics of the source.
pub(crate) const COUNTER: &str = "pod_cost_total";
/// By which it is known up to when they are known.
pub(crate) const FRESHNESS: &str = "pod_cost_seconds";

/// What a CPU costs in an hour; in a minute it is 1.
const CPU_PER_HOUR: u32 = 60;
/// What a CPU costs in a second.
pub(crate) const CPU_PER_SECOND: f64 = 1.0 / 60.0;
/// For how long a limit holds.
pub(crate) const PERIOD: f64 = 300.0;
/// What a namespace may spend in that time.
pub(crate) const NAMESPACE_LIMIT: f64 = 80.0;
/// What the namespaces of the pool may.
pub(crate) const POOL_LIMIT: f64 = 120.0;
/// The grace period of pods in seconds.
pub(crate) const GRACE: u32 = 5;

/// A ClusterQueue and its checks.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Its name, which is also that of the LocalQueues before it.
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
    /// The namespaces that it pays for.
    pub(crate) namespaces: Vec<&'static str>,
    /// What it may spend in a period.
    pub(crate) limit: f64,
}

/// All accounts.
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

/// The Budget. Its limits are `factor` times as high as at first.
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

/// All other objects that are there before the checks begin.
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
