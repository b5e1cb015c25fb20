//! The order of the nodes of one lane.

use std::cmp::Reverse;
use std::sync::Arc;

use framework::{ChangedNodes, Cluster, NodeBits, NodeIx, NodeTier};
use rustc_hash::FxHashMap;

use super::blocks::{block_of, in_blocks};
use super::cell_id::CellId;
use super::cells::{CellTable, Cells};
use super::draw::distinct_below;
use super::key_codes::KeyCodes;
use super::local::LocalScore;
use super::reads::Basis;
use super::unusable::Overflow;
use super::within::{Member, Members};
use crate::nominator::Nominator;
use crate::world::LogReader;

/// Maximum number of tiers in a ranking. Every decision looks at one node of each.
pub(super) const MAX_TIERS: usize = 1024;
/// Maximum number of bytes that a ranking takes for each node, beside those for a small cluster.
const MAX_BYTES_PER_NODE: usize = 10;
const MAX_BYTES_OF_SMALL_CLUSTER: usize = 1 << 18;

/// The place of no tier.
const NO_TIER: usize = usize::MAX;

/// The nodes of a lane by tier and [local score](super::local).
///
/// The nodes of a tier have the same keys. Verdicts and scores that depend on the keys are computed
/// once for each tier: whether its nodes are feasible, and what is added to their scores. The nodes
/// of a tier with one score are a [cell](super::cells). A node that its own state rejects is in a
/// cell, too, so that its tier is known when it becomes feasible. A node that no pod of the lane
/// can use, whatever pods are on it, is not in the ranking.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    basis: Basis,
    /// The state of the change log that the ranking shows; `None` if it shows none.
    state: Option<u64>,
    /// The revision of the nominations that the ranking shows.
    nominations: u64,
    /// Nodes to look at again, beside the nodes of the change log.
    outdated: Vec<NodeIx>,
    cells: Cells,
    /// The cells by the place of their tier.
    table: CellTable,
    tiers: Vec<Tier>,
    ids: FxHashMap<Box<[i64]>, usize>,
    /// Tiers without nodes, to be used again.
    unused: Vec<usize>,
}

/// The nodes with the same keys.
#[derive(Debug, Default)]
struct Tier {
    keys: Box<[i64]>,
    /// The highest score of a node.
    best: LocalScore,
    /// Number of nodes.
    len: usize,
    /// Number of nodes that their own state does not reject.
    passing: usize,
    /// A node that was in the tier when it was last looked for.
    example: Option<NodeIx>,
}

impl Tier {
    /// Adds `len` nodes with this score.
    fn joined(&mut self, score: LocalScore, len: usize) {
        self.len += len;
        self.passing += if score == LocalScore::REJECTED { 0 } else { len };
        self.best = self.best.max(score);
    }
}

/// State of the change log.
impl Ranking {
    /// Returns the nodes to look at again, and counts on the caller to do so; `None` for all nodes,
    /// of which the ranking then has none.
    pub(crate) fn catch_up(
        &mut self,
        basis: &Basis,
        log: &mut LogReader<'_>,
    ) -> Option<Arc<ChangedNodes>> {
        let shown = self.state.replace(log.revision()).filter(|_| self.basis == *basis);
        let Some(mut changed) = shown.and_then(|state| log.changed_since(state)) else {
            let Self { state, nominations, .. } = *self;
            *self = Self { basis: basis.clone(), state, nominations, ..Self::default() };
            return None;
        };
        if !self.outdated.is_empty() {
            let nodes = &mut Arc::make_mut(&mut changed).nodes;
            nodes.append(&mut self.outdated);
            nodes.sort_unstable();
            nodes.dedup();
        }
        Some(changed)
    }

    /// Looks again at the nodes whose nominations have changed: with the next
    /// [catch-up](Self::catch_up).
    pub(crate) fn catch_up_nominations(&mut self, nominator: &Nominator, cluster: &Cluster) {
        let shown = std::mem::replace(&mut self.nominations, nominator.revision());
        match nominator.changed_since(shown) {
            Some(names) => {
                self.outdated.extend(names.filter_map(|name| cluster.node_named(name)));
            }
            None => self.state = None,
        }
    }

    /// Looks at a node again in the next decision.
    pub(crate) fn look_again(&mut self, node: NodeIx) {
        self.outdated.push(node);
    }

    /// Rejects a node in this decision. The next one looks at it again.
    pub(crate) fn leave_out(&mut self, node: NodeIx) -> Result<(), Overflow> {
        self.look_again(node);
        self.reject(node)
    }

    /// Rejects a node until the next look at it.
    pub(crate) fn reject(&mut self, node: NodeIx) -> Result<(), Overflow> {
        self.rescore(node, LocalScore::REJECTED)
    }
}

