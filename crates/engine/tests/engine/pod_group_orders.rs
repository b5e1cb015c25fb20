//! Groups that fit in another order than that of the queue.

use engine::GroupSearch;
use framework::{ActionType, Pod, api};
use proptest::prelude::*;
use testkit::{PodBuilder, node};

use crate::harness::*;
use crate::pod_groups::{conditions, gang_plugin, member, places, pod_group};

/// Rejects nodes on which a pod has the same label `apart`.
fn apart() -> Fake {
    fake("Apart").on(pod_event(ActionType::DELETE)).filter(|pod, node| {
        let own = pod.labels.get("apart");
        let is_alike = |other: &Pod| own.is_some() && other.labels.get("apart") == own;
        if node.pods().any(|other| is_alike(other)) { no("apart") } else { yes() }
    })
}

/// Accepts only nodes on which a pod has the label `role` that the label `near` names.
fn near() -> Fake {
    fake("Near").on(pod_event(ActionType::ADD)).filter(|pod, node| {
        let Some(wanted) = pod.labels.get("near") else { return yes() };
        let is_meant = |other: &Pod| other.labels.get("role") == Some(wanted);
        if node.pods().any(|other| is_meant(other)) { yes() } else { no("not near") }
    })
}

/// Accepts only the node that the label `on` names.
fn on() -> Fake {
    fake("On").no_events().filter(|pod, node| match pod.labels.get("on") {
        Some(name) if *name != **node.name() => no("another node"),
        _ => yes(),
    })
}

fn setup() -> Setup {
    Setup::new([fit(), apart(), near(), on()]).plugin(gang_plugin()).pod_groups()
}

/// A world with nodes of these cpus.
fn world_with(setup: Setup, nodes: &[u32]) -> World {
    let mut world = setup.build();
    for (number, cpu) in nodes.iter().enumerate() {
        let node = node(&format!("n{number}")).allocatable("cpu", &cpu.to_string());
        world.node(node.allocatable("pods", "10"));
    }
    world
}

fn sized(number: usize, cpu: u32) -> PodBuilder {
    member("g", number).cpu(&cpu.to_string())
}

/// A member that needs another one on its node.
fn near_to(number: usize, role: &str) -> PodBuilder {
    let affinity = api::Affinity { pod_affinity: Some(Default::default()), ..Default::default() };
    member("g", number).label("near", role).with(|pod| pod.spec.affinity = Some(affinity))
}

#[test]
fn large_member_that_comes_last_fails_no_group() {
    let mut world = world_with(setup(), &[4, 3]);
    pod_group(&mut world, "g", 3);
    [1, 2, 4].iter().enumerate().for_each(|(number, cpu)| world.pod(sized(number, *cpu)));
    world.run();
    assert_eq!(places(&world, "g", 3), ["placed"; 3]);
    assert_eq!(world.node_of("g2").as_deref(), Some("n0"), "the largest one has the larger node");
}

#[test]
fn member_with_one_node_fails_no_group() {
    let mut world = world_with(setup(), &[2, 2]);
    pod_group(&mut world, "g", 2);
    world.pod(sized(0, 2));
    world.pod(sized(1, 1).label("on", "n0"));
    world.run();
    assert_eq!(places(&world, "g", 2), ["placed"; 2]);
    assert_eq!(world.node_of("g0").as_deref(), Some("n1"));
}

#[test]
fn member_moves_so_that_the_others_are_near() {
    let mut world = world_with(setup(), &[1, 3]);
    pod_group(&mut world, "g", 3);
    (0..2).for_each(|number| world.pod(near_to(number, "leader").cpu("1")));
    world.pod(sized(2, 1).label("role", "leader"));
    world.run();
    let nodes = (0..3).map(|number| world.node_of(&format!("g{number}")).unwrap());
    assert_eq!(nodes.collect::<Vec<_>>(), ["n1"; 3]);
}

