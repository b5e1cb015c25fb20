//! Preemptions that led to no binding, and the growing pauses that follow them.
//!
//! Kubernetes has no such rule: if another scheduler takes the room, or a controller replaces the
//! preemptor, kube-scheduler evicts again and again. Here, from the fourth fruitless preemption on,
//! the preemptor and the node are paused for 10 s, 20 s, 40 s and so on, up to the longest pause.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Pod, Time, Uid};

/// Number of fruitless preemptions without a pause.
const FREE: u32 = 3;

/// The pause after one more fruitless preemption. Each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// The longest pause by default. A pod that waits for it is tried about as often as kube-scheduler
/// tries an unschedulable pod without an event.
pub const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// How long after its pause a node is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// The preemptions that led to no binding, by preemptor and by node.
///
/// A node counts the preemptions known to be fruitless: the preemptor preempts again, or is gone.
/// It does not count pods that still wait for their victims on the node.
#[derive(Debug, Clone)]
pub struct FruitlessPreemptions {
    longest_pause: Duration,
    preemptors: BTreeMap<Uid, Preemptor>,
    nodes: BTreeMap<Arc<str>, Contested>,
    /// The trials that have found no victims, by the UID of the PodGroup.
    trials: BTreeMap<Uid, Tally>,
}

/// A pending pod for which pods have been evicted.
#[derive(Debug, Clone, Default)]
struct Preemptor {
    priority: i32,
    preemptions: Tally,
    /// The node of the last preemption, unless it was called off.
    node: Option<Arc<str>>,
}

/// A node with fruitless preemptions.
#[derive(Debug, Clone)]
struct Contested {
    /// Highest priority of their preemptors. More important pods are not paused.
    priority: i32,
    preemptions: Tally,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u32,
    last: Time,
}

impl Default for FruitlessPreemptions {
    fn default() -> Self {
        let (preemptors, nodes, trials) = Default::default();
        Self { longest_pause: LONGEST_PAUSE, preemptors, nodes, trials }
    }
}

impl Tally {
    fn add(&mut self, now: Time) {
        *self = Self { count: self.count.saturating_add(1), last: now };
    }

    fn pause_ends(self, longest: Duration) -> Time {
        let Some(doublings) = self.count.checked_sub(FREE + 1) else { return self.last };
        self.last + FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(longest)
    }

    fn pause(self, longest: Duration, node: Option<Arc<str>>, now: Time) -> Option<Pause> {
        let until = self.pause_ends(longest);
        (now < until).then_some(Pause { node, preemptions: self.count, until })
    }
}

