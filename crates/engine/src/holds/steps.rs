//! When room becomes free: the order in which the pods of a node are expected to end.

use std::time::Duration;

use framework::{
    Cluster, ControllerKind, Holder, NodeIx, Pod, QueuedEntity, Resources, Time, Uid, run_time,
    stays_with_its_node,
};

use crate::profile::Profile;

/// How long a holder waits for pods to end. Pods that may run for ever count first, then pods that
/// declare no run time, then the last declared end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wait {
    services: u32,
    unknown: u32,
    until: Time,
}

impl Wait {
    /// Returns when it is over, if that is declared.
    pub(super) fn end(self) -> Option<Time> {
        (self.services == 0 && self.unknown == 0).then_some(self.until)
    }
}

/// Pods of a node that end one after the other, and the room that is then free.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) wait: Wait,
    pub(super) node: NodeIx,
    /// The pods that end after the step before.
    pub(super) gone: Vec<Uid>,
    /// How many more members fit than after the step before.
    pub(super) rooms: u32,
}

/// The holder whose room is looked for.
pub(super) struct Claimant<'a> {
    pub(super) holder: Holder,
    pub(super) priority: i32,
    pub(super) may_preempt: bool,
    /// The room that each member takes at most.
    pub(super) request: &'a Resources,
    /// The wall time.
    pub(super) now: Time,
}

/// The end of a pod, in the order in which pods are expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It is terminating, or the holder may evict it.
    Now,
    At(Time),
    /// It declares no run time, or has run for longer. The oldest first.
    Unknown(Option<Time>),
    /// It belongs to a controller that replaces it.
    Service(Option<Time>),
}

impl Claimant<'_> {
    /// Returns the steps in which room becomes free on a node, the first first.
    pub(super) fn steps(&self, node: NodeIx, cluster: &Cluster) -> Vec<Step> {
        let view = cluster.node(node);
        let mut pods: Vec<_> = view
            .pods()
            .filter(|pod| !self.holder.includes(pod) && !stays_with_its_node(pod))
            .map(|pod| (self.end(pod), pod))
            .collect();
        pods.sort_by(|(end, pod), (other_end, other)| {
            (end, &pod.uid).cmp(&(other_end, &other.uid))
        });
        let (allocatable, used) = (view.allocatable(), view.requested());
        let mut freed = Resources::default();
        let mut free_pods = view.allowed_pods() - view.pod_count();
        let mut rooms = 0;
        let mut wait = Wait { services: 0, unknown: 0, until: self.now };
        let (mut steps, mut gone) = (Vec::new(), Vec::new());
        let mut pods = pods.into_iter();
        loop {
            let room = Room { allocatable: &allocatable, used: &used, freed: &freed, free_pods };
            let fit = room.holds(self.request);
            if fit > rooms {
                let gone = std::mem::take(&mut gone);
                steps.push(Step { wait, node, gone, rooms: fit - rooms });
                rooms = fit;
            }
            let Some((end, pod)) = pods.next() else { return steps };
            match end {
                End::Now => {}
                End::At(end) => wait.until = end,
                End::Unknown(_) => wait.unknown += 1,
                End::Service(_) => wait.services += 1,
            }
            gone.push(pod.uid.clone());
            freed.add(&pod.requests.placed);
            free_pods += 1;
        }
    }

    fn end(&self, pod: &Pod) -> End {
        if pod.terminating || (self.may_preempt && pod.priority() < self.priority) {
            return End::Now;
        }
        let started = pod.start_time.get();
        let declared =
            run_time(pod).map(|run_time: Duration| started.unwrap_or(self.now) + run_time);
        let kind = pod.controller.as_ref().map(|own| own.kind);
        match declared.filter(|end| *end >= self.now) {
            Some(end) => End::At(end),
            None if kind.is_some_and(ControllerKind::has_selector) => End::Service(started),
            None => End::Unknown(started),
        }
    }
}

/// Returns the holder of room for an entity.
pub(super) fn holder_of(entity: &QueuedEntity) -> Holder {
    match entity {
        QueuedEntity::Pod(queued) => Holder::Pod(queued.pod.key.clone(), queued.pod.uid.clone()),
        QueuedEntity::Group(group) => Holder::Group(group.key.clone()),
    }
}

/// Whether the pods of an entity may evict pods of lower priority, whichever quotas they have.
pub(super) fn may_preempt(entity: &QueuedEntity, profile: &Profile) -> bool {
    let evicts = match entity {
        QueuedEntity::Pod(_) => !profile.post_filter.is_empty(),
        QueuedEntity::Group(_) => !profile.pod_group_post_filter.is_empty(),
    };
    let replaced = profile.plugins.values().any(|plugin| plugin.replaces_preemption);
    evicts && !replaced && entity.pods().iter().all(|queued| queued.pod.spec.may_preempt)
}

/// What is free on a node.
struct Room<'a> {
    allocatable: &'a Resources,
    used: &'a Resources,
    /// What pods leave that end.
    freed: &'a Resources,
    free_pods: i64,
}

impl Room<'_> {
    /// Returns how many pods with these requests fit.
    fn holds(&self, request: &Resources) -> u32 {
        let free =
            |of: &dyn Fn(&Resources) -> i64| of(self.allocatable) - of(self.used) + of(self.freed);
        let amount = |of: fn(&Resources) -> i64| most(free(&of), of(request));
        let amounts = [
            amount(|own| own.milli_cpu),
            amount(|own| own.memory),
            amount(|own| own.ephemeral_storage),
            self.free_pods,
        ];
        let scalars =
            request.scalars.iter().map(|(name, asked)| most(free(&|own| own.scalar(name)), *asked));
        let fit = amounts.into_iter().chain(scalars).min();
        u32::try_from(fit.unwrap_or_default().max(0)).unwrap_or(u32::MAX)
    }
}

fn most(free: i64, asked: i64) -> i64 {
    if asked > 0 { free / asked } else { i64::MAX }
}
