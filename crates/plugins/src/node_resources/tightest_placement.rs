//! TightestPlacement: prefers the placement of a PodGroup that leaves the largest block of nodes
//! whole. No profile has it unless it enables it.
//!
//! Placements are measured in pods like those of the group, by their requests. The best one is the
//! smallest that holds the group; among equal ones the one with the least room left, and then the
//! one in which the group is in the fewest domains of the narrowest level that it prefers.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    Cluster, Handle, LevelWish, MAX_NODE_SCORE, NodeIx, PlacedGroup, PlacementScore, Plugin,
    PluginArgs, Pod, PodGroupKey, Prospect, ProspectiveGroup, Status,
};

use super::fit::{Need, needs_of};
use super::{Basis, Column, Usage};

/// Plugin name.
pub const NAME: &str = "TightestPlacement";

/// Maximum number of different requests of members by which placements are measured.
const MAX_REQUESTS: usize = 8;

/// The TightestPlacement plugin.
#[derive(Debug)]
pub struct TightestPlacement;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let plugin = Plugin::new(NAME, TightestPlacement).placement_score().no_events();
    Ok(plugin.decides_by_template().build())
}

/// The measures of a placement, those that count most first. Less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tightness {
    /// Number of pods that it takes when it is empty, summed over the requests of the group.
    size: u64,
    /// Number of pods that it takes beside those on it.
    left: u64,
    /// Number of domains that the group is in beyond the first.
    domains: u64,
}

impl Tightness {
    /// Returns the measures with the room for other pods added.
    const fn with(self, size: u64, left: u64) -> Self {
        let Self { size: own, left: own_left, domains } = self;
        Self { size: own.saturating_add(size), left: own_left.saturating_add(left), domains }
    }

    /// Returns the score: the higher, the better. Beyond 33 million pods and 4,096 domains
    /// placements count as equal.
    fn score(self) -> i64 {
        let part = |value: u64, bits: u32| value.min((1 << bits) - 1);
        let measure = (part(self.size, 25) << 37) | (part(self.left, 25) << 12);
        i64::MAX - i64::try_from(measure | part(self.domains, 12)).unwrap_or(i64::MAX)
    }
}

/// The pods with equal requests among the members of a group.
struct Like<'a> {
    pod: &'a Pod,
    count: u64,
    /// What such a pod needs, and the amounts on all nodes; `None` if no node has the resource.
    needs: Vec<(Need, Option<Column<'a>>)>,
}

impl<'a> Like<'a> {
    fn all(members: &'a [Arc<Pod>], cluster: &'a Cluster) -> Vec<Self> {
        let mut all = Vec::<Self>::new();
        for pod in members {
            match all.iter().position(|own| own.pod.requests == pod.requests) {
                Some(place) => all[place].count += 1,
                None if all.len() < MAX_REQUESTS => {
                    let needs = needs_of(&pod.requests).map(|need| {
                        let column = need.resource.column(cluster, Basis::Requested);
                        (need, column)
                    });
                    all.push(Self { pod, count: 1, needs: needs.collect() });
                }
                None => {}
            }
        }
        all
    }

    /// Returns how many such pods fit on nodes that are empty, and on the nodes as they are.
    fn rooms(&self, nodes: &[NodeIx]) -> [u64; 2] {
        nodes.iter().fold([0, 0], |rooms: [u64; 2], node| {
            let [size, left] = self.room(*node);
            [rooms[0].saturating_add(size), rooms[1].saturating_add(left)]
        })
    }

    fn room(&self, node: NodeIx) -> [u64; 2] {
        let mut room = [i64::MAX; 2];
        for (need, column) in &self.needs {
            let usage = column.map_or_else(Usage::default, |column| column.usage(node));
            let taken = need.resource.of(&self.pod.requests.placed);
            let empty = Usage { requested: 0, ..usage };
            room[0] = room[0].min(need.most_in(empty, taken));
            room[1] = room[1].min(need.most_in(usage, taken));
        }
        room.map(|room| u64::try_from(room).unwrap_or(0))
    }

