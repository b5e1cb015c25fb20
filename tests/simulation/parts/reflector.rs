//! A reflector against a naive model of its calls, and of the objects that its reports add up to.
//!
//! The model has the rules of client-go: when a list or a watch is repeated, from which version and
//! after which pause; and those of Loadmaster: silent watches are opened again, and a relist
//! reports its differences at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::reflector::{
    Call, Input, ListWatch, NamespacedName, ObjectMeta, Options, Output, Page, Reflector,
    StatusError, Undecodable, WatchEvent,
};
use fastrand::Rng;
use framework::{Time, Uid};

use super::super::rules::{Checked, rule};
use super::api_server::{ApiServer, Quirks, Response, Watch, bookmark, status};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const PATH: &str = "/api/v1/pods";
/// Number of steps of a history.
const STEPS: u32 = 60;
/// Number of steps after which the server answers everything until the reflector watches.
const SETTLE_EVERY: u32 = 20;
/// Calls that end normally without a new event and are followed by another one at once.
const IMMEDIATE: u32 = 2;
/// Repetitions of a call after the pause that the server asks for.
const REPETITIONS: u32 = 10;
/// Streaming lists in a row without their last bookmark, after which lists are no longer streamed.
const CUT_OFF: u32 = 3;
/// A backoff starts over after so long without a failure.
const BACKOFF_RESET: Duration = Duration::from_secs(120);

/// The purpose of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Stream,
    /// A page of a list, with these parameters.
    Page(String),
    /// A watch from this version.
    Watch(u64),
}

/// What the reflector is about to do.
#[derive(Debug, Clone)]
enum State {
    Calling(Open),
    /// It opens the call at some time between these two.
    Pausing(Time, Time, Stage),
}

#[derive(Debug, Clone)]
struct Open {
    stage: Stage,
    at: Time,
    is_opened: bool,
    is_quiet: bool,
    /// The last sign of life.
    last: Time,
    /// The timeout that is requested for a watch.
    timeout: Duration,
}

/// The model.
#[derive(Debug)]
struct Model {
    options: Options,
    streams: bool,
    state: State,
    cut_off: u32,
    without_event: u32,
    repetitions: u32,
    is_quiet: bool,
    /// Whether it waits for twice as long, because two watches in a row were silent.
    is_patient: bool,
    /// The delay of the last failure, without jitter, and its time.
    backoff: Option<(Duration, Time)>,
    failures: u64,
    has_error: bool,
    has_synced: bool,
    has_reported: bool,
    /// Whether a list was asked for, whose end is to be reported.
    reports_relist: bool,
    /// The objects that the server has shown, and whether the present list has them.
    shown: BTreeMap<NamespacedName, (ObjectMeta, bool)>,
    /// The objects whose last version cannot be decoded, and whether the present list has them.
    undecodable: BTreeMap<NamespacedName, (ObjectMeta, bool)>,
    /// The objects that the server has shown deleted, or in whose place it has shown another one. A
    /// backup may bring them back.
    gone: BTreeSet<Uid>,
    /// The objects as of the last report.
    reported: BTreeMap<NamespacedName, ObjectMeta>,
}

impl Model {
    /// Returns the stage that starts a list. `first` says how a paged list starts.
    fn list(&self, is_first: bool) -> Stage {
        if self.streams { Stage::Stream } else { self.pages(is_first) }
    }

    fn pages(&self, is_first: bool) -> Stage {
        let is_cached = is_first && !self.options.starts_with_latest;
        Stage::Page(if is_cached { "&resourceVersion=0".to_owned() } else { String::new() })
    }

    fn open(&mut self, stage: Stage, now: Time) {
        if matches!(&stage, Stage::Stream)
            || matches!(&stage, Stage::Page(start) if !start.contains("continue"))
        {
            let all = self.shown.values_mut().chain(self.undecodable.values_mut());
            all.for_each(|(_, is_listed)| *is_listed = false);
        }
        let is_quiet = self.is_quiet && matches!(stage, Stage::Watch(_));
        // The call says which timeout it has.
        let timeout = Duration::ZERO;
        let open = Open { stage, at: now, is_opened: false, is_quiet, last: now, timeout };
        self.state = State::Calling(open);
    }

