//! The Helm chart agrees with the output of this program.

use super::program::output;

#[test]
fn the_charts_values_are_what_the_program_prints() {
    let values = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../charts/kueue-check/values-budget.yaml"
    );
    let values = std::fs::read_to_string(values).unwrap();
    let (_, generated) = values.split_once("renews it ----\n").unwrap();
    let (code, printed, error) = output(&["helm-values"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        generated == printed,
        "values-budget.yaml is old: run `cargo xtask chart`"
    );
}
