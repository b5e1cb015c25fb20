//! A replica of the scheduler in virtual time, with the store of the sandbox as its API server.

use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{self, EventRecorder};
use control::reflector::WatchEvent;
use control::scheduler::{LeaderElection, Scheduler};
use control::{Reply, Response};
use engine::ports::Ports;
use engine::{Change, Engine, EngineConfig};
use framework::Time;
use loadmaster::wire::{Decoder, WatchedKind, watched_kinds};
use sandbox::api::{self, Answer, Request, WatchId};
use sandbox::store::Store;

/// The initial time.
pub(crate) const BEGINNING: Time = Time::from_secs(1_790_000_000);
/// Seed of every store and scheduler.
pub(crate) const SEED: u64 = 1;

/// A scheduler and its watches.
pub(crate) struct Replica {
    pub(crate) scheduler: Scheduler,
    watches: Vec<(WatchId, Decoder)>,
}

impl Replica {
    /// Creates a replica that watches the kinds of its profiles.
    pub(crate) fn new(config: EngineConfig, store: &mut Store, now: Time) -> Self {
        let kinds = watched_kinds(&config.profiles);
        let watches = kinds.iter().map(|kind| watch(store, kind, now)).collect();
        let engine = Engine::new(EngineConfig { seed: SEED, ..config });
        let api_dispatcher = ApiDispatcher::new(Limits::default(), SEED);
        let event_recorder = EventRecorder::new(event_recorder::Options::default(), SEED);
        Self { scheduler: Scheduler::new(engine, api_dispatcher, event_recorder), watches }
    }

    /// Lets the replica take part in an election.
    pub(crate) fn with_leader_election(self, election: LeaderElection) -> Self {
        Self { scheduler: self.scheduler.with_leader_election(election), ..self }
    }

    /// Passes the events of the watches to the scheduler. Returns whether there were any.
    pub(crate) fn learn(&mut self, store: &mut Store, now: Time, ports: &mut Ports<'_>) -> bool {
        let mut changes = Vec::new();
        for (watch, decoder) in &self.watches {
            let frames = store.frames(*watch, now);
            assert!(!frames.ended, "watches last longer than a test");
            changes.extend(frames.lines.iter().map(|line| change(decoder, line)));
        }
        let is_anything = !changes.is_empty();
        changes.into_iter().for_each(|change| self.scheduler.apply(change, now, ports));
        is_anything
    }
}

/// Returns the request as the API server reads it.
pub(crate) fn as_served(request: &control::Request) -> Request {
    let mut served = Request::new(request.method.as_str(), &request.path, request.body.clone());
    request.content_type.clone_into(&mut served.content_type);
    served
}

/// Returns the response as the sender of the scheduler passes it on.
pub(crate) fn as_reply(response: api::Response) -> Reply {
    let api::Response { status, body, .. } = response;
    Reply::Answered(Response { status, retry_after: None, body: body.to_vec() })
}

/// Opens a watch like the daemon, starting with the present objects. It lasts for a day.
fn watch(store: &mut Store, kind: &WatchedKind, now: Time) -> (WatchId, Decoder) {
    let selector = kind.field_selector.clone().unwrap_or_default();
    let target = format!("{}?watch=true&timeoutSeconds=86400&fieldSelector={selector}", kind.path);
    match store.serve(&Request::new("GET", &target, ""), now) {
        Answer::Watch(watch) => (watch, Decoder::new(kind.resource.clone(), Default::default())),
        Answer::Whole(refusal) => panic!("{target}: {refusal:?}"),
    }
}

/// Decodes a line of a watch into changes for the scheduler.
fn change(decoder: &Decoder, line: &[u8]) -> Change {
    match decoder.watch_event(line) {
        WatchEvent::Updated(_, update) => update.change,
        WatchEvent::Deleted(meta) => decoder.deletion(meta),
        other => panic!("not a change: {other:?}"),
    }
}

/// Returns the answer to a request that is no watch.
pub(crate) fn serve(store: &mut Store, request: &Request, now: Time) -> api::Response {
    match store.serve(request, now) {
        Answer::Whole(response) => response,
        Answer::Watch(_) => unreachable!("{} {} is no watch", request.method, request.path),
    }
}
