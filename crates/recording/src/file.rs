//! Files of a recording.
//!
//! A file begins with a line of text that has the version of the format. Frames follow: the length
//! of the frame (4 bytes, little-endian), its CRC-32 (4 bytes), its bytes. The bytes of all frames
//! are one deflate stream, which is flushed at the end of each frame, so that a file that was cut
//! off can be read up to its last whole frame. Each frame has the length of its content (4 bytes)
//! and then the content. The content of the first is the [`Header`] as JSON; of each other one, a
//! chunk of operations.

use std::io::{self, BufRead, Read};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format.
pub const VERSION: u32 = 6;

const MAGIC: &str = "loadmaster recording ";
/// Maximum size of a frame, compressed and not.
const FRAME_MAX: usize = 256 << 20;

/// The data that a replay needs beside the operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Version of the program that recorded.
    pub loadmaster: String,
    /// Number of the file in its run, from 1.
    pub file: u32,
    /// The seed of the engine.
    pub seed: u64,
    /// The configuration and the flags of the engine, without secrets.
    pub setup: Value,
}

/// Compresses the content of one file.
#[derive(Debug)]
pub struct Compressor(Compress);

impl Compressor {
    /// Begins a file. Returns its first bytes.
    pub fn begin(header: &Header) -> (Self, Vec<u8>) {
        let mut own = Self(Compress::new(Compression::new(LEVEL), false));
        let mut bytes = format!("{MAGIC}{VERSION}\n").into_bytes();
        bytes.extend(own.frame(header_json(header).as_bytes()));
        (own, bytes)
    }

    /// Returns the frame for a chunk of operations.
    pub fn frame(&mut self, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let mut frame = Vec::with_capacity(content.len() / 4 + 64);
        frame.extend([0; 8]);
        self.compress(&length.to_le_bytes(), FlushCompress::None, &mut frame);
        self.compress(content, FlushCompress::Sync, &mut frame);
        let length = u32::try_from(frame.len() - 8).unwrap_or(u32::MAX);
        let crc = crc32fast::hash(&frame[8..]);
        frame[..4].copy_from_slice(&length.to_le_bytes());
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        frame
    }

    fn compress(&mut self, content: &[u8], flush: FlushCompress, frame: &mut Vec<u8>) {
        let mut rest = content;
        loop {
            frame.reserve(rest.len() / 4 + 64);
            let before = self.0.total_in();
            // Compression fails only if the stream was ended.
            let _ = self.0.compress_vec(rest, frame, flush);
            let taken = usize::try_from(self.0.total_in() - before).unwrap_or(rest.len());
            rest = &rest[taken.min(rest.len())..];
            if rest.is_empty() && frame.len() < frame.capacity() {
                return;
            }
        }
    }
}

/// The level of compression. The format leaves little to compress: the highest level saves 4 % for
/// five times the time.
const LEVEL: u32 = 1;

fn header_json(header: &Header) -> String {
    serde_json::to_string(header).unwrap_or_default()
}

/// Why a file is not a recording that this program can read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is empty, or ends before its first operation.
    #[error("the file ends before its first operation")]
    Empty,
    /// The file is something else.
    #[error("the file is no recording of Loadmaster")]
    Foreign,
    /// The file has the format of another version.
    #[error("the recording has format {0}, and this version of Loadmaster reads format {VERSION}")]
    OtherFormat(u32),
    /// The header cannot be read.
    #[error("the header of the recording is damaged")]
    Header,
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// At the end of a frame.
    Whole,
    /// In the middle of a frame: the process was killed, or the disk was full.
    Cut,
    /// With a frame that is not what was written.
    Damaged,
}

/// Reads one file.
#[derive(Debug)]
pub struct FileReader<R> {
    input: R,
    inflate: Decompress,
    ending: Option<Ending>,
}

impl<R: BufRead> FileReader<R> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file is not a recording, or of another format.
    pub fn open(input: R) -> Result<(Self, Header), OpenError> {
        let mut input = input;
        let mut line = Vec::new();
        (&mut input).take(64).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(OpenError::Empty);
        }
        let text = std::str::from_utf8(&line).map_err(|_| OpenError::Foreign)?;
        let Some(rest) = text.strip_prefix(MAGIC) else {
            return Err(match MAGIC.starts_with(text) {
                true => OpenError::Empty,
                false => OpenError::Foreign,
            });
        };
        let Some(number) = rest.strip_suffix('\n') else { return Err(OpenError::Empty) };
        let version: u32 = number.parse().map_err(|_| OpenError::Foreign)?;
        if version != VERSION {
            return Err(OpenError::OtherFormat(version));
        }
        let mut reader = Self { input, inflate: Decompress::new(false), ending: None };
        let Some(header) = reader.next_frame()? else {
            return Err(match reader.ending {
                Some(Ending::Damaged) => OpenError::Header,
                _ => OpenError::Empty,
            });
        };
        let header = serde_json::from_slice(&header).map_err(|_| OpenError::Header)?;
        Ok((reader, header))
    }

    /// Returns the next chunk of operations, or `None` at the end of what can be read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let frame = self.read_frame()?;
        Ok(frame.map_err(|ending| self.ending = Some(ending)).ok())
    }

    /// Returns how the file ends, once [`next_frame`](Self::next_frame) has returned `None`.
    pub fn ending(&self) -> Ending {
        self.ending.unwrap_or(Ending::Whole)
    }

    fn read_frame(&mut self) -> io::Result<Result<Vec<u8>, Ending>> {
        let mut head = Vec::new();
        (&mut self.input).take(8).read_to_end(&mut head)?;
        let Ok(head) = <[u8; 8]>::try_from(&*head) else {
            return Ok(Err(if head.is_empty() { Ending::Whole } else { Ending::Cut }));
        };
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let crc = u32::from_le_bytes([e, f, g, h]);
        if length > FRAME_MAX {
            return Ok(Err(Ending::Damaged));
        }
        let mut packed = Vec::new();
        (&mut self.input).take(length as u64).read_to_end(&mut packed)?;
        if packed.len() < length {
            return Ok(Err(Ending::Cut));
        }
        if crc32fast::hash(&packed) != crc {
            return Ok(Err(Ending::Damaged));
        }
        Ok(self.inflate(&packed).ok_or(Ending::Damaged))
    }

    /// Decompresses a frame, which says how long its content is.
    fn inflate(&mut self, packed: &[u8]) -> Option<Vec<u8>> {
        let mut content = Vec::with_capacity(4096);
        let mut rest = packed;
        loop {
            content.reserve(4096.max(rest.len()));
            let before = (self.inflate.total_in(), content.len());
            let status =
                self.inflate.decompress_vec(rest, &mut content, FlushDecompress::Sync).ok()?;
            let taken = usize::try_from(self.inflate.total_in() - before.0).ok()?;
            rest = rest.get(taken..)?;
            let is_full = content.len() == content.capacity();
            if content.len() > FRAME_MAX || status == Status::StreamEnd {
                return None;
            }
            if !is_full && (rest.is_empty() || (taken == 0 && content.len() == before.1)) {
                break;
            }
        }
        let (length, chunk) = content.split_first_chunk::<4>()?;
        (u32::from_le_bytes(*length) as usize == chunk.len() && rest.is_empty())
            .then(|| chunk.to_vec())
    }
}
