//! Properties of every project, whatever the answers are.

use std::path::{Path, PathBuf};

use kueue_check_template::{Config, Project, render, variants};

use crate::refusals::template;

fn all() -> impl Iterator<Item = (String, Project)> {
    variants::all().into_iter().map(|variant| {
        let project = variant.render(&template(), Path::new("/sdk"));
        let project = project.unwrap_or_else(|error| panic!("{}: {error}", variant.name()));
        (variant.name(), project)
    })
}

#[test]
fn nothing_of_the_template_is_left() {
    for (name, project) in all() {
        for (path, text) in &project.files {
            // GitHub's own expressions resemble liquid's.
            let rest = text.replace("${{", "");
            assert!(
                !rest.contains("{{") && !rest.contains("{%"),
                "{name}: {}",
                path.display()
            );
            // Rust files are formatted when they are written.
            let formatted = path.extension().is_some_and(|extension| extension == "rs");
            assert!(
                formatted || !text.contains("\n\n\n"),
                "{name}: {} has two empty lines",
                path.display()
            );
            assert!(
                !text.starts_with('\n'),
                "{name}: {} begins with an empty line",
                path.display()
            );
        }
    }
}

#[test]
fn files_belong_to_their_answers() {
    let config = Config::read(&template()).unwrap();
    for file in config.conditional_files() {
        assert!(
            template().join(file).exists(),
            "{file}: there is no such file to leave out"
        );
        let with = all()
            .filter(|(_, project)| project.files.contains_key(Path::new(file)))
            .count();
        assert!(
            (1..24).contains(&with),
            "{file} is in {with} of 24 projects"
        );
    }
}

#[test]
fn the_sdk_comes_from_a_version_a_repository_or_a_path() {
    let manifest = |source: &str| {
        let answers = [
            ("controller_name", "example.com/seat"),
            ("kueue_check_source", source),
        ];
        let project = render(&template(), "seat-check", &answers).unwrap();
        let manifest: toml::Table = project.files[Path::new("Cargo.toml")].parse().unwrap();
        let sdk = &manifest["dependencies"]["kueue-check"];
        let simulation = &manifest["dev-dependencies"]["kueue-check-sim"];
        (sdk.to_string(), simulation.to_string())
    };
    for (source, sdk, simulation) in [
        (
            "0.1.0",
            r#"{ version = "0.1.0" }"#,
            r#"{ version = "0.1.0" }"#,
        ),
        (
            "https://example.com/x",
            r#"{ git = "https://example.com/x" }"#,
            r#"{ git = "https://example.com/x" }"#,
        ),
        (
            "../sdk",
            r#"{ path = "../sdk" }"#,
            r#"{ path = "../sdk/sim" }"#,
        ),
    ] {
        assert_eq!(manifest(source), (sdk.to_owned(), simulation.to_owned()));
    }
}

/// A token that may write every `ConfigMap` has the power of an administrator:
/// `kube-system/coredns`, `aws-auth`.
#[test]
fn no_project_may_write_core_objects_in_the_whole_cluster() {
    use serde_json::Value;
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        let all = rule[key].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut with_a_role = 0;
    for (name, project) in all() {
        let values = &project.files[Path::new("deploy/values.yaml")];
        let values: Value = serde_saphyr::from_str(values).unwrap();
        let rules = values["check"]["clusterRules"].as_array().unwrap();
        assert!(!rules.is_empty(), "{name}");
        for rule in rules {
            let core = texts(rule, "apiGroups")
                .iter()
                .any(|group| group.is_empty() || group == "*");
            let reads = texts(rule, "verbs")
                .iter()
                .all(|verb| ["get", "list", "watch"].contains(&verb.as_str()));
            assert!(!core || reads, "{name}: {rule}");
        }
        // The project's tests (tests/it/deploy.rs) compare the program's own rules with these.
        with_a_role += usize::from(values["check"]["rules"].is_array());
        let code = project.files.get(Path::new("src/check.rs")).unwrap();
        assert!(!code.contains(".permissions("), "{name}");
    }
    assert_eq!(
        with_a_role, 12,
        "those that clean up have rules of their namespace"
    );
}

/// The dependencies of a project have the versions of this repository: they are tested together.
#[test]
fn versions_are_those_of_this_repository() {
    let read =
        |path: PathBuf| -> toml::Table { std::fs::read_to_string(path).unwrap().parse().unwrap() };
    let repository = template().join("../..");
    let root = read(repository.join("Cargo.toml"));
    let workspace = root["workspace"]["dependencies"].as_table().unwrap();
    let sources = read(repository.join("checks/sources/Cargo.toml"));
    let sources = sources["dependencies"].as_table().unwrap();
    let version = |dependency: &toml::Value| {
        let text = dependency
            .as_str()
            .or_else(|| dependency.get("version")?.as_str());
        text.map(str::to_owned)
    };
    let toolchain = |project: &Project| {
        project.files[Path::new("rust-toolchain.toml")]
            .parse::<toml::Table>()
            .unwrap()
    };
    for (name, project) in all() {
        let manifest: toml::Table = project.files[Path::new("Cargo.toml")].parse().unwrap();
        assert_eq!(
            manifest["package"]["rust-version"],
            root["workspace"]["package"]["rust-version"]
        );
        assert_eq!(
            manifest["package"]["edition"],
            root["workspace"]["package"]["edition"]
        );
        for section in ["dependencies", "dev-dependencies"] {
            for (dependency, wanted) in manifest[section].as_table().unwrap() {
                let Some(wanted) = version(wanted) else {
                    assert!(
                        dependency.starts_with("kueue-check"),
                        "{name}: {dependency} has no version"
                    );
                    continue;
                };
                let ours = workspace
                    .get(dependency)
                    .or_else(|| sources.get(dependency));
                assert_eq!(
                    ours.and_then(version).as_ref(),
                    Some(&wanted),
                    "{name}: {dependency}"
                );
            }
        }
        let ours = read(repository.join("rust-toolchain.toml"));
        assert_eq!(
            toolchain(&project)["toolchain"]["channel"],
            ours["toolchain"]["channel"]
        );
        let dockerfile = &project.files[Path::new("Dockerfile")];
        assert!(
            dockerfile.contains(&format!(
                "rust:{}-",
                ours["toolchain"]["channel"]
                    .as_str()
                    .unwrap()
                    .trim_end_matches(".0")
            )),
            "{dockerfile}"
        );
    }
}

#[test]
fn yaml_is_yaml_and_ci_does_what_it_should() {
    use serde_json::Value;
    for (name, project) in all() {
        let yaml = project.files.iter().filter(|(path, _)| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        });
        for (path, text) in yaml {
            for document in text.split("---\n") {
                let read = serde_saphyr::from_str::<Value>(document);
                assert!(
                    read.is_ok_and(|value| value.is_object()),
                    "{name}: {}",
                    path.display()
                );
            }
        }
        let ci: Value =
            serde_saphyr::from_str(&project.files[Path::new(".github/workflows/ci.yaml")]).unwrap();
        let steps = |job: &str| ci["jobs"][job]["steps"].to_string();
        for (job, what) in [
            ("lint", "cargo clippy --locked --all-targets -- -D warnings"),
            ("test", "cargo test --locked"),
            ("deny", "cargo-deny-action"),
            ("image", "sbom-action"),
            ("image", "cosign sign --yes"),
            ("image", "${{ steps.build.outputs.digest }}"),
        ] {
            assert!(steps(job).contains(what), "{name}: {job} without {what}");
        }
        assert_eq!(
            ci["env"]["IMAGE"],
            format!("ghcr.io/example/{}", project.name)
        );
    }
}
