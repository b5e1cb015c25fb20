//! An engine with the in-tree plugins and those of this crate.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input, TieBreak};
use framework::{Answer, Binding, EventResource, ExtraFields, Node, Pod, PodKey, Time};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The nodes of pods, by name of the pod.
pub(crate) type Placements = BTreeMap<String, Option<String>>;

/// An engine and its API server.
pub(crate) struct World {
    engine: Engine,
    pub(crate) now: Time,
    fields: ExtraFields,
    pub(crate) pods: BTreeMap<PodKey, Pod>,
    pub(crate) messages: BTreeMap<PodKey, String>,
    /// The names of the pods in the order in which they were bound.
    pub(crate) bound: Vec<String>,
}

impl World {
    pub(crate) fn new(form: Form, name: &str, args: Value) -> Self {
        Self::with(form, vec![PluginConfig { name: name.to_owned(), args: Some(args) }])
    }

    /// Creates a world whose profile has these plugins.
    pub(crate) fn with(form: Form, plugin_config: Vec<PluginConfig>) -> Self {
        let mut registry = plugins::registry();
        loadmaster_scheduler_plugins::add_to(&mut registry);
        let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let enabled = plugin_config.iter().map(|own| PluginRef::new(&own.name, 5)).collect();
        let multi_point = PluginSet { enabled, ..PluginSet::default() };
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            plugins: PluginSets { multi_point, ..PluginSets::default() },
            plugin_config,
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
            bound: Vec::new(),
        }
    }

    fn on<T>(&mut self, call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T) -> T {
        call(&mut self.engine, self.now, &mut Ports { extenders: &mut (), probe: &mut () })
    }

    pub(crate) fn apply(&mut self, change: Change) {
        self.on(|engine, now, ports| engine.step(Input::Change(change), now, ports));
    }

    pub(crate) fn node(&mut self, name: &str) {
        self.node_with(name, &json!({"cpu": "64", "memory": "256Gi", "pods": "110"}));
    }

    /// Adds a node that can give these amounts to pods.
    pub(crate) fn node_with(&mut self, name: &str, allocatable: &Value) {
        let status = json!({"capacity": allocatable, "allocatable": allocatable});
        let object = json!({"metadata": {"name": name}, "status": status});
        let (node, _) = Node::from_json(&object, &self.fields).unwrap();
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
        self.pod_of(name, &[json!({"name": "c", "resources": resources})]);
    }

    /// Creates a Guaranteed pod of these containers.
    pub(crate) fn pod_of(&mut self, name: &str, containers: &[Value]) {
        self.create(name, "Guaranteed", containers);
    }

    /// Creates a pod that asks for nothing.
    pub(crate) fn best_effort_pod(&mut self, name: &str) {
        self.create(name, "BestEffort", &[json!({"name": "c"})]);
    }

    fn create(&mut self, name: &str, class: &str, containers: &[Value]) {
        let object = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"schedulerName": "default-scheduler", "containers": containers},
            "status": {"qosClass": class},
        });
        let pod = Pod::from_json(&object, &self.fields).unwrap();
        self.pods.insert(pod.key.clone(), pod.clone());
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Makes one attempt, whose effects are carried out later.
    pub(crate) fn attempt(&mut self) {
        self.on(|engine, now, ports| drop(engine.step(Input::Schedule, now, ports)));
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
        self.bound.push(binding.pod.name.to_string());
        let pod = self.pods.get_mut(&binding.pod).unwrap();
        pod.node_name = Some(binding.node.clone());
        pod.resource_version += 1;
        let pod = pod.clone();
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Reports the pod as started.
    pub(crate) fn start(&mut self, key: &PodKey) {
        let pod = self.pods.get_mut(key).unwrap();
        pod.start_time = Some(self.now).into();
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

/// A step of a history. A plugin adds steps that change what it reads.
#[derive(Debug, Clone)]
pub(crate) enum Step<T> {
    Own(T),
    Pod { cpu: i64 },
    Delete(usize),
    Pass { rounds: usize },
}

/// Returns steps, of which about a third are those of the plugin.
pub(crate) fn steps<T: Debug + Clone + 'static>(
    own: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<Step<T>>> {
    let step = prop_oneof![
        5 => own.prop_map(Step::Own),
        6 => (1i64..5).prop_map(|cpu| Step::Pod { cpu }),
        2 => (0usize..20).prop_map(Step::Delete),
        2 => (1usize..6).prop_map(|rounds| Step::Pass { rounds }),
    ];
    prop::collection::vec(step, 1..40)
}

/// The name of a node of a history.
pub(crate) fn node_name(number: usize) -> String {
    format!("n{number}")
}

/// Number of nodes of a history.
pub(crate) const NODES: usize = 4;

/// Checks that decisions which look only at changed nodes are those of full passes, in both forms.
///
/// # Errors
/// A pod is elsewhere after one of the steps.
pub(crate) fn forms_agree<T>(
    name: &str,
    args: &Value,
    steps: &[Step<T>],
    own: impl Fn(&mut World, &T),
) -> Result<(), TestCaseError> {
    let history = |form| {
        let mut world = World::new(form, name, args.clone());
        (0..NODES).for_each(|node| world.node(&node_name(node)));
        let (mut pods, mut history) = (0, Vec::new());
        for step in steps {
            match step {
                Step::Own(step) => own(&mut world, step),
                Step::Pod { cpu } => {
                    world.pod(&format!("p{pods}"), *cpu);
                    pods += 1;
                }
                Step::Delete(pod) => world.delete(&format!("p{pod}")),
                Step::Pass { rounds } => (0..*rounds).for_each(|_| world.pass()),
            }
            world.settle();
            history.push(world.placements());
        }
        history
    };
    let ranked = history(Form::Ranked);
    prop_assert_eq!(&ranked, &history(Form::Set));
    prop_assert_eq!(&ranked, &history(Form::OneNode));
    Ok(())
}
