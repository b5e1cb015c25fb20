//! Random histories: nodes whose devices look alike get the verdicts and scores of a search of
//! their own, whatever the plugin remembers of earlier pods.

use std::collections::BTreeMap;

use framework::{Attempt, NodeBits, PerNode};
use proptest::prelude::*;
use serde_json::json;
use testkit::node;

use super::world::*;
use crate::dynamic_resources::*;

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
const DEVICES: usize = 3;

/// An event of a history.
#[derive(Debug, Clone)]
enum Event {
    /// The driver of a node replaces its slice.
    Replace { node: usize, devices: usize, models: u8 },
    /// The slice of a node is gone.
    Remove { node: usize },
    /// The watch shows that a device is allocated, to a claim of its own.
    Allocate { node: usize, device: usize },
    /// The watch shows that it is no longer allocated.
    Free { node: usize, device: usize },
    /// A pod is reserved on one of the first two nodes.
    Reserve { pod: usize, on_b: bool },
    /// The attempt of a reserved pod fails.
    Unreserve { pod: usize },
    /// The selector of the class changes.
    Class { names_model: bool },
    /// A node is deleted and added.
    Node { node: usize },
}

fn event() -> impl Strategy<Value = Event> {
    let (node, device) = (|| 0..NODES.len(), || 0..DEVICES);
    prop_oneof![
        4 => (node(), 1..=DEVICES, 0..4_u8)
            .prop_map(|(node, devices, models)| Event::Replace { node, devices, models }),
        1 => node().prop_map(|node| Event::Remove { node }),
        4 => (node(), device()).prop_map(|(node, device)| Event::Allocate { node, device }),
        3 => (node(), device()).prop_map(|(node, device)| Event::Free { node, device }),
        3 => (0..3_usize, any::<bool>()).prop_map(|(pod, on_b)| Event::Reserve { pod, on_b }),
        2 => (0..3_usize).prop_map(|pod| Event::Unreserve { pod }),
        1 => any::<bool>().prop_map(|names_model| Event::Class { names_model }),
        1 => (2..NODES.len()).prop_map(|node| Event::Node { node }),
    ]
}

/// Returns the requests of the pods that are tried after each event.
fn wanted() -> [Value; 4] {
    let model = |name: &str| json!([{"cel": {"expression": format!("device.attributes['d'].model == '{name}'")}}]);
    let body = |count: i64, selectors: Value| json!({"deviceClassName": "gpu", "count": count, "selectors": selectors});
    let named = |name: &str, mut body: Value| {
        body["name"] = json!(name);
        body
    };
    let alternatives = json!([named("two", body(2, model("x"))), named("one", body(1, json!([])))]);
    [
        json!({"requests": [{"name": "r", "exactly": body(1, json!([]))}]}),
        json!({"requests": [{"name": "r", "exactly": body(2, json!([]))}],
            "constraints": [{"matchAttribute": "d/model"}]}),
        json!({"requests": [{"name": "r", "firstAvailable": alternatives}]}),
        json!({"requests": [{"name": "r", "exactly": body(1, model("y"))}]}),
    ]
}

struct History {
    world: World,
    reserved: BTreeMap<usize, Reservation>,
}

impl History {
    fn new() -> Self {
        let mut world = World::new([]);
        for name in &NODES[2..] {
            world.cluster.set_node(&node(name).build());
        }
        for (number, devices) in wanted().into_iter().enumerate() {
            let mut object = claim(&format!("want-{number}"), 1);
            object["spec"]["devices"] = devices;
            world.put("resourceclaims", object);
        }
        for number in 0..3 {
            world.put("resourceclaims", claim(&format!("fly-{number}"), 1));
        }
        let mut history = Self { world, reserved: BTreeMap::new() };
        for node in 0..NODES.len() {
            history.apply(&Event::Replace { node, devices: DEVICES, models: 0 });
        }
        history
    }

