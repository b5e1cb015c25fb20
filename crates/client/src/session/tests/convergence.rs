//! Whatever happens, reports add up to the state of the server.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::{Calling, Stage, State};
use super::server::{Answer, Moods, Server, Stream};
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
    /// The server answers, or sends so many frames.
    Serve(usize),
    /// It says something twice.
    Repeat(u64),
    /// It says no.
    Refuse(u16),
    /// The stream says so.
    Error(u16),
    Bookmark,
    End,
    Break,
    /// The connection is dead, and nobody notices.
    Stall,
    /// The session runs into its deadline.
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
        1 => code.clone().prop_map(Step::Refuse),
        1 => code.prop_map(Step::Error),
        1 => Just(Step::Bookmark),
        1 => Just(Step::End),
        1 => Just(Step::Break),
        1 => Just(Step::Stall),
        3 => Just(Step::Wait),
    ]
}

fn moods() -> impl Strategy<Value = Moods> {
    (any::<bool>(), any::<bool>(), 0..6u64, 0..6u64, any::<bool>()).prop_map(
        |(refuses_streams, forgets_the_closing_bookmark, lag, repeats, expires_in_stream)| Moods {
            refuses_streams,
            forgets_the_closing_bookmark,
            lag,
            repeats,
            expires_in_stream,
        },
    )
}

/// What somebody knows who hears nothing but the reports.
#[derive(Debug, Default)]
struct Listener {
    objects: BTreeMap<String, Meta>,
    newest: BTreeMap<String, u64>,
    newest_skipped: BTreeMap<String, u64>,
    synced: bool,
}

impl Listener {
    fn hear(&mut self, report: Output<Object>) {
        match report {
            Output::Changed(meta, ()) => {
                let name = meta.id.name.to_string();
                let version = version(&meta);
                let before = self.newest.insert(name.clone(), version);
                assert!(before < Some(version), "{name}: {version} after {before:?}");
                if let Some(old) = self.objects.insert(name, meta.clone()) {
                    assert_eq!(old.uid, meta.uid, "replaced without a deletion");
                }
            }
            Output::Deleted(meta) => {
                let known = self.objects.remove(&*meta.id.name).expect("it was reported");
                assert_eq!(known.uid, meta.uid, "another object was deleted");
            }
            Output::Synced => assert!(!std::mem::replace(&mut self.synced, true), "synced twice"),
            Output::Skipped { meta, .. } => {
                let meta = meta.expect("it has a name");
                let before = self.newest_skipped.insert(meta.id.name.to_string(), version(&meta));
                assert!(before < Some(version(&meta)), "skipped twice: {meta:?}");
            }
            Output::Open(_) | Output::Close(_) => unreachable!("a call is no report"),
        }
    }
}

fn version(meta: &Meta) -> u64 {
    meta.resource_version.parse().expect("a number")
}

struct World {
    server: Server,
    driven: Driven,
    stream: Option<Stream>,
    stalled: bool,
    listener: Listener,
}

impl World {
    fn new(moods: Moods, streaming_lists: bool, seed: u64) -> Self {
        let options = Options { streaming_lists, page_size: 2, ..Options::default() };
        Self {
            server: Server::new(moods),
            driven: Driven::start(options, seed),
            stream: None,
            stalled: false,
            listener: Listener::default(),
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
            Step::Serve(frames) => (0..*frames).for_each(|_| _ = self.serve()),
            Step::Repeat(events) => {
                // Whoever loads the state knows no older version to compare with.
                if let Some(stream) = self.stream.as_mut().filter(|_| self.driven.watches()) {
                    stream.repeat(*events);
                }
            }
            Step::Wait => self.wait(),
            Step::Stall => self.stalled = true,
            Step::Refuse(code) if self.stream.is_none() => {
                self.tell(|id| Input::Refused(id, refusal(*code, "no")));
            }
            Step::Error(code) if self.stream.is_some() => {
                self.tell(|id| Input::Frame(id, Frame::Error(refusal(*code, "no"))));
            }
            Step::Bookmark if self.stream.as_ref().is_some_and(|it| it.is_idle(&self.server)) => {
                let version = self.server.version();
                self.tell(|id| Input::Frame(id, bookmark(version, false)));
            }
            Step::End => self.tell(Input::Closed),
            Step::Break => self.tell(|id| Input::Failed(id, "connection reset".into())),
            Step::Refuse(_) | Step::Error(_) | Step::Bookmark => {}
        }
    }

    /// Has the server answer or send one frame; whether it did.
    fn serve(&mut self) -> bool {
        let Some(call) = self.driven.call.clone().filter(|_| !self.stalled) else { return false };
        if let Some(stream) = &mut self.stream {
            let Some(frame) = self.server.next_frame(stream) else { return false };
            self.tell(|id| Input::Frame(id, frame));
            return true;
        }
        match self.server.answer(&call) {
            Answer::Page(page) => self.tell(|id| Input::Page(id, page)),
            Answer::Refused(refusal) => self.tell(|id| Input::Refused(id, refusal)),
            Answer::Stream(stream) => {
                self.tell(Input::Opened);
                self.stream = Some(stream);
            }
        }
        true
    }

    fn tell(&mut self, input: impl FnOnce(CallId) -> Input<Object>) {
        if self.driven.call.is_some() {
            self.after(|driven| driven.tell(input));
        }
    }

    fn wait(&mut self) {
        self.after(|driven| _ = driven.wait());
    }

    /// Hears the reports, and forgets the connection if that was the end of its call.
    fn after(&mut self, act: impl FnOnce(&mut Driven)) {
        let call = self.driven.call.as_ref().map(|call| call.id);
        act(&mut self.driven);
        self.driven.reports.drain(..).for_each(|report| self.listener.hear(report));
        if self.driven.call.as_ref().map(|call| call.id) != call {
            self.stream = None;
            self.stalled = false;
        }
    }

    /// Lets the server work for as long as it takes.
    fn settle(&mut self) {
        for _ in 0..200 {
            while self.serve() {}
            if self.driven.watches() && !self.stalled {
                return;
            }
            self.wait();
        }
        panic!("no complete state");
    }

    fn check(&self) {
        assert!(self.listener.synced && self.driven.session.is_synced());
        let mut known = self.listener.objects.clone();
        for (name, object) in self.server.objects(self.server.version()) {
            let uid = Uid::from(&*format!("u{}", object.uid));
            match known.remove(name) {
                Some(heard) if object.decodable => {
                    assert_eq!((&heard.uid, version(&heard)), (&uid, object.version), "{name}");
                }
                Some(heard) => {
                    assert_eq!(heard.uid, uid, "{name}");
                    assert!(version(&heard) < object.version, "{name}");
                }
                None => assert!(!object.decodable, "{name} was not reported"),
            }
        }
        assert_eq!(known, BTreeMap::new(), "gone, and not reported");
    }
}

impl Driven {
    fn watches(&self) -> bool {
        let stage = match &self.session.state {
            State::Calling(Calling { stage, opened: true, .. }) => stage,
            _ => return false,
        };
        matches!(stage, Stage::Watch(_))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn reports_add_up_to_the_state_of_the_server(
        seed in any::<u64>(),
        moods in moods(),
        streaming_lists in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new(moods, streaming_lists, seed);
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
