//! Units: pods that are evicted together or not at all.

use std::cmp::Reverse;

use foldhash::HashMap;
use smallvec::{SmallVec, smallvec};

use crate::{
    BudgetIx, Cluster, NodeIx, Pod, PodGroupKey, PodGroupState, PodIx, SchedulingPolicy, Time,
};

/// Pods that are evicted together or not at all: those of a PodGroup with the disruption mode
/// `all`, or one pod.
#[derive(Debug)]
pub(super) struct Unit {
    /// The pods, at least one.
    pub(super) pods: SmallVec<[PodIx; 1]>,
    /// The order of importance, the most important first.
    pub(super) importance: Importance,
    /// Number of pods whose eviction violates a PodDisruptionBudget if all more important units
    /// are evicted too.
    pub(super) violations: usize,
}

/// The importance of a unit; the most important is the smallest. By priority, members of elastic
/// groups beyond their minimum last, groups before single pods, larger groups before smaller ones,
/// and then by the earliest start. Pods that started at the same time are ordered by their groups,
/// so that few groups lose pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Importance {
    priority: Reverse<i32>,
    is_surplus: bool,
    is_single: bool,
    members: Reverse<usize>,
    start: Time,
    /// The place of the PodGroup among those of all units; 0 without one.
    group: usize,
}

/// Which units may become victims.
#[derive(Clone, Copy)]
pub(super) struct Below<'a> {
    pub(super) cluster: &'a Cluster,
    /// The priority of the preemptor. Units of lower priority may become victims.
    pub(super) priority: i32,
    /// The group that gets the room, whose own pods are no candidates.
    pub(super) spared: Option<&'a PodGroupKey>,
    /// Whether the members that a gang needs are no candidates.
    pub(super) spares_minima: bool,
    /// The time at which a pod without a start time counts as started.
    pub(super) wall_time: Time,
}

impl Unit {
    /// Whether evicting the unit violates a PodDisruptionBudget.
    pub(super) const fn violates_budget(&self) -> bool {
        self.violations > 0
    }

    fn add(&mut self, ix: PodIx, pod: &Pod, wall_time: Time) {
        self.pods.push(ix);
        self.importance.members = Reverse(self.pods.len());
        self.importance.start = self.importance.start.min(start_of(pod, wall_time));
    }
}

/// Returns when a pod started; a pod that has not started counts as started at `wall_time`.
pub(super) fn start_of(pod: &Pod, wall_time: Time) -> Time {
    pod.start_time.get().unwrap_or(wall_time)
}

/// Returns the priority with which a pod is protected: that of its PodGroup, or its own.
pub(super) fn priority_of(cluster: &Cluster, pod: &Pod) -> i32 {
    let of_group = cluster.pod_group_of(pod).and_then(|(_, group)| group.priority);
    of_group.unwrap_or_else(|| pod.priority())
}

/// Whether a gang can do without this member: of those with a node it needs the oldest.
fn is_surplus(cluster: &Cluster, group: &PodGroupKey, member: PodIx, wall_time: Time) -> bool {
    let needed = cluster.pod_group(group).map_or(1, |own| own.min_count() as usize);
    let age = |ix: PodIx| (start_of(&cluster.pod(ix).pod, wall_time), ix);
    let members = cluster.pod_group_state(group).into_iter().flat_map(PodGroupState::scheduled);
    members.filter(|other| age(*other) < age(member)).count() >= needed
}

