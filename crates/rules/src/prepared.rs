//! The rules that apply to a pod, with what is the same for all nodes.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use cel::{BoundCall, Compared, EvalError, Evaluated, FactRead, Verdict};
use framework::{
    Attempt, Cluster, CycleState, Handle, NodeColumn, NodeView, PerNode, Pod, PodCount, PodQuery,
    Status, Topology,
};

use crate::args::OnError;
use crate::facts::{NOW, PODS_IN_DOMAIN, PODS_ON_NODE};
use crate::metrics::SeriesOfRules;
use crate::reading::Reading;
use crate::rule_set::{Effect, Rule, RuleSet};
use crate::selector;
use crate::subject::{Column, Subject};

/// The rules that apply to the pod of an attempt.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) rules: Arc<RuleSet>,
    pub(crate) series: Arc<SeriesOfRules>,
    /// `now()`, in seconds since the epoch.
    pub(crate) now: i64,
    /// Maximum cost of one rule for one node.
    pub(crate) limit: u64,
    pub(crate) filters: Vec<Applying>,
    pub(crate) scores: Vec<Applying>,
    /// The filters that do not apply because their `match` has no result, with the error.
    pub(crate) failed: Vec<(usize, EvalError)>,
}

/// The value in the cycle state.
#[derive(Clone)]
struct Held(Arc<Prepared>);

/// A rule that applies to the pod.
#[derive(Debug)]
pub(crate) struct Applying {
    /// The place of the rule.
    pub(crate) place: usize,
    values: cel::Prepared,
    calls: Vec<Call>,
}

/// A question about placed pods.
#[derive(Debug)]
enum Call {
    OnNode(PodQuery),
    InDomain {
        query: PodQuery,
        key: Arc<str>,
        /// The number of pods of each domain, by its index.
        sums: OnceLock<Vec<i64>>,
    },
    Failed(String),
}

/// The answer to a question about placed pods, for each node.
pub(crate) enum Count<'a> {
    OnNode(&'a PodQuery, Cow<'a, NodeColumn<PodCount>>),
    InDomain { query: &'a PodQuery, topology: Option<Topology<'a>>, key: &'a str, sums: &'a [i64] },
    Failed(&'a str),
}

/// What a filter says about a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Passes,
    Rejects,
    /// The expression has no result, and the rule rejects such nodes.
    Fails(EvalError),
    /// The expression has no result, and the rule ignores that.
    Ignored(EvalError),
}

impl Prepared {
    /// Returns what was prepared for the attempt, or prepares it.
    pub(crate) fn of(state: &CycleState, prepare: impl FnOnce() -> Arc<Self>) -> Arc<Self> {
        state.read::<Held>().map_or_else(prepare, |held| held.0.clone())
    }

    /// Keeps the value for the other extension points of the attempt.
    pub(crate) fn write(self: &Arc<Self>, state: &mut CycleState) {
        state.write_for_search(Held(self.clone()));
    }

    /// Evaluates what is the same for all nodes.
    pub(crate) fn new(series: Arc<SeriesOfRules>, pod: &Pod, handle: &Handle<'_>) -> Self {
        let rules = series.rules.clone();
        let subject = of_pod(&rules, pod, handle);
        let (now, limit) = (subject.now, limit(&rules, handle.cluster));
        let mut failed = Vec::new();
        let mut apply = |(place, rule): (usize, &Rule)| match rule.applies(&subject) {
            Ok(false) => None,
            Ok(true) => Some(Applying::new(place, rule, &subject)),
            Err(error) => {
                if matches!(rule.effect, Effect::Filter { on_error: OnError::Reject, .. }) {
                    failed.push((place, error));
                }
                None
            }
        };
        let filters = rules.filters.iter().enumerate().filter_map(&mut apply).collect();
        let scores = rules.scores.iter().enumerate().filter_map(&mut apply).collect();
        Self { now, limit, filters, scores, failed, rules: rules.clone(), series }
    }

    /// Returns whether no filter has anything to say about the pod.
    pub(crate) fn filters_nothing(&self) -> bool {
        self.filters.is_empty() && self.failed.is_empty()
    }

    /// Returns what the filters that apply read.
    pub(crate) fn filter_reading(&self) -> Reading {
        let applying = self.filters.iter().map(|own| own.place);
        let places = applying.chain(self.failed.iter().map(|(place, _)| *place));
        places.fold(Reading::default(), |all, place| all.or(self.rules.filters[place].reading))
    }

