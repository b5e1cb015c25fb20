//! Flags of leader election; they override the configuration file.

use crate::config::{Duration, LeaderElection};

use super::go;
use super::values::Values;

/// The flags of leader election.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderElectionFlags {
    /// Whether one of several replicas is elected to schedule
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "true", default_missing_value = "true")]
    leader_elect: bool,

    /// Time without renewal after which another replica may take over
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value = "15s")]
    lease_duration: Duration,

    /// Time for which the leader tries to renew
    #[arg(long = "leader-elect-renew-deadline", value_name = "DURATION", default_value = "10s")]
    renew_deadline: Duration,

    /// Time between tries
    #[arg(long = "leader-elect-retry-period", value_name = "DURATION", default_value = "2s")]
    retry_period: Duration,

    /// Kind of the lock object
    #[arg(long = "leader-elect-resource-lock", value_name = "KIND", default_value = "leases")]
    lock: String,

    /// Name of the lock object
    #[arg(
        long = "leader-elect-resource-name",
        value_name = "NAME",
        default_value = "kube-scheduler"
    )]
    name: String,

    /// Namespace of the lock object
    #[arg(
        long = "leader-elect-resource-namespace",
        value_name = "NAMESPACE",
        default_value = "kube-system"
    )]
    namespace: String,
}

impl LeaderElectionFlags {
    /// Applies the flags on the command line to the configuration.
    pub(super) fn apply(&self, values: &Values, election: &mut LeaderElection) {
        let own = self.clone();
        values.set("leader-elect", &mut election.leader_elect, own.leader_elect);
        let (lease, deadline) = (&mut election.lease_duration, &mut election.renew_deadline);
        values.set("leader-elect-lease-duration", lease, own.lease_duration);
        values.set("leader-elect-renew-deadline", deadline, own.renew_deadline);
        values.set("leader-elect-retry-period", &mut election.retry_period, own.retry_period);
        values.set("leader-elect-resource-lock", &mut election.resource_lock, own.lock);
        values.set("leader-elect-resource-name", &mut election.resource_name, own.name);
        let namespace = &mut election.resource_namespace;
        values.set("leader-elect-resource-namespace", namespace, own.namespace);
    }
}
