//! Members of PodGroups between the decision about their group and their binds.

use framework::{Pod, PodGroupKey, Status, Uid};

use super::{Assumed, Attempts};
use crate::attempt::Outcome;
use crate::binding::{Quorum, Released, Transition};
use crate::context::Context;
use crate::failure::Failure;
use crate::pod_group::{UNSCHEDULABLE, condition, scheduled};
use crate::world::World;

/// A member that goes back because another member of its group has failed.
const OTHER_FAILED: &str =
    "pod group is unschedulable, another member failed before enough members could be bound";

impl Attempts {
    /// Runs Permit for the members that a decision has placed, and starts their binding cycles.
    /// They are bound once so many have passed PreBind as the group needs; if too few are left, all
    /// go back.
    pub(crate) fn bind_group(
        &mut self,
        group: &PodGroupKey,
        members: Vec<Assumed>,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Vec<Outcome> {
        let min_count = world.min_count(group).unwrap_or(1);
        let pods = members.iter().map(|member| member.pod.uid.clone());
        self.binding.gangs_mut().expect(group, min_count, pods);
        let mut outcomes = Vec::with_capacity(members.len());
        for mut member in members {
            let outcome = if self.binding.gangs_mut().expects(group, &member.pod.uid) {
                let permitted = member.placement(world).permit_reserved(cx);
                self.bind_assumed(member, permitted, world, cx)
            } else {
                member.give_back(world, cx);
                let failure = of_other_member();
                failure.handle(member.decided.queued, &member.decided.profile, world, cx)
            };
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Requests the binds of the members that have passed PreBind, if they are enough.
    pub(crate) fn release_group(
        &mut self,
        group: &PodGroupKey,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let Released { pods, is_first } =
            self.binding.gangs_mut().release(group, quorum(group, world));
        if is_first && !self.group_reports.says_scheduled(group, world) {
            self.report_scheduled(group, world, cx);
        }
        for pod in pods {
            let transition = self.binding.bind_member(&pod, world, cx);
            self.apply(transition, world, cx);
        }
    }

    /// Handles a change of a PodGroup.
    pub(crate) fn group_changed(
        &mut self,
        group: &PodGroupKey,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        self.group_reports.group_changed(group, world);
        self.group_reports.see(group, world);
        self.release_group(group, world, cx);
    }

    /// Writes the reports about groups that are due.
    pub(crate) fn report_groups(&mut self, world: &World, cx: &mut Context<'_>) {
        self.group_reports.write_due(world, cx);
        for group in self.group_reports.take_scheduled(world) {
            self.report_scheduled(&group, world, cx);
        }
    }

    /// Reports that enough members of a group have a node.
    fn report_scheduled(&mut self, group: &PodGroupKey, world: &World, cx: &mut Context<'_>) {
        let Some(reporter) = world.scheduler_of_placed(group) else { return };
        self.group_reports.report(group, scheduled(""), &reporter, world, cx);
    }

    /// Handles that a member has failed before its bind, or that its bind has failed. If the
    /// members that are left are too few, they go back.
    pub(super) fn member_failed(
        &mut self,
        group: &PodGroupKey,
        pod: &Pod,
        status: &Status,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let gangs = self.binding.gangs_mut();
        gangs.leave(group, &pod.uid);
        let others = gangs.dissolve(group, quorum(group, world));
        if others.is_empty() {
            return self.release_group(group, world, cx);
        }
        let text = format!("{UNSCHEDULABLE}, pod {} failed: {}", pod.key, status.message());
        let condition = condition(false, "Unschedulable", &text);
        self.group_reports.report(group, condition, &pod.spec.scheduler_name, world, cx);
        for other in others {
            self.give_member_back(&other, world, cx);
        }
    }

    /// Cancels the binding cycle of a member that is deleted. Returns whether it had one that could
    /// be cancelled.
    pub(crate) fn cancel_member(
        &mut self,
        pod: &Uid,
        status: Status,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> bool {
        if self.binding.group_before_bind(pod).is_none() {
            return false;
        }
        let transition = self.binding.cancel(pod, status);
        self.apply(transition, world, cx);
        true
    }

    /// Ends the binding cycle of a member because its group has become too small. A member whose
    /// cycle has not begun is left to [`bind_group`](Self::bind_group).
    fn give_member_back(&mut self, pod: &Uid, world: &mut World, cx: &mut Context<'_>) {
        let status = Status::unschedulable(OTHER_FAILED);
        if self.reject_waiting(pod, status.clone(), world, cx) {
            return;
        }
        if let Transition::Failed(cycle, status) = self.binding.cancel(pod, status) {
            self.failed(*cycle, &status, of_other_member(), world, cx);
        }
    }
}

fn of_other_member() -> Failure {
    Failure::of_group(&Status::unschedulable(OTHER_FAILED), Default::default())
}

fn quorum(group: &PodGroupKey, world: &World) -> Quorum {
    let scheduled = world.scheduled_members(group);
    Quorum { scheduled, min_count: world.min_count(group) }
}
