use kueue_check::prelude::*;

#[admission_check(controller = "example.com/check")]
async fn check(_a: Workload, _b: Workload, _c: Workload, _d: Workload, _e: Workload, _f: Workload, _g: Workload, _h: Workload, _i: Workload) -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
