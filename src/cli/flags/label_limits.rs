//! The values of `--allow-metric-labels`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The values to which labels of metrics are limited: `value,value` by `metric,label`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct LabelLimits(BTreeMap<String, String>);

impl LabelLimits {
    /// Returns whether the keys name a metric and a label.
    pub(super) fn are_valid(&self) -> bool {
        self.0.keys().all(|key| {
            key.split_once(',')
                .is_some_and(|(metric, label)| metric_name(metric) && label_name(label))
        })
    }

    /// Returns metric, label and allowed values, which are separated by commas.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.0.iter().filter_map(|(key, values)| {
            let (metric, label) = key.split_once(',')?;
            Some((metric, label, values.as_str()))
        })
    }
}

impl From<BTreeMap<String, String>> for LabelLimits {
    fn from(limits: BTreeMap<String, String>) -> Self {
        Self(limits)
    }
}

impl FromIterator<Self> for LabelLimits {
    fn from_iter<I: IntoIterator<Item = Self>>(limits: I) -> Self {
        Self(limits.into_iter().flat_map(|limits| limits.0).collect())
    }
}

/// Parses like a map of pflag: one pair with a single `=` is taken as it is; otherwise the text is
/// a record of CSV with one pair per field.
impl FromStr for LabelLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pairs: Vec<String> = match text.matches('=').count() {
            0 => return Err(format!("{text} must be formatted as key=value")),
            1 => vec![text.trim_matches('"').to_owned()],
            _ => record(text)?,
        };
        let pair = |pair: String| match pair.split_once('=') {
            Some((key, values)) => Ok((key.to_owned(), values.to_owned())),
            None => Err(format!("{pair} must be formatted as key=value")),
        };
        pairs.into_iter().map(pair).collect::<Result<_, _>>().map(Self)
    }
}

/// Returns the fields of a record of CSV.
fn record(text: &str) -> Result<Vec<String>, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let record = reader.records().next().transpose().map_err(|error| error.to_string())?;
    Ok(record.iter().flatten().map(str::to_owned).collect())
}

impl fmt::Display for LabelLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (key, values)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}\"{key}={values}\"")?;
        }
        Ok(())
    }
}

/// Returns whether this can be the name of a metric.
pub(super) fn metric_name(name: &str) -> bool {
    is_name(name, |first| first.is_ascii_alphabetic() || "_:".contains(first))
}

/// Returns whether this can be the name of a label.
pub(super) fn label_name(name: &str) -> bool {
    is_name(name, |first| first.is_ascii_alphabetic() || first == '_')
}

/// Returns whether the name has only these characters and, after the first one, digits.
fn is_name(name: &str, is_letter: impl Fn(char) -> bool) -> bool {
    let mut rest = name.chars();
    rest.next().is_some_and(&is_letter) && rest.all(|next| is_letter(next) || next.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(String, String, String)>, String> {
        let limits: LabelLimits = text.parse()?;
        let own = |(metric, label, values): (&str, &str, &str)| {
            (metric.to_owned(), label.to_owned(), values.to_owned())
        };
        Ok(limits.iter().map(own).collect())
    }

    #[test]
    fn limits_are_written_as_for_kube_scheduler() {
        let limit = |metric: &str, label: &str, values: &str| {
            (metric.to_owned(), label.to_owned(), values.to_owned())
        };
        assert_eq!(parse("m,l=a,b").unwrap(), [limit("m", "l", "a,b")]);
        assert_eq!(parse("\"m,l=a,b\"").unwrap(), [limit("m", "l", "a,b")]);
        let two = parse("\"m,l=a,b\",\"n,k=c\"").unwrap();
        assert_eq!(two, [limit("m", "l", "a,b"), limit("n", "k", "c")]);
        assert_eq!(parse("m").unwrap_err(), "m must be formatted as key=value");
        assert_eq!(parse("m,l=a,n,k=b").unwrap_err(), "m must be formatted as key=value");
    }

    #[test]
    fn keys_name_a_metric_and_a_label() {
        let is_valid = |text: &str| text.parse::<LabelLimits>().unwrap().are_valid();
        assert!(is_valid("a:b_1,c_2=v"));
        for key in ["m=v", "1m,l=v", "m,l:x=v", "m,l,k=v", ",l=v"] {
            assert!(!is_valid(key), "{key}");
        }
    }
}
