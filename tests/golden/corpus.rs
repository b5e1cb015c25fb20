//! Reads a folder of cases.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

/// An error of a corpus.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CorpusError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{0} holds no .jsonl or .jsonl.gz file")]
    Empty(PathBuf),
    #[error("{folder} has no area {area:?}; it has {}", known.join(", "))]
    NoArea { folder: PathBuf, area: String, known: Vec<String> },
    #[error("{folder} has area {area} twice: as .jsonl and as .jsonl.gz")]
    Twice { folder: PathBuf, area: String },
    #[error("{path}, line {line}: {message}")]
    Line { path: PathBuf, line: usize, message: String },
    #[error("no case is called {0:?}")]
    NoCase(String),
}

/// One file of cases.
pub(crate) struct Area {
    /// Name of the file, without extensions.
    pub(crate) name: String,
    /// One JSON object per line, each with an `id`.
    pub(crate) cases: Vec<Value>,
}

/// Reads the wanted areas of `folder`, or all if none is given.
pub(crate) fn read(folder: &Path, wanted: &[String]) -> Result<Vec<Area>, CorpusError> {
    let files = list(folder)?;
    if let Some(area) = wanted.iter().find(|area| files.iter().all(|(name, _)| name != *area)) {
        let known = files.into_iter().map(|(name, _)| name).collect();
        return Err(CorpusError::NoArea { folder: folder.into(), area: area.clone(), known });
    }
    let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
    files
        .into_iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, path)| Ok(Area { name, cases: cases(&path)? }))
        .collect()
}

/// Returns the areas and their files, sorted by area.
fn list(folder: &Path) -> Result<Vec<(String, PathBuf)>, CorpusError> {
    let unreadable = |source| CorpusError::Read { path: folder.into(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let area = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".jsonl");
        if let Some(area) = area.map(str::to_owned) {
            files.push((area, path));
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(CorpusError::Empty(folder.into()));
    }
    match files.array_windows().find(|[a, b]| a.0 == b.0) {
        Some([(area, _), _]) => {
            Err(CorpusError::Twice { folder: folder.into(), area: area.clone() })
        }
        None => Ok(files),
    }
}

fn cases(path: &Path) -> Result<Vec<Value>, CorpusError> {
    let unreadable = |source| CorpusError::Read { path: path.into(), source };
    let file = File::open(path).map_err(unreadable)?;
    let text: Box<dyn Read> = match path.extension() {
        Some(extension) if extension == "gz" => Box::new(GzDecoder::new(file)),
        _ => Box::new(file),
    };
    let mut cases = Vec::new();
    for (place, line) in BufReader::new(text).lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let case = parse(&line);
        cases.push(case.map_err(|message| CorpusError::Line {
            path: path.into(),
            line: place + 1,
            message,
        })?);
    }
    Ok(cases)
}

fn parse(line: &str) -> Result<Value, String> {
    let case: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if case["id"].is_string() { Ok(case) } else { Err("a case is an object with an id".to_owned()) }
}
