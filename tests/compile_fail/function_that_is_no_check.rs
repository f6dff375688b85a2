use kueue_check::handler::check_fn;
use kueue_check::{DynCheck, ControllerName, Verdict};

async fn greet(name: String) -> Verdict {
    Verdict::ready(name)
}

fn main() {
    let _: DynCheck = check_fn(ControllerName::from_static("example.com/greet"), greet).without_state().into();
}
