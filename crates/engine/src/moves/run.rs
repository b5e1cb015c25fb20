//! One plan that is carried out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use framework::{
    Answer, Controller, Hold, Holder, MovePolicy, NodeBits, Pod, PodKey, Purpose, Template, Time,
    Uid,
};

use super::count_move;
use super::verify::{Verified, verify};
use crate::context::{Context, PodEvent};
use crate::decide::Decider;
use crate::effect::{EffectId, EffectKind, ObjectRef, PlannedMove, PlannedMoves};
use crate::preemption::Preemptions;
use crate::world::World;

/// A plan for a pod.
#[derive(Debug)]
pub(super) struct Run {
    /// The pod that gets the room, as it was when it was planned for.
    pub(super) pod: Arc<Pod>,
    pub(super) policy: MovePolicy,
    /// The node of the pod after the moves.
    pub(super) node: Arc<str>,
    /// The moves that have not begun.
    pub(super) moves: VecDeque<Move>,
    /// Number of pods that were moved.
    done: usize,
    /// The nodes that moved pods have left.
    left: Vec<Arc<str>>,
    pub(super) stage: Stage,
    /// When the present stage ends at the latest.
    pub(super) deadline: Time,
    /// Whether a pod was evicted.
    pub(super) has_begun: bool,
}

/// A move of a plan.
#[derive(Debug, Clone)]
pub(super) struct Move {
    pub(super) pod: PodKey,
    pub(super) uid: Uid,
    pub(super) from: Arc<str>,
    pub(super) to: Arc<str>,
}

/// How far a plan is.
#[derive(Debug)]
pub(super) enum Stage {
    /// The moves are looked for.
    Planning(EffectId),
    /// The next move begins at the deadline.
    Pausing,
    /// A pod moves.
    Moving(Moving),
    /// All pods have been moved, and the pod is to be placed.
    Starting,
}

/// A move that has begun.
#[derive(Debug)]
pub(super) struct Moving {
    step: Move,
    /// The controller and the template of the pod, and so of its successor.
    controller: Arc<Controller>,
    template: Template,
    /// The request without an answer.
    pub(super) eviction: Option<EffectId>,
    /// The pod that the controller has made instead.
    successor: Option<Arc<Pod>>,
    /// Whether the pod has left its node.
    has_left: bool,
}

/// What a plan does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    Complete,
}

/// Why a plan ends early.
#[derive(Debug)]
pub(super) struct Stopped {
    /// The value of the label.
    pub(super) outcome: &'static str,
    /// For people.
    pub(super) reason: String,
}

impl Stopped {
    pub(super) const fn not_found(reason: String) -> Self {
        Self { outcome: "not_found", reason }
    }

    pub(super) const fn outdated(reason: String) -> Self {
        Self { outcome: "outdated", reason }
    }

    const fn unneeded(reason: String) -> Self {
        Self { outcome: "unneeded", reason }
    }

    const fn of_successor(reason: String) -> Self {
        Self { outcome: "successor", reason }
    }
}

impl Run {
    pub(super) fn new(pod: Arc<Pod>, policy: MovePolicy, effect: EffectId, deadline: Time) -> Self {
        Self {
            pod,
            policy,
            node: Arc::default(),
            moves: VecDeque::new(),
            done: 0,
            left: Vec::new(),
            stage: Stage::Planning(effect),
            deadline,
            has_begun: false,
        }
    }

    /// Takes over the plan. Its first move begins with the next tick.
    pub(super) fn begin(&mut self, plan: PlannedMoves, now: Time) {
        self.node = plan.node;
        self.moves = plan.moves.into_iter().map(Move::from).collect();
        self.pause(now);
    }

    fn pause(&mut self, until: Time) {
        (self.stage, self.deadline) = (Stage::Pausing, until);
    }

