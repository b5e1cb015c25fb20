//! Recordings of the processes: each decides the same again when it is replayed.

use control::scheduler::Scheduler;
use engine::Input;
use recording::{Chunk, Compressor, Encoder, Ending, FileReader, Header, Operation, Replayer};

use super::replica::{Kind, new_engine};
use super::rules::{Checked, rule};

/// Bytes after which a file ends, so that a run has several.
const FILE: usize = 200_000;
/// Bytes of a frame.
const FRAME: usize = 4096;

/// Returns an encoder whose files are small.
pub(crate) fn encoder() -> Encoder {
    Encoder::new(FILE)
}

/// The recording of one process.
pub(crate) struct Recording {
    seed: u64,
    kind: Kind,
    compressor: Option<Compressor>,
    files: Vec<Vec<u8>>,
}

impl Recording {
    /// Begins the recording of a process with an engine of this seed.
    pub(crate) const fn new(seed: u64, kind: Kind) -> Self {
        Self { seed, kind, compressor: None, files: Vec::new() }
    }

    /// Keeps what was recorded, if it fills a frame.
    pub(crate) fn keep(&mut self, scheduler: &mut Scheduler) {
        self.take(scheduler, FRAME);
    }

    /// Keeps what was recorded last.
    pub(crate) fn end(&mut self, scheduler: &mut Scheduler) {
        self.take(scheduler, 0);
    }

    fn take(&mut self, scheduler: &mut Scheduler, least: usize) {
        let chunk = scheduler.recording().and_then(|(_, encoder)| encoder.take_if(least));
        chunk.iter().for_each(|chunk| self.write(chunk));
    }

    fn write(&mut self, chunk: &Chunk) {
        if chunk.starts {
            let file = u32::try_from(self.files.len() + 1).expect("the files are few");
            let header = Header {
                loadmaster: String::new(),
                file,
                seed: self.seed,
                setup: serde_json::Value::Null,
            };
            let (compressor, bytes) = Compressor::begin(&header);
            self.compressor = Some(compressor);
            self.files.push(bytes);
        }
        if let (Some(compressor), Some(file)) = (&mut self.compressor, self.files.last_mut()) {
            file.extend(compressor.frame(&chunk.bytes));
        }
    }

    /// Returns the size of the files.
    pub(crate) fn size(&self) -> usize {
        self.files.iter().map(Vec::len).sum()
    }

    /// Checks that an engine that gets the same makes the same decisions. Returns the number of
    /// changes.
    ///
    /// # Errors
    /// A decision differs, or a file cannot be read.
    pub(crate) fn replays(&self) -> Result<u64, String> {
        let mut replayer = Replayer::new(new_engine(self.seed, self.kind));
        let mut decoder = recording::Decoder::default();
        let mut changes = 0;
        for file in &self.files {
            let opened = FileReader::open(&**file).map_err(|error| error.to_string())?;
            let (mut reader, header) = opened;
            is_same_seed(&header, self.seed)?;
            while let Some(frame) = reader.next_frame().map_err(|error| error.to_string())? {
                let mut outcome = Ok(());
                let read = decoder.read(&frame, |operation| {
                    changes += u64::from(is_change(&operation));
                    outcome = replayer.step(operation);
                    outcome.is_ok()
                });
                read.map_err(|error| error.to_string())?;
                outcome.map_err(|difference| difference.to_string())?;
            }
            rule(reader.ending() == Ending::Whole, || "a recording ends in between".to_owned())?;
        }
        replayer.finish().map_err(|difference| difference.to_string())?;
        Ok(changes)
    }
}

fn is_change(operation: &Operation) -> bool {
    matches!(operation, Operation::Input { input: Input::Change(_), .. })
}

fn is_same_seed(header: &Header, seed: u64) -> Checked {
    rule(header.seed == seed, || "the header has another seed".to_owned())
}
