//! Splits YAML text into the texts of documents and of items of lists.

use serde_json::Value;
use yaml::Parsed;

use super::documents::{List, Text};

/// A text without its own `---` lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// Number of its first line in the stream, from 1.
    pub(crate) line: usize,
    /// Its text.
    pub(crate) text: &'a str,
    /// Whether it is the item of a list, with its dash.
    is_item: bool,
}

/// Splits a stream into its documents. Documents without content are left out.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = Part<'_>> {
    let parts = parts(text).into_iter().filter(|(_, part)| has_content(part));
    parts.map(|(line, text)| Part { line, text, is_item: false })
}

impl<'a> Part<'a> {
    /// Parses the text.
    ///
    /// # Errors
    /// The text does not parse; with the line in the stream.
    pub(crate) fn parse(&self) -> Result<Parsed, String> {
        let parsed = yaml::read_at(self.text, self.line);
        let mut parsed = parsed.map_err(|error| error.to_string())?;
        if self.is_item
            && let Value::Array(items) = &mut parsed.value
        {
            parsed.value = items.pop().unwrap_or_default();
            for path in &mut parsed.repeated {
                *path = path.strip_prefix("[0].").unwrap_or(path).to_owned();
            }
        }
        Ok(parsed)
    }

    /// Splits a list in the form of kubectl into its items: the items begin with a dash at the
    /// beginning of a line, after a line `items:`. Returns `None` for other forms, and for a text
    /// that may have aliases, because an item may then refer to another. Version and kind are plain
    /// words.
    pub(crate) fn list(&self) -> Option<List<'a>> {
        if self.is_item || self.text.contains(": &") || self.text.contains("- &") {
            return None;
        }
        let (mut version, mut kind) = (None, None);
        let (mut starts, mut end) = (Vec::new(), None);
        let (mut is_inside, mut offset) = (false, 0);
        for (index, line) in self.text.split_inclusive('\n').enumerate() {
            let field = |name: &str| Some(line.strip_prefix(name)?.trim());
            let is_word = |own: &str| !own.contains(['"', '\'', '#', ' ']);
            match line.as_bytes() {
                [b'-', b' ' | b'\n', ..] if is_inside => starts.push((offset, self.line + index)),
                [b' ', ..] if is_inside && starts.is_empty() && !line.trim().is_empty() => {
                    return None;
                }
                [b' ' | b'#' | b'\n' | b'\r', ..] => {}
                _ if line.trim_end() == "items:" && starts.is_empty() => is_inside = true,
                _ => {
                    if std::mem::take(&mut is_inside) {
                        end = Some(offset);
                    }
                    match (field("apiVersion:"), field("kind:"), field("metadata:")) {
                        (Some(own), ..) if is_word(own) => version = Some(own),
                        (_, Some(own), _) if is_word(own) => kind = Some(own),
                        (.., Some(_)) => {}
                        _ => return None,
                    }
                }
            }
            offset += line.len();
        }
        let ends = starts.iter().skip(1).map(|(start, _)| *start);
        let ends = ends.chain([end.unwrap_or(self.text.len())]);
        let items = starts.iter().zip(ends).map(|(&(start, line), end)| {
            Text::Yaml(Part { line, text: &self.text[start..end], is_item: true })
        });
        let items: Vec<_> = items.collect();
        let is_list = kind.is_some_and(|kind| kind.ends_with("List")) && !items.is_empty();
        is_list.then_some(List { version: version?.to_owned(), kind: kind?.to_owned(), items })
    }
}

/// Returns the texts between the `---` lines, each with the number of its first line.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if let Some(rest) = after_separator(line) {
            parts.push((start_line, &text[start..offset]));
            // Text after the dashes on the same line belongs to the next document. The library
            // takes no tab there.
            let is_idle = matches!(rest.trim_start().as_bytes(), [] | [b'#', ..]);
            let left = if is_idle { usize::from(rest.ends_with('\n')) } else { rest.len() };
            start = offset + line.len() - left;
            start_line = index + 1;
        }
        offset += line.len();
    }
    parts.push((start_line, &text[start..]));
    parts
}

