//! Originals that are deleted. Their finalizer keeps them until their clusters have sealed the commits for them and have
//! no delegate of them, as the mirror of the program does it.

use std::time::Duration;

use framework::Uid;

use super::{Caller, Event, World};
use crate::message::{CommitKey, Request, SealOutcome, SealRequest, TryNumber};

impl World {
    /// Number of originals that are deleted, and kept by their finalizer.
    pub fn terminating(&self) -> usize {
        self.management.pods.values().filter(|pod| pod.terminating).count()
    }

    /// Number of originals.
    pub fn originals(&self) -> usize {
        self.management.pods.len()
    }

    pub(super) fn delete_some_pod(&mut self) {
        self.plan(self.settings.faults.deletions, Event::Deletion);
        if self.settings.faults.deletions.is_none() {
            return;
        }
        let living = self.management.pods.iter().filter(|(_, pod)| !pod.terminating);
        let living: Vec<Uid> = living.map(|(uid, _)| uid.clone()).collect();
        if let Some(uid) = self.rng.choice(&living).cloned() {
            self.management.terminate(&uid);
            self.show(&uid);
        }
    }

    /// Releases deleted pods: seals their attempts in every cluster that may run them, and deletes their delegates.
    pub(super) fn release(&mut self) {
        let deleted = self.management.pods.iter().filter(|(_, pod)| pod.terminating);
        let deleted: Vec<Uid> = deleted.map(|(uid, _)| uid.clone()).collect();
        for uid in deleted {
            let Some((clusters, attempt)) = self.may_run(&uid) else { continue };
            let pod = &self.management.pods[&uid];
            let is_released = |cluster: &usize| pod.released.get(cluster) >= Some(&attempt);
            let left: Vec<usize> =
                clusters.into_iter().filter(|cluster| !is_released(cluster)).collect();
            if left.is_empty() {
                // Its finalizer is removed.
                self.management.pods.remove(&uid);
                continue;
            }
            for cluster in left {
                let key =
                    CommitKey { pod: uid.to_string().into(), number: TryNumber::last_of(attempt) };
                let caller = Caller::Mirror { uid: uid.clone(), attempt };
                self.send(cluster, Duration::ZERO, move || Event::Request {
                    cluster,
                    caller: caller.clone(),
                    request: Request::Seal(SealRequest { key: key.clone() }),
                });
            }
        }
    }

    /// Returns the clusters that may run a pod, and its latest attempt.
    fn may_run(&self, uid: &Uid) -> Option<(Vec<usize>, u32)> {
        let original = self.management.original(uid)?;
        let intended = original.intent.iter().flat_map(|intent| &intent.clusters);
        let placed = original.placement.iter().map(|placement| &placement.cluster);
        let numbers =
            intended.chain(placed).filter_map(|name| name.strip_prefix('c')?.parse().ok());
        Some((numbers.collect(), original.latest_attempt()))
    }

    /// An agent has answered a seal: its delegate is deleted. Without one, the cluster has released the pod.
    pub(super) fn release_answered(
        &mut self,
        cluster: usize,
        uid: &Uid,
        attempt: u32,
        outcome: &SealOutcome,
    ) {
        if matches!(outcome, SealOutcome::Rejected(_)) || !self.management.pods.contains_key(uid) {
            return;
        }
        let is_of = |mark: &crate::delegate::DelegateMark| Uid::from(&*mark.key.pod) == *uid;
        let mut pods = self.members[cluster].api.pods.values();
        let delegate = pods.find(|own| own.mark.as_ref().is_some_and(is_of));
        if let Some(delegate) = delegate {
            let (key, delegate) = (delegate.pod.key.clone(), delegate.pod.uid.clone());
            if let Some(event) = self.members[cluster].api.end(&key, &delegate) {
                self.member_changed(cluster, event);
            }
        } else if *outcome == SealOutcome::Sealed
            && let Some(pod) = self.management.pods.get_mut(uid)
        {
            pod.released.insert(cluster, attempt);
        }
    }
}
