//! The gang of a pod and its members.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Cluster, Handle, Pod, PodKey, Uid};

use crate::NAME;

/// Label with the name of the gang, unique within the namespace.
pub const NAME_LABEL: &str = "gang.example.com/name";

/// Label with the number of members that must have a node before any of them is bound.
pub const MIN_AVAILABLE: &str = "gang.example.com/min-available";

/// The membership of a pod in a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    namespace: Arc<str>,
    gang: Arc<str>,
    pub(crate) min_available: usize,
}

impl Membership {
    /// Reads the labels of `pod`; `None` if it is in no gang.
    ///
    /// # Errors
    /// Returns an error if the number of members is missing or invalid.
    pub(crate) fn of(pod: &Pod) -> Result<Option<Self>, String> {
        let Some(gang) = pod.labels.get(NAME_LABEL) else { return Ok(None) };
        let min = pod.labels.get(MIN_AVAILABLE).unwrap_or_default();
        match min.parse() {
            Ok(min_available @ 1..) => {
                let namespace = pod.key.namespace.clone();
                Ok(Some(Self { namespace, gang: gang.into(), min_available }))
            }
            _ => Err(format!("label {MIN_AVAILABLE} must be a number above 0, got {min:?}")),
        }
    }

    /// Whether `pod` is in the same gang and not terminating.
    pub(crate) fn includes(&self, pod: &Pod) -> bool {
        pod.key.namespace == self.namespace
            && !pod.terminating
            && pod.labels.get(NAME_LABEL) == Some(&self.gang)
    }

    /// Returns the members that have a node, including the pod in Permit, which is already assumed.
    ///
    /// Scans every pod of the cluster; the framework has no index of pods by label.
    pub(crate) fn placed<'a>(&self, cluster: &'a Cluster) -> BTreeSet<&'a Uid> {
        let members = cluster.pods().filter(|placed| self.includes(&placed.pod));
        members.map(|placed| &placed.pod.uid).collect()
    }

    /// Returns the members that wait in Permit for this plugin.
    pub(crate) fn waiting(&self, handle: &Handle<'_>) -> Vec<Uid> {
        let ours = handle.waiting.iter().filter(|(_, waiting)| {
            waiting.pending.contains_key(NAME) && self.includes(&waiting.pod)
        });
        ours.map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns the members that have neither a node nor a scheduling gate.
    pub(crate) fn unplaced(&self, placed: &BTreeSet<&Uid>, handle: &Handle<'_>) -> Vec<PodKey> {
        let members = handle.pending_in(&self.namespace).filter(|pod| {
            self.includes(pod) && pod.spec.scheduling_gates.is_empty() && !placed.contains(&pod.uid)
        });
        members.map(|pod| pod.key.clone()).collect()
    }

    /// Returns the rejection of a gang that has too few members.
    pub(crate) fn lacks_members(&self, existing: usize) -> String {
        format!("gang {} has {existing} of {} members", self.gang, self.min_available)
    }

    /// Returns the reason a member waits.
    pub(crate) fn lacks_nodes(&self, placed: usize) -> String {
        format!("{placed} of {} members of gang {} have a node", self.min_available, self.gang)
    }

    /// Returns the rejection of a waiting member after `pod` failed.
    pub(crate) fn failed_with(&self, pod: &Pod) -> String {
        format!("gang {} is incomplete: member {} failed", self.gang, pod.key)
    }
}
