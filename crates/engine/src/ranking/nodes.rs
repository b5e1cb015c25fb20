//! The order of the feasible nodes of one class.

use std::collections::{BTreeMap, HashMap};

use framework::NodeIx;
use roaring::RoaringBitmap;

use crate::world::ChangeLog;

/// The plugins that took part, by their places in the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// Whether each Filter plugin filters.
    pub(crate) filters: Vec<bool>,
    /// Whether each Score plugin scores.
    pub(crate) scores: Vec<bool>,
}

/// The feasible nodes of a class, by group and score.
///
/// The nodes of a group have the same keys. What depends on the keys is computed once for each group, and
/// added to the scores of its nodes.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    basis: Basis,
    /// The state of the change log that the ranking shows; `None` if it shows none.
    state: Option<u64>,
    /// Nodes to look at again, beside those of the change log.
    outdated: Vec<NodeIx>,
    /// The place of each node, by index.
    places: Vec<Option<Place>>,
    groups: Vec<Group>,
    ids: HashMap<Box<[i64]>, GroupId>,
    /// Groups without nodes, to be used again.
    unused: Vec<GroupId>,
    len: usize,
}

/// The place of a group in the list of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GroupId(u32);

impl GroupId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a node is found.
#[derive(Debug, Clone, Copy)]
struct Place {
    group: GroupId,
    score: i32,
}

/// The nodes with the same keys, by score.
#[derive(Debug, Default)]
struct Group {
    keys: Box<[i64]>,
    by_score: BTreeMap<i32, RoaringBitmap>,
}

impl Group {
    /// Returns the highest score and its nodes.
    fn best(&self) -> Option<(i64, &RoaringBitmap)> {
        self.by_score.last_key_value().map(|(score, nodes)| (i64::from(*score), nodes))
    }
}

/// A score or a number of groups that a ranking has no room for.
#[derive(Debug)]
pub(crate) struct Overflow;

impl Ranking {
    /// Returns the nodes to look at again, in ascending order, and counts on the caller to do so; `None`
    /// for all nodes.
    pub(crate) fn catch_up(&mut self, basis: &Basis, log: &ChangeLog) -> Option<Vec<NodeIx>> {
        let shown = self.state.replace(log.state()).filter(|_| self.basis == *basis);
        let Some(changes) = shown.and_then(|state| log.since(state)) else {
            *self = Self { basis: basis.clone(), state: self.state, ..Self::default() };
            return None;
        };
        let mut nodes = std::mem::take(&mut self.outdated);
        nodes.extend(changes.map(|entry| entry.node));
        nodes.sort_unstable();
        nodes.dedup();
        Some(nodes)
    }

    /// Removes a node for this decision. The next one looks at it again.
    pub(crate) fn leave_out(&mut self, node: NodeIx) {
        self.remove(node);
        self.outdated.push(node);
    }

    /// Number of feasible nodes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Number of groups with nodes.
    pub(crate) fn group_count(&self) -> usize {
        self.ids.len()
    }

    /// The length of the table of nodes.
    pub(crate) const fn table_len(&self) -> usize {
        self.places.len()
    }

    /// Makes room for these nodes, which are in ascending order.
    pub(crate) fn reserve(&mut self, nodes: &[NodeIx]) {
        let length = nodes.last().map_or(0, |last| last.index() + 1);
        self.places.reserve(length.saturating_sub(self.places.len()));
    }

    /// Adds a node that is not in the ranking.
    ///
    /// # Errors
    /// [`Overflow`]: the score is beyond 32 bits.
    pub(crate) fn insert(
        &mut self,
        node: NodeIx,
        keys: &[i64],
        score: i64,
    ) -> Result<(), Overflow> {
        let score = i32::try_from(score).map_err(|_| Overflow)?;
        let group = self.group_of(keys)?;
        if self.places.len() <= node.index() {
            self.places.resize(node.index() + 1, None);
        }
        self.places[node.index()] = Some(Place { group, score });
        self.groups[group.index()].by_score.entry(score).or_default().insert(number(node));
        self.len += 1;
        Ok(())
    }

    /// Removes a node, if it is in the ranking.
    pub(crate) fn remove(&mut self, node: NodeIx) {
        let place = self.places.get_mut(node.index()).and_then(Option::take);
        let Some(Place { group: id, score }) = place else { return };
        self.len -= 1;
        let group = &mut self.groups[id.index()];
        let Some(nodes) = group.by_score.get_mut(&score) else { return };
        nodes.remove(number(node));
        if nodes.is_empty() {
            group.by_score.remove(&score);
        }
        if group.by_score.is_empty() {
            self.ids.remove(&std::mem::take(&mut group.keys));
            self.unused.push(id);
        }
    }

    fn group_of(&mut self, keys: &[i64]) -> Result<GroupId, Overflow> {
        if let Some(id) = self.ids.get(keys) {
            return Ok(*id);
        }
        let id = match self.unused.pop() {
            Some(id) => id,
            None => {
                let id = GroupId(u32::try_from(self.groups.len()).map_err(|_| Overflow)?);
                self.groups.push(Group::default());
                id
            }
        };
        self.groups[id.index()].keys = keys.into();
        self.ids.insert(keys.into(), id);
        Ok(id)
    }

    fn with_nodes(&self) -> impl Iterator<Item = (i64, &RoaringBitmap)> {
        self.groups.iter().filter_map(Group::best)
    }

    /// Returns a node of each group.
    pub(crate) fn representatives(&self) -> Vec<NodeIx> {
        self.with_nodes().filter_map(|(_, nodes)| nodes.min()).map(node).collect()
    }

    /// Returns the nodes with the highest total, given what is added to the scores of each group, in the
    /// order of the [representatives](Self::representatives).
    pub(crate) fn best(&self, added: &[i64]) -> Ties<'_> {
        let totals = || self.with_nodes().zip(added).map(|((score, _), added)| score + added);
        let highest = totals().max();
        let is_best = |(total, (_, nodes))| (Some(total) == highest).then_some(nodes);
        Ties(totals().zip(self.with_nodes()).filter_map(is_best).collect())
    }
}

/// Disjoint sets of nodes that are equally good.
#[derive(Debug)]
pub(crate) struct Ties<'a>(Vec<&'a RoaringBitmap>);

impl Ties<'_> {
    /// Number of nodes.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|nodes| nodes.len()).sum()
    }

    /// Returns the node at this place in the order of all of them.
    pub(crate) fn nth(&self, place: u64) -> Option<NodeIx> {
        if let [nodes] = &*self.0 {
            return nodes.select(u32::try_from(place).ok()?).map(node);
        }
        // The first number up to which there are more than `place` nodes.
        let up_to = |last| self.0.iter().map(|nodes| nodes.rank(last)).sum::<u64>();
        let (mut low, mut high) = (0, self.0.iter().filter_map(|nodes| nodes.max()).max()?);
        if up_to(high) <= place {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match up_to(middle) > place {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Some(node(low))
    }
}

fn number(node: NodeIx) -> u32 {
    u32::try_from(node.index()).expect("fewer than 2^32 nodes")
}

fn node(number: u32) -> NodeIx {
    NodeIx::new(number as usize)
}
