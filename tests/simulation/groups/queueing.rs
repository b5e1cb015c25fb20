//! Groups that wait: none fits whole into what is free, each gated one has a reason, none holds
//! room, and none is tried again and again while nothing changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::queue::Place;
use engine::{Attempt, Engine, Outcome};
use framework::{Pod, PodGroup, PodGroupKey, QueuedEntity, QueuedGroup, Time};

use super::super::churn::{ALONE, APP};
use super::super::decisions;
use super::super::oracle::{Oracle, Related};
use super::super::patience;
use super::super::rules::{Checked, rule};
use super::super::server::SPREADING;

/// Checks that the groups that wait for an event do not fit, at every step. The exemptions are
/// those of single pods.
///
/// # Errors
/// A group fits, and no event has requeued it.
pub(crate) fn parked_groups_fit_nowhere(
    engine: &Engine,
    related: &Related,
    unnominated: Time,
) -> Checked {
    if engine.world().assumed_count() > 0 {
        return Ok(());
    }
    let parked = groups(engine).filter(|(place, group)| {
        *place == Place::Unschedulable && group.history.timestamp > unnominated
    });
    let mut oracle = None;
    for (_, group) in parked {
        if group.history.unschedulable_plugins.contains(patience::NAME) {
            continue;
        }
        let oracle = oracle.get_or_insert_with(|| Oracle::of_engine(engine, related));
        does_not_fit(group, engine, oracle)?;
    }
    Ok(())
}

/// Checks at rest that no group waits that fits whole into what is free, wherever it is queued. So
/// no two groups hold room against each other.
///
/// # Errors
/// A group could be bound.
pub(crate) fn waiting_groups_do_not_fit(oracle: &mut Oracle<'_>, engine: &Engine) -> Checked {
    let waiting = groups(engine).filter(|(place, _)| *place != Place::Gated);
    waiting.into_iter().try_for_each(|(_, group)| match has_pending_answer(group) {
        true => Ok(()),
        false => does_not_fit(group, engine, oracle),
    })
}

/// Checks that a gated group waits for its PodGroup, for pods, for a gate of one of its pods to
/// open, or for the end of victims.
///
/// # Errors
/// A group is gated without a reason.
pub(crate) fn gated_groups_have_a_reason(engine: &Engine) -> Checked {
    for (_, group) in groups(engine).filter(|(place, _)| *place == Place::Gated) {
        let cluster = engine.cluster();
        let exist = cluster.pod_group_state(&group.key).map_or(0, |state| state.all_count());
        let lacks = cluster.pod_group(&group.key).is_none_or(|known| exist < known.min_count());
        let mut members = group.members().iter().map(|member| &member.pod);
        let is_held = members
            .any(|pod| !pod.spec.scheduling_gates.is_empty() || engine.is_preempting(&pod.uid));
        rule(lacks || is_held || are_victims_ending(engine), || {
            let gate = &group.history.gating_plugin;
            format!("the group {} is gated by {gate:?}, and has its {exist} pods", group.key)
        })?;
    }
    Ok(())
}

/// Checks that pods of a group that was rejected are nominated only while victims end.
///
/// # Errors
/// A rejected group holds room.
pub(crate) fn rejected_group_holds_no_room(engine: &Engine, attempt: &Attempt) -> Checked {
    let is_rejected = matches!(attempt.outcome, Outcome::Unschedulable(_) | Outcome::Repeated(_));
    let Some(group) = attempt.pod.pod_group().filter(|_| is_rejected) else { return Ok(()) };
    let members = engine.queue().members_of(&group);
    let holder = members.iter().find(|own| engine.nominator().node_of(&own.pod.uid).is_some());
    rule(holder.is_none() || are_victims_ending(engine), || {
        format!("{group} is rejected, no victim ends, and {holder:?} holds room")
    })
}

/// Whether some pod on a node is ending.
fn are_victims_ending(engine: &Engine) -> bool {
    let mut pods = engine.cluster().pods().map(|placed| &placed.pod);
    pods.any(|pod| pod.terminating || engine.is_evicting(&pod.uid))
}

/// Checks that the members of a group are put on nodes that take them beside each other.
///
/// # Errors
/// A node does not take its member.
pub(crate) fn are_taken(engine: &Engine, related: &Related, placed: &[Attempt]) -> Checked {
    let ordinary = placed.iter().filter(|own| *own.pod.spec.scheduler_name != *SPREADING);
    ordinary.into_iter().try_for_each(|own| decisions::is_taken(engine, related, own))
}

