//! Invariants of the engine under random histories of nodes, pods, watches, answers and time.
//!
//! The watch is late and may skip versions. Answers come in any order and may be lost. Other
//! schedulers bind pods. The safety invariants are checked after every step, the liveness
//! invariants at the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use engine::cycle::Form;
use engine::queue::Place;
use engine::{Attempt, Change, Effect, EffectKind, Eviction, Input, Outcome, TieBreak};
use framework::{
    Answer, NominatedPods, PermitVerdict, Pod, PodKey, PostFilterResult, PreBindInput,
    PreBindPreFlight, PreBindStep, Status, Uid, Write, WriteAction, api,
};
use proptest::prelude::*;
use testkit::{node, pod};

use crate::change_log::Replica;
use crate::harness::*;

/// Numbers of pods and nodes; indexes are taken modulo these.
const PODS: u8 = 10;
const NODES: u8 = 4;

/// The outcome of a request.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Done, and answered.
    Done,
    /// Done, but the answer is lost.
    DoneAndLost,
    /// Not done, and the answer is lost.
    Lost,
    /// Refused.
    Refused,
    /// The server asks to come back later.
    Throttled,
}

#[derive(Debug, Clone)]
enum Step {
    /// A pod is created, unless there is one of that name.
    Create { pod: u8, cpu: u8, priority: u8, kind: Kind },
    /// A pod is deleted for good.
    Delete { pod: u8 },
    /// A pod gets its deletion timestamp.
    Terminate { pod: u8 },
    /// A pod is deleted and another of its name created at once.
    Replace { pod: u8, cpu: u8 },
    /// A pod gets other labels, and loses its gates.
    Touch { pod: u8 },
    /// A pod that runs comes to its end.
    End { pod: u8 },
    /// Another scheduler binds a pod.
    Steal { pod: u8, node: u8 },
    /// Another component nominates a pod.
    Nominate { pod: u8, node: u8 },
    /// A node comes or changes.
    Node { node: u8, cpu: u8, cordoned: bool },
    /// A node goes.
    NodeGone { node: u8 },
    /// The watch shows what happened to a pod, version by version or only how it is now.
    Watch { pod: u8, skips: bool },
    /// Some attempts.
    Attempt { count: u8 },
    /// A request comes to an end.
    Answer { request: u8, end: End },
    /// Time passes.
    Pass { millis: u16 },
}

/// The special property of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Gated,
    /// It waits in Permit.
    Waits,
    /// Something is written before it is bound.
    Writes,
    /// PreBind waits for a change before it is bound.
    Parks,
    /// Reserve rejects it on the first node.
    Picky,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Plain),
        1 => Just(Kind::Gated),
        1 => Just(Kind::Waits),
        1 => Just(Kind::Writes),
        1 => Just(Kind::Parks),
        1 => Just(Kind::Picky),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Done),
        1 => Just(End::DoneAndLost),
        1 => Just(End::Lost),
        1 => Just(End::Refused),
        1 => Just(End::Throttled),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (pod, node) = (0..PODS, 0..NODES);
    let cpu = 1..6_u8;
    prop_oneof![
        8 => (pod.clone(), cpu.clone(), 0..3_u8, kind())
            .prop_map(|(pod, cpu, priority, kind)| Step::Create { pod, cpu, priority, kind }),
        2 => pod.clone().prop_map(|pod| Step::Delete { pod }),
        1 => pod.clone().prop_map(|pod| Step::Terminate { pod }),
        1 => (pod.clone(), cpu).prop_map(|(pod, cpu)| Step::Replace { pod, cpu }),
        2 => pod.clone().prop_map(|pod| Step::Touch { pod }),
        1 => pod.clone().prop_map(|pod| Step::End { pod }),
        1 => (pod.clone(), node.clone()).prop_map(|(pod, node)| Step::Steal { pod, node }),
        1 => (pod.clone(), node.clone()).prop_map(|(pod, node)| Step::Nominate { pod, node }),
        3 => (node.clone(), 1..9_u8, any::<bool>())
            .prop_map(|(node, cpu, cordoned)| Step::Node { node, cpu, cordoned }),
        1 => node.prop_map(|node| Step::NodeGone { node }),
        12 => (pod, any::<bool>()).prop_map(|(pod, skips)| Step::Watch { pod, skips }),
        10 => (1..4_u8).prop_map(|count| Step::Attempt { count }),
        10 => (any::<u8>(), end()).prop_map(|(request, end)| Step::Answer { request, end }),
        4 => (0..3000_u16).prop_map(|millis| Step::Pass { millis }),
    ]
}

