//! The rejections of nodes, without a status per node.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;

use crate::{Code, NodeBits, NodeIx, PluginName, Status};

/// The id of a status that several nodes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerdictId(u32);

/// The text of an explanation about rejected nodes, beyond their verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The text, for people.
    pub text: String,
    /// The nodes for which it is true.
    pub nodes: NodeBits,
    /// Changes after each of which the plugin may accept these nodes. An explanation proposes
    /// those that help.
    pub remedies: Vec<Remedy>,
}

/// A change of a node after which a plugin may accept it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// The label has this value; `None` if it is removed.
    Label {
        /// The key.
        key: Arc<str>,
        /// The value.
        value: Option<Arc<str>>,
    },
    /// The taints with this key are removed.
    NoTaint(Arc<str>),
}

/// The verdicts of one attempt (`NodeToStatus` in Kubernetes): a column of ids, and a small table
/// of statuses with the number of their nodes.
#[derive(Debug, Clone, Default)]
pub struct Verdicts {
    table: Vec<Status>,
    /// Number of nodes with each status of the table.
    counts: Vec<usize>,
    ids: HashMap<Status, VerdictId>,
    column: Vec<u32>,
    /// The nodes whose verdict has the code [`Code::Unschedulable`].
    unschedulable: NodeBits,
    absent: Status,
    plugin: Option<PluginName>,
}

impl VerdictId {
    /// Returns the place in the table; `None` for a node without a verdict.
    const fn place(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }

    const fn index(self) -> usize {
        self.0 as usize - 1
    }
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
        let id = self.add(status.clone());
        self.ids.insert(status, id);
        id
    }

    /// Adds a status to the table that [`replace`](Self::replace) can replace. It is not shared
    /// with equal statuses.
    pub fn add(&mut self, status: Status) -> VerdictId {
        self.table.push(status);
        self.counts.push(0);
        let id = u32::try_from(self.table.len()).expect("fewer distinct verdicts than node ids");
        VerdictId(id)
    }

    /// Replaces a status that was [added](Self::add), for all nodes that share it.
    pub fn replace(&mut self, verdict: VerdictId, status: Status) {
        let before = std::mem::replace(&mut self.table[verdict.index()], status);
        let [before, after] = [&before, &self.table[verdict.index()]].map(is_unschedulable);
        if before == after {
            return;
        }
        for index in (0..self.column.len()).filter(|index| self.column[*index] == verdict.0) {
            put(NodeIx::new(index), after, &mut self.unschedulable);
        }
    }

    /// Sets the verdict on `node` to an interned status.
    #[inline]
    pub fn set(&mut self, node: NodeIx, verdict: VerdictId) {
        if node.index() >= self.column.len() {
            self.column.resize(node.index() + 1, 0);
        }
        let before = std::mem::replace(&mut self.column[node.index()], verdict.0);
        if let Some(before) = VerdictId(before).place() {
            self.counts[before] -= 1;
        }
        self.counts[verdict.index()] += 1;
        put(node, is_unschedulable(&self.table[verdict.index()]), &mut self.unschedulable);
    }

    /// Removes the verdict on `node`, if it has one of its own.
    pub fn clear(&mut self, node: NodeIx) {
        let Some(id) = self.column.get_mut(node.index()) else { return };
        if let Some(place) = VerdictId(std::mem::take(id)).place() {
            self.counts[place] -= 1;
            self.unschedulable.remove(node);
        }
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
        self.table.get(self.id_of(node)?.index())
    }

    /// Returns the id of the verdict on `node`, if it has one of its own.
    pub fn id_of(&self, node: NodeIx) -> Option<VerdictId> {
        let id = VerdictId(*self.column.get(node.index())?);
        id.place().is_some().then_some(id)
    }

    /// Returns the first node with this verdict.
    pub fn first_with(&self, verdict: VerdictId) -> Option<NodeIx> {
        self.column.iter().position(|id| *id == verdict.0).map(NodeIx::new)
    }

    /// Returns the number of nodes with this verdict.
    pub fn count(&self, verdict: VerdictId) -> usize {
        self.counts[verdict.index()]
    }

    /// Returns the verdict on `node`, or the one on absent nodes.
    pub fn get(&self, node: NodeIx) -> &Status {
        self.explicit(node).unwrap_or(&self.absent)
    }

    /// Returns the number of nodes, out of `nodes` in all, whose verdict has this code.
    pub fn count_with(&self, code: Code, nodes: usize) -> usize {
        let absent = nodes.saturating_sub(self.explicit_count());
        let absent = if self.absent.code() == code { absent } else { 0 };
        let table = self.table.iter().zip(&self.counts);
        absent + table.filter(|(status, _)| status.code() == code).map(|(_, n)| n).sum::<usize>()
    }

    /// Returns the nodes of `nodes` whose verdict has the code [`Code::Unschedulable`].
    pub fn unschedulable(&self, nodes: &NodeBits) -> NodeBits {
        let mut found = self.unschedulable.clone();
        if is_unschedulable(&self.absent) {
            let without = nodes.iter().filter(|node| self.id_of(*node).is_none());
            without.for_each(|node| put(node, true, &mut found));
        }
        found.intersect(nodes);
        found
    }

    /// Returns each distinct status with its number of nodes, in the order of first use.
    pub fn counts(&self) -> Vec<(&Status, usize)> {
        let used =
            self.table.iter().zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0);
        if self.ids.len() == self.table.len() {
            return used.collect();
        }
        let (mut counts, mut places) = (Vec::new(), HashMap::default());
        for (status, count) in used {
            let place = *places.entry(status).or_insert(counts.len());
            match counts.get_mut(place) {
                Some((_, sum)) => *sum += count,
                None => counts.push((status, count)),
            }
        }
        counts
    }

    /// Returns each distinct status with its number of nodes and the first of these nodes, at most
    /// `N`. The status of the most nodes comes first; of equals, the status of the first node.
    pub fn examples<const N: usize>(&self) -> Vec<(&Status, usize, [Option<NodeIx>; N])> {
        let counts = self.counts();
        let places: HashMap<&Status, usize> =
            counts.iter().enumerate().map(|(place, (status, _))| (*status, place)).collect();
        let of_table = self.table.iter().map(|status| places.get(status).copied());
        let places: Vec<Option<usize>> = std::iter::once(None).chain(of_table).collect();
        let mut nodes = vec![[None; N]; counts.len()];
        let mut missing: usize = counts.iter().map(|(_, count)| *count.min(&N)).sum();
        for (index, id) in self.column.iter().enumerate() {
            if missing == 0 {
                break;
            }
            let Some(place) = places[*id as usize] else { continue };
            if let Some(free) = nodes[place].iter_mut().find(|node| node.is_none()) {
                *free = Some(NodeIx::new(index));
                missing -= 1;
            }
        }
        let found = counts.into_iter().zip(nodes);
        let mut found: Vec<_> =
            found.map(|((status, count), nodes)| (status, count, nodes)).collect();
        found.sort_by_key(|(_, count, nodes)| (Reverse(*count), nodes.first().copied()));
        found
    }

    /// Returns, for each reason, the number of nodes among `nodes` that it rejects. A node with
    /// several reasons counts for each.
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

    /// Returns the number of nodes for which the verdicts have room.
    pub fn table_len(&self) -> usize {
        self.column.len()
    }

    /// Returns the number of statuses in the table, statuses without nodes included.
    pub fn status_count(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of nodes with a verdict of their own.
    pub fn explicit_count(&self) -> usize {
        self.counts.iter().sum()
    }
}

