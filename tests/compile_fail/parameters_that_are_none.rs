use kueue_check::prelude::*;

struct Window;

#[admission_check(controller = "example.com/check")]
async fn check(Params(_window): Params<Window>) -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
