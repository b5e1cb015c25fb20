//! An engine in a simulated world: a clock that jumps, and an API server that accepts every
//! request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use engine::cycle::Form;
use engine::ports::{ExtenderClient, Ports};
use engine::queue::Place;
use engine::{
    Attempt, Change, Effect, EffectId, EffectKind, Engine, Evaluation, Eviction, Input, Outcome,
};
use framework::{
    Answer, Binding, EventResource, Extra, Node, ObjectKey, Pod, PodKey, StatusPatch, Time, Uid,
    Write, WriteAction,
};
use make_room::report::{Asking, Options};
use serde_json::Value;

use crate::claims::{self, Claims, PlacedDevice};
use crate::extenders::{CalledExtenders, ReadObjects};
use crate::renewal::{is_of_group, owned_claims, renewed};
use crate::settings::{Limit, PluginMonitor};
use crate::volumes::Volumes;
use crate::what_if::cordon;
use crate::{BuildError, Object, Settings};

/// Maximum number of jumps of the clock to pods in backoff without a placement. With the default
/// backoffs this is a minute and a half.
const IDLE_STEPS: u32 = 12;

/// Maximum number of successive attempts without a placement, as a multiple of the number of pods.
/// It ends rounds in which plugins would reject pods in turn forever.
const FRUITLESS_ROUNDS: usize = 4;

/// Time without a placement after which no attempt is made until something arrives or leaves. Pods
/// are tried again every few minutes, and a trace may have gaps of any length.
const LONGEST_VAIN: Duration = Duration::from_hours(7 * 24);

const NO_SERVER: &str = "a simulation has no API server that could do this";

/// The history of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodHistory {
    /// The time of arrival.
    pub arrived: Time,
    /// Number of scheduling attempts.
    pub attempts: u32,
    /// The state of the pod.
    pub state: State,
}

/// The state of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There was no attempt.
    New,
    /// No node fits; with the message of the condition.
    Unschedulable(String),
    /// The last attempt failed; with the error.
    Failed(String),
    /// The pod is being deleted and is not retried.
    Terminating,
    /// The pod was placed, and then evicted for another pod.
    Evicted,
    /// The pod runs.
    Placed {
        /// The node.
        node: Arc<str>,
        /// The time of the placement.
        at: Time,
    },
}

/// An evicted pod, which ran before or was placed by the simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted {
    /// The pod.
    pub pod: PodKey,
    /// Its node before the eviction.
    pub node: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// The preemptor.
    pub preemptor: PodKey,
}

/// An engine, the time, and the pods.
///
/// Effects are carried out at once: every Binding succeeds, and the pod then appears bound.
pub struct World {
    engine: Engine,
    now: Time,
    /// Pods that arrived without a node; looked up by name, never iterated.
    histories: HashMap<PodKey, PodHistory>,
    /// Pods placed since the last [`take_placed`](World::take_placed), in order.
    placed: Vec<PodKey>,
    evicted: Vec<Evicted>,
    /// What plugins have written to pods that are being bound; looked up by name, never iterated.
    patches: HashMap<PodKey, Value>,
    volumes: Volumes,
    claims: Claims,
    monitor: Box<dyn PluginMonitor>,
    /// The extenders, if the run calls them.
    extenders: Option<CalledExtenders>,
    limit: Limit,
    is_cut: bool,
}

