//! `DefaultPreemptionArgs`: decoding, defaults and validation.

use framework::PluginArgs;
use serde::{Deserialize, Serialize};

use crate::args::{Faults, decode_strictly};

/// The number of candidates to look for, as set by `DefaultPreemptionArgs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Args {
    /// Percentage of the nodes that preemption may help.
    pub min_candidate_nodes_percentage: i32,
    /// Minimum number of candidates.
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

    /// Returns the number of candidates to look for if preemption may help on `nodes` nodes.
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
    fn candidate_numbers_have_ranges_and_are_not_both_zero() {
        let both_zero = "[minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same \
                         time as minCandidateNodesAbsolute, minCandidateNodesAbsolute: Invalid \
                         value: 0: cannot be zero at the same time as minCandidateNodesPercentage]";
        let rows = [
            (json!({}), Ok((10, 100))),
            (json!({ PERCENTAGE: 0 }), Ok((0, 100))),
            (json!({ PERCENTAGE: 100 }), Ok((100, 100))),
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
    fn candidates_are_the_larger_of_share_and_number_up_to_all_nodes() {
        // Percentage, absolute, nodes, candidates.
        let rows = [(10, 100, 50, 50), (10, 100, 5000, 500), (10, 100, 999, 100), (0, 3, 9, 3)];
        for (percentage, absolute, nodes, wanted) in rows {
            let args = read(json!({ PERCENTAGE: percentage, ABSOLUTE: absolute })).unwrap();
            assert_eq!(args.candidates_wanted(nodes), wanted);
        }
    }
}
