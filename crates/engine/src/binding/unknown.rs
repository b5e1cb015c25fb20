//! Binds of unknown outcome.
//!
//! The answer to such a bind was lost, so that the request may still reach the storage. The pod
//! keeps its room until the outcome is known:
//!
//! 1. The pod is read. If it is bound, all is well.
//! 2. A condition is patched into the pod as it was read (the *fence*). The bind names the
//!    resourceVersion of the pod, and the patch changes it. So either the bind has come first, and
//!    the patch is refused, or it can no longer be carried out.
//! 3. The pod is bound to the same node again, up to [`MAX_BINDS`] times, while the node still
//!    takes it.
//! 4. Otherwise the attempt fails, which releases the room.
//!
//! While the API server answers neither the read nor the patch, both are repeated, with pauses that
//! grow up to 30 seconds. If it forbids the read, the pod is fenced in the version that the watch
//! has shown.
//!
//! A bind by an extender cannot be fenced, because the extender sends the request. A fence may also
//! be refused, for example by a webhook on `pods/status`. The pod is then bound to the same node
//! again, which does no harm if the first bind arrives as well. If that fails, too, the pod keeps
//! its room until a fence is carried out, or the requests can no longer be under way.

use std::sync::Arc;

use framework::{Answer, ScheduledCondition};

use super::BindingCycles;
use super::cycle::{BindingCycle, IfUnbound, Next, Phase, Shown, UnboundPod};
use super::unknown_bind::UnknownBind;
use crate::context::{Context, PodEvent};
use crate::cycle::Placement;
use crate::effect::EffectKind;
use crate::world::World;

/// Maximum number of binds of one cycle with unknown outcome. The pauses before them add up to two
/// seconds, the time that etcd needs to elect a leader. After that another node, or a later
/// attempt, may do better.
const MAX_BINDS: u32 = 5;

impl BindingCycles {
    /// Goes on after a bind of unknown outcome, with a pod that was read unbound.
    pub(super) fn resolve(
        &mut self,
        cycle: &mut BindingCycle,
        bind: UnknownBind,
        pod: UnboundPod,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        if bind.fenced && pod.resource_version != 0 {
            return self.fence(cycle, bind, pod, cx);
        }
        let is_current = cycle.is_of_spec(pod.generation);
        if !is_current && !cycle.unstoppable {
            // Every bind named a version with the old specification, and is refused now.
            return Next::Outdated;
        }
        let next = match is_current {
            true => next_try(cycle, world, cx),
            false => Err("its specification has changed".to_owned()),
        };
        if next.is_ok() {
            cycle.read_version = pod.resource_version;
            return self.bind(cycle, bind.extender, true, world, cx);
        }
        match (next, bind.may_arrive(cx.now)) {
            (Err(reason), false) => give_up(cycle, &reason, &bind.error),
            // The cause of the refusal may be over, for example a webhook that was down.
            _ if !cycle.unstoppable && pod.resource_version != 0 => {
                self.fence(cycle, bind, pod, cx)
            }
            _ => self.read_pod(cycle, IfUnbound::Resolve(bind), cx),
        }
    }

    /// Fences the pod in the version that the watch has shown, because the API server forbids the
    /// read.
    pub(super) fn fence_unread(
        &mut self,
        cycle: &mut BindingCycle,
        bind: UnknownBind,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        let known = world.pending().get(&cycle.pod.key).filter(|pod| pod.uid == cycle.pod.uid);
        match known {
            Some(known) if bind.fenced && known.resource_version != 0 => {
                let resource_version = known.resource_version.max(cycle.read_version);
                let pod = UnboundPod { generation: known.generation, resource_version };
                self.fence(cycle, bind, pod, cx)
            }
            _ => self.read_pod(cycle, IfUnbound::Resolve(bind), cx),
        }
    }

    /// Writes the condition that stops the bind and tells the user about it.
    fn fence(
        &mut self,
        cycle: &mut BindingCycle,
        bind: UnknownBind,
        pod: UnboundPod,
        cx: &mut Context<'_>,
    ) -> Next {
        let (node, tries) = (&cycle.node, cycle.unknown_binds);
        let message = format!(
            "the outcome of binding the pod to node {node:?} is unknown (try {tries} of {MAX_BINDS}): {}",
            bind.error
        );
        if !cycle.reported_unknown {
            cycle.reported_unknown = true;
            let event = PodEvent::warning("FailedScheduling", "Binding", &message);
            cx.effects.record(&cycle.pod, &cycle.profile.scheduler_name, event);
        }
        let condition = ScheduledCondition {
            status: false,
            reason: "SchedulerError".into(),
            message: message.into(),
        };
        cycle.queued.written_condition = Some(Arc::new(condition.clone()));
        let effect = EffectKind::Fence {
            pod: cycle.pod.key.clone(),
            uid: cycle.pod.uid.clone(),
            observed_generation: cycle.pod.generation.into(),
            resource_version: pod.resource_version,
            condition,
        };
        let effect = self.emit(cycle, effect, cx);
        cycle.read_version = pod.resource_version;
        cycle.phase = Phase::Fence { effect, bind };
        Next::Wait
    }

    /// Handles the pod as read after the fence. A version that has changed is the proof: no earlier
    /// bind can be carried out any more.
    pub(super) fn fence_answered(
        &mut self,
        cycle: &mut BindingCycle,
        bind: UnknownBind,
        answer: &Answer,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        let pod = match cycle.unbound_pod(answer) {
            Shown::Ends(next) => return next,
            Shown::Unbound(pod) if pod.resource_version != cycle.read_version => pod,
            _ if matches!(answer, Answer::Error(_) | Answer::Forbidden(_)) => {
                let bind = UnknownBind { fenced: false, ..bind };
                return self.read_pod(cycle, IfUnbound::Resolve(bind), cx);
            }
            _ => return self.read_pod(cycle, IfUnbound::Resolve(bind), cx),
        };
        if !cycle.is_of_spec(pod.generation) {
            return Next::Outdated;
        }
        match next_try(cycle, world, cx) {
            Ok(()) => {
                cycle.read_version = pod.resource_version;
                self.bind(cycle, bind.extender, false, world, cx)
            }
            Err(reason) => give_up(cycle, &reason, &bind.error),
        }
    }
}

/// Checks whether the pod may be bound to its node once more.
///
/// # Errors
/// The reason against it.
fn next_try(cycle: &mut BindingCycle, world: &World, cx: &mut Context<'_>) -> Result<(), String> {
    if cycle.unknown_binds >= MAX_BINDS {
        return Err(format!("{MAX_BINDS} tries"));
    }
    let (profile, pod, node) = (&cycle.profile, &cycle.pod, &cycle.node);
    let placement = Placement { world, profile, pod, node, state: &mut cycle.state };
    placement.still_passes(cx)
}

fn give_up(cycle: &BindingCycle, reason: &str, error: &str) -> Next {
    let node = &cycle.node;
    Next::Failed(cycle.bind_error(&format!(
        "gave up binding the pod to node {node:?} ({reason}): the outcome was unknown: {error}"
    )))
}
