//! The flight recorder: a directory with what entered and left the engine.
//!
//! Each process writes into its own folder, named by its start. The folder has files of whole
//! frames ([`recording::FileReader`]). The oldest files are removed when all folders together
//! exceed a limit.
//!
//! The scheduling loop hands chunks to a writer through a bounded channel and never waits for it. A
//! recording that cannot go on, because the disk is full or too slow, ends with a line in the log
//! and a metric; scheduling goes on.

mod checkpoints;
mod directory;
mod setup;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use engine::Engine;
use framework::Time;
use recording::{Chunk, Encoder};
use tracing::{error, info};

use self::checkpoints::Checkpoints;
pub use self::directory::{EXTENSION, RunFiles, Runs};
pub use self::setup::{RecordedSetup, SetupError};
pub use self::writer::Writer;
use crate::metrics::Metrics;

/// Bytes after which a frame is written.
const FRAME: usize = 64 << 10;
/// Longest time until what happened is handed to the writer, while the loop turns.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of frames that wait for the writer.
const MAX_WAITING: usize = 256;
/// The smallest and largest number of bytes, before compression, after which a new file begins.
const FILE_SIZES: (u64, u64) = (64 << 10, 256 << 20);

/// The settings of `--record`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingOptions {
    /// The directory.
    pub directory: PathBuf,
    /// Maximum size of all files, in bytes.
    pub limit: u64,
    /// The feature gates as given on the command line, which a replay needs.
    pub feature_gates: Vec<String>,
}

impl RecordingOptions {
    /// Returns an encoder for files that are small compared with the limit.
    pub fn encoder(&self) -> Encoder {
        let (smallest, largest) = FILE_SIZES;
        let size = (self.limit / 4).clamp(smallest, largest);
        Encoder::new(usize::try_from(size).unwrap_or(usize::MAX))
    }
}

/// The end of the recording in the scheduling loop.
#[derive(Debug)]
pub struct Recorder {
    sender: SyncSender<Chunk>,
    last_flush: Time,
    metrics: Arc<Metrics>,
    checkpoints: Checkpoints,
}

impl Recorder {
    /// Creates a recorder, and the receiver for its writer.
    pub fn new(metrics: Arc<Metrics>) -> (Self, Receiver<Chunk>) {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let checkpoints = Checkpoints::default();
        (Self { sender, last_flush: Time::ZERO, metrics, checkpoints }, receiver)
    }

    /// Hands over what was recorded, if it is much or old. Returns whether the recording goes on.
    pub fn advance(&mut self, engine: &Engine, encoder: &mut Encoder, now: Time) -> bool {
        let is_due = now.since(self.last_flush) >= FLUSH_INTERVAL;
        if is_due {
            self.last_flush = now;
        }
        self.checkpoints.advance(engine, encoder, now);
        self.hand_over(encoder, if is_due { 0 } else { FRAME })
    }

    /// Whether the next turn of the loop has nothing to write but what happens until then.
    pub const fn is_idle(&self) -> bool {
        self.checkpoints.is_idle()
    }

    /// Hands over what was recorded last.
    pub fn finish(mut self, encoder: &mut Encoder) {
        self.hand_over(encoder, 0);
    }

    fn hand_over(&mut self, encoder: &mut Encoder, least: usize) -> bool {
        let Some(chunk) = encoder.take_if(least) else { return true };
        if encoder.starts() {
            self.checkpoints.begin();
        }
        match self.sender.try_send(chunk) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                error!("The recording ends: the disk is slower than what there is to record");
                self.metrics.recording_ended("backlog");
                false
            }
            // The writer has logged why it ended.
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

/// The two ends of a recording: in the scheduling loop, and on the thread that writes.
pub type Recording = (Recorder, Writer);

/// Begins a recording. An error is logged, and nothing is recorded.
pub fn begin(
    options: &RecordingOptions,
    setup: &RecordedSetup,
    seed: u64,
    metrics: &Arc<Metrics>,
) -> Option<Recording> {
    let (recorder, chunks) = Recorder::new(metrics.clone());
    match Writer::new(options, setup, seed, chunks, metrics.clone()) {
        Ok(writer) => {
            info!(folder = %writer.folder().display(), "Recording what enters and leaves the scheduler");
            Some((recorder, writer))
        }
        Err(failure) => {
            error!(
                directory = %options.directory.display(), err = %failure,
                "Nothing is recorded: the directory of --record cannot be used"
            );
            metrics.recording_ended("disk");
            None
        }
    }
}
