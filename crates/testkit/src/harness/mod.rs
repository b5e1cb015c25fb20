//! The harness: runs one plugin through a scheduling cycle, against a small cluster.

mod commit;
mod notify;
mod rankings;

pub use commit::Commit;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{HandleParts, StorageObject};
use framework::{
    Attempt, AttemptMut, Cluster, ClusterEvent, CycleState, EventForPod, EventObjects,
    EventResource, Filter, Handle, MAX_NODE_SCORE, MIN_NODE_SCORE, Node, NodeBits, NodeIx, PerNode,
    Plugin, Pod, QueueingHint, Status, Verdicts,
};

/// A plugin and a small cluster to run it against.
///
/// ```
/// # use loadmaster_testkit as testkit;
/// use framework::{Attempt, Filter, NodeView, Plugin, Status};
/// use testkit::{Harness, node, pod};
///
/// struct OnlySsd;
///
/// impl Filter for OnlySsd {
///     fn filter(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Status {
///         match node.label("disk") {
///             Some("ssd") => Status::success(),
///             _ => Status::unresolvable("node(s) had no ssd"),
///         }
///     }
/// }
///
/// let harness = Harness::new(Plugin::new("OnlySsd", OnlySsd).filter().build())
///     .node(node("a").label("disk", "ssd").build())
///     .node(node("b").build());
/// let run = harness.run(&pod("p").build());
/// assert_eq!(run.feasible(), ["a"]);
/// assert_eq!(run.verdicts["b"].message(), "node(s) had no ssd");
/// ```
pub struct Harness {
    plugin: Plugin,
    cluster: Cluster,
    parts: HandleParts,
}

/// The answers of a plugin about one pod.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// The status of PreFilter. A failure ends the run.
    pub pre_filter: Status,
    /// The only nodes that PreFilter allows, if it restricts them.
    pub narrowed_to: Option<BTreeSet<Arc<str>>>,
    /// The verdict of Filter on each node.
    pub verdicts: BTreeMap<String, Status>,
    /// The status of PreScore, or the first failure of scoring. A failure leaves the scores empty.
    pub pre_score: Status,
    /// The scores of the nodes that passed, before normalisation.
    pub raw_scores: BTreeMap<String, i64>,
    /// The scores of the nodes that passed, after normalisation.
    pub scores: BTreeMap<String, i64>,
}

