//! SampleNodes and the decision.

use std::sync::Arc;

use engine::ports::Ports;
use framework::{CycleState, Status, Time, Uid};

use super::{Flight, OpenCall, Phase, Sampling};
use crate::message::{Request, Response, SampleRequest, SampleResponse};
use crate::scheduler::clusters::Members;
use crate::scheduler::decision::{self, Choice, Choosing, DecisionPod};
use crate::scheduler::explain::{CandidateExplanation, ClusterExplanation, Round, short};
use crate::scheduler::pipeline::Pipeline;
use crate::scheduler::{Decision, Scheduler, SchedulerOutput};

impl Scheduler {
    /// Begins a round: asks a share of the clusters for samples.
    pub(super) fn ask_for_samples(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        flight.rounds += 1;
        let (object, asks_all, fence) =
            (flight.object.clone(), flight.asks_all, flight.fence_after_s);
        let retries = self.retries.get(uid).copied().unwrap_or(0);
        let pod =
            DecisionPod { object: &object, scheduling_retry_count: retries, placed: &self.placed };
        let mut state = CycleState::new();
        let mut pipeline = Pipeline { plugins: &self.config.plugins, probe: &mut *ports.probe };
        if let Err(status) = pipeline.pre_filter(&mut state, &pod) {
            return self.end_round(uid, &status, now, ports);
        }
        let (mut open, mut reasons, mut failed) = (Vec::new(), Vec::new(), None);
        for (ix, member) in self.members.iter() {
            let rejected = match pipeline.filter_cluster(&state, &pod, &member.cluster) {
                Err(status) if !status.is_rejection() => {
                    failed = Some(status);
                    break;
                }
                answer => answer.err(),
            };
            let without_lease = || {
                let terms = self.leases.terms(&member.cluster.name, fence?);
                terms.is_none().then(|| "its agent has not agreed to a lease".to_owned())
            };
            let rejected = rejected.map(|status| status.message());
            match rejected.or_else(|| member.closed(now)).or_else(without_lease) {
                Some(reason) => reasons.push((ix, reason)),
                None => open.push(ix),
            }
        }
        if let Some(status) = failed {
            return self.end_round(uid, &status, now, ports);
        }
        let share = match asks_all {
            true => open.len(),
            false => decision::clusters_to_ask(open.len(), self.config.clusters_to_sample_bp),
        };
        for place in 0..share {
            let other = self.rng.usize(place..open.len());
            open.swap(place, other);
        }
        let is_complete = share == open.len();
        open.truncate(share);
        let request = Arc::new(SampleRequest {
            pod: object,
            scheduling_retry_count: retries,
            strategy: self.config.strategy.clone(),
            nodes_to_sample_bp: self.config.nodes_to_sample_bp,
            max_nodes: self.nodes_of_answers(),
            node_labels: self.config.node_labels.clone(),
            copies: Vec::new(),
        });
        let asked = open.into_iter().map(|cluster| {
            (cluster, Some(self.call(uid, cluster, Request::Sample(request.clone()))))
        });
        let asked: Vec<_> = asked.collect();
        let is_empty = asked.is_empty();
        let deadline = now + self.config.sample_timeout;
        asked.iter().for_each(|(cluster, _)| self.members.asked(*cluster, deadline));
        let samples = Vec::new();
        let sampling = Sampling { state, asked, samples, reasons, deadline, is_complete };
        self.enter(uid, Phase::Sampling(sampling));
        match is_empty {
            true => self.decide(uid, now, ports),
            false => self.set_timer(uid, Some(deadline)),
        }
    }

    /// Returns the number of nodes of each cluster that a decision can use, if that is less than
    /// the sample.
    fn nodes_of_answers(&self) -> Option<u32> {
        let needs_all = self.config.plugins.iter().any(|own| own.plugin.tells_nodes_apart());
        (!needs_all).then(|| u32::try_from(self.config.commit_candidates).unwrap_or(u32::MAX))
    }

    /// Ends a round before clusters are asked.
    fn end_round(&mut self, uid: &Uid, status: &Status, now: Time, ports: &mut Ports<'_>) {
        let (clusters, candidates) = (Vec::new(), Vec::new());
        let ended = Some(status.message());
        self.rounds.add(uid, Round { at: now, clusters, candidates, ended });
        self.back_off(uid, status, now, ports);
    }

    pub(super) fn sampled(
        &mut self,
        call: &OpenCall,
        answer: Result<Response, String>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let OpenCall { uid, cluster, id } = call;
        let (cluster, id) = (*cluster, *id);
        let Some(Flight { phase: Phase::Sampling(sampling), .. }) = self.flights.get_mut(uid)
        else {
            return;
        };
        let Some((_, call)) = sampling.asked.iter_mut().find(|(_, call)| *call == Some(id)) else {
            return;
        };
        *call = None;
        let checked = match answer {
            Ok(Response::Sample(Ok(sample))) => {
                match self.members.answered(cluster, &sample.cluster) {
                    Ok(()) => check_sample(sample),
                    Err(reason) => Err(reason),
                }
            }
            Ok(Response::Sample(Err(refusal))) => Err(short(&refusal.message)),
            Ok(_) => Err("its agent gave the answer to another request".to_owned()),
            Err(error) => {
                self.members.failed(cluster, now);
                Err(error)
            }
        };
        match checked {
            Ok(sample) if sample.nodes.is_empty() => {
                let reason = sample.reason.as_deref().map_or("no node fits".to_owned(), short);
                sampling.reasons.push((cluster, reason));
            }
            Ok(sample) => sampling.samples.push((cluster, sample)),
            Err(reason) => sampling.reasons.push((cluster, reason)),
        }
        let open = sampling.asked.iter().filter(|(_, call)| call.is_some()).count();
        let answered = sampling.asked.len() - open;
        if open == 0 {
            return self.decide(uid, now, ports);
        }
        if answered * 2 >= sampling.asked.len() && !sampling.samples.is_empty() {
            // Stragglers do not hold up the pod.
            let deadline = sampling.deadline.min(now + self.config.straggler_wait);
            sampling.deadline = deadline;
            self.set_timer(uid, Some(deadline));
        }
    }

