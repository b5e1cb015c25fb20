//! The writer of a recording: from chunks to files.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use recording::{Chunk, Compressor, Header};
use tracing::error;

use super::directory::{EXTENSION, Runs};
use super::{RecordedSetup, RecordingOptions};
use crate::metrics::Metrics;

/// Bytes after which the size of the directory is looked at.
const PRUNE_INTERVAL: u64 = 1 << 20;

/// Writes the files of one process. [`run`](Self::run) blocks, so it needs a separate thread.
pub struct Writer {
    directory: PathBuf,
    folder: PathBuf,
    limit: u64,
    header: Header,
    chunks: Receiver<Chunk>,
    metrics: Arc<Metrics>,
    current: Option<Current>,
}

/// The file that is being written.
struct Current {
    path: PathBuf,
    file: File,
    compressor: Compressor,
    /// Bytes since the size of the directory was looked at.
    since_prune: u64,
}

impl Writer {
    /// Creates the folder of this process.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(super) fn new(
        options: &RecordingOptions,
        setup: &RecordedSetup,
        seed: u64,
        chunks: Receiver<Chunk>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let directory = options.directory.clone();
        let folder = create_folder(&directory, &setup.folder_name())?;
        let loadmaster = env!("CARGO_PKG_VERSION").to_owned();
        let header = Header { loadmaster, file: 0, seed, setup: setup.to_value() };
        let limit = options.limit;
        Ok(Self { directory, folder, limit, header, chunks, metrics, current: None })
    }

    /// Returns the folder of this process.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes until the recorder is gone, or until an error, which is logged.
    pub fn run(mut self) {
        if let Err(failure) = self.write() {
            error!(
                folder = %self.folder.display(), err = %failure,
                "The recording ends: it cannot be written"
            );
            self.metrics.recording_ended("disk");
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while let Ok(chunk) = self.chunks.recv() {
            if chunk.starts {
                self.begin_file()?;
            }
            let Some(current) = &mut self.current else { continue };
            let frame = current.compressor.frame(&chunk.bytes);
            current.file.write_all(&frame)?;
            self.metrics.recorded(frame.len());
            current.since_prune += frame.len() as u64;
            if current.since_prune >= PRUNE_INTERVAL {
                self.prune()?;
            }
        }
        Ok(())
    }

    fn begin_file(&mut self) -> io::Result<()> {
        self.header.file += 1;
        let path = self.folder.join(format!("{:05}.{EXTENSION}", self.header.file));
        let (compressor, bytes) = Compressor::begin(&self.header);
        let mut file = File::create_new(&path)?;
        file.write_all(&bytes)?;
        self.metrics.recorded(bytes.len());
        self.current = Some(Current { path, file, compressor, since_prune: 0 });
        self.prune()
    }

    fn prune(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.since_prune = 0;
        Runs::of_directory(&self.directory)?.prune(self.limit, &current.path)?;
        Ok(())
    }
}

/// Creates a folder that only the user of this process can read. Another name is taken if the
/// folder exists.
fn create_folder(directory: &Path, name: &str) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut names = (2..1000).map(|number| format!("{name}-{number}"));
    let mut folder = directory.join(name);
    loop {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match names.next() {
                Some(name) => folder = directory.join(name),
                None => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
}
