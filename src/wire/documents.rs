//! Splits the text of a file into the texts of its objects, so that no more than one is parsed at a
//! time.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use yaml::Parsed;

use super::source::Source;
use super::{DocumentPlace, Fault, Location, yaml_documents};

/// The text of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Text<'a> {
    Json(&'a RawValue),
    Yaml(yaml_documents::Part<'a>),
}

/// A list of objects whose items are not parsed.
#[derive(Debug)]
pub(crate) struct List<'a> {
    /// Its `apiVersion`.
    pub(crate) version: String,
    /// Its `kind`, which ends with `List`.
    pub(crate) kind: String,
    /// The texts of its items.
    pub(crate) items: Vec<Text<'a>>,
}

impl<'a> Text<'a> {
    /// Parses the text.
    ///
    /// # Errors
    /// The text does not parse.
    pub(crate) fn parse(&self) -> Result<Parsed, String> {
        match self {
            Self::Json(raw) => yaml::read_json(raw.get()).map_err(|error| error.to_string()),
            Self::Yaml(part) => part.parse(),
        }
    }

    /// Returns the items, if the text is a list that can be split without parsing it.
    pub(crate) fn list(&self) -> Option<List<'a>> {
        match self {
            Self::Json(raw) => json_list(raw),
            Self::Yaml(part) => part.list(),
        }
    }
}

/// The fields of a list, and of other objects as far as they have them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    items: &'a RawValue,
}

fn json_list(raw: &RawValue) -> Option<List<'_>> {
    let head: Head<'_> = serde_json::from_str(raw.get()).ok()?;
    if !head.kind.ends_with("List") {
        return None;
    }
    let items: Vec<&RawValue> = serde_json::from_str(head.items.get()).ok()?;
    Some(List {
        version: head.api_version.into_owned(),
        kind: head.kind.into_owned(),
        items: items.into_iter().map(Text::Json).collect(),
    })
}

/// Returns the texts of the documents of a source, with their lines.
///
/// # Errors
/// The text begins like JSON, and is neither a sequence of JSON values nor YAML.
pub(crate) fn of(source: &Source) -> Result<Vec<(Location, Text<'_>)>, Fault> {
    let text = yaml::without_mark(&source.text);
    let documents = match text.trim_start().starts_with('{') {
        true => json_or_yaml(text).map_err(|message| Fault::new(Location::of(source), message))?,
        false => yaml_texts(text),
    };
    let several = documents.len() > 1;
    let located = documents.into_iter().enumerate().map(|(index, (line, text))| {
        let place = several.then_some(DocumentPlace { number: index + 1, line });
        (Location::of(source).with_document(place), text)
    });
    Ok(located.collect())
}

/// Texts with the numbers of their first lines.
type Numbered<'a> = Vec<(usize, Text<'a>)>;

/// As kubectl does, takes a text that begins with a brace for JSON, whatever the name of the file,
/// and else for YAML.
fn json_or_yaml(text: &str) -> Result<Numbered<'_>, String> {
    json_stream(text).or_else(|error| {
        let documents = yaml_texts(text);
        let is_yaml = documents.first().is_some_and(|(_, first)| first.parse().is_ok());
        if is_yaml { Ok(documents) } else { Err(error) }
    })
}

fn yaml_texts(text: &str) -> Numbered<'_> {
    yaml_documents::documents(text).map(|part| (part.line, Text::Yaml(part))).collect()
}

/// Splits a sequence of JSON values, each with its line from 1.
fn json_stream(text: &str) -> Result<Vec<(usize, Text<'_>)>, String> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let mut documents = Vec::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        let start = stream.byte_offset();
        let Some(value) = stream.next() else { return Ok(documents) };
        // Errors count lines from the beginning of the stream.
        let value = value.map_err(|error| error.to_string())?;
        let start = start + text[start..].find(|c: char| !c.is_whitespace()).unwrap_or(0);
        line += text[counted..start].matches('\n').count();
        counted = start;
        documents.push((line, Text::Json(value)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(name: &str, text: &str) -> Source {
        Source { name: name.into(), text: text.to_owned() }
    }

    #[test]
    fn json_stream_is_split_into_values() {
        let source = source("-", "{\"a\":\n1}\n\n{\"b\": 2} {\"c\": 3}");
        let found = of(&source).unwrap();
        let places: Vec<_> = found.iter().map(|(place, _)| place.to_string()).collect();
        assert_eq!(
            places,
            ["-: document 1 (line 1)", "-: document 2 (line 4)", "-: document 3 (line 4)"]
        );
        assert_eq!(found[1].1.parse().unwrap().value, json!({"b": 2}));
    }

    #[test]
    fn json_list_is_split_into_its_items() {
        let text = r#"{"items": [{"a": 1}, {"b": {}}], "kind": "List", "apiVersion": "v1"}"#;
        let source = source("-", text);
        let list = of(&source).unwrap()[0].1.list().unwrap();
        assert_eq!((&*list.version, &*list.kind), ("v1", "List"));
        let items: Vec<_> = list.items.iter().map(|item| item.parse().unwrap().value).collect();
        assert_eq!(items, [json!({"a": 1}), json!({"b": {}})]);
    }

    #[test]
    fn single_document_has_no_number() {
        let source = source("pod.yaml", "a: 1\n");
        assert_eq!(of(&source).unwrap()[0].0.to_string(), "pod.yaml");
    }

    #[test]
    fn json_syntax_error_names_its_line() {
        let source = source("dump.json", "{\"a\": 1}\n{\"b\": }\n");
        let fault = of(&source).unwrap_err();
        assert_eq!(fault.to_string(), "dump.json: expected value at line 2 column 7");
    }

    #[test]
    fn format_is_known_by_the_content() {
        let rows = [
            ("a.json", "a: yes\n---\nb: 1\n", vec![json!({"a": true}), json!({"b": 1})]),
            ("a.yaml", "\u{feff}{\"a\": 1}\n{\"b\": 2}", vec![json!({"a": 1}), json!({"b": 2})]),
            ("a.yaml", "{a: [on]}\n---\nb: 1\n", vec![json!({"a": [true]}), json!({"b": 1})]),
            ("a.json", "a: 1\r\n---\r\n\u{feff}b: 2\r\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ];
        for (name, text, expected) in rows {
            let source = source(name, text);
            let found = of(&source).unwrap();
            let values: Vec<_> = found.iter().map(|own| own.1.parse().unwrap().value).collect();
            assert_eq!(values, expected, "{text}");
        }
    }
}
