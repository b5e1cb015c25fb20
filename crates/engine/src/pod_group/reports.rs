//! What the scheduler reports about PodGroups, until the API server shows it.
//!
//! A report is a condition and an event about the PodGroup; the event is recorded once. A write
//! that is refused or whose answer is lost is repeated, also one that the API server has accepted
//! and the watch does not show. PodGroups of Coscheduling have no condition; their
//! [statuses](super::GroupStatuses) follow from their members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework::{
    Answer, EventType, Level, PodGroup, PodGroupCondition, PodGroupKey, PodGroupSource, PodKey,
    Time, Uid,
};

use super::condition::{api_version, scheduled, write};
use crate::context::Context;
use crate::effect::{EffectId, EffectKind, Event, EventSubject, note};
use crate::world::World;

/// Time after the first write that failed until the next one. It doubles with each failure.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest time until a write is repeated, and the time after a write that has succeeded and
/// that the watch does not show.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// The last report about each group.
#[derive(Debug, Default)]
pub(crate) struct GroupReports {
    groups: BTreeMap<PodGroupKey, Report>,
    /// The writes that are not answered.
    writes: BTreeMap<EffectId, PodGroupKey>,
    /// When the writes are repeated.
    deadlines: BTreeSet<(Time, PodGroupKey)>,
    /// The groups whose write is due.
    due: BTreeSet<PodGroupKey>,
    /// The groups that may be scheduled although no condition says so.
    unsettled: BTreeSet<PodGroupKey>,
}

#[derive(Debug)]
struct Report {
    /// UID of the PodGroup.
    uid: Uid,
    condition: PodGroupCondition,
    /// Number of writes that have failed one after the other.
    failures: u32,
    /// When the write is repeated.
    again: Option<Time>,
}

impl GroupReports {
    /// Reports a condition, unless the watch shows it or it was reported before. A PodGroup that
    /// was scheduled once stays so; if too few of its pods have a node, its message says why.
    /// `reporter` is the name of the scheduler.
    pub(crate) fn report(
        &mut self,
        group: &PodGroupKey,
        condition: PodGroupCondition,
        reporter: &Arc<str>,
        world: &World,
        cx: &mut Context<'_>,
    ) {
        let Some(known) = world.pod_group(group) else { return };
        let last = self.last(group, known);
        let is_of_kubernetes = group.source == PodGroupSource::Kubernetes;
        let condition = match last.is_some_and(|last| outlasts(last, &condition)) {
            true if is_of_kubernetes => {
                let Some(message) = shortfall(group, &condition, world) else { return };
                scheduled(&message)
            }
            _ => condition,
        };
        if last == Some(&condition) {
            return;
        }
        let level = world.profiles().level();
        record_event(Regarding { group, known, level }, &condition, reporter, cx);
        let (uid, again) = (known.uid.clone(), None);
        self.drop_report(group);
        self.groups.insert(group.clone(), Report { uid, condition, failures: 0, again });
        self.write(group, world, cx);
    }

    /// Whether the last report about a group, or else the watch, says that it was scheduled.
    pub(crate) fn says_scheduled(&self, group: &PodGroupKey, world: &World) -> bool {
        let last = world.pod_group(group).and_then(|known| self.last(group, known));
        last.is_some_and(|last| last.status)
    }

