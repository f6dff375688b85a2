use kueue_check::Parameters;

#[derive(Parameters)]
#[kube(group = "example.com", version = "v1", kind = "Window")]
enum WindowSpec {
    Open,
}

fn main() {}
