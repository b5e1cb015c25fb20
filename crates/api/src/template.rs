//! The template of a pod.

use std::sync::Arc;

use crate::{Controller, Extra, Labels, Pod, PodRequests, PodSpec, PodVolumeSource};

/// The properties that the pods of one workload have in common: all that decides where a pod fits,
/// but for its name, its UID and its status.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Template {
    namespace: Arc<str>,
    labels: Arc<Labels>,
    spec: Arc<PodSpec>,
    requests: Arc<PodRequests>,
    controller: Option<Arc<Controller>>,
    extra: Extra,
}

impl Template {
    /// Returns the template of `pod`.
    pub fn of(pod: &Pod) -> Self {
        Self {
            namespace: pod.key.namespace.clone(),
            labels: pod.labels.clone(),
            spec: pod.spec.clone(),
            requests: pod.requests.clone(),
            controller: pod.controller.clone().filter(|own| own.kind.has_selector()),
            extra: pod.extra.clone(),
        }
    }

    /// Whether the template says all about `pod`. It does not if the pod has objects of its own,
    /// for example the claim of an ephemeral volume, or a field that could not be read.
    pub fn describes(pod: &Pod) -> bool {
        let ephemeral = |source: &PodVolumeSource| matches!(source, PodVolumeSource::Ephemeral);
        pod.problems().is_empty()
            && pod.spec.resource_claims.is_empty()
            && !pod.spec.volumes.iter().any(|volume| ephemeral(&volume.source))
    }
}
