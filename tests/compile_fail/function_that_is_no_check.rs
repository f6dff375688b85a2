use kueue_check::{Check, ControllerName, Verdict};

async fn greet(name: String) -> Verdict {
    Verdict::ready(name)
}

fn main() {
    let _: Check = Check::from_fn(ControllerName::from_static("example.com/greet"), greet);
}
