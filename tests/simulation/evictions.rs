//! Invariants of repeated preemptions: a pod that was not bound after several of them pauses, longer each time. So
//! does a node on which several of them led to no binding, except for more important pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::Event;
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

/// The preemptions of one process. They are counted from decisions and events, not read from the scheduler.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    preemptors: BTreeMap<Uid, Preemptor>,
    /// The nodes with preemptions that led to no binding.
    nodes: BTreeMap<Arc<str>, Contested>,
}

/// A pending pod for which others are evicted.
#[derive(Debug, Default)]
struct Preemptor {
    priority: i32,
    tally: Tally,
    /// Time and node of the preemption that began last, until a pod has been evicted in it. Otherwise it does not
    /// count.
    begun: Option<(Time, Arc<str>)>,
    /// The node of the last preemption that counts.
    node: Option<Arc<str>>,
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
        *self = Self { count: self.count + 1, last: at };
    }

    /// Checks that the pause after these preemptions is over.
    fn allows(self, now: Time) -> Result<(), Duration> {
        let Some(doublings) = self.count.checked_sub(FREE + 1) else { return Ok(()) };
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST);
        if now.since(self.last) >= pause { Ok(()) } else { Err(pause) }
    }
}

impl Evictions {
    /// Checks a preemption that begins for a pod of this priority.
    ///
    /// # Errors
    /// The pod or the node has to pause.
    pub(crate) fn begin(&mut self, preemption: &Preemption, priority: i32, now: Time) -> Checked {
        let Preemption { uid, node, preemptor: pod, .. } = preemption;
        if let Some(own) = self.nodes.get(node).filter(|own| priority <= own.priority) {
            let paused = own.tally.allows(now);
            rule(paused.is_ok(), || format!("{pod} evicts at {now} in {paused:?} from {own:?}"))?;
        }
        let own = self.preemptors.entry(uid.clone()).or_default();
        let paused = own.tally.allows(now);
        rule(paused.is_ok(), || format!("{pod} evicts at {now} in {paused:?} after {own:?}"))?;
        own.priority = priority;
        own.begun = Some((now, node.clone()));
        Ok(())
    }

    fn charge(&mut self, node: Arc<str>, priority: i32, now: Time) {
        self.nodes.retain(|_, own| now.since(own.tally.last) < FORGOTTEN);
        let fresh = Contested { priority, tally: Tally::default() };
        let known = self.nodes.entry(node).or_insert(fresh);
        known.priority = known.priority.max(priority);
        known.tally.add(now);
    }

    /// Takes in the events of a step. An eviction makes the preemption before fruitless.
    pub(crate) fn told(&mut self, events: &[Event]) {
        for event in events.iter().filter(|event| event.reason == "Preempted") {
            let preemptor = event.related.as_ref().map(|related| &related.uid);
            let Some(own) = preemptor.and_then(|uid| self.preemptors.get_mut(uid)) else {
                continue;
            };
            let Some((at, node)) = own.begun.take() else { continue };
            own.tally.add(at);
            let (before, priority) = (own.node.replace(node), own.priority);
            if let Some(before) = before {
                self.charge(before, priority, at);
            }
        }
    }

    /// Takes in that a pod is gone, or has a node.
    pub(crate) fn end(&mut self, pod: &Uid, node: Option<&Arc<str>>, now: Time) {
        let Some(own) = self.preemptors.remove(pod) else { return };
        match (node, own.node) {
            (Some(node), _) => drop(self.nodes.remove(node)),
            (None, Some(node)) => self.charge(node, own.priority, now),
            (None, None) => {}
        }
    }

    /// Takes in that a node is gone.
    pub(crate) fn node_is_gone(&mut self, node: &str) {
        self.nodes.remove(node);
    }
}
