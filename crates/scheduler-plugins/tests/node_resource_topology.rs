//! NodeResourceTopologyMatch in the engine, beside the in-tree plugins: reports come and go, and
//! decisions that look only at changed nodes are those of full passes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::collections::BTreeMap;
use std::time::Duration;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input, TieBreak};
use framework::{Answer, Binding, EventResource, ExtraFields, ObjectKey, Pod, PodKey, Time};
use loadmaster_scheduler_plugins as scheduler_plugins;
use proptest::prelude::*;
use scheduler_plugins::node_resource_topology::NAME;
use serde_json::{Value, json};
use testkit::node;

const KIND: &str = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";

/// An engine and its API server.
struct World {
    engine: Engine,
    now: Time,
    fields: ExtraFields,
    pods: BTreeMap<PodKey, Pod>,
    messages: BTreeMap<PodKey, String>,
}

impl World {
    fn new(form: Form, args: Value) -> Self {
        let mut registry = plugins::registry();
        scheduler_plugins::add_to(&mut registry);
        let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let multi_point =
            PluginSet { enabled: vec![PluginRef::new(NAME, 5)], ..PluginSet::default() };
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            plugins: PluginSets { multi_point, ..PluginSets::default() },
            plugin_config: vec![PluginConfig { name: NAME.to_owned(), args: Some(args) }],
            ..SchedulerProfile::default()
        };
        let profiles = Profiles::build(&[profile], &defaults, &registry, false).unwrap();
        let fields = profiles.extra_fields();
        let config =
            EngineConfig { tie_break: TieBreak::FirstByName, form, ..EngineConfig::new(profiles) };
        Self {
            engine: Engine::new(config),
            now: Time::from_secs(1000),
            fields,
            pods: BTreeMap::new(),
            messages: BTreeMap::new(),
        }
    }

    fn on<T>(&mut self, call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T) -> T {
        call(&mut self.engine, self.now, &mut Ports { extenders: &mut (), probe: &mut () })
    }

    fn apply(&mut self, change: Change) {
        self.on(|engine, now, ports| engine.step(Input::Change(change), now, ports));
    }

    fn node(&mut self, name: &str) {
        let node = node(name).allocatable("cpu", "64").allocatable("memory", "256Gi").build();
        self.apply(Change::Node(node));
    }

    /// The report of a node whose NUMA nodes have so many free CPUs.
    fn report(&mut self, node: &str, policy: &str, cpus: &[i64]) {
        let zones = cpus.iter().enumerate().map(|(id, cpus)| {
            let resource = |name: &str, amount: String| {
                json!({"name": name, "capacity": amount, "available": amount})
            };
            let resources = [resource("cpu", cpus.to_string()), resource("memory", "64Gi".to_owned())];
            json!({"name": format!("node-{id}"), "type": "Node", "resources": resources})
        });
        let object = json!({
            "metadata": {"name": node},
            "attributes": [{"name": "topologyManagerPolicy", "value": policy}],
            "zones": zones.collect::<Vec<_>>(),
        });
        let kind = EventResource::Custom(KIND.into());
        self.apply(Change::Object(Box::new(testkit::object(kind, object))));
    }

    fn withdraw(&mut self, node: &str) {
        let key = ObjectKey::cluster_scoped(EventResource::Custom(KIND.into()), node.into());
        self.apply(Change::ObjectDeleted(key));
    }

    fn pod(&mut self, name: &str, cpu: i64) {
        let amounts = json!({"cpu": cpu.to_string(), "memory": "1Gi"});
        let resources = json!({"requests": amounts, "limits": amounts});
        let object = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"schedulerName": "default-scheduler",
                "containers": [{"name": "c", "resources": resources}]},
            "status": {"qosClass": "Guaranteed"},
        });
        let pod = Pod::from_json(&object, &self.fields).unwrap();
        self.pods.insert(pod.key.clone(), pod.clone());
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Schedules until no pod is ready, and carries out the effects.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let attempt =
                self.on(|engine, now, ports| engine.step(Input::Schedule, now, ports).attempt());
            let effects = self.engine.take_effects();
            if attempt.is_none() && effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect.kind {
                    EffectKind::Bind { binding, .. } => {
                        let answered = Input::Answer { effect: effect.id, answer: Answer::ok() };
                        self.on(|engine, now, ports| engine.step(answered, now, ports));
                        self.bound(&binding);
                    }
                    EffectKind::PatchPodStatus { pod, patch, .. } => {
                        if let Some(condition) = patch.condition {
                            self.messages.insert(pod, condition.message.to_string());
                        }
                    }
                    _ => {}
                }
            }
        }
        panic!("the engine does not come to rest");
    }

    /// Reports the pod with its node, as the watch would.
    fn bound(&mut self, binding: &Binding) {
        let pod = self.pods.get_mut(&binding.pod).unwrap();
        pod.node_name = Some(binding.node.clone());
        pod.resource_version += 1;
        let pod = pod.clone();
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Passes a backoff.
    fn pass(&mut self) {
        for _ in 0..15 {
            self.now = self.now + Duration::from_secs(1);
            self.on(|engine, now, ports| engine.step(Input::Tick, now, ports));
            self.settle();
        }
    }

    fn delete(&mut self, name: &str) {
        let key = PodKey::new("default", name);
        let Some(pod) = self.pods.remove(&key) else { return };
        self.apply(Change::PodDeleted { key, uid: pod.uid });
    }

    fn node_of(&self, name: &str) -> Option<&str> {
        self.pods.get(&PodKey::new("default", name))?.node_name.as_deref()
    }
}

