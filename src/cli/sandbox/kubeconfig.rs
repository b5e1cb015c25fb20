//! Writing the kubeconfig, without harm to others that lie there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

/// The first line of what is written here, and of what may be overwritten.
const MARK: &str = "# Written by `loadmaster sandbox`, and overwritten when that starts again.\n";

/// Only the owner may read it: who has it is the administrator.
const MODE: u32 = 0o600;

/// Writes a kubeconfig, and says where it is from anywhere.
///
/// # Errors
/// The file cannot be written, or is a kubeconfig from elsewhere.
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
