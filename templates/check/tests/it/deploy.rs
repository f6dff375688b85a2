//! Deployment: the files in `deploy` match the output of the program, and an API server accepts
//! both.

use std::process::Command;

use kueue_check::serde_json::Value;

/// Returns the documents of a YAML text.
pub fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").map(serde_saphyr::from_str::<Option<Value>>);
    documents.filter_map(|document| document.expect("YAML")).collect()
}

/// Returns the documents of `deploy/example.yaml`.
pub fn example() -> Vec<Value> {
    documents(include_str!("../../deploy/example.yaml"))
}
{%- if parameters %}

/// Returns the rule of the example.
pub fn rule() -> Value {
    example().swap_remove(0)
}
{%- endif %}

/// Returns the output of the program.
pub fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_{{ project-name }}")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_chart_grants_exactly_the_permissions_that_the_program_requires() {
    let manifests = documents(&printed(&["manifests", "--image", "example.com/check:1"]));
    let rules = |kind: &str| manifests.iter().find(|document| document["kind"] == kind).unwrap()["rules"].clone();
    let values: Value = serde_saphyr::from_str(include_str!("../../deploy/values.yaml")).unwrap();
    assert_eq!(values["check"]["clusterRules"], rules("ClusterRole"));
    // The first two are for the Lease, which the chart adds by itself.
    let own = rules("Role").as_array().unwrap()[2..].to_vec();
    assert_eq!(values["check"]["rules"].as_array().cloned().unwrap_or_default(), own);
    assert_eq!(values["check"]["controllers"][0]["name"], "{{ controller_name }}");
}

#[test]
fn the_example_refers_to_what_is_there() {
    let example = example();
    let check = example.iter().find(|document| document["kind"] == "AdmissionCheck").unwrap();
    assert_eq!(check["spec"]["controllerName"], "{{ controller_name }}");
{%- if parameters %}
    let (reference, rule) = (&check["spec"]["parameters"], rule());
    assert_eq!(reference["kind"], rule["kind"]);
    assert_eq!(reference["name"], rule["metadata"]["name"]);
    let definition = documents(&printed(&["crds"])).remove(0);
    assert_eq!(definition["spec"]["names"]["kind"], rule["kind"]);
    assert_eq!(definition["spec"]["group"], reference["apiGroup"]);
{%- else %}
    assert_eq!(printed(&["crds"]), "", "it has no parameters");
{%- endif %}
    let names: Vec<&Value> = example.iter().flat_map(|document| document["spec"]["admissionChecksStrategy"]["admissionChecks"].as_array()).flatten().map(|entry| &entry["name"]).collect();
    assert_eq!(names, [&check["metadata"]["name"]]);
}
