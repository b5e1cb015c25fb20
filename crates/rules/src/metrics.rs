//! The metrics of the plugin.

use std::sync::Arc;

use framework::CounterVec;

/// The metrics, each with the name of the rule as its label.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) evaluations: Arc<CounterVec>,
    pub(crate) rejections: Arc<CounterVec>,
    pub(crate) errors: Arc<CounterVec>,
    pub(crate) cost: Arc<CounterVec>,
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
        }
    }

    /// Adds what a rule did.
    pub(crate) fn count(&self, rule: &str, tally: &Tally) {
        let counts = [
            (&self.evaluations, tally.evaluations),
            (&self.rejections, tally.rejections),
            (&self.errors, tally.errors),
            (&self.cost, tally.cost),
        ];
        for (counter, more) in counts {
            if more > 0 {
                counter.with_label_values(&[rule]).add(more);
            }
        }
    }
}
