//! The rules of a session, one by one, and that they add up.

mod convergence;
mod rules;
mod server;

use std::time::Duration;

use framework::{Time, Uid};

use super::{
    Call, CallId, Frame, Input, Meta, ObjectId, Options, Output, Refusal, Session, Target,
};

/// An object of the tests has no content; all that matters is which one it is.
type Object = ();

pub(super) fn meta(name: &str, uid: &str, version: u64) -> Meta {
    Meta {
        id: ObjectId { namespace: "ns".into(), name: name.into() },
        uid: Uid::from(uid),
        resource_version: version.to_string().into(),
    }
}

fn refusal(code: u16, message: &str) -> Refusal {
    Refusal { code, reason: String::new(), message: message.into(), retry_after: None }
}

fn bookmark(version: u64, initial_events_end: bool) -> Frame<Object> {
    Frame::Bookmark { resource_version: version.to_string().into(), initial_events_end }
}

fn pods() -> Target {
    Target { path: "/api/v1/pods".into(), field_selector: None }
}

/// What a session reports, in short: `+a u 1` changed, `-a u 1` deleted, `?a u 1` skipped.
fn short(output: Output<Object>) -> String {
    let object = |meta: &Meta| format!("{} {} {}", meta.id.name, meta.uid, meta.resource_version);
    match output {
        Output::Changed(meta, ()) => format!("+{}", object(&meta)),
        Output::Deleted(meta) => format!("-{}", object(&meta)),
        Output::Skipped { meta, .. } => format!("?{}", meta.as_ref().map_or("".into(), object)),
        Output::Synced => "synced".into(),
        Output::Open(_) | Output::Close(_) => unreachable!("a call is no report"),
    }
}

/// A session and whoever drives it.
struct Driven {
    session: Session<Object>,
    now: Time,
    /// The call that is open.
    call: Option<Call>,
    reports: Vec<Output<Object>>,
}

impl Driven {
    fn start(options: Options, seed: u64) -> Self {
        let session = Session::new(pods(), options, seed);
        let mut driven = Self { session, now: Time::ZERO, call: None, reports: Vec::new() };
        driven.session.start(driven.now);
        driven.perform();
        driven
    }

    /// Carries out the outputs; at most one call is open at any time.
    fn perform(&mut self) {
        for output in self.session.outputs() {
            match output {
                Output::Open(call) => {
                    assert_eq!(self.call, None, "two calls at once");
                    self.call = Some(call);
                }
                Output::Close(id) => {
                    let closed = self.call.take().expect("a call to close");
                    assert_eq!(closed.id, id);
                }
                report => self.reports.push(report),
            }
        }
    }

    /// Tells the session what became of the open call.
    fn tell(&mut self, input: impl FnOnce(CallId) -> Input<Object>) {
        let input = input(self.call.as_ref().expect("an open call").id);
        if matches!(
            input,
            Input::Page(..) | Input::Refused(..) | Input::Closed(_) | Input::Failed(..)
        ) {
            self.call = None;
        }
        self.session.step(input, self.now);
        self.perform();
    }

    fn frame(&mut self, frame: Frame<Object>) {
        self.tell(|id| Input::Frame(id, frame));
    }

    /// Lets time pass up to the deadline of the session; how long that was.
    fn wait(&mut self) -> Duration {
        let before = self.now;
        self.now = self.session.next_deadline().expect("a deadline");
        self.session.tick(self.now);
        self.perform();
        self.now.since(before)
    }

    fn reports(&mut self) -> Vec<String> {
        self.reports.drain(..).map(short).collect()
    }

    /// The query of the open call without `watch`, bookmarks and timeout; empty if none is open.
    fn asks(&self) -> String {
        let Some(call) = &self.call else { return String::new() };
        let query = call.path.split_once('?').expect("a query").1;
        let telling = query.split('&').filter(|part| {
            !["watch=", "allowWatchBookmarks=", "timeoutSeconds="]
                .iter()
                .any(|key| part.starts_with(key))
        });
        telling.collect::<Vec<_>>().join("&")
    }
}
