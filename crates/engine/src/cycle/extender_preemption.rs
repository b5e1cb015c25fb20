//! Preempt calls to extenders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::preemption::{Candidate, Victims};
use framework::{Cluster, NodeIx, Pod, Status, Time, Uid};

use crate::extender::Extender;
use crate::extender_calls::ExtenderCalls;
use crate::ports::{self, MetaVictims, PreemptionCall};

/// The extenders, and the client that calls them.
pub(crate) struct PreemptingExtenders<'a, 'c> {
    pub all: &'a [Extender],
    pub client: &'a mut ExtenderCalls<'c>,
    pub now: &'a mut Time,
}

impl PreemptingExtenders<'_, '_> {
    /// Whether an extender with the preempt verb is interested in the pod.
    pub(super) fn has_interested(&self, pod: &Pod) -> bool {
        self.all.iter().any(|extender| extender.preempt && extender.is_interested(pod))
    }

    /// Calls the extenders that have the preempt verb and are interested in the pod, one after the
    /// other. The result of each replaces the candidates and puts them in the order of the names of
    /// their nodes. A candidate that has no victims in the end is dropped.
    ///
    /// # Errors
    /// An extender that is not ignorable fails, or takes all victims of a node away.
    pub(super) fn process_preemption(
        &mut self,
        pod: &Pod,
        cluster: &Cluster,
        mut candidates: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, Status> {
        for (place, extender) in self.all.iter().enumerate() {
            if candidates.is_empty() {
                break;
            }
            if !extender.preempt || !extender.is_interested(pod) {
                continue;
            }
            let answer = self.call(place, pod, cluster, &candidates);
            match answer.and_then(|answer| extender.candidates(answer, cluster)) {
                Err(text) if extender.ignorable => self.client.skipped(place, &text),
                Err(text) => return Err(Status::error(text)),
                Ok(accepted) => {
                    candidates = extender.with_victims(accepted, &candidates, cluster)?;
                }
            }
        }
        candidates.retain(|candidate| !candidate.victims.pods.is_empty());
        Ok(candidates)
    }

    fn call(
        &mut self,
        extender: usize,
        pod: &Pod,
        cluster: &Cluster,
        candidates: &[Candidate],
    ) -> Result<BTreeMap<String, MetaVictims>, String> {
        let victims = candidates.iter().map(|Candidate { node, victims }| {
            let pods = victims.pods.iter().map(|pod| &**pod).collect();
            let num_pdb_violations = i64::try_from(victims.pdb_violations).unwrap_or(i64::MAX);
            (&**cluster.node_name(*node), ports::Victims { pods, num_pdb_violations })
        });
        let call = PreemptionCall { extender, pod, victims: victims.collect() };
        let (answer, now) = self.client.process_preemption(&call, *self.now);
        *self.now = now;
        answer
    }
}

impl Extender {
    /// Returns the candidates of an answer. As in kube-scheduler, the extender may name any nodes
    /// and any pods on them. A pod named twice counts once, and a negative number of violations as
    /// zero.
    fn candidates(
        &self,
        answer: BTreeMap<String, MetaVictims>,
        cluster: &Cluster,
    ) -> Result<Vec<Candidate>, String> {
        let candidate = |(name, named): (String, MetaVictims)| {
            let node = cluster.node_named(&name);
            let node = node.ok_or_else(|| format!("nodeinfo not found for node name {name:?}"))?;
            let mut seen = BTreeSet::new();
            let uids = named.pods.iter().filter(|uid| seen.insert(*uid));
            let pods = uids.map(|uid| self.victim(uid, node, cluster)).collect::<Result<_, _>>()?;
            let pdb_violations = usize::try_from(named.num_pdb_violations).unwrap_or(0);
            Ok(Candidate { node, victims: Victims { pods, pdb_violations } })
        };
        answer.into_iter().map(candidate).collect()
    }

    fn victim(&self, uid: &Uid, node: NodeIx, cluster: &Cluster) -> Result<Arc<Pod>, String> {
        let known = cluster.node(node).pods().find(|pod| pod.uid == *uid);
        // kube-scheduler prints the braces, because the value is a Go pointer to a MetaPod.
        known.cloned().ok_or_else(|| {
            format!(
                "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {}, but the pod is \
                 not found on that node",
                self.name,
                cluster.node_name(node)
            )
        })
    }

    /// Checks the nodes of an answer without victims. A node that had none before stays a candidate
    /// for the next extender. Another one is left out if the extender is ignorable.
    ///
    /// # Errors
    /// The extender is not ignorable and took all victims of a node away.
    fn with_victims(
        &self,
        mut accepted: Vec<Candidate>,
        asked: &[Candidate],
        cluster: &Cluster,
    ) -> Result<Vec<Candidate>, Status> {
        let had_none: BTreeSet<NodeIx> = asked
            .iter()
            .filter(|candidate| candidate.victims.pods.is_empty())
            .map(|candidate| candidate.node)
            .collect();
        let has_lost = |candidate: &Candidate| {
            candidate.victims.pods.is_empty() && !had_none.contains(&candidate.node)
        };
        if self.ignorable {
            accepted.retain(|candidate| !has_lost(candidate));
        }
        match accepted.iter().find(|candidate| has_lost(candidate)) {
            None => Ok(accepted),
            Some(Candidate { node, .. }) => {
                let name = cluster.node_name(*node);
                Err(Status::error(format!("expected at least one victim pod on node {name:?}")))
            }
        }
    }
}
