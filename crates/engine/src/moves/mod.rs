//! Moves of pods, one by one, so that a pod fits that fits nowhere.
//!
//! ```text
//! a pod has waited ─▶ plan ─▶ [verify ─▶ hold room ─▶ evict ─▶ successor placed ─▶ pause] ─▶ start
//!                      │         │                      │             │
//!                      └─────────┴───────────┬──────────┴─────────────┘
//!                               stopped, and tried again after a backoff
//! ```
//!
//! The caller looks for the moves beside the engine ([`EffectKind::PlanMoves`]). Before each move
//! the rest of the plan is tried in a savepoint. The room of the pod, and that of the successor of
//! the pod that moves next, are held in the cluster. The pod that moves is evicted by an Eviction,
//! for which budgets have the last word. Its controller makes a successor, which is nominated to
//! its node, and decided like any other pod.
//!
//! One plan at a time is carried out, for the pod of the highest priority that has waited longest.
//! A surprise stops it: room and nominations are released. Nothing is written down, so a scheduler
//! that dies leaves only pods that their controllers make again.

mod run;
mod verify;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{Answer, MovePolicy, Pod, QueuedEntity, QueuedPod, Time, Uid};
use rustc_hash::FxHashSet;

use self::run::{Run, Stage, Step, Stopped};
use crate::change::Change;
use crate::context::{Context, PodEvent};
use crate::counters::{MOVE_PLANS, POD_MOVES};
use crate::decide::Decider;
use crate::effect::{EffectId, EffectKind, MovesWanted, PlannedMoves};
use crate::ports::Count;
use crate::preemption::Preemptions;
use crate::queue::Place;
use crate::world::World;

/// Time between two looks for a pod that has waited.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Time until the next look after a search that found no moves.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Maximum time until a plan is there.
const LONGEST_PLANNING: Duration = Duration::from_mins(1);
/// Time until the next plan for a pod after the first failure. It doubles with each further one.
const BACKOFF: Duration = Duration::from_mins(5);
/// Maximum time until the next plan for a pod.
const LONGEST_BACKOFF: Duration = Duration::from_hours(2);

/// Moves pods.
#[derive(Debug)]
pub(crate) struct Mover {
    /// Whether a profile has a policy.
    is_on: bool,
    next_look: Time,
    run: Option<Run>,
    /// The pods for which moves were not found, or not carried out to the end.
    failed: BTreeMap<Uid, Failed>,
}

/// The last plan for a pod.
#[derive(Debug)]
struct Failed {
    pod: Arc<Pod>,
    /// Whether no moves were found. There are none for pods of its template either.
    found_none: bool,
    /// Number of failures in a row.
    number: u32,
    /// The time until the next plan.
    until: Time,
    reason: String,
}

/// The addresses of the parts that the pods of a template share.
type SharedParts = [usize; 4];

fn shared_parts(pod: &Pod) -> SharedParts {
    [
        Arc::as_ptr(&pod.spec).addr(),
        Arc::as_ptr(&pod.requests).addr(),
        Arc::as_ptr(&pod.labels).addr(),
        pod.key.namespace.as_ptr().addr(),
    ]
}

impl Mover {
    pub(crate) fn new(world: &World) -> Self {
        let is_on = world.profiles().iter().any(|profile| profile.move_policy().is_some());
        Self { is_on, next_look: Time::ZERO, run: None, failed: BTreeMap::new() }
    }

    /// Returns when the next look or step is due.
    pub(crate) fn next_deadline(&self, world: &World) -> Option<Time> {
        if let Some(run) = &self.run {
            return Some(run.deadline);
        }
        // Gated entities are the last ones.
        let first = || world.queue().entities().next();
        let waits = || first().is_some_and(|(place, _)| place != Place::Gated);
        (self.is_on && waits()).then_some(self.next_look)
    }

    /// Takes the step that is due, or looks for a pod that has waited long enough.
    pub(crate) fn tick(
        &mut self,
        decider: &mut Decider,
        preemptions: &Preemptions,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        if !self.is_on {
            return;
        }
        if let Some(run) = &mut self.run {
            if run.deadline > cx.now {
                return;
            }
            if let Err(stopped) = run.step(decider, preemptions, world, cx) {
                self.stop(&stopped, world, cx);
            }
        } else if self.next_look <= cx.now {
            self.next_look = cx.now + LOOK_EVERY;
            self.failed.retain(|_, failed| world.is_pending(&failed.pod));
            self.look(world, cx);
        }
    }

    /// Asks for moves for a pod of the highest priority, of the namespace in which the fewest
    /// searches were in vain, which has waited longest.
    fn look(&mut self, world: &World, cx: &mut Context<'_>) {
        let pods = world.queue().entities().filter_map(|(place, entity)| match entity {
            QueuedEntity::Pod(pod) if place != Place::Gated => Some(pod),
            _ => None,
        });
        let failed = self.failed.values().filter(|failed| failed.until > cx.now);
        let without_moves = failed.filter(|failed| failed.found_none);
        let without_moves: FxHashSet<_> =
            without_moves.map(|failed| shared_parts(&failed.pod)).collect();
        let waiting = pods.filter_map(|own| Some((own, self.policy_for(own, world, cx.now)?)));
        let waiting = waiting.filter(|(own, _)| !without_moves.contains(&shared_parts(&own.pod)));
        let mut in_vain = BTreeMap::<&str, usize>::new();
        for failed in self.failed.values() {
            *in_vain.entry(&failed.pod.key.namespace).or_default() += 1;
        }
        let first = waiting.min_by_key(|(QueuedPod { pod, history, .. }, _)| {
            let in_vain = in_vain.get(&*pod.key.namespace).copied().unwrap_or_default();
            (Reverse(pod.priority()), in_vain, history.initial_attempt, &pod.key)
        });
        let Some((QueuedPod { pod, .. }, policy)) = first else { return };
        let wanted = MovesWanted { pod: pod.key.clone(), uid: pod.uid.clone(), most: policy.most };
        let effect = cx.effects.emit(EffectKind::PlanMoves(wanted));
        self.run = Some(Run::new(pod.clone(), policy, effect, cx.now + LONGEST_PLANNING));
    }