    /// The next call follows a failure.
    fn back_off(&mut self, stage: Stage, at_least: Option<Duration>, now: Time) {
        let initial = Duration::from_millis(800);
        let delay = match self.backoff {
            Some((last, at)) if now.since(at) <= BACKOFF_RESET => {
                (last * 2).min(Duration::from_secs(30))
            }
            _ => initial,
        };
        self.backoff = Some((delay, now));
        let least = at_least.unwrap_or_default();
        self.state = State::Pausing(now + delay.max(least), now + (delay * 2).max(least), stage);
    }

    fn fail(&mut self) {
        self.failures += 1;
        self.has_error = true;
    }

    /// A call has ended normally.
    fn proceed(&mut self, stage: Stage, lasted: bool, now: Time) {
        self.without_event += u32::from(!lasted);
        if lasted || self.without_event <= IMMEDIATE {
            self.open(stage, now);
        } else {
            self.back_off(stage, None, now);
        }
    }

    fn list_is_cut_off(&mut self, now: Time) {
        self.cut_off += 1;
        self.streams &= self.cut_off < CUT_OFF;
        self.open(self.pages(!self.has_reported && !self.has_synced), now);
    }

    /// The server refused a call, or ended it with an error.
    fn refused(&mut self, error: &StatusError, open: &Open, may_last: bool, now: Time) {
        let is_too_large = error.code == 504 && error.message.contains("Too large");
        if error.code == 410 || is_too_large {
            let list = self.list(false);
            return self.proceed(list, may_last && lasted(open, now), now);
        }
        let is_unsupported = matches!(error.code, 400 | 405 | 406 | 415 | 422 | 501);
        let next = match &open.stage {
            Stage::Stream if is_unsupported => {
                self.streams = false;
                return self.open(self.pages(!self.has_reported && !self.has_synced), now);
            }
            Stage::Page(start) if is_unsupported && start.contains("continue") => self.list(false),
            Stage::Watch(_) if is_unsupported => self.list(false),
            same => same.clone(),
        };
        self.fail();
        self.back_off(next, error.retry_after, now);
    }

    fn input(&mut self, input: &Input<()>, now: Time) {
        let State::Calling(mut open) = self.state.clone() else { return };
        let repetitions = std::mem::take(&mut self.repetitions);
        match input {
            Input::Opened(_) => {
                self.has_error = false;
                open.is_opened = true;
                open.last = now;
                self.state = State::Calling(open);
            }
            Input::Page(_, page) => self.page(page, now),
            Input::Event(_, event) => self.event(event, open, now),
            Input::Error(_, error) => match error.retry_after {
                Some(pause)
                    if (error.code == 429 || error.code >= 500) && repetitions < REPETITIONS =>
                {
                    self.repetitions = repetitions + 1;
                    self.fail();
                    self.state = State::Pausing(now + pause, now + pause, open.stage);
                }
                _ => self.refused(error, &open, true, now),
            },
            Input::Closed(_) if open.stage == Stage::Stream => self.list_is_cut_off(now),
            Input::Closed(_) if matches!(open.stage, Stage::Watch(_)) => {
                let in_time = open.at + open.timeout + self.options.watch_grace_period;
                self.is_patient &= now > in_time;
                self.proceed(open.stage.clone(), lasted(&open, now), now);
            }
            Input::Closed(_) | Input::Failed(..) => {
                self.fail();
                self.back_off(open.stage, None, now);
            }
        }
    }

    fn page(&mut self, page: &Page<()>, now: Time) {
        self.has_error = false;
        page.items.iter().for_each(|(meta, ())| self.show(meta, true));
        page.undecodable
            .iter()
            .filter_map(|undecodable| undecodable.meta.as_ref())
            .for_each(|meta| self.show(meta, false));
        match &page.continue_token {
            Some(token) => self.open(Stage::Page(format!("&continue={token}")), now),
            None => {
                self.end_list();
                self.open(Stage::Watch(number(&page.resource_version)), now);
            }
        }
    }

