//! The metrics of the plugin.

use std::sync::{Arc, Mutex, PoisonError};

use framework::{Counter, CounterVec};

use crate::rule_set::{Rule, RuleSet};

/// The metrics, each with the name of the rule as its label.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) evaluations: Arc<CounterVec>,
    pub(crate) rejections: Arc<CounterVec>,
    pub(crate) errors: Arc<CounterVec>,
    pub(crate) cost: Arc<CounterVec>,
    /// The series of the rules in force.
    current: Mutex<Option<Arc<SeriesOfRules>>>,
}

/// The series of each rule.
#[derive(Debug)]
pub(crate) struct SeriesOfRules {
    pub(crate) rules: Arc<RuleSet>,
    pub(crate) filters: Vec<Series>,
    pub(crate) scores: Vec<Series>,
}

/// The series of a rule.
#[derive(Debug)]
pub(crate) struct Series {
    evaluations: Arc<Counter>,
    rejections: Arc<Counter>,
    errors: Arc<Counter>,
    cost: Arc<Counter>,
}

impl Series {
    /// Adds what the rule did.
    pub(crate) fn count(&self, tally: &Tally) {
        let counts = [
            (&self.evaluations, tally.evaluations),
            (&self.rejections, tally.rejections),
            (&self.errors, tally.errors),
            (&self.cost, tally.cost),
        ];
        for (counter, more) in counts {
            if more > 0 {
                counter.add(more);
            }
        }
    }
}

/// What a rule did in one pass.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) evaluations: u64,
    pub(crate) rejections: u64,
    pub(crate) errors: u64,
    pub(crate) cost: u64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let counter = |name: &str, help: &str| CounterVec::new(name, help, &["rule"]);
        Self {
            evaluations: counter(
                "loadmaster_rules_evaluations_total",
                "Evaluations of a rule, one for each node.",
            ),
            rejections: counter("loadmaster_rules_rejections_total", "Nodes that a rule rejected."),
            errors: counter(
                "loadmaster_rules_errors_total",
                "Evaluations of a rule that had no result.",
            ),
            cost: counter(
                "loadmaster_rules_cost_total",
                "Cost of the evaluations of a rule, in the units of CEL.",
            ),
            current: Mutex::default(),
        }
    }

    /// Returns the series of the rules. The series of rules that are gone are removed.
    pub(crate) fn series_of(&self, rules: &Arc<RuleSet>) -> Arc<SeriesOfRules> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = current.as_ref().filter(|own| Arc::ptr_eq(&own.rules, rules)) {
            return series.clone();
        }
        if let Some(old) = &*current {
            let is_gone = |old: &&Rule| rules.rules().all(|own| own.name != old.name);
            for rule in old.rules.rules().filter(is_gone) {
                for counter in [&self.evaluations, &self.rejections, &self.errors, &self.cost] {
                    counter.remove(&[&rule.name]);
                }
            }
        }
        let series = |rule: &Rule| Series {
            evaluations: self.evaluations.with_label_values(&[&rule.name]),
            rejections: self.rejections.with_label_values(&[&rule.name]),
            errors: self.errors.with_label_values(&[&rule.name]),
            cost: self.cost.with_label_values(&[&rule.name]),
        };
        let series = Arc::new(SeriesOfRules {
            rules: rules.clone(),
            filters: rules.filters.iter().map(series).collect(),
            scores: rules.scores.iter().map(series).collect(),
        });
        *current = Some(series.clone());
        series
    }
}
