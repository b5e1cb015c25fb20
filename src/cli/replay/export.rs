//! `--to-test`: a recording as one file that is a regression test.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use recording::{Compressor, Header};

use super::moment::Moment;
use super::run::Run;
use crate::recorder::EXTENSION;

/// Writes the run up to the moment to one file. Returns its path.
///
/// # Errors
/// The beginning of the run is gone, or the file exists or cannot be written.
pub(super) fn write(run: &Run, until: Option<&Moment>, target: &Path) -> anyhow::Result<PathBuf> {
    if !run.has_beginning() {
        bail!("{}, so it makes no test", run.lacks_beginning());
    }
    let path = match target.is_dir() {
        true => target.join(run.name()).with_extension(EXTENSION),
        false => target.to_owned(),
    };
    if path.extension().is_none_or(|extension| extension != EXTENSION) {
        bail!("{}: the name must end in .{EXTENSION}", path.display());
    }
    let header = Header { file: 1, ..run.header.clone() };
    let (mut compressor, beginning) = Compressor::begin(&header);
    let mut file =
        File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut write = |bytes: &[u8]| {
        file.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&beginning)?;
    run.read(until, |_, _| true, |chunk| write(&compressor.frame(chunk)))?;
    Ok(path)
}
