//! The findings of trials for earlier pods of a template.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{FailedAttempt, Victims};
use crate::{Cluster, CycleState, NodeIx, PluginName, Pod, PodIx, Verdicts};

/// The findings of trials. An evaluator [keeps](CycleState::keep) them for the next pod of the
/// template, which tries only the other nodes.
///
/// A finding holds until the node or the pods on it change.
#[derive(Debug)]
pub(super) struct Findings {
    plugin: PluginName,
    /// The nodes on which evictions do not help, with the reasons.
    pub(super) verdicts: Verdicts,
    /// The victims on nodes on which evictions help without violating a budget, the most important
    /// first.
    victims: FxHashMap<NodeIx, Box<[PodIx]>>,
    /// The number of [changes of budgets](Cluster::budget_changes) before the victims were
    /// selected.
    budget_changes: u64,
    /// Whether all nodes without a verdict on which evictions may help are in `again`.
    pub(super) is_complete: bool,
    /// Nodes to look at again.
    pub(super) again: Vec<NodeIx>,
}

impl Findings {
    pub(super) fn new(plugin: &PluginName, cluster: &Cluster) -> Self {
        Self {
            plugin: plugin.clone(),
            verdicts: Verdicts::default(),
            victims: FxHashMap::default(),
            budget_changes: cluster.budget_changes(),
            is_complete: false,
            again: Vec::new(),
        }
    }

    /// Takes what the last attempt has kept. Nodes that have changed since are to be tried again,
    /// and these.
    pub(super) fn take(
        attempt: &mut FailedAttempt<'_>,
        plugin: &PluginName,
        again: &[NodeIx],
    ) -> Self {
        let cluster = attempt.cluster();
        let kept = attempt.state.take_kept::<Self>().filter(|(kept, _)| kept.plugin == *plugin);
        let Some((mut kept, changed)) = kept else { return Self::new(plugin, cluster) };
        if kept.budget_changes != cluster.budget_changes() {
            kept.budget_changes = cluster.budget_changes();
            kept.victims.clear();
        }
        for node in again.iter().chain(&changed.nodes).chain(&changed.starts) {
            kept.victims.remove(node);
        }
        kept.again.extend(again);
        kept.again.extend(&changed.nodes);
        kept.again.sort_unstable();
        kept.again.dedup();
        kept.again.iter().for_each(|node| kept.verdicts.clear(*node));
        kept
    }

    /// Whether evictions are known not to help on the node.
    pub(super) fn is_helpless(&self, node: NodeIx) -> bool {
        self.verdicts.id_of(node).is_some()
    }

    /// Returns the victims on a node, if they are known.
    pub(super) fn victims_on(&self, node: NodeIx, cluster: &Cluster) -> Option<Victims> {
        let pods = self.victims.get(&node)?.iter().map(|pod| cluster.pod(*pod).pod.clone());
        Some(Victims { pods: pods.collect(), pdb_violations: 0 })
    }

    /// Adds the victims on a node, unless budgets or the time have a part in their selection: the
    /// selection prefers pods of no budget, and takes a pod without a start time to start at the
    /// time of the attempt.
    pub(super) fn add_victims(
        &mut self,
        attempt: &FailedAttempt<'_>,
        node: NodeIx,
        victims: &Victims,
    ) {
        let cluster = attempt.cluster();
        let placed = || cluster.node(node).placed();
        let lower = || placed().filter(|(_, pod)| pod.priority() < attempt.pod.priority());
        let has_started = |pod: &Arc<Pod>| pod.start_time.get().is_some();
        let started = lower().filter(|(_, pod)| has_started(pod)).count();
        let depends_on_time = started > 0 && started < lower().count();
        if depends_on_time || lower().any(|(ix, _)| cluster.has_disruption_budget(ix)) {
            return;
        }
        let id_of = |victim: &Arc<Pod>| placed().find(|(_, pod)| Arc::ptr_eq(pod, victim));
        let ids = victims.pods.iter().map(|victim| Some(id_of(victim)?.0));
        if let Some(ids) = ids.collect() {
            self.victims.insert(node, ids);
        }
    }

    /// Forgets the verdicts on these nodes.
    pub(super) fn forget_verdicts(&mut self, nodes: &[NodeIx]) {
        nodes.iter().for_each(|node| self.verdicts.clear(*node));
        self.again.clear();
    }

    /// Keeps the findings for the next attempt, apart from those on these nodes.
    pub(super) fn keep(mut self, state: &mut CycleState, except: &[NodeIx]) {
        self.again.extend(except);
        except.iter().for_each(|node| drop(self.victims.remove(node)));
        // A victim list takes about six words.
        let size = self.verdicts.table_len() / 2 + self.again.len() + 6 * self.victims.capacity();
        state.keep(self, size);
    }
}
