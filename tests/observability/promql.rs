//! The metrics and labels that an expression of PromQL names. `promtool` checks the syntax.

use std::collections::BTreeSet;

/// What an expression names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The selected metrics, in the order of the expression.
    pub(super) selectors: Vec<Selector>,
    /// The labels of `by`, `on` and the like.
    pub(super) grouping: BTreeSet<String>,
}

/// A selected metric.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) metric: String,
    /// The label, the operator (`=`, `!=`, `=~`, `!~`) and the value of each matcher.
    pub(super) matchers: Vec<(String, String, String)>,
}

const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "inf"];

/// Returns the names in an expression.
pub(super) fn names(expression: &str) -> Names {
    let tokens = tokens(expression);
    let mut names = Names::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1).map(String::as_str);
        at += 1;
        match token.as_str() {
            "[" => at += end(&tokens[at..], "]"),
            word if GROUPING.contains(&word) && next == Some("(") => {
                let length = end(&tokens[at..], ")");
                let labels = tokens[at..at + length].iter().filter(|label| is_name(label));
                names.grouping.extend(labels.cloned());
                at += length;
            }
            word if !is_name(word) || OPERATORS.contains(&word) => {}
            word => {
                let is_aggregation = next.is_some_and(|next| GROUPING.contains(&next));
                if next == Some("(") || is_aggregation {
                    continue;
                }
                let mut matchers = Vec::new();
                if next == Some("{") {
                    let length = end(&tokens[at..], "}");
                    matchers = self::matchers(&tokens[at + 1..at + length - 1]);
                    at += length;
                }
                names.selectors.push(Selector { metric: word.to_owned(), matchers });
            }
        }
    }
    names
}

/// Returns the number of tokens up to and with this one.
fn end(tokens: &[String], last: &str) -> usize {
    let found = tokens.iter().position(|token| token == last);
    found.unwrap_or_else(|| panic!("no {last} in {tokens:?}")) + 1
}

fn matchers(tokens: &[String]) -> Vec<(String, String, String)> {
    let matchers = tokens.split(|token| token == ",").filter(|matcher| !matcher.is_empty());
    let matchers = matchers.map(|matcher| match matcher {
        [label, operator, value] => (label.clone(), operator.clone(), unquoted(value)),
        other => panic!("not a matcher: {other:?}"),
    });
    matchers.collect()
}

fn unquoted(value: &str) -> String {
    value.trim_matches('"').to_owned()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Splits an expression into names, quoted strings, operators of matchers, and single characters.
fn tokens(expression: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => 2 + rest[1..].find('"').expect("a quoted string ends"),
            _ if first.is_ascii_alphanumeric() || first == '_' => {
                let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
                rest.find(|c| !is_inside(c)).unwrap_or(rest.len())
            }
            _ if ["=~", "!~", "!="].iter().any(|operator| rest.starts_with(operator)) => 2,
            _ => first.len_utf8(),
        };
        let (token, remainder) = rest.split_at(length);
        tokens.push(token.to_owned());
        rest = remainder.trim_start();
    }
    tokens
}

#[test]
fn selectors_and_grouping_labels_are_found() {
    let expression = r#"
        histogram_quantile(0.99, sum by (le, verb) (rate(a_bucket{job="j", code!~"2..|,}"}[5m])))
        / on (instance) group_left (pod) b{} > 1e3
        unless on () (time() - c offset 5m)
        or vector(0)"#;
    let matcher = |label: &str, operator: &str, value: &str| {
        (label.to_owned(), operator.to_owned(), value.to_owned())
    };
    let selector = |metric: &str, matchers| Selector { metric: metric.to_owned(), matchers };
    let grouping = ["instance", "le", "pod", "verb"].map(str::to_owned);
    let expected = Names {
        selectors: vec![
            selector("a_bucket", vec![matcher("job", "=", "j"), matcher("code", "!~", "2..|,}")]),
            selector("b", vec![]),
            selector("c", vec![]),
        ],
        grouping: BTreeSet::from(grouping),
    };
    assert_eq!(names(expression), expected);
}
