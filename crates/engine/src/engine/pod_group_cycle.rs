//! The scheduling cycle of a PodGroup.

use std::sync::Arc;

use foldhash::HashMap;
use framework::{
    MissingNodes, NominatingInfo, PluginName, Pod, PodGroupKey, PostFilterResult, QueuedGroup,
    QueuedPod, Status, Uid, pod_group_key,
};

use super::Engine;
use crate::attempt::{Attempt, Outcome};
use crate::attempts::{Assumed, Attempts, Withdrawn};
use crate::binding::Decided;
use crate::change::Change;
use crate::context::Context;
use crate::failure::Failure;
use crate::pod_group::{
    MemberDecision, Orders, PodGroupDecision, PodGroupQuestion, check_members, condition, decide,
    make_room, missing_nodes, over_quota,
};
use crate::ports::Span;
use crate::profile::Profile;
use crate::record::{Finding, Head};
use crate::world::World;

/// A member in the cycle of its group.
struct Member {
    queued: QueuedPod,
    decision: MemberDecision,
    /// The beginning of the record of its attempt.
    head: Head,
    /// The node to nominate it to, where victims of its group end.
    nomination: Option<Arc<str>>,
}

impl Engine {
    /// Tries to schedule the members of a group together. Returns the attempt of the first of them.
    pub(super) fn schedule_group(
        &mut self,
        mut group: Box<QueuedGroup>,
        cx: &mut Context<'_>,
    ) -> Attempt {
        let mut members = group.take_members();
        let first = members[0].pod.clone();
        members.retain(|member| self.profile_to_try(&member.pod, cx).is_some());
        let profile = members.first().and_then(|first| self.world.profile_of(&first.pod)).cloned();
        let Some(profile) = profile else {
            self.world.requeue_leftovers(group, cx);
            return Attempt { pod: first, outcome: Outcome::Skipped };
        };
        let name = profile.scheduler_name.clone();
        cx.probe.start(Span::GroupAttempt(&name));
        cx.probe.start(Span::GroupAlgorithm);
        let mut surplus = self.beyond_minimum(&group.key, &mut members);
        let mut decision = self.decide_group(question(&group, &profile, &members), cx);
        if !surplus.is_empty() && decision.status.is_rejection() {
            members.append(&mut surplus);
            decision = self.decide_group(question(&group, &profile, &members), cx);
        }
        let question = question(&group, &profile, &members);
        make_room(question, &mut decision, &mut self.decider, &mut self.world, cx);
        let code = decision.status.code();
        cx.probe.stop(Span::GroupAlgorithm, code);
        surplus.into_iter().for_each(|member| group.insert(member));
        let (world, attempts) = (&mut self.world, &mut self.attempts);
        let cycle = Cycle { group, held_back: None, profile, world, attempts };
        let first = members[0].pod.clone();
        let outcome = cycle.commit(members, decision, cx);
        cx.probe.stop(Span::GroupAttempt(&name), code);
        Attempt { pod: first, outcome }
    }

    /// Takes out the members of an elastic group that it does not need to start. They are tried
    /// when it has started, after the others of its priority.
    fn beyond_minimum(&self, group: &PodGroupKey, members: &mut Vec<QueuedPod>) -> Vec<QueuedPod> {
        let known = self.world.pod_group(group).filter(|own| own.is_elastic);
        let needed = known.and(self.world.min_count(group)).unwrap_or_default();
        match needed.saturating_sub(self.world.scheduled_members(group)) as usize {
            0 => Vec::new(),
            missing => members.split_off(missing.min(members.len())),
        }
    }

    /// Decides about the members, which all have this profile if the group is valid.
    fn decide_group(
        &mut self,
        question: PodGroupQuestion<'_>,
        cx: &mut Context<'_>,
    ) -> PodGroupDecision {
        let PodGroupQuestion { group, profile, members, .. } = question;
        let valid = match self.world.pod_group(group) {
            Some(known) => check_members(members, known, self.world.profiles().in_common()),
            None => Err(Status::error(format!("the PodGroup {group} does not exist"))),
        };
        if let Err(status) = valid {
            return PodGroupDecision::failed(status, members.len());
        }
        self.refresh_order(profile);
        decide(question, &mut self.decider, &mut self.world, cx)
    }

    /// Places the members again whose bind was refused, within the room of their groups. No pod is
    /// evicted for them before they are back in the queue.
    ///
    /// Rule refused-members-keep-their-room of docs/differences.toml.
    pub(super) fn place_refused(&mut self, cx: &mut Context<'_>) {
        while let Some(member) = self.attempts.withdraw_refused(&mut self.world, cx) {
            let Withdrawn { group, profile, queued, .. } = &member;
            let head = Head::of(queued, self.world.log().state(), cx.now);
            let members = std::slice::from_ref(queued);
            let orders = Orders::OfQueue;
            let question = PodGroupQuestion { group, profile, members, orders };
            let mut decision = self.decide_group(question, cx);
            let Self { attempts, world, .. } = self;
            match (decision.members.pop(), decision.reservations.pop()) {
                (Some(MemberDecision::Fits(choice)), Some(own)) => {
                    let Withdrawn { group, profile, queued, .. } = member;
                    attempts.records_mut().push(head.found(Finding::Chosen(choice.clone())), true);
                    let decided = Decided { queued, profile, choice, group: Some(group.clone()) };
                    let assumed = Assumed { decided, pod: own.pod, state: own.state };
                    attempts.bind_again(&group, assumed, world, cx);
                }
                (found, _) => attempts.give_up(member, found, &decision.status, world, cx),
            }
        }
    }

