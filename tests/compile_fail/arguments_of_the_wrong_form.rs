use kueue_check::prelude::*;

struct Budget;

impl Budget {
    #[admission_check(controller = "example.com/check")]
    async fn check<T>(&self, _workload: &Workload, _other: impl Clone) -> Verdict {
        Verdict::ready("ok")
    }
}

fn main() {}
