//! Node labels: interned strings, a column of value ids per key, and a node set per value.

use std::num::NonZeroU32;
use std::sync::Arc;

use foldhash::HashMap;

use super::id_table::IdTable;
use super::slab::Slab;
use super::{NodeColumn, NodeIx, Posting};
use crate::NodeBits;
use api::Labels;

/// The dense id of a label key that at least one node carries. Ids of unused keys are reused, so an
/// id is valid only until the cluster changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelKeyIx(u32);

/// The dense id of a value of a label key. For a topology key the value is a topology domain. Ids
/// of unused values are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainIx(NonZeroU32);

impl DomainIx {
    /// Returns the domain with this [index](Self::index).
    ///
    /// # Panics
    /// Panics if the index is 2^32 - 1 or higher.
    pub fn new(index: usize) -> Self {
        let id = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(id.expect("fewer than 2^32 values of a label"))
    }

    /// Returns the index into arrays of [`Topology::len`] entries.
    #[inline]
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A label by its ids.
pub(super) type LabelIx = (LabelKeyIx, DomainIx);

/// The label keys of one row.
pub(super) type RowLabels = Box<[LabelKeyIx]>;

/// Every label of every node.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelIndex {
    ids: HashMap<Arc<str>, LabelKeyIx>,
    keys: Slab<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    ix: LabelKeyIx,
    text: Arc<str>,
    ids: IdTable<DomainIx>,
    values: Vec<Value>,
    free: Vec<DomainIx>,
    present: Posting,
    column: NodeColumn<Option<DomainIx>>,
    /// Number of values with a node.
    domains: usize,
}

#[derive(Debug, Clone)]
struct Value {
    text: Arc<str>,
    nodes: Posting,
    /// Number of calls of [`LabelIndex::acquire`] without a matching release.
    references: u32,
}

impl Value {
    fn is_unused(&self) -> bool {
        self.nodes.is_empty() && self.references == 0
    }
}

/// The nodes, grouped by their value of one label key.
#[derive(Debug, Clone, Copy)]
pub struct Topology<'a>(&'a Key);

impl<'a> Topology<'a> {
    /// Returns the label key.
    pub fn key(&self) -> &'a Arc<str> {
        &self.0.text
    }

    /// Returns the id of the label key, for [`Cluster::topology_at`](crate::Cluster::topology_at).
    #[inline]
    pub const fn ix(&self) -> LabelKeyIx {
        self.0.ix
    }

    /// Returns one more than the highest index of any domain.
    #[expect(clippy::len_without_is_empty, reason = "a length for arrays, not a number of domains")]
    pub fn len(&self) -> usize {
        self.0.values.len()
    }

    /// Returns the domain of `node`, if it carries the label.
    #[inline]
    pub fn domain_of(&self, node: NodeIx) -> Option<DomainIx> {
        self.0.column.get(node)
    }

    /// Returns the domain of each node.
    pub fn column(&self) -> &'a NodeColumn<Option<DomainIx>> {
        &self.0.column
    }

    /// Returns the domain with this value, if it has a node.
    pub fn domain_named(&self, value: &str) -> Option<DomainIx> {
        self.0.domain(value).filter(|domain| !self.nodes(*domain).is_empty())
    }

    /// Returns the value of the label in a domain.
    pub fn value(&self, domain: DomainIx) -> &'a Arc<str> {
        &self.0.values[domain.index()].text
    }

    /// Returns the nodes of a domain.
    pub fn nodes(&self, domain: DomainIx) -> &'a Posting {
        &self.0.values[domain.index()].nodes
    }

    /// Returns the domains that have a node, in ascending order of index.
    pub fn domains(&self) -> impl Iterator<Item = DomainIx> + use<'a> {
        let values = self.0.values.iter().enumerate();
        values.filter(|(_, value)| !value.nodes.is_empty()).map(|(index, _)| DomainIx::new(index))
    }

    /// Returns the number of domains that have a node.
    pub const fn domain_count(&self) -> usize {
        self.0.domains
    }

    /// Whether each domain is a single node, as for the label `kubernetes.io/hostname`.
    pub fn is_per_node(&self) -> bool {
        self.0.domains == self.0.present.len()
    }

    /// Returns the nodes that carry the label.
    pub fn present(&self) -> &'a Posting {
        &self.0.present
    }
}

impl LabelIndex {
    /// Replaces the labels of a node, whose keys are in `row`, in the order of the keys. Returns
    /// whether a label has changed.
    pub(super) fn replace(&mut self, node: NodeIx, row: &mut RowLabels, labels: &Labels) -> bool {
        if self.pairs(node, row).eq(labels.pairs()) {
            return false;
        }
        for id in row.iter().copied() {
            if !labels.contains_key(&self.key_at(id).text) {
                self.keys.get_mut(id.0).set(node, None);
                self.drop_if_unused(id);
            }
        }
        let insert = |(key, value): (&Arc<str>, &Arc<str>)| {
            let id = self.key_id(key);
            self.keys.get_mut(id.0).set(node, Some(value.clone()));
            id
        };
        *row = labels.pairs().map(insert).collect();
        true
    }

