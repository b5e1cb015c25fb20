//! What was decided about mutations that the simulation does not find.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::mutation::Key;

/// What a mutation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effect {
    /// Nothing: the code with the mutation does the same.
    Nothing,
    /// Only metrics, logs or texts for operators.
    Reports,
    /// Only the use of memory or of processor time.
    Cost,
    /// Only the length of a delay that has no exact value.
    Delay,
    /// What the scheduler does.
    Behaviour,
}

/// A decision about a mutation.
#[derive(Debug, Deserialize)]
pub(crate) struct Verdict {
    #[serde(flatten)]
    key: Key,
    /// What the mutation changes.
    pub(crate) effect: Effect,
    /// Why.
    pub(crate) reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutation: Vec<Verdict>,
}

/// The decisions.
pub(crate) struct Verdicts(BTreeMap<Key, Verdict>);

impl Verdicts {
    /// Reads a file of decisions.
    ///
    /// # Errors
    /// The file cannot be read, or it is not a list of decisions.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let context = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(context)?;
        let file: File = toml::from_str(&text).with_context(context)?;
        Ok(Self(file.mutation.into_iter().map(|it| (it.key.clone(), it)).collect()))
    }

    /// Returns the decision about a mutation.
    pub(crate) fn get(&self, key: &Key) -> Option<&Verdict> {
        self.0.get(key)
    }

    /// Returns the mutations with decisions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }
}
