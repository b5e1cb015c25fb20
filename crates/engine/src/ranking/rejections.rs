//! The verdicts on the nodes of a lane that fits nowhere.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::HashMap;
use framework::{FilterScope, NodeIx, Status, VerdictId, Verdicts};

use super::reads::FilterScopes;
use super::unusable::Overflow;
use crate::nominator::Nominator;
use crate::world::LogReader;

/// Maximum number of tiers. Every decision looks at one node of each.
const MAX_TIERS: usize = 1024;
/// Maximum number of distinct verdicts, past ones included. Beyond it a full pass begins anew.
const MAX_STATUSES: usize = 8192;

/// The verdict on each node for the pods of a lane, repaired from the change log.
///
/// The verdict on most nodes depends only on the node. The others form tiers, whose verdict depends
/// on the rest of the cluster: each decision looks at one node of a tier and replaces the verdict
/// of all.
#[derive(Debug)]
pub(crate) struct Rejections {
    filters: FilterScopes,
    /// The state of the change log that the verdicts show.
    state: u64,
    /// The revision of the nominations that the verdicts show, if they are
    /// [local](Self::are_local).
    nominations: u64,
    /// Nodes to look at again, beside the nodes of the change log.
    outdated: Vec<NodeIx>,
    verdicts: Arc<Verdicts>,
    tiers: Vec<Tier>,
    /// The tier of each key.
    ids: HashMap<TierKey, VerdictId>,
}

/// The state on which the verdict on a node depends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TierKey {
    /// The keys of the node for the first tier filters of the profile.
    pub(crate) keys: Vec<i64>,
    /// The verdict if the node passes these filters: the verdict of the next filter, or success.
    pub(crate) otherwise: Status,
}

/// The nodes with the same key.
#[derive(Debug, Clone)]
pub(crate) struct Tier {
    /// One of the nodes.
    pub(crate) node: NodeIx,
    pub(crate) verdict: VerdictId,
    pub(crate) key: TierKey,
}

impl Rejections {
    /// Takes over the verdicts of a full pass in this state of the change log and with these
    /// nominations, by plugins with these scopes. The caller decides again on the nodes that are
    /// [in tiers](Self::tiers).
    pub(crate) fn new(
        verdicts: Arc<Verdicts>,
        filters: FilterScopes,
        state: u64,
        nominations: u64,
    ) -> Self {
        let (outdated, tiers, ids) = (Vec::new(), Vec::new(), HashMap::default());
        Self { filters, state, nominations, outdated, verdicts, tiers, ids }
    }

    /// Returns the nodes to look at again, in ascending order, and counts on the caller to do so;
    /// `None` for all nodes.
    pub(crate) fn catch_up(
        &mut self,
        filters: &FilterScopes,
        log: &mut LogReader<'_>,
    ) -> Option<Vec<NodeIx>> {
        if self.filters != *filters || self.verdicts.status_count() > MAX_STATUSES {
            return None;
        }
        let mut nodes = log.changed_since(self.state)?.nodes.clone();
        nodes.append(&mut self.outdated);
        nodes.sort_unstable();
        nodes.dedup();
        self.state = log.revision();
        Some(nodes)
    }

