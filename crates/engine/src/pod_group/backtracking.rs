//! The search for places of the members of a group that gives up a place if the others do not fit
//! beside it.

use std::cmp::Reverse;

use framework::{Commands, NodeBits, NodeIx, Status};
use rustc_hash::FxHashSet;

use super::decision::{
    Findings, MemberDecision, MemberQuestion, PodGroupQuestion, failed, feasible, is_open,
};
use super::other_orders::Kinds;
use super::search_budget::Steps;
use crate::context::Context;
use crate::decide::{Decider, Decision, Found};
use crate::world::tentative::{Ending, Tentative};

/// Maximum number of members of a group that is searched: each is a level of the recursion.
pub(super) const MAX_MEMBERS: usize = 32;

/// The search.
pub(super) struct Backtracking<'q, 'd, 's> {
    question: PodGroupQuestion<'q>,
    within: Option<&'q NodeBits>,
    kinds: &'s Kinds,
    decider: &'d mut Decider,
    steps: &'s mut Steps,
    /// The places that were searched, as kinds on nodes, in order. Never iterated.
    searched: FxHashSet<Box<[PlacedKind]>>,
    /// Whether the members that fit beside others do so in any order.
    is_order_free: bool,
    placed: Vec<Placed>,
    /// The members that are not placed, in the order of the queue.
    left: Vec<usize>,
}

/// A member of a kind on a node; no node stands for all members of the kind that are left out.
type PlacedKind = (usize, Option<NodeIx>);

/// A member that is placed.
struct Placed {
    member: usize,
    at: PlacedKind,
    decision: MemberDecision,
    commands: Commands,
}

/// How a branch of the search ends.
enum Branch {
    /// Enough members are placed.
    Found,
    /// Too few members fit.
    NotFound,
    /// No step is left.
    Spent,
    /// A plugin or an extender failed.
    Failed(Status),
}

/// A kind of members that some node can take.
struct Candidate {
    kind: usize,
    member: usize,
    /// The first node.
    first: Decision,
    nodes: usize,
}

impl<'q, 'd, 's> Backtracking<'q, 'd, 's> {
    pub(super) fn new(
        question: PodGroupQuestion<'q>,
        within: Option<&'q NodeBits>,
        kinds: &'s Kinds,
        decider: &'d mut Decider,
        steps: &'s mut Steps,
    ) -> Self {
        let specs = question.members.iter().map(|member| &member.pod.spec);
        let is_order_free = specs.into_iter().all(|spec| {
            spec.pod_affinity.is_none()
                && spec.topology_spread_constraints.is_empty()
                && spec.volumes.is_empty()
                && spec.resource_claims.is_empty()
        });
        let left = (0..question.members.len()).collect();
        let (searched, placed) = (FxHashSet::default(), Vec::new());
        Self { question, within, kinds, decider, steps, searched, is_order_free, placed, left }
    }

