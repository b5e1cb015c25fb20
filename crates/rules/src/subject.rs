//! The values of facts for one pod and one node.

use std::sync::Arc;

use cel::{FactRead, FactType, FactValue, Facts, Quantity};
use framework::{
    Cluster, NodeView, Pod, Resources, Time, Toleration, TolerationOperator, Topology,
};
use serde_json::Value;

use crate::facts::{FACTS, NOW, SOURCES, Source};
use crate::prepared::Count;
use crate::rule_set::RuleSet;

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
    /// What the rule reads, in the order of its reads.
    pub(crate) columns: &'a [Column<'a>],
}

/// Where a value that a rule reads is found on each node.
#[derive(Clone, Copy)]
pub(crate) enum Column<'a> {
    /// The label of nodes, if a node has it.
    Label(Option<Topology<'a>>),
    /// The amount of a resource.
    Amount(Source, Resource<'a>),
    /// A kept field of nodes, by its pointer.
    Kept(&'a str, FactType),
    /// The value is asked for.
    Read(&'a FactRead),
}

/// A resource.
#[derive(Clone, Copy)]
pub(crate) enum Resource<'a> {
    Cpu,
    Memory,
    Storage,
    Pods,
    Scalar(&'a str),
}

impl<'a> Column<'a> {
    /// Finds what a rule reads.
    pub(crate) fn of(read: &'a FactRead, rules: &'a RuleSet, cluster: &'a Cluster) -> Self {
        let fact_type = FACTS[read.fact].fact_type;
        match (SOURCES[read.fact], &read.key) {
            (Source::NodeLabels, Some(key)) => Self::Label(cluster.topology(key)),
            (source @ (Source::Allocatable | Source::Requested | Source::Free), Some(key)) => {
                Self::Amount(source, Resource::named(key))
            }
            (Source::NodeField(pointer), None) if !matches!(fact_type, FactType::Objects(_)) => {
                Self::Kept(pointer, fact_type)
            }
            (Source::NodeMap(_), Some(_)) => {
                match read.key.as_ref().and_then(|key| rules.keyed_at(read.fact, key)) {
                    Some(pointer) => Self::Kept(pointer, FactType::String),
                    None => Self::Read(read),
                }
            }
            _ => Self::Read(read),
        }
    }
}

impl<'a> Resource<'a> {
    fn named(name: &'a str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::Storage,
            "pods" => Self::Pods,
            name => Self::Scalar(name),
        }
    }
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
        let single = self.rules.keyed_at(fact, key).and_then(|pointer| match source {
            Source::PodMap(_) => self.pod.extra.get(pointer),
            _ => self.node?.extra(pointer),
        });
        single.or_else(|| self.kept(source)?.get(key))
    }

    fn amount(&self, source: Source, resource: Resource<'_>) -> FactValue<'_> {
        let Some(node) = &self.node else { return FactValue::Absent };
        let pick = |allocatable: i64, requested: i64| match source {
            Source::Allocatable => allocatable,
            Source::Requested => requested,
            _ => allocatable.saturating_sub(requested),
        };
        match resource {
            Resource::Cpu => milli(pick(node.allocatable().milli_cpu, node.requested().milli_cpu)),
            Resource::Memory => units(pick(node.allocatable().memory, node.requested().memory)),
            Resource::Storage => {
                let allocatable = node.allocatable().ephemeral_storage;
                units(pick(allocatable, node.requested().ephemeral_storage))
            }
            Resource::Pods => units(pick(node.allowed_pods(), node.pod_count())),
            Resource::Scalar(name) => {
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
    /// Returns a text of the value that is read.
    pub(crate) fn text(&self, read: &FactRead) -> String {
        let value = match &read.key {
            Some(key) => self.entry(read.fact, key),
            None => self.fact(read.fact),
        };
        match value {
            FactValue::Map => {
                let entries = self.entries(read.fact).into_iter();
                joined(entries.map(|(key, value)| format!("{key}: {}", text_of(value))), "{", "}")
            }
            FactValue::List { len, object } => {
                let part = |index, field| text_of(self.element(read.fact, index, field));
                let element = |index| match object {
                    None => part(index, 0),
                    Some(object) => {
                        let names = object.fields.iter().map(|(name, _)| name).enumerate();
                        let field = |(place, name)| format!("{name}: {}", part(index, place));
                        joined(names.map(field), "{", "}")
                    }
                };
                joined((0..len).map(element), "[", "]")
            }
            value => text_of(value),
        }
    }
}

fn joined(texts: impl Iterator<Item = String>, open: &str, close: &str) -> String {
    format!("{open}{}{close}", texts.collect::<Vec<_>>().join(", "))
}

/// Returns a text of a value without parts.
fn text_of(value: FactValue<'_>) -> String {
    match value {
        FactValue::Absent => "absent".to_owned(),
        FactValue::Bool(value) => value.to_string(),
        FactValue::Int(value) => value.to_string(),
        FactValue::Text(text) => format!("{text:?}"),
        FactValue::Seconds(seconds) => Time::from_secs(seconds).to_string(),
        // In units, or in thousandths if it is no whole number of them.
        FactValue::Quantity(Quantity { units, nanos: 0, .. }) => units.to_string(),
        FactValue::Quantity(quantity) => format!("{}m", quantity.total_nanos() / 1_000_000),
        FactValue::Map | FactValue::List { .. } => "…".to_owned(),
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
            (Source::PodTolerations, _) => list(fact, self.pod.spec.tolerations.len()),
            (Source::NodeName, Some(node)) => FactValue::Text(node.name()),
            (Source::NodeTaints, Some(node)) => list(fact, node.taints().len()),
            (Source::NodeUnschedulable, Some(node)) => FactValue::Bool(node.is_unschedulable()),
            (Source::NodeFeatures, Some(node)) => list(fact, node.declared_features().len()),
            (source, _) => match (self.kept(source), FACTS[fact].fact_type) {
                (Some(Value::Array(values)), FactType::Objects(_)) => list(fact, values.len()),
                (Some(json), fact_type) => from_json(json, fact_type),
                (None, fact_type) => default(fact_type),
            },
        }
    }

    fn element(&self, fact: usize, index: usize, field: usize) -> FactValue<'_> {
        match (SOURCES[fact], &self.node) {
            (Source::NodeTaints, Some(node)) => {
                let taint = &node.taints()[index];
                FactValue::Text([&*taint.key, &*taint.value, taint.effect.as_str()][field])
            }
            (Source::NodeFeatures, Some(node)) => FactValue::Text(&node.declared_features()[index]),
            (Source::PodTolerations, _) => {
                let own = &self.pod.spec.tolerations[index];
                let effect = own.effect.as_ref().map_or("", |effect| effect.as_str());
                FactValue::Text([&*own.key, operator(own), &*own.value, effect][field])
            }
            (source, _) => {
                let FactType::Objects(object) = FACTS[fact].fact_type else {
                    return FactValue::Absent;
                };
                let (name, fact_type) = object.fields[field];
                let value = self.kept(source).and_then(|list| list.get(index)?.get(name));
                value.map_or_else(|| default(fact_type), |json| from_json(json, fact_type))
            }
        }
    }

    fn entry(&self, fact: usize, key: &str) -> FactValue<'_> {
        match SOURCES[fact] {
            Source::PodLabels => optional(self.pod.labels.get(key)),
            Source::NamespaceLabels => {
                optional(self.cluster.namespace_labels(&self.pod.key.namespace).get(key))
            }
            Source::NodeLabels => optional(self.node.and_then(|node| node.label(key))),
            Source::Requests => requested(&self.pod.requests.fit, key),
            source @ (Source::Allocatable | Source::Requested | Source::Free) => {
                self.amount(source, Resource::named(key))
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

    fn read(&self, place: usize) -> FactValue<'_> {
        match (self.columns[place], &self.node) {
            (Column::Label(topology), Some(node)) => {
                let topology = topology.as_ref();
                let domain = topology.and_then(|own| Some(own.value(own.domain_of(node.ix())?)));
                optional(domain.map(|value| &**value))
            }
            (Column::Amount(source, resource), _) => self.amount(source, resource),
            (Column::Kept(pointer, fact_type), Some(node)) => match node.extra(pointer) {
                Some(json) => from_json(json, fact_type),
                None => default(fact_type),
            },
            (Column::Read(read), _) => match &read.key {
                Some(key) => self.entry(read.fact, key),
                None => self.fact(read.fact),
            },
            _ => FactValue::Absent,
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
                    let value = self.entry(fact, &name);
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
    FactValue::Quantity(Quantity::of_millis(amount))
}

fn units(amount: i64) -> FactValue<'static> {
    FactValue::Quantity(Quantity::of_units(amount))
}

/// Returns the list that a fact is.
fn list(fact: usize, len: usize) -> FactValue<'static> {
    let object = match FACTS[fact].fact_type {
        FactType::Objects(object) => Some(object),
        _ => None,
    };
    FactValue::List { len, object }
}

fn operator(toleration: &Toleration) -> &'static str {
    match &toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Lt => "Lt",
        TolerationOperator::Gt => "Gt",
        TolerationOperator::Other(_) => "",
    }
}

/// Returns the value of a field that an object does not have.
fn default(fact_type: FactType) -> FactValue<'static> {
    match fact_type {
        FactType::Bool => FactValue::Bool(false),
        FactType::Strings => FactValue::List { len: 0, object: None },
        FactType::Objects(object) => FactValue::List { len: 0, object: Some(object) },
        FactType::Texts | FactType::Quantities => FactValue::Map,
        FactType::Int | FactType::String | FactType::Timestamp | FactType::Quantity => {
            FactValue::Absent
        }
    }
}

/// Returns the value of a kept field that is no list. A field of another type counts as absent.
fn from_json(json: &Value, fact_type: FactType) -> FactValue<'_> {
    let value = match fact_type {
        FactType::Bool => json.as_bool().map(FactValue::Bool),
        FactType::Int => json.as_i64().map(FactValue::Int),
        FactType::String => json.as_str().map(FactValue::Text),
        FactType::Timestamp => json.as_i64().map(FactValue::Seconds),
        FactType::Quantity => json.as_str().and_then(quantity),
        FactType::Strings | FactType::Objects(_) => None,
        FactType::Texts | FactType::Quantities => Some(FactValue::Map),
    };
    value.unwrap_or_else(|| default(fact_type))
}

fn quantity(text: &str) -> Option<FactValue<'static>> {
    let parsed: framework::Quantity = text.parse().ok()?;
    Quantity::of_nanos(parsed.nanos(), parsed.as_int64().is_some()).map(FactValue::Quantity)
}
