//! An engine with the in-tree plugins and those of this crate.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input, TieBreak};
use framework::{Answer, Binding, EventResource, ExtraFields, Pod, PodKey, Time};
use serde_json::{Value, json};
use testkit::node;

/// The nodes of pods, by name of the pod.
pub(crate) type Placements = BTreeMap<String, Option<String>>;

/// An engine and its API server.
pub(crate) struct World {
    engine: Engine,
    pub(crate) now: Time,
    fields: ExtraFields,
    pub(crate) pods: BTreeMap<PodKey, Pod>,
    pub(crate) messages: BTreeMap<PodKey, String>,
}

impl World {
    pub(crate) fn new(form: Form, name: &str, args: Value) -> Self {
        let mut registry = plugins::registry();
        loadmaster_scheduler_plugins::add_to(&mut registry);
        let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let multi_point =
            PluginSet { enabled: vec![PluginRef::new(name, 5)], ..PluginSet::default() };
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            plugins: PluginSets { multi_point, ..PluginSets::default() },
            plugin_config: vec![PluginConfig { name: name.to_owned(), args: Some(args) }],
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

    pub(crate) fn apply(&mut self, change: Change) {
        self.on(|engine, now, ports| engine.step(Input::Change(change), now, ports));
    }

    pub(crate) fn node(&mut self, name: &str) {
        let node = node(name).allocatable("cpu", "64").allocatable("memory", "256Gi").build();
        self.apply(Change::Node(node));
    }

    /// Adds or replaces an object of a custom kind.
    pub(crate) fn object(&mut self, kind: &str, object: Value) {
        let kind = EventResource::Custom(kind.into());
        self.apply(Change::Object(Box::new(testkit::object(kind, object))));
    }

    pub(crate) fn pod(&mut self, name: &str, cpu: i64) {
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
    pub(crate) fn settle(&mut self) {
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
    pub(crate) fn pass(&mut self) {
        for _ in 0..15 {
            self.now = self.now + Duration::from_secs(1);
            self.on(|engine, now, ports| engine.step(Input::Tick, now, ports));
            self.settle();
        }
    }

    pub(crate) fn delete(&mut self, name: &str) {
        let key = PodKey::new("default", name);
        let Some(pod) = self.pods.remove(&key) else { return };
        self.apply(Change::PodDeleted { key, uid: pod.uid });
    }

    /// Returns the nodes of all pods.
    pub(crate) fn placements(&self) -> Placements {
        let pods = self.pods.iter();
        pods.map(|(key, pod)| {
            (key.name.to_string(), pod.node_name.as_ref().map(ToString::to_string))
        })
        .collect()
    }

    pub(crate) fn node_of(&self, name: &str) -> Option<&str> {
        self.pods.get(&PodKey::new("default", name))?.node_name.as_deref()
    }
}
