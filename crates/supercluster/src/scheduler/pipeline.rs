//! Calls of the plugins of the decision pipeline. A panic is counted under the name of the plugin
//! and becomes an Error status, which ends the attempt of one pod.

use engine::catch_panic;
use engine::ports::Probe;
use framework::{CycleState, MAX_NODE_SCORE, Status};

use super::clusters::Cluster;
use super::decision::{DecisionNode, DecisionPod, WeightedPlugin};
use crate::message::PodObject;

/// The plugins of the decision pipeline, and where their panics are counted.
pub(super) struct Pipeline<'a> {
    pub(super) plugins: &'a [WeightedPlugin],
    pub(super) probe: &'a mut dyn Probe,
}

impl WeightedPlugin {
    fn call<T>(&self, probe: &mut dyn Probe, call: impl FnOnce() -> T) -> Result<T, Status> {
        catch_panic(self.plugin.name(), probe, call)
    }

    /// Whether the plugin scores.
    fn scores(&self) -> bool {
        self.weight > 0
    }
}

/// Returns the status of a plugin that may have panicked.
fn status(answer: Result<Status, Status>) -> Status {
    answer.unwrap_or_else(|panicked| panicked)
}

impl Pipeline<'_> {
    /// Prepares an attempt.
    ///
    /// # Errors
    /// The first plugin that does not agree.
    pub(super) fn pre_filter(
        &mut self,
        state: &mut CycleState,
        pod: &DecisionPod<'_>,
    ) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|own| {
            status(own.call(self.probe, || own.plugin.pre_filter(state, pod))).ok()
        })
    }

    /// Decides whether a cluster is asked for a sample.
    ///
    /// # Errors
    /// The first plugin that does not agree.
    pub(super) fn filter_cluster(
        &mut self,
        state: &CycleState,
        pod: &DecisionPod<'_>,
        cluster: &Cluster,
    ) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|own| {
            status(own.call(self.probe, || own.plugin.filter_cluster(state, pod, cluster))).ok()
        })
    }

    /// Decides whether a node can take the pod.
    ///
    /// # Errors
    /// A plugin failed.
    pub(super) fn filter(
        &mut self,
        state: &CycleState,
        pod: &DecisionPod<'_>,
        node: &DecisionNode<'_>,
    ) -> Result<bool, Status> {
        for own in self.plugins {
            let status = status(own.call(self.probe, || own.plugin.filter(state, pod, node)));
            if status.is_rejection() {
                return Ok(false);
            }
            status.ok()?;
        }
        Ok(true)
    }

    /// Prepares the scores.
    ///
    /// # Errors
    /// The first plugin that does not agree.
    pub(super) fn pre_score(
        &mut self,
        state: &mut CycleState,
        pod: &DecisionPod<'_>,
        nodes: &[DecisionNode<'_>],
    ) -> Result<(), Status> {
        self.plugins.iter().filter(|own| own.scores()).try_for_each(|own| {
            status(own.call(self.probe, || own.plugin.pre_score(state, pod, nodes))).ok()
        })
    }

    /// Returns the sum of the weighted scores of a node.
    ///
    /// # Errors
    /// A plugin panicked.
    pub(super) fn score(
        &mut self,
        state: &CycleState,
        pod: &DecisionPod<'_>,
        node: &DecisionNode<'_>,
    ) -> Result<i64, Status> {
        let mut sum = 0;
        for own in self.plugins.iter().filter(|own| own.scores()) {
            let score = own.call(self.probe, || own.plugin.score(state, pod, node))?;
            sum += own.weight * score.clamp(0, MAX_NODE_SCORE);
        }
        Ok(sum)
    }

    /// Returns the sum of the weights.
    pub(super) fn weight(&self) -> i64 {
        self.plugins.iter().filter(|own| own.scores()).map(|own| own.weight).sum()
    }

    /// Notes that a commit is about to be tried. Plugins that have agreed are undone if another
    /// one does not.
    ///
    /// # Errors
    /// The first plugin that does not agree.
    pub(super) fn reserve(&mut self, pod: &PodObject, cluster: &Cluster) -> Result<(), Status> {
        for (place, own) in self.plugins.iter().enumerate() {
            let status = status(own.call(self.probe, || own.plugin.reserve(pod, cluster)));
            if !status.is_success() {
                self.unreserve_first(place, pod, cluster);
                return status.ok();
            }
        }
        Ok(())
    }

    /// Notes that the commit was not made.
    pub(super) fn unreserve(&mut self, pod: &PodObject, cluster: &Cluster) {
        self.unreserve_first(self.plugins.len(), pod, cluster);
    }

    fn unreserve_first(&mut self, count: usize, pod: &PodObject, cluster: &Cluster) {
        for own in self.plugins.iter().take(count).rev() {
            // A panic is counted. The others are undone all the same.
            let _ = own.call(self.probe, || own.plugin.unreserve(pod, cluster));
        }
    }
}