/// Size.
impl Ranking {
    /// Whether no node is feasible.
    pub(crate) fn is_empty(&self) -> bool {
        self.tiers.iter().all(|tier| tier.passing == 0)
    }

    /// Number of tiers.
    pub(crate) fn tier_count(&self) -> usize {
        self.ids.len()
    }

    /// Number of bytes that the ranking takes.
    pub(crate) fn bytes(&self) -> usize {
        let tiers = size_of::<Tier>() * self.tiers.capacity();
        self.cells.bytes() + self.table.bytes() + tiers
    }

    /// Checks that the ranking costs little enough to be kept, with `further` bytes beside it.
    ///
    /// # Errors
    /// [`Overflow`]: it has too many tiers, or takes too much memory.
    pub(crate) fn check_size(&self, further: usize) -> Result<(), Overflow> {
        let most = MAX_BYTES_PER_NODE * self.cells.room() + MAX_BYTES_OF_SMALL_CLUSTER;
        let is_small = self.tier_count() <= MAX_TIERS && self.bytes() + further <= most;
        if is_small { Ok(()) } else { Err(Overflow) }
    }
}

/// Nodes.
impl Ranking {
    /// Adds a node, or moves it to these keys and this score.
    ///
    /// # Errors
    /// [`Overflow`]: there are too many tiers and scores.
    pub(crate) fn insert(
        &mut self,
        node: NodeIx,
        keys: &[i64],
        score: LocalScore,
    ) -> Result<(), Overflow> {
        let tier = self.tier_of(keys);
        self.move_to(node, tier, score)
    }

    /// Adds nodes that are not in the ranking, in ascending order. `keys` has a key of each node,
    /// plugin by plugin.
    ///
    /// # Errors
    /// [`Overflow`]: there are too many tiers and scores.
    pub(crate) fn insert_all(
        &mut self,
        nodes: &[NodeIx],
        keys: &[i64],
        score_of: impl Fn(NodeIx) -> LocalScore,
    ) -> Result<(), Overflow> {
        if nodes.is_empty() {
            return Ok(());
        }
        let key_codes = KeyCodes::of(nodes.len(), keys);
        // The tier of each code.
        let mut tiers = vec![NO_TIER; key_codes.table_len()];
        let mut codes = key_codes.codes();
        let mut place = 0;
        let mut ids = Vec::new();
        for nodes in in_blocks(nodes) {
            let (own, rest) = codes.split_at(nodes.len());
            ids.clear();
            for (node, code) in nodes.iter().zip(own) {
                let tier = &mut tiers[*code as usize];
                if *tier == NO_TIER {
                    let keys = keys.iter().skip(place + ids.len()).step_by(key_codes.codes().len());
                    *tier = self.tier_of(&keys.copied().collect::<Vec<_>>());
                    if self.tier_count() > MAX_TIERS {
                        return Err(Overflow);
                    }
                }
                ids.push(self.cell_of(*tier, score_of(*node))?);
            }
            self.cells.fill(nodes, &ids);
            place += nodes.len();
            codes = rest;
            let Self { cells, tiers, .. } = self;
            cells.count_filled(block_of(nodes[0]), |cell, len| {
                tiers[cell.tier].joined(cell.score, len)
            });
        }
        Ok(())
    }

