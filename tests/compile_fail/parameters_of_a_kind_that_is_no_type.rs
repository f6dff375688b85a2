use kueue_check::schemars::JsonSchema;
use kueue_check::serde::{Deserialize, Serialize};
use kueue_check::{Parameters, kube};

#[derive(kube::CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "my window",
    crates(
        kube_core = "kueue_check::kube::core",
        k8s_openapi = "kueue_check::k8s_openapi",
        schemars = "kueue_check::schemars",
        serde = "kueue_check::serde",
        serde_json = "kueue_check::serde_json",
    )
)]
#[serde(crate = "kueue_check::serde")]
#[schemars(crate = "kueue_check::schemars")]
struct WindowSpec {
    opens: String,
}

fn main() {}
