//! The plugin.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use cel::Verdict;
use framework::{
    ActionType, ArgumentsFeed, Attempt, AttemptMut, Cluster, ClusterEvent, CycleState, Dependence,
    Detail, EventResource, Feed, Filter, FilterScope, Handle, NodeBits, NodeView, PerNode, Plugin,
    PluginArgs, Pod, PodKey, PodQuery, PreFilter, PreFilterResult, Score, ScoreScope,
    StandingQueries, Status, Uid, Verdicts,
};

use crate::args::RulesArgs;
use crate::details;
use crate::metrics::{Metrics, Tally};
use crate::prepared::{Answer, Applying, Count, Prepared};
use crate::reading::Reading;
use crate::reloads::{NewRules, Reloads, kind_of};
use crate::rule_set::{Effect, RuleSet};

/// Name of the plugin.
pub const NAME: &str = "Rules";

/// The plugin.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The rules of the configuration that the scheduler started with.
    started: Arc<RuleSet>,
    /// The kind of the object with new rules.
    kind: Arc<str>,
    metrics: Metrics,
    /// Pods to which a rule applies that reads the time.
    pub(crate) waiting: Mutex<BTreeMap<Uid, Waiting>>,
}

/// A pod to which a rule applies that reads the time.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) pod: PodKey,
    /// `now()` when the rules were last asked.
    pub(crate) now: i64,
}

/// Makes the plugin from [`RulesArgs`].
///
/// # Errors
/// The arguments do not decode, or an expression does not fit the fields that rules can read.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args: RulesArgs = args.decode()?;
    let rules = Arc::new(RuleSet::compile(args.clone())?);
    let needs = rules.needs.clone();
    let nodes = ClusterEvent::new(EventResource::Node, ActionType::ADD | ActionType::UPDATE);
    let pods = ClusterEvent::new(EventResource::Pod, ActionType::ALL);
    let namespaces =
        ClusterEvent::new(EventResource::Namespace, ActionType::ADD | ActionType::UPDATE);
    let metrics = Metrics::new();
    let exported = [&metrics.evaluations, &metrics.rejections, &metrics.errors, &metrics.cost];
    let exported = exported.map(Arc::clone);
    let kind = kind_of(&args);
    let reloads = Reloads::of(&rules);
    let exported = exported.into_iter().chain([reloads.counter.clone()]);
    let feed = ArgumentsFeed { kind: kind.clone(), plugin: NAME.into(), reload: Arc::new(reloads) };
    let new_rules = EventResource::Custom(kind.clone());
    let new_rules = ClusterEvent::new(new_rules, ActionType::ADD | ActionType::UPDATE);
    let plugin = Rules { started: rules, kind: kind.clone(), metrics, waiting: Mutex::default() };
    let mut builder = Plugin::new(NAME, plugin)
        .pre_filter()
        .filter()
        .score()
        .standing_queries()
        .timer()
        .args(&args)
        .on_with_hint(nodes, Rules::after_node)
        .on_with_hint(pods, Rules::after_pod)
        .on_with_hint(namespaces, Rules::after_namespace)
        .on_with_hint(new_rules, Rules::after_reload)
        .watch_as::<NewRules>(&kind)
        .feed(Feed::Arguments(feed));
    for metric in exported {
        builder = builder.metric(&metric);
    }
    builder = needs.pod.iter().fold(builder, |builder, field| builder.keep_pod_field(field));
    builder = needs.node.iter().fold(builder, |builder, field| builder.keep_node_field(field));
    if !needs.pod_name {
        builder = builder.decides_by_template();
    }
    Ok(builder.build())
}

impl Rules {
    /// Returns the rules in force.
    pub(crate) fn rules(&self, cluster: &Cluster) -> Arc<RuleSet> {
        let new = cluster.decoded::<NewRules>(&self.kind, "", ArgumentsFeed::NAME);
        let usable = new.filter(|new| new.0.needs.missing_in(&self.started.needs).is_none());
        usable.map_or(&self.started, |new| &new.0).clone()
    }

    /// Returns the rules that apply to a pod.
    pub(crate) fn prepare(&self, pod: &Pod, handle: &Handle<'_>) -> Arc<Prepared> {
        Arc::new(Prepared::new(self.rules(handle.cluster), pod, handle))
    }

    fn prepared(&self, attempt: &Attempt<'_>) -> Arc<Prepared> {
        Prepared::of(attempt.state, || self.prepare(attempt.pod, attempt.handle))
    }

    /// Counts what was evaluated for a whole pod.
    fn count_pod(&self, prepared: &Prepared) {
        let series = self.metrics.series_of(&prepared.rules);
        let filters = prepared.filters.iter().map(|own| (own, &series.filters[own.place]));
        let scores = prepared.scores.iter().map(|own| (own, &series.scores[own.place]));
        for (own, series) in filters.chain(scores).filter(|(own, _)| own.cost() > 0) {
            series.count(&Tally { cost: own.cost(), ..Tally::default() });
        }
    }