    /// Returns what the scores that apply read.
    pub(crate) fn score_reading(&self) -> Reading {
        let places = self.scores.iter().map(|own| own.place);
        places.fold(Reading::default(), |all, place| all.or(self.rules.scores[place].reading))
    }

    /// Returns the filters that apply.
    pub(crate) fn applying_filters(&self) -> impl Iterator<Item = &Rule> {
        let applying = self.filters.iter().map(|own| own.place);
        let places = applying.chain(self.failed.iter().map(|(place, _)| *place));
        places.map(|place| &self.rules.filters[place])
    }

    /// Returns whether a filter that applies reads the requests of the pods on a node.
    pub(crate) fn counts_usage(&self) -> bool {
        self.applying_filters().any(|rule| rule.reads_usage())
    }

    /// Returns whether a filter counts pods on a node that `selected` accepts.
    pub(crate) fn counts_on_node(&self, selected: impl Fn(&PodQuery) -> bool) -> bool {
        let mut calls = self.filters.iter().flat_map(|own| &own.calls);
        calls.any(|call| matches!(call, Call::OnNode(query) if selected(query)))
    }

    /// Returns the keys of the domains in which a filter counts pods that `selected` accepts.
    pub(crate) fn domains_counting(
        &self,
        selected: impl Fn(&PodQuery) -> bool,
    ) -> impl Iterator<Item = &str> {
        let calls = self.filters.iter().flat_map(|own| &own.calls);
        calls.filter_map(move |call| match call {
            Call::InDomain { query, key, .. } if selected(query) => Some(&**key),
            _ => None,
        })
    }

    /// Returns the keys of the domains in which a filter counts pods.
    pub(crate) fn domain_keys(&self) -> impl Iterator<Item = &str> {
        self.domains_counting(|_| true)
    }

    /// Returns the filters that apply, with what they need for the nodes of the cluster.
    pub(crate) fn asked_filters<'a>(
        &'a self,
        asking: Asking<'a>,
    ) -> impl Iterator<Item = Asked<'a>> {
        self.filters.iter().map(move |own| self.asked(&self.rules.filters[own.place], own, asking))
    }

    /// Returns the scores that apply, in the same way.
    pub(crate) fn asked_scores<'a>(
        &'a self,
        asking: Asking<'a>,
    ) -> impl Iterator<Item = Asked<'a>> {
        self.scores.iter().map(move |own| self.asked(&self.rules.scores[own.place], own, asking))
    }

    fn asked<'a>(&'a self, rule: &'a Rule, own: &'a Applying, asking: Asking<'a>) -> Asked<'a> {
        let Asking { pod, cluster } = asking;
        let column = |read: &'a FactRead| Column::of(read, &self.rules, cluster);
        let columns = rule.expression.reads().iter().map(column).collect();
        let counts = own.calls.iter().map(|call| call.count(cluster)).collect();
        Asked { prepared: self, rule, own, pod, cluster, columns, counts }
    }

    /// Returns the status of a node that a filter rejects.
    pub(crate) fn rejection(&self, place: usize, error: Option<&EvalError>) -> Status {
        let rule = &self.rules.filters[place];
        let reason = match (error, &rule.effect) {
            (Some(error), _) => {
                format!("the rule {} failed: {}", rule.name, without_quoted(&error.to_string()))
            }
            (None, Effect::Filter { message, .. }) => message.to_string(),
            (None, Effect::Score { .. }) => rule.name.to_string(),
        };
        // Evicting pods helps only a rule that counts them.
        if rule.reading.pods || rule.reading.domain {
            Status::unschedulable(reason)
        } else {
            Status::unresolvable(reason)
        }
    }
}

/// The pod and the cluster for which rules are asked.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) cluster: &'a Cluster,
}

impl<'a> Asking<'a> {
    /// Returns those of an attempt.
    pub(crate) fn of(attempt: &Attempt<'a>) -> Self {
        Self { pod: attempt.pod, cluster: attempt.handle.cluster }
    }
}

/// A rule that is asked about nodes.
pub(crate) struct Asked<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) rule: &'a Rule,
    pub(crate) own: &'a Applying,
    pod: &'a Pod,
    cluster: &'a Cluster,
    columns: Vec<Column<'a>>,
    pub(crate) counts: Vec<Count<'a>>,
}

