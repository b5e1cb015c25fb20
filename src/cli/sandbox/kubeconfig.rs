//! Writes the kubeconfig without overwriting foreign files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

/// First line of the written file, and of files that may be overwritten.
const MARK: &str = "# Written by `loadmaster sandbox`, and overwritten when that starts again.\n";

/// Only the owner may read the file: it grants the rights of the administrator.
const MODE: u32 = 0o600;

/// Writes a kubeconfig, and returns its absolute path.
///
/// # Errors
/// The file cannot be written, or is a kubeconfig that the sandbox did not write.
pub(super) fn write(path: &Path, kubeconfig: &str) -> anyhow::Result<PathBuf> {
    let name = path.display();
    match fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK) && !text.is_empty() => bail!(
            "{name} is not from a sandbox and stays as it is; choose another --write-kubeconfig"
        ),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(path, &error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(MODE);
    options
        .open(path)
        .and_then(|mut file| file.write_all(format!("{MARK}{kubeconfig}").as_bytes()))
        .map_err(|error| refused(path, &error))?;
    Ok(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

fn refused(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("cannot write {}: {error}; choose another --write-kubeconfig", path.display())
}
