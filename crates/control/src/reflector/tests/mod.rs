//! Tests of the reflector: its behaviour in single situations.

mod behaviour;

use std::time::Duration;

use framework::{Time, Uid};

use super::{
    Call, CallId, Input, ListWatch, NamespacedName, ObjectMeta, Options, Output, Reflector,
    StatusError, WatchEvent,
};

/// The content of an object. The tests only use its metadata.
type Object = ();

pub(super) fn meta(name: &str, uid: &str, version: u64) -> ObjectMeta {
    ObjectMeta {
        key: NamespacedName { namespace: "ns".into(), name: name.into() },
        uid: Uid::from(uid),
        resource_version: version.to_string().into(),
    }
}

fn status_error(code: u16, message: &str) -> StatusError {
    StatusError { code, reason: String::new(), message: message.into(), retry_after: None }
}

fn bookmark(version: u64, initial_events_end: bool) -> WatchEvent<Object> {
    WatchEvent::Bookmark { resource_version: version.to_string().into(), initial_events_end }
}

fn pods() -> ListWatch {
    ListWatch { path: "/api/v1/pods".into(), field_selector: None }
}

/// A report in short form: `+a u 1` updated, `-a u 1` deleted, `?a u 1` undecodable.
fn short(output: Output<Object>) -> String {
    let object =
        |meta: &ObjectMeta| format!("{} {} {}", meta.key.name, meta.uid, meta.resource_version);
    match output {
        Output::Updated(meta, ()) => format!("+{}", object(&meta)),
        Output::Deleted(meta) => format!("-{}", object(&meta)),
        Output::Undecodable { meta, .. } => format!("?{}", meta.as_ref().map_or("".into(), object)),
        Output::Synced => "synced".into(),
        Output::Relisted => "relisted".into(),
        Output::Open(_) | Output::Close(_) => unreachable!("calls are not reports"),
    }
}

/// A driver of a reflector.
struct Driver {
    reflector: Reflector<Object>,
    now: Time,
    /// The call that is open.
    call: Option<Call>,
    reports: Vec<Output<Object>>,
}

impl Driver {
    fn start(options: Options, seed: u64) -> Self {
        let reflector = Reflector::new(pods(), options, seed);
        let mut driver = Self { reflector, now: Time::ZERO, call: None, reports: Vec::new() };
        driver.reflector.start(driver.now);
        driver.carry_out_outputs();
        driver
    }

    /// Carries out the outputs and checks that at most one call is open at any time.
    fn carry_out_outputs(&mut self) {
        for output in self.reflector.take_outputs() {
            match output {
                Output::Open(call) => {
                    assert_eq!(self.call, None, "a second call was opened");
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

    /// Passes an input about the open call to the reflector.
    fn input(&mut self, input: impl FnOnce(CallId) -> Input<Object>) {
        let input = input(self.call.as_ref().expect("an open call").id);
        if matches!(
            input,
            Input::Page(..) | Input::Error(..) | Input::Closed(_) | Input::Failed(..)
        ) {
            self.call = None;
        }
        self.reflector.step(input, self.now);
        self.carry_out_outputs();
    }

    fn event(&mut self, event: WatchEvent<Object>) {
        self.input(|id| Input::Event(id, event));
    }

    /// Advances the time to the deadline of the reflector. Returns how long that took.
    fn wait(&mut self) -> Duration {
        let start = self.now;
        self.now = self.reflector.next_deadline().expect("a deadline");
        self.reflector.tick(self.now);
        self.carry_out_outputs();
        self.now.since(start)
    }

    fn reports(&mut self) -> Vec<String> {
        self.reports.drain(..).map(short).collect()
    }

    /// The query of the open call without `watch`, bookmarks and timeout; empty if no call is open.
    fn query(&self) -> String {
        let Some(call) = &self.call else { return String::new() };
        let query = call.path.split_once('?').expect("a query").1;
        let parameters = query.split('&').filter(|part| {
            !["watch=", "allowWatchBookmarks=", "timeoutSeconds="]
                .iter()
                .any(|key| part.starts_with(key))
        });
        parameters.collect::<Vec<_>>().join("&")
    }
}
