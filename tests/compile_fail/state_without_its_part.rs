use kueue_check::prelude::*;

#[derive(Clone)]
struct App;

#[admission_check(controller = "example.com/check", state = App)]
async fn check(State(_name): State<String>) -> Verdict {
    Verdict::ready("ok")
}

fn main() {}