    /// Returns by how many such pods the room of a node shrinks at most for another pod.
    fn shrinks_for(&self, other: &Pod) -> u64 {
        let of_need = |(need, _): &(Need, _)| {
            let amount = |pod: &Pod| u64::try_from(need.resource.of(&pod.requests.placed));
            match [other, self.pod].map(|pod| amount(pod).unwrap_or(0)) {
                [0, _] => 0,
                [_, 0] => u64::MAX,
                [other, own] => other.div_ceil(own),
            }
        };
        self.needs.iter().map(of_need).max().unwrap_or(0)
    }
}

/// Returns the number of domains beyond the first that the members with a node are in, of the
/// narrowest level if the group wants few of them.
fn domains_beyond_first(group: &PodGroupKey, cluster: &Cluster) -> u64 {
    let levels = cluster.topology_of_group(group).ok();
    let wants_few = |wish| matches!(wish, LevelWish::Preferred | LevelWish::Blocks(_));
    let narrowest = levels.and_then(|own| own.last()).filter(|level| wants_few(level.wish));
    let topology = narrowest.and_then(|level| cluster.topology(&level.key));
    let (Some(topology), Some(state)) = (topology, cluster.pod_group_state(group)) else {
        return 0;
    };
    let domains = state.scheduled().filter_map(|own| topology.domain_of(cluster.pod(own).node));
    let domains = domains.collect::<BTreeSet<_>>().len();
    u64::try_from(domains.saturating_sub(1)).unwrap_or(u64::MAX)
}

impl PlacementScore for TightestPlacement {
    fn placement_score(&self, placed: PlacedGroup<'_>, handle: &Handle<'_>) -> Result<i64, Status> {
        let domains = domains_beyond_first(placed.group, handle.cluster);
        let mut measure = Tightness { size: 0, left: 0, domains };
        for like in Like::all(placed.members, handle.cluster) {
            let [size, left] = like.rooms(&placed.placement.nodes);
            measure = measure.with(size, left);
        }
        Ok(measure.score())
    }

    /// The score as if all members were placed, and in one domain.
    fn placement_score_limits(
        &self,
        group: ProspectiveGroup<'_>,
        handle: &Handle<'_>,
    ) -> Option<Vec<i64>> {
        let likes = Like::all(group.members, handle.cluster);
        let counted: u64 = likes.iter().map(|own| own.count).sum();
        let are_all = u64::try_from(group.members.len()) == Ok(counted);
        let shrinks = likes.iter().map(|own| {
            let by = |other: &Like<'_>| own.shrinks_for(other.pod).saturating_mul(other.count);
            let by_all = likes.iter().map(by).fold(0, u64::saturating_add);
            if are_all { by_all } else { u64::MAX }
        });
        let likes: Vec<_> = likes.iter().zip(shrinks).collect();
        let limit = |own: &Prospect| {
            let mut measure = Tightness { size: 0, left: 0, domains: 0 };
            for (like, shrinks) in &likes {
                let [size, left] = like.rooms(&own.placement.nodes);
                measure = measure.with(size, left.saturating_sub(*shrinks));
            }
            measure.score()
        };
        Some(group.prospects.iter().map(limit).collect())
    }

    fn limits_are_local(&self) -> bool {
        true
    }