/// What the watch is about to show of a pod.
#[derive(Debug, Clone)]
enum Seen {
    State(Box<api::Pod>),
    Gone(Uid),
}

/// A pod as the watch has shown it last.
#[derive(Debug, Clone)]
struct Shown {
    key: PodKey,
    node: Option<String>,
}

/// The world, the watch with its delay, and what it has shown so far.
struct Sim {
    world: World,
    watch: BTreeMap<PodKey, VecDeque<Seen>>,
    /// The pods the engine has seen and that have not ended.
    shown: BTreeMap<Uid, Shown>,
    /// The pods that a Bind of ours has bound.
    bound: BTreeSet<Uid>,
    /// Evicted pods that take their time to end.
    dying: BTreeSet<PodKey>,
    /// Opens Permit and PreBind for good.
    open: Arc<AtomicBool>,
    /// Somebody has been nominated.
    nominated: bool,
    created: u32,
    /// What the change log says about the cluster.
    replica: Replica,
}

fn plugins(open: &Arc<AtomicBool>, preempts: bool) -> Vec<Fake> {
    let [permit_open, bind_open] = [open.clone(), open.clone()];
    let is = |pod: &Pod, kind: &str| pod.labels.get("kind") == Some(kind);
    let changes = pod_event(framework::ActionType::ALL);
    let cordon = fake("Cordon")
        .on(node_event(framework::ActionType::ADD | framework::ActionType::UPDATE_NODE_TAINT))
        .filter(|_, node| if node.is_unschedulable() { never("cordoned") } else { yes() });
    let slow = fake("Slow")
        .on(changes)
        .permit(move |pod, _| match is(pod, "Waits") && !permit_open.load(Relaxed) {
            true => PermitVerdict::Wait { timeout: Duration::from_secs(3), reason: String::new() },
            false => PermitVerdict::Allow,
        })
        .pre_flight(move |pod| match is(pod, "Writes") || is(pod, "Parks") {
            true => PreBindPreFlight::Run { allow_parallel: true },
            false => PreBindPreFlight::Skip { allow_parallel: true },
        })
        .pre_bind(move |pod, input| match input {
            PreBindInput::Start if is(pod, "Writes") => PreBindStep::Write(Write {
                api_version: "v1".into(),
                resource: "configmaps".into(),
                namespace: "default".into(),
                name: "x".into(),
                subresource: None,
                flow: "".into(),
                action: WriteAction::MergePatch(serde_json::Value::Null),
            }),
            PreBindInput::Start if !bind_open.load(Relaxed) => {
                PreBindStep::Wait { timeout: Duration::from_secs(2), objects: vec![] }
            }
            PreBindInput::Deadline => PreBindStep::Done(Status::error("too late")),
            PreBindInput::Answer(answer) if answer.failure().is_some() => {
                PreBindStep::Done(Status::error("not written"))
            }
            _ => PreBindStep::Done(yes()),
        });
    let picky = fake("Picky").reserve(move |pod, node| match is(pod, "Picky") && node == "n0" {
        true => no("not here"),
        false => yes(),
    });
    let keep = fake("Keep")
        .post_filter(|_, _, _| PostFilterResult { status: no(""), ..PostFilterResult::default() });
    let spread = fake("Spread").score(|_, node| Ok(100 - node.pod_count().min(100)));
    let keep = (!preempts).then_some(keep);
    [gates(), cordon, fit(), picky, spread, slow].into_iter().chain(keep).collect()
}

impl Sim {
    fn new(seed: u64, form: Form, preempts: bool) -> Self {
        let open = Arc::new(AtomicBool::new(false));
        let mut setup = Setup::new(plugins(&open, preempts));
        if preempts {
            setup = setup.plugin(preempting());
        }
        (setup.seed, setup.tie_break, setup.form) = (seed, TieBreak::Random, form);
        let mut world = setup.build();
        world.node(node("n0").allocatable("cpu", "6"));
        world.node(node("n1").allocatable("cpu", "4"));
        Self {
            world,
            watch: BTreeMap::new(),
            shown: BTreeMap::new(),
            bound: BTreeSet::new(),
            dying: BTreeSet::new(),
            open,
            nominated: false,
            created: 0,
            replica: Replica::default(),
        }
    }

    fn known(&self, pod: u8) -> Option<(PodKey, api::Pod)> {
        let key = key(&format!("p{}", pod % PODS));
        self.world.server.get(&key).map(|pod| (key.clone(), pod.clone()))
    }

