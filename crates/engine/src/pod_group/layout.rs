//! The members of a group in several domains of one level: in blocks, in few domains, or in at
//! least so many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{Division, DomainLabel, NodeBits, NodeIx, Pod, Status};

use super::UNSCHEDULABLE;
use super::bounds::{BoundedGroup, BoundedPlacement};
use super::decision::{
    Findings, MemberDecision, MemberQuestion, PodGroupQuestion, conclude, failed, feasible, is_open,
};
use crate::context::Context;
use crate::decide::Decider;
use crate::world::World;
use crate::world::tentative::{Ending, Tentative};

/// Places the members of a group within a placement that is divided into domains.
pub(super) struct Layout<'q, 'd> {
    pub(super) question: PodGroupQuestion<'q>,
    /// The labels of the placement with their values.
    pub(super) labels: Vec<DomainLabel>,
    /// The key of the level, and how the members are divided.
    pub(super) key: &'q Arc<str>,
    pub(super) division: Division,
    /// The nodes of the placement; `None` for all.
    pub(super) within: Option<&'q NodeBits>,
    pub(super) decider: &'d mut Decider,
}

/// A layout under way.
struct Laying<'q, 'd> {
    layout: Layout<'q, 'd>,
    found: Findings,
    /// The members that are not placed, in the order of the queue.
    left: Vec<usize>,
}

impl Layout<'_, '_> {
    /// Places the members, also beyond the number that is needed.
    pub(super) fn run(self, world: &mut Tentative<'_>, cx: &mut Context<'_>) -> Findings {
        let question = self.question;
        let mut found = Findings::of(Status::success());
        found.members = question.members.iter().map(|_| MemberDecision::NotTried).collect();
        let left = (0..question.members.len()).collect();
        let mut laying = Laying { layout: self, found, left };
        let mut status = feasible(question, question.members.len(), world, cx);
        if is_open(&status) {
            let division = laying.layout.division;
            let laid = match division {
                Division::Blocks(size) => laying.place_blocks(size as usize, world, cx),
                Division::Few => laying.place_in_few(world, cx),
                Division::Over(domains) => laying.place_over(domains as usize, world, cx),
            };
            status = match laid {
                Ok(()) => feasible(question, 0, world, cx),
                Err(status) => {
                    laying.found.status = status;
                    return laying.found;
                }
            };
        }
        let Laying { mut found, .. } = laying;
        found.status = conclude(status, &found);
        found
    }
}

impl Laying<'_, '_> {
    /// Places the members block by block, each in one domain: the one with the least room that
    /// takes it. Blocks of which a member is gone are filled first.
    fn place_blocks(
        &mut self,
        size: usize,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        for (value, count) in self.scheduled(world) {
            if count % size > 0 {
                self.place_block(size - count % size, Some(value), world, cx)?;
            }
        }
        while !self.left.is_empty() {
            if !self.place_block(size, None, world, cx)? {
                break;
            }
        }
        Ok(())
    }

