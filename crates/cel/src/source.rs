//! The text of an expression, and errors that point into it.

use std::fmt::Write;

/// Maximum number of errors that one text has.
const MOST_ERRORS: usize = 100;

/// An error at a place of the expression.
#[derive(Debug, Clone)]
pub(crate) struct Issue {
    /// Line and column in characters, both from 1; `None` for an error of the whole expression.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) message: String,
}

/// Prints errors in the order of their places, each with its line and a mark below.
pub(crate) fn print(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|issue| issue.place);
    let mut text = String::new();
    for (index, issue) in issues.iter().take(MOST_ERRORS).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        print_one(&mut text, source, issue);
    }
    if issues.len() > MOST_ERRORS {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{} more errors were truncated", issues.len() - MOST_ERRORS);
    }
    text
}

fn print_one(text: &mut String, source: &str, issue: &Issue) {
    let Some((line, column)) = issue.place else {
        let _ = write!(text, "ERROR: <input>:-1:0: {}", issue.message);
        return;
    };
    let _ = write!(text, "ERROR: <input>:{line}:{column}: {}", issue.message);
    let Some(snippet) = source.split('\n').nth(line.saturating_sub(1)) else { return };
    let _ = write!(text, "\n | {}\n | ", snippet.replace('\t', " "));
    let mut characters = snippet.chars();
    for character in characters.by_ref().take(column.saturating_sub(1)) {
        text.push(if character.is_ascii() { '.' } else { '．' });
    }
    text.push(if characters.next().is_none_or(|next| next.is_ascii()) { '^' } else { '＾' });
}

/// Returns line and column of the character that begins at this byte, both from 1.
pub(crate) fn place(source: &str, offset: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for (_, character) in source.char_indices().take_while(|(index, _)| *index < offset) {
        if character == '\n' {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
    }
    (line, column)
}
