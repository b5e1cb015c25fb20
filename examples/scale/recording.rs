//! The recording of a run, in one file.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use framework::Time;
use framework::preemption::LONGEST_PAUSE;
use loadmaster::config::{self, Gates};
use loadmaster::recorder::RecordedSetup;
use recording::{Compressor, Encoder, Header};

use crate::Args;

/// Bytes of a frame, as in the daemon.
pub(crate) const FRAME: usize = 64 << 10;

/// A file with a recording.
#[derive(Debug)]
pub(crate) struct Recording {
    file: File,
    compressor: Compressor,
    size: u64,
}

impl Recording {
    /// Creates the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: &Path, args: &Args) -> anyhow::Result<Self> {
        let loadmaster = env!("CARGO_PKG_VERSION").to_owned();
        let config = config::defaults(&Gates::default());
        let setup = RecordedSetup {
            minor: framework::Level::default().minor(),
            min_compatibility: None,
            started: Time::ZERO.to_string(),
            host: String::new(),
            configuration: RecordedSetup::recorded_configuration(&config),
            feature_gates: Vec::new(),
            adaptive_sampling: false,
            group_members_alone: false,
            rankings: !args.no_rankings,
            longest_preemption_pause: LONGEST_PAUSE,
            unschedulable_timeout: config.queue().max_in_unschedulable,
        };
        let setup = serde_json::to_value(setup).context("the setup cannot be written")?;
        let header = Header { loadmaster, file: 1, seed: args.seed, setup };
        let (compressor, bytes) = Compressor::begin(&header);
        let file = File::create(path).with_context(|| path.display().to_string())?;
        let mut recording = Self { file, compressor, size: 0 };
        recording.write(&bytes)?;
        Ok(recording)
    }

    /// Writes what was recorded, if it is at least this many bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep(&mut self, encoder: &mut Encoder, least: usize) -> anyhow::Result<()> {
        let Some(chunk) = encoder.take_if(least) else { return Ok(()) };
        let frame = self.compressor.frame(&chunk.bytes);
        self.write(&frame)
    }

    /// Returns the size of the file.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.size += bytes.len() as u64;
        self.file.write_all(bytes).context("cannot write the recording")
    }
}
