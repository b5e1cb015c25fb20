//! Metrics of leader election, under the names of client-go.

use super::Metrics;
use super::family::{IntCounterVec, IntGaugeVec};
use super::table::{ALPHA, Declaration, Table};

/// The label `name` of kube-scheduler, whatever the name of the Lease is.
const NAME: [&str; 1] = ["kube-scheduler"];

/// The metrics of the election. They have samples only if there is one.
#[derive(Debug)]
pub(super) struct LeaderElection {
    master_status: IntGaugeVec,
    slowpath: IntCounterVec,
}

impl LeaderElection {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            master_status: table.gauges(Declaration {
                name: "leader_election_master_status",
                labels: &["name"],
                help: "Whether this replica leads: 1 if it does, 0 if it waits.",
                page: "as in kube-scheduler, `name` is always `kube-scheduler`; absent without \
                       leader election",
                ..ALPHA
            }),
            slowpath: table.counters(Declaration {
                name: "leader_election_slowpath_total",
                labels: &["name"],
                help: "Renewals of the lease that had to read it first.",
                page: "as in kube-scheduler, `name` is always `kube-scheduler`; absent without \
                       leader election",
                ..ALPHA
            }),
        }
    }
}

impl Metrics {
    /// Sets `leader_election_master_status`, and `leader_election_slowpath_total` to this total.
    pub fn set_leader_election(&self, is_leader: bool, slowpath_total: u64) {
        let LeaderElection { master_status, slowpath } = &self.leader_election;
        master_status.with_label_values(&NAME).set(i64::from(is_leader));
        let slowpath = slowpath.with_label_values(&NAME);
        slowpath.inc_by(slowpath_total.saturating_sub(slowpath.get()));
    }
}
