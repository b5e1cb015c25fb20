//! The configuration of an engine.

use std::time::Duration;

use framework::preemption::LONGEST_PAUSE;

use crate::cycle::{Form, TieBreak};
use crate::extender::Extender;
use crate::pod_group::GroupSearch;
use crate::ports::Parallelizer;
use crate::profile::Profiles;
use crate::queue::QueueConfig;

/// The configuration of an engine.
pub struct EngineConfig {
    /// The profiles.
    pub profiles: Profiles,
    /// Percentage of nodes to score; 0 means all.
    pub percentage_of_nodes_to_score: i32,
    /// Gives a percentage of 0 the meaning it has in kube-scheduler: a share that shrinks with the
    /// cluster.
    pub adaptive_sampling: bool,
    /// Backoffs and timeouts of the queue.
    pub queue: QueueConfig,
    /// Extenders, the ignorable ones last.
    pub extenders: Vec<Extender>,
    /// Seed of every random choice.
    pub seed: u64,
    /// How one of several best nodes is chosen.
    pub tie_break: TieBreak,
    /// Which form of the plugins decides. Both give the same decision.
    pub form: Form,
    /// One decision in so many that looked only at changed nodes is made again by a full pass.
    pub check_rankings_one_in: u64,
    /// Longest pause of preemption after preemptions that led to no binding; zero for no pauses.
    pub longest_preemption_pause: Duration,
    /// How long an order of the members is searched in which a group fits.
    pub group_search: GroupSearch,
    /// Runs the parts of passes over many nodes. Decisions do not depend on it.
    pub parallelizer: Box<dyn Parallelizer>,
}

impl EngineConfig {
    /// The defaults with these profiles.
    pub fn new(profiles: Profiles) -> Self {
        Self {
            profiles,
            percentage_of_nodes_to_score: 0,
            adaptive_sampling: false,
            queue: QueueConfig::default(),
            extenders: Vec::new(),
            seed: 0,
            tie_break: TieBreak::default(),
            form: Form::default(),
            check_rankings_one_in: 1024,
            longest_preemption_pause: LONGEST_PAUSE,
            group_search: GroupSearch::default(),
            parallelizer: Box::new(()),
        }
    }
}
