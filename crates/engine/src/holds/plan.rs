//! The nodes on which a waiting entity can start first.

use std::sync::Arc;

use framework::{
    Code, NodeBits, NodeIx, Pod, QueuedEntity, QueuedGroup, QueuedPod, Resources, Time, Uid,
};

use super::steps::{Claimant, Step, Wait, holder_of, may_preempt};
use crate::context::Context;
use crate::cycle::{FitError, Question};
use crate::decide::{Decider, Found};
use crate::pod_group::{MemberDecision, Orders, PodGroupQuestion, bounded_placements, find};
use crate::profile::Profile;
use crate::world::World;
use crate::world::tentative::{Ending, Tentative};

/// Maximum number of places that are tried for one entity.
const MAX_TRIALS: usize = 8;

/// When an entity can start.
#[derive(Debug)]
pub(super) enum Outlook {
    /// At once.
    Startable,
    /// When pods on some nodes have ended.
    Later(Plan),
    /// Never, as far as is known.
    Hopeless,
}

/// Nodes on which an entity can start when pods there have ended.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: NodeBits,
    /// The wall time at which they have, if they declare run times.
    pub(super) start: Option<Time>,
}

/// Plans for one entity.
pub(super) struct Planner<'a, 'c> {
    pub(super) entity: &'a QueuedEntity,
    pub(super) profile: &'a Arc<Profile>,
    pub(super) decider: &'a mut Decider,
    pub(super) world: &'a mut World,
    pub(super) cx: &'a mut Context<'c>,
}

/// A set of nodes on which the entity may start, with the pods that have to end first.
struct Prospect {
    wait: Wait,
    steps: Vec<Step>,
}

/// The answer of a trial: the nodes of the pods, or why one does not fit, if that is known.
type Tried = Result<Vec<NodeIx>, Option<Box<FitError>>>;

impl Planner<'_, '_> {
    /// Plans on all nodes.
    pub(super) fn plan(mut self) -> Outlook {
        let fit = match self.attempt(&[], None) {
            Ok(_) => return Outlook::Startable,
            Err(fit) => fit,
        };
        let domains = match &fit {
            Some(fit) if !fit.diagnosis.pre_filter.is_success() => return Outlook::Hopeless,
            _ => self.domains(fit.as_deref()),
        };
        self.first_of(domains)
    }

    /// Plans on these nodes.
    pub(super) fn plan_on(mut self, nodes: &NodeBits) -> Outlook {
        let cluster = self.world.cluster();
        if nodes.iter().any(|node| !cluster.nodes().contains(node)) {
            return Outlook::Hopeless;
        }
        if self.attempt(&[], None).is_ok() {
            return Outlook::Startable;
        }
        let outlook = self.first_of(vec![nodes.iter().collect()]);
        match outlook {
            Outlook::Later(plan) => Outlook::Later(Plan { nodes: nodes.clone(), ..plan }),
            other => other,
        }
    }

    /// Returns sets of nodes, in each of which the entity may start: single nodes for a pod.
    fn domains(&mut self, fit: Option<&FitError>) -> Vec<Vec<NodeIx>> {
        let Self { entity, profile, decider, world, cx } = self;
        let cluster = world.cluster();
        let mut open = cluster.nodes().clone();
        if let Some(fit) = fit {
            open = fit.diagnosis.verdicts.unschedulable(&open);
        }
        cluster.holds().iter().for_each(|hold| open.subtract(&hold.nodes));
        let members: Vec<Arc<Pod>> = entity.pods().iter().map(|own| own.pod.clone()).collect();
        let QueuedEntity::Group(group) = entity else {
            return open.iter().map(|node| vec![node]).collect();
        };
        open.subtract(cluster.unschedulable());
        match bounded_placements(&group.key, profile, &members, decider, world, cx) {
            Ok(Some(list)) => {
                let nodes = list.iter().map(|own| own.placement.nodes.iter().copied());
                nodes.map(|nodes| nodes.filter(|node| open.contains(*node)).collect()).collect()
            }
            Ok(None) => vec![open.iter().collect()],
            Err(_) => Vec::new(),
        }
    }

