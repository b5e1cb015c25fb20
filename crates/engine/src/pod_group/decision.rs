//! The decision about a group: one pass over its members.

use std::sync::Arc;

use framework::{
    Code, Commands, MemberNomination, PodGroupKey, PodGroupProgress, QueuedPod, Status,
};

use super::UNSCHEDULABLE;
use crate::context::Context;
use crate::cycle::{FitError, Question};
use crate::decide::{Decider, Found};
use crate::plugin_call::{HasCode, call_beside};
use crate::ports::Span;
use crate::profile::Profile;
use crate::record::Choice;
use crate::world::World;
use crate::world::tentative::{Ending, Reservation, Tentative};

/// The question whether the members of a group can be placed together.
#[derive(Clone, Copy)]
pub(crate) struct PodGroupQuestion<'a> {
    pub(crate) group: &'a PodGroupKey,
    pub(crate) profile: &'a Arc<Profile>,
    pub(crate) members: &'a [QueuedPod],
}

/// The decision about a group.
pub(crate) struct PodGroupDecision {
    /// Success if enough members fit; they are then assumed and reserved.
    pub(crate) status: Status,
    /// The finding about each member, in their order.
    pub(crate) members: Vec<MemberDecision>,
    /// The reservations of the members that fit, in their order; empty unless enough fit.
    pub(crate) reservations: Vec<Reservation>,
    /// The members to nominate if the group is rejected and waits for evictions.
    pub(crate) nominations: Option<Vec<MemberNomination>>,
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

impl PodGroupDecision {
    /// Returns the failure of a group of which no member was tried.
    pub(crate) fn failed(status: Status, members: usize) -> Self {
        let mut failed =
            Self { status, members: Vec::new(), reservations: Vec::new(), nominations: None };
        failed.members.resize_with(members, || MemberDecision::NotTried);
        failed
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
    let ended = world.tentatively(cx, |world, cx| place_members(question, decider, world, cx));
    let Placing { status, members, commands } = ended.value;
    commands.into_iter().for_each(|own| world.commands().append(own));
    let reservations = ended.reservations;
    PodGroupDecision { status, members, reservations, nominations: None }
}

/// The outcome of placing the members.
pub(crate) struct Placing {
    /// Success if enough members fit.
    pub(crate) status: Status,
    /// The finding about each member, in their order.
    pub(crate) members: Vec<MemberDecision>,
    /// The commands that the plugins gave; none unless enough members fit.
    commands: Vec<Commands>,
}

/// Places the members inside a savepoint. If enough fit, they stay; otherwise the world is as
/// before.
pub(crate) fn place_members(
    question: PodGroupQuestion<'_>,
    decider: &mut Decider,
    world: &mut Tentative<'_>,
    cx: &mut Context<'_>,
) -> Ending<Placing> {
    let mut pass = Pass { question, decider, members: Vec::new(), commands: Vec::new() };
    let status = pass.run(world, cx);
    let Pass { mut members, commands, .. } = pass;
    members.resize_with(question.members.len(), || MemberDecision::NotTried);
    match status.is_success() {
        true => Ending::Keep(Placing { status, members, commands }),
        false => Ending::Undo(Placing { status, members, commands: Vec::new() }),
    }
}

/// One pass over the members.
struct Pass<'q, 'd> {
    question: PodGroupQuestion<'q>,
    decider: &'d mut Decider,
    members: Vec<MemberDecision>,
    /// The commands that the plugins gave for each member.
    commands: Vec<Commands>,
}

impl Pass<'_, '_> {
    /// Places the members until it is decided that too few fit. Members beyond the number that is
    /// needed are placed, too. Returns the status of the group.
    fn run(&mut self, world: &mut Tentative<'_>, cx: &mut Context<'_>) -> Status {
        let members = self.question.members;
        let mut status = self.feasible(members.len(), world, cx);
        for (place, member) in members.iter().enumerate() {
            if !matches!(status.code(), Code::Success | Code::Wait) {
                break;
            }
            let decision = self.place(member, world, cx);
            if let MemberDecision::Failed(error) = &decision {
                let text = error.message();
                self.members.push(decision);
                return Status::error(format!(
                    "failed to schedule other pod from a pod group: {text}"
                ));
            }
            self.members.push(decision);
            status = self.feasible(members.len() - place - 1, world, cx);
        }
        self.conclude(status)
    }

    /// Returns the status of the group by the last answer of the PlacementFeasible plugins.
    fn conclude(&self, status: Status) -> Status {
        let fits = |member: &MemberDecision| matches!(member, MemberDecision::Fits(_));
        match status.code() {
            Code::Success if self.members.iter().any(fits) => status,
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

    /// Asks the PlacementFeasible plugins. The first rejection or error decides, then a wait.
    fn feasible(&self, remaining: usize, world: &World, cx: &mut Context<'_>) -> Status {
        let PodGroupQuestion { group, profile, .. } = self.question;
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

    /// Decides about a member, and assumes and reserves it if it fits.
    fn place(
        &mut self,
        member: &QueuedPod,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> MemberDecision {
        let (profile, pod) = (self.question.profile, &member.pod);
        cx.probe.start(Span::Algorithm);
        world.register_queries(pod, profile, cx);
        let question = Question { world, profile, pod, within: None, as_member: true };
        let mut decision = self.decider.decide(question, world.log(), cx);
        cx.probe.stop(Span::Algorithm, decision.code());
        self.decider.proceed(&decision);
        self.commands.push(std::mem::take(&mut decision.commands));
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
