//! Temporary folders.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// An empty temporary folder, which is removed when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder whose name begins with `name`. Each call creates another one.
    ///
    /// # Errors
    /// If it can't be created.
    pub fn new(name: &str) -> io::Result<Self> {
        create(name).map(Self)
    }

    /// Writes a file, in a subfolder if its name contains one.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.0.join(file);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Creates an empty temporary folder with a unique name, which is not removed.
pub(crate) fn create(name: &str) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // An earlier process of this number was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
