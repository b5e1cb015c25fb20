//! A queue with the cluster, the clock and the plugins that its tests need.

use std::sync::Arc;
use std::time::Duration;

use framework::preemption::PreemptionProgress;
use framework::{
    ActionType, Attempt, Bind, BindStep, Cluster, ClusterEvent, EventForPod, EventObjects,
    EventResource, Filter, Handle, HintResult, Level, NodeView, Plugin, PluginGates, Pod, PodKey,
    PreEnqueue, QueueSort, QueuedEntity, QueuedPod, QueueingHint, Registry, Status, Time,
};
use testkit::{HandleParts, cluster, node, pod};

use crate::object_event::{ObjectEvent, Objects};
use crate::ports::{Count, Probe, Span};
use crate::profile::{PluginRef, Profiles, SchedulerProfile};
use crate::queue::{Place, Plugins, Queue, QueueConfig};

/// Sorts by priority, then by time. Panics for pods labelled `sort=trap`.
struct Sort;

impl QueueSort for Sort {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _: &Handle<'_>) -> bool {
        for queued in [a, b].into_iter().flat_map(QueuedEntity::pods) {
            assert_ne!(queued.pod.labels.get("sort"), Some("trap"), "the trap snaps");
        }
        let [a_time, b_time] = [a, b].map(|entity| entity.history().timestamp);
        (b.priority(), a_time) < (a.priority(), b_time)
    }
}

/// Gates pods with scheduling gates.
struct Gates;

impl PreEnqueue for Gates {
    fn pre_enqueue(&self, pod: &Pod, _: &Handle<'_>) -> Status {
        match pod.spec.scheduling_gates.is_empty() {
            true => Status::success(),
            false => Status::unresolvable("gates"),
        }
    }
}

impl Gates {
    fn own_update(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.pods()?;
        Ok(QueueingHint::queue_if(new.is_some_and(|new| new.uid == event.pod.uid)))
    }
}

/// Gates pods labelled `quota=wanted` until there is a node called `bank`. Panics for pods labelled
/// `quota=trap`.
struct Quota;

impl PreEnqueue for Quota {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        match pod.labels.get("quota") {
            Some("wanted") if handle.cluster.node_named("bank").is_none() => {
                Status::unschedulable("quota")
            }
            Some("trap") => panic!("the trap snaps"),
            _ => Status::success(),
        }
    }
}

/// A plugin that tests name as rejector. Its own Filter passes every pod.
pub(super) struct Rejector;

impl Filter for Rejector {
    fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
        Status::success()
    }
}

impl Rejector {
    /// Returns Queue for the deletion of a pod labelled `frees=yes`.
    fn room(&self, event: EventForPod<'_>) -> HintResult {
        let EventObjects::Pod { old: Some(old), .. } = event.objects else {
            return Err("a deletion without the pod".to_owned());
        };
        let frees = old.labels.get("frees") == Some("yes");
        Ok(if frees { QueueingHint::Queue } else { QueueingHint::Skip })
    }

    fn fails(&self, _event: EventForPod<'_>) -> HintResult {
        Err("no idea".to_owned())
    }

    fn panics(&self, _event: EventForPod<'_>) -> HintResult {
        panic!("the trap snaps")
    }
}

struct Binder;

impl Bind for Binder {
    fn bind(&self, _: &Attempt<'_>, _: &str) -> BindStep {
        BindStep::Skip
    }
}

const NODE: EventResource = EventResource::Node;

/// A kind whose objects have the names of nodes.
pub(crate) const REPORTS: &str = "reports.v1.example.com";

fn plugins() -> [Plugin; 8] {
    let event = ClusterEvent::new;
    let claim = event(EventResource::ResourceClaim, ActionType::UPDATE);
    let ungated = event(EventResource::Pod, ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED);
    [
        Plugin::new("Sort", Sort).queue_sort().build(),
        Plugin::new("Gates", Gates).pre_enqueue().on_with_hint(ungated, Gates::own_update).build(),
        Plugin::new("Quota", Quota).pre_enqueue().on(event(NODE, ActionType::ADD)).build(),
        Plugin::new("Fit", Rejector)
            .filter()
            .on(event(NODE, ActionType::ADD))
            .on_with_hint(event(EventResource::Pod, ActionType::DELETE), Rejector::room)
            .build(),
        Plugin::new("Claims", Rejector).filter().on(claim).build(),
        Plugin::new("Careless", Rejector)
            .filter()
            .on_with_hint(event(NODE, ActionType::UPDATE_NODE_LABEL), Rejector::fails)
            .on_with_hint(event(NODE, ActionType::UPDATE_NODE_CONDITION), Rejector::panics)
            .build(),
        Plugin::new("Deaf", Rejector).filter().describes_nodes(REPORTS).no_events().build(),
        Plugin::new("Binder", Binder).bind().build(),
    ]
}

pub(crate) fn profiles() -> Profiles {
    profiles_at(Level::default())
}

/// Returns the profile at a level.
pub(crate) fn profiles_at(level: Level) -> Profiles {
    profiles_with(level, None)
}

/// Returns the profile with a further plugin.
pub(super) fn profiles_with(level: Level, further: Option<Plugin>) -> Profiles {
    let mut registry = Registry::new().with_gates(PluginGates::at(level));
    let mut defaults = Vec::new();
    for plugin in plugins().into_iter().chain(further) {
        defaults.push(PluginRef::new(&plugin.name, 0));
        let name = plugin.name.clone();
        registry.register(&name, move |_| Ok(plugin.clone())).unwrap();
    }
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    Profiles::build(&[profile], &defaults, &registry, false).unwrap()
}

