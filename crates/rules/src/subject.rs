//! The values of facts for one pod and one node.

use std::hash::{DefaultHasher, Hash};
use std::sync::Arc;

use cel::{FactRead, FactType, FactValue, Facts, ObjectType};
use framework::{Cluster, NodeView, Pod, Resources, TolerationOperator};
use serde_json::Value;

use crate::facts::{FACTS, NOW, SOURCES, Source};
use crate::prepared::Count;
use crate::rule_set::RuleSet;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The pod and the node for which rules are evaluated.
pub(crate) struct Subject<'a> {
    pub(crate) rules: &'a RuleSet,
    pub(crate) pod: &'a Pod,
    pub(crate) cluster: &'a Cluster,
    /// `now()`, in seconds since the epoch.
    pub(crate) now: i64,
    /// The node; none while the parts that do not vary are evaluated.
    pub(crate) node: Option<NodeView<'a>>,
    /// The answers of the calls of the rule.
    pub(crate) counts: &'a [Count<'a>],
}

impl Subject<'_> {
    /// Returns the kept field of a source.
    fn kept(&self, source: Source) -> Option<&Value> {
        match source {
            Source::PodField(pointer) | Source::PodMap(pointer) => self.pod.extra.get(pointer),
            Source::NodeField(pointer) | Source::NodeMap(pointer) => self.node?.extra(pointer),
            _ => None,
        }
    }

    /// Returns a value of a map of texts that is kept.
    fn kept_entry(&self, fact: usize, key: &str) -> Option<&Value> {
        let source = SOURCES[fact];
        let keyed = self.rules.keyed.iter().find(|own| own.fact == fact && *own.key == *key);
        let single = keyed.and_then(|keyed| match source {
            Source::PodMap(_) => self.pod.extra.get(&keyed.pointer),
            _ => self.node?.extra(&keyed.pointer),
        });
        single.or_else(|| self.kept(source)?.get(key))
    }

    fn amount(&self, source: Source, name: &str) -> FactValue<'_> {
        if source == Source::Requests {
            return requested(&self.pod.requests.fit, name);
        }
        let Some(node) = &self.node else { return FactValue::Absent };
        let pick = |allocatable: i64, requested: i64| match source {
            Source::Allocatable => allocatable,
            Source::Requested => requested,
            _ => allocatable.saturating_sub(requested),
        };
        match name {
            "cpu" => milli(pick(node.allocatable().milli_cpu, node.requested().milli_cpu)),
            "memory" => units(pick(node.allocatable().memory, node.requested().memory)),
            "ephemeral-storage" => {
                let allocatable = node.allocatable().ephemeral_storage;
                units(pick(allocatable, node.requested().ephemeral_storage))
            }
            "pods" => units(pick(node.allowed_pods(), node.pod_count())),
            name => {
                let amount = node.scalar(name);
                match amount.allocatable == 0 && amount.requested == 0 {
                    true => FactValue::Absent,
                    false => units(pick(amount.allocatable, amount.requested)),
                }
            }
        }
    }

    fn resource_names(&self, source: Source) -> Vec<Arc<str>> {
        let scalars = match (source, &self.node) {
            (Source::Requests, _) => self.pod.requests.fit.scalars.clone(),
            (_, Some(node)) => node.cluster().to_node(node.ix()).allocatable.scalars,
            (_, None) => Box::default(),
        };
        let mut names: Vec<Arc<str>> = scalars.iter().map(|(name, _)| name.clone()).collect();
        names.extend(["cpu", "ephemeral-storage", "memory"].map(Arc::from));
        if source != Source::Requests {
            names.push("pods".into());
        }
        names.sort_unstable();
        names
    }
}

impl Subject<'_> {
    /// Adds the value that is read to a hash.
    pub(crate) fn hash_read(&self, read: &FactRead, hasher: &mut DefaultHasher) {
        let fact_type = FACTS[read.fact].fact_type;
        let is_map = matches!(fact_type, FactType::Texts | FactType::Quantities);
        match &read.key {
            Some(key) => format!("{:?}", self.entry(read.fact, key)).hash(hasher),
            None if is_map => format!("{:?}", self.entries(read.fact)).hash(hasher),
            None => format!("{:?}", self.fact(read.fact)).hash(hasher),
        }
    }
}

