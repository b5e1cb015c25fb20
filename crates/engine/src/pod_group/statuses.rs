//! The status of PodGroups of Coscheduling, which its controller writes elsewhere.
//!
//! The status is computed from the members that the watch shows. Pods that have ended are not
//! watched, so the scheduler cannot tell a member that has succeeded from one that has failed or
//! was deleted; see [`phase`]. A status is written when it differs from the last one, and repeated
//! until the watch shows it, like the [reports](super::GroupReports). A group has at most one write
//! under way. A status that something else has written in its place is not contradicted until the
//! computed one changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use framework::{
    Answer, CoschedulingStatus, PodGroupKey, PodGroupSource, Time, Uid, Write, WriteAction,
};
use serde_json::json;

use super::condition::api_version;
use super::reports::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::context::Context;
use crate::effect::{EffectId, EffectKind};
use crate::world::World;

/// Time from a change of a group until its status is computed. The members of a group are bound,
/// and start, within moments of each other.
const DELAY: Duration = Duration::from_secs(1);
/// Maximum number of writes in one interval.
const BATCH: usize = 100;
/// The interval.
const INTERVAL: Duration = Duration::from_secs(1);

const PENDING: &str = "Pending";
const SCHEDULING: &str = "Scheduling";
const RUNNING: &str = "Running";
const UNKNOWN: &str = "Unknown";
/// The phases of a group of which so many members had a node as it needs. Earlier versions of
/// Coscheduling write `Scheduled`.
const PLACED: [&str; 4] = [SCHEDULING, "Scheduled", RUNNING, UNKNOWN];
/// The phases that the controller of Coscheduling never changes. The scheduler writes neither.
const FINAL: [&str; 2] = ["Finished", "Failed"];

/// The last status of each group.
#[derive(Debug, Default)]
pub(crate) struct GroupStatuses {
    groups: BTreeMap<PodGroupKey, Known>,
    /// The writes that are not answered.
    writes: BTreeMap<EffectId, PodGroupKey>,
    /// When the status of a group is computed.
    deadlines: BTreeSet<(Time, PodGroupKey)>,
    /// The groups whose status is to be computed now.
    due: BTreeSet<PodGroupKey>,
    /// Number of writes in this interval.
    written: usize,
    /// When the interval ends.
    next: Option<Time>,
}

#[derive(Debug)]
struct Known {
    /// UID of the PodGroup.
    uid: Uid,
    /// The status that was written last, or that the watch has shown since.
    last: Option<CoschedulingStatus>,
    progress: Progress,
    /// Number of writes that have failed one after the other.
    failures: u32,
    /// When the status is computed again.
    again: Option<Time>,
}

/// How far the last status is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The watch has shown it, or there is none.
    Shown,
    /// The API server has accepted it. It is repeated at that time.
    Accepted(Time),
    /// It is not answered, or was refused. No other one is written before that time.
    Held(Time),
}

/// Numbers of members of a group.
#[derive(Debug, Clone, Copy)]
struct Counts {
    all: u32,
    /// Members that the watch shows on a node.
    bound: u32,
    /// Members that run.
    running: u32,
    min_count: u32,
}

impl GroupStatuses {
    /// Notes a change of a group or of its members.
    pub(crate) fn see(&mut self, group: &PodGroupKey, world: &World, now: Time) {
        if group.source != PodGroupSource::Coscheduling {
            return;
        }
        let Some(object) = world.pod_group(group) else { return self.forget(group) };
        if self.groups.get(group).is_some_and(|known| known.uid != object.uid) {
            self.forget(group);
        }
        let known = self.groups.entry(group.clone()).or_insert_with(|| Known {
            uid: object.uid.clone(),
            last: None,
            progress: Progress::Shown,
            failures: 0,
            again: None,
        });
        let at = match known.progress {
            Progress::Held(until) => until.max(now + DELAY),
            _ => now + DELAY,
        };
        if !self.due.contains(group) && known.again.is_none_or(|again| at < again) {
            self.compute_at(group, at);
        }
    }

    /// Handles the answer to an effect.
    pub(crate) fn answer(&mut self, effect: EffectId, answer: &Answer, now: Time) {
        let Some(group) = self.writes.remove(&effect) else { return };
        let Some(known) = self.groups.get_mut(&group) else { return };
        if !matches!(known.progress, Progress::Held(_)) {
            return;
        }
        let at = match answer {
            Answer::Ok(_) | Answer::Gone(_) => {
                known.failures = 0;
                known.progress = Progress::Accepted(now + LONGEST_PAUSE);
                // The members may have changed meanwhile.
                now + DELAY
            }
            _ => {
                let pause = FIRST_PAUSE.saturating_mul(1 << known.failures.min(8));
                known.failures += 1;
                let until = now + pause.min(LONGEST_PAUSE);
                known.progress = Progress::Held(until);
                until
            }
        };
        self.compute_at(&group, at);
    }

