//! Numbers of selected pods in each topology domain.

use framework::{DomainIx, NodeBits, NodeColumn, NodeIx, PodCount, Topology};

/// The number of selected pods of each known domain, by index of the domain.
///
/// Nodes without the topology key are in the domain of the empty value. Only soft constraints may
/// include such nodes.
#[derive(Debug, Clone)]
pub(super) struct DomainCounts(Vec<Option<u32>>);

impl DomainCounts {
    /// Counts the pods on the `eligible` nodes, in the domains of `nodes`.
    pub(super) fn of(
        topology: Option<Topology<'_>>,
        nodes: impl Iterator<Item = NodeIx>,
        pods: &NodeColumn<PodCount>,
        eligible: &NodeBits,
    ) -> Self {
        let len = topology.map_or(0, |topology| topology.len());
        let unnamed = topology.and_then(|topology| topology.domain_named(""));
        let unnamed = unnamed.map_or(len, DomainIx::index);
        let domain_of = |node| {
            let domain = topology.and_then(|topology| topology.domain_of(node));
            domain.map_or(unnamed, DomainIx::index)
        };
        let mut counts = vec![None; len + 1];
        for node in nodes {
            counts[domain_of(node)] = Some(0);
        }
        for (node, count) in pods.iter().filter(|(node, _)| eligible.contains(*node)) {
            if let Some(sum) = &mut counts[domain_of(node)] {
                *sum += count.live;
            }
        }
        Self(counts)
    }

    /// Returns the number of known domains.
    pub(super) fn known(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Returns the pods of a domain; 0 if it is unknown.
    #[inline]
    pub(super) fn get(&self, domain: DomainIx) -> u32 {
        self.0[domain.index()].unwrap_or(0)
    }

    /// Returns index and pods of every known domain.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        self.0.iter().enumerate().filter_map(|(domain, count)| Some((domain, (*count)?)))
    }
}

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

    fn touch(&self, domain: usize) -> bool {
        self.0.iter().any(|(known, _)| known.index() == domain)
    }
}

/// The counts of a hard constraint, with the smallest ones at hand.
#[derive(Debug)]
pub(super) struct RankedCounts {
    counts: DomainCounts,
    known: usize,
    /// The two known domains with the fewest pods, the smallest first. A what-if that changes one
    /// domain leaves one of the two unchanged.
    smallest: [Option<(usize, u32)>; 2],
}

impl From<DomainCounts> for RankedCounts {
    fn from(counts: DomainCounts) -> Self {
        let mut smallest: [Option<(usize, u32)>; 2] = [None, None];
        let mut known = 0;
        let is_smaller = |count: u32, than: Option<(usize, u32)>| {
            than.is_none_or(|(_, smallest)| count < smallest)
        };
        for (domain, count) in counts.iter() {
            known += 1;
            if is_smaller(count, smallest[0]) {
                smallest = [Some((domain, count)), smallest[0]];
            } else if is_smaller(count, smallest[1]) {
                smallest[1] = Some((domain, count));
            }
        }
        Self { counts, known, smallest }
    }
}

impl RankedCounts {
    /// Returns the number of known domains.
    pub(super) const fn known(&self) -> usize {
        self.known
    }

    /// Returns the pods of a domain after `changes`; 0 if it is unknown.
    #[inline]
    pub(super) fn get(&self, domain: DomainIx, changes: &Changes) -> i64 {
        i64::from(self.counts.get(domain)) + changes.of(domain)
    }

    /// Returns the pods of the smallest known domain after `changes`.
    pub(super) fn min(&self, changes: &Changes) -> Option<i64> {
        let unchanged = |(domain, _): &(usize, u32)| !changes.touch(*domain);
        let smallest = self.smallest.iter().flatten().copied().find(unchanged);
        let smallest = smallest
            .or_else(|| self.counts.iter().filter(unchanged).min_by_key(|(_, count)| *count));
        let unchanged = smallest.map(|(_, count)| i64::from(count));
        let changed = changes.0.iter().map(|(domain, _)| self.get(*domain, changes));
        unchanged.into_iter().chain(changed).min()
    }
}

#[cfg(test)]
mod tests;
