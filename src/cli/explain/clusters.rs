//! The answer of a scheduler over many clusters as text.

use std::fmt::Write;

use supercluster::message::Diagnosis;
use supercluster::scheduler::{PodExplanation, RoundExplanation};

/// Number of reasons and nodes that the short form shows.
const SHOWN: usize = 3;

pub(super) fn pod(answer: &PodExplanation, wide: bool) -> String {
    let PodExplanation { namespace, name, state, scheduling_retry_count, attempt, rounds, now } =
        answer;
    let mut out = format!("Pod {namespace}/{name}: {state}.\n");
    let _ = writeln!(out, "Attempt {attempt}; {scheduling_retry_count} failed since it waits.");
    for round in rounds.iter().rev() {
        out += &round_text(round);
    }
    if rounds.is_empty() {
        out += "\nThis process has made no decision about it.\n";
    }
    for cluster in now {
        let name = &cluster.cluster;
        match (&cluster.diagnosis, &cluster.error) {
            (Some(diagnosis), _) => {
                let _ = writeln!(out, "\n{name}, now: {}", diagnosis_text(diagnosis, wide));
            }
            (None, error) => {
                let error = error.as_deref().unwrap_or("no answer");
                let _ = writeln!(out, "\n{name}, now: {error}");
            }
        }
    }
    // No name can move the cursor.
    out.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

fn round_text(round: &RoundExplanation) -> String {
    let mut out = format!("\nDecision {} s ago:\n", round.seconds_ago);
    for own in &round.clusters {
        let _ = match &own.reason {
            Some(reason) => writeln!(out, "  {}: {reason}", own.cluster),
            None => writeln!(
                out,
                "  {}: {} sampled, {} of {} looked at",
                own.cluster, own.nodes, own.looked_at, own.total_nodes
            ),
        };
    }
    for own in &round.candidates {
        let points = own.total_milli as f64 / 1_000.0;
        let commit = own.commit.as_deref().unwrap_or("not tried");
        let _ =
            writeln!(out, "  candidate {}/{}: {points:.3} points; {commit}", own.cluster, own.node);
    }
    if let Some(ended) = &round.ended {
        let _ = writeln!(out, "  {ended}");
    }
    out
}

fn diagnosis_text(diagnosis: &Diagnosis, wide: bool) -> String {
    let Diagnosis { looked_at, fitting, reasons, .. } = diagnosis;
    let mut out = format!("{fitting} of {looked_at} nodes can take the pod");
    let shown = if wide { usize::MAX } else { SHOWN };
    for own in reasons.iter().take(shown) {
        let nodes: Vec<&str> = own.nodes.iter().take(shown).map(AsRef::as_ref).collect();
        let more = if own.count as usize > nodes.len() { ", ..." } else { "" };
        let nodes = nodes.join(", ");
        let _ = write!(out, "\n  {} cannot ({nodes}{more}): {}", own.count, own.reason);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_shows_clusters_candidates_and_nodes() {
        let answer = json!({"namespace": "shop", "name": "web", "attempt": 4,
            "state": "waiting in the queue for its next attempt", "schedulingRetryCount": 2,
            "rounds": [{"secondsAgo": 7, "clusters": [
                {"cluster": "eu", "nodes": 2, "lookedAt": 4, "totalNodes": 9},
                {"cluster": "us", "nodes": 0, "lookedAt": 0, "totalNodes": 0,
                    "reason": "its agent did not answer in time"}],
              "candidates": [{"cluster": "eu", "node": "n1", "totalMilli": 61_500,
                    "commit": "conflict Resources: Insufficient cpu"},
                {"cluster": "eu", "node": "n2", "totalMilli": 60_000}]}],
            "now": [{"cluster": "eu", "diagnosis": {"cluster": "id", "totalNodes": 9,
                "lookedAt": 9, "fitting": 5, "reasons": [{"reason": "Insufficient cpu",
                    "plugin": "NodeResourcesFit", "count": 4, "nodes": ["a", "b", "c", "d"]}]}},
              {"cluster": "us", "error": "its agent cannot be reached"}]});
        let answer: PodExplanation = serde_json::from_value(answer).unwrap();
        let expected = "Pod shop/web: waiting in the queue for its next attempt.
Attempt 4; 2 failed since it waits.

Decision 7 s ago:
  eu: 2 sampled, 4 of 9 looked at
  us: its agent did not answer in time
  candidate eu/n1: 61.500 points; conflict Resources: Insufficient cpu
  candidate eu/n2: 60.000 points; not tried

eu, now: 5 of 9 nodes can take the pod
  4 cannot (a, b, c, ...): Insufficient cpu

us, now: its agent cannot be reached
";
        assert_eq!(pod(&answer, false), expected);
    }
}
