//! The plugin.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use cel::Verdict;
use framework::{
    ActionType, ArgumentsFeed, Attempt, AttemptMut, Cluster, ClusterEvent, CycleState, Dependence,
    Detail, EventResource, Feed, Filter, FilterScope, Handle, NodeBits, NodeView, PerNode, Plugin,
    PluginArgs, Pod, PodKey, PodQuery, PreFilter, PreFilterResult, Score, ScoreScope,
    StandingQueries, Status, Template, Uid, Verdicts,
};

use crate::args::RulesArgs;
use crate::details;
use crate::metrics::{Metrics, Tally};
use crate::prepared::{self, Answer, Asked, Asking, Prepared, limit, now, write_keys};
use crate::reading::Reading;
use crate::reloads::{NewRules, Reloads, kind_of};
use crate::rule_set::{Effect, RuleSet};

/// Maximum number of templates for which the rules that apply are kept.
const RECENT_MAX: usize = 8;

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
    /// What was prepared for the last templates of pods, the last one first.
    recent: Mutex<Vec<Recent>>,
    /// Pods to which a rule applies that reads the time.
    pub(crate) waiting: Mutex<BTreeMap<Uid, Waiting>>,
}

/// The rules that apply to the pods of a template.
#[derive(Debug)]
struct Recent {
    template: Template,
    prepared: Arc<Prepared>,
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
    let plugin = Rules {
        started: rules,
        kind: kind.clone(),
        metrics,
        recent: Mutex::default(),
        waiting: Mutex::default(),
    };
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
    let fields = &needs.fields;
    builder = fields.pod.iter().fold(builder, |builder, field| builder.keep_pod_field(field));
    builder = fields.node.iter().fold(builder, |builder, field| builder.keep_node_field(field));
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
        let rules = self.rules(handle.cluster);
        let new = || {
            let prepared = Prepared::new(self.metrics.series_of(&rules), pod, handle);
            prepared.count_pod();
            Arc::new(prepared)
        };
        let reading = rules.filter_reading.or(rules.score_reading);
        if reading.pod_name || reading.namespace || reading.domain {
            return new();
        }
        let (now, limit) = (now(&rules, handle), limit(&rules, handle.cluster));
        let template = Template::of(pod);
        let serves = |Recent { template: own, prepared }: &&Recent| {
            Arc::ptr_eq(&prepared.rules, &rules)
                && (prepared.now, prepared.limit) == (now, limit)
                && *own == template
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recent.iter().find(serves) {
            return known.prepared.clone();
        }
        let prepared = new();
        recent.truncate(RECENT_MAX - 1);
        recent.insert(0, Recent { template, prepared: prepared.clone() });
        prepared
    }

    fn prepared(&self, attempt: &Attempt<'_>) -> Arc<Prepared> {
        Prepared::of(attempt.state, || self.prepare(attempt.pod, attempt.handle))
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
            prepared::queries(&rules, pod, handle)
        } else {
            Vec::new()
        }
    }
}

/// A filter in a pass over many nodes.
struct Pass<'a> {
    asked: Asked<'a>,
    tally: Tally,
}

impl<'a> Pass<'a> {
    fn new(asked: Asked<'a>) -> Self {
        Self { asked, tally: Tally::default() }
    }

    fn answer(&mut self, node: &NodeView<'_>) -> Answer {
        let (answer, cost) = self.asked.answer(node);
        self.tally.evaluations += 1;
        self.tally.cost += cost;
        self.tally.rejections += u64::from(matches!(answer, Answer::Rejects | Answer::Fails(_)));
        self.tally.errors += u64::from(matches!(answer, Answer::Fails(_) | Answer::Ignored(_)));
        answer
    }

    fn status(&mut self, node: &NodeView<'_>) -> Status {
        let answer = self.answer(node);
        let (prepared, place) = (self.asked.prepared, self.asked.own.place);
        match answer {
            Answer::Passes | Answer::Ignored(_) => Status::success(),
            Answer::Rejects => prepared.rejection(place, None),
            Answer::Fails(error) => prepared.rejection(place, Some(&error)),
        }
    }

