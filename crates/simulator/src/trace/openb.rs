//! Reading the Alibaba GPU trace of 2023 (cluster-trace-gpu-v2023, "openb").
//!
//! A trace has a node file and a pod file, both CSV, whose columns are found by name. Some
//! published pod files have only the first five columns: the requests, without model, class and
//! times.
//!
//! A value that cannot be used is an error with file, line, column and expectation; reading stops
//! at the first one. A value that is usable but probably a mistake is a [`Warning`].

use std::collections::HashMap;
use std::path::Path;
use std::{fmt, fs, io};

use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{MILLI_PER_GPU, Trace, TraceNode, TracePod};

/// Maximum CPU of a row: a million cores. The maximums keep sums over a file far from overflow.
const MAX_CPU_MILLI: u64 = 1_000_000_000;
/// Maximum memory of a row: one PiB.
const MAX_MEMORY_MIB: u64 = 1 << 30;
const MOST_GPUS: u64 = 1_000_000;
/// Maximum time: about 31,000 years.
const MAX_SECONDS: u64 = 1_000_000_000_000;

/// The reason a trace cannot be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The file could not be opened or read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The header lacks columns.
    #[error("{file} line {line}: missing column {}: found {found:?}", .missing.join(", "))]
    MissingColumns {
        /// The file.
        file: String,
        /// Line of the header.
        line: u64,
        /// The columns that are missing.
        missing: Vec<&'static str>,
        /// The header as written.
        found: String,
    },
    /// The header names one column twice.
    #[error("{file} line {line}: column {column} is repeated")]
    RepeatedColumn {
        /// The file.
        file: String,
        /// Line of the header.
        line: u64,
        /// The column.
        column: &'static str,
    },
    /// A line is not a row of the table.
    #[error("{file} line {line}: {problem}")]
    Row {
        /// The file.
        file: String,
        /// Line on which the row begins.
        line: u64,
        /// A description of the problem.
        problem: String,
    },
    /// A value cannot be used.
    #[error("{file} line {line}: {field}: expected {expected}, found {found:?}")]
    Field {
        /// The file.
        file: String,
        /// Line on which the row begins.
        line: u64,
        /// The column.
        field: &'static str,
        /// The expected value.
        expected: String,
        /// The found value.
        found: String,
    },
    /// The file has a header but no rows.
    #[error("{file}: no rows below the header")]
    NoRows {
        /// The file.
        file: String,
    },
}

/// A usable value in a file that is probably a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub file: String,
    /// Line on which the row begins.
    pub line: u64,
    /// The column.
    pub field: &'static str,
    /// The problem and its consequence.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {}: {}", self.file, self.line, self.field, self.message)
    }
}

/// A parsed value, and the warnings in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed<T> {
    /// The parsed value.
    pub value: T,
    /// The warnings.
    pub warnings: Vec<Warning>,
}

/// Reads a trace from its two files.
///
/// # Errors
/// A file cannot be read, or it contains a value that cannot be used.
pub fn load(nodes: &Path, pods: &Path) -> Result<Parsed<Trace>, Error> {
    let nodes = load_file(nodes, read_nodes)?;
    let pods = load_file(pods, read_pods)?;
    let mut warnings = nodes.warnings;
    warnings.extend(pods.warnings);
    Ok(Parsed { value: Trace { nodes: nodes.value, pods: pods.value }, warnings })
}

fn load_file<T>(
    path: &Path,
    read: impl FnOnce(&str, &[u8]) -> Result<Parsed<T>, Error>,
) -> Result<Parsed<T>, Error> {
    let file = path.display().to_string();
    match fs::read(path) {
        Ok(text) => read(&file, &text),
        Err(source) => Err(Error::Io { file, source }),
    }
}

/// Reads the text of a node file; `file` is its name in messages.
///
/// # Errors
/// The text contains a value that cannot be used.
pub fn read_nodes(file: &str, text: &[u8]) -> Result<Parsed<Vec<TraceNode>>, Error> {
    read(file, text)
}

/// Reads the text of a pod file; `file` is its name in messages.
///
/// # Errors
/// The text contains a value that cannot be used.
pub fn read_pods(file: &str, text: &[u8]) -> Result<Parsed<Vec<TracePod>>, Error> {
    read(file, text)
}

/// A column: its name, whether it is required, and a description of its values for messages.
struct Column {
    name: &'static str,
    required: bool,
    holds: &'static str,
}

const fn required(name: &'static str, holds: &'static str) -> Column {
    Column { name, required: true, holds }
}

