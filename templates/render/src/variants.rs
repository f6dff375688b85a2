//! All projects of the template of a check, as one workspace that shares one target folder.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use toml::{Table, Value};

use crate::error::Error;
use crate::project::{Project, render};

/// The choices for the source.
const SOURCES: [&str; 3] = ["none", "http", "prometheus"];

/// A set of answers to the template's questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Whether it has parameters.
    pub parameters: bool,
    /// Its source of data.
    pub source: &'static str,
    /// Whether it stores state.
    pub state: bool,
    /// Whether it allocates and releases something.
    pub cleanup: bool,
}

/// Returns all 24 variants.
pub fn all() -> Vec<Variant> {
    let mut all = Vec::new();
    for source in SOURCES {
        for bits in 0..8_u8 {
            let on = |bit: u8| bits & (1 << bit) != 0;
            all.push(Variant {
                parameters: on(0),
                source,
                state: on(1),
                cleanup: on(2),
            });
        }
    }
    all
}

/// Returns six variants that together have every pair of answers to two questions.
pub fn covering() -> Vec<Variant> {
    let variant = |source, parameters, state, cleanup| Variant {
        parameters,
        source,
        state,
        cleanup,
    };
    vec![
        variant("none", false, false, false),
        variant("none", true, true, true),
        variant("http", false, true, true),
        variant("http", true, false, false),
        variant("prometheus", false, false, true),
        variant("prometheus", true, true, false),
    ]
}

impl Variant {
    /// Returns a name with its answers.
    pub fn name(&self) -> String {
        let mut name = format!("check-{}", self.source);
        for (word, on) in [
            ("parameters", self.parameters),
            ("state", self.state),
            ("cleanup", self.cleanup),
        ] {
            if on {
                let _ = write!(name, "-{word}");
            }
        }
        name
    }

    /// Returns its answers, with the crates in the folder `sdk`.
    pub fn answers(&self, sdk: &Path) -> [(&'static str, String); 6] {
        [
            (
                "controller_name",
                format!("checks.example.com/{}", self.name()),
            ),
            ("parameters", self.parameters.to_string()),
            ("source", self.source.to_owned()),
            ("state", self.state.to_string()),
            ("cleanup", self.cleanup.to_string()),
            ("kueue_check_source", sdk.display().to_string()),
        ]
    }

    /// Renders the project, with the crates in the folder `sdk`.
    ///
    /// # Errors
    /// If the template is invalid.
    pub fn render(&self, template: &Path, sdk: &Path) -> Result<Project, Error> {
        let answers = self.answers(sdk);
        let answers = answers.each_ref().map(|(name, value)| (*name, &**value));
        render(template, &self.name(), &answers)
    }
}

/// Writes all variants of the template of a check into `folder`, as a workspace. It has the lock
/// file of the one in `repository`, and compiles the dependencies of the SDK as that one does, so
/// that both share them.
///
/// # Errors
/// If the template is invalid, or a file can't be written.
pub fn write_workspace(repository: &Path, folder: &Path) -> Result<usize, Error> {
    let template = repository.join("templates/check");
    let variants = all();
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    for variant in &variants {
        let project = variant.render(&template, repository)?;
        let mut project = without_profiles(project);
        // The repository has one, and the workspace is inside it.
        project.files.remove(Path::new("rust-toolchain.toml"));
        project.write(&folder.join(variant.name()))?;
    }
    let manifest = repository.join("Cargo.toml");
    let manifest = fs::read_to_string(&manifest).map_err(Error::file(&manifest))?;
    write_changed(
        &folder.join("Cargo.toml"),
        &workspace(&variants, &manifest)?,
    )?;
    let lock = repository.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(Error::file(&lock))?;
    write_changed(&folder.join("Cargo.lock"), &lock)?;
    Ok(variants.len())
}

/// Removes the profiles, which members of a workspace cannot have.
fn without_profiles(mut project: Project) -> Project {
    if let Some(manifest) = project.files.get_mut(Path::new("Cargo.toml"))
        && let Some(at) = manifest.find("[profile.")
    {
        manifest.truncate(at);
    }
    project
}

/// The crates of the SDK. They are not optimized: to compile them takes longer than the tests of
/// the projects, which try a sample of the faults.
const SDK: [&str; 6] = [
    "kueue-check",
    "kueue-check-apiserver",
    "kueue-check-kueue-model",
    "kueue-check-macros",
    "kueue-check-schema",
    "kueue-check-sim",
];

/// Returns the manifest of the workspace: the members, and the profile `dev` of `manifest` for
/// their dependencies.
fn workspace(variants: &[Variant], manifest: &str) -> Result<String, Error> {
    let ours: Table = manifest
        .parse()
        .map_err(|error: toml::de::Error| Error::Config(error.to_string()))?;
    let members: Vec<Value> = variants.iter().map(|one| one.name().into()).collect();
    let mut workspace = Table::new();
    workspace.insert("resolver".to_owned(), "3".into());
    workspace.insert("members".to_owned(), members.into());
    let mut table = Table::new();
    table.insert("workspace".to_owned(), workspace.into());
    if let Some(mut dev) = ours.get("profile").and_then(|all| all.get("dev")).cloned() {
        if let Some(packages) = dev.get_mut("package").and_then(Value::as_table_mut) {
            packages.retain(|name, _| *name == *"*");
            for name in SDK {
                let level = Table::from_iter([("opt-level".to_owned(), 0.into())]);
                packages.insert(name.to_owned(), level.into());
            }
        }
        let profiles = Table::from_iter([("dev".to_owned(), dev)]);
        table.insert("profile".to_owned(), profiles.into());
    }
    Ok(table.to_string())
}

fn write_changed(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read_to_string(path).ok().as_deref() == Some(text) {
        return Ok(());
    }
    fs::write(path, text).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_are_distinct() {
        let mut names: Vec<String> = all().iter().map(Variant::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 24);
    }

    #[test]
    fn the_tested_variants_cover_every_pair_of_answers() {
        let answers = |one: &Variant| {
            [
                one.source.to_owned(),
                format!("parameters={}", one.parameters),
                format!("state={}", one.state),
                format!("cleanup={}", one.cleanup),
            ]
        };
        let pairs = |variants: &[Variant]| {
            let mut pairs = std::collections::BTreeSet::new();
            for variant in variants {
                let answers = answers(variant);
                for (at, one) in answers.iter().enumerate() {
                    for other in &answers[at + 1..] {
                        pairs.insert((one.clone(), other.clone()));
                    }
                }
            }
            pairs
        };
        assert_eq!(pairs(&covering()), pairs(&all()));
    }
}
