//! The configuration in effect: the file and the flags of the daemon.

use std::path::Path;

use anyhow::Context;

use super::flags::Flags;
use crate::config::{self, Configuration, Gates, Loaded};

/// Loads the configuration file, if there is one, applies the flags and validates the result.
///
/// # Errors
/// The file cannot be read, or a value is invalid.
pub(super) fn configuration(flags: &Flags, gates: &Gates) -> anyhow::Result<Configuration> {
    let mut config = match &flags.config {
        None => config::defaults(gates),
        Some(path) => load(path, gates)?.in_effect(),
    };
    flags.apply(&mut config);
    config::validate(&config, gates)?;
    Ok(config)
}

fn load(path: &Path, gates: &Gates) -> anyhow::Result<Loaded> {
    let text = super::config::read(path)?;
    config::load(&text, gates).with_context(|| path.display().to_string())
}