const fn optional(name: &'static str, holds: &'static str) -> Column {
    Column { name, required: false, holds }
}

const CPU_MILLI: Column = required("cpu_milli", "a whole number of thousandths of a core");
const MEMORY_MIB: Column = required("memory_mib", "a whole number of MiB");
const SECONDS: &str = "a whole number of seconds since the trace began";

/// A type of row.
trait FromRow: Sized {
    /// The row as written in the file.
    type Raw: DeserializeOwned;
    /// The columns that are read; others are ignored.
    const COLUMNS: &'static [Column];
    /// Checks the row and converts it.
    fn from_row(raw: Self::Raw, row: &mut Row<'_>) -> Result<Self, Error>;
}

#[derive(Deserialize)]
struct RawNode {
    sn: String,
    cpu_milli: u64,
    memory_mib: u64,
    gpu: u64,
    model: Option<String>,
}

impl FromRow for TraceNode {
    type Raw = RawNode;

    const COLUMNS: &'static [Column] = &[
        required("sn", "the name of the node"),
        CPU_MILLI,
        MEMORY_MIB,
        required("gpu", "a whole number of devices"),
        required("model", "the model of the devices, or nothing"),
    ];

    fn from_row(raw: RawNode, row: &mut Row<'_>) -> Result<Self, Error> {
        row.check_name("sn", &raw.sn)?;
        row.at_most("cpu_milli", raw.cpu_milli, MAX_CPU_MILLI)?;
        row.at_most("memory_mib", raw.memory_mib, MAX_MEMORY_MIB)?;
        row.at_most("gpu", raw.gpu, MOST_GPUS)?;
        if raw.cpu_milli == 0 {
            row.warn("cpu_milli", "the node has no CPU, so hardly any pod fits there");
        }
        if raw.memory_mib == 0 {
            row.warn("memory_mib", "the node has no memory, so hardly any pod fits there");
        }
        if raw.gpu > 0 && raw.model.is_none() {
            row.warn("model", "devices without a model: pods that ask for a model avoid the node");
        }
        Ok(Self {
            name: raw.sn,
            cpu_milli: raw.cpu_milli,
            memory_mib: raw.memory_mib,
            gpus: raw.gpu,
            model: raw.model,
        })
    }
}

#[derive(Deserialize)]
struct RawPod {
    name: String,
    cpu_milli: u64,
    memory_mib: u64,
    num_gpu: u64,
    gpu_milli: u64,
    gpu_spec: Option<String>,
    qos: Option<String>,
    pod_phase: Option<String>,
    creation_time: Option<u64>,
    deletion_time: Option<u64>,
    scheduled_time: Option<u64>,
}

impl FromRow for TracePod {
    type Raw = RawPod;

    const COLUMNS: &'static [Column] = &[
        required("name", "the name of the pod"),
        CPU_MILLI,
        MEMORY_MIB,
        required("num_gpu", "a whole number of devices"),
        required("gpu_milli", "a whole number of thousandths of a device"),
        optional("gpu_spec", "models separated by '|', or nothing"),
        optional("qos", "a class, or nothing"),
        optional("pod_phase", "a phase, or nothing"),
        optional("creation_time", SECONDS),
        optional("deletion_time", SECONDS),
        optional("scheduled_time", SECONDS),
    ];

    fn from_row(raw: RawPod, row: &mut Row<'_>) -> Result<Self, Error> {
        row.check_name("name", &raw.name)?;
        row.at_most("cpu_milli", raw.cpu_milli, MAX_CPU_MILLI)?;
        row.at_most("memory_mib", raw.memory_mib, MAX_MEMORY_MIB)?;
        row.at_most("num_gpu", raw.num_gpu, MOST_GPUS)?;
        row.at_most("gpu_milli", raw.gpu_milli, MILLI_PER_GPU)?;
        if (raw.num_gpu == 0) != (raw.gpu_milli == 0) {
            let (devices, share) = (raw.num_gpu, raw.gpu_milli);
            let message = format!("{devices} devices, {share} milli of each: this asks for no GPU");
            row.warn("gpu_milli", message);
        }
        check_times(&raw, row)?;
        Ok(Self {
            models: models(raw.gpu_spec.as_deref(), row)?,
            name: raw.name,
            cpu_milli: raw.cpu_milli,
            memory_mib: raw.memory_mib,
            gpus: raw.num_gpu,
            gpu_milli: raw.gpu_milli,
            qos: raw.qos,
            phase: raw.pod_phase,
            created: raw.creation_time,
            deleted: raw.deletion_time,
            scheduled: raw.scheduled_time,
        })
    }
}

