use kueue_check::prelude::*;

#[admission_check(controller = "example.com/check")]
fn check() -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