    /// Returns when [`tick`](Self::tick) has work to do.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let next_batch = self.next.filter(|_| self.written >= BATCH && !self.due.is_empty());
        let first = self.deadlines.first().map(|(at, _)| *at);
        next_batch.into_iter().chain(first).min()
    }

    /// Handles the passage of time.
    pub(crate) fn tick(&mut self, now: Time) {
        self.begin_interval(now);
        while self.deadlines.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, group)) = self.deadlines.pop_first() else { return };
            if let Some(known) = self.groups.get_mut(&group) {
                known.again = None;
            }
            self.due.insert(group);
        }
    }

    /// Writes the statuses that are due and that have changed, at a bounded rate.
    pub(crate) fn write_due(&mut self, world: &World, cx: &mut Context<'_>) {
        self.begin_interval(cx.now);
        while self.written < BATCH
            && let Some(group) = self.due.pop_first()
        {
            self.write_if_changed(&group, world, cx);
        }
    }

    fn begin_interval(&mut self, now: Time) {
        if self.next.is_some_and(|next| next <= now) {
            self.next = None;
            self.written = 0;
        }
    }

    fn write_if_changed(&mut self, group: &PodGroupKey, world: &World, cx: &mut Context<'_>) {
        let Some(known) = self.groups.get_mut(group) else { return };
        let object = world.pod_group(group).filter(|object| object.uid == known.uid);
        let shown = object.and_then(|object| object.coscheduling.as_ref());
        let Some(shown) = shown else { return self.forget(group) };
        let Some(status) = computed(group, shown, known.last.as_ref(), world) else { return };
        if status == *shown {
            (known.last, known.progress, known.failures) = (Some(status), Progress::Shown, 0);
            return;
        }
        let is_last = known.last.as_ref() == Some(&status);
        let wait = match known.progress {
            Progress::Shown if is_last => return,
            Progress::Accepted(until) => Some(until).filter(|_| is_last),
            Progress::Held(until) => Some(until),
            Progress::Shown => None,
        };
        if let Some(until) = wait.filter(|until| cx.now < *until) {
            return self.compute_at(group, until);
        }
        let write = write_of(group, &known.uid, &status);
        let until = cx.now + LONGEST_PAUSE;
        (known.last, known.progress) = (Some(status), Progress::Held(until));
        let effect = cx.effects.emit(EffectKind::Write(write));
        self.writes.insert(effect, group.clone());
        self.compute_at(group, until);
        self.written += 1;
        self.next.get_or_insert(cx.now + INTERVAL);
    }

    fn compute_at(&mut self, group: &PodGroupKey, at: Time) {
        let Some(known) = self.groups.get_mut(group) else { return };
        if let Some(before) = known.again.replace(at) {
            self.deadlines.remove(&(before, group.clone()));
        }
        self.deadlines.insert((at, group.clone()));
    }

    fn forget(&mut self, group: &PodGroupKey) {
        self.due.remove(group);
        if let Some(at) = self.groups.remove(group).and_then(|known| known.again) {
            self.deadlines.remove(&(at, group.clone()));
        }
    }
}

/// Returns the status that a group ought to have. Returns `None` for a group that has a final
/// phase, and for one that may be of another scheduler: none of its pods was ever seen to be of
/// this one.
fn computed(
    group: &PodGroupKey,
    shown: &CoschedulingStatus,
    last: Option<&CoschedulingStatus>,
    world: &World,
) -> Option<CoschedulingStatus> {
    if FINAL.contains(&&*shown.phase) {
        return None;
    }
    let cluster = world.cluster();
    let state = cluster.pod_group_state(group);
    let all = state.map_or(0, |state| state.all_count());
    let members = || state.into_iter().flat_map(|state| state.bound());
    let pods = || members().map(|member| &cluster.pod(member).pod);
    let count = |pods: usize| u32::try_from(pods).unwrap_or(u32::MAX);
    let counts = Counts {
        all,
        bound: count(pods().count()),
        running: count(pods().filter(|pod| pod.is_running_member()).count()),
        min_count: world.min_count(group)?,
    };
    // Pending pods of other schedulers are not known.
    let is_own = || all > counts.bound || pods().any(|pod| world.profile_of(pod).is_some());
    if last.is_none() && !is_own() {
        return None;
    }
    let had_room = [Some(shown), last].into_iter().flatten();
    let was_placed = had_room.map(|status| &*status.phase).any(|phase| PLACED.contains(&phase));
    let phase = phase(counts, was_placed);
    let mut occupied_by = shown.occupied_by.clone();
    if occupied_by.is_empty() && phase != PENDING {
        let controller = pods().find_map(|pod| pod.controller.as_ref());
        let name = controller.map(|own| format!("{}/{}", group.namespace, own.name));
        occupied_by = name.map_or(occupied_by, Into::into);
    }
    let running = i32::try_from(counts.running).unwrap_or(i32::MAX);
    Some(CoschedulingStatus { phase: phase.into(), running, occupied_by })
}

/// Returns the phase of a group. If too few members have a node although enough had one, the others
/// have ended or were deleted, so that nothing more is known.
const fn phase(counts: Counts, was_placed: bool) -> &'static str {
    let Counts { all, bound, running, min_count } = counts;
    if running >= min_count {
        RUNNING
    } else if bound >= min_count {
        SCHEDULING
    } else if was_placed && (bound > 0 || all == 0) {
        UNKNOWN
    } else {
        PENDING
    }
}

/// Returns the write of a status. It leaves the counts of members that have ended as they are.
fn write_of(group: &PodGroupKey, uid: &Uid, status: &CoschedulingStatus) -> Write {
    let patch = json!({"metadata": {"uid": uid.to_string()}, "status": status});
    Write {
        api_version: api_version(group.source, framework::Level::V1_37).into(),
        resource: "podgroups".into(),
        namespace: group.namespace.clone(),
        name: group.name.clone(),
        subresource: Some("status".into()),
        flow: "".into(),
        action: WriteAction::MergePatch(patch),
    }
}
