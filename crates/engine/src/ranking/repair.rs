//! The repair of a ranking: plugins look at the nodes that have changed since the last decision for
//! a lane, or at all.

use framework::{Attempt, ChangedNodes, ExtensionPoint, Filter, NodeBits, NodeIx, Status};

use super::in_parts::run_in_parts;
use super::local::{LocalScore, LocalScores};
use super::nodes::Ranking;
use super::parts::{divide, ranges};
use super::scopes::Scoped;
use super::unusable::Unusable;
use crate::cycle::{Scorer, Subject, retain_passing};
use crate::plugin_call::call_plugin;
use crate::profile::{MAX_NODE_SCORE, Named};
use crate::world::LogReader;

/// Number of nodes that are scored at once, so that their scores stay in the cache of the
/// processor.
const CHUNK: usize = 1 << 13;

/// Buffers of the passes.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Nodes that get local scores.
    scored: Lists,
    /// Nodes that pass the filters which look at the objects of nodes.
    passed: Lists,
    /// Nodes that pass the filters of the lane alone.
    own: Vec<NodeIx>,
    /// Nodes that filters of the lane alone reject.
    rejected: Vec<NodeIx>,
    /// Nodes that are left by the filters so far.
    left: NodeBits,
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

/// A ranking and its local scores, and the nodes that have changed since it was used last.
pub(super) struct Repair<'r> {
    pub(super) ranking: &'r mut Ranking,
    pub(super) local: &'r mut LocalScores,
    /// `None` for all nodes, of which the ranking then has none.
    pub(super) missed: Option<&'r ChangedNodes>,
    pub(super) columns: &'r mut Columns,
}