impl Facts for Subject<'_> {
    fn fact(&self, fact: usize) -> FactValue<'_> {
        let source = SOURCES[fact];
        if matches!(FACTS[fact].fact_type, FactType::Texts | FactType::Quantities) {
            return FactValue::Map;
        }
        match (source, &self.node) {
            (Source::PodName, _) => FactValue::Text(&self.pod.key.name),
            (Source::PodNamespace | Source::NamespaceName, _) => {
                FactValue::Text(&self.pod.key.namespace)
            }
            (Source::PodPriority, _) => FactValue::Int(self.pod.spec.priority.into()),
            (Source::PodSchedulerName, _) => FactValue::Text(&self.pod.spec.scheduler_name),
            (Source::PodTolerations, _) => tolerations(self.pod),
            (Source::NodeName, Some(node)) => FactValue::Text(node.name()),
            (Source::NodeTaints, Some(node)) => taints(node),
            (Source::NodeUnschedulable, Some(node)) => FactValue::Bool(node.is_unschedulable()),
            (Source::NodeFeatures, Some(node)) => {
                let features = node.declared_features().iter();
                FactValue::List(features.map(|feature| FactValue::Text(feature)).collect())
            }
            (source, _) => match self.kept(source) {
                Some(json) => from_json(json, FACTS[fact].fact_type),
                None => default(FACTS[fact].fact_type),
            },
        }
    }

    fn entry(&self, fact: usize, key: &str) -> FactValue<'_> {
        match SOURCES[fact] {
            Source::PodLabels => optional(self.pod.labels.get(key)),
            Source::NamespaceLabels => {
                optional(self.cluster.namespace_labels(&self.pod.key.namespace).get(key))
            }
            Source::NodeLabels => optional(self.node.and_then(|node| node.label(key))),
            source
            @ (Source::Requests | Source::Allocatable | Source::Requested | Source::Free) => {
                self.amount(source, key)
            }
            _ => match self.kept_entry(fact, key) {
                Some(json) => match FACTS[fact].fact_type {
                    FactType::Quantities => from_json(json, FactType::Quantity),
                    _ => from_json(json, FactType::String),
                },
                None => FactValue::Absent,
            },
        }
    }

    fn entries(&self, fact: usize) -> Vec<(Arc<str>, FactValue<'_>)> {
        let source = SOURCES[fact];
        match source {
            Source::PodLabels => pairs(&self.pod.labels),
            Source::NamespaceLabels => {
                pairs(self.cluster.namespace_labels(&self.pod.key.namespace))
            }
            Source::NodeLabels => {
                let Some(node) = &self.node else { return Vec::new() };
                let keys = node.labels().pairs().map(|(key, _)| key.clone()).collect::<Vec<_>>();
                let entry = |key: Arc<str>| {
                    let value = optional(node.label(&key));
                    (key, value)
                };
                keys.into_iter().map(entry).collect()
            }
            Source::Requests | Source::Allocatable | Source::Requested | Source::Free => {
                let names = self.resource_names(source).into_iter();
                let entry = |name: Arc<str>| {
                    let value = self.amount(source, &name);
                    (name, value)
                };
                names.map(entry).filter(|(_, value)| !matches!(value, FactValue::Absent)).collect()
            }
            _ => {
                let Some(Value::Object(map)) = self.kept(source) else { return Vec::new() };
                let value_type = match FACTS[fact].fact_type {
                    FactType::Quantities => FactType::Quantity,
                    _ => FactType::String,
                };
                map.iter()
                    .map(|(key, json)| (key.as_str().into(), from_json(json, value_type)))
                    .collect()
            }
        }
    }

    fn call(&self, function: usize, _args: &[&str]) -> Result<FactValue<'_>, String> {
        match function {
            NOW => Ok(FactValue::Seconds(self.now)),
            _ => Err("the function has no result without a node".to_owned()),
        }
    }

    fn bound(&self, call: usize) -> Result<FactValue<'_>, String> {
        let (Some(count), Some(node)) = (self.counts.get(call), &self.node) else {
            return Err("the count is not known".to_owned());
        };
        count.at(node).map(FactValue::Int)
    }
}

fn optional(text: Option<&str>) -> FactValue<'_> {
    text.map_or(FactValue::Absent, FactValue::Text)
}

fn pairs(labels: &framework::Labels) -> Vec<(Arc<str>, FactValue<'_>)> {
    labels.pairs().map(|(key, value)| (key.clone(), FactValue::Text(value))).collect()
}

fn requested(requests: &Resources, name: &str) -> FactValue<'static> {
    match name {
        "cpu" => milli(requests.milli_cpu),
        "memory" => units(requests.memory),
        "ephemeral-storage" => units(requests.ephemeral_storage),
        name => match requests.scalar(name) {
            0 => FactValue::Absent,
            amount => units(amount),
        },
    }
}

fn milli(amount: i64) -> FactValue<'static> {
    let nanos = i128::from(amount) * NANOS_PER_MILLI;
    FactValue::Quantity { nanos, is_whole: amount % 1000 == 0 }
}

