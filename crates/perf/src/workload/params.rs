//! Parameters: fields like `countParam: $nodes`, which stand for `count` with the value of `nodes`,
//! and values like `$nodes` in `templateParams`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::{Map, Value};

/// The suffix of a field that names a parameter.
const SUFFIX: &str = "Param";

/// The field whose values may name parameters.
const TEMPLATE_PARAMS: &str = "templateParams";

/// The parameters of a workload, and which of them were used.
pub(super) struct Params<'a> {
    values: &'a BTreeMap<String, Value>,
    used: BTreeSet<&'a str>,
}

impl<'a> Params<'a> {
    pub(super) fn new(values: &'a BTreeMap<String, Value>) -> Self {
        Self { values, used: BTreeSet::new() }
    }

    /// Returns the value of a parameter.
    pub(super) fn get(&mut self, name: &str) -> anyhow::Result<&'a Value> {
        let (name, value) = self.values.get_key_value(name).with_context(|| {
            format!("the workload has no parameter {name}; add it to its params")
        })?;
        self.used.insert(name);
        Ok(value)
    }

    /// Returns the names of parameters that nothing used.
    pub(super) fn unused(&self) -> impl Iterator<Item = &'a str> {
        self.values.keys().map(String::as_str).filter(|name| !self.used.contains(name))
    }

    /// Replaces the fields that name parameters, also in nested objects.
    pub(super) fn resolve(&mut self, value: &Value) -> anyhow::Result<Value> {
        let Value::Object(fields) = value else { return Ok(value.clone()) };
        let mut resolved = Map::new();
        let (named, plain): (Vec<_>, Vec<_>) =
            fields.iter().partition(|(field, _)| field.ends_with(SUFFIX));
        for (field, value) in plain {
            let value = match (field.as_str(), value) {
                (TEMPLATE_PARAMS, Value::Object(values)) => self.resolve_values(values)?.into(),
                _ => self.resolve(value)?,
            };
            resolved.insert(field.clone(), value);
        }
        // As in scheduler_perf, the parameter replaces a plain value.
        for (field, name) in named {
            let Some(name) = parameter_name(name) else {
                bail!("{field}: expected the name of a parameter, as $name");
            };
            let value = self.get(name).with_context(|| field.clone())?;
            resolved.insert(field.trim_end_matches(SUFFIX).to_owned(), value.clone());
        }
        Ok(resolved.into())
    }

    /// Replaces the values that name parameters.
    fn resolve_values(
        &mut self,
        values: &Map<String, Value>,
    ) -> anyhow::Result<Map<String, Value>> {
        let resolve = |(field, value): (&String, &Value)| {
            let value = match parameter_name(value) {
                Some(name) => {
                    self.get(name).with_context(|| format!("{TEMPLATE_PARAMS}.{field}"))?
                }
                None => value,
            };
            Ok((field.clone(), value.clone()))
        };
        values.iter().map(resolve).collect()
    }
}

/// Returns the parameter that a value such as `$name` names.
fn parameter_name(value: &Value) -> Option<&str> {
    value.as_str()?.strip_prefix('$')
}