    /// Returns the ids of a label and keeps them allocated, even if no node carries the label. Each
    /// call needs one call of [`release`](Self::release).
    pub(super) fn acquire(&mut self, key: &str, value: &str) -> LabelIx {
        let ix = self.key_id(key);
        let key = self.keys.get_mut(ix.0);
        let domain = key.value_id(value);
        key.values[domain.index()].references += 1;
        (ix, domain)
    }

    /// Reverts one call of [`acquire`](Self::acquire).
    pub(super) fn release(&mut self, label: LabelIx) {
        let (ix, domain) = label;
        let key = self.keys.get_mut(ix.0);
        key.values[domain.index()].references -= 1;
        key.drop_if_unused(domain);
        self.drop_if_unused(ix);
    }

    fn drop_if_unused(&mut self, ix: LabelKeyIx) {
        if self.key_at(ix).ids.is_empty() {
            self.ids.remove(&self.keys.remove(ix.0).text);
        }
    }

    fn key_id(&mut self, text: &str) -> LabelKeyIx {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let text: Arc<str> = text.into();
        let id = LabelKeyIx(self.keys.insert(Key {
            ix: LabelKeyIx(0),
            text: text.clone(),
            ids: IdTable::default(),
            values: Vec::new(),
            free: Vec::new(),
            present: Posting::default(),
            column: NodeColumn::default(),
            domains: 0,
        }));
        self.keys.get_mut(id.0).ix = id;
        self.ids.insert(text, id);
        id
    }

    fn key(&self, text: &str) -> Option<&Key> {
        self.ids.get(text).map(|id| self.key_at(*id))
    }

    #[inline]
    fn key_at(&self, ix: LabelKeyIx) -> &Key {
        self.keys.get(ix.0)
    }

    /// Returns the nodes grouped by their value of `key`.
    pub(super) fn topology(&self, key: &str) -> Option<Topology<'_>> {
        self.key(key).map(Topology)
    }

    /// Returns the nodes grouped by their value of the key with this id.
    #[inline]
    pub(super) fn topology_at(&self, key: LabelKeyIx) -> Topology<'_> {
        Topology(self.key_at(key))
    }

    /// Returns the value of `key` on `node`.
    pub(super) fn get(&self, node: NodeIx, key: &str) -> Option<&Arc<str>> {
        let key = self.key(key)?;
        key.column.get(node).map(|value| &key.values[value.index()].text)
    }

    pub(super) fn pairs<'a>(
        &'a self,
        node: NodeIx,
        row: &'a [LabelKeyIx],
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)> {
        row.iter().filter_map(move |key| {
            let key = self.key_at(*key);
            key.column.get(node).map(|value| (&key.text, &key.values[value.index()].text))
        })
    }

    /// Returns the nodes that carry `key`, with any value.
    pub(super) fn with_key(&self, key: &str) -> Option<&Posting> {
        self.key(key).map(|key| &key.present)
    }

    /// Returns the nodes that carry `key` with exactly `value`.
    pub(super) fn with_value(&self, key: &str, value: &str) -> Option<&Posting> {
        let key = self.key(key)?;
        key.domain(value).map(|id| &key.values[id.index()].nodes)
    }

    /// Adds to `bits` the nodes for whose value of `key` `wanted` returns true.
    pub(super) fn union_values_into(
        &self,
        key: &str,
        wanted: impl Fn(&str) -> bool,
        bits: &mut NodeBits,
    ) {
        let Some(key) = self.key(key) else { return };
        for value in key.values.iter().filter(|value| wanted(&value.text)) {
            value.nodes.union_into(bits);
        }
    }
}

impl Key {
    fn set(&mut self, node: NodeIx, text: Option<Arc<str>>) {
        let new = text.map(|text| self.value_id(text));
        let old = self.column.get(node);
        if new == old {
            return;
        }
        self.column.change(node, |value| *value = new);
        match old {
            None => {
                self.present.insert(node);
            }
            Some(id) => {
                let nodes = &mut self.values[id.index()].nodes;
                nodes.remove(node);
                self.domains -= usize::from(nodes.is_empty());
                self.drop_if_unused(id);
            }
        }
        match new {
            None => {
                self.present.remove(node);
            }
            Some(id) => {
                let nodes = &mut self.values[id.index()].nodes;
                self.domains += usize::from(nodes.is_empty());
                nodes.insert(node);
            }
        }
    }

    fn domain(&self, text: &str) -> Option<DomainIx> {
        self.ids.get(text, |id| &self.values[id.index()].text)
    }

    fn value_id(&mut self, text: impl AsRef<str> + Into<Arc<str>>) -> DomainIx {
        self.domain(text.as_ref()).unwrap_or_else(|| self.new_value(text.into()))
    }

