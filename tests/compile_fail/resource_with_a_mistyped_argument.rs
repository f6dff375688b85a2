#[kueue_check::parameters(group = "example.com", version = "v1", kind = "Window", shortnam = "w")]
struct WindowSpec {
    hours: u32,
}

fn main() {}
