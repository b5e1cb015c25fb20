//! Comparing what was computed with what was recorded.

use std::collections::BTreeSet;

use serde_json::Value;

/// A value that is not the one recorded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// Where, for example `scores.node-1.total`.
    pub(crate) path: String,
    /// As recorded; null for what is absent.
    pub(crate) expected: Value,
    /// As computed; null for what is absent.
    pub(crate) actual: Value,
}

/// What came of one case.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What was computed, in the shape of the recording, without what is deferred.
    pub(crate) actual: Value,
    /// Where it differs from the recording.
    pub(crate) differences: Vec<Difference>,
    /// How many entries were compared.
    pub(crate) compared: usize,
    /// Plugins not built yet that have entries in the recording.
    pub(crate) deferred: BTreeSet<String>,
    /// The differences on purpose that explain why the recording is not followed.
    pub(crate) on_purpose: BTreeSet<&'static str>,
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

    /// `actual` held to `expected` as they are; nothing is compared where nothing is recorded.
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
    /// What goes before every path.
    prefix: String,
    differences: Vec<Difference>,
    compared: usize,
    deferred: BTreeSet<String>,
    left_out: BTreeSet<Vec<String>>,
}

impl Comparison {
    /// From now on, paths begin with `prefix`.
    pub(crate) fn set_prefix(&mut self, prefix: impl Into<String>) {
        self.prefix = prefix.into();
    }

    /// Holds `actual` to `expected`, part by part; returns whether they are equal. Where both are
    /// absent there is nothing to compare.
    pub(crate) fn equal(&mut self, path: &str, expected: &Value, actual: &Value) -> bool {
        if expected.is_null() && actual.is_null() {
            return true;
        }
        self.compared += 1;
        let before = self.differences.len();
        self.differ(&join(&self.prefix, path), expected, actual);
        self.differences.len() == before
    }

    /// Notes a difference.
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

    /// Some entry is that of a plugin which is not built.
    pub(crate) fn defer(&mut self, plugin: &str) {
        self.deferred.insert(plugin.to_owned());
    }

    /// Some entry depends on these plugins, which are not built; what was computed of it is left
    /// out.
    pub(crate) fn defer_entry<'a>(
        &mut self,
        entry: &[&str],
        plugins: impl IntoIterator<Item = &'a str>,
    ) {
        self.deferred.extend(plugins.into_iter().map(str::to_owned));
        self.left_out.insert(entry.iter().map(|&step| step.to_owned()).collect());
    }

    /// The outcome for `actual`, cleared of what is deferred.
    pub(crate) fn finish(self, mut actual: Value) -> Outcome {
        for path in &self.left_out {
            remove(&mut actual, path);
        }
        let Self { differences, compared, deferred, .. } = self;
        Outcome { actual, differences, compared, deferred, on_purpose: BTreeSet::new() }
    }
}

/// Removes what is at `path`; steps into a list are indexes.
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
    fn differences_are_told_field_by_field() {
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
    fn what_is_deferred_is_not_told() {
        let mut comparison = Comparison::default();
        comparison.defer_entry(&["steps", "1", "best"], ["VolumeBinding"]);
        let outcome = comparison.finish(json!({"steps": [{"best": 1}, {"best": 2, "chosen": 3}]}));
        assert_eq!(outcome.actual, json!({"steps": [{"best": 1}, {"chosen": 3}]}));
        assert_eq!(outcome.deferred, BTreeSet::from(["VolumeBinding".to_owned()]));
    }
}