/// Returns the rest of a line that separates documents.
fn after_separator(line: &str) -> Option<&str> {
    // Files with a byte order mark may have been joined.
    let rest = yaml::without_mark(line).strip_prefix("---")?;
    Some(rest).filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Whether a text has more than comments, directives and the end marker.
fn has_content(part: &str) -> bool {
    let is_idle = |line: &str| line.is_empty() || line.starts_with(['#', '%']) || line == "...";
    !yaml::without_mark(part).lines().all(|line| is_idle(line.trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the line and the value of each document.
    fn parsed(text: &str) -> Result<Vec<(usize, Value)>, String> {
        documents(text).map(|part| Ok((part.line, part.parse()?.value))).collect()
    }

    #[test]
    fn documents_have_line_numbers_and_empty_ones_are_left_out() {
        let text = "# a comment\n---\na: 1\n---\n---\n# nothing\n--- \nb:\n- 2\n---\n";
        assert_eq!(parsed(text).unwrap(), [(2, json!({"a": 1})), (7, json!({"b": [2]}))]);
    }

    #[test]
    fn error_names_the_line_of_the_stream() {
        let error = parsed("a: 1\n---\nb: 2\nc: [\n").unwrap_err();
        assert!(error.contains("line 5"), "{error}");
    }

    #[test]
    fn dashes_inside_a_text_do_not_separate() {
        let documents = parsed("a: |\n  --- x\n  ---\nb: ---x\n").unwrap();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].1, json!({"a": "--- x\n---\n", "b": "---x"}));
    }

    #[test]
    fn content_may_follow_the_dashes() {
        assert_eq!(parsed("--- {a: 1}\n").unwrap()[0].1, json!({"a": 1}));
    }

    #[test]
    fn separators_may_have_spaces_tabs_and_comments_behind() {
        for rest in ["", " ", "\t", "\t # next", " # next", "\r"] {
            let text = format!("a: 1\n---{rest}\nb: 2\n");
            let expected = [(1, json!({"a": 1})), (2, json!({"b": 2}))];
            assert_eq!(parsed(&text).unwrap(), expected, "{rest:?}");
            let error = parsed(&format!("---{rest}\nb: 2\nc: [\n")).unwrap_err();
            assert!(error.contains("line 4"), "{rest:?}: {error}");
        }
    }

    /// Returns the values of the items, if the text is split into them.
    fn items(text: &str) -> Option<Vec<Result<Value, String>>> {
        let list = documents(text).next()?.list()?;
        assert_eq!((&*list.version, &*list.kind), ("v1", "PodList"), "{text}");
        Some(list.items.iter().map(|item| Ok(item.parse()?.value)).collect())
    }

    #[test]
    fn list_of_kubectl_is_split_into_its_items() {
        let text = "apiVersion: v1\nitems:\n- a: |\n    - x\n\n    y\n# why\n- b:\n  - c\n  d: 'e\n\n    f'\n\
                    kind: PodList\nmetadata:\n  resourceVersion: \"\"\n";
        let expected = [json!({"a": "- x\n\ny\n"}), json!({"b": ["c"], "d": "e\nf"})];
        assert_eq!(items(text).unwrap(), expected.map(Ok));
        let first = "kind: PodList\napiVersion: v1\nitems:\n- a: 1\n- a: [\n";
        let found = items(first).unwrap();
        assert_eq!(found[0], Ok(json!({"a": 1})));
        assert!(found[1].as_ref().is_err_and(|error| error.contains("line 6")), "{found:?}");
    }

    #[test]
    fn other_forms_of_lists_are_parsed_at_once() {
        let rows = [
            "kind: PodList\napiVersion: v1\nitems: []\n",
            "kind: PodList\napiVersion: v1\nitems:\n  - a: 1\n",
            "kind: PodList\napiVersion: v1\nitems:\n- a: &a 1\n- b: *a\n",
            "kind: Pod\napiVersion: v1\nitems:\n- a: 1\n",
            "kind: PodList\napiVersion: v1\nother: 1\nitems:\n- a: 1\n",
            "{kind: PodList, apiVersion: v1, items: [{a: 1}]}\n",
            "kind: PodList\napiVersion: \"v1\"\nitems:\n- a: 1\n",
            "kind: PodList # of kubectl\napiVersion: v1\nitems:\n- a: 1\n",
        ];
        for text in rows {
            assert_eq!(items(text), None, "{text}");
        }
    }

    #[test]
    fn fields_that_are_given_twice_have_their_path_in_the_item() {
        let text = "kind: List\napiVersion: v1\nitems:\n- a: {b: 1, b: 2}\n";
        let list = documents(text).next().unwrap().list().unwrap();
        assert_eq!(list.items[0].parse().unwrap().repeated, ["a.b"]);
    }
}
