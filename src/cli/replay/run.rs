//! One recorded process: its header and its operations.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, bail};
use engine::Input;
use framework::{Time, WallOffset};
use recording::{Decoder, Ending, FileReader, Header, OpenError, Operation};

use super::moment::Moment;
use crate::recorder::{RecordedSetup, RunFiles};

/// A recorded process.
pub(super) struct Run {
    files: RunFiles,
    /// The header of its first file.
    pub(super) header: Header,
    /// The configuration and the flags.
    pub(super) setup: RecordedSetup,
}

impl Run {
    /// Reads the header of a run.
    ///
    /// # Errors
    /// The first file is not a recording that this version can read.
    pub(super) fn open(files: RunFiles) -> anyhow::Result<Self> {
        let Some((path, _)) = files.files.first() else { bail!("{} has no files", files.name) };
        let (_, header) = open(path)?;
        let setup = RecordedSetup::of_header(&header.setup);
        let setup = setup.with_context(|| path.display().to_string())?;
        Ok(Self { files, header, setup })
    }

    /// Returns the name of its folder.
    pub(super) fn name(&self) -> &str {
        &self.files.name
    }

    /// Returns the wall time of the start.
    pub(super) fn started(&self) -> Time {
        Time::parse_rfc3339(&self.setup.started).unwrap_or(Time::ZERO)
    }

    /// Whether the beginning is there, without which no decision can be made again.
    pub(super) const fn has_beginning(&self) -> bool {
        self.header.file == 1
    }

    /// Returns the sentence about a run without its beginning.
    pub(super) fn lacks_beginning(&self) -> String {
        format!(
            "the size limit (--record-limit) has removed the beginning of run {}: its first file is number {}",
            self.name(),
            self.header.file
        )
    }

    /// Passes the operations up to the moment to `take`, each with the wall time, until it returns
    /// false. The first checkpoint is among them if the beginning is missing. Returns notes about
    /// what could not be read.
    ///
    /// # Errors
    /// A file cannot be read, or has another format.
    pub(super) fn operations(
        &self,
        until: Option<&Moment>,
        take: impl FnMut(Time, Operation) -> bool,
    ) -> anyhow::Result<Vec<String>> {
        self.read(until, take, |_| Ok(()))
    }

    /// Like [`operations`](Self::operations); passes the bytes of all operations before the end to
    /// `keep`.
    ///
    /// # Errors
    /// As above, or the errors of `keep`.
    pub(super) fn read(
        &self,
        until: Option<&Moment>,
        mut take: impl FnMut(Time, Operation) -> bool,
        mut keep: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        let end = until.map(|until| until.after(self.started()));
        let mut decoder = Decoder::default();
        let (mut now, mut offset) = (Time::ZERO, WallOffset::default());
        let mut notes = Vec::new();
        let mut wants_checkpoint = !self.has_beginning();
        for (expected, (path, _)) in (self.header.file..).zip(&self.files.files) {
            let (mut reader, header) = match open(path) {
                Ok(opened) => opened,
                // The process was killed, or the disk was full, before the file had a beginning.
                Err(error) if is_empty(&error) => {
                    notes.push(format!("{error:#}"));
                    break;
                }
                Err(error) => return Err(error),
            };
            if header.file != expected {
                notes.push(format!("file {expected} is missing; what follows is not read"));
                break;
            }
            while let Some(frame) = reader.next_frame().with_context(|| shown(path))? {
                let read = decoder.read(&frame, |operation| {
                    match &operation {
                        Operation::Input { input: Input::WallOffset(new), .. } => offset = *new,
                        Operation::Known(_) | Operation::Checkpoint if !wants_checkpoint => {
                            return true;
                        }
                        Operation::Checkpoint => wants_checkpoint = false,
                        other => now = other.time().unwrap_or(now),
                    }
                    let at = offset.wall_time(now);
                    // Results of a call belong to it.
                    let ends = end.is_some_and(|end| end < at) && operation.time().is_some();
                    !ends && take(at, operation)
                });
                match read {
                    Ok(taken) => {
                        keep(&frame[..taken])?;
                        if taken < frame.len() {
                            return Ok(notes);
                        }
                    }
                    Err(error) => {
                        notes.push(format!("{}: {error}; what follows is not read", shown(path)));
                        return Ok(notes);
                    }
                }
            }
            match reader.ending() {
                Ending::Whole => {}
                Ending::Cut => notes.push(format!(
                    "{} is cut off; everything up to the last whole frame is read",
                    shown(path)
                )),
                Ending::Damaged => {
                    notes.push(format!("{} is damaged; what follows is not read", shown(path)));
                    break;
                }
            }
        }
        Ok(notes)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn open(path: &Path) -> anyhow::Result<(FileReader<BufReader<File>>, Header)> {
    let file = File::open(path).with_context(|| format!("cannot read {}", shown(path)))?;
    FileReader::open(BufReader::new(file)).with_context(|| shown(path))
}

fn is_empty(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<OpenError>(), Some(OpenError::Empty))
}
