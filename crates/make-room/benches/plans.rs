//! Measures plans for a pod with eight GPUs: `cargo bench -p loadmaster-make-room --bench plans`.
//!
//! Each node has eight GPUs and ten pods: some with 1, 2 or 4 GPUs, so that five to seven GPUs are
//! taken, and pods with CPU alone. A tenth of the pods has local data and stays. Half of the
//! budgets allow no eviction.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use framework::{EventResource, ExtraFields, Node, ObjectKey, Pod, PodKey, Time, Uid};
use loadmaster_make_room::{Answer, Limits, Question, RunningPods, make_room};
use serde_json::{Value, json};

const PODS_OF_NODE: usize = 10;
/// The pods that request as many GPUs, and so many of them: five to seven GPUs a node.
const GPUS: [&[u32]; 6] = [&[4, 1], &[2, 2, 1], &[4, 2], &[1, 1, 2, 2], &[4, 2, 1], &[2, 2, 2, 1]];
const APPS: usize = 100;

fn main() {
    for nodes in [5_000, 20_000, 100_000] {
        let mut engine = engine();
        let begin = Instant::now();
        fill(&mut engine, nodes);
        println!("{nodes} nodes, {} pods, made in {:.1?}", nodes * PODS_OF_NODE, begin.elapsed());
        for name in ["8 GPUs", "8 GPUs and 90 CPUs", "4 GPUs of a zone without GPUs"] {
            measure(&mut engine, name);
        }
    }
}

/// Measures the plan for one pod three times, and prints the fastest.
fn measure(engine: &mut Engine, name: &str) {
    let pod = match name {
        "8 GPUs" => asking(8, "1", json!({})),
        "8 GPUs and 90 CPUs" => asking(8, "90", json!({})),
        _ => asking(4, "1", json!({"zone": "none"})),
    };
    let pod = Arc::new(pod);
    let mut fastest: Option<(Duration, Duration, Answer)> = None;
    for _ in 0..3 {
        let begin = Instant::now();
        let running = RunningPods::of(engine.cluster(), 1_000_000_000);
        let question = Question { pod: &pod, movable: &running.movable, limits: Limits::default() };
        let sorted = begin.elapsed();
        let answer = make_room(engine, &question, Time::ZERO);
        let all = begin.elapsed();
        if fastest.as_ref().is_none_or(|(own, ..)| all < *own) {
            fastest = Some((all, sorted, answer));
        }
    }
    let Some((all, sorted, answer)) = fastest else { return };
    let text = match answer {
        Answer::Plan(plan) => {
            let certain =
                if plan.is_cheapest { "the cheapest" } else { "perhaps not the cheapest" };
            format!("{} moves at {}, {certain}", plan.moves.len(), plan.cost.0)
        }
        other => format!("{other:?}"),
    };
    println!("  {name:30} {all:8.1?} ({sorted:.1?} to sort the pods): {text}");
}

fn engine() -> Engine {
    let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect();
    let multi_point = PluginSet { enabled: defaults, ..PluginSet::default() };
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        plugins: PluginSets { multi_point, ..PluginSets::default() },
        ..SchedulerProfile::default()
    };
    let profiles =
        Profiles::build(&[profile], &[], &plugins::registry(), false).expect("a profile");
    Engine::new(EngineConfig { form: Form::Ranked, ..EngineConfig::new(profiles) })
}

fn fill(engine: &mut Engine, nodes: usize) {
    let none = ExtraFields::default();
    for app in 0..APPS / 10 {
        let budget = json!({"spec": {"selector": {"matchLabels": {"app": format!("a{app}")}}},
            "status": {"disruptionsAllowed": (app % 2) * 5}});
        let kind = EventResource::PodDisruptionBudget;
        let key = ObjectKey::namespaced(kind, "default".into(), format!("b{app}").into());
        step(engine, Change::decode(key, Some(budget)).expect("a budget"));
    }
    let templates: Vec<Pod> =
        (0..APPS * 2).flat_map(|app| [0, 1, 2, 4].map(|gpus| running(app, gpus))).collect();
    for number in 0..nodes {
        let amounts = json!({"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"});
        let node = json!({"metadata": {"name": format!("n{number}"),
                "labels": {"zone": format!("z{}", number % 3), "kubernetes.io/hostname": format!("n{number}")}},
            "status": {"capacity": amounts, "allocatable": amounts}});
        let (node, _) = Node::from_json(&node, &none).expect("a node");
        let name: Arc<str> = node.name.clone();
        step(engine, Change::Node(node));
        let gpus = GPUS[number % GPUS.len()];
        for slot in 0..PODS_OF_NODE {
            let gpus = gpus.get(slot).copied().unwrap_or(0);
            let column = match gpus {
                4 => 3,
                own => own as usize,
            };
            let id = number * PODS_OF_NODE + slot;
            let app = (number * 31 + slot * 17) % (APPS * 2);
            let mut pod = templates[app * 4 + column].clone();
            pod.key = PodKey { name: format!("p{id}").into(), ..pod.key };
            pod.uid = Uid::from(&*format!("00000000-0000-4000-8000-{id:012x}"));
            pod.node_name = Some(name.clone());
            let age = i64::try_from(id * 31 % 2_000_000).unwrap_or_default();
            pod.start_time = Some(Time::from_secs(age)).into();
            step(engine, Change::Pod(Box::new(pod)));
        }
    }
    engine.take_effects();
}

fn step(engine: &mut Engine, change: Change) {
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    engine.step(Input::Change(change), Time::ZERO, ports);
}

/// Returns a pod of an application. Every tenth application has local data.
fn running(app: usize, gpus: u32) -> Pod {
    let kind = if app.is_multiple_of(4) { "StatefulSet" } else { "ReplicaSet" };
    let volumes = if app % 10 == 9 { json!([{"name": "d", "emptyDir": {}}]) } else { json!([]) };
    let mut requests = json!({"cpu": "2", "memory": "8Gi"});
    if gpus > 0 {
        requests["nvidia.com/gpu"] = json!(gpus.to_string());
    }
    let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": format!("o{app}"), "controller": true}]);
    pod(&json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "ownerReferences": owner,
            "labels": {"app": format!("a{app}")}},
        "spec": {"schedulerName": "default-scheduler", "volumes": volumes,
            "containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}]},
    }))
}

/// Returns a pod without a node.
fn asking(gpus: u32, cpu: &str, selector: Value) -> Pod {
    let requests = json!({"cpu": cpu, "memory": "16Gi", "nvidia.com/gpu": gpus.to_string()});
    pod(&json!({
        "metadata": {"name": "train", "namespace": "default", "uid": "train"},
        "spec": {"schedulerName": "default-scheduler", "nodeSelector": selector,
            "containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}]},
    }))
}

fn pod(object: &Value) -> Pod {
    Pod::from_json(object, &ExtraFields::default()).expect("a pod")
}
