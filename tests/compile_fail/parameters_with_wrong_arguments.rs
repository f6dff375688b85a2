use kube::CustomResource;
use kueue_check::{Parameters, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Window")]
#[parameters(check = 1)]
struct WindowSpec {
    policy: Policy,
    #[serde(flatten)]
    second: Policy,
}

fn main() {}
