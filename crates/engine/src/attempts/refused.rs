//! Members of PodGroups whose bind was refused.
//!
//! A refused member keeps its room and is decided again in the same step, so that no other pod
//! takes the room or the rack of the group. The room is given back if the bind is refused again and
//! again, or if the member fits nowhere any more.

use std::sync::Arc;

use framework::{Pod, PodGroupKey, QueuedPod, Status};

use super::{Assumed, Attempts, failed};
use crate::binding::BindingCycle;
use crate::context::{Context, PodEvent};
use crate::failure::Failure;
use crate::pod_group::{MemberDecision, condition};
use crate::ports::Count;
use crate::profile::Profile;
use crate::record::Head;
use crate::world::World;

/// Number of binds of a member that may be refused one after the other before its room is given
/// back. A refusal by a webhook that is over soon, or that concerns one node, needs one or two.
const MAX_REFUSED_BINDS: u32 = 3;

/// A member whose bind was refused, and why. It has its room.
#[derive(Debug)]
pub(super) struct Refused {
    cycle: Box<BindingCycle>,
    status: Status,
}

/// A member whose bind was refused, without its room.
pub(crate) struct Withdrawn {
    pub(crate) group: PodGroupKey,
    pub(crate) profile: Arc<Profile>,
    pub(crate) queued: QueuedPod,
    /// The member as it was assumed.
    pub(crate) assumed: Arc<Pod>,
}

impl Attempts {
    /// Handles that the bind of a member was refused. The member is placed again if it has not been
    /// refused too often, and goes back to the queue otherwise.
    pub(super) fn refused(
        &mut self,
        cycle: Box<BindingCycle>,
        status: Status,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let known = world.pending().get(&cycle.pod.key);
        let is_there = known.is_some_and(|known| known.uid == cycle.pod.uid && !known.terminating);
        match is_there && cycle.queued.history.consecutive_errors + 1 < MAX_REFUSED_BINDS {
            true => self.refused.push_back(Refused { cycle, status }),
            false => {
                let (group, pod) = (cycle.group.clone(), cycle.pod.clone());
                let profile = cycle.profile.clone();
                self.failed(*cycle, &status, Failure::error(&status), world, cx);
                if let Some(group) = group.filter(|_| is_there) {
                    let lost = Lost { group: &group, pod: &pod, profile: &profile };
                    self.report_loss(lost, &status, world, cx);
                }
            }
        }
    }

    /// Releases the room of the next member whose bind was refused, so that the member can be
    /// decided again at once. The refusal counts as a failed attempt.
    pub(crate) fn withdraw_refused(
        &mut self,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Option<Withdrawn> {
        let Refused { mut cycle, status } = self.refused.pop_front()?;
        Self::undo(&mut cycle, world, cx);
        let profile = cycle.profile.clone();
        let (result, name) = ("error", &profile.scheduler_name);
        cx.probe.count(Count::BindingFailed {
            result,
            profile: name,
            took: cx.now.since(cycle.since),
        });
        cx.probe.count(Count::Attempt { result, profile: name });
        let head = Head::of(&cycle.queued, world.log().state(), cx.now);
        let text = format!("on node {}: {}", cycle.node, status.message());
        self.records.push(head.found(failed(&text)), true);
        let note = status.message();
        let event = PodEvent::warning("FailedScheduling", "Binding", &note);
        cx.effects.record(&cycle.pod, name, event);
        let BindingCycle { mut queued, pod: assumed, group, nominated, .. } = *cycle;
        if let Some(node) = nominated {
            world.nomination_written(&queued.pod, node, None);
        }
        if let Some(known) = world.pending().get(&queued.pod.key) {
            queued.set_pod(known.clone());
        }
        queued.history.consecutive_errors += 1;
        queued.history.attempts += 1;
        Some(Withdrawn { group: group?, profile, queued, assumed })
    }

    /// Starts the binding cycle of a member that was placed again.
    pub(crate) fn bind_again(
        &mut self,
        group: &PodGroupKey,
        assumed: Assumed,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        self.binding.gangs_mut().rejoin(group);
        self.bind_group(group, vec![assumed], world, cx);
    }

    /// Puts a member back into the queue that has no place any more, and gives its room back.
    pub(crate) fn give_up(
        &mut self,
        member: Withdrawn,
        decision: Option<MemberDecision>,
        status: &Status,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let Withdrawn { group, profile, queued, assumed } = member;
        let failure = match decision {
            Some(MemberDecision::Unfit(fit)) => Failure::fit(&fit, Failure::clear_nomination()),
            _ => Failure::of_group(status, status.plugin().cloned().into_iter().collect()),
        };
        failure.handle(queued, &profile, world, cx);
        world.move_others(assumed.clone(), cx);
        self.member_failed(&group, &assumed, status, world, cx);
        let lost = Lost { group: &group, pod: &assumed, profile: &profile };
        self.report_loss(lost, status, world, cx);
    }

    /// Says on the PodGroup that the room of a member was given back and too few pods have a node.
    /// The condition stays true, because binds of the group were requested.
    fn report_loss(
        &mut self,
        lost: Lost<'_>,
        status: &Status,
        world: &World,
        cx: &mut Context<'_>,
    ) {
        let Lost { group, pod, profile } = lost;
        let text = format!("the room of pod {} was given back: {}", pod.key, status.message());
        let condition = condition(false, "Unschedulable", &text);
        self.group_reports.report(group, condition, &profile.scheduler_name, world, cx);
    }
}

/// A member whose room was given back.
struct Lost<'a> {
    group: &'a PodGroupKey,
    pod: &'a Pod,
    profile: &'a Profile,
}
