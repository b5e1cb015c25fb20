//! Invariants of every preemption, checked naively.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Engine;
use framework::{NodeIx, NominatedPods, Pod, Uid};
use serde_json::Value;

/// Allowed disruptions of each application. Its PodDisruptionBudget has its name, and its pods have
/// one size, so their choice does not matter.
pub(crate) struct Budgets {
    left: BTreeMap<String, i64>,
    /// Terminating pods.
    paid: BTreeSet<Uid>,
}

/// The preemption of a decision.
pub(crate) struct Preemption {
    /// The preemptor.
    pub(crate) preemptor: Arc<Pod>,
    /// The victims.
    pub(crate) victims: Vec<Arc<Pod>>,
    /// Number of victims that a budget protects.
    pub(crate) violations: usize,
    /// The lowest priority `p` for which some node has room once its pods of priority `p` and lower
    /// are gone, within the budgets.
    alternative: Option<i32>,
    /// A victim that was not needed.
    superfluous: Option<Arc<Pod>>,
    /// Whether the pod fits once all less important terminating pods are gone.
    makes_room: bool,
}

/// Free resources of a node: milli-CPU, and bytes of memory.
#[derive(Clone, Copy)]
struct Room {
    cpu: i64,
    memory: i64,
}

impl Budgets {
    /// Returns the allowed disruptions by the status of each budget, less the evictions that the
    /// status does not count yet.
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

    /// Returns those of `pods` that the budgets allow to evict, in this order.
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
    /// Returns the preemption of `preemptor`. The evictions were only requested: the victims are
    /// still on their nodes.
    pub(crate) fn new(
        engine: &Engine,
        preemptor: Arc<Pod>,
        victims: &[Uid],
        budgets: &Budgets,
    ) -> Self {
        let placed = |uid| engine.world().placed(uid).expect("its kubelet has not ended it yet");
        let node = placed(&victims[0]).node;
        let victims: Vec<_> = victims.iter().map(|uid| placed(uid).pod.clone()).collect();
        let violations = victims.len() - budgets.let_go(victims.iter()).len();

        let cluster = engine.cluster();
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

    /// Checks the invariants that hold for any number of candidates.
    pub(crate) fn assert_right(&self) {
        let Self { preemptor, victims, violations, alternative, superfluous, .. } = self;
        let who = format!("{} evicts {:?}", preemptor.key, self.names());
        let are_less = victims.iter().all(|victim| victim.priority() < preemptor.priority());
        assert!(are_less, "{who}, which are as important");
        assert!(*violations == 0 || alternative.is_none(), "{who} against budgets");
        assert!(superfluous.is_none(), "{who}, and could do without {superfluous:?}");
        assert!(self.makes_room, "{who}, and does not fit then");
    }

    /// Checks that no node makes room with less important pods. Holds only if every node is a
    /// candidate.
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
    /// Returns the free resources of a node, minus the nominated pods that precede `preemptor`.
    fn beside_nominated(engine: &Engine, node: NodeIx, preemptor: &Pod) -> Self {
        let view = engine.cluster().node(node);
        let (all, used) = (view.allocatable(), view.requested());
        let room = Self { cpu: all.milli_cpu - used.milli_cpu, memory: all.memory - used.memory };
        let nominated = engine.nominator().nominated_to(view.name());
        let comes_before =
            |pod: &&Arc<Pod>| pod.priority() >= preemptor.priority() && pod.uid != preemptor.uid;
        nominated.iter().filter(comes_before).fold(room, |room, pod| room.without(pod))
    }

    /// Adds the resources of a pod.
    fn with(self, pod: &Pod) -> Self {
        let used = &pod.requests.placed;
        Self { cpu: self.cpu + used.milli_cpu, memory: self.memory + used.memory }
    }

    fn with_all<'a>(self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> Self {
        pods.fold(self, |room, pod| room.with(pod))
    }

    /// Subtracts the resources of a pod.
    fn without(self, pod: &Pod) -> Self {
        let used = &pod.requests.placed;
        Self { cpu: self.cpu - used.milli_cpu, memory: self.memory - used.memory }
    }

    fn suffices(self, pod: &Pod) -> bool {
        let wanted = &pod.requests.fit;
        self.cpu >= wanted.milli_cpu && self.memory >= wanted.memory
    }
}

/// Checks that a pod that was just placed uses no room of nominated pods.
pub(crate) fn assert_takes_no_kept_room(engine: &Engine, pod: &Pod, node: &str) {
    let node = engine.cluster().node_named(node).unwrap();
    let Room { cpu, memory } = Room::beside_nominated(engine, node, pod);
    assert!(cpu >= 0 && memory >= 0, "{} takes the room of a nominated pod", pod.key);
}

/// Returns the lowest priority such that a node has room without its pods up to that priority,
/// within the budgets.
fn lowest_priority(
    engine: &Engine,
    node: NodeIx,
    preemptor: &Pod,
    budgets: &Budgets,
) -> Option<i32> {
    let pods = engine.cluster().node(node).pods();
    let mut may_go = budgets.let_go(pods.filter(|pod| pod.priority() < preemptor.priority()));
    may_go.sort_by_key(|pod| pod.priority());
    let mut room = Room::beside_nominated(engine, node, preemptor);
    let is_enough = may_go.iter().find(|pod| {
        room = room.with(pod);
        room.suffices(preemptor)
    });
    is_enough.map(|pod| pod.priority())
}
