//! Where the lines of the log go.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Where the lines go.
#[derive(Debug, Clone, Default)]
pub enum Streams {
    /// Every line goes to standard error.
    #[default]
    Single,
    /// Errors go to standard error, other lines to standard output.
    Split(Arc<Buffer>),
}

impl Streams {
    /// Errors to standard error, other lines to standard output, of which up to `buffer_size` bytes
    /// are kept back.
    pub fn split(buffer_size: usize) -> Self {
        Self::Split(Arc::new(Buffer { size: buffer_size, kept: Mutex::default() }))
    }

    /// Writes the lines that are kept back. A failure is ignored: there is nowhere to report it.
    pub fn flush(&self) {
        if let Self::Split(buffer) = self {
            let _ = buffer.flush();
        }
    }

    /// Writes the lines that are kept back, again and again after this time.
    pub async fn flush_every(self, time: Duration) {
        let Self::Split(buffer) = self else { return };
        while !time.is_zero() {
            tokio::time::sleep(time).await;
            let _ = buffer.flush();
        }
    }
}

/// Lines that are not yet written to standard output.
pub struct Buffer {
    /// Number of bytes that may be kept back.
    size: usize,
    kept: Mutex<Vec<u8>>,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Buffer {
    fn add(&self, line: &[u8]) -> io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(line);
        if kept.len() > self.size { write_out(&mut kept) } else { Ok(()) }
    }

    fn flush(&self) -> io::Result<()> {
        write_out(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn write_out(kept: &mut Vec<u8>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let written = output.write_all(kept).and_then(|()| output.flush());
    kept.clear();
    written
}

/// The stream of one line.
#[derive(Debug)]
pub enum Stream {
    /// Standard error.
    Errors(io::Stderr),
    /// Standard output.
    Output(Arc<Buffer>),
}

impl Write for Stream {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self {
            Self::Errors(errors) => errors.write(line),
            Self::Output(buffer) => buffer.add(line).map(|()| line.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Errors(errors) => errors.flush(),
            Self::Output(buffer) => buffer.flush(),
        }
    }
}

impl MakeWriter<'_> for Streams {
    type Writer = Stream;

    fn make_writer(&self) -> Stream {
        Stream::Errors(io::stderr())
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> Stream {
        match self {
            Self::Split(buffer) if *event.level() != Level::ERROR => Stream::Output(buffer.clone()),
            _ => self.make_writer(),
        }
    }
}
