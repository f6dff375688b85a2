use kueue_check::prelude::*;

#[admission_check(controller = "", timeout = "soon", annotations = "one", retries = 3, previewable = 1, timeout = "1s")]
async fn check() -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
