//! Preemption for a pod group: which pods to evict so that enough of its members fit.
//!
//! The group is decided as if pods were gone, before any pod is evicted. [`preempt_for_group`]
//! first takes off ever more units, the least important first, until the group fits. Then it puts
//! units back, the most important first, as long as the group still fits. Units are put back in
//! blocks, and a block with which the group does not fit is halved, so that the number of decisions
//! grows with the number of victims and not with the number of pods. After [`MOST_PLACEMENTS`] the
//! members stay on the nodes that the last decision has found, and a unit stays a victim if members
//! on its nodes do not fit beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::units::{Below, Unit, mark_violations, priority_of};
use super::{Pause, PodGroupPreemption, pause_preemption};
use crate::{
    Command, Handle, MemberNomination, PluginName, Pod, PodGroupPostFilterResult, PodGroupTrial,
    QueuedPod, Status, Uid,
};

/// Number of members that the decisions about one preemption place at most, before the members stay
/// on their nodes.
const MOST_PLACEMENTS: usize = 6_000;
/// The smallest number of units that are taken off at once.
const FEWEST_UNITS: usize = 32;
/// How many times as many units are taken off as before if the group does not fit yet.
const GROWTH: usize = 4;

const NO_VICTIMS: &str = "No preemption victims found for incoming preemptor";

/// Finds pods to evict so that enough members of a group fit, nominates the members to their nodes
/// and requests the evictions.
pub fn preempt_for_group(
    plugin: &PluginName,
    trial: &mut dyn PodGroupTrial,
) -> PodGroupPostFilterResult {
    preempt_among(plugin, trial, |trial, priority| {
        let handle = trial.handle();
        candidates(Below {
            cluster: handle.cluster,
            priority,
            spared: Some(trial.group()),
            spares_minima: handle.cluster.runs_beyond_minimum(trial.group()),
            wall_time: handle.wall_time(),
        })
    })
}

/// Does what [`preempt_for_group`] does, with these candidates for a group of this priority. They
/// are in the order in which they are put back.
pub(super) fn preempt_among(
    plugin: &PluginName,
    trial: &mut dyn PodGroupTrial,
    candidates: impl FnOnce(&dyn PodGroupTrial, i32) -> Vec<Candidate>,
) -> PodGroupPostFilterResult {
    let handle = trial.handle();
    let group = handle.cluster.pod_group(trial.group());
    let members = trial.members();
    if !members.iter().all(|member| member.pod.spec.may_preempt) {
        return Status::unschedulable("not eligible due to preemptionPolicy=Never.").into();
    }
    if let Some((pod, pause)) = pause_of(members, &handle) {
        let reason = format!("not eligible because {pause}.");
        pause_preemption(pod, pause, &handle);
        return Status::unschedulable(reason).into();
    }
    // The members of a group of Coscheduling may differ.
    let of_members = members.iter().map(|member| member.pod.priority()).min().unwrap_or_default();
    let priority = group.and_then(|group| group.priority).unwrap_or(of_members);
    if let Some(nominations) = ongoing(members, priority, &handle) {
        let found = "ongoing preemption on nominated nodes".to_owned();
        return PodGroupPostFilterResult { nominations, found, ..Default::default() };
    }
    let uid = group.map(|group| group.uid.clone());
    let candidates = candidates(&*trial, priority);
    if candidates.is_empty() {
        return Status::unresolvable(NO_VICTIMS).into();
    }
    let mut search = Search { trial, candidates, taken_off: 0, placed: 0, found: Vec::new() };
    if let Err(status) = search.run() {
        return status.into();
    }
    let Search { trial, mut candidates, found: nominations, .. } = search;
    candidates.retain(|unit| unit.is_victim);
    candidates.sort_by_key(|unit| unit.rank);
    let mut known: BTreeSet<Uid> = BTreeSet::new();
    let pods = candidates.into_iter().flat_map(|unit| unit.pods.into_iter().chain(unit.followers));
    let victims: Vec<Arc<Pod>> = pods.filter(|pod| known.insert(pod.uid.clone())).collect();
    // What rejected the group does not reject it any more: members that were nominated would hold
    // room while no pod ends.
    if victims.is_empty() {
        return Status::unschedulable(NO_VICTIMS).into();
    }
    let found = format!("found a placement for podgroup, preempting {} victims", victims.len());
    trial.handle().command(Command::PreemptForGroup(PodGroupPreemption {
        group: trial.group().clone(),
        uid: uid.unwrap_or_else(|| "".into()),
        plugin: plugin.clone(),
        members: nominations.clone(),
        victims,
    }));
    PodGroupPostFilterResult { nominations, found, ..Default::default() }
}