const SINGLE: &str = "single-numa-node";

#[test]
fn report_that_changes_or_appears_releases_a_waiting_pod() {
    for args in [json!({}), json!({"cacheResyncPeriodSeconds": 5})] {
        let mut world = World::new(Form::Ranked, args);
        world.node("a");
        world.report("a", SINGLE, &[2, 2]);
        world.pod("p", 4);
        world.settle();
        assert_eq!(world.node_of("p"), None);
        let message = &world.messages[&PodKey::new("default", "p")];
        let expected = "0/1 nodes are available: 1 cannot align container.";
        assert!(message.starts_with(expected), "{message}");
        world.report("a", SINGLE, &[2, 3]);
        world.pass();
        assert_eq!(world.node_of("p"), None, "the report does not help");
        world.report("a", SINGLE, &[4, 0]);
        world.pass();
        assert_eq!(world.node_of("p"), Some("a"));
    }
    let mut world = World::new(Form::Ranked, json!({"nodesWithoutTopology": "Reject"}));
    world.node("late");
    world.pod("p", 4);
    world.settle();
    assert_eq!(world.node_of("p"), None);
    world.report("late", SINGLE, &[4]);
    world.pass();
    assert_eq!(world.node_of("p"), Some("late"));
}

/// With over-reservation, no two pods get the room of one.
#[test]
fn room_of_a_report_is_given_away_once() {
    let mut world = World::new(Form::Ranked, json!({"cacheResyncPeriodSeconds": 5}));
    world.node("a");
    world.report("a", SINGLE, &[8, 8]);
    for name in ["p", "q", "r"] {
        world.pod(name, 4);
    }
    world.settle();
    // Each pod is subtracted from both NUMA nodes.
    let placed = ["p", "q", "r"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert_eq!(placed, 2);
}

#[derive(Debug, Clone)]
enum Step {
    Report { node: usize, is_single: bool, cpus: Vec<i64> },
    Withdraw(usize),
    Pod { cpu: i64 },
    Delete(usize),
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..4, any::<bool>(), prop::collection::vec(0i64..9, 1..3))
            .prop_map(|(node, is_single, cpus)| Step::Report { node, is_single, cpus }),
        1 => (0usize..4).prop_map(Step::Withdraw),
        6 => (1i64..5).prop_map(|cpu| Step::Pod { cpu }),
        2 => (0usize..20).prop_map(Step::Delete),
        1 => Just(Step::Pass),
    ]
}

/// Returns the node of each pod after each step.
fn placements(form: Form, args: &Value, steps: &[Step]) -> Vec<BTreeMap<String, Option<String>>> {
    let mut world = World::new(form, args.clone());
    let name = |node: usize| format!("n{node}");
    (0..4).for_each(|node| world.node(&name(node)));
    let mut pods = 0;
    let mut history = Vec::new();
    for step in steps {
        match step {
            Step::Report { node, is_single, cpus } => {
                let policy = if *is_single { SINGLE } else { "none" };
                world.report(&name(*node), policy, cpus);
            }
            Step::Withdraw(node) => world.withdraw(&name(*node)),
            Step::Pod { cpu } => {
                world.pod(&format!("p{pods}"), *cpu);
                pods += 1;
            }
            Step::Delete(pod) => world.delete(&format!("p{pod}")),
            Step::Pass => world.pass(),
        }
        world.settle();
        let placed = world.pods.iter();
        let placed = placed.map(|(key, pod)| {
            (key.name.to_string(), pod.node_name.as_ref().map(ToString::to_string))
        });
        history.push(placed.collect());
    }
    history
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decisions_on_changed_nodes_are_those_of_full_passes(
        steps in prop::collection::vec(step(), 1..40),
        args in prop::sample::select(vec![
            json!({}),
            json!({"cacheResyncPeriodSeconds": 5}),
            json!({"scoringStrategy": {"type": "LeastNUMANodes"}, "nodesWithoutTopology": "Reject"}),
            json!({"scoringStrategy": {"type": "MostAllocated"}, "cacheResyncPeriodSeconds": 5}),
            json!({"discardReservedNodes": true}),
        ]),
    ) {
        let ranked = placements(Form::Ranked, &args, &steps);
        prop_assert_eq!(&ranked, &placements(Form::Set, &args, &steps));
        prop_assert_eq!(&ranked, &placements(Form::OneNode, &args, &steps));
    }
}
