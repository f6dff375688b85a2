use kueue_check::handler::check_fn;
use kueue_check::{Check, ControllerName, Verdict};

async fn greet(name: String) -> Verdict {
    Verdict::ready(name)
}

fn main() {
    let _: Check = check_fn(ControllerName::from_static("example.com/greet"), greet).without_state().into();
}
