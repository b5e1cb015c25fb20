//! The cost of the extension points of a plugin for each node, and of whole decisions with it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::PluginConfig;
use engine::{Change, Engine, EngineConfig, Input};
use framework::{
    Answer, Attempt, AttemptMut, CycleState, EventResource, Handle, Node, NodeBits, NodeIx,
    PerNode, Plugin, PluginArgs, Pod, Registry, Time,
};
use serde_json::Value;
use testkit::Harness;

use crate::world::profiles;

/// A cluster in which a plugin is measured.
pub struct Cluster<'a> {
    /// The plugins.
    pub registry: &'a Registry,
    /// Number of nodes.
    pub nodes: usize,
    /// The pods that run on each node.
    pub pods_per_node: usize,
    /// The time.
    pub now: Time,
    /// The node with this number.
    pub node: &'a dyn Fn(usize) -> Value,
    /// The objects of custom kinds about the node with this number.
    pub objects: &'a dyn Fn(usize) -> Vec<Object>,
    /// The pod with this number on the node with that number.
    pub running: &'a dyn Fn(usize, usize) -> Value,
}

/// An object of a custom kind.
pub struct Object {
    /// The kind.
    pub kind: &'static str,
    /// The object.
    pub object: Value,
}

/// A plugin with its arguments.
pub struct Case {
    /// What is printed.
    pub label: &'static str,
    /// The name of the plugin.
    pub name: &'static str,
    /// The arguments.
    pub args: Value,
}

impl Case {
    /// Makes the plugin.
    ///
    /// # Panics
    /// Panics if the plugin does not exist or the arguments are wrong.
    pub fn plugin(&self, registry: &Registry) -> Plugin {
        let factory = registry.get(self.name).expect("a plugin");
        factory(&PluginArgs::new(self.args.clone())).expect("valid arguments")
    }
}

impl Cluster<'_> {
    /// Returns the cluster for calls of one plugin.
    pub fn harness(&self, case: &Case) -> Harness {
        let mut harness = Harness::new(case.plugin(self.registry)).at(self.now);
        for number in 0..self.nodes {
            harness = harness.node_from_json(&(self.node)(number));
            for Object { kind, object } in (self.objects)(number) {
                harness = harness.object(kind, object);
            }
            for place in 0..self.pods_per_node {
                let own = harness.pod_from_json(&(self.running)(place, number));
                harness = harness.pod(own);
            }
        }
        harness
    }

    /// Returns how long each of so many decisions with rankings took, of the default profile with
    /// the plugin. The pod of a decision leaves after it.
    ///
    /// # Panics
    /// Panics if an object cannot be read.
    pub fn decisions(
        &self,
        case: Option<&Case>,
        count: usize,
        incoming: &dyn Fn(&str) -> Value,
    ) -> Vec<Duration> {
        let plugins: Vec<_> = case
            .iter()
            .map(|case| PluginConfig { name: case.name.to_owned(), args: Some(case.args.clone()) })
            .collect();
        let profiles = profiles(self.registry, &plugins, 1);
        let fields = profiles.extra_fields();
        let config = EngineConfig { form: Form::Ranked, ..EngineConfig::new(profiles) };
        let mut engine = Engine::new(config);
        let step = |engine: &mut Engine, input| {
            engine.step(input, self.now, &mut Ports { extenders: &mut (), probe: &mut () })
        };
        let read = |object: &Value| Pod::from_json(object, &fields).expect("a pod");
        for number in 0..self.nodes {
            let (node, _) = Node::from_json(&(self.node)(number), &fields).expect("a node");
            step(&mut engine, Input::Change(Change::Node(node)));
            for Object { kind, object } in (self.objects)(number) {
                let object = testkit::object(EventResource::Custom(kind.into()), object);
                step(&mut engine, Input::Change(Change::Object(Box::new(object))));
            }
            for place in 0..self.pods_per_node {
                let own = read(&(self.running)(place, number));
                step(&mut engine, Input::Change(Change::Pod(Box::new(own))));
            }
        }
        let mut decisions = Vec::new();
        for number in 0..count {
            let own = read(&incoming(&format!("incoming-{number}")));
            let gone = Change::PodDeleted { key: own.key.clone(), uid: own.uid.clone() };
            step(&mut engine, Input::Change(Change::Pod(Box::new(own))));
            let start = now();
            step(&mut engine, Input::Schedule).attempt().expect("a pod is ready");
            decisions.push(start.elapsed());
            for effect in engine.take_effects() {
                step(&mut engine, Input::Answer { effect: effect.id, answer: Answer::ok() });
            }
            step(&mut engine, Input::Change(gone));
            engine.take_effects();
        }
        decisions
    }
}

/// An extension point that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Filter.
    Filter,
    /// Score.
    Score,
}

impl Point {
    /// Calls the plugin for all nodes, in the set form or node by node.
    ///
    /// # Panics
    /// Panics if the plugin fails or does not have the extension point.
    pub fn time(
        self,
        plugin: &Plugin,
        handle: &Handle<'_>,
        pod: &Pod,
        is_set_form: bool,
    ) -> Duration {
        let state = prepared(plugin, handle, pod);
        let attempt = Attempt::new(&state, pod, handle);
        let (cluster, mut left) = (handle.cluster, NodeBits::default());
        let nodes: Vec<NodeIx> = cluster.nodes().iter().collect();
        let mut scores = vec![0; nodes.len()];
        let start = now();
        match (self, is_set_form) {
            (Self::Filter, true) => {
                left.copy_from(cluster.nodes());
                let filter = plugin.filter.as_ref().expect("a Filter plugin");
                filter.filter_set(&attempt, black_box(&mut left)).expect("an answer");
            }
            (Self::Filter, false) => {
                let filter = plugin.filter.as_ref().expect("a Filter plugin");
                for node in &nodes {
                    black_box(filter.filter(&attempt, &cluster.node(*node)));
                }
            }
            (Self::Score, true) => {
                let score = plugin.score.as_ref().expect("a Score plugin");
                let scores = PerNode::new(&nodes, black_box(&mut scores));
                score.score_set(&attempt, scores).expect("an answer");
            }
            (Self::Score, false) => {
                let score = plugin.score.as_ref().expect("a Score plugin");
                for node in &nodes {
                    let _ = black_box(score.score(&attempt, &cluster.node(*node)));
                }
            }
        }
        start.elapsed()
    }
}

/// Returns the state after PreFilter.
fn prepared(plugin: &Plugin, handle: &Handle<'_>, pod: &Pod) -> CycleState {
    let mut state = CycleState::new();
    if let Some(pre_filter) = &plugin.pre_filter {
        let attempt = AttemptMut::new(&mut state, pod, handle);
        pre_filter.pre_filter(attempt).expect("a pod that may be filtered");
    }
    handle.commands.take();
    state
}

/// Prints a time.
pub fn text(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}
