//! Writes kubeconfigs, certificates and keys without overwriting foreign files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use sandbox::http::{Identity, Server};

/// First line of written files, and of files that may be overwritten. Readers of PEM skip it.
const MARK: &str = "# Written by `loadmaster sandbox`, and overwritten when that starts again.\n";

/// Only the owner may read the files: they grant the rights of the administrator.
const MODE: u32 = 0o600;

/// Writes a kubeconfig, and returns its absolute path.
///
/// # Errors
/// The file cannot be written, or is a kubeconfig that the sandbox did not write.
pub(super) fn write_kubeconfig(path: &Path, kubeconfig: &str) -> anyhow::Result<PathBuf> {
    write(path, kubeconfig, "--write-kubeconfig")?;
    Ok(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Writes the authorities of a server and the certificate of a front proxy into a folder, under the
/// names that kubeadm gives them.
///
/// # Errors
/// A file cannot be written, or the sandbox did not write it.
pub(super) fn write_pki(folder: &Path, server: &Server) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let identities = [
        ("ca", server.authority()),
        ("front-proxy-ca", server.front_proxy_authority()),
        ("front-proxy-client", server.front_proxy_certificate()?),
    ];
    for (name, Identity { certificate, key }) in identities {
        write(&folder.join(format!("{name}.crt")), &certificate, "--write-pki")?;
        write(&folder.join(format!("{name}.key")), &key, "--write-pki")?;
    }
    Ok(())
}

/// Writes a file of `--write-clusters`.
///
/// # Errors
/// It cannot be written, or is one that the sandbox did not write.
pub(super) fn write_config(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, text, "--write-clusters")
}

/// Writes a token, which is the whole content of its file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_token(path: &Path, token: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(MODE);
    let written = options.open(path).and_then(|mut file| file.write_all(token.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn write(path: &Path, text: &str, flag: &str) -> anyhow::Result<()> {
    let name = path.display();
    let refused =
        |error: &io::Error| anyhow!("cannot write {name}: {error}; choose another {flag}");
    match fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK) && !text.is_empty() => {
            bail!("{name} is not from a sandbox and stays as it is; choose another {flag}")
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(&error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(MODE);
    options
        .open(path)
        .and_then(|mut file| file.write_all(format!("{MARK}{text}").as_bytes()))
        .map_err(|error| refused(&error))
}
