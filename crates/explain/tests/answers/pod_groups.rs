//! Answers about PodGroups: domains of a topology, and changes after which the group starts.

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use explain::{
    ClusterCopy, Filter, Lab, PodGroupAnswer, PodGroupDomain, PodGroupsAnswer, explain_pod_group,
    list_pod_groups,
};
use framework::{EventResource, PluginGates, Time};
use loadmaster_explain as explain;
use serde_json::{Value, json};
use testkit::{node, pod};

const NOW: Time = Time::from_secs(1000);

/// Racks of nodes with four CPUs. Their other pods have one CPU each.
struct Cluster(Engine);

impl Cluster {
    /// Creates an engine with these gates, and all plugins that they allow.
    fn with_gates(gates: PluginGates, plugins: &[&str]) -> Self {
        let registry = plugins::registry().with_gates(gates);
        let defaults = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight));
        let defaults: Vec<PluginRef> =
            defaults.chain(plugins.iter().map(|name| PluginRef::new(name, 0))).collect();
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            ..SchedulerProfile::default()
        };
        let profiles = Profiles::build(&[profile], &defaults, &registry, false);
        Self(Engine::new(EngineConfig::new(profiles.expect("the profile is in order"))))
    }

    fn new() -> Self {
        let gates = PluginGates { generic_workload: true, ..PluginGates::default() };
        Self::with_gates(gates, &["GangScheduling", "TopologyPlacementGenerator"])
    }

    fn step(&mut self, input: Input) {
        self.0.step(input, NOW, &mut Ports { extenders: &mut (), probe: &mut () });
        self.0.take_effects();
    }

    fn apply(&mut self, change: Change) {
        self.step(Input::Change(change));
    }

    /// Adds a node, and so many pods of a group on it.
    fn node(&mut self, name: &str, rack: &str, pods: usize, group: &str) {
        let own = node(name).label("rack", rack).label("kubernetes.io/hostname", name);
        let own = own.allocatable("cpu", "4").allocatable("memory", "8Gi");
        self.apply(Change::Node(own.allocatable("pods", "10").build()));
        for number in 0..pods {
            let own = pod(&format!("{group}-{name}-{number}")).cpu("1").scheduling_group(group);
            self.apply(Change::Pod(Box::new(own.on(name).build())));
        }
    }

    fn cordon(&mut self, name: &str) {
        let cluster = self.0.cluster();
        let known = cluster.node_named(name).expect("the node exists");
        let closed = framework::Node { unschedulable: true, ..cluster.copy_of_node(known) };
        self.apply(Change::Node(closed));
    }

    fn group(&mut self, name: &str, min_count: usize, topology: Value) {
        let group = json!({
            "metadata": {"namespace": "default", "name": name, "uid": name},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": min_count}},
                "schedulingConstraints": {"topology": topology},
            },
        });
        self.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, group))));
    }

    fn group_with_levels(&mut self, min_count: usize, levels: &str) {
        let group = json!({
            "metadata": {
                "namespace": "default", "name": "train", "uid": "train",
                "annotations": {"loadmaster.io/topology": levels},
            },
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
        });
        self.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, group))));
    }

    fn pending(&mut self, group: &str, pods: usize) {
        for number in 0..pods {
            let own = pod(&format!("{group}-{number}")).cpu("1").scheduling_group(group);
            self.apply(Change::Pod(Box::new(own.build())));
        }
    }

    fn explain(&mut self, name: &str) -> PodGroupAnswer {
        let lab = &mut Lab::new(&mut self.0, NOW, &|| false);
        explain_pod_group(lab, "default", name).expect("the group exists")
    }

    fn list(&mut self, pending: bool, is_over: bool) -> PodGroupsAnswer {
        let filter = Filter { pending, limit: 100, ..Filter::default() };
        let is_over = || is_over;
        list_pod_groups(&mut Lab::new(&mut self.0, NOW, &is_over), &filter)
    }

    /// Number of pods of the waiting group that have a node.
    fn placed(&self) -> usize {
        let pods = self.0.cluster().pods();
        pods.filter(|own| own.pod.key.name.starts_with("train-")).count()
    }
}

