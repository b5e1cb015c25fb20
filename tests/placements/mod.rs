//! Groups in racks with the plugins of the default profile: the answer is that of trying each rack
//! alone.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, GroupSearch, Input, TieBreak};
use framework::{EventResource, NodeIx, PluginGates, Pod, Time};
use plugins::catalogue;
use proptest::prelude::*;
use serde_json::json;
use testkit::{node, pod};

const NOW: Time = Time::from_secs(1000);

/// An engine with the gates of groups on.
struct Scheduler(Engine);

impl Scheduler {
    fn new(tie_break: TieBreak) -> Self {
        let gates = PluginGates { generic_workload: true, ..PluginGates::default() };
        let registry = plugins::registry().with_gates(gates);
        let reference = |entry: &catalogue::Entry| PluginRef::new(entry.name, entry.default_weight);
        let defaults: Vec<PluginRef> = catalogue::ALL.iter().map(reference).collect();
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            ..SchedulerProfile::default()
        };
        let profiles = Profiles::build(&[profile], &defaults, &registry, false).unwrap();
        // A rack in which the members fit in another order alone is no rival.
        let group_search = GroupSearch { steps_per_attempt: 0, ..GroupSearch::default() };
        let config = EngineConfig { tie_break, seed: 7, ..EngineConfig::new(profiles) };
        Self(Engine::new(EngineConfig { group_search, ..config }))
    }

    fn step(&mut self, input: Input) {
        self.0.step(input, NOW, &mut Ports { extenders: &mut (), probe: &mut () });
    }

    fn apply(&mut self, change: Change) {
        self.step(Input::Change(change));
    }

    /// The nodes of the group's members that have one, by name of the member.
    fn nodes(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let cluster = self.0.cluster();
        let members = cluster.pods().filter(|placed| placed.pod.pod_group().is_some());
        let node = |node| cluster.node_name(node).clone();
        members.map(|own| (own.pod.key.name.clone(), node(own.node))).collect()
    }

    /// The rack of a node.
    fn rack(&self, node: &str) -> Option<String> {
        let cluster = self.0.cluster();
        let topology = cluster.topology(RACK)?;
        let rack = topology.domain_of(cluster.node_named(node)?)?;
        Some(topology.value(rack).to_string())
    }

    /// The raw scores of a rack: the share that is requested, and the number of members.
    fn scores(&self, rack: &str) -> (i64, i64) {
        let cluster = self.0.cluster();
        let nodes: Vec<NodeIx> = cluster.with_label(RACK, rack).unwrap().iter().collect();
        let share = |all: &[i64], requested: &[i64]| {
            let sum = |column: &[i64]| nodes.iter().map(|node| column[node.index()]).sum::<i64>();
            100 * sum(requested).min(sum(all)) / sum(all)
        };
        let (all, requested) = (cluster.allocatable(), cluster.non_zero_requested());
        let cpu = share(&all.milli_cpu, &requested.milli_cpu);
        let memory = share(&all.memory, &requested.memory);
        (i64::midpoint(cpu, memory), i64::try_from(self.nodes().len()).unwrap())
    }
}

const RACK: &str = "rack";

#[derive(Debug, Clone)]
struct Place {
    rack: usize,
    cpu: u32,
    memory: u32,
    used: u32,
    is_tainted: bool,
}

#[derive(Debug, Clone)]
struct Member {
    cpu: u32,
    memory: u32,
    /// Keeps away from the members on its node that do, too.
    is_apart: bool,
    port: Option<i32>,
}

fn place() -> impl Strategy<Value = Place> {
    (0_usize..5, 1_u32..5, 1_u32..5, 0_u32..3, prop::bool::weighted(0.1)).prop_map(
        |(rack, cpu, memory, used, is_tainted)| Place { rack, cpu, memory, used, is_tainted },
    )
}

fn member() -> impl Strategy<Value = Member> {
    (1_u32..3, 1_u32..3, prop::bool::weighted(0.3), prop::option::weighted(0.2, 80_i32..82))
        .prop_map(|(cpu, memory, is_apart, port)| Member { cpu, memory, is_apart, port })
}

