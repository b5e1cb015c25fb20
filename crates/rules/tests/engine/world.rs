//! An engine with the in-tree plugins and the plugin Rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input, TieBreak};
use framework::{
    Answer, ArgumentsFeed, Binding, EventResource, ExtraFields, Feed, Node, PluginArgs, Pod,
    PodKey, Reload, Time,
};
use serde_json::{Value, json};

/// An engine and its API server.
pub(crate) struct World {
    engine: Engine,
    pub(crate) now: Time,
    fields: ExtraFields,
    reload: Arc<dyn Reload>,
    kind: Arc<str>,
    pub(crate) pods: BTreeMap<PodKey, Pod>,
    pub(crate) messages: BTreeMap<PodKey, String>,
    /// Number of attempts.
    pub(crate) attempts: usize,
}

impl World {
    /// Creates a world whose profile has the plugin with these arguments, with a weight above all.
    pub(crate) fn new(form: Form, args: Value) -> Self {
        let made = loadmaster_rules::plugin(&PluginArgs::new(args.clone())).unwrap();
        let Some(Feed::Arguments(feed)) = made.feeds.first().cloned() else { panic!("a feed") };
        let mut registry = plugins::registry();
        loadmaster_rules::add_to(&mut registry);
        let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let enabled = vec![PluginRef::new("Rules", 50)];
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            plugins: PluginSets {
                multi_point: PluginSet { enabled, ..PluginSet::default() },
                ..PluginSets::default()
            },
            plugin_config: vec![PluginConfig { name: "Rules".to_owned(), args: Some(args) }],
            ..SchedulerProfile::default()
        };
        let profiles = Profiles::build(&[profile], &defaults, &registry, false).unwrap();
        let fields = profiles.extra_fields();
        let config =
            EngineConfig { tie_break: TieBreak::FirstByName, form, ..EngineConfig::new(profiles) };
        Self {
            engine: Engine::new(config),
            now: Time::from_secs(1_000_000),
            fields,
            reload: feed.reload,
            kind: feed.kind,
            pods: BTreeMap::new(),
            messages: BTreeMap::new(),
            attempts: 0,
        }
    }

    fn on<T>(&mut self, call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T) -> T {
        call(&mut self.engine, self.now, &mut Ports { extenders: &mut (), probe: &mut () })
    }

    pub(crate) fn apply(&mut self, change: Change) {
        self.on(|engine, now, ports| engine.step(Input::Change(change), now, ports));
    }

    /// Adds or replaces a node with these fields beside the usual ones.
    pub(crate) fn node(&mut self, name: &str, fields: Value) {
        let allocatable = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
        let mut object = json!({"status": {"capacity": allocatable, "allocatable": allocatable}});
        merge(&mut object, fields);
        merge(&mut object, json!({"metadata": {"name": name}}));
        let (node, _) = Node::from_json(&object, &self.fields).unwrap();
        self.apply(Change::Node(node));
    }

    /// Reports new rules, as the daemon does after a change of the configuration.
    pub(crate) fn new_rules(&mut self, args: Value) {
        self.reload.check(&args).unwrap();
        let object = json!({"metadata": {"name": ArgumentsFeed::NAME}, "args": args});
        let kind = EventResource::Custom(self.kind.clone());
        self.apply(Change::Object(Box::new(testkit::object(kind, object))));
    }

    /// Adds or replaces a namespace.
    pub(crate) fn namespace(&mut self, name: &str, labels: Value) {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        let object = testkit::object(EventResource::Namespace, object);
        self.apply(Change::Object(Box::new(object)));
    }

    /// Creates a pod, or changes it, with these fields beside the usual ones.
    pub(crate) fn pod(&mut self, name: &str, fields: Value) {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let mut object = json!({
            "metadata": {"namespace": "default", "uid": name},
            "spec": {"schedulerName": "default-scheduler", "containers": [container]},
        });
        merge(&mut object, fields);
        merge(&mut object, json!({"metadata": {"name": name}}));
        let pod = Pod::from_json(&object, &self.fields).unwrap();
        self.pods.insert(pod.key.clone(), pod.clone());
        self.apply(Change::Pod(Box::new(pod)));
    }

    pub(crate) fn delete(&mut self, name: &str) {
        let key = PodKey::new("default", name);
        let Some(pod) = self.pods.remove(&key) else { return };
        self.apply(Change::PodDeleted { key, uid: pod.uid });
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
            self.attempts += usize::from(attempt.is_some());
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
        let Some(pod) = self.pods.get_mut(&binding.pod) else { return };
        pod.node_name = Some(binding.node.clone());
        pod.resource_version += 1;
        let pod = pod.clone();
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Passes so many seconds.
    pub(crate) fn pass(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            self.on(|engine, now, ports| engine.step(Input::Tick, now, ports));
            self.settle();
        }
    }

    pub(crate) fn node_of(&self, name: &str) -> Option<&str> {
        self.pods.get(&PodKey::new("default", name))?.node_name.as_deref()
    }

    pub(crate) fn message(&self, name: &str) -> &str {
        &self.messages[&PodKey::new("default", name)]
    }

    /// Returns the nodes of all pods.
    pub(crate) fn placements(&self) -> Vec<(String, Option<String>)> {
        let pods = self.pods.iter();
        let node = |pod: &Pod| pod.node_name.as_ref().map(ToString::to_string);
        pods.map(|(key, pod)| (key.name.to_string(), node(pod))).collect()
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