    /// Places enough members. Returns `None` if that was not found to be possible, and the failure
    /// of a plugin or extender.
    pub(super) fn run(
        mut self,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Findings> {
        let branch = world.tentatively(cx, |world, cx| match self.search(world, cx) {
            Branch::Found => Ending::Keep(Branch::Found),
            other => Ending::Undo(other),
        });
        match branch {
            Branch::Found => {}
            Branch::NotFound | Branch::Spent => return None,
            Branch::Failed(status) => return Some(Findings::of(failed(&status))),
        }
        let mut found = Findings::of(Status::success());
        let members = self.question.members.iter();
        found.members = members.map(|_| MemberDecision::NotTried).collect();
        for own in self.placed {
            found.members[own.member] = own.decision;
            found.commands.push(own.commands);
        }
        Some(found)
    }

    /// Places enough of the members that are left, beside those that are placed.
    fn search(&mut self, world: &mut Tentative<'_>, cx: &mut Context<'_>) -> Branch {
        let status = feasible(self.question, self.left.len(), world, cx);
        if status.is_success() && self.placed.iter().any(|own| own.decision.fits()) {
            return self.place_others(world, cx);
        }
        if !is_open(&status) || !self.searched.insert(self.state()) {
            return Branch::NotFound;
        }
        let candidates = match self.candidates(world, cx) {
            Ok(candidates) => candidates,
            Err(ended) => return ended,
        };
        if self.is_order_free {
            let fitting = |member: &&usize| {
                let kind = self.kinds.of_member[**member];
                candidates.iter().any(|own| own.kind == kind)
            };
            let fitting = self.left.iter().filter(fitting).count();
            if !is_open(&feasible(self.question, fitting, world, cx)) {
                return Branch::NotFound;
            }
        }
        for candidate in candidates {
            let kind = candidate.kind;
            match self.place_somewhere(candidate, world, cx) {
                Branch::NotFound if self.is_order_free => {
                    return self.leave_out(kind, world, cx);
                }
                Branch::NotFound => {}
                ended => return ended,
            }
        }
        Branch::NotFound
    }

    /// Returns the kinds of the members that are left and that some node can take, those for which
    /// fewest nodes can first.
    fn candidates(
        &mut self,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, Branch> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut asked = vec![false; self.kinds.count()];
        for member in self.left.clone() {
            let kind = self.kinds.of_member[member];
            if std::mem::replace(&mut asked[kind], true) {
                continue;
            }
            let first = self.decide(member, self.within, world, cx)?;
            if let Found::Node(chosen) = &first.found {
                let nodes = chosen.feasible;
                candidates.push(Candidate { kind, member, first, nodes });
            }
        }
        candidates.sort_by_key(|own| (own.nodes, Reverse(self.kinds.sizes[own.kind])));
        Ok(candidates)
    }

    /// Decides about a member.
    fn decide(
        &mut self,
        member: usize,
        within: Option<&NodeBits>,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Decision, Branch> {
        if !self.steps.take() {
            return Err(Branch::Spent);
        }
        let member = &self.question.members[member];
        let question = MemberQuestion { of: self.question, member, within };
        let decision = question.decide(self.decider, world, cx);
        match decision.found {
            Found::Failed(status) => Err(Branch::Failed(status)),
            _ => Ok(decision),
        }
    }

    /// Places a member on each node that can take it in turn, until the others fit beside it.
    fn place_somewhere(
        &mut self,
        candidate: Candidate,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Branch {
        let Candidate { kind, member, first, .. } = candidate;
        let mut nodes: Option<NodeBits> = None;
        let mut next = Some(first);
        loop {
            let decision = match next.take() {
                Some(decision) => decision,
                None => match self.decide(member, nodes.as_ref(), world, cx) {
                    Ok(decision) => decision,
                    Err(ended) => return ended,
                },
            };
            let Found::Node(chosen) = &decision.found else { return Branch::NotFound };
            let node = chosen.node;
            let branch = world.tentatively(cx, |world, cx| {
                match self.search_beside(member, (kind, Some(node)), decision, world, cx) {
                    Branch::Found => Ending::Keep(Branch::Found),
                    other => Ending::Undo(other),
                }
            });
            if !matches!(branch, Branch::NotFound) {
                return branch;
            }
            let left = nodes.get_or_insert_with(|| match self.within {
                Some(within) => within.clone(),
                None => world.cluster().nodes().clone(),
            });
            left.remove(node);
        }
    }

    /// Places a member as decided, and searches places for the others.
    fn search_beside(
        &mut self,
        member: usize,
        at: PlacedKind,
        mut decision: Decision,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Branch {
        let commands = std::mem::take(&mut decision.commands);
        let queued = &self.question.members[member];
        let question = MemberQuestion { of: self.question, member: queued, within: None };
        let decision = question.put(decision, world, cx);
        match decision {
            MemberDecision::Fits(_) => {}
            MemberDecision::Failed(status) => return Branch::Failed(status),
            MemberDecision::Unfit(_) | MemberDecision::NotTried => return Branch::NotFound,
        }
        self.placed.push(Placed { member, at, decision, commands });
        let place = self.left.iter().position(|own| *own == member).unwrap_or_default();
        self.left.remove(place);
        let branch = self.search(world, cx);
        if !matches!(branch, Branch::Found) {
            self.left.insert(place, member);
            self.placed.pop();
        }
        branch
    }

    /// Searches without the members of a kind that are left.
    fn leave_out(
        &mut self,
        kind: usize,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Branch {
        let left = self.left.clone();
        self.left.retain(|member| self.kinds.of_member[*member] != kind);
        let first = left.iter().find(|member| self.kinds.of_member[**member] == kind);
        let (at, commands) = ((kind, None), Commands::default());
        let member = first.copied().unwrap_or_default();
        self.placed.push(Placed { member, at, decision: MemberDecision::NotTried, commands });
        let branch = self.search(world, cx);
        if !matches!(branch, Branch::Found) {
            self.placed.pop();
            self.left = left;
        }
        branch
    }

    /// Places the members that are left as far as they fit.
    fn place_others(&mut self, world: &mut Tentative<'_>, cx: &mut Context<'_>) -> Branch {
        let placed = self.placed.iter().filter(|own| own.decision.fits());
        let placed: FxHashSet<usize> = placed.map(|own| own.member).collect();
        for (member, queued) in self.question.members.iter().enumerate() {
            if placed.contains(&member) {
                continue;
            }
            let question =
                MemberQuestion { of: self.question, member: queued, within: self.within };
            let mut decision = question.decide(self.decider, world, cx);
            let commands = std::mem::take(&mut decision.commands);
            let decision = question.put(decision, world, cx);
            if let MemberDecision::Failed(status) = decision {
                return Branch::Failed(status);
            }
            let at = (self.kinds.of_member[member], None);
            self.placed.push(Placed { member, at, decision, commands });
        }
        Branch::Found
    }

    /// Returns the places that are taken, whichever members of a kind have them.
    fn state(&self) -> Box<[PlacedKind]> {
        let mut state: Vec<PlacedKind> = self.placed.iter().map(|own| own.at).collect();
        state.sort_unstable();
        state.into()
    }
}
