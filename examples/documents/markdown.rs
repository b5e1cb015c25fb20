//! The parts of a Markdown document that can show a command or its output.

/// A fenced block or a table.
pub(crate) struct Part {
    pub(crate) kind: Kind,
    /// Number of the first line, from 1.
    pub(crate) line: usize,
    pub(crate) lines: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block of commands.
    Shell,
    /// A block of output.
    Text,
    /// A block in another language.
    Other,
    /// A table, its header first.
    Table,
}

/// Splits a document; prose is left out.
pub(crate) fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((line, text)) = lines.next() {
        if let Some(language) = text.strip_prefix("```") {
            let kind = match language.trim() {
                "sh" | "console" => Kind::Shell,
                "text" => Kind::Text,
                _ => Kind::Other,
            };
            let block = lines.by_ref().map(|(_, text)| text).take_while(|text| *text != "```");
            parts.push(Part { kind, line: line + 1, lines: block.map(str::to_owned).collect() });
        } else if text.starts_with('|') {
            let mut rows = vec![text.to_owned()];
            while let Some((_, row)) = lines.next_if(|(_, text)| text.starts_with('|')) {
                rows.push(row.to_owned());
            }
            parts.push(Part { kind: Kind::Table, line, lines: rows });
        }
    }
    parts
}

/// The cells of a row of a table.
pub(crate) fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}