    /// Adds nodes to a ranking that has none, part by part. `rank` ranks the nodes of each of the
    /// lists, which were [divided](super::divide), in a ranking of its own. The parts are joined in
    /// their order, so that it does not matter which is ranked first.
    ///
    /// # Errors
    /// That of `rank`, or [`Overflow`]: there are too many tiers and scores. The ranking must then
    /// be dropped.
    pub(crate) fn insert_parts<E: From<Overflow>>(
        &mut self,
        lists: &[&[NodeIx]],
        rank: impl FnOnce(&mut [Self]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut parts: Vec<Self> = lists.iter().map(|_| std::mem::take(self)).collect();
        rank(&mut parts)?;
        let mut parts = parts.into_iter();
        if let Some(first) = parts.next() {
            *self = first;
        }
        Ok(parts.try_for_each(|part| self.join(part))?)
    }

    /// Adds the nodes of a ranking of other blocks.
    fn join(&mut self, part: Self) -> Result<(), Overflow> {
        let tiers: Vec<usize> = part.tiers.iter().map(|tier| self.tier_of(&tier.keys)).collect();
        let mut ids = vec![CellId::NONE];
        for cell in part.cells.iter() {
            let tier = tiers[cell.tier];
            ids.push(self.cell_of(tier, cell.score)?);
            self.tiers[tier].joined(cell.score, cell.len);
        }
        self.cells.join(part.cells, &ids);
        Ok(())
    }

    /// Updates nodes in the ranking whose keys may have changed at some places, and their scores.
    /// The nodes are in ascending order. `keys` has a key of each node, place by place.
    ///
    /// # Errors
    /// [`Overflow`]: there are too many tiers and scores.
    pub(crate) fn update_all(
        &mut self,
        nodes: &[NodeIx],
        places: &[usize],
        keys: &[i64],
        score_of: impl Fn(NodeIx) -> LocalScore,
    ) -> Result<(), Overflow> {
        for (index, node) in nodes.iter().enumerate() {
            let new = keys.iter().skip(index).step_by(nodes.len());
            let new = places.iter().copied().zip(new);
            let own = self.keys_of(*node);
            if new.clone().all(|(place, key)| own[place] == *key) {
                self.rescore(*node, score_of(*node))?;
                continue;
            }
            let mut own = own.to_vec();
            new.for_each(|(place, key)| own[place] = *key);
            self.insert(*node, &own, score_of(*node))?;
        }
        Ok(())
    }

    /// Changes the score of a node that is in the ranking.
    ///
    /// # Errors
    /// [`Overflow`]: there are too many tiers and scores.
    pub(crate) fn rescore(&mut self, node: NodeIx, score: LocalScore) -> Result<(), Overflow> {
        let id = self.cells.of(node);
        let cell = self.cells.get(id);
        if id == CellId::NONE || cell.score == score {
            return Ok(());
        }
        let tier = cell.tier;
        self.move_to(node, tier, score)
    }

    /// Removes a node, if it is in the ranking.
    pub(crate) fn remove(&mut self, node: NodeIx) {
        if self.contains(node) {
            let old = self.cells.set(node, CellId::NONE);
            self.left(old);
        }
    }

    /// Whether the node is in the ranking.
    pub(crate) fn contains(&self, node: NodeIx) -> bool {
        self.cells.of(node) != CellId::NONE
    }

    /// Returns the keys of a node that is in the ranking.
    pub(crate) fn keys_of(&self, node: NodeIx) -> &[i64] {
        &self.tiers[self.cells.get(self.cells.of(node)).tier].keys
    }

    fn move_to(&mut self, node: NodeIx, tier: usize, score: LocalScore) -> Result<(), Overflow> {
        let new = self.cell_of(tier, score)?;
        let old = self.cells.set(node, new);
        if old != new {
            self.joined(new);
            self.left(old);
        }
        Ok(())
    }

    /// Returns the cell of a tier with this score, which may be new.
    #[inline]
    fn cell_of(&mut self, tier: usize, score: LocalScore) -> Result<CellId, Overflow> {
        match self.table.get(tier, score) {
            CellId::NONE => self.new_cell(tier, score),
            known => Ok(known),
        }
    }

    #[cold]
    fn new_cell(&mut self, tier: usize, score: LocalScore) -> Result<CellId, Overflow> {
        let id = self.cells.add(tier, score)?;
        self.table.set(tier, score, id);
        Ok(id)
    }

    /// Notes that a node has joined a cell.
    fn joined(&mut self, id: CellId) {
        let cell = self.cells.get(id);
        self.tiers[cell.tier].joined(cell.score, 1);
    }

    /// Notes that a node has left a cell.
    fn left(&mut self, id: CellId) {
        if id == CellId::NONE {
            return;
        }
        let cell = self.cells.get(id);
        let (place, score) = (cell.tier, cell.score);
        let tier = &mut self.tiers[place];
        tier.len -= 1;
        tier.passing -= usize::from(score != LocalScore::REJECTED);
        if cell.len > 0 {
            return;
        }
        self.table.set(place, score, CellId::NONE);
        self.cells.discard(id);
        if score == tier.best {
            // The next score below with a node.
            let mut below = self.table.of_tier(place)[..score.index()].iter();
            let best = below.rposition(|cell| *cell != CellId::NONE);
            tier.best = best.map_or(LocalScore::REJECTED, LocalScore::at);
        }
        if tier.len == 0 {
            self.ids.remove(&std::mem::take(&mut tier.keys));
            self.unused.push(place);
        }
    }
}

/// Tiers.
impl Ranking {
    /// Returns the place of the tier with these keys, which may be new.
    fn tier_of(&mut self, keys: &[i64]) -> usize {
        if let Some(place) = self.ids.get(keys) {
            return *place;
        }
        let place = self.unused.pop().unwrap_or_else(|| {
            self.tiers.push(Tier::default());
            self.tiers.len() - 1
        });
        self.tiers[place].keys = keys.into();
        self.ids.insert(keys.into(), place);
        place
    }

