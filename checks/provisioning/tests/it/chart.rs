//! The values of the Helm chart equal the output of this program.

use std::process::Command;

#[test]
fn the_charts_values_are_what_the_program_prints() {
    for (file, arguments) in [
        ("values-provisioning.yaml", &["helm-values"][..]),
        (
            "values-provisioning-as-kueue.yaml",
            &[
                "--controller-name",
                "kueue.x-k8s.io/provisioning-request",
                "helm-values",
            ][..],
        ),
    ] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/kueue-check/");
        let values = std::fs::read_to_string([folder, file].concat()).unwrap();
        let (_, generated) = values.split_once("renews it ----\n").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_provisioning-check"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(
            generated == printed,
            "{file} is old: run `cargo xtask chart`"
        );
    }
}
