//! The decider: it finds the best node, or what could help a pod that fits nowhere.

use std::sync::Arc;

use framework::{
    Commands, ExtensionPoint, NodeIx, NominatingInfo, Pod, PostFilterResult, Status, Verdicts,
};

use super::decision::{Course, Decision, Found, Unfit, is_template_rejected};
use crate::context::Context;
use crate::cycle::{
    Chosen, FitError, FullPass, NO_NODES, NominatedNode, Prepared, Question, Report, Sampling,
    ScheduleError, Scored, Scratch, Settings, Subject, TieBreak, filter_by_extenders,
    run_post_filter, verdict_on,
};
use crate::pod_group::{KnownPlacements, SearchBudget};
use crate::profile::Profile;
use crate::ranking::{Counts, Lane, Rankings, Recalled};
use crate::world::{ChangeLog, World};

/// Decides about pods. Rankings, known placements and buffers only make decisions faster; the
/// course decides draws.
#[derive(Debug)]
pub(crate) struct Decider {
    pub(super) settings: Settings,
    pub(super) scratch: Scratch,
    pub(super) rankings: Rankings,
    pub(super) course: Course,
    known_placements: KnownPlacements,
    search_budget: SearchBudget,
}

/// The rankings, and the changes of the world that they may not have taken in.
struct Memory<'m> {
    rankings: &'m mut Rankings,
    log: &'m ChangeLog,
}

/// The nodes that a search found.
pub(super) enum Answer<'s> {
    /// One of the best nodes, from a ranking.
    Ranked(Chosen),
    /// All nodes that can take the pod.
    Scored(Scored<'s>),
}

impl Decider {
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        let course = Course { rng: fastrand::Rng::with_seed(seed), next_start: 0 };
        let (scratch, rankings) = (Scratch::default(), Rankings::default());
        let known_placements = KnownPlacements::default();
        let search_budget = SearchBudget::new(settings.group_search);
        Self { settings, scratch, rankings, course, known_placements, search_budget }
    }

    /// Returns the steps that groups have left for other orders.
    pub(crate) const fn search_budget(&mut self) -> &mut SearchBudget {
        &mut self.search_budget
    }

    /// Returns what is known of the placements of groups.
    pub(crate) const fn known_placements(&mut self) -> &mut KnownPlacements {
        &mut self.known_placements
    }

    /// Returns the number of answers from rankings.
    pub(crate) const fn counts(&self) -> Counts {
        self.rankings.counts()
    }

    /// Whether decisions of the profile look at a sample of the nodes.
    pub(crate) fn samples(&self, profile: &Profile) -> bool {
        self.settings.sampling(profile) != Sampling::All
    }

    /// Goes on from a decision that is carried out.
    pub(crate) fn proceed(&mut self, decision: &Decision) {
        self.course = decision.course.clone();
    }

    /// Returns what decisions go on from.
    pub(crate) fn course(&self) -> Course {
        self.course.clone()
    }

    /// Goes on from an earlier point, so that the same decisions are made again.
    pub(crate) fn resume(&mut self, course: Course) {
        self.course = course;
    }

    /// Puts equal candidates into the order in which one of them is chosen: by name, or at random.
    pub(crate) fn mix<T>(&mut self, candidates: &mut [T], name: impl Fn(&T) -> &Arc<str>) {
        match self.settings.tie_break {
            TieBreak::FirstByName => candidates.sort_by(|one, other| name(one).cmp(name(other))),
            TieBreak::Random => self.course.rng.shuffle(candidates),
        }
    }

    /// Decides about a pod. `log` has the changes of the world since the last decisions.
    pub(crate) fn decide(
        &mut self,
        question: Question<'_>,
        log: &ChangeLog,
        cx: &mut Context<'_>,
    ) -> Decision {
        let Self { settings, scratch, rankings, course, .. } = self;
        let memory = Some(Memory { rankings, log });
        decide(question, settings, scratch, course.clone(), memory, cx)
    }

    /// Decides about a pod, and leaves the rankings alone.
    pub(super) fn decide_aside(&self, question: Question<'_>, cx: &mut Context<'_>) -> Decision {
        let scratch = &mut Scratch::default();
        decide(question, &self.settings, scratch, self.course.clone(), None, cx)
    }

    /// Decides for one node, if the node can take the pod.
    ///
    /// # Errors
    /// The verdict on the node, or the failure of a plugin or extender.
    pub(crate) fn check(
        &self,
        question: Question<'_>,
        node: NodeIx,
        cx: &mut Context<'_>,
    ) -> Result<Decision, Status> {
        let commands = Commands::default();
        let mut subject = Subject::new(question, &self.settings, &commands, cx);
        check_node(&mut subject, node)?;
        let found = Found::Node(Chosen { node, ties: 1, total: None, feasible: 1, evaluated: 1 });
        let state = subject.state;
        Ok(Decision { found, state, commands, course: self.course.clone() })
    }
}

