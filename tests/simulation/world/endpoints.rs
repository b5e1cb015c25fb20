//! Connections of processes to API servers, and servers that lag and restart.

use std::time::Duration;

use control::reflector::{Call, Input};
use loadmaster::wire::status_error;

use super::super::api_servers::WAIT;
use super::super::coverage::Fault;
use super::{Event, World};

/// Maximum time for which an API server is down, in milliseconds.
const LONGEST_DOWNTIME: u64 = 15_000;
/// Maximum time for which a process is cut off, in milliseconds: longer than another one takes to
/// take over.
const LONGEST_CUT: u64 = 60_000;
/// In one of so many seeds an API server has no streaming lists.
const WITHOUT_STREAMING_LISTS: u64 = 6;
/// Its answer to them.
const NO_STREAMING_LIST: &[u8] = br#"{"kind":"Status","status":"Failure","reason":"Invalid","code":422,
    "message":"ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}"#;
/// Maximum time that a list takes while the caches are filled, in milliseconds.
const SLOWEST_LIST: u64 = 6_000;

/// The state that a consistent list has to show, and when it no longer waits for the cache.
pub(super) type Freshness = (u64, framework::Time);

impl World {
    /// Returns the API server that the next request or call of a process goes to; `None` if the
    /// connection is refused. The load balancer may choose another server for each connection.
    pub(super) fn connect(&mut self, seat: usize) -> Option<usize> {
        let others = self.server.api_servers.len();
        let seat = self.seats.at(seat);
        if seat.cut_off_until.is_some_and(|until| self.now < until) {
            return None;
        }
        if self.rng.u32(..20) == 0 {
            seat.api_server = self.rng.usize(..others);
        }
        let server = seat.api_server;
        if !self.server.api_servers.is_down(server) {
            return Some(server);
        }
        seat.api_server = self.rng.usize(..others);
        (self.rng.bool() && !self.server.api_servers.is_down(seat.api_server))
            .then_some(seat.api_server)
    }

    /// Cuts the process in a seat off from all API servers for a while. Its watches fall silent.
    /// The others go on.
    pub(super) fn cut_off(&mut self) {
        let number = self.rng.usize(..self.seats.len());
        let length = Duration::from_millis(self.rng.u64(..LONGEST_CUT));
        self.coverage.fired_at(Fault::ProcessCutOff, number);
        let seat = self.seats.at(number);
        seat.cut_off_until = Some(self.now + length);
        let informers = seat.replica.iter_mut().flat_map(|replica| &mut replica.informers);
        for stream in informers.filter_map(|informer| informer.stream.as_mut()) {
            stream.stalled = true;
        }
        let life = seat.life;
        self.progress.disturbed(self.now);
        self.say(|| format!("process {life} is cut off for {length:?}"));
    }

    /// Returns the status with which a server that has just started refuses a request.
    pub(super) fn refusal(&mut self, server: usize) -> Option<u16> {
        let refuses = self.server.api_servers.is_starting(server) && self.rng.bool();
        refuses.then(|| if self.rng.bool() { 429 } else { 503 })
    }

    /// Returns what becomes of a call that cannot be served now: the time at which it is tried
    /// again, or the inputs for its failure.
    pub(super) fn not_served(
        &mut self,
        server: usize,
        kind: &str,
        call: &Call,
        freshness: Option<Freshness>,
    ) -> Option<Delayed> {
        if self.server.api_servers.is_down(server) {
            let failed = Input::Failed(call.id, "connection reset".to_owned());
            return Some(Delayed::Failed(vec![failed]));
        }
        if let Some(status) = self.refusal(server) {
            self.coverage.fired(Fault::ServerStarting);
            let body = b"the server is starting".to_vec();
            let pause = (status == 429).then_some(Duration::from_secs(1));
            let refused = Input::Error(call.id, status_error(status, pause, &body));
            return Some(Delayed::Failed(vec![refused]));
        }
        if is_streaming_list(&call.path) && !self.streams_lists(server) {
            self.coverage.fired(Fault::NoStreamingList);
            let refused = Input::Error(call.id, status_error(422, None, NO_STREAMING_LIST));
            return Some(Delayed::Failed(vec![refused]));
        }
        if !is_consistent(call) {
            return None;
        }
        let latest = self.server.store.resource_version();
        let (needed, until) = freshness.unwrap_or((latest, self.now + WAIT));
        if self.server.api_servers.is_starting(server) && freshness.is_none() {
            let late = Duration::from_millis(self.rng.u64(..SLOWEST_LIST));
            return Some(Delayed::Waits(late, (needed, until)));
        }
        let is_fresh = self.server.api_servers.cached(server, kind, latest) >= needed;
        if is_fresh || until <= self.now {
            return None;
        }
        let advances = self.server.api_servers.lags_until(server, kind).unwrap_or(until);
        let next = advances.min(until).since(self.now).max(Duration::from_millis(1));
        Some(Delayed::Waits(next, (needed, until)))
    }

