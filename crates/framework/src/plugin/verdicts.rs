//! The rejections of nodes, without a status per node.

use std::collections::{BTreeMap, HashMap};

use crate::{NodeBits, NodeIx, PluginName, Status};

/// The id of a status that several nodes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerdictId(u32);

/// What an explanation says about rejected nodes beyond their verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The text, for people.
    pub text: String,
    /// The nodes for which it is true.
    pub nodes: NodeBits,
}

/// The verdicts of one attempt (`NodeToStatus` in Kubernetes): a column of ids, and a small table of
/// distinct statuses.
#[derive(Debug, Clone, Default)]
pub struct Verdicts {
    table: Vec<Status>,
    ids: HashMap<Status, VerdictId>,
    column: Vec<u32>,
    absent: Status,
    plugin: Option<PluginName>,
}

impl Verdicts {
    /// Creates an empty collection, with capacity for node ids below `len`.
    pub fn with_len(len: usize) -> Self {
        Self { column: vec![0; len], ..Self::default() }
    }

    /// Attributes the statuses that follow to `plugin`, unless they name a plugin.
    pub fn attribute_to(&mut self, plugin: &PluginName) {
        self.plugin = Some(plugin.clone());
    }

    /// Returns the id of `status`. Equal statuses have one id.
    pub fn intern(&mut self, status: Status) -> VerdictId {
        let status = match &self.plugin {
            Some(plugin) if status.plugin().is_none() => status.by(plugin),
            _ => status,
        };
        if let Some(id) = self.ids.get(&status) {
            return *id;
        }
        self.table.push(status.clone());
        let id = u32::try_from(self.table.len()).expect("fewer distinct verdicts than node ids");
        self.ids.insert(status, VerdictId(id));
        VerdictId(id)
    }

    /// Sets the verdict on `node` to an interned status.
    #[inline]
    pub fn set(&mut self, node: NodeIx, verdict: VerdictId) {
        if node.index() >= self.column.len() {
            self.column.resize(node.index() + 1, 0);
        }
        self.column[node.index()] = verdict.0;
    }

    /// Sets the verdict on `node`.
    pub fn record(&mut self, node: NodeIx, status: Status) {
        let verdict = self.intern(status);
        self.set(node, verdict);
    }

    /// Sets the verdict on all of `nodes`.
    pub fn record_all(&mut self, nodes: &NodeBits, status: Status) {
        let verdict = self.intern(status);
        for node in nodes.iter() {
            self.set(node, verdict);
        }
    }

    /// Sets the verdict on all nodes without one of their own, because they were not filtered
    /// (`AbsentNodesStatus`).
    pub fn set_absent(&mut self, status: Status) {
        self.absent = status;
    }

    /// Returns the verdict on nodes without one of their own.
    pub fn absent(&self) -> &Status {
        &self.absent
    }

    /// Returns the verdict on `node`, if it has one of its own.
    pub fn explicit(&self, node: NodeIx) -> Option<&Status> {
        let id = *self.column.get(node.index())?;
        self.table.get((id as usize).checked_sub(1)?)
    }

    /// Returns the verdict on `node`, or the one on absent nodes.
    pub fn get(&self, node: NodeIx) -> &Status {
        self.explicit(node).unwrap_or(&self.absent)
    }

    /// Returns each distinct status with its number of nodes, in the order of first use.
    pub fn counts(&self) -> Vec<(&Status, usize)> {
        let mut counts = vec![0; self.table.len() + 1];
        for id in &self.column {
            counts[*id as usize] += 1;
        }
        self.table.iter().zip(counts.into_iter().skip(1)).filter(|(_, count)| *count > 0).collect()
    }

    /// Returns, for each reason, the number of nodes among `nodes` that it rejects. A node with several
    /// reasons counts for each.
    pub fn reason_counts(&self, nodes: usize) -> BTreeMap<&str, usize> {
        let absent = nodes.saturating_sub(self.explicit_count());
        let absent = Some((&self.absent, absent)).filter(|(_, count)| *count > 0);
        let mut counts = BTreeMap::new();
        for (status, count) in self.counts().into_iter().chain(absent) {
            for reason in status.reasons() {
                *counts.entry(reason.as_ref()).or_insert(0) += count;
            }
        }
        counts
    }

    /// Returns the text of a fit error over `nodes` nodes: `0/3 nodes are available: 1 x, 2 y.`
    pub fn fit_error(&self, nodes: usize) -> String {
        let counts = self.reason_counts(nodes).into_iter();
        let mut parts: Vec<String> =
            counts.map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort_unstable();
        match parts.is_empty() {
            true => format!("0/{nodes} nodes are available:"),
            false => format!("0/{nodes} nodes are available: {}.", parts.join(", ")),
        }
    }

    /// Returns the number of nodes with a verdict of their own.
    pub fn explicit_count(&self) -> usize {
        self.column.iter().filter(|id| **id != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_statuses_share_an_entry_and_are_counted() {
        let mut verdicts = Verdicts::with_len(4);
        let nodes: NodeBits = [0, 2].into_iter().map(NodeIx::new).collect();
        verdicts.record_all(&nodes, Status::unschedulable("Too many pods"));
        verdicts.record(NodeIx::new(9), Status::unschedulable("Too many pods"));
        verdicts.record(NodeIx::new(1), Status::unresolvable("Insufficient cpu"));
        verdicts.set_absent(Status::unresolvable("elsewhere"));
        let counts: Vec<_> =
            verdicts.counts().into_iter().map(|(status, n)| (status.message(), n)).collect();
        assert_eq!(counts, [("Too many pods".to_owned(), 3), ("Insufficient cpu".to_owned(), 1)]);
        assert_eq!(verdicts.explicit_count(), 4);
        assert_eq!(verdicts.get(NodeIx::new(3)).message(), "elsewhere");
        assert!(verdicts.explicit(NodeIx::new(3)).is_none());
    }
}
