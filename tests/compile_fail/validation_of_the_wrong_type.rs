use kube::CustomResource;
use kueue_check::Parameters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Window")]
#[parameters(validate = is_valid)]
struct WindowSpec {
    opens: String,
}

fn is_valid(spec: &WindowSpec) -> bool {
    !spec.opens.is_empty()
}

fn main() {}