    fn event(&mut self, event: &WatchEvent<()>, mut open: Open, now: Time) {
        self.is_quiet &= matches!(event, WatchEvent::Bookmark { .. });
        open.last = now;
        if let WatchEvent::Error(error) = event {
            return self.refused(error, &open, false, now);
        }
        let version = match event {
            WatchEvent::Updated(meta, ()) | WatchEvent::Deleted(meta) => &meta.resource_version,
            WatchEvent::Undecodable(Undecodable { meta: Some(meta), .. }) => &meta.resource_version,
            WatchEvent::Bookmark { resource_version, .. } => resource_version,
            _ => return,
        };
        let mut is_old = false;
        if let Stage::Watch(reached) = &mut open.stage {
            is_old = number(version) < *reached;
            if number(version) > *reached {
                self.without_event = 0;
                *reached = number(version);
            }
        }
        match event {
            _ if is_old => {}
            WatchEvent::Updated(meta, ()) => self.show(meta, true),
            WatchEvent::Undecodable(Undecodable { meta: Some(meta), .. }) => self.show(meta, false),
            WatchEvent::Deleted(meta) => {
                self.gone.insert(meta.uid.clone());
                let is_other = |key: &NamespacedName, (own, _): &mut (ObjectMeta, bool)| {
                    *key != meta.key || own.uid != meta.uid
                };
                self.shown.retain(is_other);
                self.undecodable.retain(is_other);
            }
            WatchEvent::Bookmark { resource_version, initial_events_end: true }
                if open.stage == Stage::Stream =>
            {
                open.stage = Stage::Watch(number(resource_version));
                self.cut_off = 0;
                self.end_list();
            }
            _ => {}
        }
        if let Stage::Watch(_) = open.stage {
            self.report();
        }
        self.state = State::Calling(open);
    }

    /// The server shows a version of an object. One that cannot be decoded replaces another object
    /// only.
    fn show(&mut self, meta: &ObjectMeta, is_decodable: bool) {
        self.has_reported = true;
        match is_decodable {
            true => drop(self.undecodable.remove(&meta.key)),
            false => drop(self.undecodable.insert(meta.key.clone(), (meta.clone(), true))),
        }
        let old = self.shown.get_mut(&meta.key);
        let before = old.as_ref().map(|(own, _)| own.uid.clone());
        self.gone.extend(before.filter(|uid| *uid != meta.uid));
        match old {
            Some((own, is_listed)) if !is_decodable && own.uid == meta.uid => *is_listed = true,
            _ if is_decodable => {
                self.shown.insert(meta.key.clone(), (meta.clone(), true));
            }
            _ => {
                self.shown.remove(&meta.key);
            }
        }
    }

    fn end_list(&mut self) {
        self.shown.retain(|_, (_, is_listed)| *is_listed);
        self.undecodable.retain(|_, (_, is_listed)| *is_listed);
        self.has_synced = true;
        self.report();
    }

    fn report(&mut self) {
        self.reported =
            self.shown.iter().map(|(key, (meta, _))| (key.clone(), meta.clone())).collect();
    }

    /// The time at which the open call is given up, or the next one is opened, is over.
    fn tick(&mut self, now: Time) {
        let open = match self.state.clone() {
            State::Pausing(_, _, stage) => return self.open(stage, now),
            State::Calling(open) => open,
        };
        self.repetitions = 0;
        match open.stage {
            Stage::Stream if open.is_opened => self.list_is_cut_off(now),
            Stage::Watch(_) if open.is_opened && now >= self.end(&open) => {
                self.proceed(open.stage.clone(), lasted(&open, now), now);
            }
            Stage::Watch(_) if open.is_opened && !open.is_quiet => {
                self.is_quiet = true;
                self.open(open.stage, now);
            }
            stage => {
                self.is_patient |= open.is_opened && matches!(stage, Stage::Watch(_));
                self.fail();
                self.back_off(stage, None, now);
            }
        }
    }

    fn relist(&mut self, now: Time) {
        if self.has_synced {
            self.reports_relist = true;
            self.open(self.list(false), now);
        }
    }

    fn patience(&self, usual: Duration) -> Duration {
        if self.is_patient { usual * 2 } else { usual }
    }

    /// Returns when a watch is closed in any case.
    fn end(&self, open: &Open) -> Time {
        let Options { watch_idle_timeout, watch_grace_period, .. } = self.options;
        let grace = self.patience(watch_grace_period);
        (open.at + watch_idle_timeout).max(open.at + open.timeout + grace)
    }

