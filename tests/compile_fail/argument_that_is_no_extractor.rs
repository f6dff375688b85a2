use kueue_check::prelude::*;

#[admission_check(controller = "example.com/check")]
async fn check(workload: Workload, namespace: String) -> Verdict {
    Verdict::ready(format!("{workload} {namespace}"))
}

fn main() {}
