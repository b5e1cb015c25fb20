//! Sums over the domains of a topology key, which follow the nodes that change.

use framework::{DomainIx, NodeColumn, NodeIx};

/// An amount for each node of a set, summed by topology domain. Nodes without the label share a
/// domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct DomainTally {
    /// The column has a place for each domain, as for nodes; see [`place_of`]. With a domain for
    /// each node, most have no node of the set.
    domains: NodeColumn<Domain>,
    /// `None` if no node is going to be replaced.
    members: Option<Members>,
    /// The sum of all amounts.
    total: i64,
    /// Number of nodes.
    len: usize,
}

/// The part of a node in the sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// `None` for a node without the label.
    pub(crate) domain: Option<DomainIx>,
    pub(crate) amount: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Domain {
    nodes: u32,
    sum: i64,
}

/// The nodes of the set.
#[derive(Debug, Clone, Default)]
struct Members {
    /// The place of the domain of each node, plus one.
    domains: NodeColumn<u32>,
    amounts: NodeColumn<i64>,
}

/// Returns the place of a domain, of which the first is for nodes without the label.
fn place_of(domain: Option<DomainIx>) -> NodeIx {
    NodeIx::new(domain.map_or(0, |domain| domain.index() + 1))
}

impl DomainTally {
    /// Returns an empty tally. If it `follows` changes, nodes can be [replaced](Self::replace).
    pub(crate) fn new(follows: bool) -> Self {
        Self { members: follows.then(Members::default), ..Self::default() }
    }

    /// Returns the tally of these nodes, which are in ascending order, with their domains and
    /// without amounts.
    pub(crate) fn of(
        nodes: impl Iterator<Item = (NodeIx, Option<DomainIx>)>,
        follows: bool,
    ) -> Self {
        let mut tally = Self::new(follows);
        let mut domains: Vec<Domain> = Vec::new();
        let mut places = Vec::new();
        for (node, domain) in nodes {
            let place = place_of(domain).index();
            if domains.len() <= place {
                domains.resize(place + 1, Domain::default());
            }
            domains[place].nodes += 1;
            tally.len += 1;
            if follows {
                places.resize(node.index(), 0);
                places.push(place as u32 + 1);
            }
        }
        tally.domains = domains.into();
        if let Some(members) = &mut tally.members {
            members.domains = places.into();
        }
        tally
    }

    /// Adds the amount of a node in the set that has none, given the domain of the node.
    pub(crate) fn add(&mut self, node: NodeIx, domain: Option<DomainIx>, amount: i64) {
        self.domains.change(place_of(domain), |own| own.sum += amount);
        self.total += amount;
        if let Some(members) = &mut self.members {
            members.amounts.change(node, |own| *own = amount);
        }
    }

    /// Adds a node that is not in the set.
    pub(crate) fn insert(&mut self, node: NodeIx, domain: Option<DomainIx>, amount: i64) {
        let place = place_of(domain);
        self.domains.change(place, |own| {
            own.nodes += 1;
            own.sum += amount;
        });
        self.total += amount;
        self.len += 1;
        if let Some(members) = &mut self.members {
            members.domains.change(node, |own| *own = place.index() as u32 + 1);
            members.amounts.change(node, |own| *own = amount);
        }
    }

    /// Changes domain and amount of a node, or removes the node from the set.
    pub(crate) fn replace(&mut self, node: NodeIx, new: Option<Share>) {
        self.remove(node);
        if let Some(Share { domain, amount }) = new {
            self.insert(node, domain, amount);
        }
    }

    fn remove(&mut self, node: NodeIx) {
        let Some(members) = &mut self.members else { return };
        let Some(place) = members.domains.get(node).checked_sub(1) else { return };
        let amount = members.amounts.get(node);
        members.domains.change(node, |own| *own = 0);
        members.amounts.change(node, |own| *own = 0);
        self.domains.change(NodeIx::new(place as usize), |own| {
            own.nodes -= 1;
            own.sum -= amount;
        });
        self.total -= amount;
        self.len -= 1;
    }

    /// Returns the domain of a node in the set.
    pub(crate) fn domain_of(&self, node: NodeIx) -> Option<Option<DomainIx>> {
        let place = self.members.as_ref()?.domains.get(node).checked_sub(1)? as usize;
        Some(place.checked_sub(1).map(DomainIx::new))
    }

    /// Adds the nodes of `nodes` that are in the set.
    pub(crate) fn add_members(&self, nodes: &[NodeIx], to: &mut Vec<NodeIx>) {
        self.members.iter().for_each(|members| add_with_value(nodes, &members.domains, to));
    }

    /// Adds the nodes of `nodes` that are in the set, with an amount.
    pub(crate) fn add_counted(&self, nodes: &[NodeIx], to: &mut Vec<NodeIx>) {
        self.members.iter().for_each(|members| add_with_value(nodes, &members.amounts, to));
    }

    /// Returns the amount of each node; `None` if no node is going to be replaced.
    pub(crate) fn by_node(&self) -> Option<&NodeColumn<i64>> {
        self.members.as_ref().map(|members| &members.amounts)
    }

    /// Returns the sum of a domain.
    #[inline]
    pub(crate) fn get(&self, domain: Option<DomainIx>) -> i64 {
        self.domains.get(place_of(domain)).sum
    }

    /// Whether the domain has nodes.
    pub(crate) fn knows(&self, domain: Option<DomainIx>) -> bool {
        self.domains.get(place_of(domain)).nodes > 0
    }

    /// Returns the sums of the domains with nodes.
    pub(crate) fn sums(&self) -> impl Iterator<Item = i64> {
        self.domains.iter().filter(|(_, own)| own.nodes > 0).map(|(_, own)| own.sum)
    }

    /// Returns the sums of the domains with nodes, apart from those without the label.
    pub(crate) fn by_domain(&self) -> impl Iterator<Item = (DomainIx, i64)> {
        let domains = self.domains.iter();
        domains.filter_map(|(place, own)| {
            Some((DomainIx::new(place.index().checked_sub(1)?), own.sum))
        })
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
        let of_members = self
            .members
            .as_ref()
            .map_or(0, |members| members.domains.count() / 2 + 2 * members.amounts.count());
        2 * self.domains.count() + of_members
    }
}

/// Adds the nodes of `nodes`, which are in ascending order, that have a value in a column.
pub(crate) fn add_with_value<T: Copy + Default + PartialEq>(
    nodes: &[NodeIx],
    column: &NodeColumn<T>,
    to: &mut Vec<NodeIx>,
) {
    column.for_each_of(nodes, |place, _| to.push(nodes[place]));
}
