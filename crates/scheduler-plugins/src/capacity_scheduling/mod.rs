//! CapacityScheduling: quotas that lend what they do not use.
//!
//! An ElasticQuota guarantees `min` to the pods of its namespace and limits them to `max`. All
//! quotas together use at most the sum of their `min`, so that a quota may borrow what others
//! leave. The cluster keeps the books; this plugin reads them in PreFilter, and takes back what
//! others have borrowed in PostFilter.

mod hints;
mod protection;

use std::cell::{Cell, RefCell};

use framework::preemption::reclaim::{
    Elsewhere, Reclaim, reclaim_for_group, reclaim_on_node, request_in,
};
use framework::preemption::{Evaluator, FailedAttempt, Victims, preempt};
use framework::quota::{Reading, Refusal, Sums};
use framework::{
    ActionType, AttemptMut, ClusterEvent, Command, DryRun, ELASTIC_QUOTAS, EventResource, Handle,
    NodeIx, Plugin, PluginArgs, PluginGates, PluginName, Pod, PodGroupPostFilter,
    PodGroupPostFilterResult, PodGroupTrial, PostFilter, PostFilterResult, PreEnqueue, PreFilter,
    PreFilterResult, Reserve, Status, Time, Timer, Trial, Verdicts,
};
use serde::{Deserialize, Serialize};

pub use self::protection::PRIORITY_CLASSES;
use self::protection::{PriorityClass, Protection};

/// Name of the plugin.
pub const NAME: &str = "CapacityScheduling";

/// The reason of pods over quota, which autoscalers ignore.
const REASON: &str = "QuotaExceeded";
const GATED: &str = "waiting for the preemption for this pod to be finished";
/// Number of candidates that are looked for at least.
const FEWEST_CANDIDATES: usize = 100;

/// The arguments. That of scheduler-plugins has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CapacitySchedulingArgs {
    /// Whether amounts are read as CapacityScheduling of scheduler-plugins does: what `max` does
    /// not mention of CPU, memory and ephemeral storage is 0, and so is all that `min` does not
    /// mention.
    pub strict: bool,
    /// Which pods leave the queue first.
    pub queue_order: QueueOrder,
}

/// The order of the queue between quotas of one level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueOrder {
    /// Quotas below their guarantee go first, the one first whose dominant share of it is least.
    /// The others follow in the order of the QueueSort plugin.
    #[default]
    DominantShare,
    /// The order of the QueueSort plugin: by priority, then by time.
    Priority,
}

/// The plugin.
#[derive(Debug)]
struct CapacityScheduling {
    name: PluginName,
    reading: Reading,
}

/// Makes the plugin from [`CapacitySchedulingArgs`].
///
/// # Errors
/// The arguments do not decode.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let PluginGates { workload_aware_preemption, .. } = args.gates();
    let args = args.decode::<CapacitySchedulingArgs>()?;
    let reading = if args.strict { Reading::Strict } else { Reading::Mentioned };
    let plugin = Plugin::new(NAME, CapacityScheduling { name: NAME.into(), reading })
        .pre_enqueue()
        .pre_filter()
        .post_filter()
        .reserve()
        .timer();
    let plugin = if workload_aware_preemption { plugin.pod_group_post_filter() } else { plugin };
    let quotas = EventResource::Custom(ELASTIC_QUOTAS.into());
    let shrinks =
        ActionType::DELETE | ActionType::UPDATE_POD_SCALE_DOWN | ActionType::UPDATE_POD_LABEL;
    let nodes = ActionType::ADD
        | ActionType::UPDATE_NODE_ALLOCATABLE
        | ActionType::UPDATE_NODE_LABEL
        | ActionType::UPDATE_NODE_TAINT;
    Ok(plugin
        .args(&args)
        .counts_quotas(reading)
        .orders_by_quota(args.queue_order == QueueOrder::DominantShare)
        .rejects_as(REASON)
        .replaces_preemption()
        .decides_by_template()
        .read(EventResource::PodDisruptionBudget)
        .keep_pod_field(protection::CLASS_FIELD)
        .watch_as::<PriorityClass>(PRIORITY_CLASSES)
        .on_with_hint(ClusterEvent::new(EventResource::Pod, shrinks), CapacityScheduling::after_pod)
        .on_with_hint(ClusterEvent::new(EventResource::Node, nodes), CapacityScheduling::after_node)
        .on_with_hint(ClusterEvent::new(quotas, ActionType::ALL), CapacityScheduling::after_quota)
        .build())
}

impl CapacityScheduling {
    /// Decides whether the pod fits into its quota.
    ///
    /// # Errors
    /// The first limit that would be exceeded.
    fn admit(&self, pod: &Pod, handle: &Handle<'_>) -> Result<(), Refusal> {
        let books = handle.cluster.quotas();
        let Some(quota) = books.quota_of(pod) else { return Ok(()) };
        let asked = books.request_of(pod);
        let request = request_in(quota.ix(), pod, &asked, handle, self.reading);
        books.admit(quota.ix(), &request, &Sums::default(), self.reading)
    }

