//! Whether the rest of a plan can still be carried out.

use std::sync::Arc;

use framework::{NodeBits, NodeIx, Pod, PodKey};

use super::run::{Move, Run, Stopped};
use crate::context::Context;
use crate::decide::{Decider, Trial};
use crate::engine::supposition::{Supposition, successor_of, suppose};
use crate::preemption::Preemptions;
use crate::world::World;

/// What is next in a plan that can be carried out.
pub(super) enum Verified {
    /// The pod fits on its node now.
    Fits,
    /// This pod moves.
    Next(Arc<Pod>),
}

/// A move that is tried.
struct Trying<'r> {
    step: &'r Move,
    pod: Arc<Pod>,
    /// The pod as its controller makes it again.
    successor: Arc<Pod>,
    to: NodeIx,
}

/// Tries the rest of the plan in a savepoint: each pod fits where it goes, in order, and then the
/// pod fits for which they move.
pub(super) fn verify(
    run: &Run,
    decider: &mut Decider,
    preemptions: &Preemptions,
    world: &mut World,
    cx: &mut Context<'_>,
) -> Result<Verified, Stopped> {
    let steps = run.moves.iter().map(|step| Trying::of(step, run, preemptions, world));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    let node = node_named(&run.node, world)?;
    let Some(pod) = world.pending().get(&run.pod.key).cloned() else {
        return Err(Stopped::outdated("it is gone".to_owned()));
    };
    suppose(world, decider, cx, |supposed| {
        if supposed.suppose(|supposed| fits(&pod, node, supposed)) {
            return Ok(Verified::Fits);
        }
        for Trying { step, successor, to, .. } in &steps {
            supposed.remove(&step.uid);
            if !fits(successor, *to, supposed) {
                let Move { pod, to, .. } = step;
                return Err(Stopped::outdated(format!("pod {pod} does not fit on node {to} now")));
            }
        }
        match (fits(&pod, node, supposed), steps.first()) {
            (true, Some(first)) => Ok(Verified::Next(first.pod.clone())),
            _ => {
                let reason = format!("it would not fit on node {} after the moves", run.node);
                Err(Stopped::outdated(reason))
            }
        }
    })
}

impl<'r> Trying<'r> {
    fn of(
        step: &'r Move,
        run: &Run,
        preemptions: &Preemptions,
        world: &World,
    ) -> Result<Self, Stopped> {
        let Move { pod: key, uid, from, to } = step;
        let stays = |why: &str| Stopped::outdated(format!("pod {key} is not moved: it {why}"));
        let placed = world.placed(uid).filter(|_| world.confirmed_node(uid) == Some(from));
        let pod = placed.ok_or_else(|| stays("is not on its node any more"))?.pod.clone();
        let profile = world.profile_of(&pod).and_then(|profile| profile.move_policy());
        if profile.is_none() {
            return Err(stays("belongs to no profile with the plugin"));
        }
        if let Some(reason) = run.policy.keeps(&pod) {
            return Err(stays(reason));
        }
        if preemptions.is_victim(uid) {
            return Err(stays("is being preempted"));
        }
        // Its place could be taken by one of them, and it would not be clear which pod succeeds it.
        let first = PodKey { namespace: key.namespace.clone(), name: Arc::default() };
        let pending = world.pending().range(first..).map(|(_, own)| own);
        let mut pending = pending.take_while(|own| own.key.namespace == key.namespace);
        if pending.any(|own| own.controller == pod.controller) {
            return Err(stays("has a controller with other pods that wait"));
        }
        let to = node_named(to, world)?;
        Ok(Self { step, successor: Arc::new(successor_of(&pod)), pod, to })
    }
}

fn node_named(name: &str, world: &World) -> Result<NodeIx, Stopped> {
    let node = world.cluster().node_named(name);
    node.ok_or_else(|| Stopped::outdated(format!("node {name} is gone")))
}

/// Whether the pod fits on the node, and if it does, supposes it there.
fn fits(pod: &Arc<Pod>, node: NodeIx, supposed: &mut Supposition<'_, '_, '_>) -> bool {
    let mut within = NodeBits::with_len(supposed.cluster().table_len());
    within.insert(node);
    matches!(supposed.place_within(pod, &within), Some(Trial::Fits { .. }))
}
