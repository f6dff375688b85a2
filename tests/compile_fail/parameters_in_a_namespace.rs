#[kueue_check::parameters(
    group = "example.com",
    version = "v1",
    kind = "Window",
    namespaced
)]
struct WindowSpec {
    opens: String,
}

fn main() {}
