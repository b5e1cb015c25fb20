//! An engine and its API server.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input, TieBreak};
use framework::{Answer, Binding, EventResource, ExtraFields, Node, Pod, PodKey, Registry, Time};
use serde_json::{Value, json};

/// Returns a default profile with further plugins of this weight.
///
/// # Panics
/// Panics if a plugin does not exist or its arguments are wrong.
pub fn profiles(registry: &Registry, plugins: &[PluginConfig], weight: i32) -> Profiles {
    let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect();
    let enabled = plugins.iter().map(|own| PluginRef::new(&own.name, weight)).collect();
    let multi_point = PluginSet { enabled, ..PluginSet::default() };
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        plugins: PluginSets { multi_point, ..PluginSets::default() },
        plugin_config: plugins.to_vec(),
        ..SchedulerProfile::default()
    };
    Profiles::build(&[profile], &defaults, registry, false).expect("plugins with valid arguments")
}

/// An engine and its API server. Pods are in the namespace `default`.
#[derive(Debug)]
pub struct World {
    engine: Engine,
    fields: ExtraFields,
    /// The time.
    pub now: Time,
    /// The pods.
    pub pods: BTreeMap<PodKey, Pod>,
    /// The last message of the condition `PodScheduled` of each pod.
    pub messages: BTreeMap<PodKey, String>,
    /// The names of the pods in the order in which they were bound.
    pub bound: Vec<String>,
    /// Number of attempts.
    pub attempts: usize,
}

impl World {
    /// Creates a world with these profiles.
    pub fn new(form: Form, profiles: Profiles) -> Self {
        let fields = profiles.extra_fields();
        let config =
            EngineConfig { tie_break: TieBreak::FirstByName, form, ..EngineConfig::new(profiles) };
        Self {
            engine: Engine::new(config),
            fields,
            now: Time::from_secs(1_000_000),
            pods: BTreeMap::new(),
            messages: BTreeMap::new(),
            bound: Vec::new(),
            attempts: 0,
        }
    }

    fn on<T>(&mut self, call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T) -> T {
        call(&mut self.engine, self.now, &mut Ports { extenders: &mut (), probe: &mut () })
    }

    /// Reports a change.
    pub fn apply(&mut self, change: Change) {
        self.on(|engine, now, ports| engine.step(Input::Change(change), now, ports));
    }

    /// Adds or replaces a node with these fields beside a status with much room.
    ///
    /// # Panics
    /// Panics if the fields are not those of a node.
    pub fn add_node(&mut self, name: &str, fields: Value) {
        let room = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
        let mut object = json!({"status": {"capacity": room, "allocatable": room}});
        merge(&mut object, fields);
        merge(&mut object, json!({"metadata": {"name": name}}));
        let (node, _) = Node::from_json(&object, &self.fields).expect("a node");
        self.apply(Change::Node(node));
    }

    /// Adds or replaces an object that is no node or pod.
    pub fn add_object(&mut self, kind: EventResource, object: Value) {
        self.apply(Change::Object(Box::new(testkit::object(kind, object))));
    }

    /// Adds or replaces a pod with these fields beside a container that requests a CPU.
    ///
    /// # Panics
    /// Panics if the fields are not those of a pod.
    pub fn add_pod(&mut self, name: &str, fields: Value) {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let mut object = json!({
            "metadata": {"namespace": "default", "uid": name},
            "spec": {"schedulerName": "default-scheduler", "containers": [container]},
        });
        merge(&mut object, fields);
        merge(&mut object, json!({"metadata": {"name": name}}));
        let pod = Pod::from_json(&object, &self.fields).expect("a pod");
        self.report(pod);
    }

    /// Reports a new form of a pod, as the watch would.
    fn report(&mut self, pod: Pod) {
        self.pods.insert(pod.key.clone(), pod.clone());
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Deletes a pod, if it exists.
    pub fn delete(&mut self, name: &str) {
        let key = PodKey::new("default", name);
        let Some(pod) = self.pods.remove(&key) else { return };
        self.apply(Change::PodDeleted { key, uid: pod.uid });
    }

    /// Makes one attempt, whose effects are carried out later.
    pub fn attempt(&mut self) {
        self.on(|engine, now, ports| drop(engine.step(Input::Schedule, now, ports)));
    }

    /// Schedules until no pod is ready, and carries out the effects.
    ///
    /// # Panics
    /// Panics if that takes more than a thousand attempts.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            let attempt =
                self.on(|engine, now, ports| engine.step(Input::Schedule, now, ports).attempt());
            let effects = self.engine.take_effects();
            if attempt.is_none() && effects.is_empty() {
                return;
            }
            self.attempts += usize::from(attempt.is_some());
            for effect in effects {
                match effect.kind {
                    EffectKind::Bind { binding, .. } => {
                        let answered = Input::Answer { effect: effect.id, answer: Answer::ok() };
                        self.on(|engine, now, ports| engine.step(answered, now, ports));
                        self.bind(binding);
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

    fn bind(&mut self, binding: Binding) {
        self.bound.push(binding.pod.name.to_string());
        self.change(&binding.pod, |pod| pod.node_name = Some(binding.node));
    }

    /// Reports the pod as started.
    pub fn start(&mut self, key: &PodKey) {
        let now = self.now;
        self.change(key, |pod| pod.start_time = Some(now).into());
    }

    fn change(&mut self, key: &PodKey, change: impl FnOnce(&mut Pod)) {
        let Some(mut pod) = self.pods.get(key).cloned() else { return };
        change(&mut pod);
        pod.resource_version += 1;
        self.report(pod);
    }

    /// Passes so many seconds.
    pub fn pass(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            self.on(|engine, now, ports| engine.step(Input::Tick, now, ports));
            self.settle();
        }
    }

    /// Returns the nodes of all pods.
    pub fn placements(&self) -> BTreeMap<String, Option<String>> {
        let node = |pod: &Pod| pod.node_name.as_ref().map(ToString::to_string);
        self.pods.iter().map(|(key, pod)| (key.name.to_string(), node(pod))).collect()
    }

    /// Returns the node of a pod.
    pub fn node_of(&self, name: &str) -> Option<&str> {
        self.pods.get(&PodKey::new("default", name))?.node_name.as_deref()
    }

    /// Returns the last message of the condition of a pod.
    pub fn message(&self, name: &str) -> &str {
        self.messages.get(&PodKey::new("default", name)).map_or("", String::as_str)
    }
}

/// Adds the fields of one object to another.
fn merge(object: &mut Value, fields: Value) {
    match (object, fields) {
        (Value::Object(object), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, fields) => *object = fields,
    }
}
