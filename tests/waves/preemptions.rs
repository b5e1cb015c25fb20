//! What must hold of every preemption, found out as plainly as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Engine;
use framework::{NodeIx, NominatedPods, Pod, Uid};
use serde_json::Value;

/// How many pods of each application may go: its PodDisruptionBudget has its name, and its pods are
/// all of one size, so that it does not matter which of them go.
pub(crate) struct Budgets {
    left: BTreeMap<String, i64>,
    /// Pods that go already.
    paid: BTreeSet<Uid>,
}

/// What a decision led to.
pub(crate) struct Preemption {
    /// For whom.
    pub(crate) preemptor: Arc<Pod>,
    /// Who was evicted.
    pub(crate) victims: Vec<Arc<Pod>>,
    /// How many of them a budget would have kept.
    pub(crate) violations: usize,
    /// The lowest priority for which some node would have room without its pods up to that priority,
    /// as far as budgets let them go.
    alternative: Option<i32>,
    /// A victim that could have stayed.
    superfluous: Option<Arc<Pod>>,
    /// Whether the pod fits once all less important pods that are ending have gone.
    makes_room: bool,
}

/// What is free on a node: milli-CPU, and bytes of memory.
#[derive(Clone, Copy)]
struct Room {
    cpu: i64,
    memory: i64,
}

impl Budgets {
    /// What the status of each budget says, and who is being evicted without being counted there.
    pub(crate) fn of<'a>(
        budgets: impl Iterator<Item = &'a Arc<Value>>,
        uncounted: &[Arc<Pod>],
    ) -> Self {
        let left = budgets.map(|budget| {
            let name = budget["metadata"]["name"].as_str().unwrap().to_owned();
            (name, budget["status"]["disruptionsAllowed"].as_i64().unwrap())
        });
        let mut left: BTreeMap<String, i64> = left.collect();
        for app in uncounted.iter().filter_map(|pod| pod.labels.get("app")) {
            left.entry(app.to_owned()).and_modify(|left| *left -= 1);
        }
        Self { left, paid: uncounted.iter().map(|pod| pod.uid.clone()).collect() }
    }

    /// Those of `pods` that may go, if they go in this order.
    fn let_go<'p>(&self, pods: impl Iterator<Item = &'p Arc<Pod>>) -> Vec<&'p Arc<Pod>> {
        let mut gone = BTreeMap::<&str, i64>::new();
        let may_go = |pod: &&'p Arc<Pod>| {
            let app = pod.labels.get("app").unwrap_or_default();
            let budget = self.left.get(app).filter(|_| !self.paid.contains(&pod.uid));
            budget.is_none_or(|left| {
                let gone = gone.entry(app).or_default();
                *gone += 1;
                *gone <= *left
            })
        };
        pods.filter(may_go).collect()
    }
}

impl Preemption {
    /// The evictions for `preemptor`. They have just been asked for: the victims are where they were.
    pub(crate) fn new(
        engine: &Engine,
        preemptor: Arc<Pod>,
        victims: &[Uid],
        budgets: &Budgets,
    ) -> Self {
        let placed = |uid| engine.cache().placed(uid).expect("its kubelet has not ended it yet");
        let node = placed(&victims[0]).node;
        let victims: Vec<_> = victims.iter().map(|uid| placed(uid).pod.clone()).collect();
        let violations = victims.len() - budgets.let_go(victims.iter()).len();

        let cluster = engine.cache().cluster();
        let nodes = cluster.nodes().iter();
        let alternatives =
            nodes.filter_map(|node| lowest_priority(engine, node, &preemptor, budgets));
        let alternative = alternatives.min();

        let now = Room::beside_nominated(engine, node, &preemptor);
        let after = now.with_all(victims.iter());
        let may_stay = |victim: &&Arc<Pod>| after.without(victim).suffices(&preemptor);
        let superfluous = victims.iter().find(may_stay).cloned();
        let ending = cluster.node(node).pods().filter(|pod| pod.terminating);
        let less_important = ending.filter(|pod| pod.priority() < preemptor.priority());
        let makes_room = now.with_all(less_important).suffices(&preemptor);
        Self { preemptor, victims, violations, alternative, superfluous, makes_room }
    }

