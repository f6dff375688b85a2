//! The program on the command line, as an administrator uses it.

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
fn the_program_of_manifests_uses_their_controller_name() {
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

#[test]
fn its_version_has_the_name_of_the_program() {
    let program = env!("CARGO_BIN_EXE_provisioning-check");
    let output = Command::new(program).arg("--version").output().unwrap();
    let expected = concat!("provisioning-check ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn the_shell_completes_the_commands_and_flags() {
    let program = env!("CARGO_BIN_EXE_provisioning-check");
    let script = Command::new(program)
        .args(["completions", "bash"])
        .output()
        .unwrap();
    // In a shell that has loaded the script: its completions after `provisioning-check `, and after
    // `provisioning-check --c`.
    let tried = format!(
        "{}\nfor line in '' '--c'; do COMP_WORDS=(provisioning-check $line); COMP_CWORD=1; _provisioning__check provisioning-check \"$line\" provisioning-check; \
         echo ${{COMPREPLY[@]}}; done",
        String::from_utf8(script.stdout).unwrap()
    );
    let output = Command::new("bash").args(["-c", &tried]).output().unwrap();
    let offered = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = offered.lines().collect();
    for command in ["run", "manifests", "explain", "validate", "completions"] {
        assert!(
            lines[0].split(' ').any(|word| word == command),
            "{output:?}"
        );
    }
    assert_eq!(lines[1], "--controller-name", "{output:?}");
}

#[test]
fn a_config_is_compared_with_kueues_definition_and_with_this_programs_own_rules() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("validate");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, annotation, spec, well, expected) in [
        (
            "right",
            "10m",
            "provisioningClassName: check-capacity.autoscaling.x-k8s.io",
            true,
            "ProvisioningRequestConfig/gpus is valid",
        ),
        (
            "typo",
            "10m",
            "provisioningClassName: a\n  retryStrategie: {}",
            false,
            "spec.retryStrategie: unknown field",
        ),
        (
            "pattern",
            "10m",
            "provisioningClassName: 'A B'",
            false,
            "spec.provisioningClassName: Invalid value: \"A B\"",
        ),
        (
            "option",
            "soon",
            "provisioningClassName: a",
            false,
            "provisioning.kueue-check.dev/pending-timeout",
        ),
    ] {
        let file = folder.join(format!("{name}.yaml"));
        let text = format!(
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ProvisioningRequestConfig\nmetadata:\n  name: gpus\n  annotations: {{provisioning.kueue-check.dev/pending-timeout: {annotation}}}\nspec:\n  {spec}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_provisioning-check"));
        let output = command.arg("validate").arg(&file).output().unwrap();
        assert_eq!(output.status.success(), well, "{name}: {output:?}");
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(all.contains(expected), "{name}: {all}");
        assert!(!all.contains("not looked for"), "{name}: {all}");
    }
}
