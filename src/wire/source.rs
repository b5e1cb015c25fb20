//! Finds and reads the files with objects.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::{Fault, Location};

/// The name of standard input.
const STDIN: &str = "-";

/// Extensions of the files that are read in a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The text of a file, with its name.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path of the file as given; `-` for standard input.
    pub(crate) name: Arc<str>,
    /// The text.
    pub(crate) text: String,
}

impl Source {
    /// Returns the extension of the name, if it has one.
    pub(crate) fn extension(&self) -> Option<&str> {
        Path::new(&*self.name).extension()?.to_str()
    }
}

/// Returns the files of the paths: a folder stands for the files in it and its subfolders, sorted
/// by name.
///
/// # Errors
/// A path does not exist or cannot be listed, or a folder has no file to read.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Fault> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        list(path, &mut files).map_err(|error| fault(path, &error))?;
        if files.len() == before {
            let message = "the folder holds no .yaml, .yml or .json file";
            return Err(Fault::new(Location::named(&path.display().to_string()), message));
        }
    }
    Ok(files)
}

/// Adds the files of a folder. Links to files are followed; links to folders are not, because they
/// may form cycles.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<fs::DirEntry> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if entry.file_type()?.is_dir() {
            list(&path, files)?;
        } else if ending.is_some_and(|ending| ENDINGS.contains(&ending)) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub(crate) fn read(path: &Path) -> Result<Source, Fault> {
    let bytes = if path == Path::new(STDIN) { read_stdin() } else { fs::read(path) };
    let bytes = bytes.map_err(|error| fault(path, &error))?;
    let name: Arc<str> = path.display().to_string().into();
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(&name, error.as_bytes()))?;
    Ok(Source { name, text })
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn not_utf8(name: &str, bytes: &[u8]) -> Fault {
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let message = match utf16 {
        true => "is UTF-16, as `>` of older PowerShells writes it; expected UTF-8",
        false => "is not UTF-8 text",
    };
    Fault::new(Location::named(name), message)
}

fn fault(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Location::named(&path.display().to_string()), error.to_string())
}