    /// Returns the tiers with feasible nodes, in the order in which [`best`](Self::best) expects
    /// what is added to them.
    pub(crate) fn tiers(&mut self) -> Vec<NodeTier> {
        let Self { tiers, cells, table, .. } = self;
        let passing = tiers.iter_mut().enumerate().filter(|(_, tier)| tier.passing > 0);
        let with_example = |(place, tier): (usize, &mut Tier)| {
            let is_own = |node: &NodeIx| {
                let id = cells.of(*node);
                id != CellId::NONE && cells.get(id).tier == place
            };
            let best = table.get(place, tier.best);
            tier.example = tier.example.filter(is_own).or_else(|| cells.nth(&[best], 0));
            Some(NodeTier { node: tier.example?, len: tier.passing })
        };
        passing.filter_map(with_example).collect()
    }

    /// Returns the nodes of a set that are not rejected by themselves, with their tiers.
    pub(crate) fn within(&self, nodes: &NodeBits) -> Members {
        let mut places = vec![NO_TIER; self.tiers.len()];
        let mut members = Members::default();
        for node in nodes.iter() {
            let cell = self.cells.get(self.cells.of(node));
            let Some(score) = cell.score.get() else { continue };
            let place = &mut places[cell.tier];
            if *place == NO_TIER {
                *place = members.tiers.len();
                members.tiers.push(NodeTier { node, len: 0 });
            }
            members.tiers[*place].len += 1;
            members.nodes.push(Member { node, tier: *place, score });
        }
        members
    }

    /// Returns the nodes with the highest total, given what is added to the scores of each
    /// [tier](Self::tiers); `None` for a tier that is not feasible.
    pub(crate) fn best(&self, added: &[Option<i64>]) -> Ties<'_> {
        let feasible = self.feasible(added).filter_map(|(place, tier, added)| {
            Some((tier.best.get()? + added, self.table.get(place, tier.best)))
        });
        let highest = feasible.clone().map(|(total, _)| total).max();
        let is_best = |(total, cell)| (Some(total) == highest).then_some(cell);
        let tied = feasible.filter_map(is_best).collect();
        Ties { cells: &self.cells, tied, total: highest }
    }

    /// Number of nodes in the feasible tiers.
    pub(crate) fn feasible_count(&self, added: &[Option<i64>]) -> usize {
        self.feasible(added).map(|(_, tier, _)| tier.passing).sum()
    }

    /// Returns the `count` nodes with the highest totals, with these, the highest first. Draws
    /// among equally good nodes if not all of them are wanted.
    pub(crate) fn top(
        &self,
        added: &[Option<i64>],
        count: usize,
        rng: &mut fastrand::Rng,
    ) -> Vec<(NodeIx, i64)> {
        let mut cells: Vec<(i64, CellId)> = Vec::new();
        for (place, _, added) in self.feasible(added) {
            let mut left = count;
            let own = self.table.of_tier(place).iter().rev().copied();
            for id in own.filter(|id| *id != CellId::NONE) {
                let cell = self.cells.get(id);
                let Some(score) = cell.score.get() else { break };
                cells.push((score + added, id));
                left = left.saturating_sub(cell.len);
                if left == 0 {
                    break;
                }
            }
        }
        cells.sort_by_key(|(total, _)| Reverse(*total));
        let mut top = Vec::new();
        for level in cells.chunk_by(|one, other| one.0 == other.0) {
            let tied = level.iter().map(|(_, id)| *id).collect();
            let ties = Ties { cells: &self.cells, tied, total: Some(level[0].0) };
            let wanted = ties.count().min(count - top.len());
            let places = distinct_below(ties.count(), wanted, rng);
            let nodes = places.into_iter().filter_map(|place| ties.nth(place));
            top.extend(nodes.map(|node| (node, level[0].0)));
        }
        top
    }

    /// Returns the feasible tiers, their places, and what is added to their scores.
    fn feasible<'a>(
        &'a self,
        added: &'a [Option<i64>],
    ) -> impl Iterator<Item = (usize, &'a Tier, i64)> + Clone {
        let passing = self.tiers.iter().enumerate().filter(|(_, tier)| tier.passing > 0);
        passing.zip(added).filter_map(|((place, tier), added)| Some((place, tier, (*added)?)))
    }
}

/// Nodes that are equally good.
#[derive(Debug)]
pub(crate) struct Ties<'a> {
    cells: &'a Cells,
    tied: Vec<CellId>,
    total: Option<i64>,
}

impl Ties<'_> {
    /// Number of nodes.
    pub(crate) fn count(&self) -> usize {
        self.tied.iter().map(|id| self.cells.get(*id).len).sum()
    }

    /// Total score of these nodes; `None` if there are none.
    pub(crate) const fn total(&self) -> Option<i64> {
        self.total
    }

    /// Returns the node at this place in the order of all of them.
    pub(crate) fn nth(&self, place: usize) -> Option<NodeIx> {
        self.cells.nth(&self.tied, place)
    }
}