impl Asked<'_> {
    /// Returns what the rule reads on a node.
    pub(crate) fn subject<'s>(&'s self, node: &NodeView<'s>) -> Subject<'s> {
        Subject {
            rules: &self.prepared.rules,
            pod: self.pod,
            cluster: self.cluster,
            now: self.prepared.now,
            node: Some(*node),
            counts: &self.counts,
            columns: &self.columns,
        }
    }

    /// Evaluates the rule for a node.
    pub(crate) fn evaluate(&self, node: &NodeView<'_>) -> Evaluated {
        let subject = self.subject(node);
        self.rule.expression.evaluate(&subject, &self.own.values, self.prepared.limit)
    }

    /// Returns the answer of a filter, with its cost.
    pub(crate) fn answer(&self, node: &NodeView<'_>) -> (Answer, u64) {
        let Evaluated { result, cost } = self.evaluate(node);
        let answer = match (result, &self.rule.effect) {
            (Ok(Verdict::Bool(true)), _) => Answer::Passes,
            (Ok(_), _) => Answer::Rejects,
            (Err(error), Effect::Filter { on_error: OnError::Ignore, .. }) => {
                Answer::Ignored(error)
            }
            (Err(error), _) => Answer::Fails(error),
        };
        (answer, cost)
    }

    /// Adds the key of a node: nodes with equal keys have equal answers. A rule that counts pods in
    /// a domain adds its domain and what else it reads; any other rule its result.
    pub(crate) fn hash_key(&self, node: &NodeView<'_>, hasher: &mut DefaultHasher) {
        if !self.rule.reading.domain {
            match self.evaluate(node).result {
                Ok(verdict) => verdict.to_string().hash(hasher),
                Err(error) => (false, error.to_string()).hash(hasher),
            }
            return;
        }
        for count in &self.counts {
            count.hash_key(node, hasher);
        }
        let subject = self.subject(node);
        for read in self.rule.expression.reads() {
            subject.text(read).hash(hasher);
        }
    }
}

/// Writes the keys of nodes for these rules.
pub(crate) fn write_keys<'a>(asked: impl Iterator<Item = Asked<'a>>, keys: PerNode<'_>) {
    let asked: Vec<_> = asked.collect();
    let Some(cluster) = asked.first().map(|own| own.cluster) else { return };
    for (node, key) in keys.nodes.iter().zip(keys.values) {
        let (view, mut hasher) = (cluster.node(*node), DefaultHasher::new());
        asked.iter().for_each(|own| own.hash_key(&view, &mut hasher));
        *key = hasher.finish().cast_signed();
    }
}

/// Returns what rules read of a pod.
fn of_pod<'a>(rules: &'a RuleSet, pod: &'a Pod, handle: &Handle<'a>) -> Subject<'a> {
    let (cluster, now) = (handle.cluster, now(rules, handle));
    Subject { rules, pod, cluster, now, node: None, counts: &[], columns: &[] }
}

/// Returns the pods that rules count.
pub(crate) fn queries(rules: &RuleSet, pod: &Pod, handle: &Handle<'_>) -> Vec<PodQuery> {
    let subject = of_pod(rules, pod, handle);
    let counting = rules.rules().filter(|rule| rule.expression.calls().iter().any(|it| *it != NOW));
    // A rule whose `match` fails asks nothing.
    let applying = counting.filter(|rule| rule.applies(&subject) == Ok(true));
    let calls = applying.flat_map(|rule| Applying::new(0, rule, &subject).calls);
    calls.filter_map(|call| call.query().cloned()).collect()
}

impl Rule {
    /// Returns whether the rule applies to a pod.
    fn applies(&self, subject: &Subject<'_>) -> Result<bool, EvalError> {
        let Some(expression) = &self.applies_to else { return Ok(true) };
        let limit = subject.rules.args.cost_limit;
        let values = expression.prepare(subject, limit);
        let Evaluated { result, .. } = expression.evaluate(subject, &values, limit);
        result.map(|verdict| verdict == Verdict::Bool(true))
    }
}

impl Applying {
    fn new(place: usize, rule: &Rule, subject: &Subject<'_>) -> Self {
        let values = rule.expression.prepare(subject, subject.rules.args.cost_limit);
        let calls = values.calls().iter().map(|call| Call::new(call, subject)).collect();
        Self { place, values, calls }
    }

    /// Returns the texts with which the rule compares what it reads of nodes.
    pub(crate) fn compared(&self, rule: &Rule) -> Vec<Compared> {
        rule.expression.compared(&self.values)
    }

    /// Returns the cost of the parts that are the same for all nodes.
    pub(crate) fn cost(&self) -> u64 {
        self.values.cost
    }
}

impl Call {
    fn new(call: &Result<BoundCall, EvalError>, subject: &Subject<'_>) -> Self {
        match Self::parsed(call, subject) {
            Ok(call) => call,
            Err(text) => Self::Failed(text),
        }
    }