fn is_unschedulable(status: &Status) -> bool {
    status.code() == Code::Unschedulable
}

/// Adds a node to a set, or removes it.
fn put(node: NodeIx, is_member: bool, set: &mut NodeBits) {
    match is_member {
        true => set.insert(node),
        false => set.remove(node),
    };
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
        let examples: Vec<_> = verdicts
            .examples::<2>()
            .into_iter()
            .map(|(_, count, nodes)| (count, nodes.map(|node| node.map(NodeIx::index))))
            .collect();
        assert_eq!(examples, [(3, [Some(0), Some(2)]), (1, [Some(1), None])]);
        assert_eq!(verdicts.explicit_count(), 4);
        assert_eq!(verdicts.get(NodeIx::new(3)).message(), "elsewhere");
        assert!(verdicts.explicit(NodeIx::new(3)).is_none());
    }

    #[test]
    fn replaced_and_cleared_verdicts_are_counted() {
        let [a, b, c] = [0, 1, 70].map(NodeIx::new);
        let mut verdicts = Verdicts::default();
        let own = verdicts.add(Status::unschedulable("full"));
        let fixed = verdicts.intern(Status::unresolvable("tainted"));
        verdicts.set(a, own);
        verdicts.set(b, own);
        verdicts.set(b, fixed);
        verdicts.set(c, fixed);
        verdicts.set(c, fixed);
        assert_eq!((verdicts.count(own), verdicts.count(fixed)), (1, 2));
        verdicts.replace(own, Status::unresolvable("tainted"));
        assert_eq!(verdicts.counts(), [(&Status::unresolvable("tainted"), 3)]);
        verdicts.clear(b);
        verdicts.clear(b);
        verdicts.clear(NodeIx::new(700));
        assert_eq!((verdicts.explicit_count(), verdicts.id_of(b)), (2, None));
        assert_eq!((verdicts.first_with(fixed), verdicts.first_with(own)), (Some(c), Some(a)));
    }

    #[test]
    fn nodes_are_unschedulable_by_their_present_verdicts() {
        let [a, b, c, gone] = [0, 1, 70, 71].map(NodeIx::new);
        let all: NodeBits = [a, b, c].into_iter().collect();
        let mut verdicts = Verdicts::default();
        let unschedulable =
            |verdicts: &Verdicts| verdicts.unschedulable(&all).iter().collect::<Vec<_>>();
        let own = verdicts.add(Status::success());
        let full = verdicts.intern(Status::unschedulable("full"));
        for (node, verdict) in [(a, own), (b, own), (c, full), (gone, full)] {
            verdicts.set(node, verdict);
        }
        assert_eq!(unschedulable(&verdicts), [c]);
        verdicts.replace(own, Status::unschedulable("too many"));
        assert_eq!(unschedulable(&verdicts), [a, b, c]);
        verdicts.replace(own, Status::unresolvable("tainted"));
        verdicts.set(a, full);
        assert_eq!(unschedulable(&verdicts), [a, c]);
        verdicts.clear(a);
        assert_eq!(unschedulable(&verdicts), [c]);
        verdicts.set_absent(Status::unschedulable("elsewhere"));
        assert_eq!(unschedulable(&verdicts), [a, c]);
    }
}
