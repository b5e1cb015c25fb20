//! Splits the text of a file into JSON values.

use serde_json::Value;

use super::source::Source;
use super::{Fault, Location, yaml};

/// One document of a file.
#[derive(Debug)]
pub(crate) struct Document {
    /// Line of its beginning, from 1.
    pub(crate) line: usize,
    /// Its content.
    pub(crate) value: Value,
}

/// Parses every document of a source, with its line.
///
/// # Errors
/// The first document that does not parse.
pub(crate) fn of(source: &Source) -> Result<Vec<(Location, Value)>, Fault> {
    let text = source.text.trim_start_matches('\u{feff}');
    let documents = if is_json(source, text) { json_stream(text) } else { yaml::documents(text) };
    let documents = documents.map_err(|message| Fault::new(Location::of(source), message))?;
    let several = documents.len() > 1;
    let located = documents.into_iter().enumerate().map(|(index, document)| {
        let place = several.then_some((index + 1, document.line));
        (Location::of(source).with_document(place), document.value)
    });
    Ok(located.collect())
}

/// Chooses the format by the file extension, else by the first character, as kubectl does.
fn is_json(source: &Source, text: &str) -> bool {
    match source.extension() {
        Some("json") => true,
        Some("yaml" | "yml") => false,
        _ => text.trim_start().starts_with('{'),
    }
}

/// Parses a sequence of JSON values.
fn json_stream(text: &str) -> Result<Vec<Document>, String> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter();
    let mut documents = Vec::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        let start = stream.byte_offset();
        let Some(value) = stream.next() else { return Ok(documents) };
        // Errors count lines from the beginning of the stream.
        let value = value.map_err(|error: serde_json::Error| error.to_string())?;
        let start = start + text[start..].find(|c: char| !c.is_whitespace()).unwrap_or(0);
        line += text[counted..start].matches('\n').count();
        counted = start;
        documents.push(Document { line, value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> Source {
        Source { name: name.into(), text: text.to_owned() }
    }

    #[test]
    fn json_stream_is_split_into_values() {
        let found = of(&source("-", "{\"a\":\n1}\n\n{\"b\": 2} {\"c\": 3}")).unwrap();
        let places: Vec<_> = found.iter().map(|(place, _)| place.to_string()).collect();
        assert_eq!(
            places,
            ["-: document 1 (line 1)", "-: document 2 (line 4)", "-: document 3 (line 4)"]
        );
    }

    #[test]
    fn single_document_has_no_number() {
        let found = of(&source("pod.yaml", "a: 1\n")).unwrap();
        assert_eq!(found[0].0.to_string(), "pod.yaml");
    }

    #[test]
    fn json_syntax_error_names_its_line() {
        let fault = of(&source("dump.json", "{\"a\": 1}\n{\"b\": }\n")).unwrap_err();
        assert_eq!(fault.to_string(), "dump.json: expected value at line 2 column 7");
    }
}
