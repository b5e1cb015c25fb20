//! Labels of an object, and the Kubernetes syntax of label keys and values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The labels of one object, sorted by key.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Labels(Box<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// Returns the value of the label `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        // Most keys differ in length, so for few labels this is faster than a binary search.
        self.0.iter().find(|(own, _)| **own == *key).map(|(_, value)| &**value)
    }

    /// Returns whether there is a label `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns the keys and values, ordered by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns the keys and values as shared strings, ordered by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the keys and values, to be replaced by equal shared strings.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut Arc<str>> {
        self.0.iter_mut().flat_map(|(key, value)| [key, value])
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(map: &BTreeMap<String, String>) -> Self {
        Self(map.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect())
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    /// Collects labels. Of labels with the same key the last one is kept.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let map: BTreeMap<Arc<str>, Arc<str>> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self(map.into_iter().collect())
    }
}

/// Maximum length of a label value and of the name part of a label key, in bytes.
const NAME_MAX: usize = 63;
/// Maximum length of the prefix part of a label key, in bytes.
const PREFIX_MAX: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must \
     start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
     regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
     (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Returns every reason why `key` is not a label key (a qualified name in Kubernetes), in the words
/// of the API server. Returns an empty list for a valid key.
pub fn label_key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            prefix_faults(prefix, &mut faults);
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_MAX {
        faults.push(format!("name part {}", too_long(NAME_MAX)));
    }
    if !is_name(name) {
        faults.push(format!("name part {NAME_RULE}"));
    }
    faults
}

/// Returns the reasons why `key` is not a label key; `None` for a valid key.
pub(crate) fn label_key_fault(key: &str) -> Option<String> {
    joined(&label_key_faults(key))
}

fn prefix_faults(prefix: &str, faults: &mut Vec<String>) {
    if prefix.is_empty() {
        faults.push("prefix part must be non-empty".to_owned());
        return;
    }
    if prefix.len() > PREFIX_MAX {
        faults.push(format!("prefix part {}", too_long(PREFIX_MAX)));
    }
    if !prefix.split('.').all(is_dns_label) {
        faults.push(format!("prefix part {SUBDOMAIN_RULE}"));
    }
}

/// Returns the reasons why `value` is not a label value; `None` for a valid value.
pub(crate) fn label_value_fault(value: &str) -> Option<String> {
    let mut faults = Vec::new();
    if value.len() > NAME_MAX {
        faults.push(too_long(NAME_MAX));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(VALUE_RULE.to_owned());
    }
    joined(&faults)
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn joined(faults: &[String]) -> Option<String> {
    (!faults.is_empty()).then(|| faults.join("; "))
}

fn is_name(text: &str) -> bool {
    is_made_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

fn is_dns_label(text: &str) -> bool {
    is_made_of(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), b"-")
}

/// Returns whether `text` starts and ends with an `edge` byte and contains only `edge` and `inner`
/// bytes.
fn is_made_of(text: &str, edge: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => {
            edge(first)
                && edge(last)
                && bytes.iter().all(|&byte| edge(byte) || inner.contains(&byte))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_key_in_any_order_of_creation() {
        let labels =
            Labels::from_iter([("zone", "b"), ("app", "old"), ("app", "web"), ("empty", "")]);
        assert_eq!(labels.get("app"), Some("web"));
        assert_eq!(labels.get("empty"), Some(""));
        assert_eq!(labels.get("ap"), None);
        assert!(labels.contains_key("zone"));
        let pairs: Vec<_> = labels.iter().collect();
        assert_eq!(pairs, [("app", "web"), ("empty", ""), ("zone", "b")]);
        let map = BTreeMap::from(
            [("app", "web"), ("empty", ""), ("zone", "b")]
                .map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        assert_eq!(Labels::from(&map), labels);
        assert!(Labels::default().is_empty());
    }

    #[test]
    fn label_keys_and_values_are_validated() {
        let long = "a".repeat(64);
        for key in ["app", "a", "A.b_c-9", "example.com/app", "a-b.c/x"] {
            assert_eq!(label_key_fault(key), None, "{key}");
        }
        for key in ["", "-a", "a-", "a b", "/a", "a/", "a/b/c", "Ex.com/a", "a..b/c", &long, "é"] {
            assert!(label_key_fault(key).is_some(), "{key}");
        }
        for value in ["", "a", "0", "a-b_c.d", &long[1..]] {
            assert_eq!(label_value_fault(value), None, "{value}");
        }
        for value in ["-1", "+5", "a/b", "a ", &long] {
            assert!(label_value_fault(value).is_some(), "{value}");
        }
    }
}
