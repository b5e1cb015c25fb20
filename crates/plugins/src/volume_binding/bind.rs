//! Binds the volumes of a pod on its chosen node (`AssumePodVolumes` and `BindPodVolumes` of
//! Kubernetes).
//!
//! All changes are assumed first, so that other pods take them into account. Then they are written
//! one object at a time. Finally the pod waits until the volume controller has bound its volumes.

mod change;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    Answer, Cluster, EventResource, ObjectKey, Pod, PreBindInput, PreBindStep, Status,
};

use self::change::Change;
use super::assumed::AssumedObjects;
use super::find::PodVolumes;

/// The volume binding of a pod in progress.
#[derive(Debug, Clone)]
pub(super) struct VolumeBinder {
    node: Arc<str>,
    changes: Vec<Change>,
    stage: Stage,
}

/// The stage of a volume binding.
#[derive(Debug, Clone)]
enum Stage {
    /// The change at this index is being written.
    Writing {
        place: usize,
        /// Whether the answer to an earlier write of this change was lost.
        again: bool,
    },
    /// The write of the change at this index was rejected, maybe because an earlier write
    /// succeeded. The watch shows which.
    Rejected { place: usize, rejection: String },
    /// All changes are written; the volumes are not all bound.
    Waiting,
}

impl VolumeBinder {
    /// Assumes all changes for the volumes of a pod on a node.
    ///
    /// # Errors
    /// Returns an error if an object has changed. In that case no change is assumed.
    pub(super) fn assume(
        volumes: PodVolumes,
        node: &Arc<str>,
        cluster: &Cluster,
        assumed: &mut AssumedObjects,
    ) -> Result<Self, Status> {
        let PodVolumes { static_bindings, dynamic_provisions } = volumes;
        let bindings = static_bindings.into_iter().map(|own| Change::bind(own, cluster));
        let provisions = dynamic_provisions.into_iter().map(|own| Change::provision(own, node));
        let changes: Vec<_> = bindings.chain(provisions).collect();
        for (place, change) in changes.iter().enumerate() {
            if let Err(text) = change.assume(cluster, assumed) {
                changes[..place].iter().for_each(|change| change.revert(assumed));
                return Err(Status::error(text));
            }
        }
        let stage = Stage::Writing { place: 0, again: false };
        Ok(Self { node: node.clone(), changes, stage })
    }

    /// Reverts the assumed changes that are not written.
    pub(super) fn revert(&self, assumed: &mut AssumedObjects) {
        self.changes.iter().for_each(|change| change.revert(assumed));
    }

    /// Advances the binding. After all writes, the volumes must be bound within `timeout`.
    pub(super) fn step(
        &mut self,
        pod: &Pod,
        cluster: &Cluster,
        timeout: Duration,
        input: &PreBindInput<'_>,
    ) -> PreBindStep {
        match (input, &self.stage) {
            (PreBindInput::Answer(answer), Stage::Writing { place, again }) => {
                let (place, again) = (*place, *again);
                self.answered(answer, place, again, cluster)
            }
            (PreBindInput::Changed, Stage::Rejected { place, rejection }) => {
                let (place, rejection) = (*place, rejection.clone());
                self.resolve_conflict(place, rejection, cluster)
            }
            (PreBindInput::Deadline, Stage::Rejected { rejection, .. }) => {
                failed(rejection.clone())
            }
            (PreBindInput::Deadline, _) => return timed_out(),
            _ => None,
        }
        .unwrap_or_else(|| self.next_step(pod, cluster, timeout))
    }

    /// Returns the next step of the current stage.
    fn next_step(&mut self, pod: &Pod, cluster: &Cluster, timeout: Duration) -> PreBindStep {
        match self.stage {
            Stage::Writing { place, .. } => match self.changes.get(place) {
                Some(change) => PreBindStep::Write(change.write().clone()),
                None if timeout.is_zero() => timed_out(),
                None => {
                    self.stage = Stage::Waiting;
                    self.next_step(pod, cluster, timeout)
                }
            },
            Stage::Rejected { .. } => self.wait(pod, cluster, timeout),
            Stage::Waiting => match self.check(pod, cluster) {
                Ok(true) => PreBindStep::Done(Status::success()),
                Ok(false) => self.wait(pod, cluster, timeout),
                Err(text) => done(format!("binding volumes: {text}")),
            },
        }
    }

    /// Handles the answer to a write. An error from the API server fails the pod. After a lost
    /// answer the write is repeated; its preconditions make that safe.
    fn answered(
        &mut self,
        answer: &Answer,
        place: usize,
        again: bool,
        cluster: &Cluster,
    ) -> Option<PreBindStep> {
        let change = self.changes.get_mut(place)?;
        match answer {
            Answer::Ok(object) => {
                change.set_written(object.as_ref());
                self.stage = Stage::Writing { place: place + 1, again: false };
                None
            }
            Answer::Unknown(_) if !again => {
                self.stage = Stage::Writing { place, again: true };
                None
            }
            Answer::Conflict(text) if again => self.resolve_conflict(place, text.clone(), cluster),
            failure => failed(failure.failure().unwrap_or_default().to_owned()),
        }
    }

    /// Determines from the stored object whether an earlier write succeeded.
    fn resolve_conflict(
        &mut self,
        place: usize,
        rejection: String,
        cluster: &Cluster,
    ) -> Option<PreBindStep> {
        let change = self.changes.get_mut(place)?;
        if change.is_shown(cluster) {
            change.set_written(None);
            self.stage = Stage::Writing { place: place + 1, again: false };
            return None;
        }
        if !change.is_unchanged(cluster) {
            return failed(rejection);
        }
        self.stage = Stage::Rejected { place, rejection };
        None
    }

    /// Whether every volume is bound according to the API server.
    fn check(&self, pod: &Pod, cluster: &Cluster) -> Result<bool, String> {
        let name = &self.node;
        let node = cluster
            .node_named(name)
            .ok_or_else(|| format!("failed to get node {name:?}: node {name:?} not found"))?;
        let node = cluster.node(node);
        if !node.pods().any(|placed| placed.uid == pod.uid) {
            let name = &pod.key.name;
            return Err(format!("pod does not exist any more: pod {name:?} not found"));
        }
        for change in &self.changes {
            if !change.is_bound(&node)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for changes of any object that [`check`](Self::check) reads.
    fn wait(&self, pod: &Pod, cluster: &Cluster, timeout: Duration) -> PreBindStep {
        let node = |kind| ObjectKey::cluster_scoped(kind, self.node.clone());
        let mut objects =
            vec![ObjectKey::pod(&pod.key), node(EventResource::Node), node(EventResource::CsiNode)];
        objects.extend(self.changes.iter().flat_map(|change| change.objects(cluster)));
        PreBindStep::Wait { timeout, objects }
    }

    /// Forgets all assumed changes after every volume is bound.
    pub(super) fn forget(&self, assumed: &mut AssumedObjects) {
        self.changes.iter().for_each(|change| change.forget(assumed));
    }
}

fn timed_out() -> PreBindStep {
    done("binding volumes: context deadline exceeded".to_owned())
}

fn failed(text: String) -> Option<PreBindStep> {
    Some(done(text))
}

fn done(error: String) -> PreBindStep {
    PreBindStep::Done(Status::error(error))
}