    /// Returns the earliest and the latest time at which the reflector may act by itself.
    fn deadline(&self) -> (Time, Time) {
        let open = match &self.state {
            State::Pausing(from, to, _) => return (*from, *to),
            State::Calling(open) => open,
        };
        let Options { request_timeout, watch_idle_timeout, watch_list_idle_timeout, .. } =
            self.options;
        let at = match &open.stage {
            Stage::Page(_) => open.at + request_timeout,
            _ if !open.is_opened => open.at + watch_idle_timeout,
            Stage::Stream => self.end(open).min(open.last + watch_list_idle_timeout),
            Stage::Watch(_) => self.end(open).min(open.last + self.patience(watch_idle_timeout)),
        };
        (at, at)
    }

    /// Checks a call that the reflector opens, and takes in its timeout.
    fn check_call(&mut self, call: &Call) -> Checked {
        let State::Calling(open) = &mut self.state else {
            return Err(format!("{call:?} is opened"));
        };
        let (path, timeout) = match call.path.split_once("&timeoutSeconds=") {
            Some((start, rest)) => {
                let (seconds, rest) = rest.split_once('&').unwrap_or((rest, ""));
                let seconds = seconds.parse().map_err(|error| format!("{call:?}: {error}"))?;
                (format!("{start}&{rest}"), Duration::from_secs(seconds))
            }
            None => (call.path.clone(), Duration::ZERO),
        };
        let watch = format!("{PATH}?watch=true&allowWatchBookmarks=true&");
        let (expected, to_open) = match &open.stage {
            Stage::Stream => (
                format!("{watch}sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
                self.options.watch_idle_timeout,
            ),
            Stage::Watch(version) => {
                (format!("{watch}resourceVersion={version}"), self.options.watch_idle_timeout)
            }
            Stage::Page(start) => (
                format!("{PATH}?limit={}{start}", self.options.page_size),
                self.options.request_timeout,
            ),
        };
        rule(path == expected, || format!("{path} is opened instead of {expected}"))?;
        rule(call.timeout == to_open, || format!("the call waits for {:?}", call.timeout))?;
        let is_watch = !matches!(open.stage, Stage::Page(_));
        rule(call.is_watch == is_watch, || format!("{path} is taken for another kind of call"))?;
        let quiet = self.options.quiet_watch_timeout;
        let usual = self.options.min_watch_timeout;
        let allowed = if open.is_quiet { quiet - quiet / 4..=quiet } else { usual..=usual * 2 };
        open.timeout = timeout;
        rule(!is_watch || allowed.contains(&timeout), || format!("{path} lasts {timeout:?}"))
    }
}

/// Whether a watch has lasted for the time that was asked for, or the server ended it up to a
/// second earlier.
fn lasted(open: &Open, now: Time) -> bool {
    let is_watch = !matches!(open.stage, Stage::Page(_));
    is_watch && now + Duration::from_secs(1) >= open.at + open.timeout
}

fn number(version: &str) -> u64 {
    version.parse().expect("versions of this server are numbers")
}

/// A reflector, its server and its model.
struct World<'r> {
    random: &'r mut Rng,
    trace: &'r mut Vec<String>,
    reflector: Reflector<()>,
    server: ApiServer,
    model: Model,
    now: Time,
    call: Option<Call>,
    earlier: Option<Call>,
    watch: Option<Watch>,
    /// Whether the connection is dead without being closed.
    is_stalled: bool,
    /// What the reports add up to.
    store: BTreeMap<NamespacedName, ObjectMeta>,
    undecodable: BTreeMap<NamespacedName, ObjectMeta>,
    /// All versions that were reported as such that cannot be decoded.
    reported_undecodable: Vec<ObjectMeta>,
    is_synced: bool,
}

