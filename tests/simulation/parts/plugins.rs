//! The plugins of the parts: they sort, gate, reject and answer events as labels of pods and nodes
//! say.

use std::sync::LazyLock;

use engine::profile::{PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use framework::{
    ActionType, Attempt, Bind, BindStep, ClusterEvent, EventForPod, EventResource, Filter, Handle,
    HintResult, NodeView, Plugin, Pod, PreEnqueue, QueueSort, QueuedEntity, QueueingHint, Registry,
    Status,
};

/// The scheduler names. The second profile lacks the plugins [`ONLY_FIRST`].
pub(super) const SCHEDULERS: [&str; 2] = ["default-scheduler", "second"];
/// The plugins that may reject a pod.
pub(super) const REJECTORS: [&str; 5] = ["Fit", "Claims", "Careless", "Deaf", "Quota"];
const ONLY_FIRST: [&str; 2] = ["Claims", "Quota"];
/// The label of pods for which plugins panic.
const TRAP: &str = "trap";

/// Sorts by priority, then by time.
struct Sort;

impl QueueSort for Sort {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _: &Handle<'_>) -> bool {
        if a.pods().iter().any(|queued| queued.pod.labels.get("sort") == Some(TRAP)) {
            panics();
        }
        let [a_time, b_time] = [a, b].map(|entity| entity.history().timestamp);
        (b.priority(), a_time) < (a.priority(), b_time)
    }
}

/// Panics without a message on the terminal.
fn panics() -> ! {
    std::panic::resume_unwind(Box::new(TRAP))
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

/// Gates pods with a label `quota` until there is a node called `bank`.
struct Quota;

impl PreEnqueue for Quota {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        match pod.labels.get("quota") {
            Some(TRAP) => panics(),
            Some(_) if handle.cluster.node_named("bank").is_none() => {
                Status::unschedulable("quota")
            }
            _ => Status::success(),
        }
    }
}

/// A plugin that histories name as rejector.
struct Rejector;

impl Filter for Rejector {
    fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
        Status::success()
    }
}

impl Rejector {
    /// Returns Queue for the end of a pod that has the label `frees`.
    fn room(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.pods()?;
        let helps = new.is_none() && old.is_some_and(|old| old.labels.get("frees").is_some());
        Ok(QueueingHint::queue_if(helps))
    }

    /// Returns Queue for a pod of the same label `app`.
    fn alike(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.pods()?;
        let is_alike = new.is_some_and(|new| new.labels.get("app") == event.pod.labels.get("app"));
        Ok(QueueingHint::queue_if(is_alike))
    }

    fn fails(&self, _event: EventForPod<'_>) -> HintResult {
        Err("no idea".to_owned())
    }

    fn panics(&self, _event: EventForPod<'_>) -> HintResult {
        panics()
    }
}

struct Binder;

impl Bind for Binder {
    fn bind(&self, _: &Attempt<'_>, _: &str) -> BindStep {
        BindStep::Skip
    }
}

fn plugins() -> [Plugin; 8] {
    use EventResource::{AssignedPod, Node, Pod, ResourceClaim, UnschedulablePod};
    let event = ClusterEvent::new;
    let ungated = event(Pod, ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED);
    [
        Plugin::new("Sort", Sort).queue_sort().build(),
        Plugin::new("Gates", Gates).pre_enqueue().on_with_hint(ungated, Gates::own_update).build(),
        Plugin::new("Quota", Quota).pre_enqueue().on(event(Node, ActionType::ADD)).build(),
        Plugin::new("Fit", Rejector)
            .filter()
            .on(event(Node, ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE))
            .on_with_hint(event(AssignedPod, ActionType::DELETE), Rejector::room)
            .on(event(UnschedulablePod, ActionType::UPDATE_POD_SCALE_DOWN))
            .build(),
        Plugin::new("Claims", Rejector)
            .filter()
            .on(event(ResourceClaim, ActionType::ADD | ActionType::UPDATE))
            .on_with_hint(event(AssignedPod, ActionType::ADD), Rejector::alike)
            .on_with_hint(event(Pod, ActionType::UPDATE_POD_LABEL), Rejector::alike)
            .build(),
        Plugin::new("Careless", Rejector)
            .filter()
            .on_with_hint(event(Node, ActionType::UPDATE_NODE_LABEL), Rejector::fails)
            .on_with_hint(event(Node, ActionType::UPDATE_NODE_CONDITION), Rejector::panics)
            .on(event(UnschedulablePod, ActionType::UPDATE_POD_TOLERATION))
            .build(),
        Plugin::new("Deaf", Rejector).filter().no_events().build(),
        Plugin::new("Binder", Binder).bind().build(),
    ]
}

/// Returns the profiles of the plugins.
pub(super) fn profiles() -> &'static Profiles {
    static PROFILES: LazyLock<Profiles> = LazyLock::new(|| {
        let mut registry = Registry::new();
        let mut defaults = Vec::new();
        for plugin in plugins() {
            defaults.push(PluginRef::new(&plugin.name, 0));
            let name = plugin.name.clone();
            registry.register(&name, move |_| Ok(plugin.clone())).expect("each name is used once");
        }
        let disabled = ONLY_FIRST.map(|name| PluginRef::new(name, 0));
        let lacking = PluginSet { disabled: disabled.into(), ..PluginSet::default() };
        let of = |name: &str, multi_point: PluginSet| SchedulerProfile {
            scheduler_name: name.to_owned(),
            plugins: PluginSets { multi_point, ..PluginSets::default() },
            ..SchedulerProfile::default()
        };
        let both = [of(SCHEDULERS[0], PluginSet::default()), of(SCHEDULERS[1], lacking)];
        Profiles::build(&both, &defaults, &registry, false).expect("the plugins are complete")
    });
    &PROFILES
}
