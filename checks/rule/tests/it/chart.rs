//! The values of the Helm chart equal the output of this program.

use serde_json::Value;

use crate::program::output;

#[test]
fn the_charts_values_are_what_the_program_prints() {
    let values = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../charts/kueue-check/values-rule.yaml"
    );
    let values = std::fs::read_to_string(values).unwrap();
    let (_, generated) = values.split_once("renews it ----\n").unwrap();
    let (code, printed, error) = output(&["helm-values"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        generated == printed,
        "values-rule.yaml is old: run `cargo xtask chart`"
    );
    // The permissions of a feature are those that its argument needs.
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let features = values["features"].as_object().unwrap();
    for (name, feature) in features {
        let argument = feature["args"][0].as_str().unwrap();
        let (code, with, error) = output(&["helm-values", argument]);
        assert_eq!(code, Some(0), "{error}");
        let with: Value = serde_saphyr::from_str(&with).unwrap();
        let rule = &feature["clusterRules"][0];
        let rules = with["check"]["clusterRules"].as_array().unwrap();
        let known = |rules: &[Value]| rules.contains(rule);
        assert!(known(rules), "{name}: {rule} is not one of {rules:?}");
        let without = values["check"]["clusterRules"].as_array().unwrap();
        assert!(!known(without), "{name}");
    }
}
