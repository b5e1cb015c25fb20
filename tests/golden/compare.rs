//! Compares computed with recorded values.

use std::collections::BTreeSet;

use serde_json::Value;

/// A value that differs from the recording.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// Path, for example `scores.node-1.total`.
    pub(crate) path: String,
    /// Recorded value; null if absent.
    pub(crate) expected: Value,
    /// Computed value; null if absent.
    pub(crate) actual: Value,
}

/// The outcome of one case.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The computed values in the shape of the recording, without deferred entries.
    pub(crate) actual: Value,
    /// The deviations from the recording.
    pub(crate) differences: Vec<Difference>,
    /// Number of compared entries.
    pub(crate) compared: usize,
    /// Plugins that are not built and have entries in the recording.
    pub(crate) deferred: BTreeSet<String>,
    /// The deliberate differences that explain deviations.
    pub(crate) on_purpose: BTreeSet<&'static str>,
    /// The rules that explain another result at the derived level.
    pub(crate) at_level: BTreeSet<&'static str>,
    /// Number of decisions without a full pass.
    pub(crate) ranked: u64,
}

impl Outcome {
    /// The case could not be run.
    pub(crate) fn failed(message: String) -> Self {
        let (path, expected, actual) = ("run".to_owned(), Value::Null, Value::String(message));
        let differences = vec![Difference { path, expected, actual }];
        Self { differences, compared: 1, ..Self::default() }
    }

    /// The whole case belongs to a plugin that is not built.
    pub(crate) fn deferred(plugin: &str) -> Self {
        Self { deferred: BTreeSet::from([plugin.to_owned()]), ..Self::default() }
    }

    /// Compares `actual` with `expected`; compares nothing if nothing is recorded.
    pub(crate) fn plain(expected: &Value, actual: Value) -> Self {
        let mut comparison = Comparison::default();
        if !expected.is_null() {
            comparison.equal("", expected, &actual);
        }
        comparison.finish(actual)
    }
}

/// The comparison of one case, entry by entry.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Prefix of every path.
    prefix: String,
    differences: Vec<Difference>,
    compared: usize,
    deferred: BTreeSet<String>,
    left_out: BTreeSet<Vec<String>>,
}

impl Comparison {
    /// Sets the prefix of paths.
    pub(crate) fn set_prefix(&mut self, prefix: impl Into<String>) {
        self.prefix = prefix.into();
    }

    /// Compares `actual` with `expected`, part by part; returns whether they are equal. If both are
    /// absent, nothing is compared.
    pub(crate) fn equal(&mut self, path: &str, expected: &Value, actual: &Value) -> bool {
        if expected.is_null() && actual.is_null() {
            return true;
        }
        self.compared += 1;
        let before = self.differences.len();
        self.differ(&join(&self.prefix, path), expected, actual);
        self.differences.len() == before
    }

    /// Records a deviation.
    pub(crate) fn difference(&mut self, path: &str, expected: Value, actual: Value) {
        let path = join(&self.prefix, path);
        self.differences.push(Difference { path, expected, actual });
    }

    fn differ(&mut self, path: &str, expected: &Value, actual: &Value) {
        if expected == actual {
            return;
        }
        let (Value::Object(recorded), Value::Object(computed)) = (expected, actual) else {
            self.differences.push(Difference {
                path: path.to_owned(),
                expected: expected.clone(),
                actual: actual.clone(),
            });
            return;
        };
        let keys: BTreeSet<&String> = recorded.keys().chain(computed.keys()).collect();
        for key in keys {
            self.differ(&join(path, key), &expected[key], &actual[key]);
        }
    }

    /// Records that an entry belongs to a plugin that is not built.
    pub(crate) fn defer(&mut self, plugin: &str) {
        self.deferred.insert(plugin.to_owned());
    }

    /// Records that an entry depends on these plugins, which are not built; the computed entry is
    /// left out.
    pub(crate) fn defer_entry<'a>(
        &mut self,
        entry: &[&str],
        plugins: impl IntoIterator<Item = &'a str>,
    ) {
        self.deferred.extend(plugins.into_iter().map(str::to_owned));
        self.left_out.insert(entry.iter().map(|&step| step.to_owned()).collect());
    }

    /// Returns the outcome for `actual`, without deferred entries.
    pub(crate) fn finish(self, mut actual: Value) -> Outcome {
        for path in &self.left_out {
            remove(&mut actual, path);
        }
        let Self { differences, compared, deferred, .. } = self;
        Outcome { actual, differences, compared, deferred, ..Outcome::default() }
    }
}

/// Removes the value at `path`; steps into a list are indexes.
fn remove(value: &mut Value, path: &[String]) {
    match (path, value) {
        ([last], Value::Object(fields)) => drop(fields.remove(last)),
        ([step, rest @ ..], Value::Object(fields)) => {
            if let Some(inner) = fields.get_mut(step) {
                remove(inner, rest);
            }
        }
        ([step, rest @ ..], Value::Array(list)) => {
            let index: Option<usize> = step.parse().ok();
            if let Some(inner) = index.and_then(|index| list.get_mut(index)) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

fn join(path: &str, step: &str) -> String {
    match (path, step) {
        ("", only) | (only, "") => only.to_owned(),
        (path, step) => format!("{path}.{step}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deviations_are_reported_per_field() {
        let mut comparison = Comparison::default();
        comparison.set_prefix("set form");
        let expected = json!({"a": {"x": 1, "y": [1]}, "b": "same"});
        let actual = json!({"a": {"x": 2, "y": [1]}, "b": "same", "c": true});
        assert!(!comparison.equal("", &expected, &actual));
        let outcome = comparison.finish(actual);
        let paths: Vec<_> = outcome.differences.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["set form.a.x", "set form.c"]);
    }

    #[test]
    fn deferred_entries_are_not_reported() {
        let mut comparison = Comparison::default();
        comparison.defer_entry(&["steps", "1", "best"], ["VolumeBinding"]);
        let outcome = comparison.finish(json!({"steps": [{"best": 1}, {"best": 2, "chosen": 3}]}));
        assert_eq!(outcome.actual, json!({"steps": [{"best": 1}, {"chosen": 3}]}));
        assert_eq!(outcome.deferred, BTreeSet::from(["VolumeBinding".to_owned()]));
    }
}
