//! A plugin that preempts.

use framework::preemption::{Evaluator, preempt};
use framework::*;

use super::{never, pod_event, yes};

/// DefaultPreemption in a few lines.
struct Preempting;

impl Evaluator for Preempting {
    fn candidates_wanted(&self, nodes: usize) -> usize {
        nodes
    }
}

impl PostFilter for Preempting {
    fn post_filter(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        verdicts: &Verdicts,
        dry_run: &mut dyn DryRun,
        handle: &mut Handle<'_>,
    ) -> PostFilterResult {
        preempt(self, &"Preempting".into(), state, pod, verdicts, dry_run, handle)
    }
}

impl PreEnqueue for Preempting {
    fn pre_enqueue(&self, pod: &Pod, cluster: &Cluster) -> Status {
        if cluster.is_preempting(&pod.uid) { never("preempting") } else { yes() }
    }
}

/// The plugin, which is no fake.
pub(crate) fn preempting() -> Plugin {
    let skip: fn(&Preempting, &Pod, &EventObjects<'_>, &Cluster) -> _ =
        |_, _, _, _| Ok(QueueingHint::Skip);
    Plugin::new("Preempting", Preempting)
        .post_filter()
        .pre_enqueue()
        .on_with_hint(pod_event(ActionType::DELETE), skip)
        .build()
}
