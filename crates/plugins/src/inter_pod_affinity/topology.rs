//! Sums over the domains of topology keys.

use std::borrow::Cow;
use std::sync::Arc;

use framework::{Cluster, DomainIx, NodeBits, NodeIx, NodeView, Topology};

/// A sum for each domain of some topology keys: those under which something was added.
#[derive(Debug, Clone, Default)]
pub(super) struct TopologySums(Vec<KeySums>);

#[derive(Debug, Clone)]
struct KeySums {
    key: Arc<str>,
    by_domain: Vec<i64>,
}

impl TopologySums {
    /// Adds the amount of each node to its domain of `key`; nodes without the label add nothing.
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
        let sums = self.of_key_mut(key, topology.len());
        amounts.for_each(|(domain, amount)| {
            let sum = &mut sums[domain.index()];
            *sum = sum.saturating_add(amount);
        });
    }

    fn of_key_mut(&mut self, key: &Arc<str>, domains: usize) -> &mut [i64] {
        let place = self.0.iter().position(|own| own.key == *key).unwrap_or_else(|| {
            self.0.push(KeySums { key: key.clone(), by_domain: vec![0; domains] });
            self.0.len() - 1
        });
        &mut self.0[place].by_domain
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Topology keys with their nodes and the sums by domain.
    pub(super) fn by_key<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = (Topology<'a>, &'a [i64])> {
        self.0.iter().filter_map(|own| Some((cluster.topology(&own.key)?, &own.by_domain[..])))
    }

    fn of_key(&self, key: &str) -> &[i64] {
        let own = self.0.iter().find(|own| *own.key == *key);
        own.map_or(&[], |own| &own.by_domain)
    }
}

/// How many pods (once for each term that means them) are in the domains of topology keys, if a few
/// pods came or went. Copies share the counts and differ by those few.
#[derive(Debug, Clone, Default)]
pub(super) struct TopologyCounts {
    counted: Arc<TopologySums>,
    changes: Vec<Change>,
    total: i64,
}

#[derive(Debug, Clone)]
struct Change {
    key: Arc<str>,
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
    /// `amount` more pods are on `node`, as far as it has a domain of `key`.
    pub(super) fn change(&mut self, node: &NodeView<'_>, key: &Arc<str>, amount: i64) {
        if let Some(domain) = domain_of(node, key) {
            self.changes.push(Change { key: key.clone(), domain, amount });
            self.total += amount;
        }
    }

    /// Whether no pod is in any domain.
    pub(super) const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The number of pods in a domain.
    pub(super) fn count(&self, key: &str, domain: DomainIx) -> i64 {
        let counted = self.counted.of_key(key).get(domain.index()).copied().unwrap_or(0);
        let changes = self.changes_of(key).filter(|change| change.domain == domain);
        counted + changes.map(|change| change.amount).sum::<i64>()
    }

    fn changes_of(&self, key: &str) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| *change.key == *key)
    }

    /// Every key under which pods were counted, some perhaps repeated.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        let counted = self.counted.0.iter().map(|own| &own.key);
        counted.chain(self.changes.iter().map(|change| &change.key))
    }

    /// The nodes that share their domain of `key` with some pod.
    pub(super) fn occupied(&self, cluster: &Cluster, key: &str) -> NodeBits {
        let mut occupied = NodeBits::with_len(cluster.table_len());
        let Some(topology) = cluster.topology(key) else { return occupied };
        let counts = self.by_domain(topology);
        topology.column().iter().for_each(|(node, domain)| {
            if domain.is_some_and(|domain| counts[domain.index()] > 0) {
                occupied.insert(node);
            }
        });
        occupied
    }

    /// The numbers of pods by domain of one key.
    fn by_domain(&self, topology: Topology<'_>) -> Cow<'_, [i64]> {
        let mut counts = Cow::Borrowed(self.counted.of_key(topology.key()));
        if counts.is_empty() {
            counts = vec![0; topology.len()].into();
        }
        for change in self.changes_of(topology.key()) {
            counts.to_mut()[change.domain.index()] += change.amount;
        }
        counts
    }
}

/// The domain of a node; `None` if it does not carry the label `key`.
pub(super) fn domain_of(node: &NodeView<'_>, key: &str) -> Option<DomainIx> {
    node.cluster().topology(key)?.domain_of(node.ix())
}
