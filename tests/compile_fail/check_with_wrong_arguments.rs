use kueue_check::prelude::*;

#[admission_check(controller = "", timeout = "soon", annotations = "one", retries = 3, read_only = true)]
async fn check() -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
