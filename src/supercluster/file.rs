//! The common part of the configuration files of the two roles.

use std::path::{Path, PathBuf};

use framework::PluginArgs;
use serde::Deserialize;
use serde_json::Value;
use supercluster::message::API_VERSION;
use supercluster::registry::PipelineRegistry;
use thiserror::Error;

use super::agent::AgentPipelines;
use super::scheduler::ClustersFile;
use crate::config::Gates;

/// An error in a file. The text names the field.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The file is not valid.
    #[error("{}: {message}", path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Field and reason.
        message: String,
    },
}

/// Reads and parses a file.
pub(super) fn read<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, FileError> {
    let bytes =
        std::fs::read(path).map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    let text = yaml::text_of(bytes).map_err(|error| error.to_string());
    let parsed = text.and_then(|text| parse(&text));
    parsed.map_err(|message| FileError::Invalid { path: path.to_owned(), message })
}

/// Checks apiVersion and kind of a document.
pub(super) fn check_kind(api_version: &str, kind: &str, expected: &str) -> Result<(), String> {
    if (api_version, kind) == (API_VERSION, expected) {
        return Ok(());
    }
    Err(format!(
        "apiVersion and kind are {api_version:?} and {kind:?}, not {API_VERSION:?} and {expected:?}"
    ))
}

/// A plugin of a pipeline, with its arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PluginEntry {
    pub(super) name: String,
    /// Weight of its score; only in the decision pipeline.
    pub(super) weight: Option<i64>,
    args: Option<Value>,
}

impl PluginEntry {
    pub(super) fn args(&self) -> PluginArgs {
        self.args.clone().map_or_else(PluginArgs::default, PluginArgs::new)
    }
}

/// Validates a document if it is the configuration of one of the two roles. Returns its kind.
///
/// # Errors
/// Field and reason.
pub fn validate(
    text: &str,
    registry: &PipelineRegistry,
    gates: &Gates,
) -> Option<Result<&'static str, String>> {
    #[derive(Deserialize)]
    struct Head {
        kind: String,
    }
    let head: Head = serde_json::from_value(yaml::read(text).ok()?.value).ok()?;
    match head.kind.as_str() {
        ClustersFile::KIND => Some(ClustersFile::parse(text, registry).map(|_| ClustersFile::KIND)),
        AgentPipelines::KIND => {
            let parsed = AgentPipelines::parse(text, registry);
            Some(parsed.and_then(|own| own.check_profile(gates)).map(|()| AgentPipelines::KIND))
        }
        _ => None,
    }
}
