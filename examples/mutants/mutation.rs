//! Mutations, and the text of a file with all of them in it.

use std::cmp::Reverse;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The function that switches mutations on, in each crate of the copy.
pub(crate) const SWITCH: &str = "crate::mutant";

/// What identifies a mutation as long as its function stays the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The path in the workspace.
    pub(crate) file: PathBuf,
    /// The name of the function, after the type that it belongs to.
    pub(crate) function: String,
    /// What the mutation does.
    pub(crate) change: String,
    /// Its place among equal changes of the function, from 1.
    #[serde(default = "first")]
    pub(crate) nth: usize,
}

const fn first() -> usize {
    1
}

/// The function that a mutation is planted in.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    /// Its name, after the type that it belongs to.
    pub(crate) name: String,
    /// Its lines, from 1.
    pub(crate) lines: RangeInclusive<usize>,
}

/// A change of one place in a file. An environment variable switches it on.
#[derive(Debug)]
pub(crate) struct Mutation {
    /// The number that switches it on.
    pub(crate) number: usize,
    /// The lines that it changes, from 1. A file with mutations has the same lines.
    pub(crate) lines: RangeInclusive<usize>,
    /// The function around it.
    pub(crate) function: Function,
    /// What it does, such as "`!a` becomes `a`".
    pub(crate) change: String,
    /// The bytes of the file between its insertions.
    pub(crate) range: Range<usize>,
    /// The text inserted before them.
    pub(crate) before: String,
    /// The text inserted after them.
    pub(crate) after: String,
}

/// Returns the text with these mutations in it. Their ranges are nested or apart.
pub(crate) fn rewrite<'a>(text: &str, mutations: impl IntoIterator<Item = &'a Mutation>) -> String {
    let mut mutations: Vec<&Mutation> = mutations.into_iter().collect();
    // An outer one opens first and closes last.
    mutations.sort_by_key(|mutation| (mutation.range.start, Reverse(mutation.range.end)));
    let mut output = Output { text, position: 0, written: String::new() };
    let mut open: Vec<&Mutation> = Vec::new();
    for mutation in mutations {
        let start = mutation.range.start;
        while let Some(inner) = open.pop_if(|inner| inner.range.end <= start) {
            output.insert(inner.range.end, &inner.after);
        }
        output.insert(start, &mutation.before);
        open.push(mutation);
    }
    while let Some(inner) = open.pop() {
        output.insert(inner.range.end, &inner.after);
    }
    output.insert(text.len(), "");
    output.written
}

struct Output<'a> {
    text: &'a str,
    position: usize,
    written: String,
}

impl Output<'_> {
    /// Copies the text up to `end` and inserts `addition` there.
    fn insert(&mut self, end: usize, addition: &str) {
        self.written += &self.text[self.position..end];
        self.written += addition;
        self.position = end;
    }
}
