//! The passes over the nodes that have changed since the last decision for a class, or over all nodes.

use framework::{ChangedNodes, Code, ExtensionPoint, Filter, NodeBits, NodeIx, ScoreScope, Status};

use super::Cycle;
use super::ranked::{Scoped, Unusable};
use super::scorer::{Keyed, Scorer};
use crate::plugin_call::call_plugin;
use crate::profile::{MAX_NODE_SCORE, Named};
use crate::ranking::{LocalScore, LocalScores, Ranking, divide, ranges};

/// Number of nodes that are scored at once, so that their scores stay in the cache of the processor.
const CHUNK: usize = 1 << 13;

/// Buffers of the passes.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Nodes that get local scores.
    scored: Lists,
    /// Nodes that pass the filters which look at the objects of nodes.
    passed: Lists,
    /// Nodes that pass the filters of the class alone.
    own: Vec<NodeIx>,
    /// Nodes that filters of the class alone reject.
    rejected: Vec<NodeIx>,
    /// For each part of a pass.
    parts: Vec<Buffers>,
}

/// Nodes in ascending order, in one list or one for each part of a pass.
#[derive(Debug, Default)]
struct Lists {
    lists: Vec<Vec<NodeIx>>,
    /// Number of lists in use.
    len: usize,
}

impl Lists {
    /// Returns so many lists, which the caller fills. The others are not in use.
    fn reset(&mut self, len: usize) -> &mut [Vec<NodeIx>] {
        self.len = len;
        first(&mut self.lists, len)
    }

    fn iter(&self) -> impl Iterator<Item = &[NodeIx]> {
        self.lists.iter().take(self.len).map(|list| &list[..]).filter(|list| !list.is_empty())
    }

    /// Returns the nodes in lists for [parts](divide) of a pass.
    fn parts(&self) -> Vec<&[NodeIx]> {
        if self.len == 1 { self.iter().flat_map(divide).collect() } else { self.iter().collect() }
    }
}

/// Buffers of a part of a pass.
#[derive(Debug, Default)]
struct Buffers {
    /// Nodes that are left.
    left: NodeBits,
    /// The scores of one plugin.
    raw: Vec<i64>,
    /// For each node the weighted sum of its local scores.
    sums: Vec<i64>,
    /// The keys of all nodes, plugin by plugin.
    keys: Vec<i64>,
}

/// Returns so many of the buffers, which are made as needed.
fn first<T: Default>(buffers: &mut Vec<T>, count: usize) -> &mut [T] {
    if buffers.len() < count {
        buffers.resize_with(count, T::default);
    }
    &mut buffers[..count]
}

impl<'p> Scoped<'p> {
    /// Returns the plugins that give nodes keys, and whether the keys depend on the pods of a node.
    fn keyed(&self) -> impl ExactSizeIterator<Item = (Keyed<'p>, bool)> {
        let keyed = |index: usize| match self.group_filters.get(index) {
            Some((own, reads)) => (Keyed::Filter(own), reads.pods),
            None => {
                let (own, reads) = self.group_scores[index - self.group_filters.len()];
                let keyed = match reads.scope {
                    ScoreScope::Key | ScoreScope::Group => Keyed::ScoreKey(own),
                    ScoreScope::Node | ScoreScope::Cluster => Keyed::Score(own),
                };
                (keyed, reads.pods)
            }
        };
        (0..self.group_filters.len() + self.group_scores.len()).map(keyed)
    }
}

/// Repairs.
impl Cycle<'_, '_> {
    /// Brings the ranking and its local scores up to date.
    pub(super) fn repair(
        &mut self,
        ranking: &mut Ranking,
        scoped: &Scoped<'_>,
    ) -> Result<(), Unusable> {
        let ranker = self.ranker.as_mut().ok_or(Unusable)?;
        let missed = ranking.catch_up(&scoped.basis, &mut ranker.log);
        let mut local = match &scoped.shared {
            Some(key) => ranker.rankings.take_local(key),
            None => ranking.take_local(),
        };
        let mut columns = std::mem::take(&mut self.scratch.columns);
        let repaired =
            self.repair_both(ranking, &mut local, missed.as_deref(), scoped, &mut columns);
        self.scratch.columns = columns;
        repaired?;
        let ranker = self.ranker.as_mut().ok_or(Unusable)?;
        match &scoped.shared {
            Some(key) => ranker.rankings.put_back_local(key, local),
            None => ranking.put_back_local(local),
        }
        Ok(ranking.check_size()?)
    }

