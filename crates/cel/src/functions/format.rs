//! Named formats of strings.

use std::sync::LazyLock;

use ::regex::Regex;

use super::url::Url;
use super::{Library, no_overload, time};
use crate::meter::Meter;
use crate::value::{Outcome, Value};

/// A format that strings may have.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    /// The length of the regular expression, which the cost depends on.
    pub(crate) regex_size: u64,
    validate: fn(&str) -> Vec<String>,
}

macro_rules! constants {
    ($($name:literal),*) => {
        /// `format.named`, a function for each format, and `validate`.
        pub(crate) const LIBRARY: &Library = &[
            ("format.named", named, &["format-named (string) -> optional(format)"]),
            ("validate", validate, &["format-validate format.(string) -> optional(list(string))"]),
            $((
                concat!("format.", $name),
                |_, _| Ok(find($name).map_or(Value::Null, Value::Format)),
                &[concat!("format.", $name, " () -> format")],
            ),)*
        ];
    };
}

constants!(
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime"
);

static FORMATS: [(&str, NamedFormat); 13] = [
    ("dns1123Label", format("DNS1123Label", 30, |text| LABEL.check(text))),
    ("dns1123Subdomain", format("DNS1123Subdomain", 60, |text| SUBDOMAIN.check(text))),
    ("dns1035Label", format("DNS1035Label", 30, |text| OLD_LABEL.check(text))),
    ("qualifiedName", format("QualifiedName", 60, qualified_name)),
    ("dns1123LabelPrefix", format("DNS1123LabelPrefix", 30, |text| LABEL.check(&masked(text)))),
    (
        "dns1123SubdomainPrefix",
        format("DNS1123SubdomainPrefix", 60, |text| SUBDOMAIN.check(&masked(text))),
    ),
    ("dns1035LabelPrefix", format("DNS1035LabelPrefix", 30, |text| OLD_LABEL.check(&masked(text)))),
    ("labelValue", format("LabelValue", 40, |text| LABEL_VALUE.check(text))),
    ("uri", format("URI", 1145, |text| Url::parse(text).err().into_iter().collect())),
    ("uuid", format("uuid", 88, |text| one(is_uuid(text), "does not match the UUID format"))),
    ("byte", format("byte", 92, |text| one(is_base64(text), "invalid base64"))),
    ("date", format("date", 174, |text| one(is_date(text), "invalid date"))),
    ("datetime", format("datetime", 174, |text| one(is_datetime(text), "invalid datetime"))),
];

const fn format(
    name: &'static str,
    regex_size: u64,
    validate: fn(&str) -> Vec<String>,
) -> NamedFormat {
    NamedFormat { name, regex_size, validate }
}

fn find(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| format)
}

fn named<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(name)] => Ok(match find(name) {
            Some(format) => Value::some(Value::Format(format)),
            None => Value::Optional(None),
        }),
        _ => no_overload("format.named", args),
    }
}

fn validate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Format(format), Value::String(text)] = args else {
        return no_overload("validate", args);
    };
    let errors = (format.validate)(text);
    Ok(if errors.is_empty() {
        Value::Optional(None)
    } else {
        Value::some(Value::list(errors.into_iter().map(Value::string).collect()))
    })
}

/// A rule of names: the longest one, its pattern, and the texts of errors.
struct Rule {
    longest: usize,
    pattern: LazyLock<Regex>,
    message: &'static str,
}

impl Rule {
    fn check(&self, text: &str) -> Vec<String> {
        let mut errors = Vec::new();
        if text.len() > self.longest {
            errors.push(format!("must be no more than {} bytes", self.longest));
        }
        if !self.pattern.is_match(text) {
            errors.push(self.message.to_owned());
        }
        errors
    }
}

macro_rules! rule {
    ($name:ident, $longest:literal, $pattern:literal, $message:literal) => {
        static $name: Rule = Rule {
            longest: $longest,
            pattern: LazyLock::new(|| pattern($pattern)),
            message: $message,
        };
    };
}

/// Compiles one of the patterns below. The empty pattern in place of a wrong one never occurs, as
/// the tests show.
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|_| unreachable!("{text}"))
}

rule!(
    LABEL,
    63,
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
);
rule!(
    SUBDOMAIN,
    253,
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
);
rule!(
    OLD_LABEL,
    63,
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
);
rule!(
    LABEL_VALUE,
    63,
    "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
     '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
);
rule!(
    NAME_PART,
    63,
    "^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
     validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
);

/// Returns the name with a dash at the end made a letter: a prefix may end in one.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if text.len() > 1 => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let found = SUBDOMAIN.check(prefix);
                errors.extend(found.into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            return vec![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                 '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix \
                 and '/' (e.g. 'example.com/MyName')"
                    .to_owned(),
            ];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !NAME_PART.pattern.is_match(name) {
        errors.push(NAME_PART.message.to_owned());
    }
    errors
}

fn one(is_valid: bool, error: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![error.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|char| *char != '-').collect();
    let dashes: Vec<_> = text.match_indices('-').map(|(index, _)| index).collect();
    digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && (dashes.is_empty() || dashes == [8, 13, 18, 23])
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_datetime(text: &str) -> bool {
    text.len() >= 4 && time::parse_timestamp(&text.to_ascii_uppercase()).is_some()
}
