//! Property test: the reports add up to the objects of the server, whatever happens.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::{OpenCall, Stage, State};
use super::api_server::{ApiServer, Quirks, Response, Watch};
use super::*;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Debug, Clone)]
enum Step {
    Put {
        name: usize,
        decodable: bool,
    },
    Delete(usize),
    Replace(usize),
    Compact,
    /// The server responds to the call, or sends this many events.
    Serve(usize),
    /// The watch repeats this many events.
    Repeat(u64),
    /// The server responds to the call with this status.
    Reject(u16),
    /// The watch sends an ERROR event with this status.
    Error(u16),
    Bookmark,
    End,
    Break,
    /// The connection is dead without being closed.
    Stall,
    /// Time passes up to the deadline of the reflector.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let code = prop::sample::select(vec![400, 401, 403, 404, 410, 429, 500, 503]);
    prop_oneof![
        6 => (name(), prop::bool::weighted(0.9))
            .prop_map(|(name, decodable)| Step::Put { name, decodable }),
        3 => name().prop_map(Step::Delete),
        2 => name().prop_map(Step::Replace),
        1 => Just(Step::Compact),
        12 => (1..6usize).prop_map(Step::Serve),
        1 => (1..5u64).prop_map(Step::Repeat),
        1 => code.clone().prop_map(Step::Reject),
        1 => code.prop_map(Step::Error),
        1 => Just(Step::Bookmark),
        1 => Just(Step::End),
        1 => Just(Step::Break),
        1 => Just(Step::Stall),
        3 => Just(Step::Wait),
    ]
}

fn quirks() -> impl Strategy<Value = Quirks> {
    (any::<bool>(), any::<bool>(), 0..6u64, 0..6u64, any::<bool>()).prop_map(
        |(rejects_watch_list, ignores_send_initial_events, lag, repeats, expires_in_stream)| {
            Quirks {
                rejects_watch_list,
                ignores_send_initial_events,
                lag,
                repeats,
                expires_in_stream,
            }
        },
    )
}

/// The objects according to the reports.
#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<String, ObjectMeta>,
    newest: BTreeMap<String, u64>,
    newest_undecodable: BTreeMap<String, u64>,
    synced: bool,
}

impl Store {
    fn apply(&mut self, report: Output<Object>) {
        match report {
            Output::Updated(meta, ()) => {
                let name = meta.key.name.to_string();
                let version = version(&meta);
                let before = self.newest.insert(name.clone(), version);
                assert!(before < Some(version), "{name}: version {version} after {before:?}");
                if let Some(old) = self.objects.insert(name, meta.clone()) {
                    assert_eq!(old.uid, meta.uid, "replaced without a deletion");
                }
            }
            Output::Deleted(meta) => {
                let known = self.objects.remove(&*meta.key.name).expect("a reported object");
                assert_eq!(known.uid, meta.uid, "another object was deleted");
            }
            Output::Synced => assert!(!std::mem::replace(&mut self.synced, true), "synced twice"),
            Output::Undecodable { meta, .. } => {
                let meta = meta.expect("metadata");
                let before =
                    self.newest_undecodable.insert(meta.key.name.to_string(), version(&meta));
                assert!(before < Some(version(&meta)), "reported twice as undecodable: {meta:?}");
            }
            Output::Relisted => unreachable!("no relist was requested"),
            Output::Open(_) | Output::Close(_) => unreachable!("calls are not reports"),
        }
    }
}

fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.parse().expect("a number")
}

struct World {
    server: ApiServer,
    driver: Driver,
    watch: Option<Watch>,
    stalled: bool,
    store: Store,
}

