//! JSON text as a [`Tree`].

use serde::de::DeserializeSeed;

use super::tree::{Reader, Tree};

/// Whether a text is JSON: it begins like an object.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Parses a document.
///
/// # Errors
/// A syntax error, with line and column.
pub(super) fn read(text: &str) -> Result<Tree, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let tree = Reader.deserialize(&mut deserializer);
    let tree = tree.and_then(|tree| deserializer.end().map(|()| tree));
    tree.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_keep_their_order_and_repetitions() {
        let tree = read(r#" {"b": [1, null, true], "a": "x", "b": 2.5} "#).unwrap();
        let Tree::Object(fields) = &tree else { panic!("{tree:?}") };
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "a", "b"]);
        assert_eq!(tree.to_value(), json!({"a": "x", "b": 2.5}));
    }

    #[test]
    fn faults_are_told_with_their_place() {
        for (text, place) in [("{", "line 1"), ("{\"a\":\nx}", "line 2"), ("{} {}", "trailing")] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(place), "{text}: {fault}");
        }
    }

    #[test]
    fn json_is_known_by_its_first_character() {
        assert!(is_json("\n {\"a\": 1}"));
        assert!(!is_json("# {\n"));
        assert!(!is_json(""));
    }
}
