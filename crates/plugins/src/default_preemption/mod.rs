//! DefaultPreemption: evicts pods of lower priority to make room.

mod args;

use framework::preemption::{Evaluator, FailedAttempt, preempt, preempt_for_group};
use framework::{
    ActionType, AttemptMut, ClusterEvent, DryRun, EventForPod, EventResource, Handle, HintResult,
    Plugin, PluginArgs, PluginGates, PluginName, Pod, PodGroupPostFilter, PodGroupPostFilterResult,
    PodGroupTrial, PostFilter, PostFilterResult, PreEnqueue, QueueingHint, Status, Verdicts,
};

use self::args::Args;

/// Plugin name.
pub const NAME: &str = "DefaultPreemption";

const GATED: &str = "waiting for the preemption for this pod to be finished";
const GROUP_GATED: &str = "waiting for the preemption for this pod group to be finished";

/// The DefaultPreemption plugin.
#[derive(Debug)]
pub struct DefaultPreemption {
    name: PluginName,
    args: Args,
}

/// Makes the plugin from `DefaultPreemptionArgs`.
///
/// # Errors
/// Returns an error that names the invalid argument.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let (own, gates) = (Args::read(args)?, args.gates());
    let pod_gone = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    let PluginGates { workload_aware_preemption, .. } = gates;
    let plugin = Plugin::new(NAME, DefaultPreemption { name: NAME.into(), args: own });
    let plugin = if workload_aware_preemption { plugin.pod_group_post_filter() } else { plugin };
    Ok(plugin
        .pre_enqueue()
        .post_filter()
        .args(&own)
        .read(EventResource::PodDisruptionBudget)
        .on_with_hint(pod_gone, DefaultPreemption::after_pod_deletion)
        .build())
}

impl DefaultPreemption {
    /// Returns Skip. The registration makes the queue run PreEnqueue again for gated pods. The
    /// plugins that rejected a pod decide whether it is requeued.
    fn after_pod_deletion(&self, _event: EventForPod<'_>) -> HintResult {
        Ok(QueueingHint::Skip)
    }
}

impl PreEnqueue for DefaultPreemption {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        if !handle.is_preempting(&pod.uid) {
            return Status::success();
        }
        let in_group = handle.cluster.pod_group_of(pod).is_some();
        Status::unresolvable(if in_group { GROUP_GATED } else { GATED })
    }
}

impl Evaluator for DefaultPreemption {
    fn plugin(&self) -> &PluginName {
        &self.name
    }

    fn candidates_wanted(&self, nodes: usize) -> usize {
        self.args.candidates_wanted(nodes)
    }

    fn repeats_findings(&self) -> bool {
        true
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        attempt: AttemptMut<'_>,
        verdicts: &Verdicts,
        dry_run: &mut dyn DryRun,
    ) -> PostFilterResult {
        let mut attempt = FailedAttempt::new(attempt, verdicts);
        let PostFilterResult { nominating, status, found } = preempt(self, &mut attempt, dry_run);
        let message = status.message();
        let found = match found.is_empty() {
            true => found,
            false => format!("preemption: {found}"),
        };
        let status = match message.is_empty() {
            true => status,
            false => Status::new(status.code(), format!("preemption: {message}")),
        };
        PostFilterResult { nominating, status, found }
    }
}

impl PodGroupPostFilter for DefaultPreemption {
    fn pod_group_post_filter(&self, trial: &mut dyn PodGroupTrial) -> PodGroupPostFilterResult {
        // Rule groups-say-what-is-missing of docs/differences.toml: 1.36 names no plugin.
        let mut result = preempt_for_group(&self.name, trial);
        let named = |text: &str| format!("pod group preemption: {text}");
        if !result.found.is_empty() {
            result.found = named(&result.found);
        }
        let message = result.status.message();
        if !message.is_empty() {
            result.status = Status::new(result.status.code(), named(&message));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use framework::Cluster;
    use testkit::{HandleParts, pod};

    use super::*;

    #[test]
    fn pod_is_gated_while_its_victims_are_being_evicted() {
        let plugin = plugin(&PluginArgs::default()).unwrap();
        let gate = plugin.pre_enqueue.unwrap();
        let (cluster, pod) = (Cluster::default(), pod("p").build());
        let mut parts = HandleParts::default();
        assert!(gate.pre_enqueue(&pod, &parts.handle(&cluster)).is_success());
        parts.preemptions.begin(&pod.uid);
        let gated = gate.pre_enqueue(&pod, &parts.handle(&cluster));
        assert_eq!(gated, Status::unresolvable(GATED));
        parts.preemptions.end(&pod.uid);
        assert!(gate.pre_enqueue(&pod, &parts.handle(&cluster)).is_success());
    }
}
