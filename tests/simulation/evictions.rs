//! Invariants of repeated preemptions: a pod that was not bound after several of them pauses,
//! longer each time. So does a node on which several of them led to no binding, except for more
//! important pods. No pause is longer than that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Event};
use framework::preemption::Preemption;
use framework::{Time, Uid};

use super::rules::{Checked, rule};

/// Number of preemptions after which no pause follows.
const FREE: u32 = 3;
/// The first pause. Each further preemption doubles it.
const FIRST: Duration = Duration::from_secs(10);
/// The longest pause.
const LONGEST: Duration = Duration::from_mins(5);
/// Time after which the preemptions on a node are not counted any more.
const FORGOTTEN: Duration = Duration::from_hours(1);

/// The preemptions of one process. They are counted from decisions and events, not read from the
/// scheduler.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    preemptors: BTreeMap<Uid, Preemptor>,
    /// The nodes with preemptions that led to no binding.
    nodes: BTreeMap<Arc<str>, Contested>,
    /// The nodes with preemptions that may have led to no binding: also those in which no pod could
    /// be evicted.
    at_most: BTreeMap<Arc<str>, Tally>,
}

/// A pending pod for which others are evicted.
#[derive(Debug, Default)]
struct Preemptor {
    priority: i32,
    tally: Tally,
    /// The preemptions that began. One counts once a pod has been evicted in it.
    begun: Vec<Begun>,
    /// The node of the last preemption that counts.
    node: Option<Arc<str>>,
    /// The time of that preemption.
    counted_at: Time,
    /// All preemptions that may have begun, and their nodes. One does not begin if others evict all
    /// of its victims already.
    at_most: Tally,
    tried: BTreeSet<Arc<str>>,
}

/// A preemption that began. One whose victims are all evicted already for earlier ones never
/// counts.
#[derive(Debug)]
struct Begun {
    at: Time,
    node: Arc<str>,
    victims: BTreeSet<Uid>,
    counts: bool,
}

#[derive(Debug)]
struct Contested {
    /// The highest priority of the preemptors.
    priority: i32,
    tally: Tally,
}

/// The number of preemptions, and the time of the last one.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u32,
    last: Time,
}

impl Tally {
    fn add(&mut self, at: Time) {
        *self = Self { count: self.count + 1, last: self.last.max(at) };
    }

    /// Returns the length of the pause after these preemptions.
    fn pause(self) -> Duration {
        let Some(doublings) = self.count.checked_sub(FREE + 1) else { return Duration::ZERO };
        FIRST.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST)
    }

    /// Checks that the pause after these preemptions is over.
    fn allows(self, now: Time) -> Result<(), Duration> {
        let pause = self.pause();
        if now.since(self.last) >= pause { Ok(()) } else { Err(pause) }
    }

    /// Whether the pause lasts until this time.
    fn lasts_until(self, time: Time) -> bool {
        self.last + self.pause() >= time
    }
}

impl Evictions {
    /// Checks a preemption for a pod of this priority, in an attempt that began `now` and ended at
    /// `end`.
    ///
    /// # Errors
    /// The pod or the node has to pause.
    pub(crate) fn begin(
        &mut self,
        preemption: &Preemption,
        priority: i32,
        now: Time,
        end: Time,
    ) -> Checked {
        let Preemption { uid, node, preemptor: pod, .. } = preemption;
        if let Some(own) = self.nodes.get(node).filter(|own| priority <= own.priority) {
            let paused = own.tally.allows(now);
            rule(paused.is_ok(), || format!("{pod} evicts at {now} in {paused:?} from {own:?}"))?;
        }
        let own = self.preemptors.entry(uid.clone()).or_default();
        let paused = own.tally.allows(now);
        rule(paused.is_ok(), || format!("{pod} evicts at {now} in {paused:?} after {own:?}"))?;
        own.priority = priority;
        let victims = preemption.victims.iter().map(|victim| victim.uid.clone()).collect();
        own.begun.push(Begun { at: now, node: node.clone(), victims, counts: false });
        own.at_most.add(end);
        for before in &own.tried {
            self.at_most.entry(before.clone()).or_default().add(end);
        }
        own.tried.insert(node.clone());
        Ok(())
    }

