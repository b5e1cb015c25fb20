//! The decision about a group: one pass over its members, within each placement that it may have.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;
use framework::{
    Code, Commands, ExtensionPoint, GroupPlacements, MemberNomination, NodeBits, PluginName,
    PodGroupKey, PodGroupProgress, QueuedPod, Status, Uid,
};

use super::UNSCHEDULABLE;
use super::placement::Search;
use super::search_budget::Steps;
use crate::context::Context;
use crate::cycle::{FitError, Question};
use crate::decide::{Decider, Decision, Found};
use crate::plugin_call::{HasCode, call_beside, call_plugin};
use crate::ports::Span;
use crate::profile::Profile;
use crate::ranking::Lane;
use crate::record::Choice;
use crate::world::World;
use crate::world::tentative::{Ended, Ending, Reservation, Tentative};

/// The question whether the members of a group can be placed together.
#[derive(Clone, Copy)]
pub(crate) struct PodGroupQuestion<'a> {
    pub(crate) group: &'a PodGroupKey,
    pub(crate) profile: &'a Arc<Profile>,
    pub(crate) members: &'a [QueuedPod],
    pub(crate) orders: Orders,
}

/// The orders in which the members of a group are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Orders {
    /// That of the queue.
    OfQueue,
    /// That of the queue; if the group does not fit, others within the budget.
    All,
}

/// The decision about a group.
pub(crate) struct PodGroupDecision {
    /// Success if enough members fit; they are then assumed and reserved.
    pub(crate) status: Status,
    /// The finding about each member, in their order.
    pub(crate) members: Vec<MemberDecision>,
    /// The reservations of the members that fit, in their order; empty unless enough fit.
    pub(crate) reservations: Vec<Reservation>,
    /// The plugins that rejected the group or its members; none after an error.
    pub(crate) rejectors: BTreeSet<PluginName>,
    /// The members to nominate if the group is rejected and waits for evictions.
    pub(crate) nominations: Option<Vec<MemberNomination>>,
    /// Whether the members were tried on all nodes, and not in a placement.
    pub(crate) is_of_all_nodes: bool,
}

/// The finding about a member.
#[derive(Debug)]
pub(crate) enum MemberDecision {
    /// The node that was chosen.
    Fits(Choice),
    /// No node can take the member, or Reserve rejected it.
    Unfit(Box<FitError>),
    /// A plugin or an extender failed.
    Failed(Status),
    /// The group was decided before.
    NotTried,
}

impl MemberDecision {
    pub(crate) const fn fits(&self) -> bool {
        matches!(self, Self::Fits(_))
    }
}

impl PodGroupDecision {
    /// Returns the failure of a group of which no member was tried.
    pub(crate) fn failed(status: Status, members: usize) -> Self {
        Findings::of(status).decision(members, Vec::new())
    }
}

/// What was found about a group.
pub(crate) struct Findings {
    /// Success if enough members fit; they are then assumed and reserved.
    pub(crate) status: Status,
    /// The findings about the members that were tried.
    pub(crate) members: Vec<MemberDecision>,
    /// The commands that the plugins gave for each member.
    pub(super) commands: Vec<Commands>,
    /// The plugins that rejected the group, beside those that the findings about members name.
    pub(super) rejectors: BTreeSet<PluginName>,
    /// Whether a group that is rejected is tried again after a backoff, and not only after an
    /// event.
    pub(super) is_tried_again: bool,
    /// Whether the members were tried on all nodes, and not in a placement.
    pub(super) is_of_all_nodes: bool,
}

impl Findings {
    /// Returns the findings about a group of which no member was tried.
    pub(super) fn of(status: Status) -> Self {
        let (members, commands, rejectors) = (Vec::new(), Vec::new(), BTreeSet::new());
        let (is_tried_again, is_of_all_nodes) = (false, false);
        Self { status, members, commands, rejectors, is_tried_again, is_of_all_nodes }
    }

    /// Number of members that fit.
    pub(super) fn fitting(&self) -> usize {
        self.members.iter().filter(|member| member.fits()).count()
    }

    /// Returns the plugins that rejected the group or its members.
    pub(super) fn rejected_by(&self) -> impl Iterator<Item = &PluginName> {
        let unfit = self.members.iter().filter_map(|member| match member {
            MemberDecision::Unfit(fit) => Some(&fit.diagnosis),
            _ => None,
        });
        let of_members = unfit.flat_map(|diagnosis| {
            diagnosis.unschedulable_plugins.iter().chain(&diagnosis.pending_plugins)
        });
        of_members.chain(self.status.plugin()).chain(&self.rejectors)
    }

    fn decision(self, members: usize, reservations: Vec<Reservation>) -> PodGroupDecision {
        let rejectors = match self.status.is_rejection() && !self.is_tried_again {
            true => self.rejected_by().cloned().collect(),
            false => BTreeSet::new(),
        };
        let Self { status, members: mut found, is_of_all_nodes, .. } = self;
        found.resize_with(members, || MemberDecision::NotTried);
        PodGroupDecision {
            status,
            members: found,
            reservations,
            rejectors,
            nominations: None,
            is_of_all_nodes,
        }
    }
}

