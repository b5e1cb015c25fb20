//! Runs one plugin through a scheduling cycle against a small cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{HandleParts, StorageObject};
use crate::{
    Cluster, ClusterEvent, CycleState, EventObjects, EventResource, Handle, MAX_NODE_SCORE,
    MIN_NODE_SCORE, Node, NodeBits, NodeIx, Plugin, Pod, QueueingHint, Status, Verdicts,
};

/// A plugin and a small cluster to run it against.
///
/// ```
/// # use loadmaster_framework as framework;
/// use framework::testing::{Harness, node, pod};
/// use framework::{CycleState, Filter, Handle, NodeView, Plugin, Pod, Status};
///
/// struct OnlySsd;
///
/// impl Filter for OnlySsd {
///     fn filter(&self, _: &CycleState, _: &Pod, node: &NodeView<'_>, _: &Handle<'_>) -> Status {
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
    pub(super) plugin: Plugin,
    pub(super) cluster: Cluster,
    pub(super) parts: HandleParts,
}

/// What a plugin said about one pod.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// The status of PreFilter; a failure ends the run.
    pub pre_filter: Status,
    /// The names PreFilter narrowed the search to.
    pub narrowed_to: Option<BTreeSet<Arc<str>>>,
    /// The verdict of Filter on each node.
    pub verdicts: BTreeMap<String, Status>,
    /// The status of PreScore; a failure leaves the scores empty.
    pub pre_score: Status,
    /// The scores of the nodes that passed, before normalising.
    pub raw_scores: BTreeMap<String, i64>,
    /// The same, normalised.
    pub scores: BTreeMap<String, i64>,
}