    /// Returns the plan for the domain in which the entity can start first.
    fn first_of(&mut self, domains: Vec<Vec<NodeIx>>) -> Outlook {
        let request = largest(self.entity.pods());
        let claimant = Claimant {
            holder: holder_of(self.entity),
            priority: self.entity.priority(),
            may_preempt: may_preempt(self.entity, self.profile),
            request: &request,
            now: self.world.wall_offset().wall_time(self.cx.now),
        };
        let (needed, cluster) = (self.needed(), self.world.cluster());
        let mut prospects: Vec<Prospect> = domains
            .iter()
            .filter_map(|nodes| {
                let steps = nodes.iter().flat_map(|node| claimant.steps(*node, cluster));
                Prospect::of(steps.collect(), needed)
            })
            .collect();
        prospects.sort_by_key(|own| (own.wait, own.steps.len()));
        for prospect in prospects.into_iter().take(MAX_TRIALS) {
            let Prospect { steps, .. } = &prospect;
            let off: Vec<Uid> = steps.iter().flat_map(|step| &step.gone).cloned().collect();
            let within = match self.entity {
                QueuedEntity::Pod(_) => Some(steps.iter().map(|step| step.node).collect()),
                QueuedEntity::Group(_) => None,
            };
            if let Ok(nodes) = self.attempt(&off, within.as_ref()) {
                let nodes: NodeBits = nodes.into_iter().collect();
                let used = steps.iter().filter(|step| nodes.contains(step.node));
                let wait = used.map(|step| step.wait).max();
                let start = wait.map_or(Some(claimant.now), Wait::end);
                return Outlook::Later(Plan { nodes, start });
            }
        }
        Outlook::Hopeless
    }

    /// Number of pods that start together.
    fn needed(&self) -> usize {
        match self.entity {
            QueuedEntity::Pod(_) => 1,
            QueuedEntity::Group(group) => {
                let needed = self.world.min_count(&group.key).unwrap_or(1);
                let missing = needed.saturating_sub(self.world.scheduled_members(&group.key));
                (missing.max(1) as usize).min(group.members().len())
            }
        }
    }

    /// Decides about the entity as if these pods were gone. Leaves everything as before.
    fn attempt(&mut self, off: &[Uid], within: Option<&NodeBits>) -> Tried {
        let needed = self.needed();
        let Self { entity, profile, decider, world, cx } = self;
        if decider.samples(profile) {
            world.refresh_node_order();
        }
        let course = decider.course();
        let ended = world.tentatively(cx, |world, cx| {
            off.iter().for_each(|pod| {
                world.remove(pod);
            });
            Ending::Undo(match entity {
                QueuedEntity::Pod(queued) => {
                    decide_pod(queued, profile, within, decider, world, cx)
                }
                QueuedEntity::Group(group) => {
                    let nodes = decide_group(group, profile, decider, world, cx);
                    nodes.map(|nodes| nodes.into_iter().take(needed).collect())
                }
            })
        });
        decider.resume(course);
        ended.value
    }
}

impl Prospect {
    /// Returns the first steps after which so many members fit.
    fn of(mut steps: Vec<Step>, needed: usize) -> Option<Self> {
        steps.sort_by_key(|step| (step.wait, step.node));
        let mut rooms = 0;
        let enough = steps.iter().position(|step| {
            rooms += step.rooms as usize;
            rooms >= needed
        });
        steps.truncate(enough? + 1);
        Some(Self { wait: steps.last()?.wait, steps })
    }
}

fn decide_pod(
    queued: &QueuedPod,
    profile: &Profile,
    within: Option<&NodeBits>,
    decider: &mut Decider,
    world: &mut Tentative<'_>,
    cx: &mut Context<'_>,
) -> Tried {
    let pod = &queued.pod;
    world.register_queries(pod, profile, cx);
    let question = Question { world, profile, pod, within, as_member: true };
    match decider.decide(question, world.log(), cx).found {
        Found::Node(chosen) => Ok(vec![chosen.node]),
        Found::Unfit(unfit) => Err(Some(unfit.fit)),
        Found::Failed(_) => Err(None),
    }
}

fn decide_group(
    group: &QueuedGroup,
    profile: &Arc<Profile>,
    decider: &mut Decider,
    world: &mut Tentative<'_>,
    cx: &mut Context<'_>,
) -> Tried {
    let (members, orders) = (group.members(), Orders::OfQueue);
    let question = PodGroupQuestion { group: &group.key, profile, members, orders };
    let found = find(question, decider, world, cx);
    let is_rejected_early = |fit: &FitError| !fit.diagnosis.pre_filter.is_success();
    match found.status.code() {
        Code::Success => {
            let nodes = found.members.iter().filter_map(|member| match member {
                MemberDecision::Fits(choice) => world.cluster().node_named(&choice.node),
                _ => None,
            });
            Ok(nodes.collect())
        }
        _ => Err(found.members.into_iter().find_map(|member| match member {
            MemberDecision::Unfit(fit) if is_rejected_early(&fit) => Some(fit),
            _ => None,
        })),
    }
}

/// Returns the largest request of the pods for each resource.
fn largest(pods: &[QueuedPod]) -> Resources {
    let mut largest = Resources::default();
    for request in pods.iter().map(|own| &own.pod.requests.fit) {
        largest.milli_cpu = largest.milli_cpu.max(request.milli_cpu);
        largest.memory = largest.memory.max(request.memory);
        largest.ephemeral_storage = largest.ephemeral_storage.max(request.ephemeral_storage);
        let mut missing = Resources::default();
        let scalars = request
            .scalars
            .iter()
            .map(|(name, amount)| (name.clone(), amount - largest.scalar(name).min(*amount)));
        missing.scalars = scalars.collect();
        largest.add(&missing);
    }
    largest
}