impl World {
    /// Calls the engine, with the extenders of the run and the probe of the plugins.
    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T) -> T {
        let mut none = ();
        let extenders: &mut dyn ExtenderClient = match &mut self.extenders {
            Some(called) => &mut *called.client,
            None => &mut none,
        };
        let ports = &mut Ports { extenders, probe: &mut *self.monitor };
        call(&mut self.engine, self.now, ports)
    }

    /// Creates an empty world that schedules the pods of these scheduler names.
    ///
    /// # Errors
    /// A profile cannot be built.
    pub fn new<'a>(
        settings: &Settings,
        scheduler_names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, BuildError> {
        Self::with_objects(settings, scheduler_names, ReadObjects::default())
    }

    /// Creates an empty world whose extenders get nodes and pods as they were read.
    pub(crate) fn with_objects<'a>(
        settings: &Settings,
        scheduler_names: impl IntoIterator<Item = &'a str>,
        read: ReadObjects,
    ) -> Result<Self, BuildError> {
        let engine = Engine::new(settings.engine(scheduler_names)?);
        let extenders = settings.extenders.as_ref();
        Ok(Self {
            engine,
            now: Time::ZERO,
            histories: HashMap::new(),
            placed: Vec::new(),
            evicted: Vec::new(),
            patches: HashMap::new(),
            volumes: Volumes::default(),
            claims: Claims::default(),
            monitor: (settings.monitor)(),
            extenders: extenders.map(|extenders| CalledExtenders::new(extenders, read)),
            limit: settings.limit.clone(),
            is_cut: false,
        })
    }

    /// Returns the engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Evaluates a pod against the cluster as it is, and changes nothing. Returns `None` if no
    /// profile is responsible for the pod.
    pub(super) fn evaluate(&mut self, pod: &Pod) -> Option<Evaluation> {
        let pod = Arc::new(pod.clone());
        self.call(|engine, now, ports| {
            engine
                .step(
                    Input::Evaluate { pod: pod.clone(), form: Form::Set, start: None },
                    now,
                    ports,
                )
                .evaluation()
        })
    }

    /// Looks for moves after which a pod fits, and changes nothing.
    pub fn make_room(&mut self, question: &::make_room::Question<'_>) -> ::make_room::Answer {
        ::make_room::make_room(&mut self.engine, question, self.now)
    }

    /// Asks about moves of pods, and changes nothing.
    pub(crate) fn about_moves<T>(
        &mut self,
        options: Options,
        ask: impl FnOnce(Asking<'_>) -> T,
    ) -> T {
        let Self { engine, limit, now, .. } = self;
        ask(Asking { engine, now: *now, options, is_over: &|| limit.is_over() })
    }

    /// Whether the limit of the settings has ended a run.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the current time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the metrics of plugins by name, summed over profiles.
    pub fn metrics(&self) -> BTreeMap<String, i64> {
        let profiles = self.engine.profiles().iter();
        let plugins = profiles.flat_map(|profile| profile.plugins.values());
        let mut metrics = BTreeMap::new();
        for metric in plugins.flat_map(|plugin| &plugin.metrics) {
            *metrics.entry(metric.name().to_owned()).or_insert(0) += metric.value();
        }
        metrics
    }

    /// Returns a warning for each plugin that panicked or was slow, and for each extender that
    /// failed.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.monitor.warnings();
        warnings.extend(self.extenders.iter().flat_map(|called| called.client.warnings()));
        warnings
    }

    /// Returns the history of a pod that arrived without a node.
    pub fn history(&self, pod: &PodKey) -> Option<&PodHistory> {
        self.histories.get(pod)
    }

    /// Returns the pods placed since the last call, in order.
    pub fn take_placed(&mut self) -> Vec<PodKey> {
        std::mem::take(&mut self.placed)
    }

    /// Returns the evicted pods, in order.
    pub fn evicted(&self) -> &[Evicted] {
        &self.evicted
    }

    /// Adds or replaces a node.
    pub fn add_node(&mut self, node: Node) {
        self.apply(Change::Node(node));
    }

    /// Removes a node. Its pods stay on it until they are removed.
    pub fn remove_node(&mut self, name: &Arc<str>) {
        self.apply(Change::NodeDeleted(name.clone()));
    }

    /// Removes an object that a plugin reads.
    pub fn remove_object(&mut self, kind: EventResource, namespace: Arc<str>, name: Arc<str>) {
        self.apply(Change::ObjectDeleted(ObjectKey::namespaced(kind, namespace, name)));
    }

    /// Adds or replaces an object that a plugin reads.
    pub fn add_object(&mut self, mut object: Object) {
        self.volumes.keep(&object);
        self.claims.keep(&mut object);
        if let Some(change) = object.change() {
            self.apply(change);
        }
    }

    /// Adds a claim, unless a claim with its name exists.
    pub(super) fn add_missing_claim(&mut self, claim: Object) {
        let cluster = self.engine.cluster();
        if cluster.claim(&claim.namespace, &claim.name).is_none() {
            self.add_object(claim);
        }
    }

    /// Adds a pod, on its node if it has one.
    pub fn add_pod(&mut self, pod: Pod) {
        if pod.node_name.is_none() {
            let history = PodHistory { arrived: self.now, attempts: 0, state: State::New };
            self.histories.insert(pod.key.clone(), history);
        }
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Removes a running or pending pod, and frees its devices. Its history is kept.
    pub fn remove_pod(&mut self, pod: &Pod) {
        self.hide_pod(pod);
        self.release_claims(&pod.uid);
        self.carry_out_effects();
    }

    /// Removes a pod for a question about the others. Its devices stay allocated.
    pub(super) fn hide_pod(&mut self, pod: &Pod) {
        self.apply(Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() });
    }

    /// Returns the devices that a pod uses.
    pub(super) fn devices_of(&self, pod: &Pod) -> Vec<PlacedDevice> {
        let group = self.engine.cluster().pod_group_of(pod);
        self.claims.devices_of(pod, group.map(|(_, group)| &group.uid))
    }

    /// Returns the pods on a node, by name.
    pub(super) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        let cluster = self.engine.cluster();
        let Some(node) = cluster.node_named(node) else { return Vec::new() };
        let mut pods: Vec<_> = cluster.node(node).pods().cloned().collect();
        pods.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        pods
    }

    /// Cordons or uncordons a node. Returns whether it was cordoned; `None` if there is no such
    /// node.
    pub(super) fn cordon(&mut self, name: &str, unschedulable: bool) -> Option<bool> {
        let cluster = self.engine.cluster();
        let mut node = cluster.copy_of_node(cluster.node_named(name)?);
        let before = node.unschedulable;
        cordon(&mut node, unschedulable);
        self.add_node(node);
        Some(before)
    }

    /// Removes a running pod, and adds the pod that its controller makes in its place, with new
    /// claims of its own.
    pub(super) fn replace_pod(&mut self, old: &Pod, new: Pod) {
        let cluster = self.engine.cluster();
        let namespace = &old.key.namespace;
        let claims = owned_claims(old).into_iter().filter_map(|(kind, name)| {
            let key = ObjectKey::namespaced(kind.clone(), namespace.clone(), name.as_str().into());
            let claim = cluster.stored_object(&key)?.json();
            // A claim of its PodGroup stays.
            (!is_of_group(&claim)).then_some((kind, name, claim))
        });
        let claims: Vec<_> = claims.collect();
        self.remove_pod(old);
        for (kind, name, claim) in claims {
            let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str);
            if let Some(volume) = volume.filter(|_| kind == EventResource::PersistentVolumeClaim) {
                let kind = EventResource::PersistentVolume;
                let key = ObjectKey::cluster_scoped(kind, volume.into());
                self.apply(Change::ObjectDeleted(key));
            }
            let object = renewed(&kind, &claim, &new.uid).into();
            self.add_object(Object {
                kind,
                namespace: namespace.clone(),
                name: name.into(),
                object,
            });
        }
        self.add_pod(new);
    }

    fn release_claims(&mut self, pod: &Uid) {
        for changed in self.claims.release(pod) {
            self.show_claim(changed);
        }
    }

    fn apply(&mut self, change: Change) {
        self.show(change);
        self.carry_out_effects();
    }

    /// Shows a change to the extenders and to the engine.
    fn show(&mut self, change: Change) {
        if let Some(extenders) = &mut self.extenders {
            extenders.note(&change);
        }
        self.call(|engine, now, ports| engine.step(Input::Change(change), now, ports));
    }

    /// Advances the time to `time`, and carries out what becomes due, until a week has passed
    /// without a placement.
    pub fn advance_to(&mut self, time: Time) {
        let mut placed_at = self.now;
        while let Some(deadline) = self.engine.next_deadline().filter(|due| *due <= time) {
            if deadline.since(placed_at) > LONGEST_VAIN {
                break;
            }
            let placed = self.placed.len();
            self.jump_to(deadline);
            self.run_ready();
            if self.placed.len() > placed {
                placed_at = self.now;
            }
            if self.engine.next_deadline().is_some_and(|next| next <= deadline) {
                break;
            }
        }
        self.now = self.now.max(time);
    }

    /// Schedules all pods of the active queue. Pods in backoff after an error keep waiting.
    pub fn run_ready(&mut self) {
        self.sync_claims();
        let queued = self.engine.queue().counts();
        let pods = queued.active + queued.backoff + queued.unschedulable;
        let mut left = FRUITLESS_ROUNDS * pods;
        while !self.is_over()
            && let Some(attempt) =
                self.call(|engine, now, ports| engine.step(Input::Schedule, now, ports).attempt())
        {
            let placed = self.placed.len();
            self.note(attempt);
            self.carry_out_effects();
            left = match self.placed.len() > placed {
                true => FRUITLESS_ROUNDS * pods,
                false => left.saturating_sub(1),
            };
            if left == 0 {
                break;
            }
        }
    }

    /// Whether no further attempt is made.
    fn is_over(&mut self) -> bool {
        self.is_cut = self.is_cut || self.limit.is_over();
        self.is_cut
    }

    /// Runs the volume controller for new claims.
    fn sync_claims(&mut self) {
        while let Some(changed) = self.volumes.sync_claim(self.engine.cluster()) {
            self.apply_all(changed);
        }
    }

    /// Runs until no further pod can be placed.
    ///
    /// Time advances for pods in backoff and for pods in a binding cycle while pods are placed, and
    /// for a limited time after that. It does not advance for unschedulable pods: without a change
    /// of the cluster, time does not help them.
    pub fn run_until_idle(&mut self) {
        let mut idle_steps = 0;
        while idle_steps < IDLE_STEPS {
            let placed = self.placed.len();
            self.run_ready();
            idle_steps = if self.placed.len() > placed { 0 } else { idle_steps + 1 };
            if self.is_cut || !self.time_may_help() {
                break;
            }
            let Some(deadline) = self.engine.next_deadline() else { break };
            self.jump_to(deadline);
        }
    }

    fn time_may_help(&self) -> bool {
        self.engine.queue().counts().backoff > 0 || self.engine.binding_count() > 0
    }

    fn jump_to(&mut self, deadline: Time) {
        self.now = self.now.max(deadline);
        self.call(|engine, now, ports| engine.step(Input::Tick, now, ports));
        self.carry_out_effects();
    }

    fn note(&mut self, attempt: Attempt) {
        let terminating = attempt.pod.terminating;
        let Some(history) = self.histories.get_mut(&attempt.pod.key) else { return };
        history.attempts += 1;
        match attempt.outcome {
            Outcome::Assumed(_) => {}
            Outcome::Unschedulable(reason) | Outcome::Repeated(reason) => {
                history.state = State::Unschedulable(reason);
            }
            Outcome::Error(reason) => history.state = State::Failed(reason),
            Outcome::Skipped if terminating => history.state = State::Terminating,
            Outcome::Skipped => history.attempts -= 1,
        }
    }

    fn carry_out_effects(&mut self) {
        loop {
            let effects = self.engine.take_effects();
            if effects.is_empty() {
                return;
            }
            for Effect { id, kind } in effects {
                self.carry_out(id, kind);
            }
        }
    }

    /// Notes why a member of a group waits. The attempt of its group names only the first member.
    fn note_condition(&mut self, pod: &PodKey, patch: &StatusPatch) {
        let Some(condition) = patch.condition.as_ref().filter(|own| !own.status) else { return };
        let is_member = self.engine.pending_pod(pod).is_some_and(|pod| pod.group().is_some());
        let Some(history) = self.histories.get_mut(pod).filter(|_| is_member) else { return };
        let message = condition.message.to_string();
        match &*condition.reason {
            "SchedulerError" => history.state = State::Failed(message),
            "SchedulingGated" => {}
            _ => history.state = State::Unschedulable(message),
        }
    }

    /// Carries out an effect. Events are ignored, because no client reads them.
    fn carry_out(&mut self, id: EffectId, kind: EffectKind) {
        match kind {
            EffectKind::Bind { binding, .. } | EffectKind::ExtenderBind { binding, .. } => {
                self.bind(id, &binding);
            }
            EffectKind::Evict(eviction) => self.evict(id, eviction),
            EffectKind::Write(write) => self.write(id, &write),
            EffectKind::ReadPod { .. }
            | EffectKind::Fence { .. }
            | EffectKind::TouchPod { .. }
            | EffectKind::PlanMoves(_)
            | EffectKind::RequestEviction { .. } => {
                self.answer(id, &Answer::Error(NO_SERVER.to_owned()));
            }
            EffectKind::PatchPodStatus { pod, patch, .. } => self.note_condition(&pod, &patch),
            EffectKind::Event(_) => {}
        }
    }

    fn bind(&mut self, id: EffectId, binding: &Binding) {
        self.answer(id, &Answer::ok());
        let Some(placed) = self.engine.world().placed(&binding.uid) else { return };
        let mut bound = Pod { start_time: Some(self.now).into(), ..Pod::clone(&placed.pod) };
        let patch = self.patches.remove(&binding.pod);
        if let Some(patch) = patch.filter(|_| bound.extra == Extra::default()) {
            bound.extra = Extra::of(&patch, &self.engine.profiles().extra_fields().pod);
        }
        if let Some(history) = self.histories.get_mut(&binding.pod) {
            history.state = State::Placed { node: binding.node.clone(), at: self.now };
        }
        self.placed.push(binding.pod.clone());
        self.show(Change::Pod(Box::new(bound)));
    }

    /// Applies a write of a plugin before the bind.
    fn write(&mut self, id: EffectId, write: &Write) {
        if *write.resource == *claims::RESOURCE {
            return self.write_claim(id, write);
        }
        if let ("pods", WriteAction::MergePatch(patch)) = (&*write.resource, &write.action) {
            let pod = PodKey { namespace: write.namespace.clone(), name: write.name.clone() };
            self.patches.insert(pod, patch.clone());
        }
        let changed = self.volumes.write(write, self.engine.cluster());
        let written = changed.first().map(|written| Value::clone(&written.object));
        self.answer(id, &Answer::Ok(written));
        self.apply_all(changed);
    }

    /// Applies a write of DynamicResources.
    fn write_claim(&mut self, id: EffectId, write: &Write) {
        let (answer, changed) = self.claims.write(write);
        self.answer(id, &answer);
        if let Some(changed) = changed {
            self.show_claim(changed);
        }
    }

    fn show_claim(&mut self, changed: claims::Changed) {
        let claims::Changed { namespace, name, object } = changed;
        let key = ObjectKey::namespaced(EventResource::ResourceClaim, namespace, name);
        if let Ok(change) = Change::decode(key, object) {
            self.call(|engine, now, ports| engine.step(Input::Change(change), now, ports));
        }
    }

    fn apply_all(&mut self, changed: Vec<Object>) {
        for change in changed.into_iter().filter_map(Object::change) {
            self.call(|engine, now, ports| engine.step(Input::Change(change), now, ports));
        }
    }

    /// Evicts a pod, which is removed at once.
    fn evict(&mut self, id: EffectId, eviction: Eviction) {
        let Eviction { pod, uid, preemptor, .. } = eviction;
        if let Some(placed) = self.engine.world().placed(&uid) {
            let node = self.engine.cluster().node_name(placed.node).clone();
            let (pod, priority) = (pod.clone(), placed.pod.priority());
            self.evicted.push(Evicted { pod, node, priority, preemptor });
        }
        self.answer(id, &Answer::ok());
        if let Some(history) = self.histories.get_mut(&pod) {
            history.state = State::Evicted;
        }
        let deleted = Change::PodDeleted { key: pod, uid: uid.clone() };
        self.call(|engine, now, ports| engine.step(Input::Change(deleted), now, ports));
        self.release_claims(&uid);
    }

    fn answer(&mut self, id: EffectId, answer: &Answer) {
        self.call(|engine, now, ports| {
            engine.step(Input::Answer { effect: id, answer: answer.clone() }, now, ports)
        });
    }

    /// Returns the message of the PreEnqueue plugin that gates the pod before its first attempt.
    pub fn gate_of(&self, pod: &PodKey) -> Option<String> {
        let (place, queued) = self.engine.queue().get(pod)?;
        let plugin = self.engine.queue().gate_of(pod).filter(|_| place == Place::Gated)?;
        let profile = self.engine.profiles().get(&queued.pod.spec.scheduler_name)?;
        let gate = profile.pre_enqueue.iter().find(|gate| gate.name == *plugin)?;
        Some(gate.plugin.pre_enqueue(&queued.pod, &self.engine.handle(self.now)).message())
    }
}

