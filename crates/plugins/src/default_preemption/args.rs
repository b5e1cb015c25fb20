//! The arguments, their defaults and what may be wrong with them.

use framework::PluginArgs;
use serde::{Deserialize, Serialize};

use crate::args::{Faults, decode_strictly};

/// How many candidates a preemption looks for, as `DefaultPreemptionArgs` sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Args {
    /// Percentage of the nodes that are worth a dry run.
    pub min_candidate_nodes_percentage: i32,
    /// Number of candidates.
    pub min_candidate_nodes_absolute: i32,
}

impl Default for Args {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

const PERCENTAGE: &str = "minCandidateNodesPercentage";
const ABSOLUTE: &str = "minCandidateNodesAbsolute";

impl Args {
    pub(super) fn read(args: &PluginArgs) -> Result<Self, String> {
        let args: Self = decode_strictly(args)?;
        let Self { min_candidate_nodes_percentage, min_candidate_nodes_absolute } = args;
        let mut faults = Faults::default();
        if !(0..=100).contains(&min_candidate_nodes_percentage) {
            let detail = "not in valid range [0, 100]";
            faults.invalid(PERCENTAGE, min_candidate_nodes_percentage, detail);
        }
        if min_candidate_nodes_absolute < 0 {
            faults.invalid(ABSOLUTE, min_candidate_nodes_absolute, "not in valid range [0, inf)");
        }
        if (min_candidate_nodes_percentage, min_candidate_nodes_absolute) == (0, 0) {
            let with = |other: &str| format!("cannot be zero at the same time as {other}");
            faults.invalid(PERCENTAGE, 0, &with(ABSOLUTE));
            faults.invalid(ABSOLUTE, 0, &with(PERCENTAGE));
        }
        faults.none_or(args)
    }

    /// Candidates wanted if `nodes` nodes are worth a dry run.
    pub(super) fn candidates_wanted(self, nodes: usize) -> usize {
        let at_least = |number: i32| usize::try_from(number).unwrap_or(0);
        let share = nodes * at_least(self.min_candidate_nodes_percentage) / 100;
        share.max(at_least(self.min_candidate_nodes_absolute)).min(nodes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(args: Value) -> Result<Args, String> {
        Args::read(&PluginArgs::new(args))
    }

    #[test]
    fn both_numbers_have_a_range_and_one_must_be_above_zero() {
        let both_zero = "[minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same \
                         time as minCandidateNodesAbsolute, minCandidateNodesAbsolute: Invalid \
                         value: 0: cannot be zero at the same time as minCandidateNodesPercentage]";
        let rows = [
            (json!({}), Ok((10, 100))),
            (json!({ PERCENTAGE: 0 }), Ok((0, 100))),
            (json!({ ABSOLUTE: 0 }), Ok((10, 0))),
            (
                json!({ PERCENTAGE: 101 }),
                Err("minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]"),
            ),
            (
                json!({ ABSOLUTE: -1 }),
                Err("minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"),
            ),
            (json!({ PERCENTAGE: 0, ABSOLUTE: 0 }), Err(both_zero)),
            (json!({ "percentage": 1 }), Err("unknown field \"percentage\"")),
        ];
        for (given, expected) in rows {
            let args = read(given.clone());
            let args = args.as_ref().map_err(String::as_str);
            let numbers =
                args.map(|a| (a.min_candidate_nodes_percentage, a.min_candidate_nodes_absolute));
            assert_eq!(numbers, expected, "{given}");
        }
    }

    #[test]
    fn the_larger_of_share_and_number_is_wanted_but_no_more_than_there_are() {
        // Percentage, absolute, nodes, wanted.
        let rows = [(10, 100, 50, 50), (10, 100, 5000, 500), (10, 100, 999, 100), (0, 3, 9, 3)];
        for (percentage, absolute, nodes, wanted) in rows {
            let args = read(json!({ PERCENTAGE: percentage, ABSOLUTE: absolute })).unwrap();
            assert_eq!(args.candidates_wanted(nodes), wanted);
        }
    }
}
