use kueue_check::prelude::*;

struct NotAnError;

#[admission_check(controller = "example.com/check")]
async fn check() -> Result<Verdict, NotAnError> {
    Err(NotAnError)
}

fn main() {}