    /// Sets the timer that wakes a preemptor when a protection ends.
    fn wake_at(&self, end: Time, pod: &Pod, handle: &Handle<'_>) {
        let at = handle.now + end.since(handle.wall_time());
        let (plugin, token) = (self.name.clone(), protection::token_of(&pod.key));
        handle.command(Command::SetTimer { plugin, at, token });
    }
}

impl PreEnqueue for CapacityScheduling {
    /// Gates a preemptor until its victims are evicted.
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        match handle.is_preempting(&pod.uid) {
            true => Status::unresolvable(GATED),
            false => Status::success(),
        }
    }
}

impl PreFilter for CapacityScheduling {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { pod, handle, .. } = attempt;
        let reason = match self.admit(pod, handle) {
            Ok(()) => return Ok(PreFilterResult::default()),
            Err(Refusal::Max { quota, .. }) => {
                let books = handle.cluster.quotas();
                let own = books.quota_of(pod).map(|own| own.ix());
                let key = books.view(quota).key();
                match own == Some(quota) {
                    true => format!("ElasticQuota {} is more than Max", key.namespace),
                    false => format!("ElasticQuota {key} is more than Max"),
                }
            }
            Err(Refusal::Total { .. }) => "total ElasticQuota used is more than min".to_owned(),
        };
        Err(Status::unschedulable(format!(
            "Pod {} is rejected in PreFilter because {reason}",
            pod.key
        )))
    }
}

/// The preemption of one pod.
struct Preemptor<'a> {
    plugin: &'a PluginName,
    reading: Reading,
    reclaim: Reclaim<'a>,
    elsewhere: RefCell<Elsewhere>,
}

impl Evaluator for Preemptor<'_> {
    fn plugin(&self) -> &PluginName {
        self.plugin
    }

    fn candidates_wanted(&self, nodes: usize) -> usize {
        match self.reading {
            Reading::Strict => nodes,
            Reading::Mentioned => (nodes / 10).max(FEWEST_CANDIDATES).min(nodes),
        }
    }

    fn select_victims_on_node(
        &self,
        _attempt: &FailedAttempt<'_>,
        node: NodeIx,
        trial: &mut dyn Trial,
    ) -> Result<Victims, Status> {
        reclaim_on_node(&self.reclaim, node, trial, &mut self.elsewhere.borrow_mut())
    }
}

impl PostFilter for CapacityScheduling {
    fn post_filter(
        &self,
        attempt: AttemptMut<'_>,
        verdicts: &Verdicts,
        dry_run: &mut dyn DryRun,
    ) -> PostFilterResult {
        let mut attempt = FailedAttempt::new(attempt, verdicts);
        let (pod, handle) = (attempt.pod, attempt.handle);
        let end = Cell::new(None);
        let exempts =
            |victim: &Pod| Protection::of(victim, handle).spares(pod.priority(), handle, &end);
        let preemptor = Preemptor {
            plugin: &self.name,
            reading: self.reading,
            reclaim: Reclaim::new(pod, handle, self.reading, &exempts),
            elsewhere: RefCell::default(),
        };
        let result = preempt(&preemptor, &mut attempt, dry_run);
        if let Some(end) = end.get().filter(|_| !result.status.is_success()) {
            self.wake_at(end, pod, handle);
        }
        result
    }
}

impl PodGroupPostFilter for CapacityScheduling {
    fn pod_group_post_filter(&self, trial: &mut dyn PodGroupTrial) -> PodGroupPostFilterResult {
        let end = Cell::new(None);
        let Some(first) = trial.members().first().map(|member| member.pod.clone()) else {
            return Status::unschedulable("the group has no pods").into();
        };
        let exempts = |victim: &Pod, handle: &Handle<'_>| {
            Protection::of(victim, handle).spares(first.priority(), handle, &end)
        };
        let result = reclaim_for_group(&self.name, trial, self.reading, &exempts);
        if let Some(end) = end.get().filter(|_| !result.status.is_success()) {
            self.wake_at(end, &first, &trial.handle());
        }
        result
    }
}

/// The cluster counts assumed pods. The point exists for profiles that configure it.
impl Reserve for CapacityScheduling {
    fn reserve(&self, _attempt: AttemptMut<'_>, _node: &str) -> Status {
        Status::success()
    }

    fn unreserve(&self, _attempt: AttemptMut<'_>, _node: &str) {}
}

impl Timer for CapacityScheduling {
    /// Wakes the preemptors of this timer.
    fn fire(&self, token: u64, handle: &Handle<'_>) {
        let woken = handle.pending.keys().filter(|key| protection::token_of(key) == token);
        handle.command(Command::Activate(woken.cloned().collect()));
    }
}
