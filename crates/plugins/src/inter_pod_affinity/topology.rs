//! Numbers of pods, or weights, in the domains of topology keys.

use std::borrow::Cow;
use std::sync::Arc;

use framework::{
    AffinityTermKind, CarriedTerm, ChangedNodes, Cluster, DomainIx, LabelKeyIx, NodeBits,
    NodeColumn, NodeIx, NodeView, PodAffinityTerm, PodCount, PodQuery, Topology,
};

use crate::domain_tally::{DomainTally, Share, add_with_value};
use crate::packed_keys::PackedKeys;

/// Pods that count in the domains of a topology key, each with a weight.
#[derive(Debug)]
pub(super) struct Source<'a> {
    key: &'a Arc<str>,
    weight: i64,
    pods: Pods<'a>,
}

#[derive(Debug)]
enum Pods<'a> {
    /// Placed pods that match a query.
    Matching(PodQuery, Cow<'a, NodeColumn<PodCount>>),
    /// Placed pods that carry a term. A pod counts once for each occurrence.
    Carrying(&'a CarriedTerm),
}

/// The identity of a source, to compare it with the sources of an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceId {
    key: Arc<str>,
    weight: i64,
    pods: PodsId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PodsId {
    Matching(PodQuery),
    Carrying(AffinityTermKind, Arc<PodAffinityTerm>),
}

impl<'a> Source<'a> {
    /// Returns the source of the pods that match `query`.
    pub(super) fn matching(
        key: &'a Arc<str>,
        weight: i64,
        query: PodQuery,
        cluster: &'a Cluster,
    ) -> Self {
        let pods = cluster.matching_pods(&query);
        Self { key, weight, pods: Pods::Matching(query, pods) }
    }

    /// Returns the source of the pods that carry a term.
    pub(super) fn carrying(weight: i64, carried: &'a CarriedTerm) -> Self {
        Self { key: &carried.term.topology_key, weight, pods: Pods::Carrying(carried) }
    }

    fn is(&self, id: &SourceId) -> bool {
        let same_pods = match (&self.pods, &id.pods) {
            (Pods::Matching(query, _), PodsId::Matching(other)) => query == other,
            (Pods::Carrying(carried), PodsId::Carrying(kind, term)) => {
                carried.kind == *kind && carried.term == *term
            }
            _ => false,
        };
        *self.key == id.key && self.weight == id.weight && same_pods
    }

    fn id(&self) -> SourceId {
        let pods = match &self.pods {
            Pods::Matching(query, _) => PodsId::Matching(query.clone()),
            Pods::Carrying(carried) => PodsId::Carrying(carried.kind, carried.term.clone()),
        };
        SourceId { key: self.key.clone(), weight: self.weight, pods }
    }

    /// Number of pods on a node.
    fn pods_on(&self, node: NodeIx) -> i64 {
        match &self.pods {
            Pods::Matching(_, pods) => pods.get(node).total().into(),
            Pods::Carrying(carried) => carried.carriers.get(node).into(),
        }
    }

    fn for_each_node(&self, mut visit: impl FnMut(NodeIx, i64)) {
        match &self.pods {
            Pods::Matching(_, pods) => {
                pods.iter().for_each(|(node, count)| visit(node, count.total().into()));
            }
            Pods::Carrying(carried) => {
                carried.carriers.iter().for_each(|(node, count)| visit(node, count.into()));
            }
        }
    }
}

/// The sums of some sources, for each domain of their topology keys.
#[derive(Debug, Clone, Default)]
pub(super) struct TopologySums {
    sources: Vec<SourceId>,
    keys: Vec<KeySums>,
}

/// The sums of the sources with one topology key.
#[derive(Debug, Clone)]
struct KeySums {
    key: Arc<str>,
    /// The id of the key; `None` if no node has the label.
    ix: Option<LabelKeyIx>,
    /// Whether each domain is a single node.
    is_per_node: bool,
    tally: DomainTally,
}

impl TopologySums {
    /// Returns the sums of `sources`. With `follows`, nodes can be counted [again](Self::repair).
    pub(super) fn of(sources: &[Source<'_>], cluster: &Cluster, follows: bool) -> Self {
        let mut keys: Vec<KeySums> = Vec::new();
        for source in sources {
            if keys.iter().any(|own| own.key == *source.key) {
                continue;
            }
            let topology = cluster.topology(source.key);
            let mut own = KeySums {
                key: source.key.clone(),
                ix: topology.map(|topology| topology.ix()),
                is_per_node: topology.is_some_and(|topology| topology.is_per_node()),
                tally: DomainTally::new(follows),
            };
            if let Some(topology) = topology {
                own.count(sources, topology);
            }
            keys.push(own);
        }
        Self { sources: sources.iter().map(Source::id).collect(), keys }
    }

    /// Whether the sums belong to `sources`.
    pub(super) fn are_of(&self, sources: &[Source<'_>]) -> bool {
        self.sources.len() == sources.len()
            && sources.iter().zip(&self.sources).all(|(source, id)| source.is(id))
    }

    /// Counts the pods on `changed` nodes again. Returns whether keys of other nodes change.
    pub(super) fn repair(
        &mut self,
        sources: &[Source<'_>],
        cluster: &Cluster,
        changed: &ChangedNodes,
    ) -> bool {
        let mut rekeys = false;
        for own in &mut self.keys {
            let topology = cluster.topology(&own.key);
            rekeys |= own.ix.is_some() != topology.is_some();
            own.ix = topology.map(|topology| topology.ix());
            let is_per_node = topology.is_some_and(|topology| topology.is_per_node());
            rekeys |= std::mem::replace(&mut own.is_per_node, is_per_node) != is_per_node;
            for node in &own.nodes_to_recount(sources, changed) {
                let domain = topology.and_then(|topology| topology.domain_of(*node));
                let amount = domain.and_then(|_| own.amount(sources, *node));
                let share = amount.map(|amount| Share { domain, amount });
                own.tally.replace(*node, share);
            }
        }
        rekeys
    }

    /// Whether no pod is counted.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.iter().all(|own| own.tally.is_empty())
    }

    /// About the number of words that the sums take.
    pub(super) fn size(&self) -> usize {
        self.keys.iter().map(|own| own.tally.size()).sum()
    }

    /// Returns the topology keys that some node has.
    pub(super) fn topologies<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = TopologyOfSums<'a>> {
        self.keys.iter().filter_map(|own| {
            let topology = cluster.topology_at(own.ix?);
            Some(TopologyOfSums { topology, tally: &own.tally, is_per_node: own.is_per_node })
        })
    }

    fn of_key(&self, key: LabelKeyIx) -> Option<&DomainTally> {
        self.keys.iter().find(|own| own.ix == Some(key)).map(|own| &own.tally)
    }
}

impl KeySums {
    fn count(&mut self, sources: &[Source<'_>], topology: Topology<'_>) {
        let mut of_key = sources.iter().filter(|source| *source.key == self.key);
        if let (Some(source), None) = (of_key.next(), of_key.next()) {
            source.for_each_node(|node, pods| {
                if let Some(domain) = topology.domain_of(node) {
                    self.tally.insert(node, Some(domain), source.weight * pods);
                }
            });
            return;
        }
        let mut nodes = Vec::new();
        for source in sources.iter().filter(|source| *source.key == self.key) {
            source.for_each_node(|node, _| nodes.push(node));
        }
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            if let Some(domain) = topology.domain_of(node) {
                let amount = self.amount(sources, node).unwrap_or(0);
                self.tally.insert(node, Some(domain), amount);
            }
        }
    }

    /// Returns the changed nodes, apart from nodes with the same domain that had and have no pods
    /// to count.
    fn nodes_to_recount(&self, sources: &[Source<'_>], changed: &ChangedNodes) -> Vec<NodeIx> {
        let mut nodes = changed.objects.clone();
        self.tally.add_members(&changed.nodes, &mut nodes);
        for source in sources.iter().filter(|source| *source.key == self.key) {
            match &source.pods {
                Pods::Matching(_, pods) => add_with_value(&changed.nodes, pods, &mut nodes),
                Pods::Carrying(carried) => {
                    add_with_value(&changed.nodes, &carried.carriers, &mut nodes);
                }
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Returns the weighted number of pods on a node; `None` if none counts.
    fn amount(&self, sources: &[Source<'_>], node: NodeIx) -> Option<i64> {
        let of_key = sources.iter().filter(|source| *source.key == self.key);
        let counts = of_key.map(|source| (source.weight, source.pods_on(node)));
        counts
            .filter(|(_, pods)| *pods > 0)
            .map(|(weight, pods)| weight * pods)
            .reduce(|a, b| a + b)
    }
}

/// A topology key with the sums of its domains.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopologyOfSums<'a> {
    topology: Topology<'a>,
    tally: &'a DomainTally,
    /// Whether each domain is a single node.
    is_per_node: bool,
}

impl TopologyOfSums<'_> {
    /// Returns the sum of the domain of a node; 0 if the node has none.
    #[inline]
    pub(super) fn of_node(&self, node: NodeIx) -> i64 {
        let domain = self.topology.domain_of(node);
        domain.map_or(0, |domain| self.tally.get(Some(domain)))
    }

    /// Adds to the keys of nodes their domains, or a number for the sum of each node if each domain
    /// is a single node.
    pub(super) fn push_to(&self, keys: &mut PackedKeys<'_>, number: impl Fn(i64) -> i64) {
        match self.tally.by_node().filter(|_| self.is_per_node) {
            Some(sums) => keys.push_values(Some(self.topology), sums, number),
            None => keys.push_domains(Some(self.topology)),
        }
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

impl From<Arc<TopologySums>> for TopologyCounts {
    fn from(counted: Arc<TopologySums>) -> Self {
        let total = counted.keys.iter().map(|own| own.tally.total()).sum();
        Self { counted, changes: Vec::new(), total }
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

    /// Returns the counts without what-if changes.
    pub(super) fn counted(&self) -> &TopologySums {
        &self.counted
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
        let counted = self.counted.of_key(key).map_or(0, |tally| tally.get(Some(domain)));
        let changes = self.changes_of(key).filter(|change| change.domain == domain);
        counted + changes.map(|change| change.amount).sum::<i64>()
    }

    fn changes_of(&self, key: LabelKeyIx) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.key == key)
    }

    /// Returns every key under which pods were counted. A key may repeat.
    pub(super) fn keys<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = Topology<'a>> {
        let counted = self.counted.keys.iter().filter_map(|own| own.ix);
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
    fn by_domain(&self, topology: Topology<'_>) -> Vec<i64> {
        let mut counts = vec![0; topology.len()];
        if let Some(tally) = self.counted.of_key(topology.ix()) {
            for (domain, sum) in tally.by_domain() {
                counts[domain.index()] = sum;
            }
        }
        for change in self.changes_of(topology.ix()) {
            counts[change.domain.index()] += change.amount;
        }
        counts
    }
}
