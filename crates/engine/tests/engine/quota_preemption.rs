//! Preemption by a plugin that counts pods itself, in the manner of CapacityScheduling.

use framework::preemption::{Evaluator, FailedAttempt, Victims, preempt};
use framework::*;
use testkit::{node, pod};

use crate::harness::*;

/// Maximum number of pods in the cluster.
const LIMIT: usize = 3;

/// Limits the number of pods, and evicts pods of lower priority to keep the limit.
struct Quota(PluginName);

/// The number of placed pods, which dry runs change.
#[derive(Clone, Copy)]
struct Placed(usize);

fn placed(state: &CycleState) -> usize {
    state.read::<Placed>().expect("PreFilter has run").0
}

/// Holds the pod back until its victims are evicted.
impl PreEnqueue for Quota {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        if handle.is_preempting(&pod.uid) { never("preempting") } else { yes() }
    }
}

impl PreFilter for Quota {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        attempt.state.write(Placed(attempt.handle.cluster.pod_count()));
        Ok(PreFilterResult::default())
    }
}

impl PreFilterExtensions for Quota {
    fn add_pod(&self, attempt: AttemptMut<'_>, _: &Pod, _: &NodeView<'_>) -> Status {
        attempt.state.write(Placed(placed(attempt.state) + 1));
        yes()
    }

    fn remove_pod(&self, attempt: AttemptMut<'_>, _: &Pod, _: &NodeView<'_>) -> Status {
        attempt.state.write(Placed(placed(attempt.state) - 1));
        yes()
    }
}

impl Filter for Quota {
    fn filter(&self, attempt: &Attempt<'_>, _: &NodeView<'_>) -> Status {
        if placed(attempt.state) < LIMIT { yes() } else { no("quota") }
    }
}

impl Evaluator for Quota {
    fn plugin(&self) -> &PluginName {
        &self.0
    }

    fn candidates_wanted(&self, nodes: usize) -> usize {
        nodes
    }

    /// Removes pods until the state of the trial is below the limit.
    fn select_victims_on_node(
        &self,
        attempt: &FailedAttempt<'_>,
        node: NodeIx,
        trial: &mut dyn Trial,
    ) -> Result<Victims, Status> {
        let mut victims = Victims { pods: Vec::new(), pdb_violations: 0 };
        for (ix, pod) in attempt.cluster().node(node).placed() {
            if placed(trial.state()) < LIMIT {
                break;
            }
            if pod.priority() < attempt.pod.priority() {
                trial.remove_pod(ix)?;
                victims.pods.push(pod.clone());
            }
        }
        trial.run_filters().ok()?;
        Ok(victims)
    }
}

impl PostFilter for Quota {
    fn post_filter(
        &self,
        attempt: AttemptMut<'_>,
        verdicts: &Verdicts,
        dry_run: &mut dyn DryRun,
    ) -> PostFilterResult {
        preempt(self, &mut FailedAttempt::new(attempt, verdicts), dry_run)
    }
}

#[test]
fn victims_are_chosen_by_the_state_of_the_trial() {
    let quota = Plugin::new("Quota", Quota("Quota".into()))
        .pre_enqueue()
        .pre_filter()
        .pre_filter_extensions()
        .filter()
        .post_filter()
        .build();
    let mut world = Setup::new([]).plugin(quota).build();
    world.node(node("n"));
    for (name, priority) in [("a", 1), ("b", 200), ("c", 1), ("d", 1)] {
        world.pod(pod(name).priority(priority).on("n"));
    }
    world.schedule(pod("p").priority(100));
    world.run_for(2);
    assert_eq!(world.node_of("p").as_deref(), Some("n"));
    assert_eq!(
        ["a", "b", "c", "d"].map(|name| world.place(name)),
        ["nowhere", "placed", "nowhere", "placed"]
    );
}