fn models(spec: Option<&str>, row: &Row<'_>) -> Result<Vec<String>, Error> {
    let Some(spec) = spec else { return Ok(Vec::new()) };
    let models: Vec<String> = spec.split('|').map(|model| model.trim().to_owned()).collect();
    if models.iter().any(String::is_empty) {
        return Err(row.unexpected("gpu_spec", "models separated by '|', or nothing"));
    }
    Ok(models)
}

/// Checks that times are in range and that no pod leaves before it arrives. Warns about a pod that
/// was scheduled before it was created.
fn check_times(raw: &RawPod, row: &mut Row<'_>) -> Result<(), Error> {
    for (field, time) in [
        ("creation_time", raw.creation_time),
        ("deletion_time", raw.deletion_time),
        ("scheduled_time", raw.scheduled_time),
    ] {
        row.at_most(field, time.unwrap_or_default(), MAX_SECONDS)?;
    }
    match (raw.creation_time, raw.deletion_time) {
        (Some(created), Some(deleted)) if deleted < created => {
            let expected = format!("a time not before the creation_time {created}");
            return Err(row.unexpected("deletion_time", expected));
        }
        (None, Some(_)) => {
            return Err(row.unexpected("creation_time", "a time, as there is a deletion_time"));
        }
        _ => {}
    }
    if raw.scheduled_time.is_some_and(|scheduled| Some(scheduled) < raw.creation_time) {
        row.warn(
            "scheduled_time",
            "the pod was placed before it was created; this time is not used",
        );
    }
    Ok(())
}

fn read<T: FromRow>(file: &str, text: &[u8]) -> Result<Parsed<Vec<T>>, Error> {
    let mut lines = Lines::of(text);
    let mut sheet = Sheet::new(file);
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text);
    let headers = reader.headers().map_err(|error| csv_error(file, &mut lines, error))?.clone();
    check_header(T::COLUMNS, &headers, file, lines.at(0))?;

    let mut value = Vec::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| csv_error(file, &mut lines, error))? {
        let line = lines.at(record.position().map_or(0, csv::Position::byte));
        let mut row = Row { line, headers: &headers, record: &record, sheet: &mut sheet };
        let raw = row.deserialize::<T>()?;
        value.push(T::from_row(raw, &mut row)?);
    }
    if value.is_empty() {
        return Err(Error::NoRows { file: sheet.file });
    }
    Ok(Parsed { value, warnings: sheet.warnings })
}

fn check_header(
    columns: &[Column],
    headers: &StringRecord,
    file: &str,
    line: u64,
) -> Result<(), Error> {
    let file = file.to_owned();
    let count = |column: &Column| headers.iter().filter(|name| *name == column.name).count();
    if let Some(repeated) = columns.iter().find(|column| count(column) > 1) {
        return Err(Error::RepeatedColumn { file, line, column: repeated.name });
    }
    let missing: Vec<_> = columns
        .iter()
        .filter(|column| column.required && count(column) == 0)
        .map(|column| column.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let found = clipped(&headers.iter().collect::<Vec<_>>().join(","));
    Err(Error::MissingColumns { file, line, missing, found })
}

/// Converts an error of the CSV reader about the shape of a row.
fn csv_error(file: &str, lines: &mut Lines<'_>, error: csv::Error) -> Error {
    let file = file.to_owned();
    let line = lines.at(error.position().map_or(0, csv::Position::byte));
    let problem = match error.into_kind() {
        ErrorKind::Io(source) => return Error::Io { file, source },
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("expected {expected_len} fields as in the header, found {len}")
        }
        ErrorKind::Utf8 { err, .. } => {
            format!("expected UTF-8 text, found other bytes in field {}", err.field() + 1)
        }
        other => format!("{other:?}"),
    };
    Error::Row { file, line, problem }
}

/// The state while the rows of a file are read.
struct Sheet {
    file: String,
    /// The line of each name.
    names: HashMap<String, u64>,
    warnings: Vec<Warning>,
}

impl Sheet {
    fn new(file: &str) -> Self {
        Self { file: file.to_owned(), names: HashMap::new(), warnings: Vec::new() }
    }
}

/// The current row.
struct Row<'a> {
    line: u64,
    headers: &'a StringRecord,
    record: &'a StringRecord,
    sheet: &'a mut Sheet,
}