impl World {
    fn new(quirks: Quirks, watch_list: bool, seed: u64) -> Self {
        let options = Options { watch_list, page_size: 2, ..Options::default() };
        Self {
            server: ApiServer::new(quirks),
            driver: Driver::start(options, seed),
            watch: None,
            stalled: false,
            store: Store::default(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Put { name, decodable } => self.server.put(NAMES[*name], *decodable),
            Step::Delete(name) => self.server.delete(NAMES[*name]),
            Step::Replace(name) => {
                self.server.delete(NAMES[*name]);
                self.server.put(NAMES[*name], true);
            }
            Step::Compact => self.server.compact(),
            Step::Serve(events) => (0..*events).for_each(|_| _ = self.serve()),
            Step::Repeat(events) => {
                // A streaming list has no version to compare repeated events with.
                if let Some(watch) = self.watch.as_mut().filter(|_| self.driver.watches()) {
                    watch.repeat(*events);
                }
            }
            Step::Wait => self.wait(),
            Step::Stall => self.stalled = true,
            Step::Reject(code) if self.watch.is_none() => {
                self.input(|id| Input::Error(id, status_error(*code, "no")));
            }
            Step::Error(code) if self.watch.is_some() => {
                self.input(|id| Input::Event(id, WatchEvent::Error(status_error(*code, "no"))));
            }
            Step::Bookmark if self.watch.as_ref().is_some_and(|it| it.is_idle(&self.server)) => {
                let version = self.server.version();
                self.input(|id| Input::Event(id, bookmark(version, false)));
            }
            Step::End => self.input(Input::Closed),
            Step::Break => self.input(|id| Input::Failed(id, "connection reset".into())),
            Step::Reject(_) | Step::Error(_) | Step::Bookmark => {}
        }
    }

    /// Lets the server respond to the call or send one event. Returns whether it did.
    fn serve(&mut self) -> bool {
        let Some(call) = self.driver.call.clone().filter(|_| !self.stalled) else { return false };
        if let Some(watch) = &mut self.watch {
            let Some(event) = self.server.next_event(watch) else { return false };
            self.input(|id| Input::Event(id, event));
            return true;
        }
        match self.server.respond(&call) {
            Response::Page(page) => self.input(|id| Input::Page(id, page)),
            Response::Error(error) => self.input(|id| Input::Error(id, error)),
            Response::Watch(watch) => {
                self.input(Input::Opened);
                self.watch = Some(watch);
            }
        }
        true
    }

    fn input(&mut self, input: impl FnOnce(CallId) -> Input<Object>) {
        if self.driver.call.is_some() {
            self.run(|driver| driver.input(input));
        }
    }

    fn wait(&mut self) {
        self.run(|driver| _ = driver.wait());
    }

    /// Runs an action and applies its reports. Drops the watch if its call has ended.
    fn run(&mut self, act: impl FnOnce(&mut Driver)) {
        let call = self.driver.call.as_ref().map(|call| call.id);
        act(&mut self.driver);
        self.driver.reports.drain(..).for_each(|report| self.store.apply(report));
        if self.driver.call.as_ref().map(|call| call.id) != call {
            self.watch = None;
            self.stalled = false;
        }
    }

    /// Lets the server respond until the reflector watches all objects.
    fn settle(&mut self) {
        for _ in 0..200 {
            while self.serve() {}
            if self.driver.watches() && !self.stalled {
                return;
            }
            self.wait();
        }
        panic!("the reflector does not reach a watch");
    }

    fn check(&self) {
        assert!(self.store.synced && self.driver.reflector.has_synced());
        let mut known = self.store.objects.clone();
        for (name, object) in self.server.objects(self.server.version()) {
            let uid = Uid::from(&*format!("u{}", object.uid));
            match known.remove(name) {
                Some(reported) if object.decodable => {
                    assert_eq!(
                        (&reported.uid, version(&reported)),
                        (&uid, object.version),
                        "{name}"
                    );
                }
                Some(reported) => {
                    assert_eq!(reported.uid, uid, "{name}");
                    assert!(version(&reported) < object.version, "{name}");
                }
                None => assert!(!object.decodable, "{name} was not reported"),
            }
        }
        assert_eq!(known, BTreeMap::new(), "deleted objects that were not reported");
    }
}

impl Driver {
    fn watches(&self) -> bool {
        let stage = match &self.reflector.state {
            State::Calling(OpenCall { stage, is_opened: true, .. }) => stage,
            _ => return false,
        };
        matches!(stage, Stage::Watch(_))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn reports_add_up_to_the_objects_of_the_server(
        seed in any::<u64>(),
        quirks in quirks(),
        watch_list in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new(quirks, watch_list, seed);
        for (number, step) in steps.iter().enumerate() {
            world.step(step);
            if number % 50 == 49 {
                world.settle();
                world.check();
            }
        }
        world.settle();
        world.check();
    }
}