fn rack() -> Value {
    json!([{"key": "rack"}])
}

/// Three racks: one with six free CPUs of eight, one with three of eight, one with eight of which
/// seven are cordoned. The group needs seven.
fn three_racks(topology: Value) -> Cluster {
    let mut cluster = Cluster::new();
    for (name, pods) in [("a1", 1), ("a2", 1)] {
        cluster.node(name, "a", pods, "first");
    }
    for (name, pods) in [("b1", 4), ("b2", 1)] {
        cluster.node(name, "b", pods, "second");
    }
    for name in ["c1", "c2"] {
        cluster.node(name, "c", 0, "");
    }
    cluster.cordon("c1");
    cluster.group("first", 1, json!([]));
    cluster.group("second", 1, json!([]));
    cluster.group("train", 7, topology);
    cluster.pending("train", 7);
    cluster
}

#[test]
fn domains_are_listed_the_closest_first() {
    let answer = three_racks(rack()).explain("train");
    assert_eq!((answer.fit, answer.shortfall, &*answer.state), (6, 1, "unschedulable"));
    let expected = "7 pods are needed, and 6 fit together in a, the closest of 3 domains of rack: \
                    room for 1 is missing";
    assert_eq!(answer.summary, expected);
    let topology = answer.topology.expect("the group asks for one rack");
    let fits = |own: &PodGroupDomain| (own.name.clone(), own.fit, own.nodes, own.is_bound);
    let expected = [("a", 6), ("c", 4), ("b", 3)];
    let expected = expected.map(|(name, fit)| (name.to_owned(), fit, 2, false));
    assert_eq!(topology.domains.iter().map(fits).collect::<Vec<_>>(), expected);
    let [first, closed, second] = &topology.domains[..] else { panic!("{topology:?}") };
    assert_eq!(first.missing.as_deref(), Some("0/2 nodes are available: 2 Insufficient cpu."));
    let text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.";
    assert_eq!(closed.missing.as_deref(), Some(text));
    let free = |own: &PodGroupDomain| own.resources["cpu"].clone();
    assert_eq!(free(first), ("6".to_owned(), "8".to_owned()));
    assert_eq!(free(closed), ("4".to_owned(), "8".to_owned()), "the cordoned node has no room");
    assert_eq!((&*second.held_by[0].group, second.held_by[0].pods), ("default/second", 5));
    let states = answer.members.iter().filter(|own| own.state == "fits");
    assert!(states.clone().all(|own| own.node.as_ref().is_some_and(|node| node.starts_with('a'))));
    assert_eq!((states.count(), answer.causes[0].count), (6, 1));
}

#[test]
fn group_starts_after_each_suggestion() {
    for topology in [rack(), json!([])] {
        let world = || {
            let mut cluster = three_racks(topology.clone());
            // Without the constraint the group would fit.
            let taken = if topology == rack() { 0 } else { 7 };
            for number in 0..taken {
                let own = pod(&format!("other-{number}")).cpu("1");
                let node = ["a1", "a1", "a1", "b2", "b2", "c2", "c2"][number];
                cluster.apply(Change::Pod(Box::new(own.on(node).build())));
            }
            cluster
        };
        let help = world().explain("train").help;
        let kinds: Vec<&str> = help.iter().map(|own| &*own.kind).collect();
        match topology == rack() {
            true => assert_eq!(kinds, ["cordon", "minCount", "podGroup", "topology", "node"]),
            false => assert_eq!(kinds, ["cordon", "minCount", "podGroup", "node"]),
        }
        for suggestion in help {
            let mut cluster = world();
            match &*suggestion.kind {
                "minCount" => {
                    assert!(suggestion.text.contains("from 7 to 6,"), "{}", suggestion.text);
                    cluster.group("train", 6, topology.clone());
                }
                "topology" => cluster.group("train", 7, json!([])),
                _ => suggestion.changes.iter().for_each(|own| cluster.apply(own.clone())),
            }
            cluster.step(Input::Schedule);
            let expected = if suggestion.kind == "minCount" { 6 } else { 7 };
            assert_eq!(cluster.placed(), expected, "{}", suggestion.text);
        }
        let mut untouched = world();
        untouched.explain("train");
        untouched.step(Input::Schedule);
        assert_eq!(untouched.placed(), 0, "the trials are taken back");
    }
}