/// Returns the first member that is paused.
fn pause_of<'a>(members: &'a [QueuedPod], handle: &Handle<'_>) -> Option<(&'a Pod, Pause)> {
    let fruitless = handle.preemptions.fruitless();
    members.iter().find_map(|member| {
        let pause = fruitless.pause_of(&member.pod.uid, handle.now)?;
        Some((&*member.pod, pause))
    })
}

/// Returns the nominations of the members if victims terminate on one of their nodes.
fn ongoing(
    members: &[QueuedPod],
    priority: i32,
    handle: &Handle<'_>,
) -> Option<Vec<MemberNomination>> {
    let of_members: BTreeSet<&Uid> = members.iter().map(|member| &member.pod.uid).collect();
    let mut nominations = Vec::new();
    let mut is_ongoing = false;
    for node in handle.nominated.nodes() {
        let nominated = handle.nominated.nominated_to(&node);
        let own = nominated.into_iter().filter(|pod| of_members.contains(&pod.uid));
        let before = nominations.len();
        nominations.extend(own.map(|pod| MemberNomination {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            node: node.clone(),
        }));
        let cluster = handle.cluster;
        if let Some(node) = cluster.node_named(&node).filter(|_| nominations.len() > before) {
            is_ongoing |= cluster.node(node).pods().any(|other| {
                other.terminating && other.preempted && priority_of(cluster, other) < priority
            });
        }
    }
    is_ongoing.then_some(nominations)
}

/// A unit that may become a victim.
pub(super) struct Candidate {
    /// The pods, which are taken off and put back together.
    pub(super) pods: Vec<Arc<Pod>>,
    /// Pods that are of no use without these, and are evicted with them.
    pub(super) followers: Vec<Arc<Pod>>,
    /// The place in the order of importance, the most important first.
    pub(super) rank: usize,
    pub(super) is_victim: bool,
}

/// Returns the units that may become victims, in the order in which they are put back: units whose
/// eviction violates a PodDisruptionBudget, then the others, the most important first. Units that
/// end anyway are last.
fn candidates(below: Below<'_>) -> Vec<Candidate> {
    let cluster = below.cluster;
    let mut units = below.everywhere();
    units.sort_by_key(|unit| unit.importance);
    mark_violations(cluster, &mut units);
    let ends = |unit: &Unit| unit.pods.iter().all(|pod| cluster.pod(*pod).pod.terminating);
    let mut units: Vec<(usize, Unit)> = units.into_iter().enumerate().collect();
    units.sort_by_cached_key(|(_, unit)| (ends(unit), !unit.violates_budget()));
    let candidate = |(rank, unit): (usize, Unit)| {
        let pods = unit.pods.iter().map(|pod| cluster.pod(*pod).pod.clone());
        Candidate { pods: pods.collect(), followers: Vec::new(), rank, is_victim: false }
    };
    units.into_iter().map(candidate).collect()
}

/// The search for victims.
struct Search<'t> {
    trial: &'t mut dyn PodGroupTrial,
    candidates: Vec<Candidate>,
    /// Number of candidates that were taken off, from the end of the list.
    taken_off: usize,
    /// Number of members that the decisions have placed.
    placed: usize,
    /// The nodes of the members in the last decision with which the group fits.
    found: Vec<MemberNomination>,
}

/// Candidates that are put back together.
struct Block {
    start: usize,
    end: usize,
    /// Whether the group is known not to fit beside all of them.
    fails: bool,
    /// Whether the next block has the other half of a block with which the group does not fit.
    is_first_half: bool,
}

