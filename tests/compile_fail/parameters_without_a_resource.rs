use kueue_check::Parameters;

#[derive(Parameters)]
struct WindowSpec {
    opens: String,
}

fn main() {}
