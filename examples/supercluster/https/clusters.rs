//! The API servers of all clusters, and what is in them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::anyhow;
use fastrand::Rng;
use framework::{Node, Pod, api};
use sandbox::http::{Options, Server};
use sandbox::resources::{NODES, PODS};
use serde::Deserialize;
use serde_json::{Value, json};

use super::outcome::{CpuSeconds, Outcome};
use crate::Args;

/// Annotation with the placement of a pod.
const PLACEMENT: &str = "supercluster.loadmaster.io/placement";
/// Annotation with the intent of the latest attempt.
const INTENT: &str = "supercluster.loadmaster.io/intent";
/// Annotation of a delegate with the UID of its original.
const ORIGIN_UID: &str = "supercluster.loadmaster.io/origin-uid";

/// The API servers.
pub(super) struct Clusters {
    pub(super) management: Server,
    /// Members with their names.
    pub(super) members: Vec<(String, Server)>,
}

impl Clusters {
    /// Starts API servers without kubelets: their heartbeats and statuses would take the cores of
    /// the roles.
    pub(super) async fn start(args: &Args) -> anyhow::Result<Self> {
        let options = |seed| Options { kubelets: None, seed, ..Options::default() };
        let management = Server::start(options(args.seed)).await?;
        let mut members = Vec::new();
        for number in 0..args.clusters {
            let server = Server::start(options(args.seed + 1 + u64::from(number))).await?;
            let mut rng = Rng::with_seed(args.seed ^ u64::from(number));
            for node in 0..args.nodes {
                let node = node_of(node, &mut rng);
                let created = server.with_store(|store, now| store.create(NODES, node, now));
                created.map_err(|status| anyhow!("{status}"))?;
            }
            members.push((format!("c{number}"), server));
        }
        Ok(Self { management, members })
    }

    /// Creates pods in the management cluster.
    pub(super) fn create_pods(&self, pods: impl Iterator<Item = Value>) -> anyhow::Result<()> {
        self.management.with_store(|store, now| {
            for pod in pods {
                store.create(PODS, pod, now).map_err(|status| anyhow!("{status}"))?;
            }
            Ok(())
        })
    }

    /// Number of bound pods in all members.
    pub(super) fn bound(&self) -> usize {
        let bound = |server: &Server| count(server, |pod| pod["spec"]["nodeName"].is_string());
        self.members.iter().map(|(_, server)| bound(server)).sum()
    }

    /// Number of pods whose placement is written.
    pub(super) fn placed(&self) -> usize {
        count(&self.management, |pod| pod["metadata"]["annotations"].get(PLACEMENT).is_some())
    }

    /// Returns what came of the run, counted in the API servers.
    pub(super) fn outcome(
        &self,
        commits: u64,
        conflicts: u64,
        took: Duration,
        cpu_s: CpuSeconds,
    ) -> Outcome {
        let mut binds: BTreeMap<String, u64> = BTreeMap::new();
        let (mut overcommitted, mut bound) = (0, 0);
        for (_, server) in &self.members {
            let mut free = free_of(server);
            for pod in objects(server, PODS) {
                let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
                bound += 1;
                let origin = &pod["metadata"]["annotations"][ORIGIN_UID];
                *binds.entry(origin.as_str().unwrap_or_default().to_owned()).or_default() += 1;
                let Ok(pod) = api::Pod::deserialize(&pod) else { continue };
                let placed = Pod::from_api(&pod).requests.placed.clone();
                let Some(free) = free.get_mut(node) else {
                    overcommitted += 1;
                    continue;
                };
                *free = (free.0 - placed.milli_cpu, free.1 - placed.memory, free.2 - 1);
            }
            let is_over = |free: &&(i64, i64, i64)| free.0 < 0 || free.1 < 0 || free.2 < 0;
            overcommitted += free.values().filter(is_over).count();
        }
        let attempts = objects(&self.management, PODS).iter().map(attempt_of).collect::<Vec<_>>();
        let (rounds, failed): (u64, u64) = attempts
            .iter()
            .fold((0, 0), |(all, failed), own| (all + own, failed + own.saturating_sub(1)));
        let seconds = took.as_secs_f64();
        Outcome {
            bound,
            pods_per_s: (bound as f64 / seconds.max(1e-9)).round(),
            commits,
            conflicts,
            conflict_share: failed as f64 / rounds.max(1) as f64,
            regret_mean: None,
            overcommitted,
            bound_twice: binds.values().filter(|binds| **binds > 1).count(),
            wall_s: (seconds * 1e3).round() / 1e3,
            cpu_s,
        }
    }
}

/// Returns the number of the latest attempt to place a pod.
fn attempt_of(pod: &Value) -> u64 {
    let text = pod["metadata"]["annotations"][INTENT].as_str().unwrap_or_default();
    let intent: Value = serde_json::from_str(text).unwrap_or_default();
    intent["attempt"].as_u64().unwrap_or(0)
}

/// Returns CPU, memory and number of pods of each node.
fn free_of(server: &Server) -> BTreeMap<String, (i64, i64, i64)> {
    let nodes = objects(server, NODES).into_iter().filter_map(|node| {
        let node = Node::from_api(&api::Node::deserialize(&node).ok()?).0;
        let room = (node.allocatable.milli_cpu, node.allocatable.memory, node.allowed_pods);
        Some((node.name.to_string(), room))
    });
    nodes.collect()
}

fn objects(server: &Server, resource: &'static sandbox::resources::Resource) -> Vec<Value> {
    server.with_store(|store, _| store.objects(resource).map(|own| Value::clone(own)).collect())
}

fn count(server: &Server, is_counted: impl Fn(&Value) -> bool) -> usize {
    server.with_store(|store, _| store.objects(PODS).filter(|pod| is_counted(pod)).count())
}

/// A node of 8 to 64 CPU.
fn node_of(number: u32, rng: &mut Rng) -> Value {
    let cpu = [8, 16, 32, 64][rng.usize(..4)];
    let name = format!("node-{number:05}");
    let room = json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "110"});
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room}})
}
