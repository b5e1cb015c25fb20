//! A plugin that preempts.

use framework::preemption::{Evaluator, FailedAttempt, preempt, preempt_for_group};
use framework::*;

use super::{never, pod_event, yes};

/// DefaultPreemption in a few lines.
struct Preempting(PluginName);

impl Evaluator for Preempting {
    fn plugin(&self) -> &PluginName {
        &self.0
    }

    fn candidates_wanted(&self, nodes: usize) -> usize {
        nodes
    }
}

impl PostFilter for Preempting {
    fn post_filter(
        &self,
        attempt: AttemptMut<'_>,
        verdicts: &Verdicts,
        dry_run: &mut dyn DryRun,
    ) -> PostFilterResult {
        preempt(self, &mut FailedAttempt::new(attempt, verdicts), dry_run)
    }
}

impl PodGroupPostFilter for Preempting {
    fn pod_group_post_filter(&self, trial: &mut dyn PodGroupTrial) -> PodGroupPostFilterResult {
        preempt_for_group(&self.0, trial)
    }
}

impl PreEnqueue for Preempting {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        if handle.is_preempting(&pod.uid) { never("preempting") } else { yes() }
    }
}

/// The plugin, which is no fake.
pub(crate) fn preempting() -> Plugin {
    let skip: fn(&Preempting, EventForPod<'_>) -> _ = |_, _| Ok(QueueingHint::Skip);
    Plugin::new("Preempting", Preempting("Preempting".into()))
        .post_filter()
        .pod_group_post_filter()
        .pre_enqueue()
        .on_with_hint(pod_event(ActionType::DELETE), skip)
        .build()
}
