//! The states of processes, from their read-only views.

use control::api_dispatcher::CallState;
use control::scheduler::Hold;
use framework::Time;

use super::super::replica::{Reading, Replica};
use super::named;

named! {
    /// A state of a process. A state of pods or watches holds while some pod or watch of the
    /// process is in it.
    State {
        // Pods.
        Active = "pod active",
        Backoff = "pod in backoff",
        Unschedulable = "pod unschedulable",
        Gated = "pod gated",
        OnTrial = "pod waits for one of its class",
        Permit = "pod waits at Permit",
        PreBind = "pod in PreBind",
        ForDevices = "pod waits for its devices",
        Binding = "pod binding",
        UnknownOutcome = "bind of unknown outcome",
        Unconfirmed = "pod bound, not confirmed",
        Nominated = "pod nominated",
        Evicting = "victims being evicted",
        PreemptionPaused = "preemption paused",
        // Reflectors.
        Listing = "kind listed",
        Streaming = "watch streaming",
        Silent = "watch silent",
        Expired = "watch expired",
        WatchFailing = "watch failing",
        // Leadership.
        Syncing = "syncing",
        Standby = "standby",
        Fencing = "fencing after a takeover",
        CatchingUp = "catching up after a takeover",
        Leading = "leading",
        Deposed = "deposed",
        Stopping = "stopping",
        // API dispatcher.
        Throttled = "paused by 429",
        Backlog = "backlog",
        SlowGroup = "slow group of calls",
        Retrying = "call backing off",
    }
}

/// A set of states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct States(u64);

impl States {
    /// Returns the states of a process.
    pub(crate) fn of(replica: &Replica, now: Time) -> Self {
        let mut states = Self::default();
        states.add_pods(replica, now);
        states.add_watches(replica);
        states.add_process(replica, now);
        states
    }

    fn add_pods(&mut self, replica: &Replica, now: Time) {
        let engine = replica.scheduler.engine();
        let (queue, world) = (engine.queue(), engine.world());
        let (counts, phases) = (queue.counts(), engine.binding_phases());
        let fruitless = engine.handle(now).preemptions.fruitless();
        self.add_if(counts.active > 0, State::Active);
        self.add_if(counts.backoff > 0, State::Backoff);
        self.add_if(counts.unschedulable > 0, State::Unschedulable);
        self.add_if(counts.gated > 0, State::Gated);
        self.add_if(phases.permit > 0, State::Permit);
        self.add_if(phases.pre_bind > 0, State::PreBind);
        self.add_if(phases.bind > 0, State::Binding);
        self.add_if(phases.unknown > 0, State::UnknownOutcome);
        self.add_if(world.assumed_count() > engine.binding_count(), State::Unconfirmed);
        self.add_if(!engine.nominator().is_empty(), State::Nominated);
        let assumed = engine.pending().filter(|pod| engine.is_binding(&pod.uid));
        let mut waiting = assumed.filter(|pod| !pod.spec.resource_claims.is_empty());
        let is_waiting = waiting.any(|pod| replica.related.waits_for_devices(pod));
        self.add_if(is_waiting, State::ForDevices);
        for pod in engine.pending() {
            self.add_if(queue.trial_for(&pod.key).is_some(), State::OnTrial);
            self.add_if(engine.is_preempting(&pod.uid), State::Evicting);
            self.add_if(fruitless.pause_of(&pod.uid, now).is_some(), State::PreemptionPaused);
        }
    }

    fn add_watches(&mut self, replica: &Replica) {
        for informer in &replica.informers {
            let is_stalled = informer.stream.as_ref().is_some_and(|stream| stream.stalled);
            self.add_if(is_stalled, State::Silent);
            self.add_if(informer.reflector.watch_error().is_some(), State::WatchFailing);
            match informer.reading {
                Reading::List => self.add_if(true, State::Listing),
                Reading::Expired => self.add_if(true, State::Expired),
                Reading::Watch => {
                    self.add_if(informer.stream.is_some() && !is_stalled, State::Streaming);
                }
            }
        }
    }

    fn add_process(&mut self, replica: &Replica, now: Time) {
        let scheduler = &replica.scheduler;
        let dispatcher = scheduler.api_dispatcher();
        let hold = scheduler.hold(now);
        match hold {
            Some(Hold::Syncing) => self.add_if(true, State::Syncing),
            Some(Hold::Stopping) => self.add_if(true, State::Stopping),
            Some(Hold::Standby) => self.add_if(true, State::Standby),
            Some(Hold::Fencing) => self.add_if(true, State::Fencing),
            Some(Hold::CatchingUp) => self.add_if(true, State::CatchingUp),
            Some(Hold::Throttled | Hold::Backlog) | None => self.add_if(true, State::Leading),
        }
        self.add_if(dispatcher.is_paused(now), State::Throttled);
        self.add_if(dispatcher.has_backlog(), State::Backlog);
        if dispatcher.unfinished() > 0 {
            let counts = dispatcher.call_counts();
            let calls_in = |wanted: CallState| {
                let calls = counts.iter().filter(|((_, state), _)| *state == wanted);
                calls.map(|(_, count)| count).sum::<usize>()
            };
            self.add_if(calls_in(CallState::BackingOff) > 0, State::Retrying);
            // Calls of slow groups are the only ones beyond the limit that are no backlog.
            let many_wait = calls_in(CallState::Waiting) > replica.max_waiting;
            self.add_if(many_wait && !dispatcher.has_backlog(), State::SlowGroup);
        }
    }

    fn add_if(&mut self, holds: bool, state: State) {
        self.0 |= u64::from(holds) << state as u32;
    }

    /// Returns the states of both sets.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set has the state.
    pub(super) const fn contains(self, state: State) -> bool {
        self.0 >> state as u32 & 1 == 1
    }

    /// Returns the states in order.
    pub(super) fn iter(self) -> impl Iterator<Item = State> {
        State::ALL.iter().copied().filter(move |state| self.contains(*state))
    }
}
