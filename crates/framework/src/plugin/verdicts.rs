//! Why nodes were turned down, without a status per node.

use std::collections::{BTreeMap, HashMap};

use crate::{NodeBits, NodeIx, PluginName, Status};

/// A status kept once for all nodes that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerdictId(u32);

/// The verdicts of one attempt: a column of ids beside a small table of distinct statuses.
#[derive(Debug, Clone, Default)]
pub struct Verdicts {
    table: Vec<Status>,
    ids: HashMap<Status, VerdictId>,
    column: Vec<u32>,
    absent: Status,
    plugin: Option<PluginName>,
}

impl Verdicts {
    /// No verdicts, with room for ids below `len`.
    pub fn with_len(len: usize) -> Self {
        Self { column: vec![0; len], ..Self::default() }
    }

    /// From now on, statuses are taken to come from `plugin`.
    pub fn attribute_to(&mut self, plugin: &PluginName) {
        self.plugin = Some(plugin.clone());
    }

    /// The id of `status`, kept once.
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

    /// Gives `node` an interned verdict.
    #[inline]
    pub fn set(&mut self, node: NodeIx, verdict: VerdictId) {
        if node.index() >= self.column.len() {
            self.column.resize(node.index() + 1, 0);
        }
        self.column[node.index()] = verdict.0;
    }

    /// Gives `node` this status.
    pub fn record(&mut self, node: NodeIx, status: Status) {
        let verdict = self.intern(status);
        self.set(node, verdict);
    }

    /// Gives all of `nodes` this status.
    pub fn record_all(&mut self, nodes: &NodeBits, status: Status) {
        let verdict = self.intern(status);
        for node in nodes.iter() {
            self.set(node, verdict);
        }
    }

    /// Sets the verdict on nodes that have none of their own: those never looked at.
    pub fn set_absent(&mut self, status: Status) {
        self.absent = status;
    }

    /// The verdict on nodes that have none of their own.
    pub fn absent(&self) -> &Status {
        &self.absent
    }

    /// The verdict on `node`, if it has one of its own.
    pub fn explicit(&self, node: NodeIx) -> Option<&Status> {
        let id = *self.column.get(node.index())?;
        self.table.get((id as usize).checked_sub(1)?)
    }

    /// The verdict on `node`, the one on absent nodes if it has none of its own.
    pub fn get(&self, node: NodeIx) -> &Status {
        self.explicit(node).unwrap_or(&self.absent)
    }

    /// Every distinct status with the number of nodes that have it, in the order of first use.
    pub fn counts(&self) -> Vec<(&Status, usize)> {
        let mut counts = vec![0; self.table.len() + 1];
        for id in &self.column {
            counts[*id as usize] += 1;
        }
        self.table.iter().zip(counts.into_iter().skip(1)).filter(|(_, count)| *count > 0).collect()
    }

    /// How many of `nodes` nodes gave each reason. A node with several reasons counts for each.
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

    /// The text of a fit error over `nodes` nodes: `0/3 nodes are available: 1 x, 2 y.`
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

    /// Number of nodes with a verdict of their own.
    pub fn explicit_count(&self) -> usize {
        self.column.iter().filter(|id| **id != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_statuses_are_kept_once_and_counted() {
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
