//! Label selectors as texts, as `kubectl get --selector` takes them.

use std::sync::Arc;

use framework::{LabelSelector, Namespaces, PodQuery, api};

/// Parses the selector of a query for pods. The namespace is a name or `*`; by default it is the
/// namespace of the pod.
///
/// # Errors
/// The selector does not parse.
pub(crate) fn query(
    selector: &str,
    namespace: Option<&str>,
    own: &Arc<str>,
) -> Result<PodQuery, String> {
    let namespaces = match namespace {
        None => Namespaces::one(own),
        Some("*") => Namespaces::All,
        Some(name) => Namespaces::one(&name.into()),
    };
    Ok(PodQuery { namespaces, selector: parse(selector)? })
}

/// Parses requirements with commas between them: `a=b`, `a!=b`, `a in (b, c)`, `a notin (b, c)`,
/// `a` and `!a`. No requirement selects all pods.
fn parse(text: &str) -> Result<LabelSelector, String> {
    let mut selector = api::LabelSelector::default();
    for part in parts(text) {
        selector.match_expressions.push(requirement(part.trim())?);
    }
    let failed = |error: framework::SelectorError| {
        format!("the selector {text:?} is wrong: {}", error.messages().join(", "))
    };
    LabelSelector::compile(Some(&selector)).map_err(failed)
}

/// Splits at the commas that are in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (place, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

fn requirement(part: &str) -> Result<api::SelectorRequirement, String> {
    let made = |key: &str, operator: &str, values: Vec<String>| {
        Ok(api::SelectorRequirement {
            key: key.trim().to_owned(),
            operator: operator.to_owned(),
            values,
        })
    };
    if let Some(listed) = part.strip_suffix(')') {
        let (name, values) = listed.split_once('(').ok_or_else(|| fault(part))?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = name.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => made(key, "In", values),
            (Some(key), Some("notin"), None) => made(key, "NotIn", values),
            _ => Err(fault(part)),
        };
    }
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = part.split_once("!=") {
        return made(key, "NotIn", one(value));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return made(key, "In", one(value));
    }
    match part.strip_prefix('!') {
        Some(key) => made(key, "DoesNotExist", Vec::new()),
        None => made(part, "Exists", Vec::new()),
    }
}

fn fault(part: &str) -> String {
    format!("{part:?} is no requirement of a label selector: write \"key in (a, b)\"")
}

#[cfg(test)]
mod tests {
    use framework::Labels;

    use super::*;

    #[test]
    fn requirements_are_those_of_kubectl() {
        let labels: Labels = [("app", "web"), ("tier", "front")].into_iter().collect();
        let rows = [
            ("", true),
            ("app=web", true),
            ("app == web, tier in (front, back)", true),
            ("app!=web", false),
            ("tier notin (back)", true),
            ("app", true),
            ("!app", false),
            ("!other,app", true),
            ("app=db", false),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        for text in ["app in web", "app in (", "a b=c", "app within (a)", ",", "-=x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
