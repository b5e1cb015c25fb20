//! Random histories against a naive model, which scans all pods and hard-codes the plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::testing::{node, pod};
use framework::{ActionType, Pod, QueuedPod, Time, Uid};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use super::harness::{Harness, claim_event, key, node_event, pod_deleted};
use crate::object_event::ObjectEvent;
use crate::queue::{PendingPodCounts, Place, Queue};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const REJECTORS: [&str; 5] = ["Fit", "Claims", "Careless", "Deaf", "Quota"];
const SECOND: i64 = 1_000_000_000;

/// A call into the queue.
#[derive(Debug, Clone)]
enum Step {
    Add { name: Index, gated: bool, quota: bool, priority: i32 },
    Update { name: Index, gated: bool, label: bool },
    Delete(Index),
    Pop,
    Fail { which: Index, rejectors: Vec<&'static str>, pending: bool },
    Done(Index),
    Notify(Event),
    Activate(Vec<&'static str>),
    Wait(u64),
}

/// An event, as far as the plugins of the harness distinguish events.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    NodeAdd { bank: bool },
    NodeTaint,
    NodeLabel,
    NodeDelete,
    PodDelete { frees: bool },
    Claim,
    Timeout,
}

/// An event that the model keeps for a pod in flight.
#[derive(Debug, Clone)]
enum Kept {
    Event(Event),
    Ungated(Uid),
    Forced(Uid),
}

fn step() -> impl Strategy<Value = Step> {
    use any as anything;
    let name = anything::<Index>;
    let event = prop_oneof![
        anything::<bool>().prop_map(|bank| Event::NodeAdd { bank }),
        Just(Event::NodeTaint),
        Just(Event::NodeLabel),
        Just(Event::NodeDelete),
        anything::<bool>().prop_map(|frees| Event::PodDelete { frees }),
        Just(Event::Claim),
    ];
    let wait = prop_oneof![0..3_000_u64, 0..40_000_u64, 200_000..400_000_u64];
    prop_oneof![
        6 => (name(), anything::<bool>(), anything::<bool>(), 0..3_i32).prop_map(
            |(name, gate, quota, priority)| {
                Step::Add { name, gated: gate && quota, quota, priority }
            }
        ),
        3 => (name(), prop::bool::weighted(0.2), anything::<bool>())
            .prop_map(|(name, gated, label)| Step::Update { name, gated, label }),
        1 => name().prop_map(Step::Delete),
        6 => Just(Step::Pop),
        6 => (name(), subsequence(&REJECTORS, 0..=3), anything::<bool>())
            .prop_map(|(which, rejectors, pending)| Step::Fail { which, rejectors, pending }),
        1 => name().prop_map(Step::Done),
        6 => event.prop_map(Step::Notify),
        1 => subsequence(&NAMES, 0..=3).prop_map(Step::Activate),
        4 => wait.prop_map(Step::Wait),
    ]
}

/// The model's record of a pod.
#[derive(Debug, Clone)]
struct Record {
    pod: Arc<Pod>,
    place: Option<Place>,
    since: i64,
    attempts: u32,
    rejections: u32,
    errors: u32,
    rejectors: BTreeSet<&'static str>,
    pending: BTreeSet<&'static str>,
    gate: Option<&'static str>,
    /// Number of its arrival in its place.
    arrival: u64,
}

impl Record {
    /// Returns the whole second in which the backoff ends.
    fn expiry(&self) -> Option<i64> {
        let count = if self.errors > 0 { self.errors } else { self.rejections };
        let seconds = [None, Some(1), Some(2), Some(4), Some(8)].get(count as usize).copied();
        let seconds = seconds.unwrap_or(Some(10))?;
        Some((self.since + seconds * SECOND) / SECOND)
    }

    fn backs_off(&self, now: i64) -> bool {
        self.expiry().is_some_and(|expiry| expiry >= now / SECOND)
    }

