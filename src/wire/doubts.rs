//! Doubts: parts of the input that no code reads, such as unknown fields, fields given twice,
//! unknown kinds.

use std::collections::HashMap;

use super::{Fault, Location};

/// The treatment of input that is not understood, with the values of `--validate` of kubectl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Validation {
    /// It is an error.
    Strict,
    /// It causes a warning.
    #[default]
    Warn,
    /// It is ignored without a word.
    Ignore,
}

/// Doubts about the input, one for all objects that share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubts {
    found: Vec<Doubt>,
    /// The place of each doubt, by kind and text.
    places: HashMap<String, usize>,
}

#[derive(Debug, Clone)]
struct Doubt {
    at: Location,
    text: String,
    /// Number of further cases.
    more: usize,
}

impl Doubts {
    /// Adds a doubt about a field of an object, `object` is kind and name. Indexes do not
    /// distinguish fields.
    pub(super) fn add_field(
        &mut self,
        at: &Location,
        kind: &str,
        object: &str,
        fault: &str,
        path: &str,
    ) {
        let key = format!("{kind} {fault} {}", without_indexes(path));
        self.add(at, key, || format!("{object}: {fault} field {path:?}"));
    }

    /// Adds a doubt with a text that is the same for all objects that it concerns.
    pub(super) fn add_kind(&mut self, at: &Location, text: String) {
        self.add(at, text.clone(), || text);
    }

    fn add(&mut self, at: &Location, key: String, text: impl FnOnce() -> String) {
        match self.places.get(&key) {
            Some(place) => self.found[*place].more += 1,
            None => {
                self.places.insert(key, self.found.len());
                self.found.push(Doubt { at: at.clone(), text: text(), more: 0 });
            }
        }
    }

    /// Returns the doubts in the order of the input.
    pub(super) fn faults(self) -> Vec<Fault> {
        let fault = |Doubt { at, text, more }: Doubt| match more {
            0 => Fault::new(at, text),
            1 => Fault::new(at, text + " (and once more)"),
            more => Fault::new(at, format!("{text} (and {more} times more)")),
        };
        self.found.into_iter().map(fault).collect()
    }
}

fn without_indexes(path: &str) -> String {
    let parts = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_doubts_are_counted() {
        let mut doubts = Doubts::default();
        let at = Location::named("a.yaml");
        for index in 0..3 {
            let (object, path) =
                (format!("Pod p{index}"), format!("spec.containers[{index}].imag"));
            doubts.add_field(&at, "Pod", &object, "unknown", &path);
        }
        doubts.add_field(&at, "Pod", "Pod p", "duplicate", "spec.containers[0].imag");
        doubts.add_kind(&at, "no such kind".to_owned());
        doubts.add_kind(&at, "no such kind".to_owned());
        let found: Vec<String> = doubts.faults().iter().map(ToString::to_string).collect();
        let expected = [
            "a.yaml: Pod p0: unknown field \"spec.containers[0].imag\" (and 2 times more)",
            "a.yaml: Pod p: duplicate field \"spec.containers[0].imag\"",
            "a.yaml: no such kind (and once more)",
        ];
        assert_eq!(found, expected);
    }
}
