//! YAML text from and to JSON values. The only module of `wire` that uses the YAML library.

use serde::Serialize;
use serde_json::Value;

use super::documents::Document;

/// Splits a stream into its documents. Documents without content are left out.
///
/// # Errors
/// The first document that does not parse, with the line in the stream.
pub(crate) fn documents(text: &str) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    for (line, part) in parts(text) {
        if has_content(part) {
            documents.push(Document { line, value: parse(part, line)? });
        }
    }
    Ok(documents)
}

/// Serializes one document.
///
/// # Errors
/// The value has maps with keys that are no texts.
pub fn to_string(value: &impl Serialize) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}

/// Parses one document that begins at this line of its stream.
fn parse(part: &str, line: usize) -> Result<Value, String> {
    serde_yaml::from_str(part).or_else(|_| {
        // Parses again after that many empty lines, to get the line numbers of the stream.
        let padded = "\n".repeat(line.saturating_sub(1)) + part;
        serde_yaml::from_str(&padded).map_err(|error| error.to_string())
    })
}

/// Returns the texts between the `---` lines, each with the number of its first line.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if is_separator(line) {
            parts.push((start_line, &text[start..offset]));
            // Text after the dashes on the same line belongs to the next document.
            start = offset + "---".len();
            start_line = index + 1;
        }
        offset += line.len();
    }
    parts.push((start_line, &text[start..]));
    parts
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Whether a text has more than comments, directives and the end marker.
fn has_content(part: &str) -> bool {
    let is_idle = |line: &str| line.is_empty() || line.starts_with(['#', '%']) || line == "...";
    !part.lines().all(|line| is_idle(line.trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_have_line_numbers_and_empty_ones_are_left_out() {
        let text = "# a comment\n---\na: 1\n---\n---\n# nothing\n--- \nb:\n- 2\n---\n";
        let documents = documents(text).unwrap();
        let found: Vec<_> = documents.iter().map(|d| (d.line, d.value.clone())).collect();
        assert_eq!(found, [(2, json!({"a": 1})), (7, json!({"b": [2]}))]);
    }

    #[test]
    fn error_names_the_line_of_the_stream() {
        let error = documents("a: 1\n---\nb: 2\nc: [\n").unwrap_err();
        assert!(error.contains("line 5"), "{error}");
    }

    #[test]
    fn dashes_inside_a_text_do_not_separate() {
        let documents = documents("a: |\n  --- x\n  ---\nb: ---x\n").unwrap();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].value, json!({"a": "--- x\n---\n", "b": "---x"}));
    }

    #[test]
    fn content_may_follow_the_dashes() {
        assert_eq!(documents("--- {a: 1}\n").unwrap()[0].value, json!({"a": 1}));
    }
}