    /// Notes that pods may be evicted for a member of a group of this priority, which is nominated
    /// to `node`, in an attempt that ended at `end`.
    pub(crate) fn begin_for_group(
        &mut self,
        member: &Uid,
        node: &Arc<str>,
        priority: i32,
        end: Time,
    ) {
        let own = self.preemptors.entry(member.clone()).or_default();
        own.priority = priority;
        own.at_most.add(end);
        for before in &own.tried {
            self.at_most.entry(before.clone()).or_default().add(end);
        }
        own.tried.insert(node.clone());
    }

    /// Checks that no pod and no node pauses for longer than the preemptions so far explain.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn no_pause_is_too_long(&self, engine: &Engine, now: Time) -> Checked {
        let fruitless = engine.handle(now).preemptions.fruitless();
        for pod in engine.pending() {
            let key = &pod.key;
            let own = self.preemptors.get(&pod.uid);
            let pause = fruitless.pause_of(&pod.uid, now);
            let is_due = pause
                .as_ref()
                .is_none_or(|pause| own.is_some_and(|own| own.at_most.lasts_until(pause.until)));
            rule(is_due, || format!("{key} is paused after {own:?}: {pause:?}"))?;
            for (node, pause) in fruitless.paused_nodes(pod, now) {
                let known = self.at_most.get(node);
                let is_due = known.is_some_and(|known| known.lasts_until(pause.until));
                rule(is_due, || format!("{node} is paused for {key} after {known:?}: {pause:?}"))?;
            }
        }
        Ok(())
    }

    fn charge(&mut self, node: Arc<str>, priority: i32, now: Time) {
        self.nodes.retain(|_, own| now.since(own.tally.last) < FORGOTTEN);
        let fresh = Contested { priority, tally: Tally::default() };
        let known = self.nodes.entry(node).or_insert(fresh);
        known.priority = known.priority.max(priority);
        known.tally.add(now);
    }

    /// Handles the events of a step. An eviction makes the preemption before fruitless, since the
    /// next one began, also if that one was called off. It belongs to the first preemption with
    /// this victim: no pod is evicted twice.
    pub(crate) fn told(&mut self, events: &[Event]) {
        for event in events.iter().filter(|event| event.reason == "Preempted") {
            let preemptor = event.related.as_ref().map(|related| &related.uid);
            let Some(own) = preemptor.and_then(|uid| self.preemptors.get_mut(uid)) else {
                continue;
            };
            let first = own.begun.iter_mut().find(|begun| begun.victims.contains(&event.uid));
            let Some(begun) = first.filter(|begun| !begun.counts) else { continue };
            begun.counts = true;
            let (at, node) = (begun.at, begun.node.clone());
            own.tally.add(at);
            let later = own.begun.iter().map(|begun| begun.at).filter(|at| *at > own.counted_at);
            let since = later.min().unwrap_or(at);
            own.counted_at = at;
            let (before, priority) = (own.node.replace(node), own.priority);
            if let Some(before) = before {
                self.charge(before, priority, since);
            }
        }
    }

    /// Notes that the watch shows a pod on a node.
    pub(crate) fn is_bound(&mut self, pod: &Uid, node: &Arc<str>) {
        let Some(own) = self.preemptors.remove(pod) else { return };
        // The last preemption may have been called off, which leaves the count of the node.
        if own.tried.iter().eq([node]) && own.begun.last().is_none_or(|begun| begun.counts) {
            self.at_most.remove(node);
        }
        self.nodes.remove(node);
    }

    /// Notes that a pod is gone that the watch has not shown on a node. It may have been assumed
    /// on one.
    pub(crate) fn is_gone(&mut self, pod: &Uid, assumed_on: Option<&Arc<str>>, now: Time) {
        let Some(own) = self.preemptors.remove(pod) else { return };
        for node in own.tried {
            self.at_most.entry(node).or_default().add(now);
        }
        match (assumed_on, own.node) {
            // Its bind may have succeeded.
            (Some(node), _) => drop(self.nodes.remove(node)),
            (None, Some(node)) => self.charge(node, own.priority, now),
            (None, None) => {}
        }
    }

    /// Notes that a node is gone.
    pub(crate) fn node_is_gone(&mut self, node: &str) {
        self.nodes.remove(node);
        self.at_most.remove(node);
    }
}
