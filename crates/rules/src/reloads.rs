//! New rules while the scheduler runs.
//!
//! They arrive as an object of a kind that only the scheduler has, so that they are an input of the
//! engine like any other: decisions are deterministic, and recordings have them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use framework::{CounterVec, PluginArgs, Reload};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::args::RulesArgs;
use crate::rule_set::RuleSet;

/// The kind of the object with the rules that replace these. Profiles with equal rules share it.
pub(crate) fn kind_of(args: &RulesArgs) -> Arc<str> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(args).unwrap_or_default().hash(&mut hasher);
    format!("rules{:016x}.v1.loadmaster.io", hasher.finish()).into()
}

/// The object with new rules.
#[derive(Debug)]
pub(crate) struct NewRules(pub(crate) Arc<RuleSet>);

impl<'de> Deserialize<'de> for NewRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Object {
            #[serde(default)]
            args: Value,
        }
        let args = decoded(&Object::deserialize(deserializer)?.args).map_err(D::Error::custom)?;
        RuleSet::compile(args).map(|rules| Self(Arc::new(rules))).map_err(D::Error::custom)
    }
}

/// Checks new rules.
pub(crate) struct Reloads {
    started: Arc<RuleSet>,
    pub(crate) counter: Arc<CounterVec>,
}

impl Reloads {
    pub(crate) fn of(started: &Arc<RuleSet>) -> Self {
        let counter = CounterVec::new(
            "loadmaster_rules_reloads_total",
            "Reloads of rules; with the result error, the old rules are kept.",
            &["result"],
        );
        Self { started: started.clone(), counter }
    }
}

impl Reload for Reloads {
    fn began_with(&self, args: &Value) -> bool {
        decoded(args).is_ok_and(|args| args == self.started.args)
    }

    fn check(&self, args: &Value) -> Result<(), String> {
        let rules = RuleSet::compile(decoded(args)?)?;
        match rules.needs.missing_in(&self.started.needs) {
            None => Ok(()),
            Some(fields) => Err(format!(
                "no rule read {fields} when the scheduler started, so that is not kept: restart the scheduler"
            )),
        }
    }

    fn reloaded(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "error" };
        self.counter.with_label_values(&[result]).inc();
    }
}

fn decoded(args: &Value) -> Result<RulesArgs, String> {
    match args {
        Value::Null => Ok(RulesArgs::default()),
        args => PluginArgs::new(args.clone()).decode(),
    }
}