impl Below<'_> {
    /// Returns the units with pods on these nodes, in their order. A unit has all its pods in the
    /// cluster if `is_complete` is not set, and otherwise those on these nodes, which are all
    /// nodes.
    fn of(self, nodes: impl Iterator<Item = NodeIx>, is_complete: bool) -> Vec<Unit> {
        let Self { cluster, priority, spared, spares_minima, wall_time } = self;
        let mut units: Vec<Unit> = Vec::new();
        // Never iterated.
        let mut whole: HashMap<PodGroupKey, usize> = HashMap::default();
        // Never iterated.
        let mut places: HashMap<PodGroupKey, usize> = HashMap::default();
        for (ix, pod) in nodes.flat_map(|node| cluster.node(node).placed()) {
            let group = cluster.pod_group_of(pod);
            let of_group = group.as_ref().and_then(|(_, group)| group.priority);
            let own = of_group.unwrap_or_else(|| pod.priority());
            let is_own = spared.is_some() && group.as_ref().map(|(key, _)| key) == spared;
            if own >= priority || is_own {
                continue;
            }
            let is_needed = group.as_ref().is_some_and(|(key, group)| {
                matches!(group.policy, SchedulingPolicy::Gang { .. })
                    && !is_surplus(cluster, key, ix, wall_time)
            });
            if spares_minima && is_needed {
                continue;
            }
            let is_elastic = group.as_ref().is_some_and(|(_, group)| group.is_elastic);
            let is_single = group.is_none();
            let place = group.as_ref().map_or(0, |(key, _)| {
                let next = places.len() + 1;
                *places.entry(key.clone()).or_insert(next)
            });
            let key = group.filter(|(_, group)| group.is_disrupted_whole).map(|(key, _)| key);
            if let Some(known) = key.as_ref().and_then(|key| whole.get(key)) {
                if is_complete {
                    units[*known].add(ix, pod, wall_time);
                }
                continue;
            }
            let importance = Importance {
                priority: Reverse(own),
                is_surplus: is_elastic && !is_needed,
                is_single,
                members: Reverse(usize::from(!is_single)),
                start: start_of(pod, wall_time),
                group: place,
            };
            let mut unit = Unit { pods: smallvec![ix], importance, violations: 0 };
            if let Some(key) = key {
                if !is_complete {
                    let others = cluster.disrupted_together(pod).into_iter().flatten();
                    for other in others.filter(|other| *other != ix) {
                        unit.add(other, &cluster.pod(other).pod, wall_time);
                    }
                }
                whole.insert(key, units.len());
            }
            units.push(unit);
        }
        units
    }

    /// Returns the units with pods on a node. A unit has all its pods, also those on other nodes.
    pub(super) fn on(self, node: NodeIx) -> Vec<Unit> {
        self.of(std::iter::once(node), false)
    }

    /// Returns the units of the cluster.
    pub(super) fn everywhere(self) -> Vec<Unit> {
        self.of(self.cluster.nodes().iter(), true)
    }
}

