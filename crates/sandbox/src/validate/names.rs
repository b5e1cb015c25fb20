//! The forms of names and labels.

use super::field::{Faults, Field};

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
     'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
     or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
     regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
     start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  \
     or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a \
     string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
     validation is '[A-Za-z_][A-Za-z0-9_]*')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Checks a DNS subdomain, the form of most names.
pub(super) fn subdomain(field: &Field<'_>, faults: &mut Faults) {
    form(field, faults, SUBDOMAIN_MAX, SUBDOMAIN, |text| text.split('.').all(is_dns_label));
}

/// Checks a DNS subdomain that may contain capitals, the form of names of drivers.
pub(super) fn subdomain_in_any_case(field: &Field<'_>, faults: &mut Faults) {
    if !field.text().to_lowercase().split('.').all(is_dns_label) {
        faults.invalid(field, SUBDOMAIN);
    }
}

/// Checks that a part of the field is a DNS subdomain.
pub(super) fn subdomain_text(field: &Field<'_>, part: &str, faults: &mut Faults) {
    if !part.split('.').all(is_dns_label) {
        faults.invalid_text(&field.path(), part, SUBDOMAIN);
    }
}

/// Checks that a part of the field is an identifier of C.
pub(super) fn identifier_text(field: &Field<'_>, part: &str, faults: &mut Faults) {
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let starts = part.bytes().next().is_some_and(is_start);
    if !starts || !part.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit()) {
        faults.invalid_text(&field.path(), part, IDENTIFIER);
    }
}

/// Checks a DNS label, the form of names of containers, volumes and namespaces.
pub(super) fn dns_label(field: &Field<'_>, faults: &mut Faults) {
    form(field, faults, LABEL_MAX, LABEL, is_dns_label);
}

/// Checks that a part of the field is a DNS label.
pub(super) fn dns_label_text(field: &Field<'_>, part: &str, faults: &mut Faults) {
    if part.len() > LABEL_MAX {
        faults.invalid_text(&field.path(), part, &too_long(LABEL_MAX));
    }
    if !is_dns_label(part) {
        faults.invalid_text(&field.path(), part, LABEL);
    }
}

/// Checks a DNS label that starts with a letter, the form of names of services.
pub(super) fn service_name(field: &Field<'_>, faults: &mut Faults) {
    let starts_with_letter = |text: &str| text.starts_with(|c: char| c.is_ascii_lowercase());
    form(field, faults, LABEL_MAX, SERVICE, |text| is_dns_label(text) && starts_with_letter(text));
}

/// Checks a name that is one path segment, as in RBAC.
pub(super) fn path_segment(field: &Field<'_>, faults: &mut Faults) {
    let name = field.text();
    if name == "." || name == ".." {
        faults.invalid(field, &format!("may not be '{name}'"));
    }
    for illegal in ["/", "%"].iter().filter(|illegal| name.contains(**illegal)) {
        faults.invalid(field, &format!("may not contain '{illegal}'"));
    }
}

/// Checks a qualified name, for example a label key, a toleration key or the name of a scheduling
/// gate.
pub(super) fn qualified_name(field: &Field<'_>, faults: &mut Faults) {
    for fault in framework::label_key_faults(field.text()) {
        faults.invalid(field, &fault);
    }
}

/// Checks a label value.
pub(super) fn label_value(field: &Field<'_>, faults: &mut Faults) {
    if !field.is_empty() {
        form(field, faults, LABEL_MAX, LABEL_VALUE, is_label_value);
    }
}

/// Checks a map of labels. Faults of keys have the path of the map.
pub(super) fn labels(field: &Field<'_>, faults: &mut Faults) {
    for (key, value) in field.entries() {
        label_key(field, key, faults);
        let text = value.text();
        if text.len() > LABEL_MAX {
            faults.invalid_text(&field.path(), text, &too_long(LABEL_MAX));
        }
        if !is_label_value(text) {
            faults.invalid_text(&field.path(), text, LABEL_VALUE);
        }
    }
}

/// Checks a label key in `field`.
pub(super) fn label_key(field: &Field<'_>, key: &str, faults: &mut Faults) {
    for fault in framework::label_key_faults(key) {
        faults.invalid_text(&field.path(), key, &fault);
    }
}

fn form(
    field: &Field<'_>,
    faults: &mut Faults,
    longest: usize,
    rule: &str,
    holds: impl Fn(&str) -> bool,
) {
    if field.text().len() > longest {
        faults.invalid(field, &too_long(longest));
    }
    if !holds(field.text()) {
        faults.invalid(field, rule);
    }
}

fn too_long(longest: usize) -> String {
    format!("must be no more than {longest} bytes")
}

fn is_dns_label(text: &str) -> bool {
    is_made_of(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), b"-")
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_made_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// Returns whether `text` starts and ends with an `edge` byte and holds only those and `inner`
/// ones.
fn is_made_of(text: &str, edge: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let (Some(first), Some(last)) = (text.bytes().next(), text.bytes().next_back()) else {
        return false;
    };
    edge(first) && edge(last) && text.bytes().all(|byte| edge(byte) || inner.contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn holds(rule: fn(&Field<'_>, &mut Faults), text: &str) -> bool {
        let (value, mut faults) = (Value::from(text), Faults::default());
        rule(&Field::root(&value), &mut faults);
        faults.into_causes().is_empty()
    }

    #[test]
    fn names_have_their_forms() {
        let long = "a".repeat(64);
        type Rule = fn(&Field<'_>, &mut Faults);
        let cases: [(Rule, &[&str], &[&str]); 4] = [
            (subdomain, &["a", "a.b-c.0", &long], &["", "A", "a_b", ".a", "a.", "a..b"]),
            (dns_label, &["a", "0-a"], &["", "a.b", "-a", "a-", &long]),
            (service_name, &["a", "a-0"], &["0a", "a.b"]),
            (label_value, &["", "A.b_c-0"], &["-a", "a b", &long]),
        ];
        for (rule, good, bad) in cases {
            for text in good {
                assert!(holds(rule, text), "{text}");
            }
            for text in bad {
                assert!(!holds(rule, text), "{text}");
            }
        }
        assert!(holds(path_segment, "system:node") && !holds(path_segment, "a/b"));
    }
}
