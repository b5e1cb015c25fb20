//! What goes wrong, when and how often: drawn from the seed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api_server::ApiServer;
use crate::proxy::Way;
use crate::replica::{Replica, Replicas};

/// Longest time without new trouble, and longest duration of one, in milliseconds.
const LONGEST_CALM: u64 = 3_000;
const LONGEST_TROUBLE: u64 = 8_000;

/// One kind of trouble of a replica or of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Kill,
    Terminate,
    Stop,
    CutConnections,
    HoldBackRequests,
    DelayConnections,
    CutAllConnections,
    LoseAnswers,
    FailRequests,
    FailBindings,
    Throttle,
    BreakWatches,
    StallWatches,
    SlowServer,
}

const KINDS: [Kind; 14] = [
    Kind::Kill,
    Kind::Terminate,
    Kind::Stop,
    Kind::CutConnections,
    Kind::HoldBackRequests,
    Kind::DelayConnections,
    Kind::CutAllConnections,
    Kind::LoseAnswers,
    Kind::FailRequests,
    Kind::FailBindings,
    Kind::Throttle,
    Kind::BreakWatches,
    Kind::StallWatches,
    Kind::SlowServer,
];

/// The trouble of a run.
pub(crate) struct Trouble {
    rng: fastrand::Rng,
    /// When the present trouble or the present calm ends.
    until: Duration,
    is_troubled: bool,
    counts: BTreeMap<Kind, u32>,
}

impl Trouble {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { rng, until: Duration::from_secs(5), is_troubled: false, counts: BTreeMap::new() }
    }

    /// Begins or ends trouble if it is time to.
    pub(crate) fn go_on(
        &mut self,
        replicas: &mut Replicas,
        api_server: &ApiServer,
        elapsed: Duration,
    ) -> anyhow::Result<()> {
        if elapsed < self.until {
            return Ok(());
        }
        self.is_troubled = !self.is_troubled;
        if self.is_troubled {
            let kind = KINDS[self.rng.usize(..KINDS.len())];
            let whom = self.begin(kind, replicas, api_server)?;
            eprintln!("[{:>6.1} s] {kind:?} {whom}", elapsed.as_secs_f64());
            *self.counts.entry(kind).or_default() += 1;
            self.until = elapsed + Duration::from_millis(self.rng.u64(100..LONGEST_TROUBLE));
        } else {
            self.cease(replicas, api_server);
            self.until = elapsed + Duration::from_millis(self.rng.u64(..LONGEST_CALM));
        }
        Ok(())
    }

    /// Ends all trouble.
    pub(crate) fn cease(&self, replicas: &mut Replicas, api_server: &ApiServer) {
        for replica in replicas.all_mut() {
            replica.set_way(Way::Open);
            if replica.is_stopped {
                replica.signal("CONT");
            }
        }
        // Without faults nothing can be refused.
        let _ = api_server.set_faults(&[]);
    }

    /// Returns how often each kind occurred.
    pub(crate) fn summary(&self) -> String {
        let counts = KINDS
            .iter()
            .map(|kind| format!("{kind:?} {}", self.counts.get(kind).copied().unwrap_or(0)));
        counts.collect::<Vec<_>>().join(", ")
    }

    /// Begins trouble of this kind, and returns whom it concerns.
    fn begin(
        &mut self,
        kind: Kind,
        replicas: &mut Replicas,
        api_server: &ApiServer,
    ) -> anyhow::Result<String> {
        let all = replicas.all_mut();
        if kind == Kind::CutAllConnections {
            all.iter().for_each(|replica| replica.set_way(Way::Cut));
            return Ok("of both replicas".to_owned());
        }
        let chosen = self.rng.usize(..all.len());
        let one = &mut all[chosen];
        let faults: &[&str] = match kind {
            Kind::Kill => return Ok(signal(one, "KILL")),
            Kind::Terminate => return Ok(signal(one, "TERM")),
            Kind::Stop => return Ok(signal(one, "STOP")),
            Kind::CutConnections => return Ok(set_way(one, Way::Cut)),
            Kind::HoldBackRequests => return Ok(set_way(one, Way::Mute)),
            Kind::DelayConnections => {
                let delay = Duration::from_millis(self.rng.u64(50..1500));
                return Ok(set_way(one, Way::Slow(delay)));
            }
            Kind::CutAllConnections => &[],
            Kind::LoseAnswers => &["lost-answers=0.3"],
            Kind::FailRequests => &["errors=0.3"],
            Kind::FailBindings => &["errors=1", "only-path=/binding"],
            Kind::Throttle => &["throttling=0.3"],
            Kind::BreakWatches => &["dropped-watches=1", "compaction=1s"],
            Kind::StallWatches => &["stalled-watches=0.3"],
            Kind::SlowServer => &["latency=10ms..800ms"],
        };
        let happens = api_server.set_faults(faults)?;
        Ok(if happens { "of the API server" } else { "(only the sandbox can)" }.to_owned())
    }
}

fn signal(replica: &mut Replica, name: &str) -> String {
    replica.signal(name);
    format!("of replica {}", replica.name())
}

fn set_way(replica: &Replica, way: Way) -> String {
    replica.set_way(way);
    format!("of replica {}", replica.name())
}
