//! PodGroups, and the pods that belong to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object::Indexed;
use super::object_state::ObjectState;
use super::{Cluster, PodIx};
use api::{
    EventResource, ObjectKey, Pod, PodGroup, PodGroupKey, PodGroupSource, TopologyLevel, Uid,
};

/// The PodGroups, and the members of each group, whether or not its PodGroup exists.
#[derive(Debug, Clone, Default)]
pub(super) struct PodGroups {
    /// Whether members are counted.
    counts: bool,
    objects: BTreeMap<PodGroupKey, Arc<PodGroup>>,
    /// Number of PodGroups of which other nodes decide who is evicted: their pods are evicted
    /// together, or those beyond the minimum first.
    across_nodes: usize,
    /// None is empty.
    states: BTreeMap<PodGroupKey, PodGroupState>,
}

/// The members of a group. A pod that is assumed on a node is both pending and scheduled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodGroupState {
    members: BTreeMap<Uid, Member>,
    scheduled: u32,
    /// The topologies that members ask for, and how many ask for each.
    topologies: Vec<(Topology, u32)>,
}

/// The levels that a pod [asks for](api::PodSpec::pod_set_topology).
type Topology = Arc<[TopologyLevel]>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Member {
    is_pending: bool,
    placed: Option<PodIx>,
    topology: Option<Topology>,
}

impl PodGroupState {
    /// Number of members, with and without a node.
    pub fn all_count(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Number of members that run on a node or are assumed there.
    pub const fn scheduled_count(&self) -> u32 {
        self.scheduled
    }

    /// Number of members that the watch shows on a node.
    pub fn bound_count(&self) -> u32 {
        u32::try_from(self.bound().count()).unwrap_or(u32::MAX)
    }

    /// Returns the members that the watch shows on a node, by UID.
    pub fn bound(&self) -> impl Iterator<Item = PodIx> {
        self.members.values().filter(|own| !own.is_pending).filter_map(|own| own.placed)
    }

    /// Returns the members that run on a node or are assumed there, by UID.
    pub fn scheduled(&self) -> impl Iterator<Item = PodIx> {
        self.members.values().filter_map(|member| member.placed)
    }

    /// Returns the levels of a topology that the members ask for.
    ///
    /// # Errors
    /// The members disagree.
    pub fn topology(&self) -> Result<&[TopologyLevel], Arc<str>> {
        match &self.topologies[..] {
            [] => Ok(&[]),
            [(only, count)] if *count == self.all_count() => Ok(only),
            several => {
                let asking: u32 = several.iter().map(|(_, count)| count).sum();
                let text = |(levels, count): &(Topology, u32)| {
                    let levels: Vec<_> = levels.iter().map(ToString::to_string).collect();
                    format!("{count} ask for {:?}", levels.join(", "))
                };
                let mut texts: Vec<String> = several.iter().map(text).collect();
                texts.sort_unstable();
                texts.extend(match self.all_count() - asking {
                    0 => None,
                    others => Some(format!("{others} for none")),
                });
                let about = "the pods of the group disagree about the topology";
                Err(format!("{about}: {}", texts.join(", ")).into())
            }
        }
    }

    fn change(&mut self, pod: &Pod, change: impl FnOnce(&mut Member)) {
        let member = self.members.entry(pod.uid.clone()).or_default();
        let (was_scheduled, before) = (member.placed.is_some(), member.topology.take());
        change(member);
        self.scheduled -= u32::from(was_scheduled);
        self.scheduled += u32::from(member.placed.is_some());
        if member.is_pending || member.placed.is_some() {
            member.topology.clone_from(&pod.spec.pod_set_topology);
        } else {
            self.members.remove(&pod.uid);
        }
        let after = self.members.get(&pod.uid).and_then(|member| member.topology.clone());
        if before != after {
            self.count_topologies(before, after);
        }
    }

    fn count_topologies(&mut self, before: Option<Topology>, after: Option<Topology>) {
        for (topology, is_new) in [(before, false), (after, true)] {
            let Some(topology) = topology else { continue };
            match self.topologies.iter_mut().find(|own| own.0 == topology) {
                Some(own) if is_new => own.1 += 1,
                Some(own) => own.1 -= 1,
                None => self.topologies.push((topology, 1)),
            }
        }
        self.topologies.retain(|(_, count)| *count > 0);
    }
}

impl PodGroups {
    /// Adds a PodGroup, or removes it.
    pub(super) fn set(&mut self, object: Indexed<'_>) {
        let ObjectState::PodGroup(group) = object.state else { return };
        let key = pod_group_key(object.key);
        let present = object.present(group);
        let reads_others = |group: &Arc<PodGroup>| group.is_disrupted_whole || group.is_elastic;
        self.across_nodes += usize::from(present.as_ref().is_some_and(reads_others));
        let before = match present {
            Some(group) => self.objects.insert(key, group),
            None => self.objects.remove(&key),
        };
        self.across_nodes -= usize::from(before.as_ref().is_some_and(reads_others));
    }