    /// Returns the condition that was reported last, or else the one that the watch shows.
    fn last<'a>(
        &'a self,
        group: &PodGroupKey,
        known: &'a PodGroup,
    ) -> Option<&'a PodGroupCondition> {
        let report = self.groups.get(group).filter(|report| report.uid == known.uid);
        report.map(|report| &report.condition).or(known.condition.as_ref())
    }

    /// Handles a change of a PodGroup: a report that the watch shows is not repeated.
    pub(crate) fn group_changed(&mut self, group: &PodGroupKey, world: &World) {
        let Some(report) = self.groups.get(group) else { return };
        let Some(known) = world.pod_group(group).filter(|known| known.uid == report.uid) else {
            return self.drop_report(group);
        };
        let shown = known.condition.as_ref();
        let is_settled = |shown: &PodGroupCondition| {
            *shown == report.condition || outlasts(shown, &report.condition)
        };
        if shown.is_some_and(is_settled) {
            self.drop_report(group);
        }
    }

    /// Notes a group that may have enough members on nodes although its condition does not say so:
    /// a scheduler may end between the binds and the condition.
    pub(crate) fn see(&mut self, group: &PodGroupKey, world: &World) {
        let shown = world.pod_group(group).map(|known| known.condition.as_ref());
        let says_so = |shown: &PodGroupCondition| shown.status && shown.message.is_empty();
        let is_open = shown.is_some_and(|shown| !shown.is_some_and(says_so));
        let is_reported = self.groups.get(group).is_some_and(|report| says_so(&report.condition));
        if is_open && !is_reported && group.source == PodGroupSource::Kubernetes {
            self.unsettled.insert(group.clone());
        }
    }

    /// Returns the groups that were [seen](Self::see) since the last call and that have enough
    /// members on nodes.
    pub(crate) fn take_scheduled(&mut self, world: &World) -> Vec<PodGroupKey> {
        let seen = std::mem::take(&mut self.unsettled);
        let is_scheduled = |group: &PodGroupKey| {
            let state = world.cluster().pod_group_state(group);
            let needed = world.min_count(group);
            state.zip(needed).is_some_and(|(state, needed)| state.bound_count() >= needed)
        };
        seen.into_iter().filter(is_scheduled).collect()
    }

    /// Handles the answer to an effect.
    pub(crate) fn answer(&mut self, effect: EffectId, answer: &Answer, now: Time) {
        let Some(group) = self.writes.remove(&effect) else { return };
        let Some(report) = self.groups.get_mut(&group) else { return };
        let pause = match answer {
            Answer::Ok(_) | Answer::Gone(_) => {
                report.failures = 0;
                LONGEST_PAUSE
            }
            _ => {
                let pause = FIRST_PAUSE.saturating_mul(1 << report.failures.min(8));
                report.failures += 1;
                pause.min(LONGEST_PAUSE)
            }
        };
        self.repeat_at(&group, now + pause);
    }

    /// Returns when [`tick`](Self::tick) has work to do.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles the passage of time.
    pub(crate) fn tick(&mut self, now: Time) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            let Some((_, group)) = self.deadlines.pop_first() else { return };
            if let Some(report) = self.groups.get_mut(&group) {
                report.again = None;
            }
            self.due.insert(group);
        }
    }

    /// Repeats the writes that are due.
    pub(crate) fn write_due(&mut self, world: &World, cx: &mut Context<'_>) {
        while let Some(group) = self.due.pop_first() {
            self.write(&group, world, cx);
        }
    }

    /// Writes the condition of a group, and repeats that unless an answer comes.
    fn write(&mut self, group: &PodGroupKey, world: &World, cx: &mut Context<'_>) {
        let Some(report) = self.groups.get(group) else { return };
        let known = world.pod_group(group).filter(|known| known.uid == report.uid);
        if let (Some(known), PodGroupSource::Kubernetes) = (known, group.source) {
            let write = write(group, known, &report.condition, world, cx);
            let effect = cx.effects.emit(EffectKind::Write(write));
            self.writes.insert(effect, group.clone());
            self.repeat_at(group, cx.now + LONGEST_PAUSE);
        }
    }

    fn repeat_at(&mut self, group: &PodGroupKey, at: Time) {
        let Some(report) = self.groups.get_mut(group) else { return };
        if let Some(before) = report.again.replace(at) {
            self.deadlines.remove(&(before, group.clone()));
        }
        self.deadlines.insert((at, group.clone()));
    }

    fn drop_report(&mut self, group: &PodGroupKey) {
        self.due.remove(group);
        if let Some(at) = self.groups.remove(group).and_then(|report| report.again) {
            self.deadlines.remove(&(at, group.clone()));
        }
    }
}

/// Returns how many pods of a group have a node, and why the others have none; `None` if they are
/// enough.
fn shortfall(group: &PodGroupKey, rejected: &PodGroupCondition, world: &World) -> Option<String> {
    let (needed, placed) = (world.min_count(group)?, world.scheduled_members(group));
    let text = || format!("{placed} of {needed} pods have a node: {}", rejected.message);
    (placed < needed).then(text)
}

/// Whether a condition is kept in spite of another one: a group that was scheduled once stays so.
const fn outlasts(shown: &PodGroupCondition, other: &PodGroupCondition) -> bool {
    shown.status && !other.status
}

/// A PodGroup that an event is about.
struct Regarding<'a> {
    group: &'a PodGroupKey,
    known: &'a PodGroup,
    level: Level,
}

/// Records an event about a PodGroup.
fn record_event(
    regarding: Regarding<'_>,
    condition: &PodGroupCondition,
    reporter: &Arc<str>,
    cx: &mut Context<'_>,
) {
    let Regarding { group, known, level } = regarding;
    let (event_type, reason, text) = match &*condition.message {
        "" => (EventType::Normal, "Scheduled", "Enough pods of the group have a node"),
        message => (EventType::Warning, "FailedScheduling", message),
    };
    cx.effects.emit(EffectKind::Event(Event {
        subject: EventSubject::PodGroup(api_version(group.source, level)),
        regarding: PodKey::new(&group.namespace, &group.name),
        uid: known.uid.clone(),
        related: None,
        event_type,
        reason: reason.into(),
        action: "Scheduling".into(),
        note: note(text),
        reporting_controller: reporter.clone(),
    }));
}
