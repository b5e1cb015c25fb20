//! What worlds in virtual time ask of the store of the sandbox.

use client::reflector::WatchEvent;
use engine::Change;
use framework::Time;
use loadmaster::wire::{Decoder, WatchedKind};
use sandbox::api::{self, Answer, Request, WatchId};
use sandbox::store::Store;

/// Opens a watch as the daemon would, beginning with all there is. It lasts for a day.
pub(crate) fn watch(store: &mut Store, kind: &WatchedKind, now: Time) -> (WatchId, Decoder) {
    let selector = kind.field_selector.unwrap_or_default();
    let target = format!("{}?watch=true&timeoutSeconds=86400&fieldSelector={selector}", kind.path);
    match store.serve(&Request::new("GET", &target, ""), now) {
        Answer::Watch(watch) => (watch, Decoder::new(kind.resource.clone(), Default::default())),
        Answer::Whole(refusal) => panic!("{target}: {refusal:?}"),
    }
}

/// What a line of a watch tells the scheduler.
pub(crate) fn change(decoder: &Decoder, line: &[u8]) -> Change {
    match decoder.watch_event(line) {
        WatchEvent::Updated(_, update) => update.change,
        WatchEvent::Deleted(meta) => decoder.deletion(meta),
        other => panic!("not a change: {other:?}"),
    }
}

/// The answer to a request that is no watch.
pub(crate) fn serve(store: &mut Store, request: &Request, now: Time) -> api::Response {
    match store.serve(request, now) {
        Answer::Whole(response) => response,
        Answer::Watch(_) => unreachable!("{} {} is no watch", request.method, request.path),
    }
}
