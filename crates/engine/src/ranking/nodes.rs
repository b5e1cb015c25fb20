//! The order of the feasible nodes of one class.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use framework::{FilterScope, NodeGroup, NodeIx, ScoreScope};
use roaring::RoaringBitmap;

use crate::world::ChangeLog;

/// The plugins that took part, by their places in the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// The scope of each Filter plugin that filters.
    pub(crate) filters: Vec<Option<FilterScope>>,
    /// The scope of each Score plugin that scores.
    pub(crate) scores: Vec<Option<ScoreScope>>,
}

/// The nodes of a class that pass the filters which look at single nodes, by group and score.
///
/// The nodes of a group have the same keys. What depends on the keys is computed once for each group: whether
/// its nodes are feasible, and what is added to their scores.
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
    /// The group of the last node. Many neighbours share one.
    last: Option<GroupId>,
    len: usize,
}

/// The place of a group in the list of groups, plus one: a place of a node takes eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GroupId(NonZeroU32);

impl GroupId {
    fn new(index: usize) -> Result<Self, Overflow> {
        let id = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        id.map(Self).ok_or(Overflow)
    }

    const fn index(self) -> usize {
        self.0.get() as usize - 1
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
    len: usize,
}

impl Group {
    /// Whether the group has nodes, and these keys.
    fn has_keys(&self, keys: &[i64]) -> bool {
        self.len > 0 && *self.keys == *keys
    }

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

    /// Whether no node is feasible.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
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
        let group = &mut self.groups[group.index()];
        group.by_score.entry(score).or_default().insert(number(node));
        group.len += 1;
        self.len += 1;
        Ok(())
    }

    /// Removes a node, if it is in the ranking.
    pub(crate) fn remove(&mut self, node: NodeIx) {
        let place = self.places.get_mut(node.index()).and_then(Option::take);
        let Some(Place { group: id, score }) = place else { return };
        self.len -= 1;
        let group = &mut self.groups[id.index()];
        group.len -= 1;
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
        if let Some(last) = self.last.filter(|last| self.groups[last.index()].has_keys(keys)) {
            return Ok(last);
        }
        let id = self.find_group(keys)?;
        self.last = Some(id);
        Ok(id)
    }

    fn find_group(&mut self, keys: &[i64]) -> Result<GroupId, Overflow> {
        if let Some(id) = self.ids.get(keys) {
            return Ok(*id);
        }
        let id = match self.unused.pop() {
            Some(id) => id,
            None => {
                let id = GroupId::new(self.groups.len())?;
                self.groups.push(Group::default());
                id
            }
        };
        self.groups[id.index()].keys = keys.into();
        self.ids.insert(keys.into(), id);
        Ok(id)
    }

    /// Returns the groups, in the order in which [`best`](Self::best) expects what is added to them.
    pub(crate) fn groups(&self) -> Vec<NodeGroup> {
        let groups =
            self.groups.iter().filter_map(|group| Some((group.best()?.1.min()?, group.len)));
        groups.map(|(first, len)| NodeGroup { node: node(first), len }).collect()
    }

    /// Returns the nodes with the highest total, given what is added to the scores of each
    /// [group](Self::groups); `None` for a group that is not feasible.
    pub(crate) fn best(&self, added: &[Option<i64>]) -> Ties<'_> {
        let with_nodes = self.groups.iter().filter_map(Group::best);
        let feasible = with_nodes
            .zip(added)
            .filter_map(|((score, nodes), added)| Some((score + (*added)?, nodes)));
        let highest = feasible.clone().map(|(total, _)| total).max();
        let is_best = |(total, nodes)| (Some(total) == highest).then_some(nodes);
        Ties(feasible.filter_map(is_best).collect())
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