#[cfg(test)]
mod tests {
    use engine::profile::{PluginRef, PluginSet, PluginSets, SchedulerProfile};
    use engine::queue::QueueConfig;
    use serde_json::{Value, json};

    use super::*;

    fn world() -> World {
        let enabled = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight));
        let multi_point = PluginSet { enabled: enabled.collect(), ..PluginSet::default() };
        let plugins = PluginSets { multi_point, ..PluginSets::default() };
        let scheduler_name = "default-scheduler".to_owned();
        let profile = SchedulerProfile { scheduler_name, plugins, ..SchedulerProfile::default() };
        let settings = Settings {
            seed: 0,
            percentage_of_nodes_to_score: 0,
            adaptive_sampling: false,
            queue: QueueConfig::default(),
            profiles: vec![profile],
            registry: Arc::new(plugins::registry()),
            monitor: || Box::new(()),
            extenders: None,
            limit: Limit::default(),
        };
        World::new(&settings, ["default-scheduler"]).unwrap()
    }

    fn node(name: &str, cpu: &str) -> Node {
        let status = json!({"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}});
        let node = json!({"metadata": {"name": name}, "status": status});
        Node::from_api(&serde_json::from_value(node).unwrap()).0
    }

    fn pod(name: &str, mut spec: Value) -> Pod {
        spec["schedulerName"] = "default-scheduler".into();
        let metadata = json!({"name": name, "namespace": "default", "uid": name});
        let pod = json!({"metadata": metadata, "spec": spec});
        Pod::from_api(&serde_json::from_value(pod).unwrap())
    }

    fn asking(name: &str, cpu: &str) -> Pod {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        pod(name, json!({"containers": [container]}))
    }

    /// Returns a pod whose scoring always fails, because one of its preferences is invalid.
    fn failing(name: &str) -> Pod {
        let expression = json!({"key": "a", "operator": "Near"});
        let term = json!({"weight": 1, "preference": {"matchExpressions": [expression]}});
        let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [term]});
        pod(name, json!({"affinity": {"nodeAffinity": preferred}}))
    }

    fn state<'a>(world: &'a World, pod: &Pod) -> &'a State {
        &world.history(&pod.key).unwrap().state
    }

    #[test]
    fn pods_are_placed_until_nothing_fits() {
        let mut world = world();
        world.add_node(node("n", "2"));
        let pods = ["a", "b", "c"].map(|name| asking(name, "1"));
        pods.iter().for_each(|pod| world.add_pod(pod.clone()));
        world.run_until_idle();
        assert_eq!(world.take_placed(), [pods[0].key.clone(), pods[1].key.clone()]);
        assert!(matches!(state(&world, &pods[2]), State::Unschedulable(_)));
        assert_eq!(world.engine().world().assumed_count(), 0, "the pods show up bound");
    }

    #[test]
    fn departure_makes_room_for_a_pending_pod() {
        let mut world = world();
        world.add_node(node("n", "1"));
        let (first, second) = (asking("a", "1"), asking("b", "1"));
        world.add_pod(first.clone());
        world.add_pod(second.clone());
        world.run_until_idle();
        world.advance_to(Time::from_secs(60));
        world.remove_pod(&first);
        world.run_ready();
        let placed = State::Placed { node: "n".into(), at: Time::from_secs(60) };
        assert_eq!(*state(&world, &second), placed);
        assert_eq!(world.history(&second.key).unwrap().attempts, 2);
    }

    #[test]
    fn failing_pod_ends_with_its_error() {
        let mut world = world();
        ["n", "m"].into_iter().for_each(|name| world.add_node(node(name, "1")));
        let pod = failing("a");
        world.add_pod(pod.clone());
        world.run_until_idle();
        let State::Failed(error) = state(&world, &pod) else { panic!("{:?}", state(&world, &pod)) };
        assert!(error.contains("Near"), "{error}");
        assert!(world.history(&pod.key).unwrap().attempts > 1, "it was given time");
        assert!(world.now() > Time::ZERO);
    }

    #[test]
    fn gated_pod_has_the_message_of_its_gate() {
        let mut world = world();
        world.add_node(node("n", "1"));
        let pod = pod("a", json!({"schedulingGates": [{"name": "example.com/g"}]}));
        world.add_pod(pod.clone());
        world.run_until_idle();
        assert_eq!(*state(&world, &pod), State::New);
        let gate = world.gate_of(&pod.key);
        assert_eq!(gate.as_deref(), Some("waiting for scheduling gates: [example.com/g]"));
    }
}
