use kube::CustomResource;
use kueue_check::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Window")]
struct WindowSpec {}

#[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Budget")]
struct BudgetSpec {}

#[admission_check(controller = "example.com/check")]
async fn check(Params(_window): Params<Window>, Params(_budget): Params<Budget>) -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
