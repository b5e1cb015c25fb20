//! The example plugins, together with the in-tree plugins.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input, TieBreak};
use framework::{Answer, Binding, EventResource, ObjectKey, Pod, PodKey, Registry, Time};
use serde_json::{Value, json};
use testkit::{NodeBuilder, PodBuilder, node, pod};

/// Returns the in-tree plugins and the examples.
fn registry() -> Registry {
    let mut registry = plugins::registry();
    zone_cost::register(&mut registry).unwrap();
    maintenance_window::register(&mut registry).unwrap();
    registry
}

/// Returns the default profile with the plugin `name`, with this weight and these arguments.
fn profile_with(name: &str, weight: i32, args: Value) -> SchedulerProfile {
    let enabled = vec![PluginRef::new(name, weight)];
    let multi_point = PluginSet { enabled, ..PluginSet::default() };
    SchedulerProfile {
        plugins: PluginSets { multi_point, ..PluginSets::default() },
        plugin_config: vec![PluginConfig { name: name.to_owned(), args: Some(args) }],
        ..default_profile()
    }
}

fn default_profile() -> SchedulerProfile {
    SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    }
}

/// An engine and its API server.
struct World {
    engine: Engine,
    now: Time,
    pods: BTreeMap<PodKey, Pod>,
    /// The messages of the conditions of each pod, oldest first.
    messages: BTreeMap<PodKey, Vec<String>>,
}

impl World {
    fn new(profile: SchedulerProfile) -> Self {
        let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let profiles = Profiles::build(&[profile], &defaults, &registry(), false).unwrap();
        let tie_break = TieBreak::FirstByName;
        Self {
            engine: Engine::new(EngineConfig { tie_break, ..EngineConfig::new(profiles) }),
            now: Time::from_secs(1000),
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

    fn node(&mut self, node: NodeBuilder) {
        self.apply(Change::Node(node.build()));
    }

    fn pod(&mut self, pod: PodBuilder) {
        let pod = pod.build();
        self.pods.insert(pod.key.clone(), pod.clone());
        self.apply(Change::Pod(Box::new(pod)));
    }

    fn window(&mut self, name: &str, object: Option<Value>) {
        let kind = EventResource::Custom(maintenance_window::KIND.into());
        let key = ObjectKey::cluster_scoped(kind, name.into());
        self.apply(Change::decode(key, object).unwrap());
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
                        let message =
                            patch.condition.map(|condition| condition.message.to_string());
                        self.messages.entry(pod).or_default().extend(message);
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

    /// Advances time second by second.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            self.on(|engine, now, ports| engine.step(Input::Tick, now, ports));
            self.settle();
        }
    }

    fn node_of(&self, name: &str) -> Option<&str> {
        self.pods[&PodKey::new("default", name)].node_name.as_deref()
    }

    /// Returns the messages of the conditions of a pod, one per line.
    fn messages(&self, name: &str) -> String {
        self.messages.get(&PodKey::new("default", name)).map_or(String::new(), |m| m.join("\n"))
    }
}

#[test]
fn examples_depend_only_on_the_framework() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plugins");
    let mut examples = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let Ok(manifest) = fs::read_to_string(entry.unwrap().path().join("Cargo.toml")) else {
            continue;
        };
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let name = manifest["package"]["name"].as_str().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap();
        assert_eq!(
            dependencies["framework"]["package"].as_str(),
            Some("loadmaster-framework"),
            "{name}"
        );
        for dependency in dependencies.keys() {
            // `supercluster` has the plugins of many clusters.
            let allowed = ["framework", "serde", "serde_json", "supercluster"];
            let allowed = allowed.contains(&dependency.as_str());
            assert!(allowed, "{name} depends on {dependency}");
        }
        examples += 1;
    }
    assert!(examples >= 3, "found {examples}");
}

/// Returns the node of a pod when the expensive zone has more room than the cheap one.
fn placed_by(profile: SchedulerProfile) -> String {
    let mut world = World::new(profile);
    world.node(node("cheap").zone("a"));
    world.node(node("dear").zone("b"));
    world.pod(pod("there").cpu("4").memory("8Gi").on("cheap"));
    world.pod(pod("p").cpu("1").memory("2Gi"));
    world.settle();
    world.node_of("p").unwrap().to_owned()
}

#[test]
fn zone_cost_changes_the_placement() {
    let prices = json!({"zones": {"a": 0.1, "b": 0.3}});
    assert_eq!(placed_by(default_profile()), "dear");
    assert_eq!(placed_by(profile_with(zone_cost::NAME, 10, prices)), "cheap");
}

#[test]
fn zone_cost_rejects_invalid_arguments() {
    let profile = profile_with(zone_cost::NAME, 1, json!({"zones": {"a": -1}}));
    let error = Profiles::build(&[profile], &[], &registry(), false).map(|_| ()).unwrap_err();
    let text = "initializing plugin \"ZoneCost\": zones[a]: must be from 0 to 1000000, got -1";
    assert!(error.to_string().ends_with(text), "{error}");
}

fn window(state: &str) -> Option<Value> {
    Some(json!({"metadata": {"name": "w"}, "spec": {"state": state, "nodes": ["a"]}}))
}

/// Creates a world in which an open window keeps the pod `p` off the only node.
fn under_maintenance() -> World {
    let mut world = World::new(profile_with(maintenance_window::NAME, 0, json!({})));
    world.node(node("a"));
    world.window("w", window("Open"));
    world.pod(pod("p"));
    world.settle();
    world
}

#[test]
fn maintenance_window_keeps_a_pod_pending() {
    let mut world = under_maintenance();
    assert!(world.engine.profiles().watched_kinds().contains(maintenance_window::KIND));
    let message = world.messages("p");
    let expected = "0/1 nodes are available: 1 node(s) in maintenance window w.";
    assert!(message.starts_with(expected), "{message}");
    let elsewhere = json!({"metadata": {"name": "v"}, "spec": {"state": "Open", "nodes": ["b"]}});
    world.window("v", Some(elsewhere));
    world.window("v", None);
    world.pass(120);
    assert_eq!(world.node_of("p"), None, "none of this helps");
}

#[test]
fn closed_or_deleted_window_releases_the_pod() {
    for change in [window("Closed"), None] {
        let mut world = under_maintenance();
        world.window("w", change);
        world.pass(10);
        assert_eq!(world.node_of("p"), Some("a"));
    }
}
