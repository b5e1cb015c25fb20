//! Preemptions that led to no binding. Who goes on with them has to pause, longer each time.
//!
//! Kubernetes has no such rule: where another scheduler takes the room that was made, or a controller
//! replaces the preemptor, kube-scheduler evicts again and again. Here each preemption in vain beyond
//! the third is followed by a pause of 10 s, 20 s, 40 s and so on, of the pod it was for and of the node
//! it was on. So the number of evictions grows with the logarithm of time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Pod, Time, Uid};

/// So many preemptions in vain have no consequence.
const FREE: u32 = 3;

/// The pause after one more. Each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// A node is forgotten so long after its pause.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// Preemptions that have led to no binding, by the pod they were for and by node.
///
/// A node counts those that are known to be in vain: their preemptor preempts again, or is gone. Pods
/// that wait for their victims on one node do not count, however many they are.
#[derive(Debug, Clone, Default)]
pub struct FruitlessPreemptions {
    preemptors: BTreeMap<Uid, Preemptor>,
    nodes: BTreeMap<Arc<str>, Contested>,
}

/// A pending pod for which pods have been evicted.
#[derive(Debug, Clone, Default)]
struct Preemptor {
    priority: i32,
    preemptions: Tally,
    /// Where the last one is, unless it was called off.
    node: Option<Arc<str>>,
}

/// A node on which pods have been evicted in vain.
#[derive(Debug, Clone)]
struct Contested {
    /// Highest priority of the pods it was for. What they met does not hold back more important ones.
    priority: i32,
    preemptions: Tally,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u32,
    last: Time,
}

impl Tally {
    fn add(&mut self, now: Time) {
        *self = Self { count: self.count.saturating_add(1), last: now };
    }

    fn pause_ends(self) -> Time {
        let Some(doublings) = self.count.checked_sub(FREE + 1) else { return self.last };
        self.last + FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings))
    }

    fn pause(self, node: Option<Arc<str>>, now: Time) -> Option<Pause> {
        let until = self.pause_ends();
        (now < until).then_some(Pause { node, preemptions: self.count, until })
    }
}

/// Why a pod may not have others evicted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// The node on which nothing is evicted; `None` if nothing is evicted for the pod anywhere.
    pub node: Option<Arc<str>>,
    /// So many preemptions led to no binding.
    pub preemptions: u32,
    /// When the pause is over.
    pub until: Time,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, preemptions, until } = self;
        write!(f, "{preemptions} preemptions ")?;
        match node {
            Some(node) => write!(f, "on node {node}")?,
            None => f.write_str("for the pod")?,
        }
        write!(f, " led to no binding, paused until {}", until.floor_to_second())
    }
}

impl FruitlessPreemptions {
    /// Pods on `node` are being evicted for a pending pod. Those evicted for it before were so in vain.
    pub fn begin(&mut self, preemptor: &Pod, node: &Arc<str>, now: Time) {
        let priority = preemptor.priority();
        let known = self.preemptors.entry(preemptor.uid.clone()).or_default();
        known.priority = priority;
        known.preemptions.add(now);
        if let Some(before) = known.node.replace(node.clone()) {
            self.charge(before, priority, now);
        }
    }

    /// None of the pods could be evicted, so the last preemption of this pod does not count.
    pub fn call_off(&mut self, preemptor: &Uid) {
        if let Some(known) = self.preemptors.get_mut(preemptor) {
            known.preemptions.count = known.preemptions.count.saturating_sub(1);
            known.node = None;
        }
    }

    /// The pod is not pending any more: it has a node, which for its own preemptions settles the
    /// matter, or is gone.
    pub fn end(&mut self, preemptor: &Uid, bound_to: Option<&str>, now: Time) {
        let Some(Preemptor { priority, node: Some(node), .. }) = self.preemptors.remove(preemptor)
        else {
            return;
        };
        match bound_to {
            None => self.charge(node, priority, now),
            Some(bound_to) if *bound_to == *node => self.forget_node(bound_to),
            Some(_) => {}
        }
    }

    /// The node is gone, or preemption works there.
    pub fn forget_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    fn charge(&mut self, node: Arc<str>, priority: i32, now: Time) {
        self.nodes.retain(|_, known| now < known.preemptions.pause_ends() + FORGOTTEN_AFTER);
        let fresh = Contested { priority, preemptions: Tally::default() };
        let known = self.nodes.entry(node).or_insert(fresh);
        known.priority = known.priority.max(priority);
        known.preemptions.add(now);
    }

    /// Whether nothing may be evicted for this pod now.
    pub fn pause_of(&self, preemptor: &Uid, now: Time) -> Option<Pause> {
        self.preemptors.get(preemptor)?.preemptions.pause(None, now)
    }