#[test]
fn fewest_nodes_are_suggested() {
    let mut cluster = Cluster::new();
    cluster.node("a1", "a", 3, "first");
    cluster.group("train", 10, rack());
    cluster.pending("train", 10);
    let help = cluster.explain("train").help;
    let node = help.iter().find(|own| own.kind == "node").expect("nodes help");
    assert_eq!(node.text, "3 more nodes like a1 (4 cpu, 8Gi memory) in a");
    assert_eq!(node.effect, "10 pods fit together in a");
}

#[test]
fn group_with_pods_in_a_domain_has_only_that_one() {
    let mut cluster = three_racks(rack());
    let own = pod("train-7").cpu("1").scheduling_group("train").on("b2").build();
    cluster.apply(Change::Pod(Box::new(own)));
    let answer = cluster.explain("train");
    let expected = "7 pods are needed, and 2 fit together beside 1 that have a node in b, the only \
                    domain of rack that it may have: room for 4 is missing";
    assert_eq!(answer.summary, expected);
    let domains = answer.topology.expect("the group asks for one rack").domains;
    assert_eq!((domains.len(), domains[0].placed, domains[0].fit), (1, 1, 2));
}

#[test]
fn group_that_fits_names_the_domains_that_take_it() {
    let mut cluster = three_racks(rack());
    cluster.group("train", 4, rack());
    let answer = cluster.explain("train");
    assert_eq!(answer.state, "fits");
    let start = "6 pods fit together in a and one other domain of rack, 4 are needed";
    assert!(answer.summary.starts_with(start), "{}", answer.summary);
}

/// Two zones of two racks, with 2, 3, 1 and 4 free CPUs, and a group with these levels.
fn two_zones(levels: &str, pods: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for (zone, rack, used) in [("x", "a", 2), ("x", "b", 1), ("y", "c", 3), ("y", "d", 0)] {
        let own = node(rack).label("zone", zone).label("rack", rack).allocatable("cpu", "4");
        cluster.apply(Change::Node(own.allocatable("pods", "10").build()));
        for number in 0..used {
            let own = pod(&format!("other-{rack}-{number}")).cpu("1").scheduling_group("other");
            cluster.apply(Change::Pod(Box::new(own.on(rack).build())));
        }
    }
    cluster.group("other", 1, json!([]));
    cluster.group_with_levels(pods, levels);
    cluster.pending("train", pods);
    cluster
}

#[test]
fn each_level_names_its_domains_and_what_the_closest_lacks() {
    let rows: [(&str, usize, &str, &[[&str; 3]]); 7] = [
        (
            "zone required, rack preferred",
            5,
            "fits",
            &[
                ["zone", "required", "5 of 5 pods fit in x"],
                [
                    "rack",
                    "preferred",
                    "4 of 5 pods fit in y/d, the closest of 4 domains: room for 1 is missing",
                ],
            ],
        ),
        (
            "zone required, rack preferred",
            6,
            "unschedulable",
            &[
                [
                    "zone",
                    "required",
                    "5 of 6 pods fit in x, the closest of 2 domains: room for 1 is missing",
                ],
                [
                    "rack",
                    "preferred",
                    "4 of 6 pods fit in y/d, the closest of 4 domains: room for 2 is missing",
                ],
            ],
        ),
        ("rack blocks of 2", 8, "fits", &[["rack", "blocks of 2", "4 of 4 blocks of 2 fit"]]),
        (
            "rack blocks of 3",
            9,
            "unschedulable",
            &[[
                "rack",
                "blocks of 3",
                "2 of 3 blocks of 3 fit; a lacks room for 1 pod for one more",
            ]],
        ),
        (
            "zone required, rack blocks of 3",
            6,
            "unschedulable",
            &[
                [
                    "zone",
                    "required",
                    "5 of 6 pods fit in x, the closest of 2 domains: room for 1 is missing",
                ],
                [
                    "rack",
                    "blocks of 3",
                    "1 of 2 blocks of 3 fit in x; x/a lacks room for 1 pod for one more",
                ],
            ],
        ),
        (
            "rack over 4",
            4,
            "fits",
            &[["rack", "over 4", "4 of 4 domains take a pod, and 4 are asked for"]],
        ),
        (
            "zone over 3",
            4,
            "unschedulable",
            &[["zone", "over 3", "2 of 2 domains take a pod, and 3 are asked for"]],
        ),
    ];
    for (levels, pods, state, expected) in rows {
        let answer = two_zones(levels, pods).explain("train");
        let found = answer.levels.iter().map(|own| [&*own.key, &*own.wish, &*own.summary]);
        assert_eq!(found.collect::<Vec<_>>(), expected, "{levels}");
        assert_eq!(answer.state, state, "{levels}: {}", answer.summary);
        assert!(answer.topology.is_none(), "no single domain is meant");
    }
}