    /// Puts a group back with a backoff, because its members are decided elsewhere, one by one.
    pub(super) fn refuse_group(&mut self, mut group: Box<QueuedGroup>, cx: &mut Context<'_>) {
        let members = group.take_members();
        let profile = members.first().and_then(|first| self.world.profile_of(&first.pod)).cloned();
        let Some(profile) = profile else { return self.world.requeue_leftovers(group, cx) };
        let status = Status::error("pod groups are not scheduled over several clusters");
        let decision = PodGroupDecision::failed(status, members.len());
        let (world, attempts) = (&mut self.world, &mut self.attempts);
        let cycle = Cycle { group, held_back: None, profile, world, attempts };
        cycle.commit(members, decision, cx);
    }

    /// Returns the PodGroup that a change is about.
    pub(super) fn changed_pod_group(&self, change: &Change) -> Option<PodGroupKey> {
        let is_object = matches!(change, Change::Object(_) | Change::ObjectDeleted(_));
        let follows = is_object && self.world.profiles().schedules_groups();
        follows.then(|| pod_group_key(&change.object()))
    }
}

fn question<'a>(
    group: &'a QueuedGroup,
    profile: &'a Arc<Profile>,
    members: &'a [QueuedPod],
) -> PodGroupQuestion<'a> {
    PodGroupQuestion { group: &group.key, profile, members, orders: Orders::All }
}

/// The end of a cycle: members are bound together, or all go back to the queue.
struct Cycle<'e> {
    /// The group without its members.
    group: Box<QueuedGroup>,
    /// The reason of the members, if no new node can help the group.
    held_back: Option<&'static str>,
    profile: Arc<Profile>,
    world: &'e mut World,
    attempts: &'e mut Attempts,
}

