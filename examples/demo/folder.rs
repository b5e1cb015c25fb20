//! A folder for the files of one run.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A private folder that is removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("loadmaster-demo-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and returns its path as text.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<String> {
        let file = self.0.join(name);
        fs::write(&file, text)?;
        Ok(file.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If removal fails, the files stay in the temporary folder of the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}
