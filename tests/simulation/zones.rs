//! The order of the nodes by zone, computed from plain lists.

use std::sync::Arc;

use engine::{Attempt, Engine, Outcome};
use framework::Node;

use super::churn::nodes::ZONE;
use super::rules::{Checked, rule};
use super::server::SPREADING;

/// The nodes of each zone in the order of their arrival. The zones are in the order in which their
/// first nodes arrived.
#[derive(Debug, Default)]
pub(crate) struct Zones(Vec<(String, Vec<Arc<str>>)>);

impl Zones {
    /// Adds a node. A node that moves to another zone comes last there.
    pub(crate) fn set(&mut self, node: &Node) {
        let zone = node.labels.get(ZONE).unwrap_or_default();
        let mut zones = self.0.iter();
        if zones.any(|(name, nodes)| name == zone && nodes.contains(&node.name)) {
            return;
        }
        self.remove(&node.name);
        match self.0.iter_mut().find(|(name, _)| name == zone) {
            Some((_, nodes)) => nodes.push(node.name.clone()),
            None => self.0.push((zone.to_owned(), vec![node.name.clone()])),
        }
    }

    /// Removes a node.
    pub(crate) fn remove(&mut self, node: &str) {
        self.0.iter_mut().for_each(|(_, nodes)| nodes.retain(|other| **other != *node));
        self.0.retain(|(_, nodes)| !nodes.is_empty());
    }

    fn in_turn(&self) -> impl Iterator<Item = &Arc<str>> {
        let longest = self.0.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        (0..longest).flat_map(|turn| self.0.iter().filter_map(move |(_, nodes)| nodes.get(turn)))
    }

    /// Checks that an attempt visited the nodes in turn from each zone. Only the profile
    /// [`SPREADING`] has an order.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn are_in_turn(&self, engine: &Engine, attempt: &Attempt) -> Checked {
        let is_ordered = *attempt.pod.spec.scheduler_name == *SPREADING;
        // A group whose pods do not go together looks at no node.
        let is_refused =
            attempt.pod.pod_group().is_some() && matches!(attempt.outcome, Outcome::Error(_));
        if !is_ordered || is_refused || attempt.outcome == Outcome::Skipped {
            return Ok(());
        }
        let cluster = engine.cluster();
        let known = engine.world().node_order().iter().map(|node| cluster.node_name(*node));
        rule(known.clone().eq(self.in_turn()), || {
            format!("nodes are visited as {:?}, zones are {self:?}", known.collect::<Vec<_>>())
        })
    }
}