    /// Whether the API server has streaming lists.
    const fn streams_lists(&self, server: usize) -> bool {
        server > 0 || self.seed % WITHOUT_STREAMING_LISTS != 5
    }

    /// Lets the caches of an API server lag.
    pub(super) fn fall_behind(&mut self) {
        let replicas = self.seats.iter().filter_map(|seat| seat.replica.as_ref());
        let kinds: Option<Vec<String>> = replicas
            .map(|replica| replica.informers.iter().map(|own| own.path.clone()).collect())
            .next();
        let Some(kinds) = kinds else { return };
        let latest = self.server.store.resource_version();
        self.coverage.fired(Fault::CacheLags);
        let server = self.server.api_servers.fall_behind(&kinds, &mut self.rng, latest, self.now);
        self.say(|| format!("API server {server} falls behind"));
    }

    /// Restarts all API servers, one after the other.
    pub(super) fn restart_api_servers(&mut self) {
        let mut start = Duration::ZERO;
        for server in 0..self.server.api_servers.len() {
            let downtime = Duration::from_millis(self.rng.u64(..LONGEST_DOWNTIME));
            self.at(start, Event::StopApiServer { server, downtime });
            start += downtime + Duration::from_millis(self.rng.u64(..5_000));
        }
    }

    /// Stops an API server. It ends its watches; requests that have not arrived are lost.
    pub(super) fn stop_api_server(&mut self, server: usize, downtime: Duration) {
        self.say(|| format!("API server {server} is down for {downtime:?}"));
        self.coverage.fired(Fault::ServerRestarts);
        self.server.api_servers.stop(server);
        let mut ended = Vec::new();
        for seat in self.seats.iter_mut() {
            let Some(replica) = &mut seat.replica else { continue };
            for (number, informer) in replica.informers.iter_mut().enumerate() {
                if let Some(stream) = informer.stream.take_if(|stream| stream.server == server) {
                    self.server.store.close(stream.watch);
                    let due = stream.last.since(self.now).max(Duration::from_millis(1));
                    if !stream.stalled {
                        ended.push((due, replica.life, number, Input::Closed(stream.call)));
                    }
                }
            }
        }
        for (due, life, informer, end) in ended {
            self.at(due, Event::Inputs { life, informer, inputs: vec![end] });
        }
        self.at(downtime, Event::StartApiServer { server });
    }

    /// Starts an API server again.
    pub(super) fn start_api_server(&mut self, server: usize) {
        self.say(|| format!("API server {server} starts"));
        self.server.api_servers.start(server, &mut self.rng, self.now);
    }
}

/// A call that is not served now.
pub(super) enum Delayed {
    /// It is tried again after this time.
    Waits(Duration, Freshness),
    /// It fails with these inputs.
    Failed(Vec<Input<loadmaster::wire::Update>>),
}

/// Whether a call asks for the newest state.
fn is_consistent(call: &Call) -> bool {
    match call.is_watch {
        true => is_streaming_list(&call.path),
        false => !call.path.contains("resourceVersion=") && !call.path.contains("continue="),
    }
}

/// Whether a watch starts with a list.
pub(super) fn is_streaming_list(path: &str) -> bool {
    path.contains("sendInitialEvents=true")
}
