use kueue_check::prelude::*;

#[admission_check(controller = "example.com/check")]
async fn check(State(_prices): State<u32>, State(_name): State<String>) -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