impl Run {
    /// Returns the names of the nodes that passed.
    pub fn feasible(&self) -> Vec<&str> {
        let passed = self.verdicts.iter().filter(|(_, status)| status.is_success());
        passed.map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for Run {
    /// Prints one line per node: its verdict, and its scores if it passed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pre_filter.is_success() {
            writeln!(f, "PreFilter: {} {}", self.pre_filter.code(), self.pre_filter.message())?;
        }
        let width = self.verdicts.keys().map(String::len).max().unwrap_or(0);
        for (name, status) in &self.verdicts {
            write!(f, "{name:width$}  {} {}", status.code(), status.message())?;
            if let (Some(raw), Some(score)) = (self.raw_scores.get(name), self.scores.get(name)) {
                write!(f, " score {score} (raw {raw})")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Form {
    OneNode,
    Set,
}

impl Harness {
    /// Creates a harness with an empty cluster.
    pub fn new(plugin: Plugin) -> Self {
        let mut cluster = Cluster::default();
        cluster.set_decoders(plugin.decoders.clone());
        cluster.set_node_kinds(plugin.node_kinds.clone());
        Self { plugin, cluster, parts: HandleParts::default() }
    }

    /// Adds or replaces a node.
    #[must_use]
    pub fn node(mut self, node: Node) -> Self {
        self.cluster.set_node(&node);
        self
    }

    /// Adds or replaces a node, given as JSON of the API server. It keeps the extra fields that the
    /// plugin registered, as the daemon does.
    ///
    /// # Panics
    /// The object is not a node.
    #[must_use]
    pub fn node_from_json(self, node: &Value) -> Self {
        let (node, problems) =
            Node::from_json(node, &self.plugin.extra_fields).expect("the object is a node");
        assert!(problems.is_empty(), "{problems:?}");
        self.node(node)
    }

    /// Decodes a pod, given as JSON of the API server. It keeps the extra fields that the plugin
    /// registered, as the daemon does.
    ///
    /// # Panics
    /// The object is not a pod.
    pub fn pod_from_json(&self, pod: &Value) -> Pod {
        Pod::from_json(pod, &self.plugin.extra_fields).expect("the object is a pod")
    }

    /// Places a pod on the node it names.
    ///
    /// # Panics
    /// The pod names no node.
    #[must_use]
    pub fn pod(mut self, pod: Pod) -> Self {
        let node = pod.node_name.clone().expect("a placed pod names its node: use `.on(\"node\")`");
        self.cluster.place_pod(Arc::new(pod), &node);
        self
    }

    /// Adds an object of a watched kind (`<plural>.<version>.<group>`), under the namespace and
    /// name in its metadata.
    #[must_use]
    pub fn object(mut self, kind: &str, object: Value) -> Self {
        let kind = EventResource::Custom(kind.into());
        self.cluster.set_object(crate::object(kind, object));
        self
    }

    /// Adds or replaces a storage object.
    #[must_use]
    pub fn storage(mut self, object: StorageObject) -> Self {
        object.put(&mut self.cluster);
        self
    }

    /// Registers the pods that the plugin counts for this pod, as the engine does before an
    /// attempt.
    #[must_use]
    pub fn counting_for(mut self, pod: &Pod) -> Self {
        let standing = self.plugin.standing_queries.as_ref();
        let queries = standing.map(|own| own.queries(pod, &self.handle()));
        queries.iter().flatten().for_each(|query| self.cluster.register_query(query));
        self
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the handle that calls into the plugin receive.
    pub fn handle(&self) -> Handle<'_> {
        self.parts.handle(&self.cluster)
    }

    /// Runs PreFilter, Filter, PreScore, Score and NormalizeScore, once in their set form and once
    /// in their one-node form.
    ///
    /// # Panics
    /// The two forms disagree, or a normalised score is not within 0 to 100, for which the engine
    /// would fail the attempt.
    #[track_caller]
    pub fn run(&self, pod: &Pod) -> Run {
        let set = self.run_form(pod, Form::Set);
        let one_node = self.run_form(pod, Form::OneNode);
        assert_eq!(set, one_node, "set form (left) and one-node form (right) disagree");
        set
    }

    /// Returns the answer of the hints that the plugin registered for `event`: Queue if any of them
    /// answers Queue, `None` if there are none.
    pub fn hint(
        &self,
        pod: &Pod,
        event: &ClusterEvent,
        objects: EventObjects<'_>,
    ) -> Option<QueueingHint> {
        let registered = self.plugin.events.as_ref()?;
        let hints = registered.iter().filter(|registered| registered.event.matches(event));
        let handle = self.handle();
        let about = EventForPod::new(pod, objects, &handle);
        let answers = hints.map(|own| own.evaluate_hint(about).unwrap_or(QueueingHint::Queue));
        answers.reduce(|a, b| if a == QueueingHint::Queue { a } else { b })
    }

    fn run_form(&self, pod: &Pod, form: Form) -> Run {
        let mut state = CycleState::new();
        let mut skip_filter = false;
        let mut narrowed_to = None;
        if let Some(plugin) = &self.plugin.pre_filter {
            match plugin.pre_filter(AttemptMut::new(&mut state, pod, &self.handle())) {
                Ok(result) => narrowed_to = result.node_names,
                Err(status) if status.is_skip() => skip_filter = true,
                Err(status) => return Run { pre_filter: status, ..Run::default() },
            }
        }
        let narrowed = narrowed_to.as_ref();
        let candidates: NodeBits = (self.cluster.nodes().iter())
            .filter(|ix| narrowed.is_none_or(|names| names.contains(self.cluster.node_name(*ix))))
            .collect();
        let run = Run { narrowed_to, ..Run::default() };
        let mut cycle = Cycle { harness: self, pod, form, state, run };
        let filter = self.plugin.filter.as_deref().filter(|_| !skip_filter);
        let passed = cycle.filter(filter, &candidates);
        cycle.score(&passed);
        cycle.run
    }
}

/// The cycle of one pod, behind PreFilter.
struct Cycle<'a> {
    harness: &'a Harness,
    pod: &'a Pod,
    form: Form,
    state: CycleState,
    run: Run,
}

impl Cycle<'_> {
    /// Records the verdicts of `plugin` and returns the candidates that pass.
    fn filter(&mut self, plugin: Option<&dyn Filter>, candidates: &NodeBits) -> Vec<NodeIx> {
        let (cluster, handle) = (&self.harness.cluster, self.harness.handle());
        let attempt = Attempt::new(&self.state, self.pod, &handle);
        let mut passed = candidates.clone();
        let mut verdicts = Verdicts::with_len(cluster.table_len());
        match (plugin, self.form) {
            (None, _) => {}
            (Some(plugin), Form::OneNode) => {
                for ix in candidates.iter() {
                    let status = plugin.filter(&attempt, &cluster.node(ix));
                    if !status.is_success() {
                        passed.remove(ix);
                        verdicts.record(ix, status);
                    }
                }
            }
            (Some(plugin), Form::Set) => {
                let outcome = plugin.filter_set(&attempt, &mut passed);
                let mut rejected = candidates.clone();
                rejected.subtract(&passed);
                plugin.explain_set(&attempt, &rejected, &mut verdicts);
                if let Err(status) = outcome {
                    verdicts.set_absent(status);
                }
            }
        }
        for ix in candidates.iter() {
            self.run.verdicts.insert(self.name(ix), verdicts.get(ix).clone());
        }
        passed.iter().collect()
    }

    /// Records the scores of `nodes`.
    fn score(&mut self, nodes: &[NodeIx]) {
        let (Harness { plugin, cluster, .. }, handle) = (self.harness, self.harness.handle());
        if let Some(plugin) = &plugin.pre_score {
            self.run.pre_score =
                plugin.pre_score(AttemptMut::new(&mut self.state, self.pod, &handle), nodes);
        }
        let score = plugin.score.as_ref().filter(|_| self.run.pre_score.is_success());
        let Some(score) = score else { return };
        let attempt = Attempt::new(&self.state, self.pod, &handle);
        let mut scores = vec![0; nodes.len()];
        let outcome = match self.form {
            Form::Set => score.score_set(&attempt, PerNode::new(nodes, &mut scores)),
            Form::OneNode => nodes.iter().zip(&mut scores).try_for_each(|(ix, own)| {
                *own = score.score(&attempt, &cluster.node(*ix))?;
                Ok(())
            }),
        };
        if let Err(status) = outcome {
            self.run.pre_score = status;
            return;
        }
        self.run.raw_scores = self.by_name(nodes, &scores);
        if let Some(plugin) = &plugin.normalize_score {
            let status = plugin.normalize_score(&attempt, PerNode::new(nodes, &mut scores));
            if !status.is_success() {
                self.run.pre_score = status;
            }
        }
        self.run.scores = self.by_name(nodes, &scores);
        for (node, score) in &self.run.scores {
            let range = MIN_NODE_SCORE..=MAX_NODE_SCORE;
            assert!(range.contains(score), "the score {score} of node {node} is not in {range:?}");
        }
    }

    fn by_name(&self, nodes: &[NodeIx], scores: &[i64]) -> BTreeMap<String, i64> {
        nodes.iter().map(|ix| self.name(*ix)).zip(scores.iter().copied()).collect()
    }

    fn name(&self, ix: NodeIx) -> String {
        self.harness.cluster.node_name(ix).to_string()
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{node, pod};
    use framework::{NodeView, Score};

    /// A filter whose set form ignores the rule of its one-node form.
    struct Forgetful;

    impl Filter for Forgetful {
        fn filter(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Status {
            match node.label("keep") {
                Some(_) => Status::success(),
                None => Status::unschedulable("no"),
            }
        }

        fn filter_set(&self, _: &Attempt<'_>, _: &mut NodeBits) -> Result<(), Status> {
            Ok(())
        }
    }

    impl Score for Forgetful {
        fn score(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
            Ok(node.pod_count())
        }
    }

    #[test]
    #[should_panic(expected = "set form (left) and one-node form (right) disagree")]
    fn run_panics_if_the_forms_disagree() {
        let plugin = Plugin::new("Forgetful", Forgetful).filter().build();
        Harness::new(plugin).node(node("a").build()).run(&pod("p").build());
    }

    /// Compares a field of the pod with one of the node.
    struct Extra;

    impl Filter for Extra {
        fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
            match attempt.pod.extra.get("/spec/tier") == node.extra("/metadata/annotations/tier") {
                true => Status::success(),
                false => Status::unresolvable("another tier"),
            }
        }
    }

    #[test]
    fn harness_keeps_the_extra_fields_that_the_plugin_registered() {
        let node = serde_json::json!({"metadata": {"name": "a", "annotations": {"tier": "gold"}}});
        let pod = serde_json::json!({"metadata": {"name": "p"}, "spec": {"tier": "gold"}});
        let asks =
            Plugin::new("Extra", Extra).filter().keep_node_field("/metadata/annotations/tier");
        let forgets = Harness::new(asks.build()).node_from_json(&node);
        assert!(forgets.run(&forgets.pod_from_json(&pod)).feasible().is_empty());

        let asks =
            Plugin::new("Extra", Extra).filter().keep_node_field("/metadata/annotations/tier");
        let both = Harness::new(asks.keep_pod_field("/spec/tier").build()).node_from_json(&node);
        assert_eq!(both.run(&both.pod_from_json(&pod)).feasible(), ["a"]);
    }

    #[test]
    fn run_prints_verdicts_and_scores() {
        let plugin = Plugin::new("Forgetful", Forgetful).score().build();
        let harness = Harness::new(plugin)
            .node(node("a").build())
            .node(node("b").build())
            .pod(pod("there").on("b").build());
        let run = harness.run(&pod("p").build());
        assert_eq!(run.to_string(), "a  Success  score 0 (raw 0)\nb  Success  score 1 (raw 1)\n");
    }
}
