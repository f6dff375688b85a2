use std::rc::Rc;

use kueue_check::prelude::*;

async fn get(_: &str) {}

#[admission_check(controller = "example.com/check")]
async fn check() -> Verdict {
    let shared = Rc::new("not to be sent");
    get(&shared).await;
    Verdict::ready(*shared)
}

fn main() {}
