//! The work of a scheduler on a pod, for people.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use framework::{PodKey, Time, Uid};
use serde::{Deserialize, Serialize};

use super::Scheduler;
use super::clusters::Members;
use super::decision::Candidate;
use super::flight::Flight;
use crate::message::{CommitOutcome, Diagnosis, PodObject};

/// Maximum number of pods whose rounds are kept; the first ones are forgotten.
const MAX_PODS: usize = 10_000;
/// Maximum number of rounds of a pod, the latest ones.
const MAX_ROUNDS: usize = 3;

/// The known state of a pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The present step of the scheduler for the pod.
    pub state: String,
    /// Number of failed attempts to place it.
    pub scheduling_retry_count: u32,
    /// Number of the latest attempt that is written on the pod.
    pub attempt: u32,
    /// The latest rounds, the latest last; empty if this process has made none, or has forgotten
    /// them.
    pub rounds: Vec<RoundExplanation>,
    /// The answers of the agents about each node now, if they were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<ClusterDiagnosis>,
}

/// A round: samples, a decision, and the commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundExplanation {
    /// Time since its decision in seconds.
    pub seconds_ago: u64,
    /// The clusters, in the order of the members.
    pub clusters: Vec<ClusterExplanation>,
    /// The commit candidates in order.
    pub candidates: Vec<CandidateExplanation>,
    /// Why it ended without a commit, if a candidate does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// The outcome of a cluster in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExplanation {
    /// Its name.
    pub cluster: Arc<str>,
    /// Number of nodes of its sample.
    pub nodes: u32,
    /// Number of nodes that its agent looked at, and of all its nodes.
    pub looked_at: u32,
    /// Number of all its nodes.
    pub total_nodes: u32,
    /// Why it has no node for the pod, or was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A commit candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateExplanation {
    /// Its cluster.
    pub cluster: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
    /// Mean score of all plugins on both sides, in thousandths of a point.
    pub total_milli: i64,
    /// The outcome of the commit; `None` if it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// The answer of the agent of a cluster about its nodes now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDiagnosis {
    /// The cluster.
    pub cluster: Arc<str>,
    /// The diagnosis; `None` if there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A round as it was recorded.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) at: Time,
    pub(super) clusters: Vec<ClusterExplanation>,
    pub(super) candidates: Vec<CandidateExplanation>,
    pub(super) ended: Option<String>,
}

impl CandidateExplanation {
    pub(super) fn of(candidate: &Candidate, members: &Members) -> Self {
        Self {
            cluster: members.get(candidate.cluster).name.clone(),
            node: candidate.node.clone(),
            total_milli: candidate.total_milli,
            commit: None,
        }
    }
}

/// The latest rounds of pods.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    by_pod: HashMap<Uid, VecDeque<Round>>,
    /// The pods in the order in which they came.
    order: VecDeque<Uid>,
}

impl Rounds {
    pub(super) fn add(&mut self, pod: &Uid, round: Round) {
        if !self.by_pod.contains_key(pod) {
            self.order.push_back(pod.clone());
            if self.order.len() > MAX_PODS
                && let Some(first) = self.order.pop_front()
            {
                self.by_pod.remove(&first);
            }
        }
        let rounds = self.by_pod.entry(pod.clone()).or_default();
        rounds.push_back(round);
        if rounds.len() > MAX_ROUNDS {
            rounds.pop_front();
        }
    }

    /// Notes what became of a commit of the latest round.
    pub(super) fn committed(&mut self, pod: &Uid, place: usize, outcome: impl Into<String>) {
        let round = self.by_pod.get_mut(pod).and_then(VecDeque::back_mut);
        if let Some(candidate) = round.and_then(|round| round.candidates.get_mut(place)) {
            candidate.commit = Some(outcome.into());
        }
    }

    /// Notes why the latest round has ended.
    pub(super) fn ended(&mut self, pod: &Uid, reason: &str) {
        if let Some(round) = self.by_pod.get_mut(pod).and_then(VecDeque::back_mut) {
            round.ended = Some(reason.to_owned());
        }
    }
}

/// Maximum number of characters of a text of an agent that is kept or written on a pod.
const MAX_TEXT: usize = 1_000;

/// Returns the beginning of a text that an agent has given.
pub(super) fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// Returns what became of a commit as text.
pub(super) fn outcome_text(outcome: &CommitOutcome) -> String {
    match outcome {
        CommitOutcome::Committed(committed) => {
            format!("committed to node {}", short(&committed.node))
        }
        CommitOutcome::Conflict(conflict) => {
            format!("conflict {:?}: {}", conflict.code, short(&conflict.message))
        }
        CommitOutcome::Rejected(refusal) => {
            format!("rejected {:?}: {}", refusal.code, short(&refusal.message))
        }
    }
}

impl Scheduler {
    /// Returns a pod, and whether it is placed.
    pub fn known_pod(&self, key: &PodKey) -> Option<(PodObject, bool)> {
        let pod = self.pods.values().find(|own| own.object.pod.key == *key)?;
        Some((pod.object.clone(), pod.placement.is_some()))
    }

    /// Returns the known state of a pod; `None` if the pod does not exist.
    pub fn explanation(&self, key: &PodKey, now: Time) -> Option<PodExplanation> {
        let (uid, original) = self.pods.iter().find(|(_, own)| own.object.pod.key == *key)?;
        let state = match (&original.placement, self.flights.get(uid)) {
            (_, Some(flight)) => flight.explain(&self.members),
            (Some(placement), None) => {
                let node = &placement.committed.node;
                format!("placed in {} on node {node}", placement.cluster)
            }
            (None, None) => "waiting in the queue for its next attempt".to_owned(),
        };
        let rounds = self.rounds.by_pod.get(uid).into_iter().flatten();
        let rounds = rounds.map(|round| RoundExplanation {
            seconds_ago: now.since(round.at).as_secs(),
            clusters: round.clusters.clone(),
            candidates: round.candidates.clone(),
            ended: round.ended.clone(),
        });
        Some(PodExplanation {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            state,
            scheduling_retry_count: self.retries.get(uid).copied().unwrap_or(0),
            attempt: original
                .latest_attempt()
                .max(self.flights.get(uid).map_or(0, Flight::attempt)),
            rounds: rounds.collect(),
            now: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_rounds_of_the_latest_pods_are_kept() {
        let mut rounds = Rounds::default();
        let round = |at| Round {
            at: Time::from_secs(at),
            clusters: Vec::new(),
            candidates: Vec::new(),
            ended: None,
        };
        let first = Uid::from("first");
        for at in 0..5 {
            rounds.add(&first, round(at));
        }
        let kept: Vec<Time> = rounds.by_pod[&first].iter().map(|round| round.at).collect();
        assert_eq!(kept, [2, 3, 4].map(Time::from_secs));
        for number in 0..MAX_PODS {
            rounds.add(&Uid::from(&*format!("p{number}")), round(9));
        }
        assert_eq!(rounds.by_pod.len(), MAX_PODS);
        assert!(!rounds.by_pod.contains_key(&first));
        rounds.committed(&first, 0, "it is forgotten");
    }
}
