//! What explanations say about rules: the values that a rule read on the nodes that it rejects, and
//! a node on which it is true.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::{FactRead, FactType};
use framework::{Attempt, Cluster, Detail, NodeBits, NodeView, Remedy};

use crate::facts::{FACTS, SOURCES, Source};
use crate::prepared::{Answer, Asked, Asking, Prepared};
use crate::subject::Subject;

/// Maximum number of groups of nodes, by the value of a rule, in the details about the rule.
const MOST_VALUES: usize = 16;

/// Returns the details about the nodes that rules reject.
pub(crate) fn of_rejected(
    prepared: &Prepared,
    attempt: &Attempt<'_>,
    rejected: &NodeBits,
) -> Vec<Detail> {
    let cluster = attempt.handle.cluster;
    let mut details: Vec<Detail> = prepared
        .failed
        .iter()
        .map(|(place, error)| {
            let name = &prepared.rules.filters[*place].name;
            let text = format!("rule {name}: match: {error}");
            Detail { text, nodes: rejected.clone(), remedies: Vec::new() }
        })
        .collect();
    for asked in prepared.asked_filters(Asking::of(attempt)) {
        let rule = Told(asked);
        let mut by_text: BTreeMap<String, NodeBits> = BTreeMap::new();
        let mut all = NodeBits::with_len(cluster.table_len());
        for node in rejected.iter() {
            let Some(text) = rule.text(&cluster.node(node)) else { continue };
            all.insert(node);
            let is_known = by_text.len() < MOST_VALUES || by_text.contains_key(&text);
            let text = if is_known { text } else { format!("{}: other values", rule.name()) };
            let nodes = by_text.entry(text);
            nodes.or_insert_with(|| NodeBits::with_len(cluster.table_len())).insert(node);
        }
        if by_text.is_empty() {
            continue;
        }
        let example = rule.example(cluster);
        details.extend(by_text.into_iter().map(|(text, nodes)| {
            let first = nodes.iter().next().map(|node| cluster.node(node));
            let remedies = first.map(|node| rule.remedies(&node, example.as_ref()));
            Detail { text, nodes, remedies: remedies.unwrap_or_default() }
        }));
        let text = example.and_then(|node| rule.text_of_example(&node));
        details.extend(text.map(|text| Detail { text, nodes: all, remedies: Vec::new() }));
    }
    details
}

/// A filter that is explained.
struct Told<'a>(Asked<'a>);

impl Told<'_> {
    fn name(&self) -> String {
        format!("rule {}", self.0.rule.name)
    }

    fn answer(&self, node: &NodeView<'_>) -> Answer {
        self.0.answer(node).0
    }

    /// Returns why the rule rejects a node; `None` if it does not.
    fn text(&self, node: &NodeView<'_>) -> Option<String> {
        match self.answer(node) {
            Answer::Passes | Answer::Ignored(_) => None,
            Answer::Fails(error) => Some(format!("{}: {error}", self.name())),
            Answer::Rejects => match self.values(node) {
                values if values.is_empty() => Some(format!("{} is false", self.name())),
                values => Some(format!("{} is false: {values}", self.name())),
            },
        }
    }

    /// Returns a node on which the rule is true.
    fn example<'c>(&self, cluster: &'c Cluster) -> Option<NodeView<'c>> {
        let mut nodes = cluster.nodes().iter().map(|node| cluster.node(node));
        nodes.find(|node| matches!(self.answer(node), Answer::Passes))
    }

    fn text_of_example(&self, node: &NodeView<'_>) -> Option<String> {
        let values = self.values(node);
        (!values.is_empty())
            .then(|| format!("{} is true on the node {}: {values}", self.name(), node.name()))
    }

    /// Returns changes of a node after which the rule may be true there: labels with the value that
    /// they are compared with, or that a node has on which the rule is true, and no taints whose
    /// key is compared.
    fn remedies(&self, node: &NodeView<'_>, example: Option<&NodeView<'_>>) -> Vec<Remedy> {
        let rule = self.0.rule;
        let compared = self.0.own.compared(rule);
        let mut remedies = Vec::new();
        for read in rule.expression.reads() {
            let texts = compared.iter().filter(|own| own.read == *read).map(|own| &own.text);
            match (SOURCES[read.fact], &read.key) {
                (Source::NodeLabels, Some(key)) => {
                    let of_example = example.map(|node| node.label(key).map(Arc::from));
                    let values = texts.map(|text| Some(text.clone())).chain(of_example);
                    for value in values.chain([Some("true".into()), None]) {
                        let is_new = value.as_deref() != node.label(key);
                        let remedy = Remedy::Label { key: (**key).into(), value };
                        if is_new && !remedies.contains(&remedy) {
                            remedies.push(remedy);
                        }
                    }
                }
                (Source::NodeTaints, _) => {
                    let is_there =
                        |key: &&Arc<str>| node.taints().iter().any(|taint| taint.key == **key);
                    let keys = texts.filter(is_there);
                    remedies.extend(keys.map(|key| Remedy::NoTaint(key.clone())));
                }
                _ => {}
            }
        }
        remedies
    }

    /// Returns what the rule reads of a node.
    fn values(&self, node: &NodeView<'_>) -> String {
        let subject = self.0.subject(node);
        let (rule, counts) = (self.0.rule, &self.0.counts);
        let of_node = rule.expression.reads().iter().filter(|read| FACTS[read.fact].varies);
        let mut values: Vec<String> = of_node.filter_map(|read| value_of(&subject, read)).collect();
        let counted = counts.iter().filter_map(|count| count.at(node).ok());
        values.extend(counted.map(|count| format!("{count} pods are counted")));
        values.join(", ")
    }
}

fn value_of(subject: &Subject<'_>, read: &FactRead) -> Option<String> {
    let fact = &FACTS[read.fact];
    let is_map = matches!(fact.fact_type, FactType::Texts | FactType::Quantities);
    let name = match &read.key {
        Some(key) => format!("{}[{key:?}]", fact.path),
        None if is_map || SOURCES[read.fact] == Source::NodeName => return None,
        None => fact.path.to_owned(),
    };
    Some(format!("{name} is {}", subject.text(read)))
}