    /// Notes the id under which a member is placed, or that it has no node.
    pub(super) fn set_placed(&mut self, pod: &Pod, placed: Option<PodIx>) {
        self.change(pod, |member| member.placed = placed);
    }

    fn change(&mut self, pod: &Pod, change: impl FnOnce(&mut Member)) {
        if !self.counts {
            return;
        }
        let Some(key) = pod.pod_group() else { return };
        let state = self.states.entry(key.clone()).or_default();
        state.change(pod, change);
        if state.members.is_empty() {
            self.states.remove(&key);
        }
    }
}

/// Returns the key of a PodGroup by the key of its object.
pub fn pod_group_key(object: &ObjectKey) -> PodGroupKey {
    let source = match object.kind {
        EventResource::Custom(_) => PodGroupSource::Coscheduling,
        _ => PodGroupSource::Kubernetes,
    };
    PodGroupKey { namespace: object.namespace.clone(), name: object.name.clone(), source }
}

/// PodGroups.
impl Cluster {
    /// Returns the PodGroup of this key.
    pub fn pod_group(&self, key: &PodGroupKey) -> Option<&Arc<PodGroup>> {
        self.pod_groups.objects.get(key)
    }

    /// Returns the levels of a topology that a group asks for, the widest first: those of its
    /// PodGroup, or else those that its members ask for by annotations of Kueue.
    ///
    /// # Errors
    /// The annotation of the PodGroup cannot be read, or the members disagree.
    pub fn topology_of_group(&self, key: &PodGroupKey) -> Result<&[TopologyLevel], Arc<str>> {
        let Some(group) = self.pod_group(key) else { return Ok(&[]) };
        match (&group.topology, self.pod_group_state(key)) {
            (Err(text), _) => Err(text.clone()),
            (Ok(levels), Some(state)) if levels.is_empty() => state.topology(),
            (Ok(levels), _) => Ok(levels),
        }
    }

    /// Returns the PodGroups of both APIs by their keys.
    pub fn pod_groups(&self) -> impl Iterator<Item = (&PodGroupKey, &Arc<PodGroup>)> {
        self.pod_groups.objects.iter()
    }

    /// Whether the group is elastic and as many of its members as it needs have a node.
    pub fn runs_beyond_minimum(&self, group: &PodGroupKey) -> bool {
        let needed = self.pod_group(group).filter(|own| own.is_elastic).map(|own| own.min_count());
        let state = self.pod_group_state(group);
        needed.is_some_and(|needed| state.is_some_and(|own| own.scheduled_count() >= needed))
    }

    /// Returns the PodGroup that a pod belongs to; `None` if there is none, or if members are not
    /// counted.
    pub fn pod_group_of(&self, pod: &Pod) -> Option<(PodGroupKey, &Arc<PodGroup>)> {
        if !self.pod_groups.counts || self.pod_groups.objects.is_empty() {
            return None;
        }
        let key = pod.pod_group()?;
        let group = self.pod_group(&key)?;
        Some((key, group))
    }

    /// Returns the members with a node of the group that a pod belongs to, if they are evicted
    /// together or not at all.
    pub fn disrupted_together(&self, pod: &Pod) -> Option<impl Iterator<Item = PodIx>> {
        let (key, group) = self.pod_group_of(pod)?;
        let state = self.pod_group_state(&key).filter(|_| group.is_disrupted_whole)?;
        Some(state.scheduled())
    }

    /// Whether there are groups of which pods on other nodes decide who is evicted on a node.
    pub const fn disrupts_groups_across_nodes(&self) -> bool {
        self.pod_groups.counts && self.pod_groups.across_nodes > 0
    }

    /// Counts the members of groups from now on.
    pub fn count_pod_groups(&mut self) {
        self.pod_groups.counts = true;
    }

    /// Returns the members of a group; `None` if it has none, or if members are not counted.
    pub fn pod_group_state(&self, key: &PodGroupKey) -> Option<&PodGroupState> {
        self.pod_groups.states.get(key)
    }

