//! Reads the output of `kubectl get -o yaml|json`, and manifests, into the compact forms.
//!
//! A file is split into documents (`documents`), lists are flattened (`objects`), objects are
//! classified (`collect`), what no one reads is found (`doubts`, `absent_kinds`), and absent fields
//! get the defaults of the API server (`defaults`). Errors name file, document or line, object and
//! field.

mod absent_kinds;
mod admission;
mod collect;
mod defaults;
mod documents;
mod doubts;
mod kinds;
mod known_kinds;
mod label_keys;
mod messages;
mod objects;
mod plurals;
mod reduced;
mod source;
mod substitute;
mod watch;
mod watched_object;
mod whole;
mod workloads;
mod yaml_documents;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

pub use collect::{Input, Owner, PodObject, Wanted};
pub use doubts::Validation;
pub use kinds::{WatchedKind, feeds, watched_kinds};
#[cfg(test)]
pub(crate) use objects::unrolled;
pub use objects::{Object, ReadObjects, Stray, objects_of, read_objects};
pub use source::Origin;
pub use watch::{Decoder, Update, status_error};
pub use watched_object::WatchedObject;
pub use whole::Whole;

use self::collect::Collector;
use self::objects::for_each_object;
use self::source::Source;

/// Reads all objects of the origins. Of kinds other than
/// nodes and pods, and of fields that scheduling itself does not read, only the `wanted` ones are
/// kept. `controllers` returns the objects that controllers would make from those of the input.
///
/// # Errors
/// All errors, not only the first.
pub fn read(
    origins: &[Origin],
    wanted: &Wanted,
    validation: Validation,
    controllers: impl FnOnce(&Input) -> Vec<Value>,
) -> Result<Input, Faults> {
    let mut collector = Collector::new(wanted, validation);
    for_each_object(origins, |found| collector.take_found(found))?;
    let made = controllers(collector.input());
    collector.take_made(made);
    match collector.nothing("the input") {
        Some(nothing) => collector.finish().and(Err(nothing)),
        None => collector.finish(),
    }
}

/// The treatment of an input with a change.
pub trait InputChange {
    /// Changes the input with the manifests of the change. Workloads from the index `first_changed`
    /// on are theirs.
    ///
    /// # Errors
    /// Everything that cannot be changed.
    fn apply(&mut self, input: &mut Input, first_changed: usize) -> Result<(), Faults>;

    /// Returns the objects that controllers would make from those of an input.
    fn control(&mut self, input: &Input) -> Vec<Value>;
}

/// Reads a dump, and the dump with a change, of which `manifests` are a part.
///
/// # Errors
/// All errors, not only the first.
pub fn read_with_change(
    origins: &[Origin],
    manifests: Vec<Object>,
    wanted: &Wanted,
    validation: Validation,
    change: &mut impl InputChange,
) -> Result<(Input, Input), Faults> {
    let mut before = Collector::new(wanted, validation);
    for_each_object(origins, |found| before.take_found(found))?;
    if let Some(nothing) = before.nothing("the dump") {
        return before.finish().and(Err(nothing));
    }
    // The errors of the dump are among the errors of the changed dump.
    let after = changed(before.clone(), manifests, change)?;
    let made = change.control(before.input());
    before.take_made(made);
    Ok((before.finish()?, after))
}

/// Applies a change to what a scheduler knows.
///
/// # Errors
/// All errors, not only the first.
pub fn with_change(
    known: Input,
    manifests: Vec<Object>,
    wanted: &Wanted,
    validation: Validation,
    change: &mut impl InputChange,
) -> Result<Input, Faults> {
    changed(Collector::of_scheduler(known, wanted, validation), manifests, change)
}

fn changed(
    mut collector: Collector<'_>,
    manifests: Vec<Object>,
    change: &mut impl InputChange,
) -> Result<Input, Faults> {
    let workloads = collector.input().workloads.len();
    collector.take_changes(manifests);
    collector.change(|input| change.apply(input, workloads));
    let made = change.control(collector.input());
    collector.take_made(made);
    collector.finish()
}

/// The place of an object: file, document if there are several, index in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    source: Arc<str>,
    /// The document, if a file has several.
    document: Option<DocumentPlace>,
    /// Indexes in nested lists, outermost first.
    items: Vec<usize>,
}

/// The place of a document in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DocumentPlace {
    number: usize,
    /// The first line.
    line: usize,
}

impl Location {
    fn named(source: &str) -> Self {
        Self { source: source.into(), document: None, items: Vec::new() }
    }

    fn of(source: &Source) -> Self {
        Self { source: source.name.clone(), document: None, items: Vec::new() }
    }

    fn with_document(self, document: Option<DocumentPlace>) -> Self {
        Self { document, ..self }
    }

    fn item(&self, index: usize) -> Self {
        let mut location = self.clone();
        location.items.push(index);
        location
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(DocumentPlace { number, line }) = self.document {
            write!(f, ": document {number} (line {line})")?;
        }
        self.items.iter().try_for_each(|index| write!(f, ": items[{index}]"))
    }
}

/// An error in the input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: {message}")]
pub struct Fault {
    at: Location,
    message: String,
}

impl Fault {
    fn new(at: Location, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// Returns the name of the file, or of what stands for one.
    pub(crate) fn source(&self) -> &str {
        &self.at.source
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// All errors of the input, one per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}