/// A probe that keeps the reports of the queue.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// `queue event` of each entity that entered a queue.
    pub(super) incoming: Vec<String>,
    pub(super) panics: Vec<String>,
    /// Number of evaluated hints.
    pub(super) hints: usize,
}

impl Probe for Log {
    fn start(&mut self, span: Span<'_>) {
        self.hints += usize::from(matches!(span, Span::Hint(..)));
    }

    fn count(&mut self, count: Count<'_>) {
        match count {
            Count::Incoming { queue, event } => self.incoming.push(format!("{queue} {event}")),
            Count::Panic { plugin } => self.panics.push(plugin.to_string()),
            _ => {}
        }
    }
}

/// A queue, the cluster that it sees, the time, and the reports of the queue.
pub(super) struct Harness {
    pub(super) queue: Queue,
    pub(super) cluster: Cluster,
    pub(super) now: Time,
    pub(super) log: Log,
    pub(super) preemptions: PreemptionProgress,
    profiles: Profiles,
}

impl Harness {
    /// Returns an empty queue at 1000.4 s and a cluster of one node.
    pub(super) fn new() -> Self {
        Self {
            queue: Queue::new(QueueConfig::default()),
            cluster: cluster([node("n").build()], []),
            now: Time::from_nanos(1_000_400_000_000),
            log: Log::default(),
            preemptions: PreemptionProgress::default(),
            profiles: profiles(),
        }
    }

    /// Calls into the queue.
    pub(super) fn on<T>(&mut self, call: impl FnOnce(&mut Queue, &mut Plugins<'_>) -> T) -> T {
        let Self { queue, cluster, now, log, preemptions, profiles } = self;
        let parts =
            HandleParts { now: *now, preemptions: preemptions.clone(), ..HandleParts::default() };
        let handle = parts.handle(cluster);
        call(queue, &mut Plugins { profiles, handle, probe: log })
    }

    pub(super) fn add(&mut self, pod: &Arc<Pod>) {
        self.on(|queue, plugins| queue.add(pod.clone(), plugins));
    }

    pub(super) fn update(&mut self, old: &Arc<Pod>, new: &Arc<Pod>) {
        self.on(|queue, plugins| queue.update(old, new.clone(), plugins));
    }

    pub(super) fn pop(&mut self) -> QueuedPod {
        self.try_pop().expect("a pod is ready")
    }

    pub(super) fn try_pop(&mut self) -> Option<QueuedPod> {
        self.on(Queue::pop).map(|entity| match entity {
            QueuedEntity::Pod(queued) => queued,
            QueuedEntity::Group(_) => panic!("these pods have no group"),
        })
    }

    /// Fails the attempt of a popped pod. Rejectors that start with `~` answered Pending.
    pub(super) fn fail(&mut self, mut queued: QueuedPod, rejectors: &[&str]) {
        let bare = |name: &&str| name.trim_start_matches('~').into();
        let pending = |name: &&&str| name.starts_with('~');
        queued.history.unschedulable_plugins = rejectors.iter().map(bare).collect();
        queued.history.pending_plugins = rejectors.iter().filter(pending).map(bare).collect();
        self.on(|queue, plugins| {
            queue.add_unschedulable_if_not_present(QueuedEntity::Pod(queued), plugins)
        });
    }

    /// Puts a popped pod back after a look. The plugins that rejected it before reject it again.
    pub(super) fn put_back(&mut self, queued: QueuedPod) {
        self.on(|queue, plugins| queue.put_back_if_not_present(QueuedEntity::Pod(queued), plugins));
    }

    pub(super) fn notify(&mut self, event: &ObjectEvent) {
        self.on(|queue, plugins| {
            queue.move_all_to_active_or_backoff_queue(event, &|_| true, plugins)
        });
    }

    /// Advances the time, then ticks.
    pub(super) fn wait(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.on(Queue::tick);
    }

    /// Opens the gate of pods labelled `quota=wanted`, without an event.
    pub(super) fn open_quota(&mut self) {
        self.cluster.set_node(&node("bank").build());
    }

    /// Returns the record of a queued pod.
    pub(super) fn get(&self, name: &str) -> QueuedPod {
        self.queue.get(&key(name)).expect("the pod is queued").1.clone()
    }

    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.queue.get(&key(name)).map(|(place, _)| place)
    }
}

pub(super) fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

pub(super) fn plain(name: &str) -> Arc<Pod> {
    Arc::new(pod(name).build())
}

pub(super) fn node_event(action: ActionType) -> ObjectEvent {
    let new = (action != ActionType::DELETE).then(|| Arc::new(node("other").build()));
    ObjectEvent { event: ClusterEvent::new(NODE, action), objects: Objects::Node(None, new) }
}

pub(super) fn claim_event() -> ObjectEvent {
    let event = ClusterEvent::new(EventResource::ResourceClaim, ActionType::UPDATE);
    let claim = testkit::object(EventResource::ResourceClaim, serde_json::json!({}));
    ObjectEvent { event, objects: Objects::Other(None, Some(Arc::new(claim))) }
}

/// The deletion of an assigned pod, for which the hint of `Fit` returns Queue if `frees`.
pub(super) fn pod_deleted(frees: bool) -> ObjectEvent {
    let gone = pod("gone").on("n").label("frees", if frees { "yes" } else { "no" }).build();
    let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
    ObjectEvent { event, objects: Objects::Pod(Some(Arc::new(gone)), None) }
}