    /// Notes whether a pod waits for a node or for its bind to be seen. Ignores a pod without a
    /// group.
    pub fn set_pending_member(&mut self, pod: &Pod, is_pending: bool) {
        self.pod_groups.change(pod, |member| member.is_pending = is_pending);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;
    use crate::testing::{node, pod};

    fn counts(cluster: &Cluster) -> (u32, u32) {
        let state = cluster.pod_group_state(&PodGroupKey::new("default", "g"));
        state.map_or((0, 0), |state| (state.all_count(), state.scheduled_count()))
    }

    #[test]
    fn members_are_counted_once_whatever_is_known_of_them() {
        let mut cluster = Cluster::default();
        cluster.count_pod_groups();
        cluster.set_node(&node("n").build());
        let member = |name| Arc::new(pod(name).scheduling_group("g").build());
        let (a, b) = (member("a"), member("b"));
        cluster.set_pending_member(&a, true);
        cluster.set_pending_member(&b, true);
        assert_eq!(counts(&cluster), (2, 0));
        let placed = cluster.place_pod(a.clone(), "n");
        assert_eq!(counts(&cluster), (2, 1), "a is assumed");
        cluster.set_pending_member(&a, false);
        assert_eq!(counts(&cluster), (2, 1), "a is bound");
        let placing = cluster.place_pod_tentatively(b.clone(), "n");
        assert_eq!(counts(&cluster), (2, 2));
        let state = cluster.pod_group_state(&PodGroupKey::new("default", "g")).unwrap();
        let members = state.scheduled().map(|member| &cluster.pod(member).pod.uid);
        assert!(members.eq([&a.uid, &b.uid]));
        cluster.undo_placing(placing);
        cluster.set_pending_member(&b, false);
        cluster.remove_pod(placed);
        assert_eq!(counts(&cluster), (0, 0));
        assert!(cluster.pod_groups.states.is_empty());
    }

    #[test]
    fn topology_of_members_is_that_of_their_group_if_they_agree() {
        let mut cluster = Cluster::default();
        cluster.count_pod_groups();
        cluster.set_node(&node("n").build());
        let member = |name: &str, rack: Option<&str>| {
            let with = |pod: &mut api::api::Pod| {
                let key = "kueue.x-k8s.io/podset-required-topology".to_owned();
                pod.metadata.annotations.extend(rack.map(|rack| (key, rack.to_owned())));
            };
            Arc::new(pod(name).scheduling_group("g").with(with).build())
        };
        let group = PodGroupKey::new("default", "g");
        let topology = |cluster: &Cluster| {
            let levels = cluster.topology_of_group(&group).map_err(|text| text.to_string())?;
            Ok::<_, String>(levels.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (a, b, c) = (member("a", Some("rack")), member("b", Some("rack")), member("c", None));
        let placed = cluster.place_pod(a.clone(), "n");
        cluster.set_pending_member(&b, true);
        assert_eq!(topology(&cluster), Ok(vec![]), "there is no PodGroup");
        let key = ObjectKey::namespaced(EventResource::PodGroup, "default".into(), "g".into());
        let set = |cluster: &mut Cluster, spec| {
            cluster.set_object(Object::decode(key.clone(), json!({"spec": spec})).unwrap());
        };
        set(&mut cluster, json!({}));
        assert_eq!(topology(&cluster), Ok(vec!["rack required".to_owned()]));
        cluster.set_pending_member(&c, true);
        let text = "the pods of the group disagree about the topology: 2 ask for \"rack \
                    required\", 1 for none";
        assert_eq!(topology(&cluster), Err(text.to_owned()));
        cluster.set_pending_member(&c, false);
        cluster.set_pending_member(&member("b", Some("zone")), true);
        let text = "the pods of the group disagree about the topology: 1 ask for \"rack \
                    required\", 1 ask for \"zone required\"";
        assert_eq!(topology(&cluster), Err(text.to_owned()), "b has changed");
        cluster.remove_pod(placed);
        assert_eq!(topology(&cluster), Ok(vec!["zone required".to_owned()]));
        set(&mut cluster, json!({"schedulingConstraints": {"topology": [{"key": "own"}]}}));
        assert_eq!(topology(&cluster), Ok(vec!["own required".to_owned()]));
    }

    #[test]
    fn pod_groups_of_both_apis_are_found_by_their_key() {
        let mut cluster = Cluster::default();
        let mut add = |kind: EventResource, spec| {
            let key = ObjectKey::namespaced(kind, "default".into(), "g".into());
            cluster.set_object(Object::decode(key.clone(), json!({"spec": spec})).unwrap());
            key
        };
        let own =
            add(EventResource::PodGroup, json!({"schedulingPolicy": {"gang": {"minCount": 3}}}));
        let custom = EventResource::Custom(api::COSCHEDULING_POD_GROUPS.into());
        add(custom, json!({"minMember": 5}));
        let count = |cluster: &Cluster, source| {
            let key = PodGroupKey { source, ..PodGroupKey::new("default", "g") };
            cluster.pod_group(&key).map(|group| group.min_count())
        };
        assert_eq!(count(&cluster, PodGroupSource::Kubernetes), Some(3));
        assert_eq!(count(&cluster, PodGroupSource::Coscheduling), Some(5));
        cluster.remove_object(&own);
        assert_eq!(count(&cluster, PodGroupSource::Kubernetes), None);
    }
}
