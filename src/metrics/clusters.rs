//! Metrics of the scheduler over many clusters.

use std::sync::Arc;

use super::family::{GaugeVec, IntCounterVec, IntGaugeVec};
use super::table::{ALPHA, Declaration, Table};
use super::unix_time;

/// Metrics of all members.
#[derive(Debug, Clone)]
pub struct ClusterMetrics {
    samples: IntCounterVec,
    commits: IntCounterVec,
    lost_answers: IntCounterVec,
    replaced: IntCounterVec,
    reachable: IntGaugeVec,
    last_answer: GaugeVec,
    profiles: IntGaugeVec,
}

impl ClusterMetrics {
    pub(super) fn register(table: &mut Table) -> Self {
        let member = &["member"];
        Self {
            samples: table.counters(Declaration {
                name: "loadmaster_member_samples_total",
                labels: &["member", "result"],
                help: "Samples that agents were asked for.",
                page: "[Many clusters](supercluster.md): samples that the agent of the member was \
                       asked for. Its results are \"nodes\", \"empty\" if no node of the cluster \
                       can take the pod, \"refused\" and \"no_answer\"",
                ..ALPHA
            }),
            commits: table.counters(Declaration {
                name: "loadmaster_member_commits_total",
                labels: &["member", "outcome", "code"],
                help: "Commits that agents have answered.",
                page: "Commits that the agent has answered: \"committed\", \"conflict\" or \
                       \"rejected\", with the [code](supercluster.md#commit) of the check or the \
                       refusal",
                ..ALPHA
            }),
            lost_answers: table.counters(Declaration {
                name: "loadmaster_member_lost_answers_total",
                labels: member,
                help: "Commits whose answer was lost, so that the agent is asked what became of \
                       them.",
                page: "Commits whose answer was lost. The agent is asked what became of them, and \
                       no other cluster is tried until it says so",
                ..ALPHA
            }),
            replaced: table.counters(Declaration {
                name: "loadmaster_member_replaced_pods_total",
                labels: member,
                help: "Pods that were taken out of the member to be placed anew.",
                page: "Pods that were taken out of the member to be placed anew, because it is \
                       lost or their delegate is gone",
                ..ALPHA
            }),
            reachable: table.gauges(Declaration {
                name: "loadmaster_member_reachable",
                labels: member,
                help: "1 if the agent answers, 0 if it has not for 40 seconds.",
                page: "0 if the agent has not answered for 40 seconds, otherwise 1",
                ..ALPHA
            }),
            last_answer: table.timestamps(Declaration {
                name: "loadmaster_member_last_answer_timestamp_seconds",
                labels: member,
                help: "Time at which the agent last listed its delegates, in seconds since 1970. \
                       Initially the start of the scheduler.",
                page: "When the agent last listed its delegates: the age of what the scheduler \
                       knows of them. An agent without changes answers every ten seconds",
                ..ALPHA
            }),
            profiles: table.gauges(Declaration {
                name: "loadmaster_cluster_profile_member",
                labels: &["profile"],
                help: "1 if the cluster of the ClusterProfile is a member, 0 if its profile is not \
                       valid.",
                page: "1 if the cluster of this \
                       [ClusterProfile](supercluster.md#clusters-from-clusterprofiles) is a \
                       member, 0 if the profile is not valid; the log has the reason",
                ..ALPHA
            }),
        }
    }

    /// Returns the metrics of a member, from which an answer is expected from now on.
    pub fn member(&self, name: &str) -> MemberMetrics {
        let own = MemberMetrics { name: name.into(), of: self.clone() };
        own.answered();
        own
    }

    /// Records whether the cluster of a ClusterProfile is a member.
    pub fn profile(&self, name: &str, is_member: bool) {
        self.profiles.with_label_values(&[name]).set(i64::from(is_member));
    }

    /// Records that a ClusterProfile does not exist any more.
    pub fn profile_is_gone(&self, name: &str) {
        self.profiles.remove(&[name]);
    }
}

/// The metrics of one member. The families are kept, because a reset of the metrics detaches
/// resolved counters.
#[derive(Debug, Clone)]
pub struct MemberMetrics {
    name: Arc<str>,
    of: ClusterMetrics,
}

impl MemberMetrics {
    /// Counts a sample: `nodes`, `empty`, `refused` or `no_answer`.
    pub fn sampled(&self, result: &str) {
        self.of.samples.with_label_values(&[&self.name, result]).inc();
    }

    /// Counts a commit: `committed`, `conflict` or `rejected`, with its code.
    pub fn committed(&self, outcome: &str, code: &str) {
        self.of.commits.with_label_values(&[&self.name, outcome, code]).inc();
    }

    /// Counts a commit without an answer.
    pub fn lost_answer(&self) {
        self.of.lost_answers.with_label_values(&[&self.name]).inc();
    }

    /// Counts a pod that was taken out of the member.
    pub fn replaced(&self) {
        self.of.replaced.with_label_values(&[&self.name]).inc();
    }

    /// Records that the agent has just answered.
    pub fn answered(&self) {
        self.of.last_answer.with_label_values(&[&self.name]).set(unix_time());
        self.of.reachable.with_label_values(&[&self.name]).set(1);
    }

    /// Records that the cluster is not a member any more.
    pub fn left(&self) {
        self.of.reachable.remove(&[&self.name]);
        self.of.last_answer.remove(&[&self.name]);
    }

    /// Records that the agent has not answered for a while.
    pub fn unreachable(&self) {
        self.of.reachable.with_label_values(&[&self.name]).set(0);
    }
}
