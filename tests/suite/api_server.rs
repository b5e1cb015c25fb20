//! Requests of the tests in virtual time to the store of the sandbox.

use control::reflector::WatchEvent;
use engine::Change;
use framework::Time;
use loadmaster::wire::{Decoder, WatchedKind};
use sandbox::api::{self, Answer, Request, WatchId};
use sandbox::store::Store;

/// Opens a watch like the daemon, starting with the present objects. It lasts for a day.
pub(crate) fn watch(store: &mut Store, kind: &WatchedKind, now: Time) -> (WatchId, Decoder) {
    let selector = kind.field_selector.clone().unwrap_or_default();
    let target = format!("{}?watch=true&timeoutSeconds=86400&fieldSelector={selector}", kind.path);
    match store.serve(&Request::new("GET", &target, ""), now) {
        Answer::Watch(watch) => (watch, Decoder::new(kind.resource.clone(), Default::default())),
        Answer::Whole(refusal) => panic!("{target}: {refusal:?}"),
    }
}

/// Decodes a line of a watch into changes for the scheduler.
pub(crate) fn change(decoder: &Decoder, line: &[u8]) -> Change {
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
