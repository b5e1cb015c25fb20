//! Node labels: strings once, ids in the rows, sets of nodes per value.

use std::collections::HashMap;
use std::sync::Arc;

use super::{NodeIx, Posting};
use crate::{Labels, NodeBits};

/// A label key that some node carries or carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KeyId(u32);

/// A value among those of its key; reused when no node carries it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ValueId(u32);

/// The labels of one row, by ascending key id.
pub(super) type RowLabels = Box<[(KeyId, ValueId)]>;

/// Every label of every node.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelIndex {
    ids: HashMap<Arc<str>, KeyId>,
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    text: Arc<str>,
    ids: HashMap<Arc<str>, ValueId>,
    values: Vec<Value>,
    free: Vec<ValueId>,
    present: Posting,
}

#[derive(Debug, Clone)]
struct Value {
    text: Arc<str>,
    nodes: Posting,
}

impl LabelIndex {
    pub(super) fn insert(&mut self, node: NodeIx, labels: &Labels) -> RowLabels {
        let mut row: Vec<_> = labels
            .iter()
            .map(|(key, value)| {
                let id = self.key_id(key);
                (id, self.keys[id.0 as usize].insert(node, value))
            })
            .collect();
        row.sort_unstable();
        row.into()
    }

    pub(super) fn remove(&mut self, node: NodeIx, row: &[(KeyId, ValueId)]) {
        for (key, value) in row {
            self.keys[key.0 as usize].remove(node, *value);
        }
    }

    fn key_id(&mut self, text: &str) -> KeyId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = KeyId(u32::try_from(self.keys.len()).expect("fewer than 2^32 label keys"));
        let text: Arc<str> = text.into();
        self.ids.insert(text.clone(), id);
        self.keys.push(Key {
            text,
            ids: HashMap::new(),
            values: Vec::new(),
            free: Vec::new(),
            present: Posting::default(),
        });
        id
    }

    fn key(&self, text: &str) -> Option<&Key> {
        self.ids.get(text).map(|id| &self.keys[id.0 as usize])
    }

    /// The value of `key` in `row`.
    pub(super) fn get(&self, row: &[(KeyId, ValueId)], key: &str) -> Option<&Arc<str>> {
        let id = self.ids.get(key)?;
        let place = row.binary_search_by_key(id, |(key, _)| *key).ok()?;
        Some(&self.keys[id.0 as usize].values[row[place].1.0 as usize].text)
    }

    pub(super) fn pairs<'a>(
        &'a self,
        row: &'a [(KeyId, ValueId)],
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)> {
        row.iter().map(|(key, value)| {
            let key = &self.keys[key.0 as usize];
            (&key.text, &key.values[value.0 as usize].text)
        })
    }

    /// Nodes that carry `key`, with any value.
    pub(super) fn with_key(&self, key: &str) -> Option<&Posting> {
        self.key(key).map(|key| &key.present)
    }

    /// Nodes that carry `key` with exactly `value`.
    pub(super) fn with_value(&self, key: &str, value: &str) -> Option<&Posting> {
        let key = self.key(key)?;
        key.ids.get(value).map(|id| &key.values[id.0 as usize].nodes)
    }

    /// Adds to `bits` the nodes whose value of `key` passes `wanted`.
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
    fn insert(&mut self, node: NodeIx, text: &str) -> ValueId {
        self.present.insert(node);
        let id = match self.ids.get(text) {
            Some(id) => *id,
            None => self.new_value(text.into()),
        };
        self.values[id.0 as usize].nodes.insert(node);
        id
    }

    fn new_value(&mut self, text: Arc<str>) -> ValueId {
        let value = Value { text: text.clone(), nodes: Posting::default() };
        let id = match self.free.pop() {
            Some(id) => {
                self.values[id.0 as usize] = value;
                id
            }
            None => {
                self.values.push(value);
                let place = self.values.len() - 1;
                ValueId(u32::try_from(place).expect("fewer than 2^32 values of a label"))
            }
        };
        self.ids.insert(text, id);
        id
    }

    fn remove(&mut self, node: NodeIx, id: ValueId) {
        self.present.remove(node);
        let value = &mut self.values[id.0 as usize];
        value.nodes.remove(node);
        if value.nodes.is_empty() {
            self.ids.remove(&value.text);
            self.free.push(id);
        }
    }
}