impl Row<'_> {
    fn deserialize<T: FromRow>(&self) -> Result<T::Raw, Error> {
        self.record.deserialize(Some(self.headers)).map_err(|error| {
            let column = match error.kind() {
                ErrorKind::Deserialize { err, .. } => self.column(err.field(), T::COLUMNS),
                _ => None,
            };
            match column {
                Some(column) => self.unexpected(column.name, column.holds),
                None => Error::Row {
                    file: self.sheet.file.clone(),
                    line: self.line,
                    problem: error.to_string(),
                },
            }
        })
    }

    /// Returns the column with this index in the file.
    fn column(&self, index: Option<u64>, columns: &'static [Column]) -> Option<&'static Column> {
        let name = self.headers.get(usize::try_from(index?).ok()?)?;
        columns.iter().find(|column| column.name == name)
    }

    /// Returns an error on the value of a column.
    fn unexpected(&self, field: &'static str, expected: impl Into<String>) -> Error {
        let index = self.headers.iter().position(|name| name == field);
        let found = index.and_then(|index| self.record.get(index)).unwrap_or_default();
        Error::Field {
            file: self.sheet.file.clone(),
            line: self.line,
            field,
            expected: expected.into(),
            found: clipped(found),
        }
    }

    fn warn(&mut self, field: &'static str, message: impl Into<String>) {
        let warning = Warning {
            file: self.sheet.file.clone(),
            line: self.line,
            field,
            message: message.into(),
        };
        self.sheet.warnings.push(warning);
    }

    fn at_most(&self, field: &'static str, value: u64, most: u64) -> Result<(), Error> {
        if value <= most {
            return Ok(());
        }
        Err(self.unexpected(field, format!("{most} or less")))
    }

    /// Checks that the name is not empty and that no earlier row has it.
    fn check_name(&mut self, field: &'static str, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            return Err(self.unexpected(field, "a name"));
        }
        match self.sheet.names.insert(name.to_owned(), self.line) {
            None => Ok(()),
            Some(earlier) => {
                let expected = format!("a name of its own (line {earlier} has this one)");
                Err(self.unexpected(field, expected))
            }
        }
    }
}

