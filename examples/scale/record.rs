//! The file of `--placements`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

/// Writes a line of JSON for each node, template and event, in their order.
#[derive(Debug, Default)]
pub(crate) struct Record(Option<BufWriter<File>>);

impl Record {
    /// Creates the file, if there is to be one.
    pub(crate) fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(Some(BufWriter::new(file))))
    }

    pub(crate) fn bound(&mut self, pod: &str, template: usize, node: &str) -> anyhow::Result<()> {
        self.line(|| json!({"bound": pod, "template": template, "node": node}))
    }

    pub(crate) fn deleted(&mut self, pod: &str) -> anyhow::Result<()> {
        self.line(|| json!({ "deleted": pod }))
    }

    pub(crate) fn evicted(&mut self, pod: &str, preemptor: &str) -> anyhow::Result<()> {
        self.line(|| json!({"evicted": pod, "by": preemptor}))
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: impl FnOnce() -> Value) -> anyhow::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        serde_json::to_writer(&mut *file, &line())?;
        Ok(file.write_all(b"\n")?)
    }

    /// Writes what is buffered.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let Some(mut file) = self.0 else { return Ok(()) };
        Ok(file.flush()?)
    }
}
