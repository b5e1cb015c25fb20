//! GpuShare: a plugin that allocates GPUs device by device, in whole and in part.
//!
//! A decision of its Reserve must count before the API server shows it, so the plugin keeps
//! bookings of devices. It uses PreFilter, Filter and Score in both forms, Reserve, PreBind, hints,
//! arguments, a metric, and state between calls.
//!
//! Nodes list `alibabacloud.com/gpu-milli`, thousandths of a device, as an extended resource. A pod
//! that requests less than 1000 gets a part of one device; a pod that requests n times 1000 gets n
//! devices for exclusive use. Before the bind, the plugin writes the device numbers to the
//! annotation `alibabacloud.com/gpu-index` (`2`, or `0-1-3`), where the device plugin of the node
//! reads them.
//!
//! ```yaml
//! schedulerName: gpu
//! plugins:
//!   multiPoint: {enabled: [{name: GpuShare}]}
//!   preScore: {disabled: [{name: "*"}]}
//!   score: {disabled: [{name: "*"}], enabled: [{name: GpuShare}]}
//! pluginConfig:
//! - name: GpuShare
//!   args:
//!     strategy: FragmentationGradient
//!     workload:
//!     - {requests: {cpu: 3152m, alibabacloud.com/gpu-milli: 810}, popularity: 1047}
//!     - {requests: {cpu: 12, alibabacloud.com/gpu-milli: 1000}, models: [T4], popularity: 326}
//!     - {requests: {cpu: 32, memory: 64Gi}, popularity: 290}
//! ```
//!
//! The [`Strategy`] decides which node is best, and which of its devices. The profile disables the
//! other score plugins, which would pull elsewhere, and keeps the filters.
//!
//! The devices of a pod are in its booking, or else in its annotation. For a pod without
//! either, the plugin assumes the devices that it would choose itself. Each profile has its own
//! plugin with its own bookings, so only one profile of a scheduler should place pods with GPUs.

mod args;
mod demand;
mod devices;
mod rows;
mod scorer;
mod scores;
#[cfg(test)]
mod tests;
mod workload;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use framework::{
    ActionType, Answer, Attempt, AttemptMut, ClusterEvent, Counter, CycleState, EventForPod,
    EventObjects, EventResource, Filter, HintResult, Node, NodeBits, NodeView, NormalizeScore,
    PerNode, Plugin, PluginArgs, Pod, PreBind, PreBindInput, PreBindPreFlight, PreBindStep,
    PreFilter, PreFilterResult, QueueingHint, Registry, RegistryError, Reserve, Score, Status,
    Write, WriteAction,
};
use serde_json::json;

pub use args::{FullNode, GpuShareArgs, Strategy, Task, typical_tasks};
pub use demand::{Demand, GPU_MILLI};
pub use devices::Taken;

use demand::Shape;
use devices::Devices;
use rows::Rows;
use scorer::Scorer;
use scores::Scores;

/// The name of the plugin.
pub const NAME: &str = "GpuShare";

/// The annotation of a pod that lists its device numbers.
pub const GPU_INDEX: &str = "alibabacloud.com/gpu-index";

/// The label of a node that names its GPU model.
pub const GPU_MODEL: &str = "alibabacloud.com/gpu-card-model";

/// [`GPU_INDEX`] as a JSON pointer.
const GPU_INDEX_FIELD: &str = "/metadata/annotations/alibabacloud.com~1gpu-index";

const NOT_WHOLE: &str = "a GPU request above 1000 thousandths must be a multiple of 1000";
const TOO_FEW_DEVICES: &str = "node(s) had too few GPUs";
const NO_ROOM: &str = "node(s) had no GPU with enough room";
const TOO_FEW_UNUSED: &str = "node(s) had too few unused GPUs";

/// The GpuShare plugin.
#[derive(Debug)]
pub struct GpuShare {
    scorer: Scorer,
    ledger: Mutex<Ledger>,
    refused: Arc<Counter>,
}

/// The state that the plugin keeps between calls. Only the bookings are essential; the rest is a
/// cache that is computed from the cluster.
#[derive(Debug, Default)]
struct Ledger {
    rows: Rows,
    scores: Scores,
}

/// Adds the plugin to `registry`.
///
/// # Errors
/// The name is already registered.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register(NAME, plugin)
}

/// Creates the plugin from [`GpuShareArgs`].
///
/// # Errors
/// The arguments do not decode or are invalid.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args = args.decode::<GpuShareArgs>()?.checked()?;
    let refused = Counter::new(
        "gpu_share_reserve_refused_total",
        "Pods that found no devices left on the node that was chosen for them.",
    );
    let plugin = GpuShare {
        scorer: Scorer::new(&args)?,
        ledger: Mutex::default(),
        refused: refused.clone(),
    };
    let event = ClusterEvent::new;
    Ok(Plugin::new(NAME, plugin)
        .pre_filter()
        .filter()
        .score()
        .normalize_score()
        .reserve()
        .pre_bind()
        .keep_pod_field(GPU_INDEX_FIELD)
        .on_with_hint(event(EventResource::Pod, ActionType::DELETE), GpuShare::after_pod_deletion)
        .on_with_hint(
            event(EventResource::Node, ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE),
            GpuShare::after_node_change,
        )
        .args(&args)
        .metric(&refused)
        .build())
}

impl GpuShare {
    /// Locks the ledger. A poisoned lock is usable, because rows are replaced as a whole.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the pod if the deleted pod had devices.
    fn after_pod_deletion(&self, event: EventForPod<'_>) -> HintResult {
        match event.objects {
            EventObjects::Pod { old: Some(gone), .. } => {
                let had_node = gone.node_name.is_some() || gone.nominated_node_name().is_some();
                Ok(queue_if(had_node && Demand::of(gone).is_some()))
            }
            _ => Err("not a pod that is gone".to_owned()),
        }
    }