    /// Returns a number that differs if the answers about unchanged nodes may differ; `None` if
    /// they cannot.
    fn as_of(&self, reading: Reading, prepared: &Prepared, attempt: &Attempt<'_>) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        let mut depends = false;
        let cluster = attempt.handle.cluster;
        if let Some(version) = cluster.object_generation(&self.kind, "", ArgumentsFeed::NAME) {
            version.hash(&mut hasher);
            depends = true;
        }
        if reading.now {
            prepared.now.hash(&mut hasher);
            depends = true;
        }
        if reading.namespace {
            let namespace = &attempt.pod.key.namespace;
            cluster.namespace_labels(namespace).hash(&mut hasher);
            depends = true;
        }
        if prepared.limit < prepared.rules.args.cost_limit {
            prepared.limit.hash(&mut hasher);
            depends = true;
        }
        depends.then(|| hasher.finish())
    }
}

impl PreFilter for Rules {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let prepared = self.prepare(pod, handle);
        self.count_pod(&prepared);
        prepared.write(state);
        if prepared.filters_nothing() {
            return Err(Status::skip());
        }
        let reading = prepared.filter_reading();
        if reading.now {
            self.wait_for_step(pod, handle, &prepared);
        }
        if reading.domain {
            let as_of = self.as_of(reading, &prepared, &Attempt::new(state, pod, handle));
            FilterAsOf(as_of).compare(state);
        }
        Ok(PreFilterResult::default())
    }
}

impl StandingQueries for Rules {
    fn queries(&self, pod: &Pod, handle: &Handle<'_>) -> Vec<PodQuery> {
        let rules = self.rules(handle.cluster);
        let reading = rules.filter_reading.or(rules.score_reading);
        if reading.pods || reading.domain {
            self.prepare(pod, handle).queries()
        } else {
            Vec::new()
        }
    }
}

/// A rule in a pass over many nodes.
struct Pass<'a> {
    own: &'a Applying,
    counts: Vec<Count<'a>>,
    tally: Tally,
}

impl<'a> Pass<'a> {
    fn new(own: &'a Applying, cluster: &'a Cluster) -> Self {
        Self { own, counts: own.counts(cluster), tally: Tally::default() }
    }

    fn passes(&mut self, prepared: &Prepared, pod: &Pod, node: &NodeView<'_>) -> Answer {
        let (answer, cost) = prepared.answer(self.own, pod, node, &self.counts);
        self.tally.evaluations += 1;
        self.tally.cost += cost;
        self.tally.rejections += u64::from(matches!(answer, Answer::Rejects | Answer::Fails(_)));
        self.tally.errors += u64::from(matches!(answer, Answer::Fails(_) | Answer::Ignored(_)));
        answer
    }
}

impl Prepared {
    /// Returns the verdict of all filters on a node.
    pub(crate) fn verdict(&self, pod: &Pod, node: &NodeView<'_>) -> Status {
        let mut passes: Vec<_> =
            self.filters.iter().map(|own| Pass::new(own, node.cluster())).collect();
        self.first_rejection(pod, node, &mut passes)
    }

    fn first_rejection(&self, pod: &Pod, node: &NodeView<'_>, passes: &mut [Pass<'_>]) -> Status {
        if let Some((place, error)) = self.failed.first() {
            return self.rejection(*place, Some(error));
        }
        for pass in passes {
            let place = pass.own.place;
            match pass.passes(self, pod, node) {
                Answer::Passes | Answer::Ignored(_) => {}
                Answer::Rejects => return self.rejection(place, None),
                Answer::Fails(error) => return self.rejection(place, Some(&error)),
            }
        }
        Status::success()
    }
}

impl Filter for Rules {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let prepared = self.prepared(attempt);
        let cluster = attempt.handle.cluster;
        let mut passes: Vec<_> =
            prepared.filters.iter().map(|own| Pass::new(own, cluster)).collect();
        let status = prepared.first_rejection(attempt.pod, node, &mut passes);
        self.count(&prepared, &passes);
        status
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let prepared = self.prepared(attempt);
        if !prepared.failed.is_empty() {
            *nodes = NodeBits::with_len(attempt.handle.cluster.table_len());
            return Ok(());
        }
        let cluster = attempt.handle.cluster;
        let mut passes = Vec::new();
        for own in &prepared.filters {
            let mut pass = Pass::new(own, cluster);
            nodes.retain(|node| {
                let answer = pass.passes(&prepared, attempt.pod, &cluster.node(node));
                matches!(answer, Answer::Passes | Answer::Ignored(_))
            });
            passes.push(pass);
        }
        self.count(&prepared, &passes);
        Ok(())
    }

    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let prepared = self.prepared(attempt);
        let reading = prepared.filter_reading();
        let as_of = self.as_of(reading, &prepared, attempt);
        let scope = if reading.pod_name || (reading.domain && !prepared.failed.is_empty()) {
            FilterScope::Cluster
        } else if reading.domain {
            FilterScope::Tier
        } else {
            as_of.map_or(FilterScope::Node, FilterScope::NodeAsOf)
        };
        // Whether pods matter is the same for all pods.
        let all = prepared.rules.filter_reading;
        let dependence = Dependence::on(scope);
        let dependence =
            if all.pods || all.domain { dependence } else { dependence.without_pods() };
        Some(if all.pod { dependence } else { dependence.of_requests() })
    }

    fn details(&self, attempt: &Attempt<'_>, rejected: &NodeBits) -> Vec<Detail> {
        details::of_rejected(&self.prepared(attempt), attempt, rejected)
    }

    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let prepared = self.prepared(attempt);
        let cluster = attempt.handle.cluster;
        for (node, key) in keys.nodes.iter().zip(keys.values) {
            let (rules, view) = (&prepared.rules.filters, cluster.node(*node));
            *key = prepared.key(rules, &prepared.filters, attempt.pod, &view);
        }
        Ok(())
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let prepared = self.prepared(attempt);
        let cluster = attempt.handle.cluster;
        let mut passes: Vec<_> =
            prepared.filters.iter().map(|own| Pass::new(own, cluster)).collect();
        for node in rejected.iter() {
            let view = cluster.node(node);
            verdicts.record(node, prepared.first_rejection(attempt.pod, &view, &mut passes));
        }
    }
}

