//! Nodes on which evictions do not help the pods of a template.

use crate::{CycleState, NodeIx, PluginName, Verdicts};

/// The nodes on which evictions do not help, with the reasons. An evaluator [keeps](CycleState::keep) them for the
/// next pod of the template, which tries only the other nodes.
///
/// A reason holds until the node or the pods on it change.
#[derive(Debug)]
pub(super) struct HelplessNodes {
    plugin: PluginName,
    pub(super) verdicts: Verdicts,
    /// Whether all other nodes on which evictions may help are to be tried again.
    pub(super) is_complete: bool,
    /// Nodes to try again.
    pub(super) again: Vec<NodeIx>,
}

impl HelplessNodes {
    pub(super) fn new(plugin: &PluginName) -> Self {
        let (plugin, verdicts) = (plugin.clone(), Verdicts::default());
        Self { plugin, verdicts, is_complete: false, again: Vec::new() }
    }

    /// Takes what the last attempt has kept. Nodes that have changed since are to be tried again, and these.
    pub(super) fn take(state: &mut CycleState, plugin: &PluginName, again: &[NodeIx]) -> Self {
        let kept = state.take_kept::<Self>().filter(|(kept, _)| kept.plugin == *plugin);
        let Some((mut kept, changed)) = kept else { return Self::new(plugin) };
        kept.again.extend(again);
        kept.again.extend(&changed.nodes);
        kept.again.sort_unstable();
        kept.again.dedup();
        kept.again.iter().for_each(|node| kept.verdicts.clear(*node));
        kept
    }

    /// Whether evictions are known not to help on the node.
    pub(super) fn contains(&self, node: NodeIx) -> bool {
        self.verdicts.id_of(node).is_some()
    }

    /// Forgets what is known of these nodes.
    pub(super) fn forget(&mut self, nodes: &[NodeIx]) {
        nodes.iter().for_each(|node| self.verdicts.clear(*node));
        self.again.clear();
    }

    /// Keeps the nodes for the next attempt.
    pub(super) fn keep(self, state: &mut CycleState) {
        let size = self.verdicts.table_len() / 2 + self.again.len();
        state.keep(self, size);
    }
}
