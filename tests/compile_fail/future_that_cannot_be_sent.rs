use std::rc::Rc;

use kueue_check::prelude::*;

async fn ask(_: &str) {}

#[admission_check(controller = "example.com/check")]
async fn check() -> Verdict {
    let shared = Rc::new("not to be sent");
    ask(&shared).await;
    Verdict::ready(*shared)
}

fn main() {}