    /// Queues the pod if the node has enough devices and is new or has more devices than before.
    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let EventObjects::Node { old, new: Some(new) } = event.objects else {
            return Err("not an added or changed node".to_owned());
        };
        let devices = |node: &Node| Devices::unused(node.allocatable.scalar(GPU_MILLI));
        let (before, after) = (old.map(devices), devices(new));
        let grew = before.is_none_or(|before| before.total() < after.total());
        Ok(queue_if(grew && Demand::of(event.pod).is_some_and(|demand| after.could_fit(demand))))
    }
}

const fn queue_if(helps: bool) -> QueueingHint {
    if helps { QueueingHint::Queue } else { QueueingHint::Skip }
}

impl PreFilter for GpuShare {
    /// Stores the demand for Filter. Skips Filter for pods without a demand.
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let Some(demand) = Demand::of(attempt.pod) else { return Err(Status::skip()) };
        if let Demand::Whole(_) = demand
            && attempt.pod.requests.fit.scalar(GPU_MILLI) % 1000 != 0
        {
            return Err(Status::unresolvable(NOT_WHOLE));
        }
        attempt.state.write(demand);
        Ok(PreFilterResult::default())
    }
}

/// Returns the demand that PreFilter stored.
fn demand_of(state: &CycleState) -> Result<Demand, Status> {
    state.read().copied().ok_or_else(|| Status::error("GpuShare has no data from PreFilter"))
}

impl Filter for GpuShare {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let demand = match demand_of(attempt.state) {
            Ok(demand) => demand,
            Err(status) => return status,
        };
        let mut ledger = self.ledger();
        let devices = &ledger.rows.row(node, &self.scorer).room.devices;
        match demand {
            _ if devices.fit(demand) => Status::success(),
            _ if !devices.could_fit(demand) => Status::unresolvable(TOO_FEW_DEVICES),
            Demand::Share(_) => Status::unschedulable(NO_ROOM),
            Demand::Whole(_) => Status::unschedulable(TOO_FEW_UNUSED),
        }
    }

    /// Filters all nodes with the ledger locked once.
    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let demand = demand_of(attempt.state)?;
        let rows = &mut self.ledger().rows;
        nodes.retain(|node| {
            rows.row(&attempt.handle.cluster.node(node), &self.scorer).room.devices.fit(demand)
        });
        Ok(())
    }
}

impl Score for GpuShare {
    /// Returns the score in parts of a point. Pods without GPU demand are scored too, because the
    /// CPU they take may make devices unusable.
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(self.ledger().rows.place(node, Shape::of(attempt.pod), &self.scorer).score)
    }

    /// Computes only the nodes that have changed since the last pod of this shape.
    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let Ledger { rows, scores: known } = &mut *self.ledger();
        let shape = Shape::of(attempt.pod);
        known.write(shape, attempt.handle.cluster, scores, rows, &self.scorer);
        Ok(())
    }
}

impl NormalizeScore for GpuShare {
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        scorer::normalize(scores.values);
        Status::success()
    }
}

impl Reserve for GpuShare {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        let AttemptMut { state, pod, handle, .. } = attempt;
        if Demand::of(pod).is_none() {
            return Status::success();
        }
        let Some(node) = handle.cluster.node_named(node) else {
            return Status::unschedulable("the node is gone");
        };
        let rows = &mut self.ledger().rows;
        let Some(taken) = rows.choose(&handle.cluster.node(node), pod, &self.scorer) else {
            self.refused.inc();
            return Status::unschedulable("the GPUs of the node were given away meanwhile");
        };
        rows.add_booking(node, &pod.uid, taken.clone());
        state.write(taken);
        Status::success()
    }

    /// Removes the booking. If the node no longer exists, the bookings need no correction: the pod
    /// is not on a node either.
    fn unreserve(&self, attempt: AttemptMut<'_>, node: &str) {
        if let Some(node) = attempt.handle.cluster.node_named(node) {
            self.ledger().rows.remove_booking(node, &attempt.pod.uid);
        }
    }
}

impl PreBind for GpuShare {
    fn pre_flight(&self, attempt: &Attempt<'_>, _node: &str) -> PreBindPreFlight {
        let allow_parallel = true;
        match attempt.state.read::<Taken>() {
            Some(_) => PreBindPreFlight::Run { allow_parallel },
            None => PreBindPreFlight::Skip { allow_parallel },
        }
    }

    /// Writes the annotation. If the answer to a write is lost, the next attempt overwrites the
    /// annotation.
    fn pre_bind(
        &self,
        attempt: AttemptMut<'_>,
        _node: &str,
        input: PreBindInput<'_>,
    ) -> PreBindStep {
        match (input, attempt.state.read::<Taken>()) {
            (PreBindInput::Start, Some(taken)) => PreBindStep::Write(annotate(attempt.pod, taken)),
            (PreBindInput::Answer(answer), _) => PreBindStep::Done(outcome(answer)),
            _ => PreBindStep::Done(Status::success()),
        }
    }
}

fn annotate(pod: &Pod, taken: &Taken) -> Write {
    Write {
        api_version: "v1".into(),
        resource: "pods".into(),
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        subresource: None,
        flow: "".into(),
        action: WriteAction::MergePatch(json!({
            "metadata": {
                "uid": pod.uid.to_string(),
                "annotations": {GPU_INDEX: taken.to_string()},
            },
        })),
    }
}

fn outcome(answer: &Answer) -> Status {
    match answer.failure() {
        None => Status::success(),
        Some(text) => Status::error(format!("writing the annotation {GPU_INDEX}: {text}")),
    }
}
