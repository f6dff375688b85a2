use kueue_check::prelude::*;

#[admission_check]
async fn check() -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
