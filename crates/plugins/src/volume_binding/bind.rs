//! From a chosen node to bound volumes (`AssumePodVolumes` and `BindPodVolumes` of Kubernetes).
//!
//! What is to be written is assumed first, so that the pods which are tried meanwhile see it; then
//! it is written, one object after the other; then the volume controller has its turn.

mod change;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    Answer, Cluster, EventResource, ObjectKey, Pod, PreBindInput, PreBindStep, Status,
};

use self::change::Change;
use super::assumed::AssumedObjects;
use super::find::PodVolumes;

/// The volumes of a pod on their way to be bound.
#[derive(Debug, Clone)]
pub(super) struct VolumeBinder {
    node: Arc<str>,
    changes: Vec<Change>,
    stage: Stage,
}

/// How far it is.
#[derive(Debug, Clone)]
enum Stage {
    /// The change at this place is being written.
    Writing {
        place: usize,
        /// The answer to an earlier request to write it was lost.
        again: bool,
    },
    /// The change at this place was refused, maybe because an earlier request to write it was
    /// carried out. The watch will tell.
    Disputed { place: usize, refusal: String },
    /// Everything is written.
    Waiting,
}

impl VolumeBinder {
    /// Assumes what is to be written for the volumes of a pod on a node.
    ///
    /// # Errors
    /// An object has changed since. Then nothing is assumed.
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

    /// Forgets what is assumed and not written.
    pub(super) fn revert(&self, assumed: &mut AssumedObjects) {
        self.changes.iter().for_each(|change| change.revert(assumed));
    }

    /// Takes the next step; everything written may take `timeout` to be bound.
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
            (PreBindInput::Changed, Stage::Disputed { place, refusal }) => {
                let (place, refusal) = (*place, refusal.clone());
                self.settle(place, refusal, cluster)
            }
            (PreBindInput::Deadline, Stage::Disputed { refusal, .. }) => failed(refusal.clone()),
            (PreBindInput::Deadline, _) => return timed_out(),
            _ => None,
        }
        .unwrap_or_else(|| self.go_on(pod, cluster, timeout))
    }

    /// What the stage asks for.
    fn go_on(&mut self, pod: &Pod, cluster: &Cluster, timeout: Duration) -> PreBindStep {
        match self.stage {
            Stage::Writing { place, .. } => match self.changes.get(place) {
                Some(change) => PreBindStep::Write(change.write().clone()),
                None if timeout.is_zero() => timed_out(),
                None => {
                    self.stage = Stage::Waiting;
                    self.go_on(pod, cluster, timeout)
                }
            },
            Stage::Disputed { .. } => self.wait(pod, cluster, timeout),
            Stage::Waiting => match self.check(pod, cluster) {
                Ok(true) => PreBindStep::Done(Status::success()),
                Ok(false) => self.wait(pod, cluster, timeout),
                Err(text) => done(format!("binding volumes: {text}")),
            },
        }
    }

    /// What the API server says about a write fails the pod as it is; only a lost answer says
    /// nothing, and the preconditions make it safe to write once more.
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
            Answer::Conflict(text) if again => self.settle(place, text.clone(), cluster),
            failure => failed(failure.failure().unwrap_or_default().to_owned()),
        }
    }

    /// Whether an earlier request was carried out is for the object to say.
    fn settle(&mut self, place: usize, refusal: String, cluster: &Cluster) -> Option<PreBindStep> {
        let change = self.changes.get_mut(place)?;
        if change.is_shown(cluster) {
            change.set_written(None);
            self.stage = Stage::Writing { place: place + 1, again: false };
            return None;
        }
        if !change.is_unchanged(cluster) {
            return failed(refusal);
        }
        self.stage = Stage::Disputed { place, refusal };
        None
    }

    /// Whether every volume is bound, going by what the API server says.
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

    /// A change of anything that [`check`](Self::check) looks at may end the wait.
    fn wait(&self, pod: &Pod, cluster: &Cluster, timeout: Duration) -> PreBindStep {
        let node = |kind| ObjectKey::cluster_scoped(kind, self.node.clone());
        let mut objects =
            vec![ObjectKey::pod(&pod.key), node(EventResource::Node), node(EventResource::CsiNode)];
        objects.extend(self.changes.iter().flat_map(|change| change.objects(cluster)));
        PreBindStep::Wait { timeout, objects }
    }

    /// Everything is bound: nothing is assumed any more.
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