    /// The server stores a version, which the watch will show.
    fn store(&mut self, pod: api::Pod) {
        self.nominated |= !pod.status.nominated_node_name.is_empty();
        let key = self.world.store(pod);
        let stored = Box::new(self.world.server[&key].clone());
        self.watch.entry(key).or_default().push_back(Seen::State(stored));
    }

    fn create(&mut self, pod: u8, cpu: u8, priority: u8, kind: Kind) {
        self.created += 1;
        let name = format!("p{}", pod % PODS);
        let uid = format!("{name}-{}", self.created);
        let pod = testkit::pod(&name).uid(&uid).priority(priority.into());
        let pod = pod.cpu(&cpu.to_string()).label("kind", &format!("{kind:?}"));
        self.store(if kind == Kind::Gated { pod.gate("hold") } else { pod }.api());
    }

    fn delete(&mut self, key: PodKey, pod: &api::Pod) {
        self.world.server.remove(&key);
        let gone = Seen::Gone(Uid::from(&*pod.metadata.uid));
        self.watch.entry(key).or_default().push_back(gone);
    }

    fn update(&mut self, pod: u8, change: impl FnOnce(&mut api::Pod)) {
        if let Some((_, mut pod)) = self.known(pod) {
            change(&mut pod);
            self.store(pod);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Create { pod, cpu, priority, kind } => {
                if self.known(pod).is_none() {
                    self.create(pod, cpu, priority, kind);
                }
            }
            Step::Delete { pod } => {
                if let Some((key, pod)) = self.known(pod) {
                    self.delete(key, &pod);
                }
            }
            Step::Terminate { pod } => self.update(pod, |pod| {
                pod.metadata.deletion_timestamp = Some("2025-06-01T12:00:00Z".to_owned());
            }),
            Step::Replace { pod, cpu } => {
                if let Some((key, known)) = self.known(pod) {
                    self.delete(key, &known);
                    self.create(pod, cpu, 0, Kind::Plain);
                }
            }
            Step::Touch { pod } => self.update(pod, |pod| {
                pod.metadata.labels.insert("touched".to_owned(), "yes".to_owned());
                pod.spec.scheduling_gates.clear();
            }),
            Step::End { pod } => self.update(pod, |pod| {
                if !pod.spec.node_name.is_empty() {
                    pod.status.phase = "Succeeded".to_owned();
                }
            }),
            Step::Steal { pod, node } => self.update(pod, |pod| {
                if pod.spec.node_name.is_empty() {
                    pod.spec.node_name = format!("n{node}");
                }
            }),
            Step::Nominate { pod, node } => self.update(pod, |pod| {
                if pod.spec.node_name.is_empty() {
                    pod.status.nominated_node_name = format!("n{node}");
                }
            }),
            Step::Node { node: name, cpu, cordoned } => {
                let node = node(&format!("n{name}")).allocatable("cpu", &cpu.to_string());
                self.world.node(if cordoned { node.unschedulable() } else { node });
            }
            Step::NodeGone { node } => self.world.delete_node(&format!("n{node}")),
            Step::Watch { pod, skips } => self.show(&key(&format!("p{}", pod % PODS)), skips),
            Step::Attempt { count } => (0..count).for_each(|_| self.attempt()),
            Step::Answer { request, end } => self.answer(usize::from(request), end),
            Step::Pass { millis } => self.world.pass_for(Duration::from_millis(millis.into())),
        }
        self.write_statuses();
    }

    /// Shows the next version of a pod. With `skips` the watch was interrupted, and a list shows
    /// only the present version: it reports the deletion of a pod that was seen on a node, but
    /// replaces a pod without node by the next of its name without a deletion.
    fn show(&mut self, key: &PodKey, skips: bool) {
        let Some(queue) = self.watch.get_mut(key) else { return };
        if !skips {
            let next = queue.pop_front();
            return next.into_iter().for_each(|seen| self.deliver(key, seen));
        }
        queue.clear();
        let now = self.world.server.get(key).cloned();
        let known = self.shown.iter().find(|(_, shown)| shown.key == *key);
        if let Some((uid, shown)) = known.map(|(uid, shown)| (uid.clone(), shown.clone())) {
            let same = now.as_ref().is_some_and(|now| Uid::from(&*now.metadata.uid) == uid);
            if now.is_none() || (!same && shown.node.is_some()) {
                self.deliver(key, Seen::Gone(uid));
            }
        }
        if let Some(now) = now {
            self.deliver(key, Seen::State(Box::new(now)));
        }
    }

