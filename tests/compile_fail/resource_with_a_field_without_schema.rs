struct Hours;

#[kueue_check::parameters(group = "example.com", version = "v1", kind = "Window")]
struct WindowSpec {
    hours: Hours,
}

fn main() {}
