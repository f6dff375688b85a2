#[kueue_check::parameters(group = "example.com", version = "v1", kind = "Window")]
#[derive(kueue_check::serde::Serialize, Clone, PartialEq)]
#[kube(shortname = "w")]
struct Window {
    hours: u32,
}

fn main() {}
