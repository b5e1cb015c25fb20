//! Groups that are placed by several levels of a topology.

use std::collections::BTreeMap;

use framework::{
    Division, DomainLabel, GroupPlacements, Handle, LevelDivision, LevelPlacement,
    PlacementGenerate, Plugin, PodGroupKey, Status,
};
use proptest::prelude::*;
use testkit::{node, pod};

use crate::harness::*;
use crate::pod_group_placements::cpu_plugin;
use crate::pod_groups::{conditions, gang_plugin, member, places, pod_group};

/// Proposes the same rules for every group.
struct Rules(Vec<LevelPlacement>);

impl PlacementGenerate for Rules {
    fn placement_generate(
        &self,
        _: &PodGroupKey,
        _: &Handle<'_>,
    ) -> Result<GroupPlacements, Status> {
        Ok(GroupPlacements::Levels(self.0.clone()))
    }
}

fn rule(keys: &[&str], division: Option<(&str, Division)>) -> LevelPlacement {
    let label = |key: &&str| DomainLabel { key: (*key).into(), value: None };
    LevelPlacement {
        within: keys.iter().map(label).collect(),
        division: division.map(|(key, division)| LevelDivision { key: key.into(), division }),
    }
}

/// A node for each zone and rack, with room for so many members.
fn world_with(rules: Vec<LevelPlacement>, rooms: &[(usize, usize, u32)]) -> World {
    let rules = Plugin::new("Rules", Rules(rules)).placement_generate().no_events().build();
    let setup = Setup::new([]).plugin(gang_plugin()).plugin(cpu_plugin()).plugin(rules);
    let mut world = setup.pod_groups().build();
    for (number, (zone, rack, cpu)) in rooms.iter().enumerate() {
        let node = node(&format!("n{number}")).allocatable("cpu", &cpu.to_string());
        let node =
            node.label("zone", &format!("z{zone}")).label("rack", &format!("z{zone}r{rack}"));
        world.node(node.allocatable("pods", "50"));
    }
    world
}

fn gang(world: &mut World, members: usize) {
    pod_group(world, "g", u32::try_from(members).unwrap());
    (0..members).for_each(|number| world.pod(member("g", number).cpu("1")));
}