fn decide(
    question: Question<'_>,
    settings: &Settings,
    scratch: &mut Scratch,
    mut course: Course,
    mut memory: Option<Memory<'_>>,
    cx: &mut Context<'_>,
) -> Decision {
    let commands = Commands::default();
    let mut subject = Subject::new(question, settings, &commands, cx);
    let lane = memory.as_ref().and_then(|_| Lane::of(question.profile, question.pod));
    let chosen = match (&lane, &mut memory) {
        (Some(lane), Some(Memory { rankings, log })) => {
            let mut known = rankings.recall(lane, log, &mut subject.state);
            let chosen = choose(&mut subject, Some(&mut known), scratch, &mut course);
            rankings.suspend(lane, &mut subject.state);
            chosen
        }
        _ => choose(&mut subject, None, scratch, &mut course),
    };
    let found = match chosen {
        Ok(chosen) => Found::Node(chosen),
        Err(ScheduleError::NoNodes) => Found::Failed(Status::unresolvable(NO_NODES)),
        Err(ScheduleError::Error(status)) => Found::Failed(status),
        Err(ScheduleError::Fit(mut fit)) => {
            let (lane, rng) = (lane.as_ref(), &mut course.rng);
            let post_filter = match question.as_member {
                true => no_post_filter(),
                false => post_filter(&mut subject, &mut fit, memory, lane, rng),
            };
            // A command, for example a write, may help this pod alone.
            let template_rejected = settings.extenders.is_empty()
                && !question.as_member
                && commands.is_empty()
                && question.world.commands().is_empty()
                && is_template_rejected(question, &fit, &post_filter, subject.cx.now);
            Found::Unfit(Unfit { fit, post_filter, template_rejected })
        }
    };
    let state = subject.state;
    Decision { found, state, commands, course }
}

/// Returns one of the best nodes that can take the pod.
fn choose(
    subject: &mut Subject<'_, '_>,
    known: Option<&mut Recalled<'_>>,
    scratch: &mut Scratch,
    course: &mut Course,
) -> Result<Chosen, ScheduleError> {
    let (tie_break, cluster) = (subject.settings.tie_break, subject.cluster());
    Ok(match find(subject, known, scratch, course, None)? {
        Answer::Ranked(chosen) => chosen,
        Answer::Scored(scored) => scored.choose(tie_break, cluster, &mut course.rng),
    })
}

/// Finds the nodes that can take the pod: its nominated node, one of the best by the
/// ranking, or all.
///
/// # Errors
/// No node can take the pod, or a plugin or extender failed.
pub(super) fn find<'s>(
    subject: &mut Subject<'_, '_>,
    mut known: Option<&mut Recalled<'_>>,
    scratch: &'s mut Scratch,
    course: &mut Course,
    report: Option<&mut Report>,
) -> Result<Answer<'s>, ScheduleError> {
    subject.check()?;
    let prepared = &Prepared::of(subject)?;
    // An error over the nominated node leaves it to the full search, as in kube-scheduler.
    let own = match NominatedNode::of(subject).unwrap_or_default() {
        NominatedNode::Unknown => None,
        NominatedNode::Rejected(node, status) => Some((node, status)),
        NominatedNode::Feasible(node) => {
            if let Some(report) = report {
                explain_others(subject, prepared, scratch, report, course.next_start);
                report.passed.insert(node);
            }
            return Ok(Answer::Scored(scratch.only(node)));
        }
    };
    if let Some(known) = &mut known
        && let Some(best) = known.best(subject, prepared, scratch, &mut course.rng)?
    {
        return Ok(Answer::Ranked(best));
    }
    let pass = FullPass { prepared, own, next_start: &mut course.next_start, report };
    let scored = scratch.full_pass(subject, pass);
    if let (Some(known), Err(ScheduleError::Fit(fit))) = (known, &scored) {
        known.rejected(subject, fit);
    }
    scored.map(Answer::Scored)
}

