use kueue_check::prelude::*;

#[kueue_check::parameters(group = "example.com", version = "v1", kind = "Window")]
struct WindowSpec {}

#[kueue_check::parameters(group = "example.com", version = "v1", kind = "Budget")]
struct BudgetSpec {}

#[admission_check(controller = "example.com/check")]
async fn check(Params(_window): Params<Window>, Params(_budget): Params<Budget>) -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
