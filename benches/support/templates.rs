//! Pods of a few templates, and clusters filled with them up to a share.

use engine::{Change, Engine, EngineConfig};
use framework::{Pod, api};

use crate::support::{apply, capacity, node};

/// Requests of a template: milli-CPU, memory in MiB.
const TEMPLATES: [(u32, u32); 8] = [
    (100, 128),
    (250, 512),
    (500, 1024),
    (1000, 2048),
    (200, 1024),
    (750, 768),
    (2000, 8192),
    (50, 64),
];

/// Share of the CPU of each node that is requested before the measurement, in percent.
const FILL_PERCENT: u32 = 60;

/// Returns the pod of the template with this number, without a node.
pub(crate) fn pod(number: usize) -> Pod {
    let template = number % TEMPLATES.len();
    let (cpu, memory) = TEMPLATES[template];
    let mut pod = api::Pod::default();
    pod.metadata.name = format!("app-{template}-{number:08x}");
    pod.metadata.namespace = format!("team-{}", template % 4);
    pod.metadata.uid = format!("{number:08x}-0000-4000-8000-000000000000");
    let labels = [("app", format!("app-{template}")), ("pod-template-hash", "5d9c7b".to_owned())];
    pod.metadata.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
    pod.spec.scheduler_name = "default-scheduler".to_owned();
    let mut container = api::Container {
        name: "main".to_owned(),
        image: format!("registry.example.com/app-{}:v1", template * 11),
        ..api::Container::default()
    };
    let requests = [("cpu", format!("{cpu}m")), ("memory", format!("{memory}Mi"))];
    container.resources.requests =
        requests.map(|(name, amount)| (name.to_owned(), api::QuantityText(amount))).into();
    pod.spec.containers = vec![container];
    Pod::from_api(&pod)
}

/// Creates an engine with `nodes` nodes, filled with pods; returns it with the number of pods.
pub(crate) fn engine(config: EngineConfig, nodes: usize) -> (Engine, usize) {
    let mut engine = Engine::new(config);
    let mut pods = 0;
    for number in 0..nodes {
        let node = node(number);
        let mut left = capacity(number).0 * FILL_PERCENT / 100;
        let name = node.name.clone();
        apply(&mut engine, Change::Node(node));
        while let Some(rest) = left.checked_sub(TEMPLATES[pods % TEMPLATES.len()].0) {
            left = rest;
            let pod = Pod { node_name: Some(name.clone()), ..pod(pods) };
            apply(&mut engine, Change::Pod(Box::new(pod)));
            pods += 1;
        }
    }
    (engine, pods)
}