/// Schedules a gang. With `only` no other rack has its label.
fn schedule(
    places: &[Place],
    members: &[Member],
    min_count: usize,
    tie_break: TieBreak,
    only: Option<usize>,
) -> Scheduler {
    let mut scheduler = Scheduler::new(tie_break);
    for (number, place) in places.iter().enumerate() {
        let name = format!("n{number:02}");
        let own = node(&name)
            .label("kubernetes.io/hostname", &name)
            .allocatable("cpu", &place.cpu.to_string())
            .allocatable("memory", &format!("{}Gi", place.memory))
            .allocatable("pods", "10");
        let own = if place.is_tainted { own.taint("t", "", "NoSchedule") } else { own };
        let is_labelled = place.rack > 0 && only.is_none_or(|only| only == place.rack);
        let own = if is_labelled { own.label(RACK, &format!("r{}", place.rack)) } else { own };
        scheduler.apply(Change::Node(own.build()));
        let used = pod(&format!("x{number}")).cpu(&place.used.min(place.cpu).to_string());
        scheduler.apply(Change::Pod(Box::new(used.on(&name).build())));
    }
    let group = json!({
        "metadata": {"namespace": "default", "name": "g", "uid": "g"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": min_count}},
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        },
    });
    scheduler.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, group))));
    for (number, member) in members.iter().enumerate() {
        scheduler.apply(Change::Pod(Box::new(member.pod(number))));
    }
    scheduler.step(Input::Schedule);
    scheduler
}

impl Member {
    fn pod(&self, number: usize) -> Pod {
        let own = pod(&format!("m{number}")).scheduling_group("g").container(&[
            ("cpu", &*self.cpu.to_string()),
            ("memory", &*format!("{}Gi", self.memory)),
        ]);
        let own = self.port.map_or(own.clone(), |port| own.host_port(port));
        match self.is_apart {
            false => own.build(),
            true => own
                .label("apart", "yes")
                .with(|pod| {
                    let term = json!({
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"apart": "yes"}},
                    });
                    let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
                    pod.spec.affinity =
                        serde_json::from_value(json!({"podAntiAffinity": terms})).unwrap();
                })
                .build(),
        }
    }
}

/// Checks a decision about all racks against the decisions about each.
fn check(
    places: &[Place],
    members: &[Member],
    min_count: usize,
    tie_break: TieBreak,
) -> Result<(), TestCaseError> {
    let alone = (1..5).filter_map(|rack| {
        let scheduler = schedule(places, members, min_count, tie_break, Some(rack));
        let name = format!("r{rack}");
        (!scheduler.nodes().is_empty()).then(|| (name.clone(), scheduler.scores(&name), scheduler))
    });
    let alone: Vec<(String, (i64, i64), Scheduler)> = alone.collect();
    let most = alone.iter().map(|(_, (_, count), _)| *count).max().unwrap_or(1);
    let total = |(share, count): (i64, i64)| share + 100 * count / most;
    let best = alone.iter().map(|(_, scores, _)| total(*scores)).max();

    let scheduler = schedule(places, members, min_count, tie_break, None);
    let nodes = scheduler.nodes();
    let racks: Vec<Option<String>> = nodes.values().map(|node| scheduler.rack(node)).collect();
    let Some(rack) = racks.first().cloned().flatten() else {
        prop_assert!(alone.is_empty(), "the gang fits in {}", alone[0].0);
        return Ok(());
    };
    prop_assert!(racks.iter().all(|other| other.as_ref() == Some(&rack)), "{:?}", racks);
    let chosen = alone.iter().find(|(name, ..)| *name == rack);
    let Some((_, scores, expected)) = chosen else {
        return Err(TestCaseError::fail(format!("the gang does not fit in {rack}")));
    };
    prop_assert_eq!(Some(total(*scores)), best, "{} is not the best", rack);
    if tie_break == TieBreak::FirstByName {
        prop_assert_eq!(nodes, expected.nodes());
    }
    Ok(())
}

proptest! {
    #[test]
    fn rack_is_the_best_of_all_for_members_that_differ(
        places in prop::collection::vec(place(), 1..16),
        members in prop::collection::vec(member(), 1..7),
        min_count in 1_usize..7,
    ) {
        check(&places, &members, min_count.min(members.len()), TieBreak::FirstByName)?;
    }

    /// Rankings answer. How many equal members fit does not depend on which of equal nodes is
    /// chosen.
    #[test]
    fn rack_is_the_best_of_all_for_equal_members_by_rankings(
        places in prop::collection::vec(place(), 1..16),
        member in member(),
        count in 1_usize..9,
        min_count in 1_usize..9,
    ) {
        let members = vec![member; count];
        check(&places, &members, min_count.min(count), TieBreak::Random)?;
    }
}
