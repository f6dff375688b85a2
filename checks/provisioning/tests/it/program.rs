//! The program, as an operator meets it.

use std::process::Command;

fn manifests(arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_provisioning-check");
    let mut command = Command::new(program);
    command.args(["manifests", "--image", "registry.example.com/check:1"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_the_manifests_run_answers_to_the_name_that_was_given_to_them() {
    let cases: [(&[&str], &str); 2] = [
        (&[], "kueue-check.dev/provisioning-request"),
        (
            &["--controller-name", "example.com/capacity"],
            "example.com/capacity",
        ),
    ];
    for (arguments, name) in cases {
        let text = manifests(arguments);
        assert!(
            text.contains(&format!("- --controller-name={name}\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!("#   controllerName: {name}\n")),
            "{text}"
        );
        assert!(!text.contains("'*'"), "no right to everything");
    }
}
