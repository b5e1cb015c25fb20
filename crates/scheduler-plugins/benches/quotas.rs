//! Measures decisions under quotas: `cargo bench -p loadmaster-scheduler-plugins --bench quotas`.
//!
//! 5,000 nodes have 100,000 pods of one CPU, and 10,000 quotas are the leaves of a tree of depth 4.
//! Half of the quotas use nothing, and pods of these are decided. The others use their guarantee;
//! in the row `reclaim` they use twice as much, and the nodes are full, so that each pod needs an
//! eviction. `queue` has 10,000 further pods of as many quotas that wait for their attempt.

use std::time::{Duration, Instant};

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input};
use framework::{
    Answer, ELASTIC_QUOTAS, EventResource, ExtraFields, Node, Pod, QUOTA_IS_PARENT_LABEL,
    QUOTA_PARENT_LABEL, Time,
};
use loadmaster_scheduler_plugins::capacity_scheduling;
use serde_json::{Value, json};

const NODES: usize = 5_000;
const LEAVES: usize = 10_000;
const PODS: usize = 100_000;

/// A scheduler with nodes, quotas and pods.
struct World {
    engine: Engine,
    fields: ExtraFields,
}

impl World {
    /// Makes nodes with so many CPUs, and quotas that guarantee so many.
    fn new(with_quotas: bool, cpus: usize, guarantee: usize) -> Self {
        let mut registry = plugins::registry();
        loadmaster_scheduler_plugins::add_to(&mut registry);
        let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let own = with_quotas.then(|| PluginRef::new(capacity_scheduling::NAME, 0));
        let enabled = own.into_iter().collect();
        let multi_point = PluginSet { enabled, ..PluginSet::default() };
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            plugins: PluginSets { multi_point, ..PluginSets::default() },
            ..SchedulerProfile::default()
        };
        let profiles = Profiles::build(&[profile], &defaults, &registry, false).expect("a profile");
        let fields = profiles.extra_fields();
        let config = EngineConfig { form: Form::Ranked, ..EngineConfig::new(profiles) };
        let mut world = Self { engine: Engine::new(config), fields };
        for number in 0..NODES {
            let amounts = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
            let node = json!({"metadata": {"name": format!("n{number}")},
                "status": {"capacity": amounts, "allocatable": amounts}});
            let (node, _) = Node::from_json(&node, &world.fields).expect("a node");
            world.step(Input::Change(Change::Node(node)));
        }
        world.add_quotas(guarantee);
        for number in 0..PODS {
            let leaf = LEAVES / 2 + number % (LEAVES / 2);
            let node = format!("n{}", number % NODES);
            world.pod(pod(&format!("p{number}"), leaf, Some(&node)));
        }
        world
    }

    /// Quotas guarantee as much as those below them.
    fn add_quotas(&mut self, guarantee: usize) {
        for depth in 1..=4 {
            for number in 0..10_usize.pow(depth) {
                let name = format!("q{number:0width$}", width = depth as usize);
                let cpus = guarantee * 10_usize.pow(4 - depth);
                let labels = json!({QUOTA_PARENT_LABEL: name[..name.len() - 1],
                    QUOTA_IS_PARENT_LABEL: if depth < 4 { "true" } else { "false" }});
                let metadata =
                    json!({"namespace": name, "name": name, "uid": name, "labels": labels});
                let spec = json!({"min": {"cpu": cpus.to_string()}});
                let kind = EventResource::Custom(ELASTIC_QUOTAS.into());
                let object = json!({"metadata": metadata, "spec": spec});
                let object = testkit::object(kind, object);
                self.step(Input::Change(Change::Object(Box::new(object))));
            }
        }
    }

    fn step(&mut self, input: Input) -> engine::Output {
        let mut ports = Ports { extenders: &mut (), probe: &mut () };
        self.engine.step(input, Time::from_secs(1_000_000), &mut ports)
    }

    fn pod(&mut self, pod: Value) -> Pod {
        let pod = Pod::from_json(&pod, &self.fields).expect("a pod");
        self.step(Input::Change(Change::Pod(Box::new(pod.clone()))));
        pod
    }

    fn delete(&mut self, pod: &Pod) {
        let gone = Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() };
        self.step(Input::Change(gone));
    }

    /// Decides about a pod of a quota that uses nothing, and restores the state before.
    fn decide(&mut self, number: usize) -> Duration {
        let incoming = pod(&format!("incoming{number}"), number % (LEAVES / 2), None);
        let incoming = self.pod(incoming);
        let start = now();
        let attempt = self.step(Input::Schedule).attempt().expect("a pod is ready");
        let took = start.elapsed();
        assert_eq!(attempt.pod.priority(), incoming.priority());
        let mut victims = Vec::new();
        for effect in self.engine.take_effects() {
            if let EffectKind::Evict(eviction) = &effect.kind {
                let victim = self.engine.world().placed(&eviction.uid);
                victims.extend(victim.map(|placed| placed.pod.clone()));
            }
            self.step(Input::Answer { effect: effect.id, answer: Answer::ok() });
        }
        for victim in &victims {
            self.delete(victim);
        }
        self.delete(&attempt.pod);
        for victim in victims {
            self.step(Input::Change(Change::Pod(Box::new(Pod::clone(&victim)))));
        }
        self.engine.take_effects();
        took
    }
}

fn pod(name: &str, leaf: usize, node: Option<&str>) -> Value {
    json!({"metadata": {"name": name, "namespace": format!("q{leaf:04}"), "uid": name},
        "spec": {"schedulerName": "default-scheduler", "nodeName": node, "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"startTime": "1970-01-01T00:00:00Z"}})
}

fn median(world: &mut World, rounds: usize) -> Duration {
    let mut took: Vec<Duration> = (0..rounds).map(|number| world.decide(number)).collect();
    took.sort_unstable();
    took[rounds / 2]
}

fn main() {
    let print = |label: &str, took: Duration| println!("{label:<16} {took:>10.1?}");
    print("without", median(&mut World::new(false, 40, 20), 400));
    let mut world = World::new(true, 40, 20);
    print("with", median(&mut world, 400));
    for leaf in 0..LEAVES {
        world.pod(pod(&format!("waiting{leaf}"), leaf, None));
    }
    print("queue", median(&mut world, 400));
    drop(world);
    print("reclaim", median(&mut World::new(true, 20, 10), 50));
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}
