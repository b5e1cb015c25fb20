//! An engine with the objects of a case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::{Change, EffectKind, Engine, EngineConfig, Evaluation, Input, Outcome, TieBreak};
use framework::{
    Answer, Cluster, EventResource, Handle, Node, Object, ObjectKey, Pod, PodKey, Time, Uid, api,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::setting::{DEFAULT_SCHEDULER, Setting};

/// The forms of plugins, with their names in deviations.
pub(crate) const FORMS: [(Form, &str); 2] =
    [(Form::Set, "set form"), (Form::OneNode, "one-node form")];

/// The kinds other than nodes and pods that built plugins read.
const OTHERS: [EventResource; 16] = [
    EventResource::Namespace,
    EventResource::Service,
    EventResource::ReplicationController,
    EventResource::ReplicaSet,
    EventResource::StatefulSet,
    EventResource::PodDisruptionBudget,
    EventResource::PersistentVolumeClaim,
    EventResource::PersistentVolume,
    EventResource::StorageClass,
    EventResource::CsiNode,
    EventResource::CsiDriver,
    EventResource::CsiStorageCapacity,
    EventResource::VolumeAttachment,
    EventResource::ResourceClaim,
    EventResource::ResourceSlice,
    EventResource::DeviceClass,
];

/// Returns the name of a kind without its group.
fn plain_name(kind: &EventResource) -> &str {
    kind.name().rsplit('/').next().unwrap_or_default()
}

/// An engine with a cluster.
pub(crate) struct World {
    engine: Engine,
    /// The known pods, to distinguish pods of the same name.
    uids: BTreeMap<PodKey, Uid>,
    /// The time of changes.
    now: Time,
    /// Whether pods without a node stay out of the active queue.
    holds_pods: bool,
}

impl World {
    /// Creates an empty cluster without sampling.
    pub(crate) fn new(setting: &Setting) -> Self {
        Self::with(EngineConfig::new(setting.profiles.clone()))
    }

    /// Creates an empty cluster with this engine configuration.
    pub(crate) fn with(config: EngineConfig) -> Self {
        let engine = Engine::new(EngineConfig { tie_break: TieBreak::FirstByName, ..config });
        Self { engine, uids: BTreeMap::new(), now: Time::ZERO, holds_pods: false }
    }

    /// Creates an empty cluster for decisions by rankings. Pods without a node wait, but for those
    /// to [decide](Self::decide) about.
    pub(crate) fn ranked(setting: &Setting) -> Self {
        let config = EngineConfig::new(setting.profiles.clone());
        let engine =
            Engine::new(EngineConfig { longest_preemption_pause: Duration::ZERO, ..config });
        Self { engine, uids: BTreeMap::new(), now: after_all_starts(), holds_pods: true }
    }

    /// Nodes and pods.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.engine.cluster()
    }

    /// The views that plugins get.
    pub(crate) fn handle(&self) -> Handle<'_> {
        self.engine.handle(Time::ZERO)
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Applies every object of a list; an absent list is empty.
    pub(crate) fn apply_all(&mut self, objects: &Value) -> Result<(), String> {
        objects.as_array().into_iter().flatten().try_for_each(|object| self.apply(object))
    }

    /// Adds an object, or replaces the one of its kind and name. Kinds that no built plugin reads
    /// are ignored.
    pub(crate) fn apply(&mut self, object: &Value) -> Result<(), String> {
        match object["kind"].as_str() {
            Some("Node") => self.change(Change::Node(node(object)?)),
            Some("Pod") => {
                let mut pod = pod(object)?;
                if self.holds_pods && pod.node_name.is_none() {
                    let spec = Arc::make_mut(&mut pod.spec);
                    spec.scheduling_gates = ["held".into()].into();
                }
                self.apply_pod(pod);
            }
            Some(kind) => self.apply_other(kind, object, Some(object)),
            None => {}
        }
        Ok(())
    }

    /// Applies a new state, or the deletion, of an object of this kind with namespace and name of
    /// `of`.
    fn apply_other(&mut self, kind: &str, of: &Value, object: Option<&Value>) {
        let Some(kind) = OTHERS.iter().find(|known| plain_name(known) == kind) else { return };
        // An object that does not decode is left out, as by the decoder of the daemon.
        if let Ok(change) = Change::decode(object_key(kind, of), object.cloned()) {
            self.change(change);
        }
    }

    /// Applies a pod.
    pub(crate) fn apply_pod(&mut self, pod: Pod) {
        let other = self.uids.insert(pod.key.clone(), pod.uid.clone());
        if let Some(uid) = other.filter(|uid| *uid != pod.uid) {
            self.change(Change::PodDeleted { key: pod.key.clone(), uid });
        }
        self.change(Change::Pod(Box::new(pod)));
    }

    /// Deletes the object of a `delete` step.
    pub(crate) fn delete(&mut self, step: &Value) {
        let key = key(&step["namespace"], &step["name"]);
        match step["kind"].as_str() {
            Some("Node") => self.change(Change::NodeDeleted(key.name)),
            Some("Pod") => {
                if let Some(uid) = self.uids.remove(&key) {
                    self.change(Change::PodDeleted { key, uid });
                }
            }
            Some(kind) => self.apply_other(kind, step, None),
            None => {}
        }
    }

    /// Returns the decision about the pod with this form of the plugins; a sampled search begins at
    /// `start`.
    pub(crate) fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        start: Option<usize>,
    ) -> Result<Evaluation, String> {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine
            .step(Input::Evaluate { pod: pod.clone(), form, start }, after_all_starts(), ports)
            .evaluation()
            .ok_or_else(|| format!("no profile is called {:?}", pod.spec.scheduler_name))
    }

    /// Makes an attempt for a pod, which is gone afterwards. Returns its outcome and the node to
    /// which the pod was nominated; `None` if the pod may not be tried. Binds succeed and other
    /// writes are refused.
    pub(crate) fn decide(&mut self, pod: &Pod) -> Option<(Outcome, Option<Arc<str>>)> {
        self.change(Change::Pod(Box::new(pod.clone())));
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let attempt = self.engine.step(Input::Schedule, self.now, ports).attempt();
        let nominated = self.engine.nominator().node_of(&pod.uid).cloned();
        for effect in self.engine.take_effects() {
            let answer = match effect.kind {
                EffectKind::Write(_) => Answer::Conflict("refused".to_owned()),
                EffectKind::Evict(_) => Answer::Forbidden("refused".to_owned()),
                _ => Answer::ok(),
            };
            self.engine.step(
                Input::Answer { effect: effect.id, answer: answer.clone() },
                self.now,
                ports,
            );
        }
        self.change(Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() });
        let attempt = attempt.filter(|attempt| attempt.pod.uid == pod.uid)?;
        Some((attempt.outcome, nominated))
    }

    fn change(&mut self, change: Change) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine.step(Input::Change(change), self.now, ports);
        self.engine.take_effects();
    }
}

