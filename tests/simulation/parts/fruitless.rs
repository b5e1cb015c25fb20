//! Preemptions that lead to no binding, alone: the pauses of pods and nodes, against a log of all
//! that has happened.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::preemption::FruitlessPreemptions;
use framework::{Pod, Time};
use testkit::pod;

use super::super::rules::{Checked, rule};

const NODES: [&str; 2] = ["a", "b"];
const PODS: [(&str, i32); 4] = [("p", 0), ("q", 1), ("r", 1), ("s", 2)];

/// Number of preemptions after which no pause follows.
const FREE: u32 = 3;
/// The first pause. Each further preemption doubles it.
const FIRST: Duration = Duration::from_secs(10);
/// Time after its pause after which a node is forgotten.
const FORGOTTEN: Duration = Duration::from_hours(1);

/// What happens to a preemptor or a node.
#[derive(Debug, Clone)]
enum Event {
    Begins { pod: usize, node: &'static str },
    IsCalledOff { pod: usize },
    Ends { pod: usize, node: Option<&'static str> },
    NodeIsGone(&'static str),
}

/// The log, and the longest pause.
struct Model {
    log: Vec<(Time, Event)>,
    longest: Duration,
}

/// Lives through one history.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut fruitless = FruitlessPreemptions::default();
    let longest = Duration::from_secs([0, 15, 300][random.usize(..3)]);
    fruitless.set_longest_pause(longest);
    let pods = PODS.map(|(name, priority)| pod(name).priority(priority).build());
    let mut model = Model { log: Vec::new(), longest };
    let mut now = Time::from_secs(1000);
    for _ in 0..random.usize(5..30) {
        now = now + Duration::from_secs([0, 1, 10, 40, 3600][random.usize(..5)]);
        let (pod, node) = (random.usize(..PODS.len()), NODES[random.usize(..NODES.len())]);
        let event = match random.u8(..20) {
            0..13 => Event::Begins { pod, node },
            13 | 14 => Event::IsCalledOff { pod },
            15..17 => Event::Ends { pod, node: None },
            17 | 18 => Event::Ends { pod, node: Some(node) },
            _ => Event::NodeIsGone(node),
        };
        trace.push(format!("{now}: {event:?}"));
        match event {
            Event::Begins { pod, node } => fruitless.begin(&pods[pod], &node.into(), now),
            Event::IsCalledOff { pod } => fruitless.call_off(&pods[pod].uid),
            Event::Ends { pod, node } => fruitless.end(&pods[pod].uid, node, now),
            Event::NodeIsGone(node) => fruitless.forget_node(node),
        }
        model.log.push((now, event));
        let seen = now + Duration::from_secs(random.u64(..30));
        pods.iter()
            .enumerate()
            .try_for_each(|(number, pod)| model.compare(&fruitless, number, pod, seen))?;
    }
    Ok(())
}

impl Model {
    fn compare(
        &self,
        fruitless: &FruitlessPreemptions,
        number: usize,
        pod: &Pod,
        now: Time,
    ) -> Checked {
        let preemptions = self.preemptions_of(number);
        let own = preemptions.and_then(|(count, last)| self.pause(count, last, now));
        let found = fruitless.pause_of(&pod.uid, now);
        let found = found.map(|pause| (pause.preemptions, pause.until));
        rule(own == found, || format!("{} pauses for {found:?}, not {own:?}", pod.key))?;
        let nodes: Vec<_> = NODES
            .iter()
            .filter_map(|node| {
                let (count, last, priority) = self.preemptions_on(node);
                let pause = self.pause(count, last, now)?;
                (pod.priority() <= priority).then(|| (Arc::from(*node), pause))
            })
            .collect();
        let found: Vec<(Arc<str>, _)> = fruitless
            .paused_nodes(pod, now)
            .map(|(node, pause)| (node.clone(), (pause.preemptions, pause.until)))
            .collect();
        rule(nodes == found, || format!("{found:?} pause for {}, not {nodes:?}", pod.key))?;
        let concerns = preemptions.is_some() || !nodes.is_empty();
        rule(fruitless.concern(pod, now) == concerns, || {
            format!("{} is concerned: {}", pod.key, !concerns)
        })
    }

    /// Returns the pause after so many preemptions.
    fn pause(&self, count: u32, last: Time, now: Time) -> Option<(u32, Time)> {
        let mut pause = FIRST;
        (0..count.checked_sub(FREE + 1)?)
            .for_each(|_| pause = (pause * 2).min(Duration::from_hours(2)));
        let until = last + pause.min(self.longest);
        (now < until).then_some((count, until))
    }

    /// Returns the number of preemptions for a pod that is still pending, and the time of the last
    /// one.
    fn preemptions_of(&self, pod: usize) -> Option<(u32, Time)> {
        let mut own: Option<(u32, Time)> = None;
        for (at, event) in &self.log {
            match event {
                Event::Begins { pod: other, .. } if *other == pod => {
                    let (count, _) = own.unwrap_or((0, *at));
                    own = Some((count + 1, *at));
                }
                Event::IsCalledOff { pod: other } if *other == pod => {
                    own = own.map(|(count, last)| (count.saturating_sub(1), last));
                }
                Event::Ends { pod: other, .. } if *other == pod => own = None,
                _ => {}
            }
        }
        own
    }

    /// Returns the number of preemptions on a node that are known to be fruitless, the time of the
    /// last one, and their highest priority.
    fn preemptions_on(&self, node: &str) -> (u32, Time, i32) {
        let mut own = (0, Time::ZERO, i32::MIN);
        for (place, (at, event)) in self.log.iter().enumerate() {
            let before = match event {
                Event::Begins { pod, .. } | Event::Ends { pod, .. } => {
                    self.last_node(*pod, place).map(|last| (*pod, last))
                }
                _ => None,
            };
            // Another preemption anywhere makes a node forget what is long over.
            let charged = match (event, before) {
                (Event::Begins { .. } | Event::Ends { node: None, .. }, Some(charged)) => charged,
                (Event::Ends { node: Some(bound_to), .. }, Some((_, last)))
                    if last == *bound_to && last == node =>
                {
                    own = (0, Time::ZERO, i32::MIN);
                    continue;
                }
                (Event::NodeIsGone(gone), _) if *gone == node => {
                    own = (0, Time::ZERO, i32::MIN);
                    continue;
                }
                _ => continue,
            };
            let (count, last, _) = own;
            let end = self.pause(count, last, last).map_or(last, |(_, until)| until);
            if *at >= end + FORGOTTEN {
                own = (0, Time::ZERO, i32::MIN);
            }
            let (pod, last) = charged;
            if last == node {
                let (count, _, priority) = own;
                own = (count + 1, *at, priority.max(PODS[pod].1));
            }
        }
        own
    }

    /// Returns the node of the last preemption of a pod before a place in the log, unless it was
    /// called off.
    fn last_node(&self, pod: usize, place: usize) -> Option<&'static str> {
        let mut last = None;
        for (_, event) in &self.log[..place] {
            match event {
                Event::Begins { pod: other, node } if *other == pod => last = Some(*node),
                Event::IsCalledOff { pod: other } | Event::Ends { pod: other, .. }
                    if *other == pod =>
                {
                    last = None;
                }
                _ => {}
            }
        }
        last
    }
}