/// Returns the start of a value for quoting in a message.
fn clipped(value: &str) -> String {
    const MOST: usize = 80;
    match value.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

/// Converts byte positions, in ascending order, into line numbers. The line numbers of the CSV
/// reader do not count blank lines, and are one too small for lines that end in CR LF.
struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// Returns the line of the first character at or after this position that does not end a line.
    fn at(&mut self, byte: u64) -> u64 {
        let from = usize::try_from(byte).unwrap_or(usize::MAX).clamp(self.at, self.text.len());
        let blank =
            self.text[from..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let to = from + blank;
        let passed = &self.text[self.at..to];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = to;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                        creation_time,deletion_time,scheduled_time\n";

    fn nodes(rows: &str) -> Result<Parsed<Vec<TraceNode>>, Error> {
        read_nodes("nodes.csv", format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}").as_bytes())
    }

    fn pods(rows: &str) -> Result<Parsed<Vec<TracePod>>, Error> {
        read_pods("pods.csv", format!("{PODS}{rows}").as_bytes())
    }

    #[track_caller]
    fn error_text<T: fmt::Debug>(result: Result<T, Error>) -> String {
        result.expect_err("the text is wrong").to_string()
    }

    #[test]
    fn nodes_are_read_as_written() {
        let read = nodes("n1,96000,393216,8,G2\nn2,32000,262144,0,\n").expect("good rows");
        let n1 = TraceNode {
            name: "n1".to_owned(),
            cpu_milli: 96_000,
            memory_mib: 393_216,
            gpus: 8,
            model: Some("G2".to_owned()),
        };
        let n2 = TraceNode {
            name: "n2".to_owned(),
            cpu_milli: 32_000,
            memory_mib: 262_144,
            ..Default::default()
        };
        assert_eq!(read, Parsed { value: vec![n1, n2], warnings: Vec::new() });
    }

    #[test]
    fn pods_are_read_with_models_class_and_times() {
        let read = pods("p1,12000,16384,1,460,P100|T4,LS,Running,7,90,8\n").expect("a good row");
        let p1 = TracePod {
            name: "p1".to_owned(),
            cpu_milli: 12_000,
            memory_mib: 16_384,
            gpus: 1,
            gpu_milli: 460,
            models: vec!["P100".to_owned(), "T4".to_owned()],
            qos: Some("LS".to_owned()),
            phase: Some("Running".to_owned()),
            created: Some(7),
            deleted: Some(90),
            scheduled: Some(8),
        };
        assert_eq!(read, Parsed { value: vec![p1], warnings: Vec::new() });
    }

    #[test]
    fn columns_are_found_by_name_and_optional_ones_may_be_missing() {
        let text = b"\xef\xbb\xbfgpu_milli,extra,num_gpu,memory_mib, cpu_milli ,name\r\n\
                     500,x,1,1024, 2000 ,p1\r\n";
        let read = read_pods("pods.csv", text).expect("a good file in another order");
        let p1 = TracePod {
            name: "p1".to_owned(),
            cpu_milli: 2000,
            memory_mib: 1024,
            gpus: 1,
            gpu_milli: 500,
            ..Default::default()
        };
        assert_eq!(read.value, [p1]);
    }

    #[test]
    fn unusable_value_is_reported_with_line_and_field() {
        const CPU: &str = "cpu_milli: expected a whole number of thousandths of a core";
        const MEMORY: &str = "memory_mib: expected a whole number of MiB";
        const SPEC: &str = "gpu_spec: expected models separated by '|', or nothing";
        const TIME: &str = "creation_time: expected";
        for (row, expected) in [
            ("a,-1,1,0,0,,,,,,", format!("{CPU}, found \"-1\"")),
            ("a,,1,0,0,,,,,,", format!("{CPU}, found \"\"")),
            ("a,1,1.5,0,0,,,,,,", format!("{MEMORY}, found \"1.5\"")),
            ("a,1,1e3,0,0,,,,,,", format!("{MEMORY}, found \"1e3\"")),
            (
                "a,1,99999999999999999999,0,0,,,,,,",
                format!("{MEMORY}, found \"99999999999999999999\""),
            ),
            (
                "a,1,9999999999,0,0,,,,,,",
                "memory_mib: expected 1073741824 or less, found \"9999999999\"".to_owned(),
            ),
            (
                "a,1,1,two,0,,,,,,",
                "num_gpu: expected a whole number of devices, found \"two\"".to_owned(),
            ),
            ("a,1,1,1,1001,,,,,,", "gpu_milli: expected 1000 or less, found \"1001\"".to_owned()),
            ("a,1,1,1,1000,T4||G2,,,,,", format!("{SPEC}, found \"T4||G2\"")),
            ("a,1,1,1,1000,|,,,,,", format!("{SPEC}, found \"|\"")),
            (
                "a,1,1,0,0,,,,9,8,",
                "deletion_time: expected a time not before the creation_time 9, found \"8\""
                    .to_owned(),
            ),
            ("a,1,1,0,0,,,,,8,", format!("{TIME} a time, as there is a deletion_time, found \"\"")),
            (
                "a,1,1,0,0,,,,soon,8,",
                format!("{TIME} a whole number of seconds since the trace began, found \"soon\""),
            ),
            (
                "a,1,1,0,0,,,,2000000000000,,",
                format!("{TIME} 1000000000000 or less, found \"2000000000000\""),
            ),
            (",1,1,0,0,,,,,,", "name: expected a name, found \"\"".to_owned()),
            (
                "ok,1,1,0,0,,,,,,",
                "name: expected a name of its own (line 2 has this one), found \"ok\"".to_owned(),
            ),
            ("a,1,1", "expected 11 fields as in the header, found 3".to_owned()),
            ("a,1,1,0,0,,,,,,,", "expected 11 fields as in the header, found 12".to_owned()),
        ] {
            let message = error_text(pods(&format!("ok,1,1,0,0,,,,,,\n{row}\n")));
            assert_eq!(message, format!("pods.csv line 3: {expected}"), "{row}");
        }
    }

    #[test]
    fn long_value_is_quoted_in_part() {
        let message = error_text(pods(&format!("a,{},1,0,0,,,,,,\n", "ä".repeat(500))));
        assert!(message.ends_with(&format!("found \"{}...\"", "ä".repeat(80))), "{message}");
    }

    #[test]
    fn nodes_are_validated() {
        for (row, expected) in [
            ("n,1,1,eight,G2", "2: gpu: expected a whole number of devices, found \"eight\""),
            (
                "n,2000000000,1,0,",
                "2: cpu_milli: expected 1000000000 or less, found \"2000000000\"",
            ),
            (
                "n,1,1,0,\nn,1,1,0,",
                "3: sn: expected a name of its own (line 2 has this one), found \"n\"",
            ),
        ] {
            assert_eq!(error_text(nodes(row)), format!("nodes.csv line {expected}"));
        }
    }

    #[test]
    fn suspicious_value_is_a_warning() {
        let read = nodes("n1,0,1,0,\nn2,1,0,2,\n").expect("usable rows");
        let seen: Vec<_> = read.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            [
                "nodes.csv line 2: cpu_milli: the node has no CPU, so hardly any pod fits there",
                "nodes.csv line 3: memory_mib: the node has no memory, so hardly any pod fits \
                 there",
                "nodes.csv line 3: model: devices without a model: pods that ask for a model avoid \
                 the node",
            ]
        );
        let read = pods("p1,1,1,2,0,,,,5,9,4\n").expect("a usable row");
        let seen: Vec<_> = read.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            [
                "pods.csv line 2: gpu_milli: 2 devices, 0 milli of each: this asks for no GPU",
                "pods.csv line 2: scheduled_time: the pod was placed before it was created; this \
                 time is not used",
            ]
        );
    }

    #[test]
    fn missing_and_repeated_columns_are_reported() {
        for (text, expected) in [
            (
                "name,cpu\n",
                " line 1: missing column cpu_milli, memory_mib, num_gpu, gpu_milli: \
                 found \"name,cpu\"",
            ),
            (
                "",
                " line 1: missing column name, cpu_milli, memory_mib, num_gpu, gpu_milli: \
                 found \"\"",
            ),
            (
                "name,cpu_milli,memory_mib,num_gpu,gpu_milli,name\n",
                " line 1: column name is repeated",
            ),
            ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n\n", ": no rows below the header"),
        ] {
            let message = error_text(read_pods("pods.csv", text.as_bytes()));
            assert_eq!(message, format!("pods.csv{expected}"));
        }
    }

    #[test]
    fn line_numbers_are_those_of_an_editor() {
        const HEADER: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli";
        for text in [
            format!("{HEADER}\r\na,1,1,0,0\r\nb,1,1,0,0\r\nc,x,1,0,0\r\n"),
            format!("{HEADER}\n\n\nc,x,1,0,0\n"),
            format!("\n\n{HEADER}\nc,x,1,0,0\n"),
            format!("{HEADER}\n\"a\nb\",1,1,0,0\nc,x,1,0,0"),
        ] {
            let message = error_text(read_pods("pods.csv", text.as_bytes()));
            assert!(message.starts_with("pods.csv line 4: cpu_milli: "), "{text:?}: {message}");
        }
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_line() {
        let text = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\r\na,1,1,0,0\r\nb\xff,1,1,0,0\r\n";
        assert_eq!(
            error_text(read_pods("pods.csv", text)),
            "pods.csv line 3: expected UTF-8 text, found other bytes in field 1"
        );
    }

    #[test]
    fn missing_file_is_named_in_the_error() {
        let message =
            error_text(load(Path::new("/nowhere/nodes.csv"), Path::new("/nowhere/pods.csv")));
        assert!(message.starts_with("/nowhere/nodes.csv: "), "{message}");
    }

    /// Returns a published trace, or `None` if its files are not installed.
    fn published(pods: &str) -> Option<Trace> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/openb");
        if !folder.is_dir() {
            eprintln!("skipped: the openb trace is not at {}", folder.display());
            return None;
        }
        let read = load(&folder.join("openb_node_list_all_node.csv"), &folder.join(pods))
            .expect("the published files are sound");
        assert_eq!(read.warnings, []);
        Some(read.value)
    }

    #[test]
    fn published_trace_is_read_completely() {
        let Some(trace) = published("openb_pod_list_default.csv") else { return };
        assert_eq!((trace.nodes.len(), trace.pods.len()), (1523, 8152));
        let (capacity, demand) = (trace.capacity(), trace.demand());
        assert_eq!((capacity.cpu_milli, capacity.gpu_milli), (125_514_000, 6_212_000));
        assert_eq!((capacity.memory_mib, demand.gpu_milli), (612_028_416, 6_086_800));
        let arrivals = trace.arrivals().expect("the default list has times");
        assert_eq!(arrivals.len(), 8152);
    }

    #[test]
    fn published_lists_with_models_and_without_times_are_read() {
        let Some(trace) = published("openb_pod_list_gpuspec33.csv") else { return };
        assert_eq!(trace.pods.iter().filter(|pod| !pod.models.is_empty()).count(), 2388);
        let Some(trace) = published("openb_pod_list_multigpu50.csv") else { return };
        assert_eq!(trace.pods.len(), 9061);
        assert!(trace.arrivals().is_err());
    }
}
