//! The number of nodes that a search looks for.

/// The extent of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sampling {
    /// All of them.
    #[default]
    All,
    /// As many as this share asks for: 1 to 100 percent, 0 for kube-scheduler's adaptive share.
    Percentage(i32),
}

/// Below this many candidates all are looked at.
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;
/// Least share of an adaptive sample, in percent.
const MIN_ADAPTIVE_PERCENTAGE: usize = 5;

impl Sampling {
    /// The setting for a profile: its own percentage wins over the global one, and 0 means all
    /// nodes unless `adaptive` asks for kube-scheduler's meaning.
    pub fn of(profile: Option<i32>, global: i32, adaptive: bool) -> Self {
        match profile.unwrap_or(global) {
            0 if !adaptive => Self::All,
            percentage => Self::Percentage(percentage),
        }
    }
}

/// Returns the number of feasible nodes after which a sampled search over `candidates` nodes ends.
/// `percentage` is 1 to 100, or 0 for the adaptive share of 50 percent minus one for every 125
/// nodes, at least 5.
pub fn num_feasible_nodes_to_find(candidates: usize, percentage: i32) -> usize {
    if candidates < MIN_FEASIBLE_NODES_TO_FIND {
        return candidates;
    }
    let share = match usize::try_from(percentage) {
        Ok(share @ 1..) => share,
        _ => 50_usize.saturating_sub(candidates / 125).max(MIN_ADAPTIVE_PERCENTAGE),
    };
    (candidates.saturating_mul(share) / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_shrinks_with_the_cluster() {
        let rows = [
            (99, 0, 99),
            (100, 0, 100),
            (1000, 0, 420),
            (5000, 0, 500),
            (20_000, 0, 1000),
            (1000, 30, 300),
            (200, 10, 100),
            (1000, 100, 1000),
        ];
        for (candidates, percentage, expected) in rows {
            let found = num_feasible_nodes_to_find(candidates, percentage);
            assert_eq!(found, expected, "{percentage} % of {candidates}");
        }
    }

    #[test]
    fn zero_means_all_unless_adaptive() {
        assert_eq!(Sampling::of(None, 0, false), Sampling::All);
        assert_eq!(Sampling::of(Some(0), 50, false), Sampling::All);
        assert_eq!(Sampling::of(Some(0), 50, true), Sampling::Percentage(0));
        assert_eq!(Sampling::of(None, 50, false), Sampling::Percentage(50));
    }
}
