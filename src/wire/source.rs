//! Finds and reads the files with objects.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::{Fault, Location};

/// The name of standard input.
const STDIN: &str = "-";

/// Extensions of the files that are read in a folder, also before the extension of a compressed
/// file.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// Extensions of compressed files.
const COMPRESSED: [&str; 2] = ["gz", "zst"];
/// The first bytes of what gzip writes.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of what zstd writes.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The text of a file, with its name.
#[derive(Debug)]
pub struct Source {
    /// Path of the file as given; `-` for standard input.
    pub(crate) name: Arc<str>,
    /// The text.
    pub(crate) text: String,
}

/// Where objects come from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A file, a folder, or `-` for standard input.
    Path(PathBuf),
    /// A text that was read already, with a name for messages.
    Text(Arc<Source>),
}

impl Origin {
    /// Returns the origins of paths.
    pub fn of_paths(paths: &[PathBuf]) -> Vec<Self> {
        paths.iter().cloned().map(Self::Path).collect()
    }

    /// Returns the text.
    ///
    /// # Errors
    /// The file cannot be read, or is not a text.
    pub(crate) fn read(&self) -> Result<Arc<Source>, Fault> {
        match self {
            Self::Path(path) => read(path).map(Arc::new),
            Self::Text(source) => Ok(source.clone()),
        }
    }

    /// Returns a text as an origin.
    pub fn of_text(name: &str, text: String) -> Self {
        Self::Text(Arc::new(Source { name: name.into(), text }))
    }
}

/// Returns the origins without folders: a folder stands for the files in it and its subfolders,
/// sorted by name.
///
/// # Errors
/// A folder cannot be listed, or has no file to read.
pub(crate) fn files(origins: &[Origin]) -> Result<Vec<File>, Fault> {
    let mut files = Vec::new();
    for origin in origins {
        match origin {
            Origin::Path(path) if path.is_dir() => files.extend(of_folder(path)?),
            origin => files.push(File { origin: origin.clone(), is_of_folder: false }),
        }
    }
    Ok(files)
}

fn of_folder(path: &Path) -> Result<impl Iterator<Item = File>, Fault> {
    let mut files = Vec::new();
    list(path, &mut files).map_err(|error| fault(path, &error))?;
    if files.is_empty() {
        let message = "the folder holds no .yaml, .yml or .json file";
        return Err(Fault::new(Location::named(&path.display().to_string()), message));
    }
    let file = |path| File { origin: Origin::Path(path), is_of_folder: true };
    Ok(files.into_iter().map(file))
}

/// A file of the input.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) origin: Origin,
    /// Whether it is one of the files of a folder, and not given itself.
    pub(crate) is_of_folder: bool,
}

/// Adds the files of a folder. Links to files are followed; links to folders are not, because they
/// may form cycles.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<fs::DirEntry> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            list(&path, files)?;
        } else if has_objects(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether a file of this name is read in a folder.
fn has_objects(path: &Path) -> bool {
    let ending = |path: &Path| path.extension().and_then(|own| own.to_str()).map(str::to_owned);
    let own = ending(path);
    let is_compressed = own.as_deref().is_some_and(|own| COMPRESSED.contains(&own));
    let own = if is_compressed { ending(Path::new(&path.with_extension(""))) } else { own };
    own.is_some_and(|own| ENDINGS.contains(&own.as_str()))
}

/// Returns the content of a compressed file, known by its first bytes, and of any other as it is.
fn decompressed(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    if bytes.starts_with(&GZIP) {
        MultiGzDecoder::new(&*bytes).read_to_end(&mut content)?;
    } else if bytes.starts_with(&ZSTD) {
        let mut rest = &*bytes;
        while !rest.is_empty() {
            let decoder = StreamingDecoder::new(&mut rest);
            decoder.map_err(io::Error::other)?.read_to_end(&mut content)?;
        }
    } else {
        return Ok(bytes);
    }
    Ok(content)
}

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// The file cannot be read, or is not a text.
fn read(path: &Path) -> Result<Source, Fault> {
    let bytes = if path == Path::new(STDIN) { read_stdin() } else { fs::read(path) };
    let bytes = bytes.and_then(decompressed).map_err(|error| fault(path, &error))?;
    let name: Arc<str> = path.display().to_string().into();
    let text = yaml::text_of(bytes);
    let text = text.map_err(|error| Fault::new(Location::named(&name), error.to_string()))?;
    Ok(Source { name, text })
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn fault(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Location::named(&path.display().to_string()), error.to_string())
}
