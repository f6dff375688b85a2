use kueue_check::prelude::*;

#[admission_check(controller = "example.com/check")]
async fn check() -> bool {
    true
}

fn main() {}
