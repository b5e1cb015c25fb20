//! Random edits of an input.

use proptest::arbitrary::any;
use proptest::prop_oneof;
use proptest::sample::{Index, select};
use proptest::strategy::Strategy;

/// Pieces of JSON, YAML, CSV and quantities that programs stumble over.
const TOKENS: [&str; 40] = [
    "-1",
    "0",
    "-0",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e999",
    "1e-999",
    "0.1",
    "1e9999999999",
    "Ki",
    "Ei",
    "m",
    "null",
    "true",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "{}",
    "[]",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\r\n",
    "\t",
    "- ",
    "---\n",
    "...\n",
    "&a ",
    "*a",
    "<<: *a\n",
    "!!binary ",
    "|\n",
    "\u{feff}",
    "é",
    "\u{10ffff}",
];
/// Maximum length of an edited input, in bytes.
const LONGEST: usize = 64 << 10;

/// A change of an input.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// Replaces a byte.
    Set(Index, u8),
    /// Removes some bytes.
    Remove(Index, usize),
    /// Removes the end.
    Truncate(Index),
    /// Inserts a token.
    Insert(Index, &'static str),
    /// Repeats some bytes: deep nesting, long names, long numbers.
    Repeat(Index, usize, usize),
    /// Goes on like another input.
    Splice(Index, Index, Index),
}

/// Returns a strategy for edits.
pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        3 => (at(), 1..40_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        1 => at().prop_map(Edit::Truncate),
        4 => (at(), select(&TOKENS[..])).prop_map(|(at, token)| Edit::Insert(at, token)),
        1 => (at(), 1..20_usize, 2..4000_usize).prop_map(|(at, length, times)| {
            Edit::Repeat(at, length, times)
        }),
        1 => (at(), at(), at()).prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ]
}

impl Edit {
    /// Returns the input with the edit.
    pub(crate) fn apply(&self, mut input: Vec<u8>, corpus: &[Vec<u8>]) -> Vec<u8> {
        let place = |at: &Index, input: &[u8]| at.index(input.len() + 1);
        match self {
            Self::Set(at, byte) => {
                let at = place(at, &input);
                input.splice(at..(at + 1).min(input.len()), [*byte]);
            }
            Self::Remove(at, length) => {
                let at = place(at, &input);
                input.drain(at..(at + length).min(input.len()));
            }
            Self::Truncate(at) => input.truncate(place(at, &input)),
            Self::Insert(at, token) => {
                let at = place(at, &input);
                input.splice(at..at, token.bytes());
            }
            Self::Repeat(at, length, times) => {
                let at = place(at, &input);
                let piece = input[at..(at + length).min(input.len())].repeat(*times);
                input.splice(at..at, piece);
            }
            Self::Splice(at, other, from) => {
                let other = other.get(corpus);
                input.truncate(place(at, &input));
                input.extend(&other[place(from, other)..]);
            }
        }
        input.truncate(LONGEST);
        input
    }
}