impl Cycle<'_> {
    /// Carries out the decision about the group. Returns the outcome of its first member.
    fn commit(
        self,
        members: Vec<QueuedPod>,
        mut decision: PodGroupDecision,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let state = self.world.log().state();
        let decisions = std::mem::take(&mut decision.members);
        let nominations = std::mem::take(&mut decision.nominations).unwrap_or_default();
        // Never iterated.
        let mut nominations: HashMap<Uid, Arc<str>> =
            nominations.into_iter().map(|own| (own.uid, own.node)).collect();
        let members = members.into_iter().zip(decisions).map(|(queued, decision)| {
            let head = Head::of(&queued, state, cx.now);
            let nomination = nominations.remove(&queued.pod.uid);
            Member { queued, decision, head, nomination }
        });
        let members = members.collect();
        match decision.status.is_success() {
            true => self.bind(members, decision, cx),
            false => self.reject(members, decision, cx),
        }
    }

    /// Starts the binding of the members that fit. The others are tried again at once, as in
    /// Kubernetes 1.37.
    fn bind(
        mut self,
        members: Vec<Member>,
        decision: PodGroupDecision,
        cx: &mut Context<'_>,
    ) -> Outcome {
        self.group.missing_nodes = None;
        let first_fits = matches!(members[0].decision, MemberDecision::Fits(_));
        let mut reservations = decision.reservations.into_iter();
        let (mut assumed, mut left_over) = (Vec::new(), Vec::new());
        for member in members {
            let Member { queued, decision: MemberDecision::Fits(choice), head, .. } = member else {
                left_over.push(self.fail(member, &decision.status, cx));
                continue;
            };
            let own = reservations.next().expect("each member that fits has a reservation");
            self.attempts.records_mut().push(head.found(Finding::Chosen(choice.clone())), true);
            let (profile, group) = (self.profile.clone(), Some(self.group.key.clone()));
            let decided = Decided { queued, profile, choice, group };
            assumed.push(Assumed { decided, pod: own.pod, state: own.state });
        }
        let Self { group, world, attempts, .. } = self;
        let key = group.key.clone();
        world.requeue_leftovers(group, cx);
        let bound = attempts.bind_group(&key, assumed, world, cx);
        first_of(if first_fits { bound } else { left_over })
    }

    /// Puts all members back into the queue, and reports why.
    fn reject(
        mut self,
        members: Vec<Member>,
        mut decision: PodGroupDecision,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let waits_for_victims = members.iter().any(|member| member.nomination.is_some());
        let is_stuck = decision.status.is_rejection() && !waits_for_victims;
        self.group.missing_nodes = None;
        if is_stuck && let Some((plugin, text)) = self.over_quota(&members) {
            self.held_back = self.profile.plugins[&plugin].rejects_as;
            decision.rejectors.insert(plugin);
            decision.status = decision.status.and(text);
        } else if is_stuck && decision.is_of_all_nodes {
            self.group.missing_nodes = self.missing_nodes(&members);
        }
        let status = &decision.status;
        let reason = if status.is_rejection() { "Unschedulable" } else { "SchedulerError" };
        let mut message = status.message();
        if let Some(missing) = missing(&members).filter(|_| decision.is_of_all_nodes) {
            message = format!("{message}, {missing}");
        }
        if let Some(nodes) = &self.group.missing_nodes {
            message = format!("{message}, {nodes}");
        }
        if let Some(hold) = self.world.cluster().holds().of_group(&self.group.key) {
            message = format!("{message}, {}", self.world.describe_hold(hold));
        }
        let outcomes = members.into_iter().map(|member| self.fail(member, status, cx)).collect();
        if !self.is_running() {
            let condition = condition(false, reason, &message);
            let Self { group, profile, world, attempts, .. } = &mut self;
            let (reports, reporter) = (attempts.group_reports_mut(), &profile.scheduler_name);
            reports.report(&group.key, condition, reporter, world, cx);
        }
        let history = &mut self.group.history;
        history.unschedulable_plugins = decision.rejectors;
        history.pending_plugins.clear();
        self.world.requeue_group(self.group, cx);
        first_of(outcomes)
    }

    /// Number of members that must be placed together.
    fn needed(&self) -> usize {
        let key = &self.group.key;
        let min_count = self.world.min_count(key).unwrap_or(1);
        let needed = min_count.saturating_sub(self.world.scheduled_members(key));
        usize::try_from(needed).map_or(usize::MAX, |needed| needed.max(1))
    }

    /// Returns why the quota of the members is too small for the group, and the plugin that says
    /// so.
    fn over_quota(&self, members: &[Member]) -> Option<(PluginName, String)> {
        let (plugin, reading) = self.profile.quota_plugin()?;
        let pods: Vec<&Pod> = members.iter().map(|member| &*member.queued.pod).collect();
        let text = over_quota(&pods, self.needed(), self.world.cluster(), reading)?;
        Some((plugin.clone(), text))
    }

    /// Returns the nodes that the group lacks.
    fn missing_nodes(&self, members: &[Member]) -> Option<MissingNodes> {
        let fitting = members.iter().filter(|member| member.decision.fits()).count();
        let lacking = self.needed().saturating_sub(fitting).max(1);
        members.iter().find_map(|member| match &member.decision {
            MemberDecision::Unfit(fit) => {
                missing_nodes(fit, &member.queued.pod, lacking, self.world.cluster())
            }
            _ => None,
        })
    }

    /// Whether enough members have a node without those of this cycle, so that the condition of the
    /// group is true, or becomes so.
    fn is_running(&self) -> bool {
        let min_count = self.world.min_count(&self.group.key).unwrap_or(1);
        self.world.scheduled_members(&self.group.key) >= min_count
    }

    /// Reports the failure of a member, and puts it back into the group.
    fn fail(&mut self, member: Member, status: &Status, cx: &mut Context<'_>) -> Outcome {
        let Member { mut queued, decision, head, nomination } = member;
        let nominating = NominatingInfo::Override(nomination.unwrap_or_default());
        let Self { group, profile, world, attempts, .. } = self;
        let (record, failure) = match decision {
            MemberDecision::Unfit(fit)
                if self.held_back.is_none() && (status.is_rejection() || status.is_success()) =>
            {
                let cluster = world.cluster();
                let nominated =
                    PostFilterResult { nominating: nominating.clone(), ..Default::default() };
                let rejected = attempts.records_mut().rejected(&fit, &nominated, &[], cluster);
                let failure = Failure::fit(&fit, Failure::clear_nomination());
                (head.found(Finding::Rejected(rejected)), failure)
            }
            MemberDecision::Failed(own) => (head.failed(&own.message()), Failure::error(&own)),
            _ => {
                let plugins = status.plugin().cloned().into_iter().collect();
                (head.failed(&status.message()), Failure::of_group(status, plugins))
            }
        };
        let is_pending = world.is_pending(&queued.pod);
        attempts.records_mut().push(record, is_pending);
        let failure = failure.because(self.held_back).nominating(nominating);
        let outcome = failure.handle_member(&mut queued, profile, world, cx);
        group.insert(queued);
        outcome
    }
}

/// Returns why the first member that does not fit does not. Placements say so themselves.
///
/// Rule groups-say-what-is-missing of docs/differences.toml.
fn missing(members: &[Member]) -> Option<String> {
    members.iter().find_map(|member| match &member.decision {
        MemberDecision::Unfit(fit) => {
            Some(format!("pod {} does not fit: {}", member.queued.pod.key.name, fit.reasons()))
        }
        _ => None,
    })
}

fn first_of(outcomes: Vec<Outcome>) -> Outcome {
    outcomes.into_iter().next().unwrap_or(Outcome::Skipped)
}
