//! Sums over the domains of topology keys.

use std::borrow::Cow;
use std::sync::Arc;

use framework::{Cluster, DomainIx, LabelKeyIx, NodeBits, NodeIx, NodeView, Topology};

/// A sum for each domain of the topology keys that have amounts.
#[derive(Debug, Clone, Default)]
pub(super) struct TopologySums(Vec<KeySums>);

#[derive(Debug, Clone)]
struct KeySums {
    key: LabelKeyIx,
    by_domain: Vec<i64>,
}

impl TopologySums {
    /// Adds the amount of each node to its domain of `key`. Nodes without the label are ignored.
    pub(super) fn add(
        &mut self,
        cluster: &Cluster,
        key: &Arc<str>,
        amounts: impl Iterator<Item = (NodeIx, i64)>,
    ) {
        let Some(topology) = cluster.topology(key) else { return };
        let domain = |(node, amount)| Some((topology.domain_of(node)?, amount));
        let mut amounts = amounts.filter_map(domain).peekable();
        if amounts.peek().is_none() {
            return;
        }
        let sums = self.of_key_mut(topology);
        amounts.for_each(|(domain, amount)| {
            let sum = &mut sums[domain.index()];
            *sum = sum.saturating_add(amount);
        });
    }

    fn of_key_mut(&mut self, topology: Topology<'_>) -> &mut [i64] {
        let key = topology.ix();
        let place = self.0.iter().position(|own| own.key == key).unwrap_or_else(|| {
            self.0.push(KeySums { key, by_domain: vec![0; topology.len()] });
            self.0.len() - 1
        });
        &mut self.0[place].by_domain
    }

    /// Whether no amount was added.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the topology keys with their nodes and the sums by domain.
    pub(super) fn by_key<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = (Topology<'a>, &'a [i64])> {
        self.0.iter().map(|own| (cluster.topology_at(own.key), &own.by_domain[..]))
    }

    fn of_key(&self, key: LabelKeyIx) -> &[i64] {
        let own = self.0.iter().find(|own| own.key == key);
        own.map_or(&[], |own| &own.by_domain)
    }
}

/// The number of pods in each topology domain, after a few what-if changes. A pod counts once for
/// each term that matches it. Clones share the counts and differ in the changes.
#[derive(Debug, Clone, Default)]
pub(super) struct TopologyCounts {
    counted: Arc<TopologySums>,
    changes: Vec<Change>,
    total: i64,
}

#[derive(Debug, Clone)]
struct Change {
    key: LabelKeyIx,
    domain: DomainIx,
    amount: i64,
}

impl From<TopologySums> for TopologyCounts {
    fn from(counted: TopologySums) -> Self {
        let total = counted.0.iter().flat_map(|own| &own.by_domain).sum();
        Self { counted: Arc::new(counted), changes: Vec::new(), total }
    }
}

impl TopologyCounts {
    /// Counts `amount` more pods on `node`. Ignores the node if it has no domain of `key`.
    pub(super) fn change(&mut self, node: &NodeView<'_>, key: &str, amount: i64) {
        let Some(topology) = node.cluster().topology(key) else { return };
        let Some(domain) = topology.domain_of(node.ix()) else { return };
        let key = topology.ix();
        self.total += amount;
        let mut known = self.changes.iter_mut();
        match known.find(|change| change.key == key && change.domain == domain) {
            Some(change) => change.amount += amount,
            None => self.changes.push(Change { key, domain, amount }),
        }
    }

    /// Whether no pod is in any domain.
    pub(super) const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Whether a pod is in the domain of `node`.
    pub(super) fn is_occupied(&self, topology: Topology<'_>, node: &NodeView<'_>) -> bool {
        let domain = topology.domain_of(node.ix());
        domain.is_some_and(|domain| self.count(topology.ix(), domain) > 0)
    }

    /// Whether a pod is in the domain of `node` under some key.
    pub(super) fn is_any_occupied(&self, node: &NodeView<'_>) -> bool {
        self.keys(node.cluster()).any(|topology| self.is_occupied(topology, node))
    }

    fn count(&self, key: LabelKeyIx, domain: DomainIx) -> i64 {
        let counted = self.counted.of_key(key).get(domain.index()).copied().unwrap_or(0);
        let changes = self.changes_of(key).filter(|change| change.domain == domain);
        counted + changes.map(|change| change.amount).sum::<i64>()
    }

    fn changes_of(&self, key: LabelKeyIx) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.key == key)
    }

    /// Returns every key under which pods were counted. A key may repeat.
    pub(super) fn keys<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = Topology<'a>> {
        let counted = self.counted.0.iter().map(|own| own.key);
        let keys = counted.chain(self.changes.iter().map(|change| change.key));
        keys.map(|key| cluster.topology_at(key))
    }

    /// Returns the nodes whose domain contains a pod.
    pub(super) fn occupied(&self, cluster: &Cluster, topology: Topology<'_>) -> NodeBits {
        let mut occupied = NodeBits::with_len(cluster.table_len());
        let counts = self.by_domain(topology);
        topology.column().iter().for_each(|(node, domain)| {
            if domain.is_some_and(|domain| counts[domain.index()] > 0) {
                occupied.insert(node);
            }
        });
        occupied
    }

    /// Returns the number of pods in each domain of one key.
    fn by_domain(&self, topology: Topology<'_>) -> Cow<'_, [i64]> {
        let mut counts = Cow::Borrowed(self.counted.of_key(topology.ix()));
        if counts.is_empty() {
            counts = vec![0; topology.len()].into();
        }
        for change in self.changes_of(topology.ix()) {
            counts.to_mut()[change.domain.index()] += change.amount;
        }
        counts
    }
}