    /// Decides with the samples that have come.
    pub(super) fn decide(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.set_timer(uid, None);
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let Phase::Sampling(sampling) = &mut flight.phase else { return };
        for (cluster, call) in &sampling.asked {
            if call.is_some() {
                self.members.failed(*cluster, now);
                sampling.reasons.push((*cluster, "its agent did not answer in time".to_owned()));
            }
        }
        let retries = self.retries.get(uid).copied().unwrap_or(0);
        let pod = DecisionPod {
            object: &flight.object,
            scheduling_retry_count: retries,
            placed: &self.placed,
        };
        let choice = Choice {
            candidates: self.config.commit_candidates,
            agents_choose: self.config.agents_choose,
            tolerance_milli: self.config.tolerance_milli,
        };
        let state = &mut sampling.state;
        let mut pipeline = Pipeline { plugins: &self.config.plugins, probe: &mut *ports.probe };
        let choosing = Choosing { samples: &sampling.samples, choice, rng: &mut self.rng };
        let decided = decision::decide(&mut pipeline, &self.members, &pod, state, choosing);
        let clusters = sampling.explain(&self.members);
        let (candidates, ended) = match &decided {
            Err(status) => (Vec::new(), Some(status.message())),
            Ok(candidates) => {
                let of = |own| CandidateExplanation::of(own, &self.members);
                let ended = candidates.is_empty().then(|| "no node can take the pod".to_owned());
                (candidates.iter().map(of).collect(), ended)
            }
        };
        self.rounds.add(uid, Round { at: now, clusters, candidates, ended });
        match decided {
            Err(status) => self.back_off(uid, &status, now, ports),
            Ok(candidates) if candidates.is_empty() => self.no_candidate(uid, now, ports),
            Ok(candidates) => {
                self.stats.rounds += 1;
                self.outputs.push(SchedulerOutput::Decided(Decision {
                    pod: uid.clone(),
                    scheduling_retry_count: retries,
                    candidates: candidates.clone(),
                }));
                self.claim(uid, candidates);
            }
        }
    }

    /// Asks all clusters if only some were asked. Otherwise no node can take the pod now.
    fn no_candidate(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.stats.empty_rounds += 1;
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let Phase::Sampling(sampling) = &flight.phase else { return };
        if !sampling.is_complete && !flight.asks_all {
            flight.asks_all = true;
            return self.begin_round(uid, now, ports);
        }
        let mut reasons = sampling.reasons.clone();
        reasons.sort();
        let reasons = reasons.iter().map(|(cluster, reason)| {
            format!("{}: {}", self.members.get(*cluster).name, reason.trim_end_matches('.'))
        });
        let reasons: Vec<String> = reasons.collect();
        let count = self.members.iter().count();
        let text = match count {
            0 => "there is no cluster".to_owned(),
            _ => format!("0/{count} clusters are available: {}.", reasons.join("; ")),
        };
        self.back_off(uid, &Status::unschedulable(text), now, ports);
    }
}

impl Sampling {
    /// Returns what became of each cluster, in the order of the members.
    fn explain(&self, members: &Members) -> Vec<ClusterExplanation> {
        let sampled = self.samples.iter().map(|(ix, sample)| {
            let explanation = ClusterExplanation {
                cluster: members.get(*ix).name.clone(),
                nodes: u32::try_from(sample.nodes.len()).unwrap_or(u32::MAX),
                looked_at: sample.looked_at,
                total_nodes: sample.total_nodes,
                reason: None,
            };
            (*ix, explanation)
        });
        let others = self.reasons.iter().map(|(ix, reason)| {
            let explanation = ClusterExplanation {
                cluster: members.get(*ix).name.clone(),
                nodes: 0,
                looked_at: 0,
                total_nodes: 0,
                reason: Some(reason.clone()),
            };
            (*ix, explanation)
        });
        let mut all: Vec<_> = sampled.chain(others).collect();
        all.sort_by_key(|(ix, _)| *ix);
        all.into_iter().map(|(_, explanation)| explanation).collect()
    }
}

/// Checks what an agent has answered, which may have a bug or lie. The commit checks the rest.
fn check_sample(sample: Arc<SampleResponse>) -> Result<Arc<SampleResponse>, String> {
    let highest = sample.score_weight.saturating_mul(framework::MAX_NODE_SCORE);
    let is_valid = sample.score_weight >= 0
        && sample.score_weight <= i64::from(u32::MAX)
        && sample.nodes.iter().all(|node| (0..=highest).contains(&node.score));
    if is_valid { Ok(sample) } else { Err("its agent gave scores out of range".to_owned()) }
}
