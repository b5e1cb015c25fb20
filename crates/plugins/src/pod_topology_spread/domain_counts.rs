//! Numbers of selected pods in the topology domains of a hard constraint.

use std::collections::BTreeMap;

use framework::{DomainIx, NodeColumn, NodeIx};

use crate::domain_tally::{DomainTally, Share};

/// What-if changes of the pods in domains.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes(Vec<(DomainIx, i64)>);

impl Changes {
    /// Adds `pods` to `domain`; a negative number removes pods.
    pub(super) fn add(&mut self, domain: DomainIx, pods: i64) {
        match self.0.iter_mut().find(|(known, _)| *known == domain) {
            Some((_, sum)) => *sum += pods,
            None => self.0.push((domain, pods)),
        }
    }

    /// Returns the change of `domain`.
    #[inline]
    fn of(&self, domain: DomainIx) -> i64 {
        self.0.iter().filter(|(known, _)| *known == domain).map(|(_, pods)| pods).sum()
    }
}

/// The pods of each domain. A domain is known if it has an eligible node.
#[derive(Debug, Clone)]
pub(super) struct DomainCounts {
    tally: DomainTally,
    /// Number of domains by their number of pods. Domains without pods are left out.
    by_pods: BTreeMap<i64, usize>,
    /// Number of domains with pods.
    populated: usize,
    known: Known,
}

/// Number of known domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// All domains of the topology key are known, because each of their nodes is eligible. The
    /// tally has only nodes with selected pods: to count all would take most of the time of the
    /// first attempt in a large cluster.
    All(usize),
    /// The domains of the tally, which has all eligible nodes.
    Tallied(usize),
}

impl From<DomainTally> for DomainCounts {
    /// Returns the counts of a tally that has all eligible nodes.
    fn from(tally: DomainTally) -> Self {
        let known = Known::Tallied(tally.sums().count());
        Self::new(tally, known)
    }
}

impl DomainCounts {
    /// Returns the counts of a topology key of which all nodes are eligible, given the number of
    /// its domains. The tally has the nodes with selected pods.
    pub(super) fn of_all(tally: DomainTally, domains: usize) -> Self {
        Self::new(tally, Known::All(domains))
    }

    fn new(tally: DomainTally, known: Known) -> Self {
        let mut by_pods = BTreeMap::new();
        let mut populated = 0;
        for pods in tally.sums().filter(|pods| *pods > 0) {
            *by_pods.entry(pods).or_default() += 1;
            populated += 1;
        }
        Self { tally, by_pods, populated, known }
    }

    /// Returns the number of known domains.
    pub(super) const fn known(&self) -> usize {
        match self.known {
            Known::All(domains) | Known::Tallied(domains) => domains,
        }
    }

    /// Whether all nodes with the topology key are eligible.
    pub(super) const fn has_all(&self) -> bool {
        matches!(self.known, Known::All(_))
    }

    /// Notes the number of domains of the topology key.
    pub(super) const fn follow_domains(&mut self, domains: usize) {
        if let Known::All(known) = &mut self.known {
            *known = domains;
        }
    }

    /// About the number of words that the counts take.
    pub(super) fn size(&self) -> usize {
        self.tally.size() + 2 * self.by_pods.len()
    }

    /// Adds the nodes of `nodes`, which are in ascending order, that have pods.
    pub(super) fn add_counted(&self, nodes: &[NodeIx], to: &mut Vec<NodeIx>) {
        self.tally.add_counted(nodes, to);
    }

    /// Returns the pods of each node; `None` if no node is going to be replaced.
    pub(super) fn by_node(&self) -> Option<&NodeColumn<i64>> {
        self.tally.by_node()
    }

    /// Changes the domain and the pods of a node; `None` if it is not eligible.
    pub(super) fn replace(&mut self, node: NodeIx, new: Option<Share>) {
        let new = new.filter(|share| share.amount > 0 || !self.has_all());
        let old = self.tally.domain_of(node);
        let joined = new.map(|share| share.domain);
        let touched = old.into_iter().chain(joined.filter(|joined| Some(*joined) != old));
        touched.clone().for_each(|domain| self.count(domain, false));
        self.tally.replace(node, new);
        touched.for_each(|domain| self.count(domain, true));
    }

    /// Adds a domain to the numbers of domains, or takes it out.
    fn count(&mut self, domain: Option<DomainIx>, add: bool) {
        let step = |number: &mut usize| if add { *number += 1 } else { *number -= 1 };
        if let Known::Tallied(known) = &mut self.known
            && self.tally.knows(domain)
        {
            step(known);
        }
        let pods = self.tally.get(domain);
        if pods > 0 {
            step(&mut self.populated);
            let domains = self.by_pods.entry(pods).or_default();
            step(domains);
            if *domains == 0 {
                self.by_pods.remove(&pods);
            }
        }
    }

    fn knows(&self, domain: DomainIx) -> bool {
        self.has_all() || self.tally.knows(Some(domain))
    }

    /// Returns the pods of a domain after `changes`; 0 if it is unknown.
    #[inline]
    pub(super) fn get(&self, domain: DomainIx, changes: &Changes) -> i64 {
        self.tally.get(Some(domain)) + changes.of(domain)
    }

    /// Returns the pods of the smallest known domain after `changes`.
    pub(super) fn min(&self, changes: &Changes) -> Option<i64> {
        let changed = || changes.0.iter().map(|(domain, _)| *domain);
        let before: Vec<i64> = changed()
            .filter(|domain| self.knows(*domain))
            .map(|domain| self.tally.get(Some(domain)))
            .collect();
        let empty = (0, self.known().saturating_sub(self.populated));
        let by_pods = self.by_pods.iter().map(|(pods, domains)| (*pods, *domains));
        let unchanged = std::iter::once(empty).chain(by_pods).find(|(pods, domains)| {
            before.iter().filter(|changed| *changed == pods).count() < *domains
        });
        let unchanged = unchanged.map(|(pods, _)| pods);
        unchanged.into_iter().chain(changed().map(|domain| self.get(domain, changes))).min()
    }
}

#[cfg(test)]
mod tests;
