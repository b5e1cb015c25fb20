//! YAML text as a [`Tree`], with the lines of repeated keys. The only module of the configuration
//! that uses the YAML library.

use std::cell::Cell;

use serde::de::DeserializeSeed;

use super::tree::{Format, Reader, Tree};
use crate::wire::most_values;

/// A document, and errors that do not prevent parsing.
#[derive(Debug, PartialEq)]
pub(super) struct Document {
    /// The content. Fields are sorted by name; of repeated ones the last counts.
    pub(super) tree: Tree,
    /// Repeated keys of objects, with their lines.
    pub(super) repeated: Vec<Repeated>,
}

/// A repeated key of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: key {key:?} already set in map")]
pub(super) struct Repeated {
    /// Line of the value, from 1.
    line: usize,
    key: String,
}

/// Parses the first document of a stream; the rest is ignored.
///
/// # Errors
/// The syntax error with its line, as kube-scheduler prints it.
pub(super) fn read(text: &str) -> Result<Document, String> {
    let reading = Reading::new(text);
    let tree = reading.run().map_err(|error| syntax_fault(&error))?;
    let count = reading.repeated.get();
    let repeated = (0..count).filter_map(|place| Reading::up_to(text, place)).collect();
    Ok(Document { tree, repeated })
}

/// One pass over a document.
struct Reading<'a> {
    text: &'a str,
    /// Number of repeated keys so far in this pass.
    repeated: Cell<usize>,
    /// The repeated key at which the pass stops.
    stop_at: Option<usize>,
    /// Its name, once the pass has reached it.
    stopped: Cell<Option<String>>,
    /// What this pass may still read: the number of values and the length of texts. Aliases would grow without a
    /// bound.
    size: Cell<usize>,
}

impl<'a> Reading<'a> {
    const fn new(text: &'a str) -> Self {
        let size = Cell::new(most_values(text));
        Self { text, repeated: Cell::new(0), stop_at: None, stopped: Cell::new(None), size }
    }

    /// Returns the repeated key with this index. The library reports lines only in errors, so each
    /// repeated key needs one more pass.
    fn up_to(text: &'a str, place: usize) -> Option<Repeated> {
        let reading = Self { stop_at: Some(place), ..Self::new(text) };
        let line = reading.run().err()?.location()?.line();
        Some(Repeated { line, key: reading.stopped.take()? })
    }

    fn run(&self) -> Result<Tree, serde_yaml::Error> {
        match serde_yaml::Deserializer::from_str(self.text).next() {
            Some(document) => Reader(Yaml(self)).deserialize(document),
            None => Ok(Tree::Null),
        }
    }

    /// Whether `scalar`, a part of the text, is a plain scalar.
    fn is_plain(&self, scalar: &str) -> bool {
        let offset = scalar.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let before = offset.checked_sub(1).and_then(|before| self.text.as_bytes().get(before));
        !matches!(before, Some(b'"' | b'\''))
    }
}

/// YAML 1.1, the version that kube-scheduler parses.
#[derive(Clone, Copy)]
struct Yaml<'r, 'a>(&'r Reading<'a>);

impl<'de> Format<'de> for Yaml<'_, '_> {
    fn borrowed(self, text: &'de str) -> Tree {
        match old_boolean(text).filter(|_| self.0.is_plain(text)) {
            Some(value) => Tree::Bool(value),
            None => Tree::Text(text.to_owned()),
        }
    }

    fn repeated(self, name: &str) -> bool {
        let place = self.0.repeated.replace(self.0.repeated.get() + 1);
        let stop = self.0.stop_at == Some(place);
        if stop {
            self.0.stopped.set(Some(name.to_owned()));
        }
        stop
    }

    fn takes(self, size: usize) -> bool {
        let left = self.0.size.get().checked_sub(size);
        left.inspect(|left| self.0.size.set(*left)).is_some()
    }

    fn object(self, fields: Vec<(String, Tree)>) -> Tree {
        let mut merged = Vec::with_capacity(fields.len());
        for field in fields {
            match field {
                (name, Tree::Object(inner)) if name == MERGE => merged.extend(inner),
                other => merged.push(other),
            }
        }
        merged.reverse();
        merged.sort_by(|(one, _), (other, _)| one.cmp(other));
        merged.dedup_by(|(later, _), (kept, _)| later == kept);
        Tree::Object(merged)
    }
}

