//! Simple JSON paths, as printer columns use them: `.spec.nodes[0].name`,
//! `.metadata.labels['example\.com/zone']`, `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A path to one value of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
    /// The first item of a list in which the value at the path is this text.
    Where(JsonPath, String),
    /// The first item of a list.
    Any,
}

impl JsonPath {
    /// Reads a path; `None` if it uses more of the language than is supported.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}');
        let mut rest = text.trim_start_matches('$');
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let step;
            (step, rest) = if let Some(field) = rest.strip_prefix('.') {
                field_step(field)?
            } else if let Some(bracket) = rest.strip_prefix('[') {
                bracket_step(bracket)?
            } else {
                return None;
            };
            steps.push(step);
        }
        Some(Self(steps))
    }

    /// Returns the value at the path.
    pub(super) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(object, |value, step| match step {
            Step::Field(name) => value.get(name),
            Step::Item(index) => value.get(index),
            Step::Any => value.get(0),
            Step::Where(path, wanted) => {
                let matches = |item: &&Value| match path.find(item) {
                    Some(Value::String(found)) => found == wanted,
                    Some(found) => {
                        serde_json::from_str(wanted).is_ok_and(|wanted: Value| wanted == *found)
                    }
                    None => false,
                };
                value.as_array()?.iter().find(matches)
            }
        })
    }
}

/// Reads a field after its dot. A backslash quotes the next character.
fn field_step(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, quoted)| quoted)),
            '.' | '[' => {
                end = at;
                break;
            }
            other => name.push(other),
        }
    }
    (!name.is_empty()).then(|| (Step::Field(name), &text[end..]))
}

/// Reads an index, a quoted name or a filter after its bracket.
fn bracket_step(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(@") {
        let (filter, rest) = filter.split_once(")]")?;
        let (path, value) = filter.split_once("==")?;
        let value = value.trim().trim_matches(['"', '\'']);
        return Some((Step::Where(JsonPath::parse(path.trim())?, value.to_owned()), rest));
    }
    let (inside, rest) = text.split_once(']')?;
    if inside == "*" {
        return Some((Step::Any, rest));
    }
    let quoted = inside.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
    let step = match quoted {
        Some(name) => Step::Field(name.replace('\\', "")),
        None => Step::Item(inside.parse().ok()?),
    };
    Some((step, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": {"nodes": [{"name": "a"}, {"name": "b"}], "x.y": 1},
            "metadata": {"labels": {"example.com/zone": "z"}},
            "status": {"conditions": [{"type": "A", "status": "1"}, {"type": "B", "status": "2"}]},
        });
        let table = [
            (".spec.nodes[1].name", json!("b")),
            (".spec.nodes[*].name", json!("a")),
            (r".spec.x\.y", json!(1)),
            (r".metadata.labels['example\.com/zone']", json!("z")),
            (r#".status.conditions[?(@.type=="B")].status"#, json!("2")),
            ("{.spec.nodes[0]['name']}", json!("a")),
        ];
        for (path, expected) in table {
            assert_eq!(JsonPath::parse(path).unwrap().find(&object), Some(&expected), "{path}");
        }
        assert_eq!(JsonPath::parse(".spec.none.deep").unwrap().find(&object), None);
        assert_eq!(JsonPath::parse("spec"), None);
        assert_eq!(JsonPath::parse(".spec[0"), None);
    }
}
