//! Measurements before a request is handled, and at decisions.

use std::sync::Arc;

use framework::{Pod, Uid};

use super::{World, with_ports};
use crate::message::{CommitRequest, Request};
use crate::scheduler;

impl World {
    fn is_measured(&self, uid: &Uid) -> bool {
        let Some(every) = self.settings.measure_every else { return false };
        let name = self.originals.get(uid).map(|own| own.key().name.clone());
        let digits = name.and_then(|name| name.rsplit('-').next()?.parse::<u64>().ok());
        digits.is_some_and(|number| number.is_multiple_of(every))
    }

    fn best_of(&mut self, cluster: usize, pod: &Arc<Pod>) -> Option<i64> {
        let (now, agent) = (self.now, self.members[cluster].agent.as_mut()?);
        with_ports(|ports| agent.best_score_milli(pod, now, ports))
    }

    pub(super) fn measure_before(&mut self, cluster: usize, request: &Request) {
        match request {
            Request::Sample(request) => {
                let pod = request.pod.pod.clone();
                let committed = self.measurement.committed;
                self.measurement.sampled.insert(pod.uid.clone(), (committed, self.now));
                if self.is_measured(&pod.uid)
                    && let Some(best) = self.best_of(cluster, &pod)
                {
                    let known = self.measurement.best.entry(pod.uid.clone()).or_default();
                    known.retain(|(own, _)| *own != cluster);
                    known.push((cluster, best));
                }
            }
            Request::Commit(request) => self.measure_commit(cluster, request),
            Request::Seal(_) | Request::Renew(_) | Request::Diagnose(_) => {}
        }
    }

    fn measure_commit(&mut self, cluster: usize, request: &CommitRequest) {
        let pod = &request.pod.pod;
        if request.key.number.candidate == 0
            && let Some((committed, time)) = self.measurement.sampled.get(&pod.uid)
        {
            self.measurement.windows += 1;
            self.measurement.others += self.measurement.committed - committed;
            self.measurement.window += self.now.since(*time);
        }
        if !self.is_measured(&pod.uid) {
            return;
        }
        let own = match request.target.best_of_at_least {
            Some(_) => self.best_of(cluster, pod),
            None => {
                let (now, node) = (self.now, &request.target.node);
                let agent = self.members[cluster].agent.as_mut();
                agent.and_then(|agent| with_ports(|ports| agent.score_milli(pod, node, now, ports)))
            }
        };
        // A node that no longer fits has no score: a conflict.
        let Some(own) = own else { return };
        let best = (0..self.members.len()).filter_map(|other| self.best_of(other, pod)).max();
        self.measurement.commit_regret.add((best.unwrap_or(own) - own).max(0));
    }

    pub(super) fn measure_decision(&mut self, decision: &scheduler::Decision) {
        if !self.is_measured(&decision.pod) {
            return;
        }
        let Some(original) = self.originals.get(&decision.pod) else { return };
        let pod = original.pod.object.pod.clone();
        let mut best = self.measurement.best.remove(&decision.pod).unwrap_or_default();
        for cluster in 0..self.members.len() {
            if !best.iter().any(|(own, _)| *own == cluster)
                && let Some(score) = self.best_of(cluster, &pod)
            {
                best.push((cluster, score));
            }
        }
        let Some(chosen) = decision.candidates.first() else { return };
        let best = best.iter().map(|(_, score)| *score).max().unwrap_or(chosen.total_milli);
        self.measurement.sample_regret.add((best - chosen.total_milli).max(0));
    }
}
