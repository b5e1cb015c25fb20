//! What goes wrong, when and how often: drawn from the seed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api_server::{ApiServer, Fault};
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
    Server(Fault),
}

const OF_REPLICAS: [Kind; 7] = [
    Kind::Kill,
    Kind::Terminate,
    Kind::Stop,
    Kind::CutConnections,
    Kind::HoldBackRequests,
    Kind::DelayConnections,
    Kind::CutAllConnections,
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
            let kinds: Vec<Kind> = kinds().collect();
            let kind = kinds[self.rng.usize(..kinds.len())];
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
        replicas.all_mut().iter_mut().for_each(Replica::leave_alone);
        // Without faults nothing can be refused.
        let _ = api_server.set_fault(None);
    }

    /// Returns how often each kind occurred.
    pub(crate) fn summary(&self) -> String {
        let counts = kinds()
            .map(|kind| format!("{kind:?} {}", self.counts.get(&kind).copied().unwrap_or(0)));
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
        let chosen = self.rng.usize(..all.len());
        let one = &mut all[chosen];
        Ok(match kind {
            Kind::Kill => signal(one, "KILL"),
            Kind::Terminate => signal(one, "TERM"),
            Kind::Stop => signal(one, "STOP"),
            Kind::CutConnections => set_way(one, Way::Cut),
            Kind::HoldBackRequests => set_way(one, Way::Mute),
            Kind::DelayConnections => {
                set_way(one, Way::Slow(Duration::from_millis(self.rng.u64(50..1500))))
            }
            Kind::CutAllConnections => {
                all.iter().for_each(|replica| replica.set_way(Way::Cut));
                "of both replicas".to_owned()
            }
            Kind::Server(fault) => match api_server.set_fault(Some(fault))? {
                true => "of the API server".to_owned(),
                false => "(only the sandbox can)".to_owned(),
            },
        })
    }
}

fn kinds() -> impl Iterator<Item = Kind> {
    OF_REPLICAS.into_iter().chain(Fault::ALL.map(Kind::Server))
}

fn signal(replica: &mut Replica, name: &str) -> String {
    replica.signal(name);
    format!("of {}", replica.name())
}

fn set_way(replica: &Replica, way: Way) -> String {
    replica.set_way(way);
    format!("of {}", replica.name())
}