/// Reports on all nodes, although the nominated node decides. A sampled search, which begins at
/// `start`, does not move on.
fn explain_others(
    subject: &mut Subject<'_, '_>,
    prepared: &Prepared,
    scratch: &mut Scratch,
    report: &mut Report,
    mut start: usize,
) {
    let own = &mut *report;
    let pass = FullPass { prepared, own: None, next_start: &mut start, report: Some(own) };
    if let Err(ScheduleError::Fit(fit)) = scratch.filter.run(subject, pass) {
        report.verdicts = Arc::unwrap_or_clone(fit.diagnosis.verdicts);
    }
    report.rejectors = prepared.restricting.iter().cloned().collect();
}

/// Returns the result for a pod for which no PostFilter plugin runs.
fn no_post_filter() -> PostFilterResult {
    let nominating = NominatingInfo::Override("".into());
    PostFilterResult { nominating, ..PostFilterResult::default() }
}

/// Runs the PostFilter plugins on a pod that fits nowhere, with what they have kept for its lane.
fn post_filter(
    subject: &mut Subject<'_, '_>,
    fit: &mut FitError,
    memory: Option<Memory<'_>>,
    lane: Option<&Lane>,
    rng: &mut fastrand::Rng,
) -> PostFilterResult {
    if subject.profile.post_filter.is_empty() {
        let result = no_post_filter();
        fit.diagnosis.post_filter_message = message_of(&result, subject.pod, subject.world);
        return result;
    }
    let verdicts = &fit.diagnosis.verdicts;
    let mut memory = memory.zip(lane);
    let kept = memory.as_mut().and_then(|(Memory { rankings, log }, lane)| {
        rankings.failures_mut(lane)?.resume_post_filter(verdicts, log, subject.world)
    });
    let are_local = kept.is_some();
    kept.into_iter().for_each(|kept| subject.state.resume(kept));
    let result = subject.measure(ExtensionPoint::PostFilter, |subject| {
        run_post_filter(subject, verdicts, are_local, rng)
    });
    if are_local
        && let Some((Memory { rankings, log }, lane)) = memory
        && let Some(failures) = rankings.failures_mut(lane)
    {
        failures.suspend_post_filter(subject.state.suspend(), log, subject.world);
    }
    fit.diagnosis.post_filter_message = message_of(&result, subject.pod, subject.world);
    result
}

/// Returns what is added to the text of a pod that fits nowhere: what PostFilter has found, and the
/// room that is held for the pod.
pub(super) fn message_of(result: &PostFilterResult, pod: &Pod, world: &World) -> String {
    let tells_placement = world.profiles().behaviours().preemption_tells_its_placement;
    let message = match result.status.is_success() {
        true if tells_placement => result.found.clone(),
        true => String::new(),
        false => result.status.message(),
    };
    match world.room_of(pod) {
        Some(room) if message.is_empty() => room,
        Some(room) => format!("{message}, {room}"),
        None => message,
    }
}

/// Runs PreFilter and the filters on one node.
fn check_node(subject: &mut Subject<'_, '_>, node: NodeIx) -> Result<(), Status> {
    subject.check().map_err(ScheduleError::into_status)?;
    let prepared = Prepared::of(subject).map_err(ScheduleError::into_status)?;
    if !prepared.nodes(subject).contains(node) {
        let status = Status::unresolvable("node(s) didn't satisfy the restrictions of PreFilter");
        let plugin = prepared.restricting.first();
        return Err(plugin.map_or(status.clone(), |plugin| status.by(plugin)));
    }
    verdict_on(subject, node).map_err(ScheduleError::into_status)?.ok()?;
    let (mut nodes, mut verdicts) = (vec![node], Verdicts::default());
    filter_by_extenders(subject, &mut nodes, &mut verdicts)?;
    match verdicts.explicit(node) {
        Some(status) if nodes.is_empty() => Err(status.clone()),
        _ => Ok(()),
    }
}