/// The key whose value is merged into the enclosing object.
const MERGE: &str = "<<";

/// Booleans of YAML 1.1 that are texts in the version of the library.
fn old_boolean(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// The error text of kube-scheduler for a document that cannot be parsed. It omits the first line,
/// and counts lines from 0 for errors of the grammar, from 1 for errors of a token.
fn syntax_fault(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let problem = text.split(" at line ").next().unwrap_or_default();
    let problem = problem.split(", while ").next().unwrap_or_default();
    match error.location().map_or(1, |place| place.line()) {
        0 | 1 => format!("yaml: {problem}"),
        line => {
            let line = line - usize::from(is_grammatical(problem));
            format!("yaml: line {line}: {problem}")
        }
    }
}

fn is_grammatical(problem: &str) -> bool {
    let expected = problem.strip_prefix("did not find expected ");
    expected.is_some_and(|expected| {
        expected.starts_with(['<', '\'']) || ["node content", "key"].contains(&expected)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(text: &str) -> serde_json::Value {
        read(text).unwrap().tree.to_value()
    }

    #[test]
    fn scalars_have_the_types_of_kube_scheduler() {
        let text =
            "a: yes\nb: 'yes'\nc: \"no\"\nd: off\ne: ~\nf:\ng: 1.0\nh: 0x10\ni: 1.5\nj: |\n  on\n";
        let expected = json!({
            "a": true, "b": "yes", "c": "no", "d": false, "e": null, "f": null,
            "g": 1, "h": 16, "i": 1.5, "j": "on\n",
        });
        assert_eq!(tree(text), expected);
        assert_eq!(tree("[on, \"on\", ['off']]"), json!([true, "on", ["off"]]));
    }

    #[test]
    fn keys_are_texts_and_sorted() {
        let Tree::Object(fields) = read("b: 1\n2: x\ntrue: y\na: 3\n").unwrap().tree else {
            panic!("no object");
        };
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["2", "a", "b", "true"]);
    }

    #[test]
    fn only_the_first_document_is_parsed() {
        assert_eq!(tree("# comment\n---\na: 1\n---\nb: [\n"), json!({"a": 1}));
        assert_eq!(tree(""), json!(null));
        assert_eq!(tree("# nothing\n"), json!(null));
    }

    #[test]
    fn repeated_keys_are_reported_with_the_line_of_their_value() {
        let text = "a: 1\nb:\n  c: 1\n  c:\n  - 2\na: 2\nd: {e: 1, e: 2}\n\"a\": 3\n";
        let document = read(text).unwrap();
        let expected = json!({"a": 3, "b": {"c": [2]}, "d": {"e": 2}});
        assert_eq!(document.tree.to_value(), expected);
        let told: Vec<String> = document.repeated.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 5: key \"c\" already set in map",
                "line 6: key \"a\" already set in map",
                "line 7: key \"e\" already set in map",
                "line 8: key \"a\" already set in map",
            ]
        );
    }

    #[test]
    fn anchors_and_merges_are_followed() {
        let text = "x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\nz: *x\n";
        let expected = json!({"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}, "z": {"a": 1, "b": 2}});
        assert_eq!(tree(text), expected);
    }

    #[test]
    fn aliases_of_texts_do_not_grow_without_a_bound() {
        let (long, key) = ("x".repeat(10_000), "x".repeat(1000));
        for anchor in [format!("&a {long}"), format!("&a {{{key}: 1}}")] {
            let aliases = vec!["*a"; 1000].join(", ");
            let text = format!("a: {anchor}\nb: [{aliases}]\n");
            let refused = read(&text).unwrap_err();
            assert!(refused.ends_with("document contains excessive aliasing"), "{refused}");
            let text = format!("a: {anchor}\nb: [*a, *a, *a]\n");
            assert!(read(&text).is_ok());
        }
    }

    #[test]
    fn syntax_errors_are_reported_with_their_line() {
        let rows = [
            ("not yaml: [\n", "yaml: line 1: did not find expected node content"),
            ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
            ("a: 1\nb: @x\n", "yaml: line 2: found character that cannot start any token"),
            ("a: 1\n- b\n", "yaml: line 1: did not find expected key"),
            ("a: *x\n", "yaml: unknown anchor"),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
    }
}
