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

/// Returns the files of the paths: a folder stands for the files in it and its subfolders, sorted
/// by name.
///
/// # Errors
/// A path does not exist or cannot be listed, or a folder has no file to read.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<File>, Fault> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(File { path: path.clone(), is_of_folder: false });
            continue;
        }
        let mut own = Vec::new();
        list(path, &mut own).map_err(|error| fault(path, &error))?;
        if own.is_empty() {
            let message = "the folder holds no .yaml, .yml or .json file";
            return Err(Fault::new(Location::named(&path.display().to_string()), message));
        }
        files.extend(own.into_iter().map(|path| File { path, is_of_folder: true }));
    }
    Ok(files)
}

/// A file of the input.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
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
/// The file cannot be read, or is no text.
pub(crate) fn read(path: &Path) -> Result<Source, Fault> {
    let bytes = if path == Path::new(STDIN) { read_stdin() } else { fs::read(path) };
    let bytes = bytes.map_err(|error| fault(path, &error))?;
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
