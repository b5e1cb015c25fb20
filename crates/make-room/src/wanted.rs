//! The moves that an engine wants to make.

use std::collections::BTreeSet;

use engine::{Engine, MovesWanted, PlannedMove, PlannedMoves};
use framework::{Answer, MovePolicy, Pod, Time};

use crate::search::{Limits, Question, make_room};
use crate::{Answer as Found, Cost, Movable, Move};

/// Looks for the moves that an engine wants, in another engine that knows the same cluster. Returns
/// the answer to [`EffectKind::PlanMoves`](engine::EffectKind::PlanMoves).
///
/// Only pods of profiles that make room may be moved, by the policy of the profile of the pod that
/// waits, and only if no other pod of their controllers waits.
pub fn find_moves(engine: &mut Engine, wanted: &MovesWanted, now: Time) -> Answer {
    let known = engine.pending_pod(&wanted.pod).filter(|pod| pod.uid == wanted.uid).cloned();
    let Some(pod) = known else { return Answer::Gone("the pod does not wait any more".into()) };
    let Some(policy) = policy_of(&pod, engine) else {
        return Answer::Error("its profile does not make room".to_owned());
    };
    let movable = movable(&policy, engine, now);
    let limits = Limits { moves: wanted.most, ..Limits::default() };
    match make_room(engine, &Question { pod: &pod, movable: &movable, limits }, now) {
        Found::Fits(node) => PlannedMoves { node, moves: Vec::new() }.answer(),
        Found::Plan(plan) => {
            let moves = plan.moves.into_iter().map(planned).collect();
            PlannedMoves { node: plan.node, moves }.answer()
        }
        Found::NoPlan { is_certain: true } => {
            Answer::Error(format!("no {} moves of other pods make room", limits.moves))
        }
        Found::NoPlan { is_certain: false } => {
            Answer::Error("no moves that make room were found in time".to_owned())
        }
        Found::Undecided(reason) => Answer::Error(reason),
    }
}

fn policy_of(pod: &Pod, engine: &Engine) -> Option<MovePolicy> {
    engine.profiles().get(&pod.spec.scheduler_name)?.move_policy()
}

fn movable(policy: &MovePolicy, engine: &Engine, now: Time) -> Vec<Movable> {
    let world = engine.world();
    let now = world.wall_offset().wall_time(now);
    // By namespace and name, whatever the kind is.
    let controller_of =
        |pod: &Pod| Some((pod.key.namespace.clone(), pod.controller.as_ref()?.name.clone()));
    let waiting: BTreeSet<_> =
        world.pending().values().filter_map(|pod| controller_of(pod)).collect();
    let may_move = |pod: &Pod| {
        policy_of(pod, engine).is_some()
            && policy.keeps(pod).is_none()
            && !world.is_assumed(&pod.uid)
            && controller_of(pod).is_some_and(|own| !waiting.contains(&own))
    };
    let pods = world.cluster().pods().filter(|placed| may_move(&placed.pod));
    let movable = pods.map(|placed| {
        let age = placed.pod.start_time.get().map(|start| now.since(start)).unwrap_or_default();
        Movable { cost: Cost::of_move(&placed.pod, age), pod: placed.pod.clone() }
    });
    movable.collect()
}

fn planned(step: Move) -> PlannedMove {
    PlannedMove {
        namespace: step.pod.namespace,
        name: step.pod.name,
        uid: step.uid.to_string().into(),
        from: step.from,
        to: step.to,
    }
}