/// Counts the pods of each unit whose eviction violates a PodDisruptionBudget if all units before
/// it are evicted too.
pub(super) fn mark_violations(cluster: &Cluster, units: &mut [Unit]) {
    let mut left: Vec<(BudgetIx, i64)> = Vec::new();
    for unit in units {
        for pod in &unit.pods {
            let mut violates = false;
            for (ix, budget) in cluster.disruption_budgets_of(*pod) {
                let place = left.iter().position(|(known, _)| *known == ix).unwrap_or_else(|| {
                    left.push((ix, budget.disruptions_left()));
                    left.len() - 1
                });
                left[place].1 -= 1;
                violates |= left[place].1 < 0;
            }
            unit.violations += usize::from(violates);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{PodBuilder, SetJson, cluster, node, pod};
    use crate::{ELASTIC_ANNOTATION, EventResource};

    /// Nodes `a` and `b`, the PodGroups `all` of priority 5 and `single` of priority 4, and pods.
    fn cluster_with(pods: impl IntoIterator<Item = PodBuilder>) -> Cluster {
        let nodes = ["a", "b"].map(|name| node(name).build());
        let mut built = cluster(nodes, []);
        built.count_pod_groups();
        for (name, priority) in [("all", 5), ("single", 4)] {
            let spec = json!({"priority": priority, "disruptionMode": {name: {}}});
            let object = json!({"metadata": {"name": name}, "spec": spec});
            let kind = EventResource::PodGroup;
            built.set_json(&kind, "default", name, Some(object.into()));
        }
        for pod in pods.into_iter().map(PodBuilder::build) {
            let node = pod.node_name.clone().unwrap();
            built.place_pod(pod.into(), &node);
        }
        built
    }

    fn names(cluster: &Cluster, units: Vec<Unit>) -> Vec<String> {
        let name = |ix: &PodIx| cluster.pod(*ix).pod.key.name.to_string();
        let names = |unit: &Unit| unit.pods.iter().map(name).collect::<Vec<_>>().join(" ");
        units.iter().map(names).collect()
    }

    fn of(name: &str, group: &str, node: &str) -> PodBuilder {
        pod(name).scheduling_group(group).on(node)
    }

    const fn below(cluster: &Cluster, priority: i32) -> Below<'_> {
        let (spared, spares_minima, wall_time) = (None, false, Time::from_secs(100));
        Below { cluster, priority, spared, spares_minima, wall_time }
    }

    #[test]
    fn pods_of_a_group_that_is_disrupted_whole_are_one_unit_on_all_nodes() {
        let pods = [
            pod("p").on("a"),
            of("g1", "all", "a"),
            of("s1", "single", "a"),
            of("g2", "all", "a"),
            of("g3", "all", "b"),
            of("s2", "single", "b"),
        ];
        let cluster = cluster_with(pods);
        let own = below(&cluster, 10);
        let a = cluster.node_named("a").unwrap();
        assert_eq!(names(&cluster, own.on(a)), ["p", "g1 g2 g3", "s1"]);
        let everywhere = names(&cluster, own.everywhere());
        assert_eq!(everywhere, ["p", "g1 g2 g3", "s1", "s2"]);
        let spared = PodGroupKey::new("default", "single");
        let others = Below { spared: Some(&spared), ..own }.everywhere();
        assert_eq!(names(&cluster, others), ["p", "g1 g2 g3"]);
    }

    #[test]
    fn pod_is_protected_by_the_priority_of_its_group() {
        let cluster = cluster_with([of("s", "single", "a").priority(100), pod("p").on("a")]);
        assert_eq!(names(&cluster, below(&cluster, 4).everywhere()), ["p"]);
        assert_eq!(names(&cluster, below(&cluster, 5).everywhere()), ["s", "p"]);
        let priority = |pod: PodBuilder| priority_of(&cluster, &pod.build());
        assert_eq!(priority(of("x", "all", "a")), 5);
        assert_eq!(priority(of("x", "unknown", "a").priority(7)), 7);
    }

    #[test]
    fn units_are_ordered_by_priority_then_groups_then_size_then_start() {
        let pods = [
            pod("late").priority(4).started(9).on("a"),
            pod("early").priority(4).started(1).on("a"),
            of("single", "single", "a"),
            of("g1", "all", "b"),
            of("g2", "all", "b"),
            pod("top").priority(6).on("b"),
            pod("unstarted").priority(4).on("b"),
        ];
        let cluster = cluster_with(pods);
        let mut units = below(&cluster, 10).everywhere();
        units.sort_by_key(|unit| unit.importance);
        let expected = ["top", "g1 g2", "single", "early", "late", "unstarted"];
        assert_eq!(names(&cluster, units), expected);
    }

    #[test]
    fn pods_of_one_group_are_together_if_they_started_at_once() {
        let pods = [("s1", "single", "a"), ("o1", "other", "a"), ("s2", "single", "b")];
        let mut cluster = cluster_with(pods.map(|(name, group, node)| of(name, group, node)));
        let object = json!({"metadata": {"name": "other"}, "spec": {"priority": 4}});
        cluster.set_json(&EventResource::PodGroup, "default", "other", Some(object.into()));
        let mut units = below(&cluster, 10).everywhere();
        units.sort_by_key(|unit| unit.importance);
        assert_eq!(names(&cluster, units), ["s1", "s2", "o1"]);
    }

    #[test]
    fn members_of_an_elastic_gang_beyond_its_minimum_go_first_and_needed_members_can_be_spared() {
        let pods = [
            of("s1", "all", "a").started(1),
            of("g1", "gang", "a").started(2),
            of("g2", "gang", "b").started(3),
            of("g3", "gang", "b").started(4),
            pod("p").priority(5).started(5).on("b"),
        ];
        let mut cluster = cluster_with(pods);
        let object = json!({
            "metadata": {"name": "gang", "annotations": {ELASTIC_ANNOTATION: "true"}},
            "spec": {"priority": 5, "schedulingPolicy": {"gang": {"minCount": 2}}},
        });
        cluster.set_json(&EventResource::PodGroup, "default", "gang", Some(object.into()));
        let mut units = below(&cluster, 10).everywhere();
        units.sort_by_key(|unit| unit.importance);
        assert_eq!(names(&cluster, units), ["s1", "g1", "g2", "p", "g3"]);
        let own = Below { spares_minima: true, ..below(&cluster, 10) };
        assert_eq!(names(&cluster, own.everywhere()), ["s1", "g3", "p"]);
        assert!(cluster.runs_beyond_minimum(&PodGroupKey::new("default", "gang")));
        assert!(!cluster.runs_beyond_minimum(&PodGroupKey::new("default", "all")));
    }

    #[test]
    fn unit_violates_a_budget_if_the_units_before_it_use_it_up() {
        let of_budget = |pod: PodBuilder| pod.label("app", "web");
        let pods = [
            of_budget(of("g1", "all", "a")),
            of_budget(of("g2", "all", "b")),
            of_budget(pod("p").on("a")),
            pod("free").on("a"),
        ];
        let mut cluster = cluster_with(pods);
        let budget = json!({
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 1},
        });
        let kind = EventResource::PodDisruptionBudget;
        cluster.set_json(&kind, "default", "web", Some(budget.into()));
        let mut units = below(&cluster, 10).everywhere();
        units.sort_by_key(|unit| unit.importance);
        mark_violations(&cluster, &mut units);
        let violations: Vec<usize> = units.iter().map(|unit| unit.violations).collect();
        assert_eq!(violations, [1, 1, 0]);
    }
}