/// Decides about a group. If enough members fit, they stay assumed and reserved; otherwise the
/// world is as before.
pub(crate) fn decide(
    question: PodGroupQuestion<'_>,
    decider: &mut Decider,
    world: &mut World,
    cx: &mut Context<'_>,
) -> PodGroupDecision {
    let ended = world.tentatively(cx, |world, cx| {
        let found = find(question, decider, world, cx);
        if found.status.is_success() { Ending::Keep(found) } else { Ending::Undo(found) }
    });
    let Ended { value: mut found, mut reservations } = ended;
    put_in_order(&mut reservations, question.members);
    let commands = std::mem::take(&mut found.commands);
    if found.status.is_success() {
        commands.into_iter().for_each(|own| world.commands().append(own));
    }
    found.decision(question.members.len(), reservations)
}

/// Puts the reservations into the order of the members, which may be placed in another one.
fn put_in_order(reservations: &mut [Reservation], members: &[QueuedPod]) {
    let places = members.iter().enumerate().map(|(place, member)| (&member.pod.uid, place));
    let places: HashMap<&Uid, usize> = places.collect();
    reservations.sort_by_key(|own| places.get(&own.pod.uid).copied());
}

/// Places the members of a group, if enough of them fit. If not, some of them may be placed, and
/// the savepoint has to be undone.
pub(crate) fn find(
    question: PodGroupQuestion<'_>,
    decider: &mut Decider,
    world: &mut Tentative<'_>,
    cx: &mut Context<'_>,
) -> Findings {
    match placements(question.group, question.profile, world, cx) {
        Ok(placements) => Search::new(question, decider).run(placements, world, cx),
        Err(status) if status.is_rejection() => {
            let rejected = Status::unschedulable(UNSCHEDULABLE).and(status.message());
            Findings::of(status.plugin().map_or(rejected.clone(), |plugin| rejected.by(plugin)))
        }
        Err(status) => Findings::of(status),
    }
}

/// Returns the placements that the plugin of the profile proposes.
pub(super) fn placements(
    group: &PodGroupKey,
    profile: &Profile,
    world: &World,
    cx: &mut Context<'_>,
) -> Result<GroupPlacements, Status> {
    let [plugin] = &profile.placement_generate[..] else { return Ok(GroupPlacements::Anywhere) };
    let handle = world.handle(cx.now);
    let answer = call_plugin(ExtensionPoint::PlacementGenerate, &plugin.name, cx.probe, || {
        plugin.plugin.placement_generate(group, &handle)
    });
    answer.unwrap_or_else(Err).map_err(|status| status.by(&plugin.name))
}

/// Asks the PlacementFeasible plugins. The first rejection or error decides, then a wait.
pub(super) fn feasible(
    question: PodGroupQuestion<'_>,
    remaining: usize,
    world: &World,
    cx: &mut Context<'_>,
) -> Status {
    let PodGroupQuestion { group, profile, .. } = question;
    let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
    let progress = PodGroupProgress { remaining, scheduled: world.scheduled_members(group) };
    let mut answer = Status::success();
    for plugin in &profile.placement_feasible {
        let handle = world.handle(cx.now);
        let status = call_beside("PlacementFeasible", &plugin.name, cx.probe, || {
            plugin.plugin.placement_feasible(group, progress, &handle)
        });
        let status = status.unwrap_or_else(|status| status);
        match status.code() {
            Code::Success => {}
            Code::Wait => answer = status.by(&plugin.name),
            _ => return status.by(&plugin.name),
        }
    }
    answer
}

/// Whether more members may make a group feasible, or it is feasible.
pub(super) fn is_open(status: &Status) -> bool {
    matches!(status.code(), Code::Success | Code::Wait)
}

/// One pass over the members.
pub(super) struct Pass<'q, 'd> {
    question: PodGroupQuestion<'q>,
    /// The nodes among which to place them; `None` for all.
    within: Option<&'q NodeBits>,
    decider: &'d mut Decider,
    found: Findings,
}

impl<'q, 'd> Pass<'q, 'd> {
    pub(super) fn new(
        question: PodGroupQuestion<'q>,
        within: Option<&'q NodeBits>,
        decider: &'d mut Decider,
    ) -> Self {
        let found = Findings::of(Status::success());
        Self { question, within, decider, found }
    }

    /// Places the members in the order of the queue, until it is decided that too few fit. Members
    /// beyond the number that is needed are placed, too.
    pub(super) fn run(self, world: &mut Tentative<'_>, cx: &mut Context<'_>) -> Findings {
        let of_queue = 0..self.question.members.len();
        self.run_in(of_queue, &mut Steps::unlimited(), world, cx)
    }

