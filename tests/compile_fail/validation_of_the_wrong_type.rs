#[kueue_check::parameters(
    group = "example.com",
    version = "v1",
    kind = "Window",
    validate = is_valid
)]
struct WindowSpec {
    opens: String,
}

fn is_valid(spec: &WindowSpec) -> bool {
    !spec.opens.is_empty()
}

fn main() {}
