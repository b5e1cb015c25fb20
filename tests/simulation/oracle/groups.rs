//! How many equal pods fit together, computed naively.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Pod, Uid};

use super::{NOBODY, Oracle};

impl Oracle<'_> {
    /// Returns the values of a label of nodes.
    pub(crate) fn values_of(&self, key: &str) -> BTreeSet<String> {
        let nodes = self.places.iter().map(|place| &place.node);
        nodes.filter_map(|node| node.labels.get(key).map(str::to_owned)).collect()
    }

    /// Returns how many of these pods fit, one placed after the other, on the nodes with this label
    /// or on all. Leaves everything as it was.
    pub(crate) fn room_for(
        &mut self,
        pods: &[Arc<Pod>],
        domain: Option<(&Arc<str>, &String)>,
    ) -> usize {
        let mut taken = Vec::new();
        for pod in pods {
            let takes = |place: &super::Place| {
                let is_within = domain
                    .is_none_or(|(key, value)| place.node.labels.get(key) == Some(value.as_str()));
                is_within && self.takes_at(place, pod, &NOBODY)
            };
            let Some(number) = self.places.iter().position(takes) else { break };
            let node_name = Some(self.places[number].node.name.clone());
            let placed = Arc::new(Pod { node_name, ..Pod::clone(pod) });
            self.places[number].pods.push(placed.clone());
            self.placed.push(placed);
            taken.push(number);
        }
        for number in &taken {
            self.places[*number].pods.pop();
            self.placed.pop();
        }
        taken.len()
    }

    /// Returns the pods on a node and those nominated to it, with their priorities, without these.
    pub(crate) fn others_on(&self, node: &str, gone: &BTreeSet<Uid>) -> Vec<String> {
        let places = self.places.iter().filter(|place| *place.node.name == *node);
        let pods = places.flat_map(|place| &place.pods).filter(|pod| !gone.contains(&pod.uid));
        let nominated = self.nominated.iter().filter(|(own, _)| **own == *node);
        let pods = pods.map(|pod| (pod, "")).chain(nominated.map(|(_, pod)| (pod, " (nominated)")));
        let text = |(pod, how): (&Arc<Pod>, &str)| {
            let milli_cpu = pod.requests.placed.milli_cpu;
            format!("{}{how} of {} with {milli_cpu}m", pod.key, pod.priority())
        };
        pods.map(text).collect()
    }
}