    fn repair_both(
        &mut self,
        ranking: &mut Ranking,
        local: &mut LocalScores,
        missed: Option<&ChangedNodes>,
        scoped: &Scoped<'_>,
        columns: &mut Columns,
    ) -> Result<(), Unusable> {
        let log = &mut self.ranker.as_mut().ok_or(Unusable)?.log;
        let changed = local.catch_up(log, self.view.cluster().table_len());
        let changed = changed.as_ref().map(|changed| &*changed.nodes);
        changed.into_iter().flatten().for_each(|node| local.set(*node, LocalScore::REJECTED));
        self.start(ExtensionPoint::Filter);
        let missed_objects = missed.map(|missed| &*missed.objects);
        let Columns { scored, passed, parts, .. } = columns;
        let filtered = self
            .filter_in_parts(&scoped.local_filters, changed, scored, parts)
            .and_then(|()| {
                self.filter_in_parts(&scoped.object_filters, missed_objects, passed, parts)
            })
            .and_then(|()| Ok(self.filter_own(missed, scoped, columns)?));
        self.stop(ExtensionPoint::Filter, code_of(&filtered));
        filtered?;
        self.start(ExtensionPoint::Score);
        let scored = self.score_local(local, scoped, columns);
        let ranked = scored.and_then(|()| self.rank(ranking, local, missed, scoped, columns));
        self.stop(ExtensionPoint::Score, code_of(&ranked));
        ranked
    }

    /// Finds the nodes that the filters reject which look at each node for this class alone, out of those to look at.
    fn filter_own(
        &mut self,
        missed: Option<&ChangedNodes>,
        scoped: &Scoped<'_>,
        Columns { own: passed, rejected, .. }: &mut Columns,
    ) -> Result<(), Status> {
        rejected.clear();
        if scoped.own_filters.is_empty() {
            return Ok(());
        }
        let nodes = missed.map(|changed| &*changed.nodes);
        self.filter_nodes(&scoped.own_filters, nodes, passed)?;
        let mut passed = passed.iter().peekable();
        let mut fails = |node: &NodeIx| passed.next_if_eq(&node).is_none();
        match nodes {
            Some(nodes) => rejected.extend(nodes.iter().copied().filter(|node| fails(node))),
            None => rejected.extend(self.view.cluster().nodes().iter().filter(|node| fails(node))),
        }
        Ok(())
    }

    /// Computes the local scores of the nodes in `columns.scored`.
    fn score_local(
        &mut self,
        local: &mut LocalScores,
        scoped: &Scoped<'_>,
        Columns { scored, parts: buffers, .. }: &mut Columns,
    ) -> Result<(), Unusable> {
        let lists = scored.parts();
        let buffers = first(buffers, lists.len());
        let parts = lists.iter().zip(local.parts(&lists)).zip(buffers);
        self.run_in_parts(parts, |scorer, ((nodes, mut scores), buffers)| {
            let Buffers { raw, sums, .. } = buffers;
            for nodes in nodes.chunks(CHUNK) {
                let form = scorer.form_for(nodes);
                raw.resize(nodes.len(), 0);
                sums.clear();
                sums.resize(nodes.len(), 0);
                for own in &scoped.local_scores {
                    scorer.score(own, form, nodes, raw)?;
                    // The sign of the difference tells that a score is out of range.
                    let signs = |signs, score| signs | score | (MAX_NODE_SCORE - score);
                    if raw.iter().fold(0, signs) < 0 {
                        return Err(Unusable);
                    }
                    sums.iter_mut().zip(&*raw).for_each(|(sum, score)| *sum += score * own.weight);
                }
                for (node, sum) in nodes.iter().zip(&*sums) {
                    scores.set(*node, LocalScore::of(*sum)?);
                }
            }
            Ok(())
        })
    }

    /// Takes the changed nodes, or all, into the ranking.
    fn rank(
        &mut self,
        ranking: &mut Ranking,
        local: &LocalScores,
        missed: Option<&ChangedNodes>,
        scoped: &Scoped<'_>,
        columns: &mut Columns,
    ) -> Result<(), Unusable> {
        match missed {
            None => self.rank_all(ranking, local, scoped, columns)?,
            Some(changed) => {
                self.rank_again(ranking, local, &changed.nodes, scoped, columns)?;
                changed.objects.iter().for_each(|node| ranking.remove(*node));
                let keys = &mut first(&mut columns.parts, 1)[0].keys;
                let mut scorer = self.scorer();
                for nodes in columns.passed.iter().flat_map(|passed| passed.chunks(CHUNK)) {
                    write_all_keys(&mut scorer, scoped, nodes, keys)?;
                    ranking.insert_all(nodes, keys, |node| local.get(node))?;
                }
            }
        }
        let mut rejected = columns.rejected.iter();
        Ok(rejected.try_for_each(|node| ranking.rescore(*node, LocalScore::REJECTED))?)
    }

    /// Ranks the nodes in `columns.passed`. The ranking has no nodes.
    fn rank_all(
        &mut self,
        ranking: &mut Ranking,
        local: &LocalScores,
        scoped: &Scoped<'_>,
        Columns { passed, parts: buffers, .. }: &mut Columns,
    ) -> Result<(), Unusable> {
        let lists = passed.parts();
        let buffers = first(buffers, lists.len());
        ranking.insert_parts(&lists, |parts| {
            let parts = lists.iter().zip(parts).zip(buffers);
            self.run_in_parts(parts, |scorer, ((nodes, part), Buffers { keys, .. })| {
                for nodes in nodes.chunks(CHUNK) {
                    write_all_keys(scorer, scoped, nodes, keys)?;
                    part.insert_all(nodes, keys, |node| local.get(node))?;
                }
                Ok(())
            })
        })
    }