    /// What must hold however few nodes were looked at.
    pub(crate) fn assert_right(&self) {
        let Self { preemptor, victims, violations, alternative, superfluous, .. } = self;
        let who = format!("{} evicts {:?}", preemptor.key, self.names());
        let are_less = victims.iter().all(|victim| victim.priority() < preemptor.priority());
        assert!(are_less, "{who}, which are as important");
        assert!(*violations == 0 || alternative.is_none(), "{who} against budgets");
        assert!(superfluous.is_none(), "{who}, and could do without {superfluous:?}");
        assert!(self.makes_room, "{who}, and does not fit then");
    }

    /// No node could make room with less important pods. Only so if every node was looked at.
    pub(crate) fn assert_no_less_important_victims_elsewhere(&self) {
        let highest = self.victims.iter().map(|victim| victim.priority()).max();
        let is_lowest = self.alternative.is_none() || highest <= self.alternative;
        assert!(is_lowest, "{} evicts {:?} of {highest:?}", self.preemptor.key, self.names());
    }

    fn names(&self) -> Vec<&str> {
        self.victims.iter().map(|victim| &*victim.key.name).collect()
    }
}

impl Room {
    /// What a node has left beside the pods that are nominated to it and come before `preemptor`.
    fn beside_nominated(engine: &Engine, node: NodeIx, preemptor: &Pod) -> Self {
        let view = engine.cache().cluster().node(node);
        let (all, used) = (view.allocatable(), view.requested());
        let room = Self { cpu: all.milli_cpu - used.milli_cpu, memory: all.memory - used.memory };
        let nominated = engine.nominator().nominated_to(view.name());
        let comes_before =
            |pod: &&Arc<Pod>| pod.priority() >= preemptor.priority() && pod.uid != preemptor.uid;
        nominated.iter().filter(comes_before).fold(room, |room, pod| room.without(pod))
    }

    /// With what a pod leaves behind.
    fn with(self, pod: &Pod) -> Self {
        let used = &pod.requests.placed;
        Self { cpu: self.cpu + used.milli_cpu, memory: self.memory + used.memory }
    }

    fn with_all<'a>(self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> Self {
        pods.fold(self, |room, pod| room.with(pod))
    }

    /// After a pod has taken its part.
    fn without(self, pod: &Pod) -> Self {
        let used = &pod.requests.placed;
        Self { cpu: self.cpu - used.milli_cpu, memory: self.memory - used.memory }
    }

    fn suffices(self, pod: &Pod) -> bool {
        let wanted = &pod.requests.fit;
        self.cpu >= wanted.milli_cpu && self.memory >= wanted.memory
    }
}

/// A pod that was just put on a node takes no room that is kept for another.
pub(crate) fn assert_takes_no_kept_room(engine: &Engine, pod: &Pod, node: &str) {
    let node = engine.cache().cluster().node_named(node).unwrap();
    let Room { cpu, memory } = Room::beside_nominated(engine, node, pod);
    assert!(cpu >= 0 && memory >= 0, "{} takes the room of a nominated pod", pod.key);
}

/// The lowest priority for which a node would have room without its pods up to that priority, as far
/// as budgets let them go.
fn lowest_priority(
    engine: &Engine,
    node: NodeIx,
    preemptor: &Pod,
    budgets: &Budgets,
) -> Option<i32> {
    let pods = engine.cache().cluster().node(node).pods();
    let mut may_go = budgets.let_go(pods.filter(|pod| pod.priority() < preemptor.priority()));
    may_go.sort_by_key(|pod| pod.priority());
    let mut room = Room::beside_nominated(engine, node, preemptor);
    let is_enough = may_go.iter().find(|pod| {
        room = room.with(pod);
        room.suffices(preemptor)
    });
    is_enough.map(|pod| pod.priority())
}