    fn deliver(&mut self, key: &PodKey, seen: Seen) {
        match seen {
            Seen::Gone(uid) => {
                self.shown.remove(&uid);
                self.world.apply(Change::PodDeleted { key: key.clone(), uid });
            }
            Seen::State(object) => {
                let pod = Pod::from_api(&object);
                self.shown.retain(|uid, shown| shown.key != pod.key || *uid == pod.uid);
                if pod.terminal {
                    self.shown.remove(&pod.uid);
                } else {
                    let node = pod.node_name.as_deref().map(ToOwned::to_owned);
                    self.shown.insert(pod.uid.clone(), Shown { key: pod.key.clone(), node });
                }
                self.world.apply(Change::Pod(Box::new(pod)));
            }
        }
    }

    fn attempt(&mut self) {
        let attempt =
            self.world.on(|engine, now, ports| engine.step(Input::Schedule, now, ports).attempt());
        let Some(Attempt { pod, outcome: Outcome::Assumed(node) }) = attempt else { return };
        let cluster = self.world.engine.cluster();
        let view = cluster.node(cluster.node_named(&node).expect("a pod goes to a node there is"));
        let kept = self.world.engine.nominator().nominated_to(&node);
        let kept = kept.iter().filter(|other| other.priority() >= pod.priority());
        let kept: i64 = kept.map(|pod| pod.requests.fit.milli_cpu).sum();
        let (taken, room) = (view.requested().milli_cpu, view.allocatable().milli_cpu);
        assert!(taken + kept <= room, "{node} is given away twice: {taken} + {kept} of {room}");
        assert!(view.pod_count() <= view.allowed_pods(), "too many pods on {node}");
    }

    /// Status patches and events are carried out at once; requests stay open.
    fn write_statuses(&mut self) {
        let effects = std::mem::take(&mut self.world.open);
        for effect in effects {
            match &effect.kind {
                EffectKind::TouchPod { .. } | EffectKind::Event(_) => {}
                EffectKind::PatchPodStatus { pod, uid, patch, .. } => {
                    if self.world.patch_on_server(pod, uid, patch) {
                        self.noticed(pod);
                    }
                }
                _ => self.world.open.push_back(effect),
            }
        }
    }

    /// The watch will show how a pod is now.
    fn noticed(&mut self, key: &PodKey) {
        let stored = self.world.server[key].clone();
        self.nominated |= !stored.status.nominated_node_name.is_empty();
        self.watch.entry(key.clone()).or_default().push_back(Seen::State(Box::new(stored)));
    }

    fn answer(&mut self, request: usize, end: End) {
        if self.world.open.is_empty() {
            return;
        }
        let place = request % self.world.open.len();
        let Some(Effect { id, kind }) = self.world.open.remove(place) else { return };
        let done = matches!(end, End::Done | End::DoneAndLost).then(|| match &kind {
            EffectKind::Bind { binding, .. } => {
                let answer = self.world.bind_on_server(binding);
                if answer == Answer::ok() {
                    self.bound.insert(binding.uid.clone());
                    self.noticed(&binding.pod);
                }
                answer
            }
            EffectKind::ReadPod { pod, .. } => self.world.read_on_server(pod),
            EffectKind::Fence { pod, .. } => {
                let answer = self.world.fence_on_server(&kind);
                if matches!(answer, Answer::Ok(_)) {
                    self.noticed(pod);
                }
                answer
            }
            EffectKind::Evict(eviction) => self.evict(eviction),
            _ => Answer::ok(),
        });
        let lost = || Answer::Unknown("the connection broke".to_owned());
        let answer = match end {
            End::Done => done.unwrap_or_else(lost),
            End::DoneAndLost | End::Lost => lost(),
            End::Refused => Answer::Forbidden("refused".to_owned()),
            End::Throttled => Answer::Throttled("later".to_owned()),
        };
        self.world.answer(id, &answer);
    }

    /// A victim ends at once, or is asked to.
    fn evict(&mut self, eviction: &Eviction) -> Answer {
        let answer = self.world.evict_on_server(eviction);
        if answer == Answer::ok() {
            let mut pod = self.world.server[&eviction.pod].clone();
            if self.created.is_multiple_of(2) {
                self.delete(eviction.pod.clone(), &pod);
            } else {
                pod.metadata.deletion_timestamp = Some("2025-06-01T12:00:00Z".to_owned());
                self.store(pod);
                self.dying.insert(eviction.pod.clone());
            }
        }
        answer
    }