impl Search<'_> {
    /// Takes units off until the group fits, and marks the victims among them.
    ///
    /// # Errors
    /// The group does not fit without all candidates, or a plugin fails.
    fn run(&mut self) -> Result<(), Status> {
        let last_step = self.take_off_until_fit()?;
        let (all, taken_off) = (self.candidates.len(), self.taken_off);
        let first = all - taken_off;
        self.put_back(vec![
            Block { start: first + last_step, end: all, fails: false, is_first_half: false },
            Block { start: first, end: first + last_step, fails: true, is_first_half: false },
        ])
    }

    /// Returns the number of candidates of the last step.
    fn take_off_until_fit(&mut self) -> Result<usize, Status> {
        let mut step = FEWEST_UNITS.max(self.trial.members().len());
        loop {
            let end = self.candidates.len() - self.taken_off;
            let start = end.saturating_sub(step);
            self.take_off(start, end);
            self.taken_off += end - start;
            match self.fits()? {
                Ok(()) => return Ok(end - start),
                Err(status) if start == 0 => return Err(status),
                Err(_) => step *= GROWTH,
            }
        }
    }

    /// Puts candidates back in blocks, the last block first, and marks those that stay off.
    fn put_back(&mut self, mut blocks: Vec<Block>) -> Result<(), Status> {
        while let Some(Block { start, end, fails, is_first_half }) = blocks.pop() {
            if start == end {
                continue;
            }
            if !fails {
                if self.placed >= MOST_PLACEMENTS {
                    blocks.push(Block { start, end, fails, is_first_half });
                    return self.put_back_beside_members(&blocks);
                }
                self.put_on(start, end);
                if self.fits()?.is_ok() {
                    if is_first_half && let Some(second) = blocks.last_mut() {
                        second.fails = true;
                    }
                    continue;
                }
                self.take_off(start, end);
            }
            if end - start == 1 {
                self.candidates[start].is_victim = true;
                continue;
            }
            let middle = start + (end - start) / 2;
            blocks.push(Block { start: middle, end, fails: false, is_first_half: false });
            blocks.push(Block { start, end: middle, fails: false, is_first_half: true });
        }
        self.spare_more()
    }

    /// Puts victims back that the group can do without after all. Without one unit the members may
    /// take other nodes, on which they need fewer victims.
    fn spare_more(&mut self) -> Result<(), Status> {
        let mut spares = true;
        while std::mem::take(&mut spares) {
            for unit in 0..self.candidates.len() {
                if !self.candidates[unit].is_victim || self.placed >= MOST_PLACEMENTS {
                    continue;
                }
                self.put_on(unit, unit + 1);
                if self.fits()?.is_ok() {
                    self.candidates[unit].is_victim = false;
                    spares = true;
                } else {
                    self.take_off(unit, unit + 1);
                }
            }
        }
        Ok(())
    }

    /// Puts candidates back beside the members, which stay on their nodes: first all that are on
    /// other nodes, then one by one.
    fn put_back_beside_members(&mut self, blocks: &[Block]) -> Result<(), Status> {
        let left: Vec<usize> =
            blocks.iter().rev().flat_map(|block| block.start..block.end).collect();
        self.found = self.trial.place()?;
        let nodes: BTreeSet<Arc<str>> =
            self.found.iter().map(|member| member.node.clone()).collect();
        let is_beside = |unit: &Candidate| {
            unit.pods.iter().any(|pod| pod.node_name.as_ref().is_some_and(|n| nodes.contains(n)))
        };
        let (beside, apart): (Vec<usize>, Vec<usize>) =
            left.into_iter().partition(|unit| is_beside(&self.candidates[*unit]));
        for unit in &apart {
            self.put_on(*unit, unit + 1);
        }
        if !self.trial.filter_on(None).is_success() {
            for unit in &apart {
                self.take_off(*unit, unit + 1);
                self.put_back_one(*unit, None)?;
            }
        }
        for unit in beside.iter().copied() {
            let of_unit = self.candidates[unit].pods.iter();
            let on: BTreeSet<Arc<str>> = of_unit.filter_map(|pod| pod.node_name.clone()).collect();
            let on: Vec<Arc<str>> = on.into_iter().collect();
            self.put_back_one(unit, Some(&on))?;
        }
        if self.trial.filter_on(None).is_success() {
            return Ok(());
        }
        for unit in beside {
            if !self.candidates[unit].is_victim {
                self.take_off(unit, unit + 1);
                self.candidates[unit].is_victim = true;
            }
        }
        self.trial.filter_on(None).ok()
    }

    /// Puts one candidate back, unless members on these nodes do not fit beside it.
    fn put_back_one(&mut self, unit: usize, nodes: Option<&[Arc<str>]>) -> Result<(), Status> {
        self.put_on(unit, unit + 1);
        let status = self.trial.filter_on(nodes);
        if status.is_success() {
            return Ok(());
        }
        self.take_off(unit, unit + 1);
        self.candidates[unit].is_victim = true;
        if status.is_rejection() { Ok(()) } else { Err(status) }
    }

    /// Decides about the group. Returns whether it fits, or why not.
    ///
    /// # Errors
    /// A plugin fails.
    fn fits(&mut self) -> Result<Result<(), Status>, Status> {
        self.placed += self.trial.members().len();
        match self.trial.decide() {
            Ok(found) => {
                self.found = found;
                Ok(Ok(()))
            }
            Err(status) if status.is_rejection() => Ok(Err(status)),
            Err(status) => Err(status),
        }
    }

    fn take_off(&mut self, start: usize, end: usize) {
        let pods = self.candidates[start..end].iter().flat_map(|unit| &unit.pods);
        pods.for_each(|pod| self.trial.remove_pod(&pod.uid));
    }

    fn put_on(&mut self, start: usize, end: usize) {
        let pods = self.candidates[start..end].iter().flat_map(|unit| &unit.pods);
        pods.for_each(|pod| self.trial.add_pod(&pod.uid));
    }
}
