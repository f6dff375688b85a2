use kueue_check::ControllerName;

const NAME: ControllerName = ControllerName::from_static("");

fn main() {
    println!("{NAME}");
}