impl Rules {
    fn count(&self, prepared: &Prepared, passes: &[Pass<'_>]) {
        let series = self.metrics.series_of(&prepared.rules);
        for pass in passes.iter().filter(|pass| pass.tally.evaluations > 0) {
            series.filters[pass.own.place].count(&pass.tally);
        }
    }

    /// Writes the score of each node.
    fn write_scores(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) {
        let prepared = self.prepared(attempt);
        let cluster = attempt.handle.cluster;
        let rules = &prepared.rules.scores;
        let series = self.metrics.series_of(&prepared.rules);
        let mut weights = 0;
        scores.values.fill(0);
        for own in &prepared.scores {
            let rule = &rules[own.place];
            let Effect::Score { weight } = rule.effect else { continue };
            weights += weight;
            let counts = own.counts(cluster);
            let mut tally = Tally::default();
            for (node, score) in scores.nodes.iter().zip(&mut *scores.values) {
                let view = cluster.node(*node);
                let evaluated = prepared.evaluate(rule, own, attempt.pod, &view, &counts);
                tally.evaluations += 1;
                tally.cost += evaluated.cost;
                tally.errors += u64::from(evaluated.result.is_err());
                *score += weight * evaluated.result.map_or(0, points);
            }
            series.scores[own.place].count(&tally);
        }
        if weights > 1 {
            scores.values.iter_mut().for_each(|score| *score /= weights);
        }
    }
}

/// Returns the result of a score, from 0 to 100.
pub(crate) fn points(verdict: Verdict) -> i64 {
    match verdict {
        Verdict::Int(number) => number.clamp(0, 100),
        // A NaN becomes 0.
        Verdict::Double(number) => number.clamp(0.0, 100.0) as i64,
        Verdict::Bool(_) => 0,
    }
}

/// What keys depend on beside the node and the pods on it.
trait AsOf: Clone + PartialEq + Send + Sync + 'static {
    /// Asks for the keys of all nodes if the value differs from that of the last attempt.
    fn compare(self, state: &mut CycleState) {
        if state.read::<Self>().is_some() {
            return;
        }
        let kept = state.take_kept::<Self>();
        if kept.is_none_or(|(kept, _)| kept != self) {
            state.rekey();
        }
        if state.keeps() {
            state.keep(self.clone(), 2);
        }
        state.write_for_search(self);
    }
}

#[derive(Clone, PartialEq)]
struct FilterAsOf(Option<u64>);

#[derive(Clone, PartialEq)]
struct ScoreAsOf(Option<u64>);

impl AsOf for FilterAsOf {}
impl AsOf for ScoreAsOf {}

impl Score for Rules {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let mut values = [0];
        self.write_scores(attempt, PerNode::new(&[node.ix()], &mut values));
        Ok(values[0])
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        self.write_scores(attempt, scores);
        Ok(())
    }

    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let prepared = self.prepared(attempt);
        if !prepared.score_reading().domain {
            self.write_scores(attempt, keys);
            return Ok(());
        }
        let cluster = attempt.handle.cluster;
        for (node, key) in keys.nodes.iter().zip(keys.values) {
            let (rules, view) = (&prepared.rules.scores, cluster.node(*node));
            *key = prepared.key(rules, &prepared.scores, attempt.pod, &view);
        }
        Ok(())
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let prepared = self.prepared(&attempt.as_ref());
        let reading = prepared.score_reading();
        let all = prepared.rules.score_reading;
        let as_of = self.as_of(reading, &prepared, &attempt.as_ref());
        let scope = if reading.pod_name {
            ScoreScope::Cluster
        } else if as_of.is_none() && !reading.domain {
            ScoreScope::Node
        } else {
            ScoreAsOf(as_of).compare(attempt.state);
            ScoreScope::Tier
        };
        let dependence = Dependence::on(scope);
        let dependence =
            if all.pods || all.domain { dependence } else { dependence.without_pods() };
        Some(if all.pod { dependence } else { dependence.of_requests() })
    }
}