    /// Deletes an evicted pod, unless it is gone already.
    fn end_evicted(&mut self, key: PodKey) {
        let pod = self.world.server.get(&key).cloned();
        if let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_some()) {
            self.delete(key, &pod);
        }
    }

    /// Delivers all watch events and answers, and runs all attempts, until no work is left.
    fn settle(&mut self) {
        let mut reads = 0;
        for _ in 0..10_000 {
            // Reads are repeated with pauses until the bind of a pod whose fence was refused cannot
            // arrive.
            let is_read = |effect: &Effect| matches!(effect.kind, EffectKind::ReadPod { .. });
            reads += usize::from(self.world.open.front().is_some_and(is_read));
            if reads > 100 {
                self.world.pass(1);
            }
            self.write_statuses();
            let behind = self.watch.iter().find(|(_, queue)| !queue.is_empty());
            if let Some(key) = behind.map(|(key, _)| key.clone()) {
                self.show(&key, false);
            } else if !self.world.open.is_empty() {
                self.answer(0, End::Done);
            } else if let Some(key) = self.dying.pop_first() {
                self.end_evicted(key);
            } else if self.world.engine.queue().has_ready(self.world.now) {
                self.attempt();
            } else {
                return;
            }
            self.check();
        }
        panic!("the engine does not come to rest");
    }

    fn settle_for(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.settle();
            self.world.pass(1);
        }
        self.settle();
    }
}

/// Safety.
impl Sim {
    fn check(&mut self) {
        self.replica.catch_up(&self.world.engine);
        self.check_places();
        self.check_sums();
        self.check_cache();
        self.check_binds();
    }

    /// Each pod of ours that has no node is in exactly one place, and nothing else is anywhere.
    fn check_places(&self) {
        let engine = &self.world.engine;
        let pending: BTreeMap<&Uid, &Arc<Pod>> =
            engine.pending().map(|pod| (&pod.uid, pod)).collect();
        for (uid, pod) in &pending {
            let shown = self.shown.get(uid).is_some_and(|shown| shown.node.is_none());
            assert!(shown, "{} is unknown", pod.key);
            let queued = engine.queue().get(&pod.key).filter(|(_, queued)| queued.pod.uid == **uid);
            let tried = engine.queue().is_in_flight(uid) || engine.world().is_assumed(uid);
            let places = usize::from(queued.is_some()) + usize::from(tried);
            // A terminating pod is not tried again, and may be queued while its Bind is open.
            assert!(places == 1 || pod.terminating, "{} is in {places} places", pod.key);
        }
        let unassigned = self.shown.values().filter(|shown| shown.node.is_none()).count();
        assert_eq!(pending.len(), unassigned, "every pod that was shown is known");
        for (place, queued) in engine.queue().iter() {
            assert!(
                pending.contains_key(&queued.pod.uid),
                "{:?} {place:?} is gone",
                queued.pod.key
            );
        }
    }

    /// The sums of each node equal the requests of the pods on it.
    fn check_sums(&self) {
        let cluster = self.world.engine.cluster();
        let mut sums: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
        for placed in cluster.pods() {
            let (cpu, pods) = sums.entry(placed.node.index()).or_default();
            *cpu += placed.pod.requests.placed.milli_cpu;
            *pods += 1;
        }
        for (row, (cpu, pods)) in
            cluster.requested().milli_cpu.iter().zip(cluster.pod_counts()).enumerate()
        {
            assert_eq!((*cpu, *pods), sums.get(&row).copied().unwrap_or_default(), "row {row}");
        }
    }

    /// The cache holds the pods that were shown on a node, and assumed ones that are pending.
    fn check_cache(&self) {
        let world = self.world.engine.world();
        let mut assumed = 0;
        for placed in world.cluster().pods() {
            let uid = &placed.pod.uid;
            let shown = self.shown.get(uid).and_then(|shown| shown.node.clone());
            if world.is_assumed(uid) {
                assumed += 1;
                assert_eq!(shown, None, "{} is confirmed", placed.pod.key);
                assert!(self.shown.contains_key(uid), "{} is gone", placed.pod.key);
            } else {
                let node = world.cluster().node_name(placed.node).to_string();
                assert_eq!(shown, Some(node), "{}", placed.pod.key);
            }
        }
        let ours = self.world.server.values().map(|pod| (Uid::from(&*pod.metadata.uid), pod));
        for (uid, pod) in
            ours.filter(|(uid, pod)| self.bound.contains(uid) && pod.status.phase.is_empty())
        {
            let placed = world.placed(&uid).map(|placed| &**world.cluster().node_name(placed.node));
            assert_eq!(placed, Some(&*pod.spec.node_name), "the room of {uid} is given away");
        }
        assert_eq!(assumed, world.assumed_count());
        let confirmed = self.shown.values().filter(|shown| shown.node.is_some()).count();
        assert_eq!(world.cluster().pod_count(), assumed + confirmed);
    }