#[test]
fn each_suggestion_lets_a_group_with_levels_start() {
    let levels = "zone required, rack blocks of 3";
    let world = || {
        let mut cluster = two_zones(levels, 6);
        cluster.cordon("d");
        cluster
    };
    let answer = world().explain("train");
    let expected = "6 pods are needed, and 3 fit together by the levels of its topology: room for \
                    3 is missing";
    assert_eq!(answer.summary, expected);
    let texts: Vec<&str> = answer.help.iter().map(|own| &*own.text).collect();
    let expected = [
        "lower minCount from 6 to 3, if the job can work with 3 pods",
        "the end of PodGroup default/other, which has 6 pods",
        "ask for no levels of a topology",
        "another node like b (4 cpu, 32Gi memory)",
    ];
    assert_eq!(texts, expected);
    for suggestion in &answer.help {
        let mut cluster = world();
        match &*suggestion.kind {
            "minCount" => cluster.group_with_levels(3, levels),
            "topology" => cluster.group("train", 6, json!([])),
            _ => suggestion.changes.iter().for_each(|own| cluster.apply(own.clone())),
        }
        cluster.step(Input::Schedule);
        let expected = if suggestion.kind == "minCount" { 3 } else { 6 };
        assert_eq!(cluster.placed(), expected, "{}", suggestion.text);
    }
}

/// A node with room for one more pod, and a gang of two that is nominated to it.
fn nominated_gang(gate: Option<&str>) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("a1", "a", 3, "first");
    cluster.group("first", 1, json!([]));
    cluster.group("train", 2, json!([]));
    let member = |name: &str| pod(name).cpu("1").scheduling_group("train").nominated("a1");
    cluster.apply(Change::Pod(Box::new(member("train-0").build())));
    let second = member("train-1");
    let second = gate.map_or(second.clone(), |gate| second.gate(gate));
    cluster.apply(Change::Pod(Box::new(second.build())));
    cluster
}

#[test]
fn group_that_waits_for_a_gated_pod_names_the_pod() {
    let answer = nominated_gang(Some("example.com/quota")).explain("train");
    assert_eq!(answer.state, "waitsForPods");
    let expected = "the group waits for pod default/train-1, which has scheduling gates";
    assert_eq!(answer.summary, expected);
}

#[test]
fn group_that_waits_for_the_end_of_pods_says_so() {
    let mut cluster = nominated_gang(None);
    let ending = pod("first-a1-0").cpu("1").scheduling_group("first").on("a1").with(|pod| {
        pod.metadata.deletion_timestamp = Some("2025-06-01T12:00:00Z".to_owned());
    });
    cluster.apply(Change::Pod(Box::new(ending.build())));
    let answer = cluster.explain("train");
    assert_eq!(answer.summary, "the group waits for the end of 1 pod on a1");
    assert_eq!(answer.state, "preempts");
}