    fn new_value(&mut self, text: Arc<str>) -> DomainIx {
        let value = Value { text, nodes: Posting::default(), references: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                self.values[id.index()] = value;
                id
            }
            None => {
                self.values.push(value);
                DomainIx::new(self.values.len() - 1)
            }
        };
        self.ids.insert(id, &*self.values[id.index()].text);
        id
    }

    fn drop_if_unused(&mut self, id: DomainIx) {
        let value = &self.values[id.index()];
        if value.is_unused() {
            self.ids.remove(&value.text, |id| &self.values[id.index()].text);
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;
    use crate::testing::node;

    #[test]
    fn label_is_per_node_while_no_two_nodes_share_a_value() {
        let mut cluster = Cluster::default();
        let is_per_node = |cluster: &Cluster| cluster.topology("host").unwrap().is_per_node();
        let set = |cluster: &mut Cluster, name: &str, host: &str| {
            cluster.set_node(&node(name).label("host", host).build());
        };
        set(&mut cluster, "a", "x");
        set(&mut cluster, "b", "y");
        assert!(is_per_node(&cluster));
        set(&mut cluster, "c", "y");
        assert!(!is_per_node(&cluster));
        set(&mut cluster, "b", "z");
        assert!(is_per_node(&cluster));
        set(&mut cluster, "a", "y");
        cluster.remove_node("c");
        assert!(is_per_node(&cluster));
    }

    #[test]
    fn domain_ids_are_dense_and_reused() {
        let mut cluster = Cluster::default();
        for number in 0..1000 {
            let node = node("n").label("rack", &format!("r{number}"));
            cluster.set_node(&node.build());
        }
        cluster.set_node(&node("m").label("rack", "r999").build());
        cluster.set_node(&node("o").label("rack", "other").build());
        cluster.set_node(&node("p").build());
        let topology = cluster.topology("rack").unwrap();
        assert_eq!(topology.len(), 2);
        let domain_of = |name| topology.domain_of(cluster.node_named(name).unwrap());
        let domain = domain_of("n").unwrap();
        assert_eq!(domain_of("m"), Some(domain));
        assert_ne!(domain_of("o"), Some(domain));
        assert_eq!(domain_of("p"), None);
        assert_eq!((&**topology.value(domain), topology.nodes(domain).len()), ("r999", 2));
        assert_eq!(topology.domain_named("r999"), Some(domain));
        assert_eq!(topology.domain_named("r0"), None);
        assert_eq!((topology.domains().count(), topology.present().len()), (2, 3));
    }

    #[test]
    fn acquired_id_keeps_its_value_until_release() {
        let mut index = LabelIndex::default();
        let node = NodeIx::new(0);
        let labels: Labels = [(Arc::from("rack"), Arc::from("r"))].into_iter().collect();
        let held = index.acquire("rack", "r");
        assert_eq!(index.acquire("rack", "r"), held);
        let mut row = RowLabels::default();
        index.replace(node, &mut row, &labels);
        index.replace(node, &mut row, &Labels::default());
        index.release(held);
        let rack = index.topology("rack").unwrap();
        assert_eq!((rack.domain_named("r"), rack.domains().count()), (None, 0));
        index.replace(node, &mut row, &labels);
        assert_eq!(index.topology("rack").unwrap().domain_named("r"), Some(held.1));
        index.release(held);
        assert_eq!(index.topology("rack").unwrap().domain_named("r"), Some(held.1));
        index.replace(node, &mut row, &Labels::default());
        assert_eq!(index.acquire("rack", "other"), held);
    }

    #[test]
    fn unused_keys_are_freed_unless_a_volume_acquired_them() {
        let mut cluster = Cluster::default();
        let held = cluster.labels.acquire("held", "a");
        for number in 0..100 {
            let node = node("n").label(&format!("key-{number}"), "").label("held", "b");
            cluster.set_node(&node.build());
        }
        assert!(
            cluster.labels.keys.len() == 3 && cluster.labels.ids.len() == 3,
            "with the hostname"
        );
        assert!(cluster.topology("key-98").is_none() && cluster.topology("key-99").is_some());
        cluster.remove_node("n");
        assert_eq!(cluster.topology_at(held.0).key().as_ref(), "held");
        cluster.labels.release(held);
        assert_eq!((cluster.labels.keys.len(), cluster.labels.ids.len()), (0, 0));
    }

    #[test]
    fn ghost_is_in_no_domain() {
        let mut cluster = Cluster::default();
        let (ix, _) = cluster.set_node(&node("n").label("rack", "r").build());
        cluster.set_node(&node("m").label("rack", "s").build());
        cluster.place_pod(Arc::new(crate::testing::pod("p").build()), "n");
        cluster.remove_node("n");
        let topology = cluster.topology("rack").unwrap();
        assert_eq!((topology.domain_of(ix), topology.domains().count()), (None, 1));
        cluster.set_node(&node("n").label("rack", &"long".repeat(100)).build());
        let topology = cluster.topology("rack").unwrap();
        let domain = topology.domain_of(ix).unwrap();
        assert_eq!(topology.value(domain).len(), 400);
    }
}
