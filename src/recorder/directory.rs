//! The directory of recordings: a folder for each process, with numbered files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Extension of the files of a recording.
pub const EXTENSION: &str = "rec";

/// The files of one process, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFiles {
    /// Name of the folder, which begins with the start of the process.
    pub name: String,
    /// The files with their sizes in bytes.
    pub files: Vec<FileSize>,
}

/// The recordings in a directory, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(pub Vec<RunFiles>);

impl Runs {
    /// Finds recordings: in a directory of `--record`, in the folder of one process, or a single
    /// file. A file whose name is not a number is another recording.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn find(path: &Path) -> io::Result<Self> {
        let meta = fs::metadata(path)?;
        if meta.is_file() {
            let files = vec![(path.to_owned(), meta.len())];
            return Ok(Self(vec![RunFiles { name: name_of(path), files }]));
        }
        let (numbered, others) = files_of(path)?;
        let mut runs = Vec::new();
        if !numbered.is_empty() {
            runs.push(RunFiles { name: name_of(path), files: numbered });
        }
        let others = others.into_iter();
        runs.extend(others.map(|file| RunFiles { name: name_of(&file.0), files: vec![file] }));
        runs.extend(Self::of_directory(path)?.0);
        Ok(Self(runs))
    }

    /// Finds the folders of processes in a directory of `--record`.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub(super) fn of_directory(directory: &Path) -> io::Result<Self> {
        let mut runs = Vec::new();
        for folder in sorted(directory)? {
            if folder.is_dir() {
                let (files, _) = files_of(&folder)?;
                if !files.is_empty() {
                    runs.push(RunFiles { name: name_of(&folder), files });
                }
            }
        }
        Ok(Self(runs))
    }

    /// Removes the oldest files until all together are at most `limit` bytes, but not `current`.
    /// Returns the size that is left.
    pub(super) fn prune(&self, limit: u64, current: &Path) -> io::Result<u64> {
        let all = || self.0.iter().flat_map(|run| &run.files);
        let mut total: u64 = all().map(|(_, size)| size).sum();
        for (path, size) in all() {
            if total <= limit {
                break;
            }
            if path == current {
                continue;
            }
            fs::remove_file(path)?;
            total -= size;
            if let Some(folder) = path.parent().filter(|folder| current.parent() != Some(*folder)) {
                // Fails while the folder has other files.
                let _ = fs::remove_dir(folder);
            }
        }
        Ok(total)
    }
}

/// A file and its size in bytes.
type FileSize = (PathBuf, u64);

/// Returns the recordings in a folder: those whose names are numbers, and the others.
fn files_of(folder: &Path) -> io::Result<(Vec<FileSize>, Vec<FileSize>)> {
    let mut files = Vec::new();
    for path in sorted(folder)? {
        if path.extension() == Some(OsStr::new(EXTENSION)) {
            let meta = fs::metadata(&path)?;
            if meta.is_file() {
                files.push((path, meta.len()));
            }
        }
    }
    let is_numbered = |(path, _): &FileSize| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        stem.bytes().all(|byte| byte.is_ascii_digit())
    };
    Ok(files.into_iter().partition(is_numbered))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_files_are_removed_first_and_others_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, size) in [("a/1.rec", 10), ("a/2.rec", 10), ("b/1.rec", 10), ("b/2.rec", 10)] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), vec![0; size]).unwrap();
        }
        fs::write(path("note.txt"), [0; 100]).unwrap();
        fs::write(path("kept.rec"), [0; 100]).unwrap();
        let prune = |limit, current: &str| {
            let runs = Runs::of_directory(directory.path()).unwrap();
            let left = runs.prune(limit, &path(current)).unwrap();
            let runs = Runs::find(directory.path()).unwrap();
            let folders = runs.0.iter().filter(|run| run.name != "kept.rec");
            let names = folders.map(|run| (run.name.clone(), run.files.len())).collect();
            (left, names)
        };
        let names = |list: &[(&str, usize)]| -> Vec<(String, usize)> {
            list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        assert_eq!(prune(40, "b/2.rec"), (40, names(&[("a", 2), ("b", 2)])));
        assert_eq!(prune(30, "b/2.rec"), (30, names(&[("a", 1), ("b", 2)])));
        assert_eq!(prune(15, "b/2.rec"), (10, names(&[("b", 1)])));
        assert_eq!(prune(0, "b/2.rec"), (10, names(&[("b", 1)])));
        assert!(path("note.txt").exists() && path("kept.rec").exists() && !path("a").exists());
    }
}