/// Lives through a history of a reflector.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let one_in = |random: &mut Rng, chance: u32| random.u32(..chance) == 0;
    let codes = [400, 405, 406, 415, 422, 501];
    let quirks = Quirks {
        rejects_watch_list: one_in(random, 3).then(|| codes[random.usize(..codes.len())]),
        ignores_send_initial_events: one_in(random, 4),
        lag: random.u64(..4),
        repeats: random.u64(..4),
        expires_in_stream: random.bool(),
        has_odd_uids: random.bool(),
    };
    let options = Options {
        watch_list: random.bool(),
        starts_with_latest: random.bool(),
        page_size: 2,
        ..Options::default()
    };
    trace.push(format!("{quirks:?} {options:?}"));
    let list_watch = ListWatch { path: PATH.to_owned(), field_selector: None };
    let mut server = ApiServer::new(quirks);
    NAMES.into_iter().filter(|_| random.bool()).for_each(|name| server.put(name, true));
    let now = Time::from_secs(1_000);
    let mut model = Model {
        streams: options.watch_list,
        options: options.clone(),
        state: State::Pausing(now, now, Stage::Stream),
        cut_off: 0,
        without_event: 0,
        repetitions: 0,
        is_quiet: false,
        is_patient: false,
        backoff: None,
        failures: 0,
        has_error: false,
        has_synced: false,
        has_reported: false,
        reports_relist: false,
        shown: BTreeMap::new(),
        undecodable: BTreeMap::new(),
        gone: BTreeSet::new(),
        reported: BTreeMap::new(),
    };
    model.open(model.list(true), now);
    let reflector = Reflector::new(list_watch, options, random.u64(..));
    let mut world = World {
        random,
        trace,
        reflector,
        server,
        model,
        now,
        call: None,
        earlier: None,
        watch: None,
        is_stalled: false,
        store: BTreeMap::new(),
        undecodable: BTreeMap::new(),
        reported_undecodable: Vec::new(),
        is_synced: false,
    };
    world.reflector.start(now);
    world.take_outputs()?;
    for number in 1..=STEPS {
        world.step()?;
        if number % SETTLE_EVERY == 0 {
            world.settle()?;
        }
    }
    Ok(())
}