#[test]
fn message_names_the_orders_when_the_steps_are_used_up() {
    let search = GroupSearch { steps_per_attempt: 4, steps: 6, steps_per_second: 1 };
    let mut world = world_with(setup().group_search(search), &[3, 3, 3]);
    pod_group(&mut world, "g", 5);
    [1, 2, 2, 2, 3].iter().enumerate().for_each(|(number, cpu)| world.pod(sized(number, *cpu)));
    world.attempt();
    let text = "g False Unschedulable: pod group is unschedulable, 4 of 5 fit, the order of the \
                queue, largest first, most constrained first and backtracking were tried until its \
                steps were used up, pod g4 does not fit: 0/3 nodes are available: 3 Insufficient \
                cpu";
    world.run();
    assert_eq!(conditions(&world), [text]);
    assert_eq!(places(&world, "g", 5), ["unschedulable"; 5]);
}

#[test]
fn group_for_which_too_few_steps_were_left_is_tried_again() {
    let search = GroupSearch { steps_per_attempt: 40, steps: 40, steps_per_second: 10 };
    let mut world = world_with(setup().group_search(search), &[4, 3]);
    for group in ["a", "g"] {
        pod_group(&mut world, group, 3);
    }
    // This group fits nowhere, and uses up the steps.
    for (number, cpu) in [1, 2, 5].iter().enumerate() {
        world.pod(member("a", number).cpu(&cpu.to_string()).priority(1));
    }
    world.attempt();
    [1, 2, 4].iter().enumerate().for_each(|(number, cpu)| world.pod(sized(number, *cpu)));
    world.run_for(20);
    assert_eq!(places(&world, "g", 3), ["placed"; 3]);
}

/// A member: its cpu, its label `apart` if not 0, and the number of the only node that it accepts.
type Wanted = (u32, u32, Option<usize>);

fn pod_of(number: usize, wanted: &Wanted) -> PodBuilder {
    let (cpu, apart, only) = wanted;
    let pod = sized(number, *cpu);
    let pod = if *apart == 0 { pod } else { pod.label("apart", &apart.to_string()) };
    only.map_or(pod.clone(), |only| pod.label("on", &format!("n{only}")))
}

/// Whether enough of the members fit, by trying all places of all of them.
fn fits(free: &mut [(u32, Vec<u32>)], wanted: &[Wanted], needed: usize) -> bool {
    if needed == 0 {
        return true;
    }
    let Some(((cpu, apart, only), others)) = wanted.split_first() else { return false };
    if needed > wanted.len() {
        return false;
    }
    for place in 0..free.len() {
        let is_meant = only.is_none_or(|only| only == place);
        if !is_meant || free[place].0 < *cpu || free[place].1.contains(apart) {
            continue;
        }
        free[place].0 -= cpu;
        if *apart > 0 {
            free[place].1.push(*apart);
        }
        let found = fits(free, others, needed - 1);
        free[place].0 += cpu;
        if *apart > 0 {
            free[place].1.pop();
        }
        if found {
            return true;
        }
    }
    fits(free, others, needed)
}

proptest! {
    /// A group of up to eight members that fits is found, with the default budget.
    #[test]
    fn groups_that_fit_are_found(
        nodes in prop::collection::vec(1_u32..8, 1..6),
        wanted in prop::collection::vec(
            (1_u32..5, prop_oneof![3 => Just(0_u32), 1 => 1_u32..3], prop::option::weighted(0.2, 0_usize..5)),
            2..9,
        ),
        left_out in prop_oneof![3 => Just(0_usize), 1 => 1_usize..3],
    ) {
        let needed = wanted.len().saturating_sub(left_out).max(1);
        let mut world = world_with(setup(), &nodes);
        pod_group(&mut world, "g", u32::try_from(needed).unwrap());
        for (number, wanted) in wanted.iter().enumerate() {
            world.pod(pod_of(number, wanted));
        }
        world.attempt();
        let placed = (0..wanted.len()).filter(|number| world.node_of(&format!("g{number}")).is_some());
        let placed = placed.count();
        let mut free: Vec<(u32, Vec<u32>)> = nodes.iter().map(|cpu| (*cpu, Vec::new())).collect();
        prop_assert!(placed == 0 || placed >= needed, "{placed} of {needed}");
        prop_assert_eq!(placed > 0, fits(&mut free, &wanted, needed));
    }
}
