use kueue_check::prelude::*;

#[admission_check(controller = "example.com/check")]
async fn check() {}

fn main() {}