    /// The best gets 100, and each other one a point less for each that is better. So the order
    /// stays, whatever the sizes are.
    fn normalize_placement_scores(&self, scores: &mut [i64]) -> Result<(), Status> {
        let mut sorted = scores.to_vec();
        let most = usize::try_from(MAX_NODE_SCORE).unwrap_or(0).min(sorted.len());
        if most < sorted.len() {
            sorted.select_nth_unstable_by(most, |one, other| other.cmp(one));
            sorted.truncate(most);
        }
        sorted.sort_unstable_by(|one, other| other.cmp(one));
        for score in scores {
            let better = sorted.partition_point(|other| other > score);
            *score = MAX_NODE_SCORE - i64::try_from(better).unwrap_or(MAX_NODE_SCORE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use framework::{EventResource, GroupPlacement, Node};
    use proptest::prelude::*;
    use serde_json::json;
    use testkit::{handle, node, object, pod};

    use super::*;

    /// A node of a rack with so many CPUs and GiB.
    fn rack_node(name: &str, rack: &str, cpu: u32, memory: u32) -> Node {
        let own = node(name).label("rack", rack).allocatable("cpu", &cpu.to_string());
        own.allocatable("memory", &format!("{memory}Gi")).allocatable("pods", "20").build()
    }

    fn member(name: &str, cpu: u32, memory: u32) -> Arc<Pod> {
        let own = pod(name).scheduling_group("g").cpu(&cpu.to_string());
        Arc::new(own.memory(&format!("{memory}Gi")).build())
    }

    fn placement(cluster: &Cluster, nodes: &[&str]) -> Arc<GroupPlacement> {
        let nodes = nodes.iter().map(|name| cluster.node_named(name).unwrap());
        Arc::new(GroupPlacement { name: nodes.len().to_string().into(), nodes: nodes.collect() })
    }

    fn score(cluster: &Cluster, placement: &GroupPlacement, members: &[Arc<Pod>]) -> i64 {
        let group = &PodGroupKey::new("default", "g");
        let placed = PlacedGroup { group, placement, members };
        TightestPlacement.placement_score(placed, &handle(cluster)).unwrap()
    }

    fn limit(cluster: &Cluster, placement: Arc<GroupPlacement>, members: &[Arc<Pod>]) -> i64 {
        let group = &PodGroupKey::new("default", "g");
        let prospects = &[Prospect { placement, most: 0 }];
        let group = ProspectiveGroup { group, members, prospects };
        TightestPlacement.placement_score_limits(group, &handle(cluster)).unwrap()[0]
    }

    #[test]
    fn smallest_placement_is_the_best_then_the_fullest_then_that_with_the_fewest_domains() {
        let mut cluster = Cluster::default();
        cluster.count_pod_groups();
        let levels = json!({"loadmaster.io/topology": "zone required, rack preferred"});
        let metadata = json!({"namespace": "default", "name": "g", "annotations": levels});
        cluster.set_object(object(EventResource::PodGroup, json!({"metadata": metadata})));
        for name in ["a1", "a2", "b1", "b2", "c1", "c2", "c3"] {
            cluster.set_node(&rack_node(name, &name[..2], 4, 64));
        }
        cluster.place_pod(pod("x").cpu("1").on("b1").build().into(), "b1");
        cluster.place_pod(pod("y").cpu("6").on("c1").build().into(), "c1");
        let members = [member("m", 1, 1), member("n", 1, 1)];
        let score_in = |cluster: &mut Cluster, nodes: &[&str], on: [&str; 2]| {
            let pairs = members.iter().zip(on);
            let placed = pairs.map(|(own, node)| cluster.place_pod(own.clone(), node));
            let placed: Vec<_> = placed.collect();
            let placement = placement(cluster, nodes);
            let score = score(cluster, &placement, &members);
            placed.into_iter().for_each(|own| drop(cluster.remove_pod(own)));
            score
        };
        let large = score_in(&mut cluster, &["c1", "c2", "c3"], ["c2", "c2"]);
        let empty = score_in(&mut cluster, &["a1", "a2"], ["a1", "a1"]);
        let fuller = score_in(&mut cluster, &["b1", "b2"], ["b1", "b1"]);
        let divided = score_in(&mut cluster, &["b1", "b2"], ["b1", "b2"]);
        let mut scores = [large, empty, fuller, divided];
        assert!(large < empty && empty < divided && divided < fuller, "{scores:?}");
        TightestPlacement.normalize_placement_scores(&mut scores).unwrap();
        assert_eq!(scores, [97, 98, 100, 99]);
    }

    #[test]
    fn scores_beyond_the_hundredth_are_zero() {
        let mut scores: Vec<i64> = (0..300).rev().collect();
        TightestPlacement.normalize_placement_scores(&mut scores).unwrap();
        let expected: Vec<i64> = (0..300).map(|better| (100 - better).max(0)).collect();
        assert_eq!(scores, expected);
        let mut equal = vec![7; 200];
        TightestPlacement.normalize_placement_scores(&mut equal).unwrap();
        assert_eq!(equal, vec![100; 200]);
    }

    /// The number of pods of a kind that can be put on a node, one after the other.
    fn fill(mut cpu: u32, mut memory: u32, kind: (u32, u32), mut slots: u32) -> u64 {
        let mut count = 0;
        while slots > 0 && kind.0 <= cpu && kind.1 <= memory {
            (cpu, memory, slots, count) = (cpu - kind.0, memory - kind.1, slots - 1, count + 1);
        }
        count
    }

    proptest! {
        /// The order of placements is that of their measures, counted by filling nodes, and no
        /// placing of some members exceeds the limit.
        #[test]
        fn scores_order_placements_like_a_naive_count(
            nodes in prop::collection::vec((0_usize..3, 1_u32..9, 1_u32..9, 0_u32..4, 0_u32..4), 3..9),
            kinds in prop::collection::vec((0_u32..4, 0_u32..4), 1..4),
            placing in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 1..8),
        ) {
            let mut cluster = Cluster::default();
            cluster.count_pod_groups();
            // Free CPUs, GiB and slots of each node.
            let mut free = Vec::new();
            for (number, (rack, cpu, memory, used_cpu, used_memory)) in nodes.iter().enumerate() {
                let (name, rack) = (format!("n{number}"), format!("r{rack}"));
                cluster.set_node(&rack_node(&name, &rack, *cpu, *memory));
                let used = ((*used_cpu).min(*cpu), (*used_memory).min(*memory));
                let filler = pod(&format!("x{number}")).cpu(&used.0.to_string());
                let filler = filler.memory(&format!("{}Gi", used.1)).on(&name);
                cluster.place_pod(filler.build().into(), &name);
                free.push((cpu - used.0, memory - used.1, 19));
            }
            let members: Vec<_> = (0..placing.len()).map(|number| {
                let (cpu, memory) = kinds[number % kinds.len()];
                member(&format!("m{number}"), cpu, memory)
            }).collect();
            let racks = [0, 1, 2].map(|rack| {
                let own = (0..nodes.len()).filter(|number| nodes[*number].0 == rack);
                own.collect::<Vec<usize>>()
            });
            let placements = racks.each_ref().map(|rack| {
                let names: Vec<String> = rack.iter().map(|number| format!("n{number}")).collect();
                placement(&cluster, &names.iter().map(String::as_str).collect::<Vec<_>>())
            });
            let limits = placements.each_ref().map(|own| limit(&cluster, own.clone(), &members));
            let mut placed = [0; 3];
            for (number, place) in placing.iter().enumerate() {
                let Some(node) = place.map(|place| place.index(nodes.len())) else { continue };
                let (cpu, memory) = kinds[number % kinds.len()];
                let own = &mut free[node];
                if own.0 >= cpu && own.1 >= memory && own.2 > 0 {
                    *own = (own.0 - cpu, own.1 - memory, own.2 - 1);
                    cluster.place_pod(members[number].clone(), &format!("n{node}"));
                    placed[nodes[node].0] += 1;
                }
            }
            let mut distinct: Vec<(u32, u32)> = Vec::new();
            for kind in kinds.iter().take(members.len()) {
                if !distinct.contains(kind) {
                    distinct.push(*kind);
                }
            }
            let naive = racks.each_ref().map(|rack| {
                let mut sums = (0, 0);
                for (number, kind) in rack.iter().flat_map(|own| distinct.iter().map(move |kind| (*own, *kind))) {
                    let (cpu, memory, slots) = free[number];
                    sums.0 += fill(nodes[number].1, nodes[number].2, kind, 20);
                    sums.1 += fill(cpu, memory, kind, slots);
                }
                sums
            });
            let scores = placements.each_ref().map(|own| score(&cluster, own, &members));
            for one in 0..3 {
                for other in 0..3 {
                    let expected = naive[other].cmp(&naive[one]);
                    prop_assert_eq!(scores[one].cmp(&scores[other]), expected, "{:?}", naive);
                }
                prop_assert!(scores[one] <= limits[one], "rack {}: {:?}", one, naive);
                if distinct.len() == 1 && placed[one] == members.len() {
                    prop_assert_eq!(scores[one], limits[one], "the limit is reached");
                }
            }
        }
    }
}