    fn is_rejected_by(&self, plugin: &str) -> bool {
        self.rejectors.contains(plugin) || self.pending.contains(plugin)
    }
}

/// Returns the answer of the plugin's hint, or `None` if the plugin did not register the event.
fn registered_hint(plugin: &str, kept: &Kept, uid: &Uid) -> Option<bool> {
    match (plugin, kept) {
        ("Fit" | "Quota", Kept::Event(Event::NodeAdd { .. } | Event::NodeTaint)) => Some(true),
        ("Fit", Kept::Event(Event::PodDelete { frees })) => Some(*frees),
        ("Claims", Kept::Event(Event::Claim)) => Some(true),
        ("Careless", Kept::Event(Event::NodeLabel)) => Some(true),
        ("Gates", Kept::Ungated(ungated)) => Some(ungated == uid),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Skip,
    Later,
    Now,
}

fn verdict(record: &Record, kept: &Kept) -> Verdict {
    let uid = &record.pod.uid;
    let rejectors: BTreeSet<_> = record.rejectors.union(&record.pending).copied().collect();
    if rejectors.is_empty() {
        return Verdict::Later;
    }
    match kept {
        Kept::Event(Event::Timeout) => return Verdict::Later,
        Kept::Forced(forced) => {
            return if forced == uid { Verdict::Later } else { Verdict::Skip };
        }
        _ => {}
    }
    let says_yes = |plugin: &&&str| registered_hint(plugin, kept, uid) == Some(true);
    let helping: Vec<_> = rejectors.iter().filter(says_yes).collect();
    match helping.iter().any(|plugin| record.pending.contains(**plugin)) {
        true => Verdict::Now,
        false if helping.is_empty() => Verdict::Skip,
        false => Verdict::Later,
    }
}

#[derive(Debug, Default)]
struct Model {
    now: i64,
    bank: bool,
    /// All pods that exist, queued, in flight or neither.
    living: BTreeMap<&'static str, Arc<Pod>>,
    queued: Vec<Record>,
    in_flight: Vec<(Record, Vec<Kept>)>,
    /// UID of the pod of each name that was popped last.
    popped: BTreeMap<String, Uid>,
    arrivals: u64,
    generations: u32,
    last_flush: i64,
}

impl Model {
    fn place_of(&self, pod: &Pod) -> Option<usize> {
        self.queued.iter().position(|record| record.pod.key == pod.key)
    }

    fn flying(&mut self, uid: &Uid) -> Option<&mut (Record, Vec<Kept>)> {
        self.in_flight.iter_mut().find(|(record, _)| record.pod.uid == *uid)
    }

    fn put(&mut self, mut record: Record, place: Place) {
        record.place = Some(place);
        record.arrival = self.arrivals;
        self.arrivals += 1;
        self.queued.push(record);
    }

    /// Returns the PreEnqueue plugin that gates the pod. The plugin that gated it last runs first.
    fn gate(&self, record: &Record) -> Option<&'static str> {
        let pod = &record.pod;
        let gates = (!pod.spec.scheduling_gates.is_empty()).then_some("Gates");
        let quota = (pod.labels.get("quota").is_some() && !self.bank).then_some("Quota");
        if record.gate == Some("Quota") { quota.or(gates) } else { gates.or(quota) }
    }

    fn admit(&mut self, mut record: Record, place: Place) {
        record.gate = self.gate(&record);
        record.rejectors.extend(record.gate);
        self.put(record.clone(), if record.gate.is_some() { Place::Gated } else { place });
    }

    fn requeue(&mut self, record: Record, verdict: Verdict) {
        let backoff = match record.is_without_rejectors() {
            true => Place::ErrorBackoff,
            false => Place::Backoff,
        };
        match verdict {
            Verdict::Skip => self.put(record, Place::Unschedulable),
            Verdict::Later if record.backs_off(self.now) => self.admit(record, backoff),
            Verdict::Later | Verdict::Now => self.admit(record, Place::Active),
        }
    }

    fn add(&mut self, pod: Arc<Pod>) {
        self.queued.retain(|record| record.pod.key != pod.key);
        let record = Record {
            pod,
            place: None,
            since: self.now,
            attempts: 0,
            rejections: 0,
            errors: 0,
            rejectors: BTreeSet::new(),
            pending: BTreeSet::new(),
            gate: None,
            arrival: 0,
        };
        self.admit(record, Place::Active);
    }

    fn update(&mut self, old: &Pod, new: &Arc<Pod>) {
        let ungated = !old.spec.scheduling_gates.is_empty() && new.spec.scheduling_gates.is_empty();
        if let Some((_, kept)) = self.flying(&new.uid) {
            // No other plugin of the harness registered the update.
            kept.extend(ungated.then(|| Kept::Ungated(new.uid.clone())));
            // The other pods in flight keep it too.
            let uid = new.uid.clone();
            for (record, kept) in self.in_flight.iter_mut().filter(|_| ungated) {
                if record.pod.uid != uid {
                    kept.push(Kept::Ungated(uid.clone()));
                }
            }
            return;
        }
        let Some(place) = self.place_of(new) else { return self.add(new.clone()) };
        self.queued[place].pod = new.clone();
        let waits = matches!(self.queued[place].place, Some(Place::Unschedulable | Place::Gated));
        if waits && ungated {
            let verdict = verdict(&self.queued[place], &Kept::Ungated(new.uid.clone()));
            if verdict != Verdict::Skip {
                let record = self.queued.remove(place);
                self.requeue(record, verdict);
            }
        }
    }

    fn notify(&mut self, event: Event, only: impl Fn(&Record) -> bool) {
        let kept = Kept::Event(event);
        let mut waiting: Vec<_> = self.queued.clone();
        waiting.sort_by_key(|record| (record.since, record.arrival));
        for record in waiting.into_iter().filter(only) {
            let concerned = match record.place {
                Some(Place::Unschedulable) => true,
                Some(Place::Gated) => {
                    let gate = record.gate.expect("a gated pod has a gate");
                    registered_hint(gate, &kept, &record.pod.uid).is_some()
                }
                _ => false,
            };
            let verdict = if concerned { verdict(&record, &kept) } else { Verdict::Skip };
            if verdict != Verdict::Skip {
                let place = self.place_of(&record.pod).expect("it waits");
                self.queued.remove(place);
                self.requeue(record, verdict);
            }
        }
        if event != Event::NodeDelete {
            self.in_flight.iter_mut().for_each(|(_, events)| events.push(kept.clone()));
        }
    }

    fn pop(&mut self) -> Option<Record> {
        let sort = |record: &&Record| (-record.pod.priority(), record.since, record.arrival);
        let at = |place| self.queued.iter().filter(move |record| record.place == Some(place));
        let active = at(Place::Active).min_by_key(sort);
        let backoff = || at(Place::Backoff).min_by_key(|r| (r.expiry(), sort(r)));
        let arrival = active.or_else(backoff)?.arrival;
        let place = self.queued.iter().position(|record| record.arrival == arrival)?;
        let mut record = self.queued.remove(place);
        record.attempts += 1;
        record.place = None;
        self.popped.insert(record.pod.key.name.to_string(), record.pod.uid.clone());
        self.in_flight.push((record.clone(), Vec::new()));
        Some(record)
    }

    fn fail(&mut self, which: usize, rejectors: &[&'static str], pending: bool) {
        let (mut record, events) = self.in_flight.remove(which);
        if self.place_of(&record.pod).is_some() {
            return;
        }
        record.rejectors = rejectors.iter().copied().collect();
        record.pending = rejectors.iter().copied().take(usize::from(pending)).collect();
        if rejectors.is_empty() {
            record.errors += 1;
        } else {
            record.errors = 0;
            record.rejections += 1;
        }
        record.since = self.now;
        let verdicts: Vec<_> = events.iter().map(|kept| verdict(&record, kept)).collect();
        let best = [Verdict::Now, Verdict::Later].into_iter().find(|best| verdicts.contains(best));
        let strategy = if rejectors.is_empty() { Some(Verdict::Later) } else { best };
        self.requeue(record, strategy.unwrap_or(Verdict::Skip));
    }

    fn activate(&mut self, name: &str) {
        let Some(place) = self.queued.iter().position(|record| *record.pod.key.name == *name)
        else {
            let popped = self.popped.get(name).cloned();
            if let Some(uid) = popped.filter(|uid| self.flying(uid).is_some()) {
                for (_, kept) in &mut self.in_flight {
                    kept.push(Kept::Forced(uid.clone()));
                }
            }
            return;
        };
        match self.queued[place].place {
            Some(Place::Active) => {}
            Some(Place::Backoff | Place::ErrorBackoff) => {
                let record = self.queued.remove(place);
                self.put(record, Place::Active);
            }
            _ => {
                let record = self.queued.remove(place);
                self.admit(record, Place::Active);
            }
        }
    }

    fn tick(&mut self) {
        let now = self.now;
        for place in [Place::Backoff, Place::ErrorBackoff] {
            let over = |record: &&Record| record.place == Some(place) && !record.backs_off(now);
            let mut over: Vec<_> = self.queued.iter().filter(over).cloned().collect();
            over.sort_by_key(|record| {
                let error = place == Place::ErrorBackoff;
                let sort = (!error).then(|| (-record.pod.priority(), record.since));
                (record.expiry(), sort, record.arrival)
            });
            for record in over {
                self.queued.retain(|other| other.arrival != record.arrival);
                self.put(record, Place::Active);
            }
        }
        let flush = now / (30 * SECOND) * 30 * SECOND;
        let overdue = |record: &Record| flush - record.since > 300 * SECOND;
        let waits =
            |record: &&Record| matches!(record.place, Some(Place::Unschedulable | Place::Gated));
        if flush > self.last_flush && self.queued.iter().filter(waits).any(overdue) {
            self.notify(Event::Timeout, overdue);
        }
        self.last_flush = self.last_flush.max(flush);
    }
}

impl Record {
    fn is_without_rejectors(&self) -> bool {
        !REJECTORS.iter().chain(&["Gates"]).any(|plugin| self.is_rejected_by(plugin))
    }
}

/// A queue and its model, which take the same steps.
struct Pair {
    harness: Harness,
    model: Model,
    /// The popped pods, in the order of `Model::in_flight`.
    popped: Vec<QueuedPod>,
}

impl Pair {
    fn new() -> Self {
        let harness = Harness::new();
        let model = Model { now: harness.now.as_nanos(), ..Model::default() };
        Self { harness, model, popped: Vec::new() }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Add { name, gated, quota, priority } => {
                let name = *name.get(&NAMES);
                self.model.generations += 1;
                let uid = self.model.generations.to_string();
                let mut builder = pod(name).uid(&uid).priority(priority);
                if gated {
                    builder = builder.gate("example.com/hold");
                }
                if quota {
                    builder = builder.label("quota", "wanted");
                }
                let pod = Arc::new(builder.build());
                self.model.living.insert(name, pod.clone());
                self.harness.add(&pod);
                self.model.add(pod);
            }
            Step::Update { name, gated, label } => {
                self.update(NAMES[name.index(NAMES.len())], gated, label);
            }
            Step::Delete(name) => {
                if let Some(pod) = self.model.living.remove(name.get(&NAMES)) {
                    self.harness.on(|queue, cx| queue.delete(&pod, cx));
                    self.model.queued.retain(|record| record.pod.uid != pod.uid);
                }
            }
            Step::Pop => {
                let expected = self.model.pop().map(|record| record.pod.uid.clone());
                prop_assert_eq!(self.harness.queue.has_ready(self.harness.now), expected.is_some());
                let popped = self.harness.try_pop();
                prop_assert_eq!(popped.as_ref().map(|queued| queued.pod.uid.clone()), expected);
                self.popped.extend(popped);
            }
            Step::Fail { which, rejectors, pending } => self.fail(&which, &rejectors, pending),
            Step::Done(which) => {
                if !self.model.in_flight.is_empty() {
                    let which = which.index(self.model.in_flight.len());
                    let (record, _) = self.model.in_flight.remove(which);
                    self.popped.remove(which);
                    self.harness.queue.done(&record.pod.uid);
                }
            }
            Step::Notify(event) => {
                let object_event = self.object_event(event);
                self.harness.notify(&object_event);
                self.model.notify(event, |_| true);
            }
            Step::Activate(names) => {
                let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
                self.harness.on(|queue, cx| queue.activate(&keys, cx));
                names.iter().for_each(|name| self.model.activate(name));
            }
            Step::Wait(millis) => {
                self.harness.wait(millis);
                self.harness.on(Queue::tick);
                self.model.now = self.harness.now.as_nanos();
                self.model.tick();
            }
        }
        self.compare()
    }

    fn update(&mut self, name: &'static str, gated: bool, label: bool) {
        let Some(old) = self.model.living.get(name).cloned() else { return };
        let mut builder = pod(name).uid(&old.uid.to_string()).priority(old.priority());
        if gated && !old.spec.scheduling_gates.is_empty() {
            builder = builder.gate("example.com/hold");
        }
        if old.labels.get("quota").is_some() {
            builder = builder.label("quota", "wanted");
        }
        if label {
            builder = builder.label("app", "web");
        }
        let new = Arc::new(builder.build());
        self.model.living.insert(name, new.clone());
        self.harness.update(&old, &new);
        self.model.update(&old, &new);
    }

    fn fail(&mut self, which: &Index, rejectors: &[&'static str], pending: bool) {
        if self.model.in_flight.is_empty() {
            return;
        }
        let which = which.index(self.model.in_flight.len());
        let queued = self.popped.remove(which);
        let mut named: Vec<String> = rejectors.iter().map(ToString::to_string).collect();
        if let Some(first) = named.first_mut().filter(|_| pending) {
            first.insert(0, '~');
        }
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        self.harness.fail(queued, &named);
        self.model.fail(which, rejectors, pending);
    }

    fn object_event(&mut self, event: Event) -> ObjectEvent {
        match event {
            Event::NodeAdd { bank } => {
                if bank {
                    self.harness.cluster.set_node(&node("bank").build());
                    self.model.bank = true;
                }
                node_event(ActionType::ADD)
            }
            Event::NodeTaint => node_event(ActionType::UPDATE_NODE_TAINT),
            Event::NodeLabel => node_event(ActionType::UPDATE_NODE_LABEL),
            Event::NodeDelete => {
                self.harness.cluster.remove_node("bank");
                self.model.bank = false;
                node_event(ActionType::DELETE)
            }
            Event::PodDelete { frees } => pod_deleted(frees),
            Event::Claim => claim_event(),
            Event::Timeout => unreachable!("only a tick causes a timeout"),
        }
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let (queue, model) = (&self.harness.queue, &self.model);
        let mut actual: Vec<_> = queue.iter().collect();
        actual.sort_by_key(|(_, queued)| queued.pod.key.clone());
        let mut expected: Vec<_> = model.queued.iter().collect();
        expected.sort_by_key(|record| record.pod.key.clone());
        prop_assert_eq!(actual.len(), expected.len());
        for ((place, queued), record) in actual.into_iter().zip(expected) {
            prop_assert_eq!(&queued.pod, &record.pod);
            prop_assert_eq!(Some(place), record.place, "{}", queued.pod.key);
            prop_assert_eq!(queue.get(&queued.pod.key).map(|(place, _)| place), Some(place));
            prop_assert_eq!(queued.timestamp, Time::from_nanos(record.since));
            prop_assert_eq!(queued.attempts, record.attempts);
            let rejectors: Vec<_> = queued.unschedulable_plugins.iter().map(|n| &**n).collect();
            prop_assert_eq!(rejectors, record.rejectors.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(queued.gating_plugin.as_deref(), record.gate);
        }
        let at = |places: &[Place]| {
            let is_there = |record: &&Record| record.place.is_some_and(|p| places.contains(&p));
            model.queued.iter().filter(is_there).count()
        };
        let counts = PendingPodCounts {
            active: at(&[Place::Active]),
            backoff: at(&[Place::Backoff, Place::ErrorBackoff]),
            unschedulable: at(&[Place::Unschedulable]),
            gated: at(&[Place::Gated]),
            in_flight: model.in_flight.len(),
        };
        prop_assert_eq!(queue.counts(), counts);
        let most = model.in_flight.iter().map(|(_, kept)| kept.len()).max().unwrap_or(0);
        prop_assert!(queue.in_flight_events().len() >= most);
        prop_assert!(
            most > 0 || !model.in_flight.is_empty() || queue.in_flight_events().len() == 0
        );
        Ok(())
    }
}

proptest! {
    #[test]
    fn queue_agrees_with_naive_model(steps in prop::collection::vec(step(), 0..120)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.take(step)?;
        }
    }
}
