//! An engine with the objects of a case.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::{Change, Engine, EngineConfig, Evaluation, TieBreak};
use framework::{Cluster, EventResource, Handle, Node, Pod, PodKey, Time, Uid, api};
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
}

impl World {
    /// Creates an empty cluster without sampling.
    pub(crate) fn new(setting: &Setting) -> Self {
        Self::with(EngineConfig::new(setting.profiles.clone()))
    }

    /// Creates an empty cluster with this engine configuration.
    pub(crate) fn with(config: EngineConfig) -> Self {
        let engine = Engine::new(EngineConfig { tie_break: TieBreak::FirstByName, ..config });
        Self { engine, uids: BTreeMap::new() }
    }

    /// Nodes and pods.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.engine.cache().cluster()
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
            Some("Pod") => self.apply_pod(pod(object)?),
            Some(kind) => self.apply_other(kind, object, Some(object)),
            None => {}
        }
        Ok(())
    }

    /// Applies a new state, or the deletion, of an object of this kind with namespace and name of
    /// `of`.
    fn apply_other(&mut self, kind: &str, of: &Value, object: Option<&Value>) {
        let Some(kind) = OTHERS.iter().find(|known| plain_name(known) == kind) else { return };
        let metadata = if of["metadata"].is_null() { of } else { &of["metadata"] };
        let PodKey { namespace, name } = key(&metadata["namespace"], &metadata["name"]);
        let object = object.cloned().map(Arc::new);
        self.change(Change::Object { kind: kind.clone(), namespace, name, object });
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
            .evaluate(pod, form, start, after_all_starts(), ports)
            .ok_or_else(|| format!("no profile is called {:?}", pod.spec.scheduler_name))
    }

    fn change(&mut self, change: Change) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine.apply(change, Time::ZERO, ports);
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