/// A pause in preemption, of one pod or of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// The paused node; `None` if the pod itself is paused.
    pub node: Option<Arc<str>>,
    /// Number of preemptions that led to no binding.
    pub preemptions: u32,
    /// End of the pause.
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
    /// Limits the pauses to this length. With zero there are none.
    pub const fn set_longest_pause(&mut self, longest: Duration) {
        self.longest_pause = longest;
    }

    /// Records a preemption on `node`. Earlier preemptions for the same pod count as fruitless.
    pub fn begin(&mut self, preemptor: &Pod, node: &Arc<str>, now: Time) {
        let priority = preemptor.priority();
        let known = self.preemptors.entry(preemptor.uid.clone()).or_default();
        known.priority = priority;
        known.preemptions.add(now);
        if let Some(before) = known.node.replace(node.clone()) {
            self.charge(before, priority, now);
        }
    }

    /// Discards the last preemption for this pod, because none of its victims could be evicted.
    pub fn call_off(&mut self, preemptor: &Uid) {
        if let Some(known) = self.preemptors.get_mut(preemptor) {
            known.preemptions.count = known.preemptions.count.saturating_sub(1);
            known.node = None;
        }
    }

    /// Forgets a pod that is no longer pending: it is bound, or gone. If it is gone, its last
    /// preemption counts as fruitless.
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

    /// Forgets a node that is gone, or on which a preemption led to a binding.
    pub fn forget_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    fn charge(&mut self, node: Arc<str>, priority: i32, now: Time) {
        let longest = self.longest_pause;
        self.nodes.retain(|_, known| now < known.preemptions.pause_ends(longest) + FORGOTTEN_AFTER);
        let fresh = Contested { priority, preemptions: Tally::default() };
        let known = self.nodes.entry(node).or_insert(fresh);
        known.priority = known.priority.max(priority);
        known.preemptions.add(now);
    }

    /// Records a trial of a group that does not fit, whatever pods are evicted. It costs as much as
    /// many decisions, so the fourth and later ones are followed by a pause.
    pub fn trial_failed(&mut self, group: &Uid, now: Time) {
        let longest = self.longest_pause;
        self.trials.retain(|_, known| now < known.pause_ends(longest) + FORGOTTEN_AFTER);
        self.trials.entry(group.clone()).or_default().add(now);
    }

    /// Forgets the trials of a group that was placed, or for which pods are evicted.
    pub fn forget_trials(&mut self, group: &Uid) {
        self.trials.remove(group);
    }

    /// Returns the pause in the trials of a group.
    pub fn pause_of_trials(&self, group: &Uid, now: Time) -> Option<Pause> {
        self.trials.get(group)?.pause(self.longest_pause, None, now)
    }

    /// Returns the pause of this pod, if it is paused.
    pub fn pause_of(&self, preemptor: &Uid, now: Time) -> Option<Pause> {
        self.preemptors.get(preemptor)?.preemptions.pause(self.longest_pause, None, now)
    }

    /// Whether the answer of a preemption for this pod may differ from that for another pod of its
    /// template: evictions were requested for it, or a node is paused for it.
    pub fn concern(&self, pod: &Pod, now: Time) -> bool {
        self.preemptors.contains_key(&pod.uid) || self.paused_nodes(pod, now).next().is_some()
    }

    /// Returns the nodes that are paused for this pod, by name, with their pauses.
    pub fn paused_nodes(
        &self,
        preemptor: &Pod,
        now: Time,
    ) -> impl Iterator<Item = (&Arc<str>, Pause)> {
        let priority = preemptor.priority();
        let contested = self.nodes.iter().filter(move |(_, known)| priority <= known.priority);
        contested.filter_map(move |(name, known)| {
            let pause = known.preemptions.pause(self.longest_pause, Some(name.clone()), now)?;
            Some((name, pause))
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

    /// Returns the nodes that are paused for a pod of this priority, with the end of the pause in
    /// seconds.
    fn paused(fruitless: &FruitlessPreemptions, priority: i32, now: i64) -> Vec<(String, i64)> {
        let pod = pod("other").priority(priority).build();
        let seconds = |time: Time| time.as_nanos() / 1_000_000_000;
        let nodes = fruitless.paused_nodes(&pod, at(now));
        nodes.map(|(name, pause)| (name.to_string(), seconds(pause.until))).collect()
    }

    /// Lets `times` pods of this priority preempt on `n`, one after the other, and deletes them.
    fn preempt_fruitlessly(
        fruitless: &mut FruitlessPreemptions,
        times: usize,
        priority: i32,
        now: i64,
    ) {
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
    fn pauses_end_at_the_longest_and_there_are_none_of_zero() {
        let (mut fruitless, preemptor) = (FruitlessPreemptions::default(), pod("p").build());
        for _ in 0..100 {
            fruitless.begin(&preemptor, &"n".into(), at(1));
        }
        let until = |fruitless: &FruitlessPreemptions| {
            fruitless.pause_of(&preemptor.uid, at(1)).map(|pause| pause.until)
        };
        assert_eq!(until(&fruitless), Some(at(301)));
        fruitless.set_longest_pause(Duration::MAX);
        assert_eq!(until(&fruitless), Some(Time::from_nanos(i64::MAX)));
        fruitless.set_longest_pause(Duration::ZERO);
        assert_eq!(until(&fruitless), None);
    }

    #[test]
    fn node_counts_preemptions_whose_preemptor_is_gone_or_preempts_again() {
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
            "a binding elsewhere does not clear the node"
        );
        fruitless.end(&preemptors[5].uid, Some("n"), at(6));
        assert_eq!(paused(&fruitless, 0, 6), [], "preemption works there");
    }

    #[test]
    fn paused_node_does_not_pause_more_important_pods() {
        let mut fruitless = FruitlessPreemptions::default();
        preempt_fruitlessly(&mut fruitless, 4, 100, 0);
        assert_eq!(paused(&fruitless, 100, 1).len(), 1);
        assert_eq!(paused(&fruitless, 101, 1), []);
        preempt_fruitlessly(&mut fruitless, 1, i32::MAX, 0);
        assert_eq!(
            paused(&fruitless, i32::MAX, 1),
            [("n".to_owned(), 20)],
            "more important pods failed too"
        );
        assert_eq!(paused(&fruitless, i32::MIN, 1).len(), 1);
    }

    #[test]
    fn node_is_forgotten_an_hour_after_its_pause_or_when_it_is_removed() {
        // The time of another preemption in seconds, and the pause that follows.
        for (now, pause) in [(9, 20), (HOUR + 9, 20), (HOUR + 10, 0)] {
            let mut fruitless = FruitlessPreemptions::default();
            preempt_fruitlessly(&mut fruitless, 4, 0, 0);
            preempt_fruitlessly(&mut fruitless, 1, 0, now);
            let ends = paused(&fruitless, 0, now).pop().map_or(now, |(_, end)| end);
            assert_eq!(ends - now, pause, "{now}");
        }
        let mut fruitless = FruitlessPreemptions::default();
        preempt_fruitlessly(&mut fruitless, 9, 0, 0);
        fruitless.forget_node("n");
        assert_eq!(paused(&fruitless, 0, 0), []);
    }

    #[test]
    fn preemption_that_was_called_off_does_not_count() {
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
