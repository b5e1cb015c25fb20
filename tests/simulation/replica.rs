//! One life of the scheduler, from start to crash: what the daemon is, without I/O.

use client::executor::{Executor, Limits};
use client::recorder::{self, Recorder};
use client::scheduler::Scheduler;
use client::session::{CallId, Options, Output, Session, Target};
use engine::ports::Ports;
use engine::{Change, Engine, EngineConfig};
use framework::Time;
use loadmaster::config::{self, Gates};
use loadmaster::wire::{Decoder, watched_kinds};
use sandbox::api::WatchId;

use super::server::OURS;

/// A day: longer than any simulation. A pod that only the flush of the parked pods would wake is lost.
const NEVER: std::time::Duration = std::time::Duration::from_secs(86_400);

/// One life of the scheduler.
pub struct Replica {
    /// Which life this is.
    pub life: u32,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Its watches.
    pub watchers: Vec<Watcher>,
    unsynced: usize,
}

/// A watch of one kind.
pub struct Watcher {
    /// The session that keeps it.
    pub session: Session<Change>,
    /// What reads its objects.
    pub decoder: Decoder,
    /// The stream that is open, if one is.
    pub stream: Option<Stream>,
}

/// An open watch stream.
#[derive(Debug)]
pub struct Stream {
    /// The call that opened it.
    pub call: CallId,
    /// Its end at the server.
    pub watch: WatchId,
    /// When the last piece arrives: pieces do not overtake one another.
    pub last: Time,
    /// Nothing arrives any more.
    pub stalled: bool,
}

impl Replica {
    /// A scheduler with the default plugins that has just started.
    pub fn start(life: u32, seed: u64, now: Time) -> Self {
        let mut config = config::defaults(&Gates::default());
        for profile in &mut config.profiles {
            OURS.clone_into(&mut profile.scheduler_name);
        }
        let profiles = config.build_profiles(&plugins::registry()).expect("the defaults are valid");
        let kinds = watched_kinds(&profiles);
        let mut queue = config.queue();
        queue.max_in_unschedulable = NEVER;
        let engine = Engine::new(EngineConfig { seed, queue, ..EngineConfig::new(profiles) });
        let executor = Executor::new(Limits::default(), seed);
        let recorder = Recorder::new(recorder::Options::default(), seed);
        let mut watchers = Vec::new();
        for (number, kind) in (0..).zip(&kinds) {
            let target = Target {
                path: kind.path.to_string(),
                field_selector: kind.field_selector.map(str::to_owned),
            };
            let mut session = Session::new(target, Options::default(), seed ^ number);
            session.start(now);
            let decoder = Decoder::new(kind.resource.clone(), Default::default());
            watchers.push(Watcher { session, decoder, stream: None });
        }
        let scheduler = Scheduler::new(engine, executor, recorder);
        Self { life, scheduler, unsynced: watchers.len(), watchers }
    }

    /// When it has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let sessions = self.watchers.iter().filter_map(|watcher| watcher.session.next_deadline());
        sessions.chain(self.scheduler.next_deadline()).min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {
        for watcher in &mut self.watchers {
            watcher.session.tick(now);
        }
        self.scheduler.tick(now, &mut Ports { outside: &mut (), probe: &mut () });
    }

    /// Tells the scheduler what its watches have learned; gives what is to be opened and closed.
    pub fn learn(&mut self, now: Time) -> Vec<(usize, Output<Change>)> {
        let mut calls = Vec::new();
        let ports = &mut Ports { outside: &mut (), probe: &mut () };
        for (number, watcher) in self.watchers.iter_mut().enumerate() {
            for output in watcher.session.outputs() {
                match output {
                    Output::Changed(_, change) => self.scheduler.apply(change, now, ports),
                    Output::Deleted(meta) => {
                        self.scheduler.apply(watcher.decoder.deletion(meta), now, ports);
                    }
                    Output::Synced => self.unsynced -= 1,
                    Output::Skipped { message, .. } => panic!("an object was skipped: {message}"),
                    call => calls.push((number, call)),
                }
            }
        }
        if self.unsynced == 0 {
            self.scheduler.synced();
        }
        calls
    }
}
