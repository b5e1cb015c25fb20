//! Rankings decide as the full pass does: over random histories of nodes and pods, an engine with
//! rankings and one without have the same effects, and draw the same nodes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod failures;
mod parallel;
mod suppositions;
mod volumes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::cycle::Form;
use engine::ports::{Count, Ports, Probe, Span};
use engine::profile::{PluginRef, PluginSet, Profiles, SchedulerProfile};
use engine::{Change, Effect, EffectKind, Engine, EngineConfig, Input};
use fastrand::Rng;
use framework::{Answer, EventResource, ObjectKey, Pod, PodKey, Time, api};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde_json::{Value, json};
use testkit::{NodeBuilder, PodBuilder, node, pod};

/// Number of histories.
const HISTORIES: u64 = 150;
/// Number of changes in each.
const STEPS: i64 = 60;
/// Number of histories on more nodes, with more lanes.
const LONG_HISTORIES: u64 = 6;
const LONG_STEPS: i64 = 500;

/// The extent of a history.
struct Extent {
    steps: i64,
    /// Maximum number of nodes.
    nodes: usize,
    /// Number of lanes for each template.
    variants: usize,
}

/// An engine whose effects are carried out at once.
struct Scheduler {
    engine: Engine,
    pods: BTreeMap<PodKey, Pod>,
    effects: Vec<Effect>,
    /// Number of checks by a full pass that found another decision.
    differing: usize,
    /// Number of calls of plugins by tasks of passes.
    task_calls: Arc<AtomicUsize>,
    /// Whether evicted pods stay until they are [ended](Self::end_victims).
    victims_stay: bool,
    /// The evicted pods that stay.
    victims: Vec<Change>,
}

/// Counts checks that find a difference, and calls by tasks.
struct Checks<'a>(&'a mut usize, &'a Arc<AtomicUsize>);

impl Probe for Checks<'_> {
    fn count(&mut self, count: Count<'_>) {
        if matches!(count, Count::RankingCheck { agrees: false, .. }) {
            *self.0 += 1;
        }
    }

    fn of_task(&self) -> Box<dyn Probe + Send> {
        Box::new(TaskCalls(self.1.clone()))
    }
}

/// Counts calls of plugins.
struct TaskCalls(Arc<AtomicUsize>);