impl Run {
    /// Names of the nodes that passed.
    pub fn feasible(&self) -> Vec<&str> {
        let passed = self.verdicts.iter().filter(|(_, status)| status.is_success());
        passed.map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for Run {
    /// A line per node: its verdict, and its scores if it passed.
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
    /// A harness with an empty cluster.
    pub fn new(plugin: Plugin) -> Self {
        let mut cluster = Cluster::default();
        cluster.set_decoders(plugin.decoders.clone());
        Self { plugin, cluster, parts: HandleParts::default() }
    }

    /// Adds or replaces a node.
    #[must_use]
    pub fn node(mut self, node: Node) -> Self {
        self.cluster.set_node(&node);
        self
    }

    /// Adds or replaces a node given as the API server gives it. Of its further fields those are kept
    /// that the plugin asked for, as in the daemon.
    ///
    /// # Panics
    /// The object is no node.
    #[must_use]
    pub fn node_from_json(self, node: &Value) -> Self {
        let (node, problems) =
            Node::from_json(node, &self.plugin.extra_fields).expect("the object is a node");
        assert!(problems.is_empty(), "{problems:?}");
        self.node(node)
    }

    /// A pod given as the API server gives it. Of its further fields those are kept that the plugin
    /// asked for, as in the daemon.
    ///
    /// # Panics
    /// The object is no pod.
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

    /// Adds an object of a watched kind (`<plural>.<version>.<group>`), under the namespace and name in
    /// its metadata.
    #[must_use]
    pub fn object(mut self, kind: &str, object: Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let kind = EventResource::Custom(kind.into());
        self.cluster.set_object(&kind, &namespace, &name, Some(Arc::new(object)));
        self
    }

    /// Adds or replaces a storage object.
    #[must_use]
    pub fn storage(mut self, object: StorageObject) -> Self {
        object.put(&mut self.cluster);
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

    /// Runs PreFilter, Filter, PreScore, Score and NormalizeScore in their set form, after checking
    /// that the one-node form says the same.
    ///
    /// # Panics
    /// The two forms disagree, or a normalised score is not within 0 to 100: the engine would fail the
    /// attempt.
    #[track_caller]
    pub fn run(&self, pod: &Pod) -> Run {
        let set = self.run_form(pod, Form::Set);
        let one_node = self.run_form(pod, Form::OneNode);
        assert_eq!(set, one_node, "set form (left) and one-node form (right) disagree");
        set
    }

    /// What the hints the plugin registered for `event` say; `None` if it registered none.
    pub fn hint(
        &self,
        pod: &Pod,
        event: &ClusterEvent,
        objects: &EventObjects<'_>,
    ) -> Option<QueueingHint> {
        let registered = self.plugin.events.as_ref()?;
        let hints = registered.iter().filter(|registered| registered.event.matches(event));
        let answers = hints.map(|registered| match &registered.hint {
            None => QueueingHint::Queue,
            Some(hint) => hint(pod, objects, &self.handle()).unwrap_or(QueueingHint::Queue),
        });
        answers.reduce(|a, b| if a == QueueingHint::Queue { a } else { b })
    }

    fn run_form(&self, pod: &Pod, form: Form) -> Run {
        let mut run = Run::default();
        let mut state = CycleState::new();
        let mut skip_filter = false;
        if let Some(plugin) = &self.plugin.pre_filter {
            match plugin.pre_filter(&mut state, pod, &self.handle()) {
                Ok(result) => run.narrowed_to = result.node_names,
                Err(status) if status.is_skip() => skip_filter = true,
                Err(status) => return Run { pre_filter: status, ..run },
            }
        }
        let narrowed = run.narrowed_to.as_ref();
        let candidates: NodeBits = (self.cluster.nodes().iter())
            .filter(|ix| narrowed.is_none_or(|names| names.contains(self.cluster.node_name(*ix))))
            .collect();
        let passed = self.filter(&state, pod, &candidates, skip_filter, form, &mut run);
        self.score(&mut state, pod, &passed, form, &mut run);
        run
    }

    fn filter(
        &self,
        state: &CycleState,
        pod: &Pod,
        candidates: &NodeBits,
        skip: bool,
        form: Form,
        run: &mut Run,
    ) -> Vec<NodeIx> {
        let handle = self.handle();
        let mut passed = candidates.clone();
        let mut verdicts = Verdicts::with_len(self.cluster.table_len());
        if let Some(plugin) = self.plugin.filter.as_ref().filter(|_| !skip) {
            match form {
                Form::OneNode => {
                    for ix in candidates.iter() {
                        let status = plugin.filter(state, pod, &self.cluster.node(ix), &handle);
                        if !status.is_success() {
                            passed.remove(ix);
                            verdicts.record(ix, status);
                        }
                    }
                }
                Form::Set => {
                    let outcome = plugin.filter_set(state, pod, &handle, &mut passed);
                    let mut rejected = candidates.clone();
                    rejected.subtract(&passed);
                    plugin.explain_set(state, pod, &handle, &rejected, &mut verdicts);
                    if let Err(status) = outcome {
                        verdicts.set_absent(status);
                    }
                }
            }
        }
        for ix in candidates.iter() {
            run.verdicts.insert(self.name(ix), verdicts.get(ix).clone());
        }
        passed.iter().collect()
    }

    fn score(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &[NodeIx],
        form: Form,
        run: &mut Run,
    ) {
        let handle = self.handle();
        if let Some(plugin) = &self.plugin.pre_score {
            run.pre_score = plugin.pre_score(state, pod, &handle, nodes);
        }
        let Some(plugin) = self.plugin.score.as_ref().filter(|_| run.pre_score.is_success()) else {
            return;
        };
        let mut scores = vec![0; nodes.len()];
        let outcome = match form {
            Form::Set => plugin.score_set(state, pod, &handle, nodes, &mut scores),
            Form::OneNode => nodes.iter().zip(&mut scores).try_for_each(|(ix, score)| {
                *score = plugin.score(state, pod, &self.cluster.node(*ix), &handle)?;
                Ok(())
            }),
        };
        if let Err(status) = outcome {
            run.pre_score = status;
            return;
        }
        let by_name = |scores: &[i64]| {
            nodes.iter().map(|ix| self.name(*ix)).zip(scores.iter().copied()).collect()
        };
        run.raw_scores = by_name(&scores);
        if let Some(plugin) = &self.plugin.normalize_score {
            let status = plugin.normalize_score(state, pod, nodes, &mut scores, &handle);
            if !status.is_success() {
                run.pre_score = status;
            }
        }
        run.scores = by_name(&scores);
        for (node, score) in &run.scores {
            let range = MIN_NODE_SCORE..=MAX_NODE_SCORE;
            assert!(range.contains(score), "the score {score} of node {node} is not in {range:?}");
        }
    }

    fn name(&self, ix: NodeIx) -> String {
        self.cluster.node_name(ix).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod};
    use crate::{Filter, NodeView, Score};

    /// A filter whose set form forgets a rule.
    struct Forgetful;

    impl Filter for Forgetful {
        fn filter(&self, _: &CycleState, _: &Pod, node: &NodeView<'_>, _: &Handle<'_>) -> Status {
            match node.label("keep") {
                Some(_) => Status::success(),
                None => Status::unschedulable("no"),
            }
        }

        fn filter_set(
            &self,
            _: &CycleState,
            _: &Pod,
            _: &Handle<'_>,
            _: &mut NodeBits,
        ) -> Result<(), Status> {
            Ok(())
        }
    }

    impl Score for Forgetful {
        fn score(
            &self,
            _: &CycleState,
            _: &Pod,
            node: &NodeView<'_>,
            _: &Handle<'_>,
        ) -> Result<i64, Status> {
            Ok(node.pod_count())
        }
    }

    #[test]
    #[should_panic(expected = "set form (left) and one-node form (right) disagree")]
    fn forms_that_disagree_are_found() {
        let plugin = Plugin::new("Forgetful", Forgetful).filter().build();
        Harness::new(plugin).node(node("a").build()).run(&pod("p").build());
    }

    /// Compares a field of the pod with one of the node.
    struct Extra;

    impl Filter for Extra {
        fn filter(&self, _: &CycleState, pod: &Pod, node: &NodeView<'_>, _: &Handle<'_>) -> Status {
            match pod.extra.get("/spec/tier") == node.extra("/metadata/annotations/tier") {
                true => Status::success(),
                false => Status::unresolvable("another tier"),
            }
        }
    }

    #[test]
    fn fields_are_kept_as_the_plugin_asked_for_them() {
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
    fn a_run_shows_verdicts_and_scores() {
        let plugin = Plugin::new("Forgetful", Forgetful).score().build();
        let harness = Harness::new(plugin)
            .node(node("a").build())
            .node(node("b").build())
            .pod(pod("there").on("b").build());
        let run = harness.run(&pod("p").build());
        assert_eq!(run.to_string(), "a  Success  score 0 (raw 0)\nb  Success  score 1 (raw 1)\n");
    }
}
