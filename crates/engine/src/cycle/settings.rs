//! The settings that every decision shares.

use std::sync::Arc;

use super::sampling::Sampling;
use crate::extender::Extender;
use crate::pod_group::GroupSearch;
use crate::ports::Parallelizer;
use crate::profile::Profile;

/// How one of several best nodes is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TieBreak {
    /// By the seeded generator.
    #[default]
    Random,
    /// The first by name; for tests.
    FirstByName,
}

/// Which form of Filter and Score runs. The decision is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// The set form: all nodes at once.
    Set,
    /// The one-node form: the reference for the set form.
    OneNode,
    /// Only the nodes that have changed since the last pod of the same lane, where the plugins
    /// allow it; otherwise the set form.
    #[default]
    Ranked,
}

/// The settings that every decision shares.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Percentage of nodes to score; 0 means all.
    pub(crate) percentage_of_nodes_to_score: i32,
    /// Gives a percentage of 0 the meaning it has in kube-scheduler.
    pub(crate) adaptive_sampling: bool,
    /// The extenders, the ignorable ones last.
    pub(crate) extenders: Arc<[Extender]>,
    pub(crate) tie_break: TieBreak,
    pub(crate) form: Form,
    pub(crate) check_rankings_one_in: u64,
    pub(crate) group_search: GroupSearch,
    pub(crate) parallelizer: Box<dyn Parallelizer>,
}

impl Settings {
    pub(crate) fn sampling(&self, profile: &Profile) -> Sampling {
        Sampling::of(
            profile.percentage_of_nodes_to_score,
            self.percentage_of_nodes_to_score,
            self.adaptive_sampling,
        )
    }
}