impl Probe for TaskCalls {
    fn start(&mut self, span: Span<'_>) {
        assert!(matches!(span, Span::Plugin(..)));
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Scheduler {
    fn new(seed: u64, form: Form) -> Self {
        Self::with(seed, form, 1024, &[])
    }

    /// One decision in `check_one_in` is checked. The filters of `first` run before the others.
    fn with(seed: u64, form: Form, check_one_in: u64, first: &[&str]) -> Self {
        Self::on(first, |config| EngineConfig {
            seed,
            form,
            check_rankings_one_in: check_one_in,
            ..config
        })
    }

    /// The filters of `first` run before the others. `configure` changes the configuration.
    fn on(first: &[&str], configure: impl FnOnce(EngineConfig) -> EngineConfig) -> Self {
        let enabled = first.iter().map(|name| PluginRef::new(name, 0)).collect();
        let mut profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            ..SchedulerProfile::default()
        };
        profile.plugins.filter = PluginSet { enabled, ..PluginSet::default() };
        let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let profiles = Profiles::build(&[profile], &defaults, &plugins::registry(), false);
        let config = configure(EngineConfig::new(profiles.unwrap()));
        Self {
            engine: Engine::new(config),
            pods: BTreeMap::new(),
            effects: Vec::new(),
            differing: 0,
            task_calls: Arc::default(),
            victims_stay: false,
            victims: Vec::new(),
        }
    }

    /// Ends up to so many evicted pods that stayed, the first ones first.
    fn end_victims(&mut self, count: usize, now: Time) {
        let count = count.min(self.victims.len());
        let ended: Vec<Change> = self.victims.drain(..count).collect();
        ended.into_iter().for_each(|end| self.apply(end, now));
    }

    fn apply(&mut self, change: Change, now: Time) {
        match &change {
            Change::Pod(pod) => drop(self.pods.insert(pod.key.clone(), (**pod).clone())),
            Change::PodDeleted { key, .. } => drop(self.pods.remove(key)),
            _ => {}
        }
        self.engine.step(
            Input::Change(change),
            now,
            &mut Ports { extenders: &mut (), probe: &mut () },
        );
    }

    /// Tries all pods that are ready, and binds those that find a node.
    fn run(&mut self, now: Time) {
        self.engine.step(Input::Tick, now, &mut Ports { extenders: &mut (), probe: &mut () });
        loop {
            let probe = &mut Checks(&mut self.differing, &self.task_calls);
            let ports = &mut Ports { extenders: &mut (), probe };
            if self.engine.step(Input::Schedule, now, ports).attempt().is_none() {
                break;
            }
            for effect in self.engine.take_effects() {
                self.carry_out(&effect, now);
                self.effects.push(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: &Effect, now: Time) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let answered = Input::Answer { effect: effect.id, answer: Answer::ok() };
        match &effect.kind {
            EffectKind::Bind { binding, .. } => {
                self.engine.step(answered, now, ports);
                if let Some(pod) = self.pods.get(&binding.pod).cloned() {
                    let node_name = Some(binding.node.clone());
                    self.apply(Change::Pod(Box::new(Pod { node_name, ..pod })), now);
                }
            }
            EffectKind::Evict(eviction) => {
                self.engine.step(answered, now, ports);
                let (key, uid) = (eviction.pod.clone(), eviction.uid.clone());
                let end = Change::PodDeleted { key, uid };
                match self.victims_stay {
                    true => self.victims.push(end),
                    false => self.apply(end, now),
                }
            }
            EffectKind::Event(_) => {}
            _ => {
                self.engine.step(answered, now, ports);
            }
        }
    }
}

/// A node of some kind: zone, size, labels, taints and images differ.
fn any_node(number: usize, rng: &mut Rng) -> NodeBuilder {
    let mut node = node(&format!("n{number}"))
        .zone(&format!("z{}", rng.u8(..3)))
        .allocatable("cpu", rng.choice(["4", "8"]).unwrap())
        .allocatable("memory", "16Gi")
        .allocatable("pods", &rng.u8(3..20).to_string())
        .label("disk", rng.choice(["ssd", "hdd"]).unwrap());
    for (name, size) in [("web:1", 300), ("db:1", 700)] {
        if rng.u8(..3) == 0 {
            node = node.image(name, size << 20);
        }
    }
    node = match rng.u8(..9) {
        // Without the label of its zone, or with the host name of another node.
        0 => node.with(|node| drop(node.metadata.labels.remove(ZONE))),
        1 => node.label(HOST, "twin"),
        2 | 3 => node.label(RACK, &format!("r{}", number / 8)),
        _ => node,
    };
    node = match rng.u8(..12) {
        0 => node.taint("dedicated", "gpu", "NoSchedule"),
        1 | 2 => node.taint("spot", "", "PreferNoSchedule"),
        3 => node.taint("spot", "", "PreferNoSchedule").taint("old", "", "PreferNoSchedule"),
        4 => node.unschedulable(),
        _ => node,
    };
    node
}

/// A pod of one of the templates. Each of its variants is a lane.
fn any_pod(name: &str, template: usize, variant: usize) -> PodBuilder {
    let cpu = ["100m", "500m", "1", "2"][(template + variant / 2) % 4];
    let pod = pod(name).label("app", &format!("a{template}")).cpu(cpu).memory("256Mi");
    let pod = if variant == 0 { pod } else { pod.label("variant", &variant.to_string()) };
    match template {
        0 => pod.image("web:1"),
        1 => pod.image("db:1").toleration("dedicated", "Exists", "", "NoSchedule"),
        2 => pod.host_port(8080),
        3 => pod.node_selector("disk", "ssd"),
        4 => pod.with(prefers_ssd),
        5 => pod.priority(10).with(prefers_ssd),
        6 => pod.toleration("spot", "Exists", "", "PreferNoSchedule").image("web:1"),
        7 => pod.with(|pod| spreads(pod, &[(1, ZONE, "ScheduleAnyway", json!({}))])),
        8 => pod.with(|pod| relates(pod, "podAntiAffinity", REQUIRED, HOST, "a8")),
        9 => pod.request("example.com/gpu", "1"),
        10 => pod.priority(5).nominated("n3"),
        11 => pod.with(|pod| spreads(pod, &[(1, ZONE, "DoNotSchedule", json!({}))])),
        12 => pod.with(|pod| {
            let soft = [(1, HOST, "ScheduleAnyway", json!({})), (2, ZONE, "ScheduleAnyway", json!({}))];
            spreads(pod, &soft);
        }),
        13 => pod.node_selector("disk", "ssd").with(|pod| {
            let policies = json!({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "minDomains": 3});
            let both = [(2, HOST, "DoNotSchedule", json!({})), (1, ZONE, "DoNotSchedule", policies)];
            spreads(pod, &both);
        }),
        14 => pod.with(|pod| relates(pod, "podAffinity", REQUIRED, ZONE, "a0")),
        15 => pod.with(|pod| relates(pod, "podAffinity", PREFERRED, HOST, "a15")),
        16 => pod.with(|pod| relates(pod, "podAntiAffinity", PREFERRED, ZONE, "a7")),
        17 => pod.with(|pod| relates(pod, "podAntiAffinity", REQUIRED, ZONE, "a9")),
        18 => pod.with(|pod| relates(pod, "podAffinity", REQUIRED, RACK, "a18")),
        19 => pod.with(|pod| {
            let soft = [(1, ZONE, "ScheduleAnyway", json!({})), (3, RACK, "DoNotSchedule", json!({}))];
            spreads(pod, &soft);
            relates(pod, "podAntiAffinity", PREFERRED, HOST, "a19");
        }),
        // The label of the Service, for default constraints.
        20 | 21 => pod.label("tier", "web"),
        22 => pod.priority(100).cpu("3"),
        // PreFilter restricts the search to some nodes.
        23 => pod.with(|pod| only_on(pod, 0..40)).image("web:1"),
        24 => pod.with(|pod| {
            spreads(pod, &[(1, ZONE, "ScheduleAnyway", json!({}))]);
            only_on(pod, 3..30);
        }),
        25 => pod.priority(5).cpu("3").with(|pod| {
            spreads(pod, &[(2, HOST, "DoNotSchedule", json!({}))]);
            only_on(pod, 0..12);
        }),
        26 => pod.toleration("spot", "Exists", "", "PreferNoSchedule").with(|pod| only_on(pod, 5..200)),
        _ => pod,
    }
}

const TEMPLATES: usize = 28;
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "rack";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn prefers_ssd(pod: &mut api::Pod) {
    let affinity = json!({"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": {
            "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}});
    pod.spec.affinity = serde_json::from_value(affinity).unwrap();
}

/// Requires one of the nodes with these numbers.
fn only_on(pod: &mut api::Pod, numbers: Range<usize>) {
    let term = |number: usize| {
        json!({"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [format!("n{number}")]}]})
    };
    let terms: Vec<Value> = numbers.map(term).collect();
    let affinity = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}});
    pod.spec.affinity = serde_json::from_value(affinity).unwrap();
}

/// Adds constraints over the pods with the labels of the pod: maximum skew, topology key, action,
/// and more.
fn spreads(pod: &mut api::Pod, constraints: &[(i32, &str, &str, Value)]) {
    let all = constraints.iter().map(|(skew, key, action, more)| {
        let mut one = json!({"maxSkew": skew, "whenUnsatisfiable": action, "topologyKey": key,
            "labelSelector": {"matchLabels": {"app": pod.metadata.labels["app"]}}});
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        one
    });
    let all: Vec<_> = all.collect();
    pod.spec.topology_spread_constraints = serde_json::from_value(all.into()).unwrap();
}

/// Adds a term of one kind for the pods of an app.
fn relates(pod: &mut api::Pod, kind: &str, when: &str, key: &str, app: &str) {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    let term = match when {
        PREFERRED => json!({"weight": 9, "podAffinityTerm": term}),
        _ => term,
    };
    let affinity = json!({ kind: { when: [term] } });
    pod.spec.affinity = serde_json::from_value(affinity).unwrap();
}

/// A Service, from which default constraints are derived; `None` if it is gone.
fn service(selector: Option<Value>) -> Change {
    let object = selector.map(|selector| {
        json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": selector}})
    });
    let key = ObjectKey::namespaced(EventResource::Service, "default".into(), "web".into());
    Change::decode(key, object).expect("the Service decodes")
}

/// Runs one history by both schedulers. Returns the number of decisions by a ranking.
fn compare(seed: u64, extent: &Extent) -> u64 {
    let mut both = [Form::Set, Form::Ranked].map(|form| Scheduler::new(seed, form));
    run_history(seed, extent, &mut both, |_, _| {});
    both[1].engine.ranked_decisions()
}

/// Runs one history by all schedulers, and `before_step` before each step. Their effects are equal.
fn run_history(
    seed: u64,
    extent: &Extent,
    all: &mut [Scheduler],
    mut before_step: impl FnMut(&mut [Scheduler], Time),
) {
    let mut rng = Rng::with_seed(seed);
    let apply = |all: &mut [Scheduler], change: Change, now: Time| {
        all.iter_mut().for_each(|scheduler| scheduler.apply(change.clone(), now));
    };
    let nodes = rng.usize(1..extent.nodes);
    for number in 0..nodes {
        apply(all, Change::Node(any_node(number, &mut rng).build()), Time::from_secs(0));
    }
    let mut names = 0;
    for step in 0..extent.steps {
        let now = Time::from_secs(step);
        before_step(all, now);
        match rng.u8(..22) {
            0..12 => {
                let (template, variant) = (rng.usize(..TEMPLATES), rng.usize(..extent.variants));
                for _ in 0..rng.usize(1..8) {
                    names += 1;
                    let pod =
                        any_pod(&format!("p{names}"), template, variant).uid(&names.to_string());
                    apply(all, Change::Pod(Box::new(pod.build())), now);
                }
            }
            12..15 => {
                let known: Vec<(PodKey, Pod)> = all[0].pods.clone().into_iter().collect();
                if let Some((key, pod)) = rng.choice(known) {
                    apply(all, Change::PodDeleted { key, uid: pod.uid }, now);
                }
            }
            15..18 => {
                let number = rng.usize(..nodes + 3);
                apply(all, Change::Node(any_node(number, &mut rng).build()), now);
            }
            18 => {
                let name = format!("n{}", rng.usize(..nodes + 3));
                apply(all, Change::NodeDeleted(name.into()), now);
            }
            19 => {
                let selector =
                    rng.choice([None, Some(json!({"tier": "web"})), Some(json!({"app": "a20"}))]);
                apply(all, service(selector.unwrap()), now);
            }
            20 => {
                let placed = all[0].pods.values().filter(|pod| pod.node_name.is_some());
                let placed: Vec<Pod> = placed.cloned().collect();
                if let Some(pod) = rng.choice(placed) {
                    let pod = Pod { terminating: true, ..pod };
                    apply(all, Change::Pod(Box::new(pod)), now);
                }
            }
            _ => {}
        }
        all.iter_mut().for_each(|scheduler| scheduler.run(now));
        let (first, others) = all.split_first_mut().unwrap();
        for other in others {
            assert_eq!(first.effects, other.effects, "seed {seed}, step {step}");
            other.effects.clear();
        }
        first.effects.clear();
    }
}

#[test]
fn ranked_decisions_are_those_of_the_full_pass() {
    let extent = Extent { steps: STEPS, nodes: 60, variants: 2 };
    let ranked: u64 = (0..HISTORIES).into_par_iter().map(|seed| compare(seed, &extent)).sum();
    assert!(ranked > 40 * HISTORIES, "only {ranked} decisions were made by rankings");
}

#[test]
fn hundreds_of_lanes_take_turns() {
    let extent = Extent { steps: LONG_STEPS, nodes: 400, variants: 12 };
    let seeds = HISTORIES..HISTORIES + LONG_HISTORIES;
    let ranked: u64 = seeds.into_par_iter().map(|seed| compare(seed, &extent)).sum();
    assert!(ranked > 400 * LONG_HISTORIES, "only {ranked} decisions were made by rankings");
}