fn units(amount: i64) -> FactValue<'static> {
    FactValue::Quantity { nanos: i128::from(amount) * NANOS_PER_UNIT, is_whole: true }
}

fn taints<'a>(node: &NodeView<'a>) -> FactValue<'a> {
    let taint = |taint: &'a framework::Taint| {
        FactValue::Object(vec![
            ("key", FactValue::Text(&taint.key)),
            ("value", FactValue::Text(&taint.value)),
            ("effect", FactValue::Text(taint.effect.as_str())),
        ])
    };
    FactValue::List(node.taints().iter().map(taint).collect())
}

fn tolerations(pod: &Pod) -> FactValue<'_> {
    fn toleration(own: &framework::Toleration) -> FactValue<'_> {
        let operator = match &own.operator {
            TolerationOperator::Equal => "Equal",
            TolerationOperator::Exists => "Exists",
            TolerationOperator::Lt => "Lt",
            TolerationOperator::Gt => "Gt",
            TolerationOperator::Other(_) => "",
        };
        let effect = own.effect.as_ref().map_or("", |effect| effect.as_str());
        FactValue::Object(vec![
            ("key", FactValue::Text(&own.key)),
            ("operator", FactValue::Text(operator)),
            ("value", FactValue::Text(&own.value)),
            ("effect", FactValue::Text(effect)),
        ])
    }
    FactValue::List(pod.spec.tolerations.iter().map(toleration).collect())
}

/// Returns the value of a field that an object does not have.
fn default(fact_type: FactType) -> FactValue<'static> {
    match fact_type {
        FactType::Bool => FactValue::Bool(false),
        FactType::Strings | FactType::Objects(_) => FactValue::List(Vec::new()),
        FactType::Texts | FactType::Quantities => FactValue::Map,
        FactType::Int | FactType::String | FactType::Timestamp | FactType::Quantity => {
            FactValue::Absent
        }
    }
}

/// Returns the value of a kept field. A field of another type counts as absent.
fn from_json(json: &Value, fact_type: FactType) -> FactValue<'_> {
    let value = match fact_type {
        FactType::Bool => json.as_bool().map(FactValue::Bool),
        FactType::Int => json.as_i64().map(FactValue::Int),
        FactType::String => json.as_str().map(FactValue::Text),
        FactType::Timestamp => json.as_str().and_then(seconds).map(FactValue::Seconds),
        FactType::Quantity => json.as_str().and_then(quantity),
        FactType::Strings => json.as_array().map(|values| {
            FactValue::List(values.iter().filter_map(Value::as_str).map(FactValue::Text).collect())
        }),
        FactType::Objects(object) => json.as_array().map(|values| {
            FactValue::List(values.iter().map(|value| object_from_json(value, object)).collect())
        }),
        FactType::Texts | FactType::Quantities => Some(FactValue::Map),
    };
    value.unwrap_or_else(|| default(fact_type))
}

fn object_from_json<'a>(json: &'a Value, object: &ObjectType) -> FactValue<'a> {
    let field = |(name, fact_type): &(&'static str, FactType)| {
        let value = match json.get(name) {
            Some(value) => from_json(value, *fact_type),
            None => default(*fact_type),
        };
        (*name, value)
    };
    FactValue::Object(object.fields.iter().map(field).collect())
}

fn quantity(text: &str) -> Option<FactValue<'static>> {
    let parsed: framework::Quantity = text.parse().ok()?;
    Some(FactValue::Quantity { nanos: parsed.nanos(), is_whole: parsed.as_int64().is_some() })
}

/// Parses a time of RFC 3339. Times of the API server have one form, which is read here; others are
/// left to the parser of all forms.
fn seconds(text: &str) -> Option<i64> {
    match in_utc(text.as_bytes()) {
        Some(seconds) => Some(seconds),
        None => {
            let time = framework::Time::parse_rfc3339(text).ok()?;
            Some(time.as_nanos().div_euclid(1_000_000_000))
        }
    }
}

/// Parses `2026-11-29T21:38:00Z`.
fn in_utc(text: &[u8]) -> Option<i64> {
    let text: &[u8; 20] = text.try_into().ok()?;
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    if separators.iter().any(|(place, byte)| text[*place] != *byte) {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0_i64, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month)
        || !(1..=28).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    // Days since the epoch: years begin in March, so that the leap day is the last of a year.
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_parsers_of_times_agree(secs in -62_000_000_000_i64..253_000_000_000) {
            let secs = secs.clamp(-9_000_000_000, 9_000_000_000);
            let text = framework::Time::from_secs(secs).to_string();
            prop_assert_eq!(seconds(&text), Some(secs));
            if let Some(read) = in_utc(text.as_bytes()) {
                prop_assert_eq!(read, secs);
            }
        }
    }
}
