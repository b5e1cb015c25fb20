//! Loads: clusters and pods of a shape, with the pods arriving at a rate.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::{Node, Pod, PodKey, Uid, api};

use super::{Faults, Latencies, SCHEDULER_NAME, Servers, Settings, World};
use crate::scheduler::{Cluster, SchedulerConfig};

/// The nodes and pods of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nodes of 8 to 64 CPU, pods of 0.25 to 2 CPU.
    Mixed,
    /// Nodes that have room for one pod each, and scores that differ.
    Exclusive,
}

/// A load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Number of clusters.
    pub clusters: usize,
    /// Number of nodes of each cluster.
    pub nodes: usize,
    /// Number of pods.
    pub pods: usize,
    /// Pods per second; without a rate all pods are there from the beginning.
    pub rate: Option<f64>,
    /// The nodes and pods.
    pub shape: Shape,
    /// Maximum number of pods that run at a time; the oldest ends when there are more.
    pub live: Option<usize>,
    /// Number of schedulers, each with pods of its own.
    pub schedulers: usize,
    /// Maximum number of commit candidates of a decision.
    pub candidates: usize,
    /// The sampling strategy.
    pub strategy: Arc<str>,
    /// Nodes wanted of each cluster, in basis points.
    pub share_bp: u32,
    /// Clusters to ask, in basis points.
    pub clusters_bp: u32,
    /// Maximum number of pods that a scheduler has in flight.
    pub in_flight: usize,
    /// With the strategy `best`: thousandths of a point by which a node may be worse than the next
    /// candidate.
    pub tolerance_milli: i64,
    /// How long things take.
    pub latencies: Latencies,
    /// The regret of one pod in so many is measured.
    pub measure_every: Option<u64>,
    /// Whether schedulers mirror delegates: their events are shown on the originals.
    pub mirrors: bool,
    /// Seed of nodes, pods and random choices.
    pub seed: u64,
}

impl Load {
    /// Creates the world with models of API servers, and with all pods on their way.
    pub fn world(&self) -> World {
        self.world_with(Servers::models(self.clusters, self.mirrors))
    }

    /// Creates the world with these API servers, and with all pods on their way.
    pub fn world_with(&self, servers: Servers) -> World {
        let mut rng = Rng::with_seed(self.seed);
        let clusters = (0..self.clusters)
            .map(|_| (0..self.nodes).map(|number| self.shape.node(number, &mut rng)).collect());
        let mut world = World::with_servers(self.settings(), clusters.collect(), servers);
        let templates = self.shape.templates();
        let mut after = 0.0;
        for number in 0..self.pods {
            let template = &templates[rng.usize(..templates.len())];
            if let Some(rate) = self.rate {
                after -= (1.0 - rng.f64()).ln() / rate;
            }
            world.arrive(pod(template, number), Duration::from_secs_f64(after));
        }
        world
    }

    fn settings(&self) -> Settings {
        let cluster = |n| Cluster { name: format!("c{n}").into(), ..Cluster::default() };
        let members = (0..self.clusters).map(cluster).collect();
        let scheduler = SchedulerConfig {
            nodes_to_sample_bp: self.share_bp,
            clusters_to_sample_bp: self.clusters_bp,
            commit_candidates: self.candidates,
            max_in_flight: self.in_flight,
            tolerance_milli: self.tolerance_milli,
            ..SchedulerConfig::new("s", members)
        };
        Settings {
            seed: self.seed,
            scheduler: scheduler.with_strategy(&self.strategy),
            schedulers: self.schedulers,
            shared_pods: false,
            mirrors: self.mirrors,
            kubelets: false,
            list_page: 500,
            latencies: self.latencies,
            faults: Faults::default(),
            live: self.live,
            measure_every: self.measure_every,
        }
    }
}

impl Shape {
    fn node(self, number: usize, rng: &mut Rng) -> Node {
        let (milli_cpu, memory_mib) = match self {
            Self::Mixed => {
                let cpu = [8_000, 16_000, 32_000, 64_000][rng.usize(..4)];
                (cpu, cpu * 4)
            }
            // Room for one pod of 4 CPU and 4 GiB, and a size of its own.
            Self::Exclusive => (rng.i64(4_100..8_000), rng.i64(4_200..8_000)),
        };
        let mut node = api::Node::default();
        node.metadata.name = format!("node-{number:05}");
        let label = ("kubernetes.io/hostname".to_owned(), node.metadata.name.clone());
        node.metadata.labels = [label].into();
        let allocatable = [
            ("cpu", format!("{milli_cpu}m")),
            ("memory", format!("{memory_mib}Mi")),
            ("pods", "110".to_owned()),
        ];
        node.status.allocatable =
            allocatable.map(|(name, amount)| (name.to_owned(), api::QuantityText(amount))).into();
        Node::from_api(&node).0
    }

    fn templates(self) -> Vec<Pod> {
        let sizes: &[(i64, i64)] = match self {
            Self::Mixed => {
                &[(250, 512), (500, 2_048), (1_000, 2_048), (1_000, 4_096), (2_000, 4_096)]
            }
            Self::Exclusive => &[(4_000, 4_096)],
        };
        let sizes = sizes.iter().enumerate();
        sizes.map(|(number, (cpu, memory))| template(number, *cpu, *memory)).collect()
    }
}

fn template(number: usize, cpu: i64, memory: i64) -> Pod {
    let requests = [("cpu", format!("{cpu}m")), ("memory", format!("{memory}Mi"))];
    let requests = requests.map(|(name, amount)| (name.to_owned(), api::QuantityText(amount)));
    let mut container = api::Container::default();
    container.resources.requests = requests.into();
    let mut pod = api::Pod::default();
    pod.metadata.namespace = "default".to_owned();
    pod.metadata.labels = [("app".to_owned(), format!("app-{number}"))].into();
    pod.spec.scheduler_name = SCHEDULER_NAME.to_owned();
    pod.spec.containers.push(container);
    Pod::from_api(&pod)
}

fn pod(template: &Pod, number: usize) -> Pod {
    Pod {
        key: PodKey::new("default", &format!("pod-{number}")),
        uid: Uid::from(&*format!("{number:08x}-cccc-4000-8000-000000000000")),
        ..template.clone()
    }
}