/// The number of members in each domain of a label.
fn counts(world: &World, key: &str, members: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let cluster = world.engine.cluster();
    for number in 0..members {
        let node = world.node_of(&format!("g{number}"));
        if let Some(node) = node.and_then(|node| cluster.node_named(&node)) {
            let topology = cluster.topology(key).unwrap();
            let value = topology.value(topology.domain_of(node).unwrap());
            *counts.entry(value.to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn preferred_rack_gives_way_to_few_racks_of_the_required_zone() {
    let rules =
        || vec![rule(&["zone", "rack"], None), rule(&["zone"], Some(("rack", Division::Few)))];
    let rooms = [(0, 0, 2), (0, 1, 4), (0, 2, 3), (0, 3, 2), (1, 0, 5)];
    let mut world = world_with(rules(), &rooms);
    gang(&mut world, 5);
    world.run();
    assert_eq!(counts(&world, "rack", 5), BTreeMap::from([("z1r0".to_owned(), 5)]));
    let mut world = world_with(rules(), &rooms);
    gang(&mut world, 6);
    world.run();
    let expected = [("z0r0".to_owned(), 2), ("z0r1".to_owned(), 4)];
    assert_eq!(
        counts(&world, "rack", 6),
        BTreeMap::from(expected),
        "the last rack is the smallest"
    );
}

#[test]
fn member_that_is_replaced_returns_to_the_block_that_lacks_one() {
    let rules = vec![rule(&[], Some(("rack", Division::Blocks(2))))];
    let mut world = world_with(rules, &[(0, 0, 2), (0, 1, 2), (0, 2, 2)]);
    gang(&mut world, 4);
    world.run();
    let before = counts(&world, "rack", 4);
    assert_eq!(before.values().copied().collect::<Vec<_>>(), [2, 2]);
    world.delete("g2");
    world.pod(member("g", 2).cpu("1"));
    world.run();
    assert_eq!(counts(&world, "rack", 4), before);
}

#[test]
fn block_that_fits_nowhere_says_what_is_missing() {
    let rules = vec![rule(&["zone"], Some(("rack", Division::Blocks(3))))];
    let mut world = world_with(rules, &[(0, 0, 3), (0, 1, 2), (0, 2, 1)]);
    gang(&mut world, 6);
    world.run();
    let text = "g False Unschedulable: pod group is unschedulable, 0/1 placements are available, \
                the closest is \"z0\", where 3 of 6 pods fit: 0/1 nodes are available: 1 \
                Insufficient cpu";
    assert_eq!(conditions(&world), [text]);
    assert_eq!(places(&world, "g", 6), ["unschedulable"; 6]);
}

#[test]
fn group_over_too_few_zones_waits() {
    let rules = vec![rule(&[], Some(("zone", Division::Over(3))))];
    let mut world = world_with(rules, &[(0, 0, 4), (1, 0, 4), (2, 0, 1)]);
    world.pod(pod("x").cpu("1").on("n2"));
    gang(&mut world, 4);
    world.run();
    let text = "g False Unschedulable: pod group is unschedulable, pods fit in 2 domains of \
                \"zone\", and 3 are asked for";
    assert_eq!(conditions(&world), [text]);
    world.delete("x");
    world.run_for(3);
    assert_eq!(counts(&world, "zone", 4).len(), 3);
}

/// Whether blocks of this size fit in racks with these rooms.
fn blocks_fit(rooms: &[u32], members: u32, size: u32) -> bool {
    let (whole, rest) = (members / size, members % size);
    let fitting: u32 = rooms.iter().map(|room| room / size).sum();
    let spare = rooms.iter().any(|room| room % size >= rest);
    fitting > whole || (fitting == whole && (rest == 0 || spare))
}

proptest! {
    /// A checker of its own: capacity, levels, and whether equal members fit at all.
    #[test]
    fn levels_are_kept_and_groups_that_fit_are_placed(
        rooms in prop::collection::vec((0_usize..3, 0_usize..3, 0_u32..6), 1..10),
        members in 2_usize..10,
        wish in 0_usize..4,
        size in 1_u32..5,
        in_zone in any::<bool>(),
    ) {
        let division = match wish {
            0 => None,
            1 => Some(("rack", Division::Few)),
            2 => Some(("rack", Division::Blocks(size))),
            _ => Some(("rack", Division::Over(size))),
        };
        let keys: &[&str] = if in_zone { &["zone"] } else { &[] };
        let mut world = world_with(vec![rule(keys, division)], &rooms);
        gang(&mut world, members);
        world.attempt();

        let mut racks: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for (zone, rack, cpu) in &rooms {
            *racks.entry((if in_zone { *zone } else { 0 }, zone * 3 + rack)).or_default() += cpu;
        }
        let count = u32::try_from(members).unwrap();
        let fits = (0..3).any(|zone| {
            let own = racks.iter().filter(|((own, _), _)| *own == zone);
            let own: Vec<u32> = own.map(|(_, room)| *room).collect();
            let has_room = own.iter().sum::<u32>() >= count;
            has_room && match wish {
                2 => blocks_fit(&own, count, size),
                3 => own.iter().filter(|room| **room > 0).count() >= size as usize && count >= size,
                _ => true,
            }
        });
        let used = counts(&world, "rack", members);
        let placed: usize = used.values().sum();
        prop_assert_eq!(placed, if fits { members } else { 0 });
        if !fits {
            return Ok(());
        }
        let zones = counts(&world, "zone", members);
        prop_assert!(!in_zone || zones.len() == 1, "{:?}", zones);
        for (name, count) in &used {
            let room: u32 = rooms.iter().filter(|(zone, rack, _)| format!("z{zone}r{rack}") == *name)
                .map(|(_, _, cpu)| *cpu).sum();
            prop_assert!(*count <= room as usize);
        }
        match wish {
            2 => {
                let whole: usize = used.values().map(|count| count / size as usize).sum();
                prop_assert_eq!(whole, members / size as usize, "{:?}", used);
            }
            3 => prop_assert!(used.len() >= size as usize, "{:?}", used),
            1 => {
                let zone = zones.keys().next().cloned().unwrap_or_default();
                let own = racks.iter().filter(|((own, _), _)| !in_zone || format!("z{own}") == zone);
                let mut own: Vec<u32> = own.map(|(_, room)| *room).collect();
                own.sort_unstable_by(|one, other| other.cmp(one));
                let mut sum = 0;
                let least = own.iter().take_while(|room| {
                    let is_needed = sum < count;
                    sum += **room;
                    is_needed
                });
                prop_assert_eq!(used.len(), least.count(), "{:?}", used);
            }
            _ => {}
        }
    }
}
