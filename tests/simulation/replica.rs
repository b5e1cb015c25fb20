//! One life of the scheduler, from start to crash: what the daemon is, without I/O.

use client::executor::{Executor, Limits};
use client::recorder::{self, Recorder};
use client::scheduler::Scheduler;
use client::session::{CallId, Options, Output, Session, Target};
use engine::ports::Ports;
use engine::profile::PluginRef;
use engine::{Change, Engine, EngineConfig};
use fastrand::Rng;
use framework::{Time, Uid};
use loadmaster::config::{self, Gates};
use loadmaster::wire::{Decoder, watched_kinds};
use sandbox::api::WatchId;

use super::patience;
use super::rules::Checked;
use super::server::OURS;
use super::view::View;

/// One life of the scheduler.
pub(crate) struct Replica {
    /// Which life this is.
    pub(crate) life: u32,
    /// The scheduler.
    pub(crate) scheduler: Scheduler,
    /// Its watches.
    pub(crate) watchers: Vec<Watcher>,
    /// UIDs of the pods that had a node when it started, until it has taken its first decision.
    pub(crate) found: Vec<Uid>,
    unsynced: usize,
}

/// A watch of one kind.
pub(crate) struct Watcher {
    /// The session that keeps it.
    pub(crate) session: Session<Change>,
    /// What reads its objects.
    pub(crate) decoder: Decoder,
    /// What it has told.
    pub(crate) view: View,
    /// The stream that is open, if one is.
    pub(crate) stream: Option<Stream>,
}

/// An open watch stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The call that opened it.
    pub(crate) call: CallId,
    /// Its end at the server.
    pub(crate) watch: WatchId,
    /// When the last piece arrives: pieces do not overtake one another.
    pub(crate) last: Time,
    /// Nothing arrives any more.
    pub(crate) stalled: bool,
}

impl Replica {
    /// A scheduler with the default plugins, and one that takes its time, that has just started.
    pub(crate) fn start(life: u32, seed: u64, found: Vec<Uid>, now: Time) -> Self {
        let mut config = config::defaults(&Gates::default());
        for profile in &mut config.profiles {
            OURS.clone_into(&mut profile.scheduler_name);
            profile.plugins.multi_point.enabled.push(PluginRef::new(patience::NAME, 0));
        }
        let mut registry = plugins::registry();
        registry.register(patience::NAME, patience::plugin).expect("the name is free");
        let profiles = config.build_profiles(&registry).expect("the defaults are valid");
        let kinds = watched_kinds(&profiles);
        let queue = config.queue();
        let engine = Engine::new(EngineConfig { seed, queue, ..EngineConfig::new(profiles) });
        let mut rng = Rng::with_seed(seed);
        let executor = Executor::new(limits(&mut rng), seed);
        let in_flight = rng.usize(1..5);
        let recorder = recorder::Options { in_flight, ..recorder::Options::default() };
        let recorder = Recorder::new(recorder, seed);
        let mut watchers = Vec::new();
        for (number, kind) in (0..).zip(&kinds) {
            let target = Target {
                path: kind.path.to_string(),
                field_selector: kind.field_selector.map(str::to_owned),
            };
            let mut session = Session::new(target, options(&mut rng), seed ^ number);
            session.start(now);
            let decoder = Decoder::new(kind.resource.clone(), Default::default());
            watchers.push(Watcher { session, decoder, view: View::default(), stream: None });
        }
        let scheduler = Scheduler::new(engine, executor, recorder);
        Self { life, scheduler, unsynced: watchers.len(), watchers, found }
    }

    /// When it has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let sessions = self.watchers.iter().filter_map(|watcher| watcher.session.next_deadline());
        sessions.chain(self.scheduler.next_deadline()).min()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Time) {
        for watcher in &mut self.watchers {
            watcher.session.tick(now);
        }
        self.scheduler.tick(now, &mut Ports { outside: &mut (), probe: &mut () });
    }

    /// Whether every watch has told the whole state it found.
    pub(crate) const fn is_synced(&self) -> bool {
        self.unsynced == 0
    }

    /// Tells the scheduler what its watches have learned. What is to be opened and closed goes to
    /// `calls`.
    pub(crate) fn learn(&mut self, calls: &mut Vec<(usize, Output<Change>)>, now: Time) -> Checked {
        let ports = &mut Ports { outside: &mut (), probe: &mut () };
        for (number, watcher) in self.watchers.iter_mut().enumerate() {
            for output in watcher.session.outputs() {
                match output {
                    Output::Changed(meta, change) => {
                        watcher.view.changed(&meta)?;
                        self.scheduler.apply(change, now, ports);
                    }
                    Output::Deleted(meta) => {
                        watcher.view.deleted(&meta)?;
                        self.scheduler.apply(watcher.decoder.deletion(meta), now, ports);
                    }
                    Output::Synced => self.unsynced -= 1,
                    Output::Skipped { message, .. } => panic!("an object was skipped: {message}"),
                    call => calls.push((number, call)),
                }
            }
        }
        if self.is_synced() {
            self.scheduler.synced();
        }
        Ok(())
    }
}

/// Limits that are felt, unlike the defaults.
fn limits(rng: &mut Rng) -> Limits {
    let qps = rng.bool().then_some(20.0);
    Limits { in_flight: rng.usize(1..20), qps, burst: 5, ..Limits::default() }
}

/// Streaming lists or paged ones, of small pages.
fn options(rng: &mut Rng) -> Options {
    Options { streaming_lists: rng.bool(), page_size: rng.u32(1..8), ..Options::default() }
}