    fn apply(&mut self, event: &Event) {
        let world = &mut self.world;
        match event {
            Event::Replace { node, devices, models } => {
                let name = NODES[*node];
                let device = |number: usize| {
                    let model = if models >> (number % 2) & 1 == 0 { "x" } else { "y" };
                    json!({"name": number.to_string(), "attributes": {
                        "model": {"string": model}, "uuid": {"string": format!("{name}{number}")}}})
                };
                let devices: Value = (0..*devices).map(device).collect();
                world.put("resourceslices", slice_with(name, &devices));
            }
            Event::Remove { node } => {
                world.delete("resourceslices", &format!("slice-{}", NODES[*node]));
            }
            Event::Allocate { node, device } => {
                let pool = NODES[*node];
                let result = json!({"request": "r", "driver": "d", "pool": pool,
                    "device": device.to_string()});
                let mut object = claim(&format!("used-{pool}-{device}"), 1);
                object["status"] = json!({"allocation": {"devices": {"results": [result]}}});
                world.put("resourceclaims", object);
            }
            Event::Free { node, device } => {
                world.delete("resourceclaims", &format!("used-{}-{device}", NODES[*node]));
            }
            Event::Reserve { pod, on_b } if !self.reserved.contains_key(pod) => {
                let named = pod_using(&format!("p{pod}"), &[&format!("fly-{pod}")]);
                if let Ok(attempt) = world.reserve(&named, if *on_b { "b" } else { "a" }) {
                    self.reserved.insert(*pod, attempt);
                }
            }
            Event::Reserve { .. } => {}
            Event::Unreserve { pod } => {
                if let Some(mut attempt) = self.reserved.remove(pod) {
                    world.unreserve(&mut attempt);
                }
            }
            Event::Class { names_model } => {
                let expression =
                    if *names_model { "device.attributes['d'].model != 'z'" } else { "true" };
                let selectors = json!([{"cel": {"expression": expression}}]);
                let metadata = json!({"name": "gpu", "uid": "uid-gpu"});
                let class = json!({"metadata": metadata, "spec": {"selectors": selectors}});
                world.put("deviceclasses", class);
            }
            Event::Node { node: number } => {
                world.cluster.remove_node(NODES[*number]);
                world.cluster.set_node(&node(NODES[*number]).build());
            }
        }
    }

    /// Compares the set forms, which share answers, with the one-node forms. Returns how many nodes
    /// can take a pod.
    fn compare(&self) -> usize {
        let mut fitting = 0;
        for number in 0..wanted().len() {
            let pod = pod_using("w", &[&format!("want-{number}")]);
            let (state, result) = self.world.pre_filter(&pod);
            result.unwrap();
            let (cluster, handle) = (&self.world.cluster, self.world.handle());
            let filter = self.world.plugin.filter.as_ref().unwrap();
            let mut kept: NodeBits = cluster.nodes().clone();
            let verdict =
                |node| filter.filter(&Attempt::new(&state, &pod, &handle), &cluster.node(node));
            let expected: Vec<_> = cluster.nodes().iter().map(verdict).collect();
            let error = expected.iter().find(|own| !own.is_success() && !own.is_rejection());
            match filter.filter_set(&Attempt::new(&state, &pod, &handle), &mut kept) {
                Err(status) => assert_eq!(Some(&status), error),
                Ok(()) => {
                    assert_eq!(error, None);
                    for (node, own) in cluster.nodes().iter().zip(&expected) {
                        let name = cluster.node_name(node);
                        assert_eq!(kept.contains(node), own.is_success(), "{number} on {name}");
                    }
                    self.compare_scores(&state, &pod, &kept);
                    fitting += kept.count();
                }
            }
        }
        fitting
    }

    fn compare_scores(&self, state: &CycleState, pod: &Pod, kept: &NodeBits) {
        let (cluster, handle) = (&self.world.cluster, self.world.handle());
        let score = self.world.plugin.score.as_ref().unwrap();
        let nodes: Vec<_> = kept.iter().collect();
        let mut scores = vec![0; nodes.len()];
        score
            .score_set(&Attempt::new(state, pod, &handle), PerNode::new(&nodes, &mut scores))
            .unwrap();
        for (node, found) in nodes.iter().zip(scores) {
            let expected = score.score(&Attempt::new(state, pod, &handle), &cluster.node(*node));
            assert_eq!(Ok(found), expected, "{}", cluster.node_name(*node));
        }
    }
}

proptest! {
    #[test]
    fn shared_answers_are_those_of_each_node(
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut history = History::new();
        let mut fitting = history.compare();
        for event in &events {
            history.apply(event);
            fitting += history.compare();
            history.world.check_overlay();
        }
        prop_assert!(fitting > 0);
    }
}
