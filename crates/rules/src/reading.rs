//! What a rule reads, and what follows from it.

use std::sync::Arc;

use cel::{Expression, FactRead};
use framework::ExtraFields;

use crate::facts::{NOW, PODS_IN_DOMAIN, PODS_ON_NODE, SOURCES, Source};

/// What the answers of a rule depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// The name of the pod, which pods of one template do not share.
    pub pod_name: bool,
    /// Anything else of the pod but its requests.
    pub pod: bool,
    /// The labels of the namespace of the pod.
    pub namespace: bool,
    /// The object of the node.
    pub node: bool,
    /// The pods on the node.
    pub pods: bool,
    /// The pods in a domain of nodes.
    pub domain: bool,
    /// The time.
    pub now: bool,
}

impl Reading {
    /// Returns what an expression reads.
    pub(crate) fn of(expression: &Expression) -> Self {
        let mut reading = Self::default();
        for read in expression.reads() {
            match SOURCES[read.fact] {
                Source::PodName => reading.pod_name = true,
                Source::NamespaceLabels => {
                    reading.namespace = true;
                    reading.pod = true;
                }
                Source::PodNamespace
                | Source::NamespaceName
                | Source::PodLabels
                | Source::PodPriority
                | Source::PodSchedulerName
                | Source::PodTolerations
                | Source::PodField(_)
                | Source::PodMap(_) => reading.pod = true,
                Source::Requests => {}
                Source::NodeName
                | Source::NodeLabels
                | Source::NodeTaints
                | Source::NodeUnschedulable
                | Source::NodeFeatures
                | Source::NodeField(_)
                | Source::NodeMap(_)
                | Source::Allocatable => reading.node = true,
                Source::Requested => reading.pods = true,
                Source::Free => {
                    reading.node = true;
                    reading.pods = true;
                }
            }
        }
        for call in expression.calls() {
            match *call {
                NOW => reading.now = true,
                // Both count in the namespace of the pod.
                PODS_ON_NODE => {
                    reading.pods = true;
                    reading.pod = true;
                }
                PODS_IN_DOMAIN => {
                    reading.domain = true;
                    reading.pod = true;
                    reading.node = true;
                }
                _ => {}
            }
        }
        reading
    }

    /// Returns what one of two rules reads.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            pod_name: self.pod_name || other.pod_name,
            pod: self.pod || other.pod,
            namespace: self.namespace || other.namespace,
            node: self.node || other.node,
            pods: self.pods || other.pods,
            domain: self.domain || other.domain,
            now: self.now || other.now,
        }
    }
}

/// What is kept or fixed for rules when the scheduler starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The fields of pods and nodes that are kept.
    pub fields: ExtraFields,
    /// Whether the name of the pod is read.
    pub pod_name: bool,
}

impl Needs {
    /// Adds what an expression reads.
    pub(crate) fn add(&mut self, expression: &Expression) {
        for read in expression.reads() {
            let (fields, pointer) = match SOURCES[read.fact] {
                Source::PodField(pointer) | Source::PodMap(pointer) => {
                    (&mut self.fields.pod, pointer)
                }
                Source::NodeField(pointer) | Source::NodeMap(pointer) => {
                    (&mut self.fields.node, pointer)
                }
                Source::PodName => {
                    self.pod_name = true;
                    continue;
                }
                _ => continue,
            };
            fields.insert(keyed(read).map_or_else(|| pointer.into(), |keyed| keyed.pointer));
        }
    }

    /// Returns the needs that `kept` does not cover, as a text; `None` if there is none.
    pub fn missing_in(&self, kept: &Self) -> Option<String> {
        if self.pod_name && !kept.pod_name {
            return Some("/metadata/name of pods".to_owned());
        }
        let missing = self.fields.missing_in(&kept.fields);
        (!missing.is_empty()).then_some(missing)
    }
}

/// A single key of a map of which the rest is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed {
    pub(crate) fact: usize,
    pub(crate) key: Box<str>,
    /// The pointer to its value.
    pub(crate) pointer: Arc<str>,
}

/// Returns the key of a map of annotations, if a rule reads only that.
pub(crate) fn keyed(read: &FactRead) -> Option<Keyed> {
    let pointer = match SOURCES[read.fact] {
        Source::PodMap(pointer) | Source::NodeMap(pointer) if pointer.ends_with("annotations") => {
            pointer
        }
        _ => return None,
    };
    let key = read.key.clone()?;
    let escaped = key.replace('~', "~0").replace('/', "~1");
    Some(Keyed { fact: read.fact, key, pointer: format!("{pointer}/{escaped}").into() })
}