    /// Adds the pass to the metrics.
    fn count(&self) {
        self.asked.prepared.series.filters[self.asked.own.place].count(&self.tally);
    }
}

impl Prepared {
    /// Returns the verdict of all filters on a node.
    pub(crate) fn verdict(&self, pod: &Pod, node: &NodeView<'_>) -> Status {
        let asked = self.asked_filters(Asking { pod, cluster: node.cluster() });
        self.first_rejection(asked.map(|asked| Pass::new(asked).status(node)))
    }

    /// Returns the first of these verdicts of filters that is a rejection.
    fn first_rejection(&self, mut statuses: impl Iterator<Item = Status>) -> Status {
        match self.failed.first() {
            Some((place, error)) => self.rejection(*place, Some(error)),
            None => statuses.find(|own| !own.is_success()).unwrap_or_else(Status::success),
        }
    }

    /// Counts what was evaluated for a whole pod.
    fn count_pod(&self) {
        let filters = self.filters.iter().map(|own| (own, &self.series.filters[own.place]));
        let scores = self.scores.iter().map(|own| (own, &self.series.scores[own.place]));
        for (own, series) in filters.chain(scores).filter(|(own, _)| own.cost() > 0) {
            series.count(&Tally { cost: own.cost(), ..Tally::default() });
        }
    }
}

impl Filter for Rules {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let prepared = self.prepared(attempt);
        let counted = |asked| {
            let mut pass = Pass::new(asked);
            let status = pass.status(node);
            pass.count();
            status
        };
        prepared.first_rejection(prepared.asked_filters(Asking::of(attempt)).map(counted))
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let prepared = self.prepared(attempt);
        let cluster = attempt.handle.cluster;
        if !prepared.failed.is_empty() {
            *nodes = NodeBits::with_len(cluster.table_len());
            return Ok(());
        }
        for asked in prepared.asked_filters(Asking::of(attempt)) {
            let mut pass = Pass::new(asked);
            nodes.retain(|node| {
                matches!(pass.answer(&cluster.node(node)), Answer::Passes | Answer::Ignored(_))
            });
            pass.count();
        }
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
        write_keys(self.prepared(attempt).asked_filters(Asking::of(attempt)), keys);
        Ok(())
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let prepared = self.prepared(attempt);
        let cluster = attempt.handle.cluster;
        let mut passes: Vec<_> =
            prepared.asked_filters(Asking::of(attempt)).map(Pass::new).collect();
        for node in rejected.iter() {
            let view = cluster.node(node);
            let statuses = passes.iter_mut().map(|pass| pass.status(&view));
            verdicts.record(node, prepared.first_rejection(statuses));
        }
    }
}

impl Rules {
    /// Writes the score of each node.
    fn write_scores(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) {
        let prepared = self.prepared(attempt);
        let cluster = attempt.handle.cluster;
        let mut weights = 0;
        scores.values.fill(0);
        for asked in prepared.asked_scores(Asking::of(attempt)) {
            let Effect::Score { weight } = asked.rule.effect else { continue };
            weights += weight;
            let mut tally = Tally::default();
            for (node, score) in scores.nodes.iter().zip(&mut *scores.values) {
                let evaluated = asked.evaluate(&cluster.node(*node));
                tally.evaluations += 1;
                tally.cost += evaluated.cost;
                tally.errors += u64::from(evaluated.result.is_err());
                *score += weight * evaluated.result.map_or(0, points);
            }
            prepared.series.scores[asked.own.place].count(&tally);
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

    fn explain(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Option<String> {
        let prepared = self.prepared(attempt);
        let text = |asked: Asked<'_>| match asked.evaluate(node).result {
            Ok(verdict) => format!("{} {}", asked.rule.name, points(verdict)),
            Err(error) => format!("{} 0: {error}", asked.rule.name),
        };
        let texts: Vec<_> = prepared.asked_scores(Asking::of(attempt)).map(text).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let prepared = self.prepared(attempt);
        if !prepared.score_reading().domain {
            self.write_scores(attempt, keys);
        } else {
            write_keys(prepared.asked_scores(Asking::of(attempt)), keys);
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