    /// Places the members in this order, which names all of them, until it is decided that too few
    /// fit, or no step is left.
    pub(super) fn run_in(
        mut self,
        order: impl ExactSizeIterator<Item = usize>,
        steps: &mut Steps,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Findings {
        let members = self.question.members;
        let mut found: Vec<_> = members.iter().map(|_| MemberDecision::NotTried).collect();
        let mut status = feasible(self.question, members.len(), world, cx);
        let mut remaining = order.len();
        for place in order {
            if !is_open(&status) || !steps.take() {
                break;
            }
            let decision = self.place(&members[place], world, cx);
            if let MemberDecision::Failed(error) = &decision {
                self.found.status = failed(error);
                found[place] = decision;
                self.found.members = found;
                return self.found;
            }
            found[place] = decision;
            remaining -= 1;
            status = feasible(self.question, remaining, world, cx);
        }
        self.found.members = found;
        self.found.status = conclude(status, &self.found);
        self.found
    }

    /// Places all members that fit, whether or not they are enough. Members like one that does not
    /// fit are not tried.
    pub(super) fn run_to_the_end(
        mut self,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Findings {
        let PodGroupQuestion { profile, members, .. } = self.question;
        let mut unfit: Vec<Lane> = Vec::new();
        for member in members {
            let lane = Lane::of(profile, &member.pod);
            if lane.as_ref().is_some_and(|lane| unfit.contains(lane)) {
                self.found.members.push(MemberDecision::NotTried);
                continue;
            }
            let decision = self.place(member, world, cx);
            if !decision.fits() {
                unfit.extend(lane);
            }
            self.found.members.push(decision);
        }
        self.found.status = conclude(feasible(self.question, 0, world, cx), &self.found);
        self.found
    }

    /// Decides about a member, and assumes and reserves it if it fits.
    fn place(
        &mut self,
        member: &QueuedPod,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> MemberDecision {
        let question = MemberQuestion { of: self.question, member, within: self.within };
        let mut decision = question.decide(self.decider, world, cx);
        self.found.commands.push(std::mem::take(&mut decision.commands));
        question.put(decision, world, cx)
    }
}

/// The question where a member of a group fits.
#[derive(Clone, Copy)]
pub(super) struct MemberQuestion<'a> {
    pub(super) of: PodGroupQuestion<'a>,
    pub(super) member: &'a QueuedPod,
    /// The nodes among which to place it; `None` for all.
    pub(super) within: Option<&'a NodeBits>,
}

impl MemberQuestion<'_> {
    /// Decides about the member.
    pub(super) fn decide(
        self,
        decider: &mut Decider,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Decision {
        let (profile, pod, within) = (self.of.profile, &self.member.pod, self.within);
        cx.probe.start(Span::Algorithm);
        world.register_queries(pod, profile, cx);
        let question = Question { world, profile, pod, within, as_member: true };
        let decision = decider.decide(question, world.log(), cx);
        cx.probe.stop(Span::Algorithm, decision.code());
        decider.proceed(&decision);
        decision
    }

    /// Assumes and reserves the member, if the decision is a node.
    pub(super) fn put(
        self,
        mut decision: Decision,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> MemberDecision {
        let (profile, pod) = (self.of.profile, &self.member.pod);
        let chosen = match decision.found {
            Found::Node(chosen) => chosen,
            Found::Unfit(unfit) => return MemberDecision::Unfit(unfit.fit),
            Found::Failed(status) => return MemberDecision::Failed(status),
        };
        decision.state.end_search();
        let choice = Choice::of(&chosen, world.cluster());
        let reserved = world.tentatively(cx, |world, cx| {
            let assumed = match world.assume(pod, &choice.node) {
                Ok(assumed) => assumed,
                Err(error) => return Ending::Undo(Err(Status::error(error.to_string()))),
            };
            match world.reserve(profile, assumed, &choice.node, decision.state, cx) {
                Ok(()) => Ending::Keep(Ok(())),
                Err(status) => Ending::Undo(Err(status)),
            }
        });
        match reserved {
            Ok(()) => MemberDecision::Fits(choice),
            Err(status) if status.is_rejection() => {
                MemberDecision::Unfit(Box::new(FitError::of_chosen_node(status)))
            }
            Err(status) => MemberDecision::Failed(status),
        }
    }
}

/// Returns the status of the group by the last answer of the PlacementFeasible plugins.
pub(super) fn conclude(status: Status, found: &Findings) -> Status {
    match status.code() {
        Code::Success if found.members.iter().any(MemberDecision::fits) => status,
        Code::Success => Status::unschedulable(UNSCHEDULABLE),
        Code::Error | Code::Skip => {
            let text = status.message();
            Status::error(format!("failed to evaluate placement feasibility: {text}"))
        }
        _ => {
            let rejected = Status::unschedulable(UNSCHEDULABLE).and(status.message());
            status.plugin().map_or(rejected.clone(), |plugin| rejected.by(plugin))
        }
    }
}

/// Returns the status of a group of which a member has failed.
pub(super) fn failed(member: &Status) -> Status {
    let text = member.message();
    Status::error(format!("failed to schedule other pod from a pod group: {text}"))
}
