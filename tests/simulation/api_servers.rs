//! The API servers behind the address of the cluster. They share one store, and each has its own
//! watch caches, one for each kind, which may show an older state.
//!
//! The rules of the API server for a cache that lags:
//!
//! - Writes, reads of one object and lists without a resourceVersion show the newest state. The
//!   latter wait for the cache, and then go around it.
//! - A list at resourceVersion 0 shows what the cache has.
//! - A watch opens at once, and shows nothing until the cache has passed the version that it asks
//!   for.
//! - A streaming list waits for the cache, and fails with "Too large resource version" after a
//!   while.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use framework::Time;

/// Time for which a list or streaming list waits for the cache.
pub(crate) const WAIT: Duration = Duration::from_secs(3);
/// Maximum time for which a cache lags, in milliseconds.
const LONGEST_LAG: u64 = 60_000;
/// Maximum time after its start in which a server refuses requests, in milliseconds.
const LONGEST_START: u64 = 8_000;

/// All API servers.
pub(crate) struct ApiServers(Vec<ApiServer>);

/// An API server.
#[derive(Debug, Default)]
struct ApiServer {
    /// The caches that lag, by path of the kind.
    lagging: BTreeMap<String, Lag>,
    state: State,
}

/// A cache that lags.
#[derive(Debug, Clone, Copy)]
struct Lag {
    /// The version that the cache shows.
    version: u64,
    /// Time at which it advances.
    until: Time,
    /// Time at which it no longer lags.
    end: Time,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    Down,
    /// The caches are empty, and some requests are refused.
    Starting {
        until: Time,
    },
}

impl ApiServers {
    /// Creates servers whose caches are current.
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| ApiServer::default()).collect())
    }

    /// Returns the number of servers.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether connections to the server are refused.
    pub(crate) fn is_down(&self, server: usize) -> bool {
        self.0[server].state == State::Down
    }

    /// Whether the server has just started.
    pub(crate) fn is_starting(&self, server: usize) -> bool {
        matches!(self.0[server].state, State::Starting { .. })
    }

    /// Returns the version that the cache of a kind shows.
    pub(crate) fn cached(&self, server: usize, kind: &str, latest: u64) -> u64 {
        self.0[server].lagging.get(kind).map_or(latest, |lag| lag.version)
    }

    /// Returns the time at which the cache of a kind advances, if it lags.
    pub(crate) fn lags_until(&self, server: usize, kind: &str) -> Option<Time> {
        self.0[server].lagging.get(kind).map(|lag| lag.until)
    }

    /// Returns the oldest version that a cache shows.
    pub(crate) fn oldest(&self, latest: u64) -> u64 {
        let lags = self.0.iter().flat_map(|server| server.lagging.values());
        lags.map(|lag| lag.version).min().unwrap_or(latest)
    }

    /// Lets the caches of some kinds of one server lag from now on. Returns the server.
    pub(crate) fn fall_behind(
        &mut self,
        kinds: &[String],
        rng: &mut Rng,
        latest: u64,
        now: Time,
    ) -> usize {
        let server = rng.usize(..self.0.len());
        let share = [1, 3, 10][rng.usize(..3)];
        let longest = [2_000, 20_000, LONGEST_LAG][rng.usize(..3)];
        let chosen = rng.usize(..kinds.len().max(1));
        for (number, kind) in kinds.iter().enumerate() {
            let lags = number == chosen || rng.u32(..10) < share;
            if lags && !self.0[server].lagging.contains_key(kind) {
                let end = now + Duration::from_millis(rng.u64(..longest));
                let lag = Lag { version: latest, until: between(now, end, rng), end };
                self.0[server].lagging.insert(kind.clone(), lag);
            }
        }
        server
    }

    /// Advances caches that are due.
    pub(crate) fn advance(&mut self, rng: &mut Rng, latest: u64, now: Time) {
        for server in &mut self.0 {
            server.lagging.retain(|_, lag| lag.end > now);
            for lag in server.lagging.values_mut().filter(|lag| lag.until <= now) {
                lag.version = rng.u64(lag.version..=latest);
                lag.until = between(now, lag.end, rng);
            }
            if matches!(server.state, State::Starting { until } if until <= now) {
                server.state = State::Running;
            }
        }
    }

    /// Returns the time at which a cache advances next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.iter().flat_map(|server| server.lagging.values()).map(|lag| lag.until).min()
    }

    /// Ends a server.
    pub(crate) fn stop(&mut self, server: usize) {
        self.0[server] = ApiServer { state: State::Down, ..ApiServer::default() };
    }

    /// Starts a server that has ended.
    pub(crate) fn start(&mut self, server: usize, rng: &mut Rng, now: Time) {
        let until = now + Duration::from_millis(rng.u64(..LONGEST_START));
        self.0[server].state = State::Starting { until };
    }

    /// Ends all lags.
    pub(crate) fn catch_up(&mut self) {
        self.0.iter_mut().for_each(|server| server.lagging.clear());
    }
}

/// Returns the time of the next advance, not after the end.
fn between(now: Time, end: Time, rng: &mut Rng) -> Time {
    let step = end.since(now).mul_f64(rng.f64()).max(Duration::from_millis(1));
    (now + step).min(end)
}
