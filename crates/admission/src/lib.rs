//! The fields that admission plugins of an API server fill into a new pod: defaults of LimitRanges,
//! priority and preemption policy of its PriorityClass, tolerations, and what its RuntimeClass
//! says.
//!
//! They are the plugins that kube-apiserver enables by default, as far as they concern scheduling.
//! Pods and classes are JSON, as the API has them.

mod limit_check;
mod limit_range;
mod object;
mod priority;
mod runtime_class;
mod tolerations;

use serde_json::Value;

/// The objects that decide about new pods.
pub trait Classes {
    /// Returns the PriorityClass of this name.
    fn priority_class(&self, name: &str) -> Option<&Value>;

    /// Returns all PriorityClasses.
    fn priority_classes(&self) -> impl Iterator<Item = &Value>;

    /// Returns the RuntimeClass of this name.
    fn runtime_class(&self, name: &str) -> Option<&Value>;

    /// Returns the LimitRanges of a namespace.
    fn limit_ranges(&self, namespace: &str) -> impl Iterator<Item = &Value>;
}

/// The treatment of a priority that the pod has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// It has to be the priority of the class.
    Checked,
    /// It counts, whatever the class says.
    Kept,
}

/// The object or field because of which the API server refuses a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The PriorityClass that the pod names does not exist.
    NoPriorityClass,
    /// The RuntimeClass that the pod names does not exist.
    NoRuntimeClass,
    /// The pod contradicts its PriorityClass.
    PriorityClass,
    /// The pod contradicts its RuntimeClass.
    RuntimeClass,
    /// The pod does not keep to a LimitRange of its namespace.
    LimitRange,
}

/// A reason for which the API server refuses a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The cause.
    pub cause: Cause,
    /// The name of the class or of the LimitRange.
    pub value: String,
    /// The text of the API server.
    pub message: String,
}

/// Fills in what the API server fills into a new pod of this namespace. Returns the reasons for
/// which it would refuse the pod; what they are about is not filled in.
pub fn admit(
    pod: &mut Value,
    namespace: &str,
    classes: &impl Classes,
    given: Given,
) -> Vec<Refusal> {
    limit_range::admit(pod, classes.limit_ranges(namespace));
    let of_priority = priority::admit(pod, classes, given);
    tolerations::admit(pod);
    let of_runtime = runtime_class::admit(pod, classes);
    let of_limits = limit_check::check(pod, classes.limit_ranges(namespace));
    of_priority.err().into_iter().chain(of_runtime.err()).chain(of_limits).collect()
}

/// The PriorityClasses of every cluster, with their values.
pub const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

#[cfg(test)]
mod testing;
