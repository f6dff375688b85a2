//! The corpus: one folder for each target, one file for each input.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the target `name`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name)
}

/// Returns the inputs of the target `name` with their files, in the order of the file names.
///
/// # Errors
/// The folder cannot be read.
pub fn read(name: &str) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder(name))? {
        files.push(entry?.path());
    }
    files.sort();
    files
        .into_iter()
        .map(|path| std::fs::read(&path).map(|input| (path, input)))
        .collect()
}

/// Writes an input with a finding into the folder of the target `name`.
///
/// # Errors
/// The file cannot be written.
pub fn add(name: &str, input: &[u8]) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder(name).join(format!("found-{:016x}", hasher.finish()));
    std::fs::write(&path, input)?;
    Ok(path)
}
