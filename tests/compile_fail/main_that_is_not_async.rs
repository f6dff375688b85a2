#[kueue_check::main]
fn main() {}
