//! Numbers of selected pods in the topology domains of a hard constraint.

use std::collections::BTreeMap;

use framework::{DomainIx, NodeColumn, NodeIx};

use crate::domain_tally::DomainTally;

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
    /// Number of known domains by their number of pods.
    by_pods: BTreeMap<i64, usize>,
    known: usize,
}

impl From<DomainTally> for DomainCounts {
    fn from(tally: DomainTally) -> Self {
        let mut by_pods = BTreeMap::new();
        let mut known = 0;
        for pods in tally.sums() {
            *by_pods.entry(pods).or_default() += 1;
            known += 1;
        }
        Self { tally, by_pods, known }
    }
}

impl DomainCounts {
    /// Returns the number of known domains.
    pub(super) const fn known(&self) -> usize {
        self.known
    }

    /// About the number of words that the counts take.
    pub(super) fn size(&self) -> usize {
        self.tally.size() + 2 * self.by_pods.len()
    }

    /// Adds those of `nodes`, which are in ascending order, that have pods.
    pub(super) fn add_counted(&self, nodes: &[NodeIx], to: &mut Vec<NodeIx>) {
        self.tally.add_counted(nodes, to);
    }

    /// Returns the pods of each node; `None` if no node is going to be replaced.
    pub(super) fn by_node(&self) -> Option<&NodeColumn<i64>> {
        self.tally.by_node()
    }

    /// Changes the domain and the pods of a node; `None` if it is not eligible.
    pub(super) fn replace(&mut self, node: NodeIx, new: Option<(DomainIx, i64)>) {
        let old = self.tally.domain_of(node);
        let new = new.map(|(domain, pods)| (Some(domain), pods));
        let joined = new.map(|(domain, _)| domain);
        let touched = old.into_iter().chain(joined.filter(|joined| Some(*joined) != old));
        touched.clone().for_each(|domain| self.count(domain, false));
        self.tally.replace(node, new);
        touched.for_each(|domain| self.count(domain, true));
    }

    /// Adds a known domain to the numbers of domains, or takes it out.
    fn count(&mut self, domain: Option<DomainIx>, add: bool) {
        if !self.tally.knows(domain) {
            return;
        }
        let pods = self.tally.get(domain);
        let domains = self.by_pods.entry(pods).or_default();
        if add {
            *domains += 1;
            self.known += 1;
        } else {
            *domains -= 1;
            self.known -= 1;
            if *domains == 0 {
                self.by_pods.remove(&pods);
            }
        }
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
            .filter(|domain| self.tally.knows(Some(*domain)))
            .map(|domain| self.tally.get(Some(domain)))
            .collect();
        let unchanged = self.by_pods.iter().find(|(pods, domains)| {
            before.iter().filter(|changed| changed == pods).count() < **domains
        });
        let unchanged = unchanged.map(|(pods, _)| *pods);
        unchanged.into_iter().chain(changed().map(|domain| self.get(domain, changes))).min()
    }
}

#[cfg(test)]
mod tests;