#[test]
fn label_that_no_node_has_is_named() {
    let answer = three_racks(json!([{"key": "block"}])).explain("train");
    assert_eq!(answer.state, "unschedulable");
    let expected =
        "7 pods are needed: no feasible placements found: no node has the label \"block\"";
    assert_eq!(answer.summary, expected);
    let kinds: Vec<&str> = answer.help.iter().map(|own| &*own.kind).collect();
    assert_eq!(kinds, ["topology"]);
}

#[test]
fn constraint_that_the_scheduler_ignores_is_noted() {
    let gates = PluginGates { generic_workload: true, ..PluginGates::default() };
    let mut cluster = Cluster::with_gates(gates, &["GangScheduling"]);
    cluster.node("a1", "a", 0, "");
    cluster.group("train", 2, rack());
    cluster.pending("train", 2);
    let answer = cluster.explain("train");
    assert!(answer.topology.is_none());
    assert!(answer.notes[0].contains("TopologyAwareWorkloadScheduling is off"), "{answer:?}");
}

#[test]
fn caller_of_one_namespace_sees_no_other_groups() {
    let mut cluster = three_racks(rack());
    let elsewhere = pod("x").namespace("secret").cpu("1").scheduling_group("hidden");
    cluster.apply(Change::Pod(Box::new(elsewhere.on("b2").build())));
    let mut answer = cluster.explain("train");
    answer.restrict();
    let text = serde_json::to_string(&answer).expect("an answer is JSON");
    assert!(!text.contains("secret") && !text.contains("hidden"), "{text}");
    assert!(text.contains("(a PodGroup of another namespace)"), "{text}");
    assert!(text.contains("default/second"), "{text}");
}

#[test]
fn copy_knows_since_when_groups_wait() {
    let mut cluster = three_racks(rack());
    let mut copy = ClusterCopy::of(&cluster.0, NOW);
    let waits = copy.take_group_waits();
    assert_eq!(waits.into_values().collect::<Vec<_>>(), [NOW]);
    let later = Time::from_secs(1030);
    let waits = ClusterCopy::of(&cluster.0, later).take_group_waits();
    let lab = &mut Lab::new(&mut cluster.0, later, &|| false).with_group_waits(waits);
    let answer = explain_pod_group(lab, "default", "train").expect("the group exists");
    assert_eq!(answer.pending_seconds, Some(30.0));
    let rows = list_pod_groups(lab, &Filter { limit: 9, ..Filter::default() }).pod_groups;
    let seconds = rows.into_iter().map(|own| own.pending_seconds).collect::<Vec<_>>();
    assert_eq!(seconds, [Some(30.0), None, None]);
}

#[test]
fn groups_are_listed_with_their_state_the_waiting_ones_first() {
    let mut cluster = three_racks(rack());
    cluster.group("late", 4, json!([]));
    cluster.pending("late", 1);
    cluster.pending("orphan", 1);
    let rows = |answer: PodGroupsAnswer| {
        let rows = answer.pod_groups.into_iter();
        rows.map(|own| (own.name, own.state, own.shortfall)).collect::<Vec<_>>()
    };
    let row = |name: &str, state: &str, shortfall| (name.to_owned(), state.to_owned(), shortfall);
    let waiting = [
        row("late", "waitsForPods", None),
        row("orphan", "waitsForPodGroup", None),
        row("train", "unschedulable", Some(1)),
    ];
    let running = [row("first", "running", Some(0)), row("second", "running", Some(0))];
    let all = cluster.list(false, false);
    assert_eq!((all.total, all.matching, all.is_incomplete), (5, 5, false));
    assert_eq!(all.pod_groups[2].domains, ["a"]);
    assert_eq!((all.pod_groups[2].min_count, all.pod_groups[2].fit), (7, Some(6)));
    assert_eq!(rows(all), [&waiting[..], &running[..]].concat());
    let pending = cluster.list(true, false);
    assert_eq!((pending.total, pending.matching), (5, 3));
    assert_eq!(rows(pending), waiting);
    let late = cluster.list(true, true);
    assert!(late.is_incomplete);
    assert_eq!(rows(late)[2], row("train", "waits", None));
}