    /// Places the next members in one domain. Returns whether they fit.
    fn place_block(
        &mut self,
        size: usize,
        value: Option<Arc<str>>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Status> {
        let block: Vec<usize> = self.left.iter().copied().take(size).collect();
        if block.is_empty() {
            return Ok(false);
        }
        let mut domains = self.domains(&block, value, world, cx)?;
        let len = u32::try_from(block.len()).unwrap_or(u32::MAX);
        // A domain that cannot take the block is tried if none can, to say why.
        domains.sort_by_key(|own| {
            let lacks = len.saturating_sub(own.prospect.most);
            (lacks, own.room, own.prospect.placement.name.clone())
        });
        for domain in domains {
            let is_hopeless = domain.prospect.most < len;
            let nodes: NodeBits = domain.prospect.placement.nodes.iter().copied().collect();
            let placed = world.tentatively(cx, |world, cx| {
                match self.place_in(&nodes, &block, true, world, cx) {
                    Ok(true) => Ending::Keep(Ok(true)),
                    other => Ending::Undo(other),
                }
            })?;
            if placed {
                return Ok(true);
            }
            if is_hopeless {
                break;
            }
        }
        Ok(false)
    }

    /// Places the members in as few domains as it finds: the one with the least room that takes all
    /// that are left, or else the one that takes most of them. Members that fit in no domain are
    /// placed anywhere.
    fn place_in_few(
        &mut self,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        let mut used = BTreeSet::new();
        while !self.left.is_empty() {
            let left = self.left.clone();
            let all = u32::try_from(left.len()).unwrap_or(u32::MAX);
            let domains = self.domains(&left, None, world, cx)?.into_iter();
            let open = domains.filter(|own| {
                own.prospect.most > 0 && !used.contains(&own.prospect.placement.name)
            });
            let best = open.min_by_key(|own| {
                let takes_all = own.prospect.most >= all;
                let room = if takes_all { own.room } else { 0 };
                let name = own.prospect.placement.name.clone();
                (!takes_all, Reverse(own.prospect.most), room, name)
            });
            let Some(best) = best else { break };
            let nodes: NodeBits = best.prospect.placement.nodes.iter().copied().collect();
            self.place_in(&nodes, &left, false, world, cx)?;
            used.insert(best.prospect.placement.name.clone());
        }
        self.place_others(world, cx)
    }

    /// Places a member in each of so many domains, and then the others.
    fn place_over(
        &mut self,
        wanted: usize,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        let mut used: BTreeSet<Arc<str>> = self.scheduled(world).into_keys().collect();
        while used.len() < wanted
            && let Some(member) = self.left.first().copied()
        {
            let mut open = NodeBits::default();
            for own in self.domains(&[member], None, world, cx)? {
                if own.prospect.placement.nodes.first().is_some_and(|node| {
                    self.value_at(*node, world).is_some_and(|value| !used.contains(&value))
                }) {
                    open.union(&own.prospect.placement.nodes.iter().copied().collect());
                }
            }
            if !self.place_in(&open, &[member], false, world, cx)? {
                break;
            }
            used = self.scheduled(world).into_keys().collect();
        }
        if used.len() < wanted {
            let (key, used) = (self.layout.key, used.len());
            let text = format!("pods fit in {used} domains of {key:?}, and {wanted} are asked for");
            return Err(Status::unschedulable(UNSCHEDULABLE).and(text));
        }
        self.place_others(world, cx)
    }

    /// Places the members that are left anywhere in the placement, as far as they fit.
    fn place_others(
        &mut self,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        for member in self.left.clone() {
            self.place(member, self.layout.within, world, cx)?;
        }
        Ok(())
    }

    /// Places members on these nodes; all of them, or those that fit. Returns whether all fit.
    fn place_in(
        &mut self,
        nodes: &NodeBits,
        members: &[usize],
        needs_all: bool,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Status> {
        let (mut fit, commands) = (true, self.found.commands.len());
        for member in members {
            fit &= self.place(*member, Some(nodes), world, cx)?;
            if needs_all && !fit {
                members.iter().for_each(|own| {
                    if self.found.members[*own].fits() {
                        self.found.members[*own] = MemberDecision::NotTried;
                        self.left.push(*own);
                    }
                });
                self.left.sort_unstable();
                self.found.commands.truncate(commands);
                break;
            }
        }
        Ok(fit)
    }

    /// Places a member. Returns whether it fits.
    fn place(
        &mut self,
        member: usize,
        within: Option<&NodeBits>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Status> {
        let Layout { question, decider, .. } = &mut self.layout;
        let queued = &question.members[member];
        let question = MemberQuestion { of: *question, member: queued, within };
        let mut decision = question.decide(decider, world, cx);
        let commands = std::mem::take(&mut decision.commands);
        let decision = question.put(decision, world, cx);
        if let MemberDecision::Failed(error) = &decision {
            let status = failed(error);
            self.found.members[member] = decision;
            return Err(status);
        }
        let fits = decision.fits();
        if fits {
            self.found.commands.push(commands);
            self.left.retain(|own| *own != member);
        }
        self.found.members[member] = decision;
        Ok(fits)
    }

    /// Returns the domains of the level, with bounds for these members.
    fn domains(
        &mut self,
        members: &[usize],
        value: Option<Arc<str>>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<Vec<BoundedPlacement>, Status> {
        let Layout { question, labels, key, decider, .. } = &mut self.layout;
        let PodGroupQuestion { group, profile, members: all, .. } = *question;
        let members: Vec<Arc<Pod>> = members.iter().map(|own| all[*own].pod.clone()).collect();
        let bounded = BoundedGroup { group, profile, members: &members };
        let mut labels = labels.clone();
        labels.push(DomainLabel { key: key.clone(), value });
        Ok(decider.known_placements().bounded(&labels, bounded, world, cx)?.list)
    }

    /// Returns the number of members with a node in each domain of the level.
    fn scheduled(&self, world: &World) -> BTreeMap<Arc<str>, usize> {
        let mut counts = BTreeMap::new();
        let cluster = world.cluster();
        if let Some(state) = cluster.pod_group_state(self.layout.question.group) {
            for member in state.scheduled() {
                if let Some(value) = self.value_at(cluster.pod(member).node, world) {
                    *counts.entry(value).or_default() += 1;
                }
            }
        }
        counts
    }

    fn value_at(&self, node: NodeIx, world: &World) -> Option<Arc<str>> {
        let topology = world.cluster().topology(self.layout.key)?;
        Some(topology.value(topology.domain_of(node)?).clone())
    }
}
