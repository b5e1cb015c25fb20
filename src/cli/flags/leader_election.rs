//! Flags of leader election; they override the configuration file.

use crate::config::{Duration, LeaderElection};

use super::deprecated::set;
use super::go;

/// The given flags of leader election.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderElectionFlags {
    /// Whether one of several replicas is elected to schedule
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    leader_elect: Option<bool>,

    /// Time without renewal after which another replica may take over
    #[arg(long, value_name = "DURATION")]
    leader_elect_lease_duration: Option<Duration>,

    /// Time for which the leader tries to renew
    #[arg(long, value_name = "DURATION")]
    leader_elect_renew_deadline: Option<Duration>,

    /// Time between tries
    #[arg(long, value_name = "DURATION")]
    leader_elect_retry_period: Option<Duration>,

    /// Kind of the lock object
    #[arg(long, value_name = "KIND")]
    leader_elect_resource_lock: Option<String>,

    /// Name of the lock object
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,

    /// Namespace of the lock object
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
}

impl LeaderElectionFlags {
    /// Applies the given flags to the configuration.
    pub(super) fn apply(&self, election: &mut LeaderElection) {
        set(&mut election.leader_elect, self.leader_elect);
        set(&mut election.lease_duration, self.leader_elect_lease_duration);
        set(&mut election.renew_deadline, self.leader_elect_renew_deadline);
        set(&mut election.retry_period, self.leader_elect_retry_period);
        set(&mut election.resource_lock, self.leader_elect_resource_lock.clone());
        set(&mut election.resource_name, self.leader_elect_resource_name.clone());
        set(&mut election.resource_namespace, self.leader_elect_resource_namespace.clone());
    }

    /// Returns a warning if an election is requested.
    pub(super) fn warnings(&self) -> Option<String> {
        (self.leader_elect == Some(true)).then(|| {
            "--leader-elect has no effect: leader election is not built yet, run one replica"
                .to_owned()
        })
    }
}