/// The last attempts in vain of each group.
#[derive(Debug, Default)]
pub(crate) struct VainAttempts {
    /// Number of inputs so far.
    inputs: u64,
    /// Number of inputs, and the time, at the last attempt.
    last: BTreeMap<PodGroupKey, (u64, Time)>,
}

/// The shortest pause between attempts that no input explains.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(900);

impl VainAttempts {
    /// Notes an input of the scheduler.
    pub(crate) const fn input(&mut self) {
        self.inputs += 1;
    }

    /// Checks an attempt that has placed so many members: a rejected group is not rejected again
    /// before anything has changed. Members that are left over are tried again at once.
    ///
    /// # Errors
    /// The group is tried in a loop.
    pub(crate) fn include(&mut self, attempt: &Attempt, placed: usize, now: Time) -> Checked {
        let Some(group) = attempt.pod.pod_group() else { return Ok(()) };
        let is_rejected =
            matches!(attempt.outcome, Outcome::Unschedulable(_) | Outcome::Repeated(_));
        let is_vain = is_rejected && placed == 0;
        let last = match is_vain {
            true => self.last.insert(group.clone(), (self.inputs, now)),
            false => {
                self.last.remove(&group);
                None
            }
        };
        let is_new = last
            .is_none_or(|(inputs, at)| inputs != self.inputs || now.since(at) >= SHORTEST_BACKOFF);
        rule(is_new, || format!("{group} is tried again at {now}, and nothing has changed"))
    }
}

fn groups(engine: &Engine) -> impl Iterator<Item = (Place, &QueuedGroup)> {
    engine.queue().entities().filter_map(|(place, entity)| match entity {
        QueuedEntity::Group(group) => Some((place, &**group)),
        QueuedEntity::Pod(_) => None,
    })
}

/// Whether the group waits for an event of a plugin that answered Pending.
fn has_pending_answer(group: &QueuedGroup) -> bool {
    let history = &group.history;
    !history.pending_plugins.is_empty() || history.unschedulable_plugins.contains(patience::NAME)
}

fn does_not_fit(group: &QueuedGroup, engine: &Engine, oracle: &mut Oracle<'_>) -> Checked {
    let Some(known) = engine.cluster().pod_group(&group.key) else { return Ok(()) };
    let pods: Vec<Arc<Pod>> = group.members().iter().map(|own| own.pod.clone()).collect();
    if !is_simple(known, &pods) || pods.iter().any(|pod| is_nominated(pod, engine)) {
        return Ok(());
    }
    let state = engine.cluster().pod_group_state(&group.key);
    let scheduled = state.map_or(0, |state| state.scheduled_count());
    let needed = known.min_count().saturating_sub(scheduled).max(1) as usize;
    let levels = engine.cluster().topology_of_group(&group.key).unwrap_or_default();
    let key = levels.first().map(|level| &level.key);
    let Some(fitting) = fitting(key, &pods, scheduled > 0, oracle) else { return Ok(()) };
    rule(fitting < needed, || {
        let (key, rejectors) = (&group.key, &group.history.unschedulable_plugins);
        format!("{key}, rejected by {rejectors:?}, needs {needed} places, and has {fitting}")
    })
}

/// Returns how many of the pods fit together, in one domain of `key` if there is one; `None` if
/// pods with a node pin the domain.
fn fitting(
    key: Option<&Arc<str>>,
    pods: &[Arc<Pod>],
    has_placed: bool,
    oracle: &mut Oracle<'_>,
) -> Option<usize> {
    let Some(key) = key else { return Some(oracle.room_for(pods, None)) };
    if has_placed {
        return None;
    }
    let domains = oracle.values_of(key);
    Some(domains.iter().map(|value| oracle.room_for(pods, Some((key, value)))).max().unwrap_or(0))
}

/// Whether the pods are equal, and their decision is valid: then no order of placing them matters.
fn is_simple(known: &PodGroup, pods: &[Arc<Pod>]) -> bool {
    let Some(first) = pods.first() else { return false };
    let like_first = |pod: &&Arc<Pod>| {
        let labels = |pod: &Pod| [APP, ALONE].map(|label| pod.labels.get(label).map(str::to_owned));
        (&pod.requests, &pod.spec) == (&first.requests, &first.spec)
            && labels(pod) == labels(first)
            && !pod.terminating
    };
    let is_allowed = known.priority.is_none_or(|priority| priority == first.priority());
    is_allowed
        && *first.spec.scheduler_name != *SPREADING
        && pods.iter().filter(like_first).count() == pods.len()
}

fn is_nominated(pod: &Pod, engine: &Engine) -> bool {
    engine.nominator().node_of(&pod.uid).is_some()
}