    fn parsed(call: &Result<BoundCall, EvalError>, subject: &Subject<'_>) -> Result<Self, String> {
        let BoundCall { function, args } = call.as_ref().map_err(ToString::to_string)?;
        let own = &subject.pod.key.namespace;
        let texts: Vec<&str> = args.iter().map(|arg| &**arg).collect();
        match (*function, &texts[..]) {
            (PODS_ON_NODE, [selector, rest @ ..]) => {
                Ok(Self::OnNode(selector::query(selector, rest.first().copied(), own)?))
            }
            (PODS_IN_DOMAIN, [key, selector, rest @ ..]) => {
                let query = selector::query(selector, rest.first().copied(), own)?;
                Ok(Self::InDomain { query, key: (*key).into(), sums: OnceLock::new() })
            }
            _ => Err("the function is not known".to_owned()),
        }
    }

    /// Returns the answer for each node.
    fn count<'a>(&'a self, cluster: &'a Cluster) -> Count<'a> {
        match self {
            Self::OnNode(query) => Count::OnNode(query, cluster.matching_pods(query)),
            Self::InDomain { query, key, sums } => {
                let sums = sums.get_or_init(|| self::sums(cluster, key, query));
                Count::InDomain { query, topology: cluster.topology(key), key, sums }
            }
            Self::Failed(text) => Count::Failed(text),
        }
    }

    fn query(&self) -> Option<&PodQuery> {
        match self {
            Self::OnNode(query) | Self::InDomain { query, .. } => Some(query),
            Self::Failed(_) => None,
        }
    }
}

/// Returns the number of pods in each domain.
fn sums(cluster: &Cluster, key: &str, query: &PodQuery) -> Vec<i64> {
    let Some(topology) = cluster.topology(key) else { return Vec::new() };
    let mut sums = vec![0; topology.len()];
    for (node, count) in cluster.matching_pods(query).iter() {
        if let Some(domain) = topology.domain_of(node) {
            sums[domain.index()] += i64::from(count.live);
        }
    }
    sums
}

impl Count<'_> {
    /// Adds what tells the count on a node from that on another.
    fn hash_key(&self, node: &NodeView<'_>, hasher: &mut DefaultHasher) {
        match self {
            Self::OnNode(..) => self.at(node).hash(hasher),
            Self::InDomain { topology, .. } => {
                topology.and_then(|topology| topology.domain_of(node.ix())).hash(hasher);
            }
            Self::Failed(_) => {}
        }
    }

    /// Returns the number for a node, with the pods that a dry run adds and removes.
    pub(crate) fn at(&self, node: &NodeView<'_>) -> Result<i64, String> {
        match self {
            Self::OnNode(query, column) => {
                Ok(i64::from(column.get(node.ix()).live) + tried(query, node))
            }
            Self::InDomain { query, topology, key, sums } => {
                let domain = topology.and_then(|topology| topology.domain_of(node.ix()));
                let domain = domain.ok_or_else(|| format!("the node has no label {key}"))?;
                let sum = sums.get(domain.index()).copied().unwrap_or(0);
                Ok(sum + tried(query, node))
            }
            Self::Failed(text) => Err((*text).to_owned()),
        }
    }
}

/// Returns by how many pods a dry run changes a count on a node.
fn tried(query: &PodQuery, node: &NodeView<'_>) -> i64 {
    let counts = |pod: &&Arc<Pod>| !pod.terminating && query.matches(pod);
    let added = node.added().iter().filter(counts).count() as i64;
    added - node.removed().filter(counts).count() as i64
}

/// Returns `now()` at the time of the call.
pub(crate) fn now(rules: &RuleSet, handle: &Handle<'_>) -> i64 {
    let seconds = handle.wall_time().as_nanos().div_euclid(1_000_000_000);
    seconds - seconds.rem_euclid(rules.args.now_step_seconds)
}

/// Returns the maximum cost of one rule for one node. The share of a node changes only when the
/// number of nodes doubles, so that answers stay comparable while nodes come and go.
pub(crate) fn limit(rules: &RuleSet, cluster: &Cluster) -> u64 {
    let nodes = cluster.node_count().next_power_of_two() as u64;
    rules.args.cost_limit.min((rules.args.pod_cost_limit / nodes).max(1))
}

/// Returns a text without what is quoted in it, which differs from node to node.
fn without_quoted(text: &str) -> String {
    text.split('"').step_by(2).collect::<Vec<_>>().join("…")
}
