#[kueue_check::parameters(group = "example.com", validate = "WindowSpec::validate")]
struct WindowSpec {
    hours: u32,
}

fn main() {}