impl Repair<'_> {
    /// Brings the ranking and its local scores up to date.
    pub(super) fn run(
        &mut self,
        subject: &mut Subject<'_, '_>,
        scoped: &Scoped<'_>,
        log: &mut LogReader<'_>,
    ) -> Result<(), Unusable> {
        let Self { local, missed, columns, .. } = self;
        let changed = local.catch_up(log, subject.cluster().table_len());
        let changed = changed.as_ref().map(|changed| &*changed.nodes);
        changed.into_iter().flatten().for_each(|node| local.set(*node, LocalScore::REJECTED));
        subject.measure(ExtensionPoint::Filter, |subject| {
            let missed_objects = missed.map(|missed| &*missed.objects);
            columns.filter_local(subject, scoped, changed)?;
            columns.filter_objects(subject, scoped, missed_objects)?;
            Ok::<(), Unusable>(columns.filter_own(subject, *missed, scoped)?)
        })?;
        subject.measure(ExtensionPoint::Score, |subject| {
            score_local(subject, self.local, scoped, self.columns)?;
            self.rank(subject, scoped)
        })
    }

    /// Takes the changed nodes, or all, into the ranking.
    fn rank(&mut self, subject: &mut Subject<'_, '_>, scoped: &Scoped<'_>) -> Result<(), Unusable> {
        let Some(changed) = self.missed else {
            self.rank_all(subject, scoped)?;
            return self.reject_own();
        };
        self.rank_again(subject, &changed.nodes, scoped)?;
        changed.objects.iter().for_each(|node| self.ranking.remove(*node));
        let Columns { passed, parts, .. } = &mut *self.columns;
        let keys = &mut first(parts, 1)[0].keys;
        let mut scorer = Scorer::of(subject);
        for nodes in passed.iter().flat_map(|passed| passed.chunks(CHUNK)) {
            write_all_keys(&mut scorer, scoped, nodes, keys)?;
            self.ranking.insert_all(nodes, keys, |node| self.local.get(node))?;
        }
        self.reject_own()
    }

    /// Ranks the nodes that passed. The ranking has no nodes.
    fn rank_all(
        &mut self,
        subject: &mut Subject<'_, '_>,
        scoped: &Scoped<'_>,
    ) -> Result<(), Unusable> {
        let Self { ranking, local, columns, .. } = self;
        let Columns { passed, parts: buffers, .. } = &mut **columns;
        let lists = passed.parts();
        let buffers = first(buffers, lists.len());
        ranking.insert_parts(&lists, |parts| {
            let parts = lists.iter().zip(parts).zip(buffers);
            run_in_parts(subject, parts, |scorer, ((nodes, part), Buffers { keys, .. })| {
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
        subject: &mut Subject<'_, '_>,
        nodes: &[NodeIx],
        scoped: &Scoped<'_>,
    ) -> Result<(), Unusable> {
        let Self { ranking, local, columns, .. } = self;
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
        let mut scorer = Scorer::of(subject);
        for nodes in ranked.chunks(CHUNK) {
            keys.resize(following.len() * nodes.len(), 0);
            for (own, keys) in following.iter().zip(keys.chunks_mut(nodes.len())) {
                scorer.write_keys(*own, nodes, keys)?;
            }
            ranking.update_all(nodes, &places, keys, |node| local.get(node))?;
        }
        Ok(())
    }

    /// Rejects the nodes that filters of the lane alone reject.
    fn reject_own(&mut self) -> Result<(), Unusable> {
        let mut rejected = self.columns.rejected.iter();
        Ok(rejected.try_for_each(|node| self.ranking.rescore(*node, LocalScore::REJECTED))?)
    }
}

/// Filters.
impl Columns {
    /// Finds the nodes that get local scores.
    fn filter_local(
        &mut self,
        subject: &mut Subject<'_, '_>,
        scoped: &Scoped<'_>,
        nodes: Option<&[NodeIx]>,
    ) -> Result<(), Unusable> {
        let Self { scored, parts, left, .. } = self;
        filter_in_parts(subject, &scoped.local_filters, nodes, scored, left, parts)
    }

    /// Finds the nodes that pass the filters which look at the objects of nodes.
    fn filter_objects(
        &mut self,
        subject: &mut Subject<'_, '_>,
        scoped: &Scoped<'_>,
        nodes: Option<&[NodeIx]>,
    ) -> Result<(), Unusable> {
        let Self { passed, parts, left, .. } = self;
        filter_in_parts(subject, &scoped.object_filters, nodes, passed, left, parts)
    }

    /// Finds the nodes that the filters reject which look at each node for this lane alone, out of
    /// those to look at.
    fn filter_own(
        &mut self,
        subject: &mut Subject<'_, '_>,
        missed: Option<&ChangedNodes>,
        scoped: &Scoped<'_>,
    ) -> Result<(), Status> {
        let Self { own: passed, rejected, left, .. } = self;
        rejected.clear();
        if scoped.own_filters.is_empty() {
            return Ok(());
        }
        let nodes = missed.map(|changed| &*changed.nodes);
        filter_nodes(subject, &scoped.own_filters, nodes, passed, left)?;
        let mut passed = passed.iter().peekable();
        let mut fails = |node: &NodeIx| passed.next_if_eq(&node).is_none();
        match nodes {
            Some(nodes) => rejected.extend(nodes.iter().copied().filter(|node| fails(node))),
            None => rejected.extend(subject.cluster().nodes().iter().filter(|node| fails(node))),
        }
        Ok(())
    }
}

/// Finds the nodes that pass the filters, out of these nodes, or out of all, part by part.
fn filter_in_parts(
    subject: &mut Subject<'_, '_>,
    filters: &[&Named<dyn Filter>],
    nodes: Option<&[NodeIx]>,
    passed: &mut Lists,
    left: &mut NodeBits,
    buffers: &mut Vec<Buffers>,
) -> Result<(), Unusable> {
    let ranges = ranges(subject.cluster().table_len());
    let count = if nodes.is_some() { 1 } else { ranges.len() };
    let passed = passed.reset(count);
    if let [passed] = passed {
        return Ok(filter_nodes(subject, filters, nodes, passed, left)?);
    }
    let parts = ranges.zip(passed).zip(first(buffers, count));
    run_in_parts(subject, parts, |scorer, ((range, passed), Buffers { left, .. })| {
        left.copy_blocks(scorer.handle.cluster.nodes(), range);
        filters.iter().try_for_each(|own| scorer.retain(own, left))?;
        passed.clear();
        passed.reserve(left.count());
        left.append_to(passed);
        Ok(())
    })
}

/// Finds the nodes that pass the filters, out of these nodes, or out of all. `left` is a buffer.
fn filter_nodes(
    subject: &mut Subject<'_, '_>,
    filters: &[&Named<dyn Filter>],
    nodes: Option<&[NodeIx]>,
    passed: &mut Vec<NodeIx>,
    left: &mut NodeBits,
) -> Result<(), Status> {
    passed.clear();
    let all = subject.cluster().nodes();
    let there = nodes.map(|nodes| nodes.iter().copied().filter(|node| all.contains(*node)));
    match (nodes, there) {
        (Some(nodes), Some(there)) if Scorer::of(subject).are_few(nodes) => {
            passed.extend(there);
            let mut filters = filters.iter();
            return filters.try_for_each(|own| retain_by(subject, own, passed, |node| *node));
        }
        (_, Some(there)) => {
            left.clear();
            there.for_each(|node| {
                left.insert(node);
            });
        }
        (_, None) => left.copy_from(all),
    }
    filters.iter().try_for_each(|own| retain_passing(subject, own, left))?;
    passed.reserve(left.count());
    left.append_to(passed);
    Ok(())
}

/// Retains the entries whose node passes the one-node form of a plugin.
pub(super) fn retain_by<T>(
    subject: &mut Subject<'_, '_>,
    own: &Named<dyn Filter>,
    entries: &mut Vec<T>,
    node: impl Fn(&T) -> NodeIx,
) -> Result<(), Status> {
    if entries.is_empty() {
        return Ok(());
    }
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    call_plugin(ExtensionPoint::Filter, &own.name, subject.cx.probe, || {
        let mut failed = Ok(());
        entries.retain(|entry| {
            let node = handle.cluster.node(node(entry));
            let status = own.plugin.filter(&attempt, &node);
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

/// Computes the local scores of the nodes that get some.
fn score_local(
    subject: &mut Subject<'_, '_>,
    local: &mut LocalScores,
    scoped: &Scoped<'_>,
    Columns { scored, parts: buffers, .. }: &mut Columns,
) -> Result<(), Unusable> {
    let lists = scored.parts();
    let buffers = first(buffers, lists.len());
    let parts = lists.iter().zip(local.parts(&lists)).zip(buffers);
    run_in_parts(subject, parts, |scorer, ((nodes, mut scores), buffers)| {
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