    /// Returns the policy for a pod for which pods may be moved now.
    fn policy_for(&self, queued: &QueuedPod, world: &World, now: Time) -> Option<MovePolicy> {
        let QueuedPod { pod, history, .. } = queued;
        let policy = world.profile_of(pod)?.move_policy()?;
        let has_waited = history.initial_attempt.is_some_and(|first| first + policy.after <= now);
        let may = history.attempts > 0
            && has_waited
            && !pod.terminating
            && self.failed.get(&pod.uid).is_none_or(|failed| failed.until <= now)
            && world.nominator().node_of(&pod.uid).is_none()
            && !world.preemptions().is_running(&pod.uid);
        may.then_some(policy)
    }

    /// Handles the answer to a plan or an eviction. Ignores the answers to other effects.
    pub(crate) fn answer(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let Some(run) = &mut self.run else { return };
        let handled = match &mut run.stage {
            Stage::Planning(planned) if *planned == effect => {
                PlannedMoves::of(answer).map_err(Stopped::not_found).and_then(|plan| {
                    if plan.moves.is_empty() {
                        world.activate(std::slice::from_ref(&run.pod.key), cx);
                        return Err(Stopped::not_found("it fits without a move".to_owned()));
                    }
                    run.begin(plan, cx.now);
                    Ok(())
                })
            }
            Stage::Moving(moving) if moving.eviction == Some(effect) => {
                moving.eviction = None;
                moving.answered(answer)
            }
            _ => return,
        };
        if let Err(stopped) = handled {
            self.stop(&stopped, world, cx);
        }
    }

    /// Returns the pod in a change that may be the successor of the one that moves.
    pub(crate) fn successor_in(&self, change: &Change) -> Option<Arc<Pod>> {
        match (&self.run, change) {
            (Some(Run { stage: Stage::Moving(moving), .. }), Change::Pod(pod)) => {
                moving.may_be_succeeded_by(pod).then(|| Arc::new(Pod::clone(pod)))
            }
            _ => None,
        }
    }

    /// Notes the successor of the pod that moves, which is pending now.
    pub(crate) fn see(&mut self, pod: &Arc<Pod>, world: &mut World, cx: &mut Context<'_>) {
        let Some(Run { stage: Stage::Moving(moving), .. }) = &mut self.run else { return };
        if let Err(stopped) = moving.see(pod, world, cx) {
            self.stop(&stopped, world, cx);
        }
    }

    /// Compares the plan with the cluster after each input.
    pub(crate) fn check(&mut self, world: &mut World, cx: &mut Context<'_>) {
        let Some(run) = &mut self.run else { return };
        match run.check(world, cx) {
            Ok(Step::Wait) => {}
            Ok(Step::Complete) => self.complete(world, cx),
            Err(stopped) => self.stop(&stopped, world, cx),
        }
    }

    fn complete(&mut self, world: &mut World, cx: &mut Context<'_>) {
        let Some(run) = self.end(world, cx) else { return };
        self.failed.remove(&run.pod.uid);
        cx.probe.count(Count::of(&MOVE_PLANS, &["completed"]));
    }

    /// Ends the plan, and releases what is held for it.
    fn end(&mut self, world: &mut World, cx: &mut Context<'_>) -> Option<Run> {
        let run = self.run.take()?;
        run.release(world, cx);
        self.next_look = cx.now + LOOK_EVERY;
        Some(run)
    }

    /// Gives up the plan.
    fn stop(&mut self, stopped: &Stopped, world: &mut World, cx: &mut Context<'_>) {
        let Some(run) = self.end(world, cx) else { return };
        let found_none = stopped.outcome == "not_found";
        if found_none {
            self.next_look = cx.now + LOOK_AGAIN;
        }
        cx.probe.count(Count::of(&MOVE_PLANS, &[stopped.outcome]));
        if !world.is_pending(&run.pod) {
            return;
        }
        if run.has_begun {
            let note = format!("no more pods are moved for it: {}", stopped.reason);
            let event = PodEvent::warning("MakeRoomStopped", "Moving", &note);
            cx.effects.record(&run.pod, &run.pod.spec.scheduler_name, event);
        }
        let number = self.failed.get(&run.pod.uid).map_or(0, |failed| failed.number) + 1;
        let backoff = BACKOFF.saturating_mul(1 << number.min(16)) / 2;
        let failed = Failed {
            pod: run.pod.clone(),
            found_none,
            number,
            until: cx.now + backoff.min(LONGEST_BACKOFF),
            reason: stopped.reason.clone(),
        };
        self.failed.insert(run.pod.uid.clone(), failed);
    }

    /// Returns what is done to make room for a pod, for people.
    pub(crate) fn describe(&self, pod: &Pod, world: &World) -> Option<String> {
        if let Some(run) = self.run.as_ref().filter(|run| run.pod.uid == pod.uid) {
            return Some(run.describe());
        }
        let Failed { until, reason, .. } = self.failed.get(&pod.uid)?;
        let until = world.wall_offset().wall_time(*until).floor_to_second();
        Some(format!("no pods are moved for it: {reason}; tried again after {until}"))
    }
}

/// Counts a step of a move.
fn count_move(step: &'static str, cx: &mut Context<'_>) {
    cx.probe.count(Count::of(&POD_MOVES, &[step]));
}
