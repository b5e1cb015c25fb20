//! The configuration in effect: the file and the flags of the daemon.

use std::path::Path;

use anyhow::Context;

use super::flags::Flags;
use crate::config::{self, Configuration, Gates, Loaded};

/// Loads the configuration file, if there is one, applies the flags and validates the result.
///
/// `set_defaults` changes the defaults for a role; a configuration file replaces them.
///
/// # Errors
/// The file cannot be read, or a value is invalid.
pub(super) fn configuration(
    flags: &Flags,
    gates: &Gates,
    set_defaults: impl FnOnce(&mut Configuration),
) -> anyhow::Result<Configuration> {
    let mut config = match &flags.config {
        None => {
            let mut config = config::defaults(gates);
            set_defaults(&mut config);
            config
        }
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