impl World<'_> {
    fn step(&mut self) -> Checked {
        let name = NAMES[self.random.usize(..NAMES.len())];
        let code = [400, 401, 403, 404, 410, 422, 429, 500, 503, 504][self.random.usize(..10)];
        let mut error =
            status(code, if self.random.bool() { "no" } else { "Too large resource version" });
        // A server that waits for its cache names no pause.
        if error.message == "no" {
            let pause = Duration::from_millis(500 * self.random.u64(1..60));
            error.retry_after = self.random.bool().then_some(pause);
        }
        match self.random.u32(..40) {
            0..6 => self.server.put(name, self.random.u32(..8) > 0),
            6..9 => self.server.delete(name),
            9 | 10 => {
                self.server.delete(name);
                self.server.put(name, self.random.u32(..4) > 0);
            }
            11 => self.server.compact(),
            12 if self.random.u32(..4) == 0 => return self.restore(),
            12..24 => {
                for _ in 0..self.random.u32(1..6) {
                    self.serve()?;
                }
            }
            24 => {
                let events = self.random.u64(1..5);
                // A streaming list has no version to compare repeated events with.
                let is_watching = matches!(&self.model.state, State::Calling(open) if matches!(open.stage, Stage::Watch(_)));
                self.watch
                    .as_mut()
                    .filter(|_| is_watching)
                    .into_iter()
                    .for_each(|watch| watch.repeat(events));
            }
            25..29 if self.watch.is_none() => return self.input(|id| Input::Error(id, error)),
            25 if self.watch.is_some() => {
                return self.input(|id| Input::Event(id, WatchEvent::Error(error)));
            }
            29 if self.watch.as_ref().is_some_and(|watch| watch.is_idle(&self.server)) => {
                let version = self.server.version();
                return self.input(|id| Input::Event(id, bookmark(version, false)));
            }
            30 | 31 => return self.input(Input::Closed),
            32 => return self.input(|id| Input::Failed(id, "connection reset".into())),
            33 => self.is_stalled = true,
            34 => {
                self.note("relist");
                self.reflector.relist(self.now);
                self.model.relist(self.now);
                return self.take_outputs();
            }
            35 => return self.stale_input(),
            36 => return self.other_deletion(name),
            _ => return self.wait(),
        }
        Ok(())
    }

    fn note(&mut self, step: impl std::fmt::Debug) {
        self.trace.push(format!("{} {step:?}", self.now));
    }

    /// Lets the server answer the call or send one event. Returns whether it did.
    fn serve(&mut self) -> Result<bool, String> {
        let Some(call) = self.call.clone().filter(|_| !self.is_stalled) else { return Ok(false) };
        if let Some(watch) = &mut self.watch {
            let Some(event) = self.server.next_event(watch) else { return Ok(false) };
            return self.input(|id| Input::Event(id, event)).map(|()| true);
        }
        match self.server.respond(&call) {
            Response::Page(page) => self.input(|id| Input::Page(id, page))?,
            Response::Error(error) => self.input(|id| Input::Error(id, error))?,
            Response::Watch(watch) => {
                self.input(Input::Opened)?;
                self.watch = Some(watch);
            }
        }
        Ok(true)
    }

    fn input(&mut self, input: impl FnOnce(control::reflector::CallId) -> Input<()>) -> Checked {
        let Some(call) = &self.call else { return Ok(()) };
        let input = input(call.id);
        self.note(&input);
        let ends = !matches!(input, Input::Opened(_) | Input::Event(..));
        self.earlier = self.call.clone();
        if ends {
            self.call = None;
        }
        self.model.input(&input, self.now);
        self.reflector.step(input, self.now);
        self.take_outputs()
    }

    /// An answer to an earlier call is ignored.
    fn stale_input(&mut self) -> Checked {
        let open = self.call.as_ref().map(|call| call.id);
        let Some(earlier) = self.earlier.clone().filter(|earlier| Some(earlier.id) != open) else {
            return Ok(());
        };
        self.note("an answer to an earlier call");
        let page = Page {
            items: Vec::new(),
            undecodable: Vec::new(),
            resource_version: "9".into(),
            continue_token: None,
        };
        let input = match self.random.u32(..3) {
            0 => Input::Page(earlier.id, page),
            1 => Input::Closed(earlier.id),
            _ => Input::Error(earlier.id, status(410, "gone")),
        };
        self.reflector.step(input, self.now);
        self.take_outputs()
    }

    /// The watch reports that an earlier object of the name is gone.
    fn other_deletion(&mut self, name: &str) -> Checked {
        let known = self.store.values().find(|meta| *meta.key.name == *name).cloned();
        let Some(known) = known.filter(|_| self.is_at_rest()) else { return Ok(()) };
        let resource_version = self.server.version().to_string().into();
        let meta = ObjectMeta { uid: "earlier".into(), resource_version, ..known };
        self.input(|id| Input::Event(id, WatchEvent::Deleted(meta)))
    }

    /// Lets some time pass, or all until the reflector acts by itself.
    fn wait(&mut self) -> Checked {
        let (from, to) = self.model.deadline();
        let due = self.reflector.next_deadline();
        rule(due.is_some_and(|due| (from..=to).contains(&due)), || {
            format!("the reflector acts at {due:?} instead of {from} to {to}")
        })?;
        let due = due.unwrap_or(self.now);
        let left = due.since(self.now);
        let is_short = self.random.u32(..3) == 0;
        self.now = self.now + if is_short { left.mul_f64(self.random.f64() * 0.99) } else { left };
        self.note(if is_short { "wait" } else { "deadline" });
        let is_due = self.now >= due;
        self.reflector.tick(self.now);
        if is_due {
            if let Some(call) = self.call.clone() {
                self.earlier = Some(call);
            }
            self.model.tick(self.now);
        }
        self.take_outputs()
    }

    /// A backup is restored: all connections end, and versions start over.
    fn restore(&mut self) -> Checked {
        let lost = self.random.u64(1..4);
        self.note(("restore", lost));
        self.server.restore(lost);
        self.undecodable.clear();
        self.input(|id| Input::Failed(id, "the server restarts".into()))
    }

    /// Carries out the outputs. They open the calls that the model expects, and report each change
    /// once.
    fn take_outputs(&mut self) -> Checked {
        let outputs: Vec<Output<()>> = self.reflector.take_outputs().collect();
        let before = self.call.as_ref().map(|call| call.id);
        for output in outputs {
            match output {
                Output::Open(call) => {
                    rule(self.call.is_none(), || "a second call is opened".to_owned())?;
                    self.model.check_call(&call)?;
                    self.call = Some(call);
                }
                Output::Close(id) => {
                    let closed = self.call.take().map(|call| call.id);
                    rule(closed == Some(id), || format!("{id:?} is closed instead of {closed:?}"))?;
                }
                Output::Updated(meta, ()) => {
                    let old = self.store.insert(meta.key.clone(), meta.clone());
                    let is_new =
                        old.as_ref() != Some(&meta) && old.is_none_or(|old| old.uid == meta.uid);
                    rule(is_new, || {
                        format!("{meta:?} is reported twice, or replaces another object")
                    })?;
                    self.undecodable.remove(&meta.key);
                }
                Output::Deleted(meta) => {
                    let known = self.store.remove(&meta.key);
                    rule(known.is_some_and(|known| known.uid == meta.uid), || {
                        format!("the deletion of {meta:?} is reported, which is not known")
                    })?;
                    let shown = self.model.shown.get(&meta.key).map(|(shown, _)| shown);
                    let is_gone = shown.is_none_or(|shown| shown.uid != meta.uid)
                        || self.model.gone.contains(&meta.uid);
                    rule(is_gone, || {
                        format!("the deletion of {meta:?} is reported, and {shown:?} is shown")
                    })?;
                }
                Output::Undecodable { meta: Some(meta), .. } => {
                    self.reported_undecodable.push(meta.clone());
                    let known = self.undecodable.insert(meta.key.clone(), meta.clone());
                    // A deletion that is not reported, or a list without it, may come between.
                    rule(known.as_ref() != Some(&meta), || format!("{meta:?} is reported twice"))?;
                }
                Output::Undecodable { meta: None, .. } => {}
                Output::Synced => {
                    rule(!std::mem::replace(&mut self.is_synced, true), || {
                        "synced twice".to_owned()
                    })?;
                }
                Output::Relisted => {
                    let was_asked = std::mem::take(&mut self.model.reports_relist);
                    rule(was_asked && self.store == self.model.reported, || {
                        "the end of a list is reported without its changes".to_owned()
                    })?;
                }
            }
        }
        if self.call.as_ref().map(|call| call.id) != before {
            self.watch = None;
            self.is_stalled = false;
        }
        self.compare()
    }

    fn compare(&self) -> Checked {
        let (model, reflector) = (&self.model, &self.reflector);
        let is_calling = matches!(model.state, State::Calling(_));
        rule(self.call.is_some() == is_calling, || {
            format!("{:?}, but the call is {:?}", model.state, self.call)
        })?;
        rule(reflector.failures() == model.failures, || {
            format!("{} failures", reflector.failures())
        })?;
        rule(reflector.watch_error().is_some() == model.has_error, || {
            format!("the error is {:?}", reflector.watch_error())
        })?;
        let synced = [self.is_synced, reflector.has_synced()];
        rule(synced == [model.has_synced; 2], || format!("synced: {synced:?}"))?;
        let is_relisted = !model.reports_relist || !is_calling || !self.is_watching();
        rule(is_relisted, || "the end of the list is not reported".to_owned())?;
        if model.has_synced {
            rule(self.store == model.reported, || {
                format!("the reports add up to {:?} instead of {:?}", self.store, model.reported)
            })?;
            let unreported = model
                .undecodable
                .iter()
                .find(|(_, (meta, _))| !self.reported_undecodable.contains(meta));
            rule(unreported.is_none() || !self.is_watching(), || {
                format!("{unreported:?} cannot be decoded, which is not reported")
            })?;
            let count = reflector.object_count();
            rule(count == model.shown.len() || !self.is_watching(), || {
                format!("{count} objects are known")
            })?;
        }
        Ok(())
    }

    fn is_watching(&self) -> bool {
        matches!(&self.model.state, State::Calling(Open { stage: Stage::Watch(_), .. }))
    }

    /// Lets the server answer until the reflector watches and has all objects.
    fn settle(&mut self) -> Checked {
        self.note("settle");
        for _ in 0..400 {
            while self.serve()? {}
            if self.is_at_rest() {
                let mut known = self.store.clone();
                for meta in self.server.decodable() {
                    let shown = known.remove(&meta.key);
                    rule(shown.as_ref() == Some(&meta), || {
                        format!("{meta:?} is known as {shown:?}")
                    })?;
                }
                // Others have a present version that cannot be decoded.
                let gone = known.keys().find(|key| !self.server.has(&key.name));
                return rule(gone.is_none(), || format!("{gone:?} is not reported as deleted"));
            }
            self.wait()?;
        }
        Err("the reflector does not reach a watch".to_owned())
    }

    fn is_at_rest(&self) -> bool {
        let is_idle = self.watch.as_ref().is_some_and(|watch| watch.is_idle(&self.server));
        is_idle && self.is_watching() && !self.is_stalled
    }
}
