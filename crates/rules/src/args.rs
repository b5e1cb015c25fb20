//! The arguments of the plugin.

use serde::{Deserialize, Serialize};

/// `RulesArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RulesArgs {
    /// The rules that reject nodes. A node must pass all that apply to the pod.
    pub filters: Vec<FilterRuleArgs>,
    /// The rules that prefer nodes.
    pub scores: Vec<ScoreRuleArgs>,
    /// The step of `now()`, in whole seconds: `now()` is rounded down to a multiple of it.
    pub now_step_seconds: i64,
    /// Maximum cost of one evaluation of one rule, in the units of CEL.
    pub cost_limit: u64,
    /// Maximum cost of one rule for one pod over all nodes. Each node gets an equal share.
    pub pod_cost_limit: u64,
}

impl Default for RulesArgs {
    fn default() -> Self {
        Self {
            filters: Vec::new(),
            scores: Vec::new(),
            now_step_seconds: 60,
            cost_limit: 10_000,
            pod_cost_limit: 100_000_000,
        }
    }
}

/// A rule that rejects nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterRuleArgs {
    /// The name, for reasons, metrics and explanations.
    pub name: String,
    /// The pods to which the rule applies: an expression over the pod and its namespace. Absent:
    /// all pods.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub applies_to: Option<String>,
    /// A bool: true for the nodes that the pod may use.
    pub expression: String,
    /// The reason for the nodes that are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What an error of the expression does to the node.
    #[serde(default)]
    pub on_error: OnError,
}

/// A rule that prefers nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoreRuleArgs {
    /// The name, for metrics and explanations.
    pub name: String,
    /// The pods to which the rule applies, as in a filter.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub applies_to: Option<String>,
    /// A number. Below 0 counts as 0, above 100 as 100, an error as 0.
    pub expression: String,
    /// The weight among the scores of the plugin.
    #[serde(default = "one")]
    pub weight: i64,
}

/// What an error of an expression does to a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnError {
    /// The rule rejects the node.
    #[default]
    Reject,
    /// The rule does not count for the node.
    Ignore,
}

const fn one() -> i64 {
    1
}
