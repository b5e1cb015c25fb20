//! What explanations say about rules: the values that a rule read on the nodes that it rejects, and
//! a node on which it is true.

use std::collections::BTreeMap;

use cel::{FactRead, FactType, FactValue, Facts};
use framework::{Attempt, Cluster, Detail, NodeBits, NodeIx, NodeView, Time};

use crate::facts::{FACTS, SOURCES, Source};
use crate::prepared::{Answer, Applying, Prepared};
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
            Detail { text: format!("rule {name}: match: {error}"), nodes: rejected.clone() }
        })
        .collect();
    for own in &prepared.filters {
        let rule = Told { prepared, own, attempt };
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
        details.extend(by_text.into_iter().map(|(text, nodes)| Detail { text, nodes }));
        if let Some(text) = rule.example(cluster).filter(|_| all.iter().next().is_some()) {
            details.push(Detail { text, nodes: all });
        }
    }
    details
}

/// A rule that is explained.
struct Told<'a> {
    prepared: &'a Prepared,
    own: &'a Applying,
    attempt: &'a Attempt<'a>,
}

impl Told<'_> {
    fn name(&self) -> String {
        format!("rule {}", self.prepared.rules.filters[self.own.place].name)
    }

    fn answer(&self, node: &NodeView<'_>) -> Answer {
        let counts = self.own.counts(node.cluster());
        self.prepared.answer(self.own, self.attempt.pod, node, &counts).0
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

    /// Returns a node on which the rule is true, with what it reads there.
    fn example(&self, cluster: &Cluster) -> Option<String> {
        let passes = |node: &NodeIx| matches!(self.answer(&cluster.node(*node)), Answer::Passes);
        let node = cluster.nodes().iter().find(passes)?;
        let node = cluster.node(node);
        let values = self.values(&node);
        (!values.is_empty())
            .then(|| format!("{} is true on the node {}: {values}", self.name(), node.name()))
    }

    /// Returns what the rule reads of a node.
    fn values(&self, node: &NodeView<'_>) -> String {
        let counts = self.own.counts(node.cluster());
        let subject = Subject {
            rules: &self.prepared.rules,
            pod: self.attempt.pod,
            cluster: node.cluster(),
            now: self.prepared.now,
            node: Some(*node),
            counts: &counts,
        };
        let rule = &self.prepared.rules.filters[self.own.place];
        let of_node = rule.expression.reads().iter().filter(|read| FACTS[read.fact].varies);
        let mut values: Vec<String> = of_node.filter_map(|read| value_of(&subject, read)).collect();
        let counted = counts.iter().filter_map(|count| count.at(node).ok());
        values.extend(counted.map(|count| format!("{count} pods are counted")));
        values.join(", ")
    }
}

fn value_of(subject: &Subject<'_>, read: &FactRead) -> Option<String> {
    let fact = &FACTS[read.fact];
    if SOURCES[read.fact] == Source::NodeName {
        return None;
    }
    let (name, value) = match &read.key {
        Some(key) => (format!("{}[{key:?}]", fact.path), subject.entry(read.fact, key)),
        None if matches!(fact.fact_type, FactType::Texts | FactType::Quantities) => return None,
        None => (fact.path.to_owned(), subject.fact(read.fact)),
    };
    Some(format!("{name} is {}", text_of(&value)))
}

fn text_of(value: &FactValue<'_>) -> String {
    match value {
        FactValue::Absent => "absent".to_owned(),
        FactValue::Bool(value) => value.to_string(),
        FactValue::Int(value) => value.to_string(),
        FactValue::Text(text) => format!("{text:?}"),
        FactValue::Seconds(seconds) => Time::from_secs(*seconds).to_string(),
        FactValue::Quantity { nanos, .. } => quantity(*nanos),
        FactValue::Map => "a map".to_owned(),
        FactValue::List(values) => {
            let texts: Vec<_> = values.iter().map(text_of).collect();
            format!("[{}]", texts.join(", "))
        }
        FactValue::Object(fields) => {
            let field =
                |(name, value): &(&str, FactValue<'_>)| format!("{name}: {}", text_of(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Prints a quantity in units, or in thousandths if it is none.
fn quantity(nanos: i128) -> String {
    const MILLI: i128 = 1_000_000;
    match nanos % (1000 * MILLI) {
        0 => (nanos / (1000 * MILLI)).to_string(),
        _ => format!("{}m", nanos / MILLI),
    }
}