    /// A pod has at most one open Bind.
    fn check_binds(&self) {
        let mut bound = BTreeSet::new();
        for effect in &self.world.open {
            if let EffectKind::Bind { binding, .. } = &effect.kind {
                assert!(bound.insert(&binding.uid), "{} is bound twice", binding.pod);
            }
        }
    }
}

/// Liveness.
impl Sim {
    /// Whether some node can take the pod now.
    fn fits(&mut self, pod: &Arc<Pod>) -> bool {
        let found = self.world.on(|engine, now, ports| {
            engine
                .step(
                    Input::Evaluate { pod: pod.clone(), form: Form::OneNode, start: None },
                    now,
                    ports,
                )
                .evaluation()
        });
        found.is_some_and(|evaluation| !evaluation.feasible.is_empty())
    }

    /// Parked pods that could be placed.
    fn overlooked(&mut self, may_be: impl Fn(&[&str]) -> bool) -> Vec<String> {
        let parked: Vec<Arc<Pod>> = self
            .world
            .engine
            .queue()
            .iter()
            .filter(|(place, queued)| {
                let plugins: Vec<&str> =
                    queued.history.unschedulable_plugins.iter().map(AsRef::as_ref).collect();
                *place == Place::Unschedulable && may_be(&plugins)
            })
            .map(|(_, queued)| queued.pod.clone())
            .collect();
        let fits = parked.into_iter().filter(|pod| self.fits(pod));
        fits.map(|pod| pod.key.to_string()).collect()
    }

    fn check_liveness(&mut self) {
        self.open.store(true, Relaxed);
        if self.world.engine.cluster().node_count() == 0 {
            self.world.node(node("n0"));
        }
        self.settle_for(25);
        if !self.nominated {
            let by_filters =
                |plugins: &[&str]| plugins.iter().all(|p| ["Fit", "Cordon"].contains(p));
            assert_eq!(self.overlooked(by_filters), [""; 0], "an event was missed");
        }
        for _ in 0..14 {
            self.world.pass(30);
            self.settle_for(11);
        }
        let engine = &self.world.engine;
        let counts = engine.queue().counts();
        assert_eq!((counts.in_flight, engine.binding_count()), (0, 0), "something hangs");
        assert_eq!((engine.world().assumed_count(), engine.waiting_pods().len()), (0, 0));
        assert_eq!(engine.queue().in_flight_events().len(), 0, "no pod in flight needs the events");
        let picky = |plugins: &[&str]| !plugins.contains(&"Picky");
        assert_eq!(self.overlooked(picky), [""; 0], "a pod that fits is not placed");
        let restless = self.world.engine.queue().iter().filter(|(place, queued)| {
            !matches!(place, Place::Unschedulable | Place::Gated)
                && !queued.history.unschedulable_plugins.contains("Picky")
        });
        let restless: Vec<_> = restless.map(|(place, queued)| (place, &queued.pod.key)).collect();
        assert_eq!(restless, [], "nothing is left to retry");
        let held_back =
            self.world.engine.pending().filter(|pod| self.world.engine.is_preempting(&pod.uid));
        assert_eq!(held_back.count(), 0, "a preemptor is stranded");
        assert!(self.world.probe.open().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_given_away_twice(
        seed in any::<u64>(),
        one_node in any::<bool>(),
        preempts in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let form = if one_node { Form::OneNode } else { Form::Set };
        let mut sim = Sim::new(seed, form, preempts);
        for step in &steps {
            sim.step(step);
            sim.check();
        }
        sim.check_liveness();
    }
}

#[test]
fn a_quiet_world_stays_quiet() {
    let mut sim = Sim::new(1, Form::Set, false);
    sim.world.pod(pod("p").cpu("99"));
    sim.world.run_for(2);
    let before = sim.world.history.len();
    sim.world.run_for(120);
    assert_eq!(sim.world.history.len(), before, "nothing is written without a reason");
}