    /// Ranks again nodes on which pods have changed.
    fn rank_again(
        &mut self,
        ranking: &mut Ranking,
        local: &LocalScores,
        nodes: &[NodeIx],
        scoped: &Scoped<'_>,
        columns: &mut Columns,
    ) -> Result<(), Unusable> {
        let following = scoped.keyed().enumerate().filter(|(_, (_, follows))| *follows);
        let (places, following): (Vec<_>, Vec<_>) =
            following.map(|(place, (own, _))| (place, own)).unzip();
        if following.is_empty() {
            return Ok(nodes
                .iter()
                .try_for_each(|node| ranking.rescore(*node, local.get(*node)))?);
        }
        let ranked = nodes.iter().copied().filter(|node| ranking.contains(*node));
        let ranked: Vec<NodeIx> = ranked.collect();
        let keys = &mut first(&mut columns.parts, 1)[0].keys;
        let mut scorer = self.scorer();
        for nodes in ranked.chunks(CHUNK) {
            keys.resize(following.len() * nodes.len(), 0);
            for (own, keys) in following.iter().zip(keys.chunks_mut(nodes.len())) {
                scorer.write_keys(*own, nodes, keys)?;
            }
            ranking.update_all(nodes, &places, keys, |node| local.get(node))?;
        }
        Ok(())
    }
}

/// Calls of plugins.
impl Cycle<'_, '_> {
    /// Finds the nodes that pass the filters, out of these nodes, or out of all, part by part.
    fn filter_in_parts(
        &mut self,
        filters: &[&Named<dyn Filter>],
        nodes: Option<&[NodeIx]>,
        passed: &mut Lists,
        buffers: &mut Vec<Buffers>,
    ) -> Result<(), Unusable> {
        let ranges = ranges(self.view.cluster().table_len());
        let count = if nodes.is_some() { 1 } else { ranges.len() };
        let passed = passed.reset(count);
        if let [passed] = passed {
            return Ok(self.filter_nodes(filters, nodes, passed)?);
        }
        let parts = ranges.zip(passed).zip(first(buffers, count));
        self.run_in_parts(parts, |scorer, ((range, passed), Buffers { left, .. })| {
            left.copy_blocks(scorer.handle.cluster.nodes(), range);
            filters.iter().try_for_each(|own| scorer.retain(own, left))?;
            passed.clear();
            passed.reserve(left.count());
            left.append_to(passed);
            Ok(())
        })
    }

    /// Finds the nodes that pass the filters, out of these nodes, or out of all.
    fn filter_nodes(
        &mut self,
        filters: &[&Named<dyn Filter>],
        nodes: Option<&[NodeIx]>,
        passed: &mut Vec<NodeIx>,
    ) -> Result<(), Status> {
        passed.clear();
        let all = self.view.cluster().nodes();
        let there = nodes.map(|nodes| nodes.iter().copied().filter(|node| all.contains(*node)));
        match (nodes, there) {
            (Some(nodes), Some(there)) if self.scorer().are_few(nodes) => {
                passed.extend(there);
                return filters
                    .iter()
                    .try_for_each(|own| self.retain_by(own, passed, |node| *node));
            }
            (_, Some(there)) => {
                self.scratch.candidates.clear();
                there.for_each(|node| {
                    self.scratch.candidates.insert(node);
                });
            }
            (_, None) => self.scratch.candidates.copy_from(all),
        }
        filters.iter().try_for_each(|own| self.filter_left(own))?;
        passed.reserve(self.scratch.candidates.count());
        self.scratch.candidates.append_to(passed);
        Ok(())
    }

    /// Retains the entries whose node passes the one-node form of a plugin.
    pub(super) fn retain_by<T>(
        &mut self,
        own: &Named<dyn Filter>,
        entries: &mut Vec<T>,
        node: impl Fn(&T) -> NodeIx,
    ) -> Result<(), Status> {
        if entries.is_empty() {
            return Ok(());
        }
        let (handle, pod, state) = (self.handle(), &**self.pod, &*self.state);
        call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || {
            let mut failed = Ok(());
            entries.retain(|entry| {
                let node = handle.cluster.node(node(entry));
                let status = own.plugin.filter(state, pod, &node, &handle);
                let passes = status.is_success();
                if !passes && !status.is_rejection() {
                    failed = Err(status);
                }
                passes
            });
            failed
        })
        .flatten()
    }
}

fn code_of(passed: &Result<(), Unusable>) -> Code {
    if passed.is_ok() { Code::Success } else { Code::Error }
}

/// Writes the keys of the nodes, plugin by plugin.
fn write_all_keys(
    scorer: &mut Scorer<'_>,
    scoped: &Scoped<'_>,
    nodes: &[NodeIx],
    keys: &mut Vec<i64>,
) -> Result<(), Status> {
    let keyed = scoped.keyed();
    keys.resize(keyed.len() * nodes.len(), 0);
    for ((own, _), keys) in keyed.zip(keys.chunks_mut(nodes.len())) {
        scorer.write_keys(own, nodes, keys)?;
    }
    Ok(())
}
