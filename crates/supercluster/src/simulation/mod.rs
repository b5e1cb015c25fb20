//! Schedulers, agents and the API servers of all clusters in one process, in virtual time.
//!
//! Both roles are the roles of the program, with the default profile of the engine. The network is
//! a model: each message and each watch event takes a time drawn from a seed, messages and writes
//! may be lost, repeated or late, and agents and schedulers may restart at any moment. The [API
//! servers](Servers) are models, too, unless the caller gives others. Equal settings give equal
//! runs.

mod checks;
mod leases;
mod load;
mod management;
mod measure;
pub(crate) mod member;
mod originals;
mod servers;
mod world;

use std::time::Duration;

use engine::profile::{PluginRef, ProfileError, Profiles, SchedulerProfile};
use engine::{Engine, EngineConfig};

pub use self::load::{Load, Shape};
pub use self::measure::{Costs, Measurement, Report};
pub use self::servers::{
    ManagementEvent, ManagementOperation, ManagementOutcome, ManagementServer, ManagementWrite,
    MemberAnswer, MemberEvent, MemberOperation, MemberOutcome, MemberPod, MemberServer, Servers,
    Work,
};
pub use self::world::{Pending, World};

use crate::scheduler::SchedulerConfig;

/// Scheduler name of original pods.
pub const SCHEDULER_NAME: &str = "supercluster";
/// Scheduler name of delegates.
pub const AGENT_PROFILE: &str = "loadmaster-agent";

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Latencies {
    /// One way between a scheduler and an agent; each message takes between half of it and one and
    /// a half.
    pub network: Duration,
    /// A write or read at an API server.
    pub api: Duration,
    /// From a change to the watch that shows it.
    pub watch: Duration,
    /// Work of an agent for a sample; an agent does one thing at a time.
    pub sample: Duration,
    /// Work of an agent for a commit.
    pub commit: Duration,
    /// Work of a scheduler for a message.
    pub message: Duration,
}

impl Default for Latencies {
    /// Clusters in one region.
    fn default() -> Self {
        Self {
            network: Duration::from_millis(2),
            api: Duration::from_millis(4),
            watch: Duration::from_millis(5),
            sample: Duration::from_micros(60),
            commit: Duration::from_micros(100),
            message: Duration::from_micros(25),
        }
    }
}

impl Latencies {
    /// Returns the shortest time after which an answer or a watch may show what a server has done.
    fn shortest_of_servers(&self) -> Duration {
        (self.api / 4).min(self.watch / 2)
    }
}

/// The faults, as probabilities from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A message between a scheduler and an agent is lost.
    pub lost: f64,
    /// It arrives twice.
    pub repeated: f64,
    /// It takes up to [`longest_delay`](Self::longest_delay).
    pub late: f64,
    /// The longest delay of late messages and writes.
    pub longest_delay: Duration,
    /// The answer to a write is lost; the write may be carried out late, or not at all.
    pub lost_writes: f64,
    /// Mean time between two restarts of an agent; none if `None`.
    pub agent_restarts: Option<Duration>,
    /// Mean time between two restarts of a scheduler.
    pub scheduler_restarts: Option<Duration>,
    /// Longest time that a restart takes.
    pub longest_restart: Duration,
    /// Mean time between two times at which no message reaches a member or leaves it.
    pub cuts: Option<Duration>,
    /// Longest time that this takes.
    pub longest_cut: Duration,
    /// Mean time between two pods that another scheduler puts on some node of a member.
    pub foreign_pods: Option<Duration>,
    /// Mean time between two originals that are deleted, placed or not.
    pub deletions: Option<Duration>,
    /// Mean time between two times at which another member is drained, or none.
    pub drains: Option<Duration>,
}

/// The settings of a simulation.
#[derive(Clone)]
pub struct Settings {
    /// Seed of all random choices.
    pub seed: u64,
    /// The schedulers; the names of the clusters are `c0`, `c1` and so on.
    pub scheduler: SchedulerConfig,
    /// Number of schedulers.
    pub schedulers: usize,
    /// Whether every scheduler sees every pod; otherwise they take turns in getting one.
    pub shared_pods: bool,
    /// Whether schedulers mirror delegates.
    pub mirrors: bool,
    /// Whether bound delegates have the status that a kubelet would give them, or the status in
    /// their API server.
    pub kubelets: bool,
    /// Maximum number of delegates of a list.
    pub list_page: usize,
    /// Latencies.
    pub latencies: Latencies,
    /// Faults.
    pub faults: Faults,
    /// Maximum number of bound pods; the oldest ends when there are more.
    pub live: Option<usize>,
    /// The regret of one pod in so many is measured.
    pub measure_every: Option<u64>,
}

/// Returns the default profile under a scheduler name.
///
/// # Errors
/// A plugin of the catalogue is not registered.
pub fn default_profiles(scheduler_name: &str) -> Result<Profiles, ProfileError> {
    let profile = SchedulerProfile {
        scheduler_name: scheduler_name.to_owned(),
        ..SchedulerProfile::default()
    };
    let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect();
    Profiles::build(&[profile], &defaults, &plugins::registry(), false)
}

pub(crate) fn engine(scheduler_name: &str, seed: u64) -> Engine {
    let profiles = default_profiles(scheduler_name).expect("the default profile is complete");
    Engine::new(EngineConfig { seed, ..EngineConfig::new(profiles) })
}