    /// Returns the names of the nodes whose nominations have changed, and counts on the caller to
    /// look at them again; `None` for all nodes.
    pub(crate) fn catch_up_nominations<'n>(
        &mut self,
        nominator: &'n Nominator,
    ) -> Option<impl Iterator<Item = &'n str> + use<'n>> {
        let shown = std::mem::replace(&mut self.nominations, nominator.revision());
        nominator.changed_since(shown)
    }

    /// Whether the verdict on each node depends only on the node, the pods on it and those
    /// nominated to it.
    pub(crate) fn are_local(&self) -> bool {
        let is_local = |scope| matches!(scope, FilterScope::Node | FilterScope::NodeAsOf(_));
        self.filters.iter().flatten().all(|reads| is_local(reads.scope))
    }

    pub(crate) const fn filters(&self) -> &FilterScopes {
        &self.filters
    }

    pub(crate) const fn verdicts(&self) -> &Arc<Verdicts> {
        &self.verdicts
    }

    /// Number of bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<u32>() * self.verdicts.table_len()
    }

    /// Removes the verdict on a node that is gone.
    pub(crate) fn remove(&mut self, node: NodeIx) {
        Arc::make_mut(&mut self.verdicts).clear(node);
    }

    /// Sets what the verdict on a node depends on.
    ///
    /// # Errors
    /// [`Overflow`]: there are too many tiers.
    pub(crate) fn set(&mut self, node: NodeIx, key: TierKey) -> Result<(), Overflow> {
        let verdicts = Arc::make_mut(&mut self.verdicts);
        if key.keys.is_empty() {
            match key.otherwise.is_success() {
                true => verdicts.clear(node),
                false => verdicts.record(node, key.otherwise),
            }
            return Ok(());
        }
        let verdict = match self.ids.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if self.tiers.len() == MAX_TIERS => return Err(Overflow),
            Entry::Vacant(new) => {
                let verdict = verdicts.add(Status::success());
                self.tiers.push(Tier { node, verdict, key: new.key().clone() });
                *new.insert(verdict)
            }
        };
        verdicts.set(node, verdict);
        Ok(())
    }

    /// Sets the verdict on a node for this decision. The next one looks at it again.
    pub(crate) fn set_once(&mut self, node: NodeIx, status: Status) {
        Arc::make_mut(&mut self.verdicts).record(node, status);
        self.outdated.push(node);
    }

    /// Looks at nodes again in the next decision.
    pub(crate) fn look_again(&mut self, nodes: impl IntoIterator<Item = NodeIx>) {
        self.outdated.extend(nodes);
    }

    /// Returns the tiers that have nodes.
    pub(crate) fn tiers(&mut self) -> Vec<Tier> {
        let verdicts = &self.verdicts;
        let with_nodes = |tier: &&mut Tier| verdicts.count(tier.verdict) > 0;
        let tiers = self.tiers.iter_mut().filter(with_nodes).filter_map(|tier| {
            if verdicts.id_of(tier.node) != Some(tier.verdict) {
                tier.node = verdicts.first_with(tier.verdict)?;
            }
            Some(tier.clone())
        });
        tiers.collect()
    }

    /// Sets the verdict on the nodes of a tier.
    pub(crate) fn decide(&mut self, tier: &Tier, status: Status) {
        Arc::make_mut(&mut self.verdicts).replace(tier.verdict, status);
    }

    /// Whether each of so many nodes is rejected.
    pub(crate) fn reject_all(&self, nodes: usize) -> bool {
        self.verdicts.explicit_count() == nodes
            && self.verdicts.counts().iter().all(|(status, _)| !status.is_success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::ChangeLog;
    use framework::Dependence;

    fn reads(scope: FilterScope) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(scope))
    }

    fn node(index: usize) -> NodeIx {
        NodeIx::new(index)
    }

    fn key(keys: &[i64], otherwise: Status) -> TierKey {
        TierKey { keys: keys.to_vec(), otherwise }
    }

    fn rejections() -> Rejections {
        let filters = vec![reads(FilterScope::Node), reads(FilterScope::Tier)];
        Rejections::new(Arc::default(), filters, 0, 0)
    }

    #[test]
    fn a_tier_has_the_verdict_of_one_of_its_nodes() {
        let mut own = rejections();
        let full = Status::unschedulable("full");
        own.set(node(0), key(&[], full.clone())).unwrap();
        for (index, keys) in [(1, [7]), (2, [7]), (3, [8])] {
            own.set(node(index), key(&keys, Status::success())).unwrap();
        }
        assert!(!own.reject_all(4), "the tiers are not decided");
        for tier in own.tiers() {
            let status = Status::unschedulable(format!("tier {}", tier.key.keys[0]));
            own.decide(&tier, status);
        }
        let text = |own: &Rejections, index: usize| own.verdicts().get(node(index)).message();
        assert_eq!([0, 1, 2, 3].map(|n| text(&own, n)), ["full", "tier 7", "tier 7", "tier 8"]);
        assert!(own.reject_all(4) && !own.reject_all(5));

        // The node that stands for the tier leaves it, and the last one of the other is gone.
        own.set(node(1), key(&[], full)).unwrap();
        own.remove(node(3));
        let tiers = own.tiers();
        assert_eq!(tiers.iter().map(|tier| tier.node).collect::<Vec<_>>(), [node(2)]);
        own.decide(&tiers[0], Status::success());
        assert!(!own.reject_all(3), "the tier fits");
    }

    #[test]
    fn nodes_of_equal_keys_differ_by_the_filter_behind() {
        let mut own = rejections();
        own.set(node(0), key(&[7], Status::success())).unwrap();
        own.set(node(1), key(&[7], Status::unschedulable("full"))).unwrap();
        assert_eq!(own.tiers().len(), 2);
        for index in 2..MAX_TIERS {
            own.set(node(index), key(&[index as i64 + 7], Status::success())).unwrap();
        }
        assert!(own.set(node(2), key(&[-1], Status::success())).is_err(), "too many tiers");
    }

    #[test]
    fn verdicts_of_other_filters_are_not_repaired() {
        let mut log = ChangeLog::default();
        let mut own = rejections();
        own.set_once(node(9), Status::unschedulable("nominated"));
        own.look_again([node(4)]);
        for index in [5, 4] {
            log.push_for_test(node(index));
        }
        let filters = own.filters().clone();
        assert_eq!(
            own.catch_up(&filters, &mut log.reader()),
            Some(vec![node(4), node(5), node(9)])
        );
        assert_eq!(own.catch_up(&filters, &mut log.reader()), Some(vec![]));
        let others = vec![reads(FilterScope::Node), None];
        assert_eq!(own.catch_up(&others, &mut log.reader()), None);
    }
}
