#[kueue_check::parameters(group = "example.com", version = "v1", kind = "Window")]
struct WindowSpec(u32);

#[kueue_check::parameters(group = "example.com", version = "v1", kind = "Hours", namespaced)]
fn hours() {}

fn main() {}
