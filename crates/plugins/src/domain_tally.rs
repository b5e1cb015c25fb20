//! Sums over the domains of a topology key, which follow the nodes that change.

use framework::{DomainIx, NodeColumn, NodeIx};

/// An amount for each node of a set, summed by topology domain. Nodes without the label share a domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct DomainTally {
    /// By [`place_of`].
    domains: Vec<Domain>,
    /// The share of each node; `None` if no node is going to be replaced.
    shares: Option<NodeColumn<Share>>,
    /// The sum of all amounts.
    total: i64,
    /// Number of nodes.
    len: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Domain {
    nodes: u32,
    sum: i64,
}

/// The domain and the amount of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    is_in_set: bool,
    domain: Option<DomainIx>,
    amount: i64,
}

/// Returns the place of a domain, of which the first is for nodes without the label.
fn place_of(domain: Option<DomainIx>) -> usize {
    domain.map_or(0, |domain| domain.index() + 1)
}

impl DomainTally {
    /// Returns an empty tally for about this number of domains. With `follows`, nodes can be
    /// [replaced](Self::replace).
    pub(crate) fn new(domains: usize, follows: bool) -> Self {
        Self {
            domains: vec![Domain::default(); domains + 1],
            shares: follows.then(NodeColumn::default),
            total: 0,
            len: 0,
        }
    }

    /// Adds a node that is not in the set.
    pub(crate) fn insert(&mut self, node: NodeIx, domain: Option<DomainIx>, amount: i64) {
        let place = place_of(domain);
        if self.domains.len() <= place {
            self.domains.resize(place + 1, Domain::default());
        }
        let own = &mut self.domains[place];
        own.nodes += 1;
        own.sum += amount;
        self.total += amount;
        self.len += 1;
        if let Some(shares) = &mut self.shares {
            shares.change(node, |share| *share = Share { is_in_set: true, domain, amount });
        }
    }

    /// Changes domain and amount of a node, or removes the node from the set.
    pub(crate) fn replace(&mut self, node: NodeIx, new: Option<(Option<DomainIx>, i64)>) {
        self.remove(node);
        if let Some((domain, amount)) = new {
            self.insert(node, domain, amount);
        }
    }

    fn remove(&mut self, node: NodeIx) {
        let Some(shares) = &mut self.shares else { return };
        let Share { is_in_set, domain, amount } = shares.get(node);
        if !is_in_set {
            return;
        }
        shares.change(node, |share| *share = Share::default());
        let own = &mut self.domains[place_of(domain)];
        own.nodes -= 1;
        own.sum -= amount;
        self.total -= amount;
        self.len -= 1;
    }

    /// Returns the domain of a node in the set.
    pub(crate) fn domain_of(&self, node: NodeIx) -> Option<Option<DomainIx>> {
        let share = self.shares.as_ref()?.get(node);
        share.is_in_set.then_some(share.domain)
    }

    /// Returns the sum of a domain.
    #[inline]
    pub(crate) fn get(&self, domain: Option<DomainIx>) -> i64 {
        self.domains.get(place_of(domain)).map_or(0, |own| own.sum)
    }

    /// Whether the domain has nodes.
    pub(crate) fn knows(&self, domain: Option<DomainIx>) -> bool {
        self.domains.get(place_of(domain)).is_some_and(|own| own.nodes > 0)
    }

    /// Returns the sums of the domains with nodes.
    pub(crate) fn sums(&self) -> impl Iterator<Item = i64> {
        self.domains.iter().filter(|own| own.nodes > 0).map(|own| own.sum)
    }

    /// Returns the sums of all domains, by their index.
    pub(crate) fn by_domain(&self) -> impl Iterator<Item = i64> {
        self.domains.iter().skip(1).map(|own| own.sum)
    }

    /// Whether the set has no node.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the sum of all amounts.
    pub(crate) const fn total(&self) -> i64 {
        self.total
    }

    /// About the number of words that the tally takes.
    pub(crate) fn size(&self) -> usize {
        2 * (self.domains.len() + self.len)
    }
}
