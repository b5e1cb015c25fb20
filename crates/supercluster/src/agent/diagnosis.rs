//! Which nodes can take a pod, and why the others cannot.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use engine::ports::Ports;
use framework::{NodeIx, Time};

use super::Agent;
use crate::message::{Diagnosis, DiagnosisRequest, NodeReason};

/// Maximum number of nodes that are looked at: each of them is checked like a commit, while other
/// requests wait.
const MAX_NODES: usize = 500;
/// Maximum number of nodes that are named for each reason.
const MAX_NAMED: usize = 10;

/// Nodes with the same answer.
#[derive(Debug, Default)]
struct Counted {
    count: u32,
    /// The first of them.
    named: Vec<Arc<str>>,
}

impl Counted {
    fn add(&mut self, node: Arc<str>) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(node);
        }
    }
}

impl Agent {
    /// Checks one node, or the first ones of the table one by one. Changes nothing.
    pub(super) fn diagnose(
        &mut self,
        DiagnosisRequest { pod, node }: &DiagnosisRequest,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Diagnosis {
        let cluster = self.cluster();
        let total = cluster.node_count();
        let looked_at: Vec<NodeIx> = match node {
            Some(name) => cluster.node_named(name).into_iter().collect(),
            None => cluster.nodes().iter().take(MAX_NODES).collect(),
        };
        let mut fitting = Counted::default();
        let mut rejected: BTreeMap<(String, Option<Arc<str>>), Counted> = BTreeMap::new();
        for node in &looked_at {
            let name = self.cluster().node_name(*node).clone();
            let profile = &self.config.profile;
            let counted = match self.engine.check(profile, &pod.pod, &name, now, ports) {
                Ok(()) => &mut fitting,
                Err(status) => {
                    rejected.entry((status.message(), status.plugin().cloned())).or_default()
                }
            };
            counted.add(name);
        }
        let reasons = rejected.into_iter().map(|((reason, plugin), Counted { count, named })| {
            NodeReason { reason, plugin, count, nodes: named }
        });
        let mut reasons: Vec<NodeReason> = reasons.collect();
        reasons.sort_by_key(|own| Reverse(own.count));
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Diagnosis {
            cluster: self.config.cluster.clone(),
            total_nodes: number(total),
            looked_at: number(looked_at.len()),
            fitting: fitting.count,
            fitting_nodes: fitting.named,
            reasons,
        }
    }
}