    /// The nodes on which nothing may be evicted for this pod now, by name.
    pub fn paused_nodes(
        &self,
        preemptor: &Pod,
        now: Time,
    ) -> impl Iterator<Item = (&Arc<str>, Pause)> {
        let priority = preemptor.priority();
        let contested = self.nodes.iter().filter(move |(_, known)| priority <= known.priority);
        contested.filter_map(move |(name, known)| {
            Some((name, known.preemptions.pause(Some(name.clone()), now)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    const HOUR: i64 = 3600;

    fn at(seconds: i64) -> Time {
        Time::from_secs(seconds)
    }

    /// The names of the nodes that are paused for a pod of this priority, with the ends of the pauses
    /// in seconds.
    fn paused(fruitless: &FruitlessPreemptions, priority: i32, now: i64) -> Vec<(String, i64)> {
        let pod = pod("other").priority(priority).build();
        let seconds = |time: Time| time.as_nanos() / 1_000_000_000;
        let nodes = fruitless.paused_nodes(&pod, at(now));
        nodes.map(|(name, pause)| (name.to_string(), seconds(pause.until))).collect()
    }

    /// So many pods of this priority preempt on `n`, one after the other, and are deleted.
    fn in_vain(fruitless: &mut FruitlessPreemptions, times: usize, priority: i32, now: i64) {
        for time in 0..times {
            let preemptor = pod(&format!("p{time}")).priority(priority).build();
            fruitless.begin(&preemptor, &"n".into(), at(now));
            fruitless.end(&preemptor.uid, None, at(now));
        }
    }

    #[test]
    fn pauses_double_from_the_fourth_preemption_on() {
        let (mut fruitless, preemptor) = (FruitlessPreemptions::default(), pod("p").build());
        let mut pauses = Vec::new();
        for now in 0..7 {
            fruitless.begin(&preemptor, &"n".into(), at(now));
            let pause = fruitless.pause_of(&preemptor.uid, at(now));
            pauses.push(pause.map_or(0, |pause| pause.until.since(at(now)).as_secs()));
        }
        assert_eq!(pauses, [0, 0, 0, 10, 20, 40, 80]);
        let pause = fruitless.pause_of(&preemptor.uid, at(85)).unwrap();
        let text = "7 preemptions for the pod led to no binding, paused until 1970-01-01T00:01:26Z";
        assert_eq!(pause.to_string(), text);
        assert_eq!(fruitless.pause_of(&preemptor.uid, at(86)), None, "it ends when it says");
    }

    #[test]
    fn a_pause_may_be_longer_than_time() {
        let (mut fruitless, preemptor) = (FruitlessPreemptions::default(), pod("p").build());
        for _ in 0..100 {
            fruitless.begin(&preemptor, &"n".into(), at(1));
        }
        let pause = fruitless.pause_of(&preemptor.uid, at(1)).unwrap();
        assert_eq!(pause.until, Time::from_nanos(i64::MAX));
    }

    #[test]
    fn a_node_counts_what_is_known_to_be_in_vain() {
        let mut fruitless = FruitlessPreemptions::default();
        let preemptors: Vec<Pod> = (0..10).map(|n| pod(&n.to_string()).build()).collect();
        preemptors.iter().for_each(|pod| fruitless.begin(pod, &"n".into(), at(0)));
        assert_eq!(paused(&fruitless, 0, 0), [], "all wait for their victims");
        for preemptor in &preemptors[..3] {
            fruitless.end(&preemptor.uid, None, at(5));
        }
        assert_eq!(paused(&fruitless, 0, 5), [], "three are free");
        fruitless.begin(&preemptors[3], &"m".into(), at(5));
        assert_eq!(paused(&fruitless, 0, 5), [("n".to_owned(), 15)], "the fourth went elsewhere");
        fruitless.end(&preemptors[4].uid, Some("m"), at(6));
        assert_eq!(
            paused(&fruitless, 0, 6).len(),
            1,
            "a binding elsewhere says nothing of the node"
        );
        fruitless.end(&preemptors[5].uid, Some("n"), at(6));
        assert_eq!(paused(&fruitless, 0, 6), [], "preemption works there");
    }

    #[test]
    fn more_important_pods_are_not_held_back_by_a_node() {
        let mut fruitless = FruitlessPreemptions::default();
        in_vain(&mut fruitless, 4, 100, 0);
        assert_eq!(paused(&fruitless, 100, 1).len(), 1);
        assert_eq!(paused(&fruitless, 101, 1), []);
        in_vain(&mut fruitless, 1, i32::MAX, 0);
        assert_eq!(paused(&fruitless, i32::MAX, 1), [("n".to_owned(), 20)], "they failed too");
        assert_eq!(paused(&fruitless, i32::MIN, 1).len(), 1);
    }

    #[test]
    fn a_node_is_forgotten_an_hour_after_its_pause_or_with_the_node() {
        // When it goes on, and the pause that follows.
        for (now, pause) in [(9, 20), (HOUR + 9, 20), (HOUR + 10, 0)] {
            let mut fruitless = FruitlessPreemptions::default();
            in_vain(&mut fruitless, 4, 0, 0);
            in_vain(&mut fruitless, 1, 0, now);
            let ends = paused(&fruitless, 0, now).pop().map_or(now, |(_, end)| end);
            assert_eq!(ends - now, pause, "{now}");
        }
        let mut fruitless = FruitlessPreemptions::default();
        in_vain(&mut fruitless, 9, 0, 0);
        fruitless.forget_node("n");
        assert_eq!(paused(&fruitless, 0, 0), []);
    }

    #[test]
    fn what_was_called_off_does_not_count() {
        let (mut fruitless, preemptor) = (FruitlessPreemptions::default(), pod("p").build());
        for _ in 0..10 {
            fruitless.begin(&preemptor, &"n".into(), at(0));
            fruitless.call_off(&preemptor.uid);
        }
        assert_eq!(fruitless.pause_of(&preemptor.uid, at(0)), None);
        fruitless.end(&preemptor.uid, None, at(0));
        assert!(fruitless.preemptors.is_empty() && fruitless.nodes.is_empty());
        fruitless.call_off(&preemptor.uid);
        fruitless.end(&preemptor.uid, None, at(0));
        assert!(fruitless.preemptors.is_empty(), "a pod that is not known");
    }
}