/// A time after every `startTime` of the corpus: pods without one count as started now.
const fn after_all_starts() -> Time {
    Time::from_secs(4_000_000_000)
}

/// Decodes an object of the corpus.
pub(crate) fn read<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    T::deserialize(object).map_err(|error| format!("cannot read an object: {error}"))
}

/// Decodes a pod and fills in the defaults that the corpus omits.
pub(crate) fn pod(object: &Value) -> Result<Pod, String> {
    let mut pod: api::Pod = read(object)?;
    let or = |text: &mut String, default: &str| {
        if text.is_empty() {
            default.clone_into(text);
        }
    };
    or(&mut pod.spec.scheduler_name, DEFAULT_SCHEDULER);
    or(&mut pod.metadata.namespace, "default");
    let uid = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    or(&mut pod.metadata.uid, &uid);
    Ok(Pod::from_api(&pod))
}

/// Decodes a node.
pub(crate) fn node(object: &Value) -> Result<Node, String> {
    Ok(Node::from_api(&read(object)?).0)
}

fn key(namespace: &Value, name: &Value) -> PodKey {
    PodKey::new(namespace.as_str().unwrap_or_default(), name.as_str().unwrap_or_default())
}

/// Returns the key of an object of a kind, or of the step that deletes it.
fn object_key(kind: &EventResource, of: &Value) -> ObjectKey {
    let metadata = if of["metadata"].is_null() { of } else { &of["metadata"] };
    let PodKey { namespace, name } = key(&metadata["namespace"], &metadata["name"]);
    ObjectKey::namespaced(kind.clone(), namespace, name)
}

/// Decodes an object of a kind other than node and pod.
pub(crate) fn object(kind: &str, object: &Value) -> Result<Object, String> {
    let known = OTHERS.iter().find(|known| plain_name(known) == kind);
    let known = known.ok_or_else(|| format!("no plugin reads a {kind}"))?;
    Object::decode(object_key(known, object), object.clone()).map_err(|error| error.to_string())
}
