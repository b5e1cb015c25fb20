//! YAML text as a [`Tree`], with the lines of repeated keys and the errors of kube-scheduler.

use super::tree::Tree;

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
#[error("line {}: key {:?} already set in map", .0.line, .0.key)]
pub(super) struct Repeated(yaml::Repeated);

/// Parses the first document of a stream; the rest is ignored.
///
/// # Errors
/// The syntax error with its line, as kube-scheduler prints it.
pub(super) fn read(text: &str) -> Result<Document, String> {
    let parsed = yaml::read(text).map_err(|error| syntax_fault(&error))?;
    let count = parsed.repeated.len();
    let repeated = (0..count).filter_map(|index| yaml::repeated(text, index).map(Repeated));
    Ok(Document { tree: parsed.value.into(), repeated: repeated.collect() })
}

/// The error text of kube-scheduler for a document that cannot be parsed. It omits the first line,
/// and counts lines from 0 for errors of the grammar, from 1 for errors of a token.
fn syntax_fault(error: &yaml::Error) -> String {
    let text = error.to_string();
    let problem = text.split(" at line ").next().unwrap_or_default();
    let problem = problem.split(", while ").next().unwrap_or_default();
    match error.line().unwrap_or(1) {
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

    #[test]
    fn keys_are_texts_and_sorted() {
        let Tree::Object(fields) = read("b: 1\n2: x\ntrue: y\na: 3\n").unwrap().tree else {
            panic!("no object");
        };
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["2", "a", "b", "true"]);
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
