//! The details of a decision that an explanation shows.

use std::collections::BTreeSet;

use foldhash::HashMap;
use framework::{NodeBits, NodeIx, PluginName, Verdicts};

/// The scores of one plugin.
#[derive(Debug, Clone)]
pub struct NodeScores {
    /// The plugin.
    pub plugin: PluginName,
    /// Before normalising, for plugins that normalise.
    pub raw: Option<Vec<(NodeIx, i64)>>,
    /// Normalised and weighted.
    pub weighted: Vec<(NodeIx, i64)>,
    /// What the scores consist of, for plugins that say so.
    pub parts: HashMap<NodeIx, String>,
}

/// The details of a decision that an explanation shows.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The verdict on every node that cannot take the pod.
    pub(crate) verdicts: Verdicts,
    /// The nodes that can take the pod, also those beside the node that it is nominated to.
    pub(crate) passed: NodeBits,
    /// Plugins that rejected some candidate.
    pub(crate) rejectors: BTreeSet<PluginName>,
    /// The scores of each plugin, in profile order.
    pub(crate) scores: Vec<NodeScores>,
}