    /// Takes the step that is due.
    pub(super) fn step(
        &mut self,
        decider: &mut Decider,
        preemptions: &Preemptions,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Result<(), Stopped> {
        let timed_out = |reason: String| Err(Stopped { outcome: "timed_out", reason });
        let seconds = self.policy.timeout.as_secs();
        match &self.stage {
            Stage::Planning(_) => timed_out("no plan was made in time".to_owned()),
            Stage::Moving(moving) => timed_out(moving.describe_delay(seconds)),
            Stage::Starting => timed_out(format!("it was not placed within {seconds} s")),
            Stage::Pausing if world.is_assumed(&self.pod.uid) => {
                self.pause(cx.now + self.policy.timeout);
                Ok(())
            }
            Stage::Pausing => {
                // The savepoint decides as if nothing were held for this plan.
                let lifted = world.lift_room(&self.holder());
                let verified = verify(self, decider, preemptions, world, cx);
                lifted.into_iter().for_each(|hold| world.put_room_back(hold));
                match verified? {
                    Verified::Fits => self.start(world, cx),
                    Verified::Next(pod) => self.evict(&pod, world, cx)?,
                }
                Ok(())
            }
        }
    }

    /// Evicts the next pod, and holds the room of its successor.
    fn evict(
        &mut self,
        pod: &Arc<Pod>,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Result<(), Stopped> {
        let gone = || Stopped::outdated("the plan has no more moves".to_owned());
        let step = self.moves.pop_front().ok_or_else(gone)?;
        let no_controller = || Stopped::outdated(format!("pod {} has no controller", step.pod));
        let controller = pod.controller.clone().ok_or_else(no_controller)?;
        self.left.push(step.from.clone());
        self.deadline = cx.now + self.policy.timeout;
        self.hold(Some(&step.to), world, cx);
        let successor = Holder::Successor(step.pod.clone(), controller.clone());
        let hold = self.room(successor, nodes_of([&step.to], world), world, cx);
        world.hold_room(hold, cx);
        let note = self.describe_move(&step);
        // An event with another pod is an event of its own, not one more of a series.
        let related = ObjectRef { pod: step.pod.clone(), uid: step.uid.clone() };
        let event =
            PodEvent { related: Some(related), ..PodEvent::normal("MakingRoom", "Moving", &note) };
        cx.effects.record(&self.pod, &self.pod.spec.scheduler_name, event);
        let note = format!("Evicted to make room for pod {}; {note}", self.pod.key);
        let related = ObjectRef { pod: self.pod.key.clone(), uid: self.pod.uid.clone() };
        let event = PodEvent {
            related: Some(related),
            ..PodEvent::normal("MovedToMakeRoom", "Moving", &note)
        };
        cx.effects.record(pod, &pod.spec.scheduler_name, event);
        let (key, uid) = (step.pod.clone(), step.uid.clone());
        let effect = cx.effects.emit(EffectKind::RequestEviction { pod: key, uid });
        count_move("requested", cx);
        self.has_begun = true;
        self.stage = Stage::Moving(Moving {
            step,
            controller,
            template: Template::of(pod),
            eviction: Some(effect),
            successor: None,
            has_left: false,
        });
        Ok(())
    }

    /// Lets the pod start on the node that has room for it now.
    fn start(&mut self, world: &mut World, cx: &mut Context<'_>) {
        self.moves.clear();
        self.deadline = cx.now + self.policy.timeout;
        self.hold(None, world, cx);
        world.nominate(&self.pod, &self.node, cx);
        self.stage = Stage::Starting;
    }

    /// Holds the node of the pod, and the nodes that moved pods have left and others go to.
    fn hold(&self, but: Option<&Arc<str>>, world: &mut World, cx: &mut Context<'_>) {
        let is_used = |node: &&Arc<str>| self.moves.iter().any(|own| own.to == **node);
        let held = std::iter::once(&self.node).chain(self.left.iter().filter(is_used));
        let nodes = nodes_of(held.filter(|node| Some(*node) != but), world);
        let hold = self.room(self.holder(), nodes, world, cx);
        world.lift_room(&hold.holder);
        world.hold_room(hold, cx);
    }

    fn room(&self, holder: Holder, nodes: NodeBits, world: &World, cx: &Context<'_>) -> Hold {
        Hold {
            holder,
            purpose: Purpose::Move,
            scheduler_name: self.pod.spec.scheduler_name.clone(),
            priority: self.pod.priority(),
            may_preempt: false,
            nodes,
            since: world.wall_offset().wall_time(cx.now),
            start: None,
            expires: self.deadline + self.policy.pace + self.policy.timeout,
        }
    }

    fn holder(&self) -> Holder {
        Holder::Pod(self.pod.key.clone(), self.pod.uid.clone())
    }

    /// Compares the plan with the cluster.
    pub(super) fn check(
        &mut self,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Result<Step, Stopped> {
        let placed = world.confirmed_node(&self.pod.uid);
        if let Some(node) = placed {
            let is_made = self.has_begun || matches!(self.stage, Stage::Starting);
            if !is_made || *node != self.node {
                return Err(Stopped::unneeded(format!("it has been placed on node {node}")));
            }
            if !matches!(self.stage, Stage::Moving(_)) {
                return Ok(Step::Complete);
            }
        } else if !world.is_pending(&self.pod) {
            return Err(Stopped::unneeded("it is gone".to_owned()));
        }
        let is_placed = placed.is_some();
        if world.queue().gate_of(&self.pod.key).is_some() {
            return Err(Stopped::unneeded("it is gated".to_owned()));
        }
        if !matches!(self.stage, Stage::Planning(_)) {
            self.check_node(&self.node, world)?;
        }
        let Stage::Moving(moving) = &mut self.stage else { return Ok(Step::Wait) };
        if !moving.is_over(world, cx)? {
            return Ok(Step::Wait);
        }
        let holder = moving.holder();
        world.release_room(&holder, "started", cx);
        count_move("placed", cx);
        self.done += 1;
        let pace = if self.moves.is_empty() { Duration::ZERO } else { self.policy.pace };
        self.pause(cx.now + pace);
        Ok(if is_placed { Step::Complete } else { Step::Wait })
    }

    fn check_node(&self, node: &str, world: &World) -> Result<(), Stopped> {
        let is_known = world.cluster().node_named(node).is_some();
        let gone = || Stopped::outdated(format!("node {node} is gone"));
        is_known.then_some(()).ok_or_else(gone)
    }

    /// Releases what is held, and clears the nominations.
    pub(super) fn release(&self, world: &mut World, cx: &mut Context<'_>) {
        if let Stage::Moving(moving) = &self.stage {
            world.release_room(&moving.holder(), "released", cx);
            if let Some(successor) = &moving.successor {
                world.clear_nomination_to(successor, &moving.step.to, cx);
            }
        }
        if matches!(self.stage, Stage::Starting) {
            world.clear_nomination_to(&self.pod, &self.node, cx);
        }
        if !matches!(self.stage, Stage::Planning(_)) {
            world.release_room(&self.holder(), "released", cx);
        }
    }

    /// Returns what is done, for people.
    pub(super) fn describe(&self) -> String {
        match &self.stage {
            Stage::Planning(_) => "moves of other pods are looked for".to_owned(),
            Stage::Pausing => {
                let (done, total) = (self.done, self.done + self.moves.len());
                format!("{done} of {total} pods are moved to make room on node {}", self.node)
            }
            Stage::Moving(moving) => self.describe_move(&moving.step),
            Stage::Starting => format!("there is room on node {} now", self.node),
        }
    }

    fn describe_move(&self, step: &Move) -> String {
        let Move { pod, from, to, .. } = step;
        let (number, node) = (self.done + 1, &self.node);
        let total = number + self.moves.len();
        format!("move {number} of {total} for room on node {node}: pod {pod} from {from} to {to}")
    }
}

impl Moving {
    fn holder(&self) -> Holder {
        Holder::Successor(self.step.pod.clone(), self.controller.clone())
    }

    /// Handles the answer to the eviction. After a lost one, the watch shows what has happened.
    pub(super) fn answered(&self, answer: &Answer) -> Result<(), Stopped> {
        match answer {
            Answer::Ok(_) | Answer::Unknown(_) => Ok(()),
            _ if self.has_left => Ok(()),
            refused => {
                let (pod, text) = (&self.step.pod, refused.failure().unwrap_or_default());
                let reason = format!("the eviction of pod {pod} was refused: {text}");
                Err(Stopped { outcome: "refused", reason })
            }
        }
    }

    /// Whether the pod is the first new one of the controller.
    pub(super) fn may_be_succeeded_by(&self, pod: &Pod) -> bool {
        self.successor.is_none()
            && pod.node_name.is_none()
            && pod.uid != self.step.uid
            && pod.key.namespace == self.step.pod.namespace
            && pod.controller.as_ref() == Some(&self.controller)
    }

    /// Notes the successor.
    pub(super) fn see(
        &mut self,
        pod: &Arc<Pod>,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Result<(), Stopped> {
        let moved = &self.step.pod;
        if Template::of(pod) != self.template {
            let reason = format!("pod {} differs from pod {moved}, whose place it takes", pod.key);
            return Err(Stopped::of_successor(reason));
        }
        self.successor = Some(pod.clone());
        world.nominate(pod, &self.step.to, cx);
        Ok(())
    }

    /// Whether the pod has left its node and its successor is on the planned one.
    fn is_over(&mut self, world: &mut World, cx: &mut Context<'_>) -> Result<bool, Stopped> {
        let to = &self.step.to;
        if world.cluster().node_named(to).is_none() {
            return Err(Stopped::outdated(format!("node {to} is gone")));
        }
        let leaves = !self.has_left && world.placed(&self.step.uid).is_none();
        self.has_left |= leaves;
        let Some(successor) = &self.successor else { return Ok(false) };
        match world.confirmed_node(&successor.uid) {
            Some(node) if node == to => return Ok(self.has_left),
            Some(node) => {
                let reason = format!("pod {} was placed on node {node}, not {to}", successor.key);
                return Err(Stopped::of_successor(reason));
            }
            None if !world.is_pending(successor) => {
                return Err(Stopped::of_successor(format!("pod {} is gone", successor.key)));
            }
            None => {}
        }
        if leaves && !world.is_assumed(&successor.uid) {
            // It may not have fitted beside the pod that it replaces.
            world.nominate(successor, to, cx);
        }
        Ok(false)
    }

    fn describe_delay(&self, seconds: u64) -> String {
        let Self { step: Move { pod, to, .. }, successor, has_left, .. } = self;
        match successor {
            _ if !has_left => format!("pod {pod} has not ended within {seconds} s"),
            None => format!("no pod has taken the place of pod {pod} within {seconds} s"),
            Some(own) => format!("pod {} was not placed on node {to} within {seconds} s", own.key),
        }
    }
}

impl From<PlannedMove> for Move {
    fn from(planned: PlannedMove) -> Self {
        let PlannedMove { namespace, name, uid, from, to } = planned;
        Self { pod: PodKey { namespace, name }, uid: Uid::from(&*uid), from, to }
    }
}

fn nodes_of<'a>(names: impl IntoIterator<Item = &'a Arc<str>>, world: &World) -> NodeBits {
    names.into_iter().filter_map(|name| world.cluster().node_named(name)).collect()
}
