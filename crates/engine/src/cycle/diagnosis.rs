//! The reasons why a pod fits nowhere, and their text.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Code, PluginName, Status, Verdicts};

/// The reasons why an attempt found no node.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    /// The verdict on each node. The pods of a template share it as long as it holds.
    pub verdicts: Arc<Verdicts>,
    /// Plugins that rejected the pod or some node.
    pub unschedulable_plugins: BTreeSet<PluginName>,
    /// The plugins among them that answered Pending.
    pub pending_plugins: BTreeSet<PluginName>,
    /// The status with which PreFilter rejected the pod.
    pub pre_filter: Status,
    /// The message of PostFilter.
    pub post_filter_message: String,
    /// Whether the pod could not be decoded in full.
    pub is_of_invalid_pod: bool,
}

impl Diagnosis {
    /// The diagnosis of a pod that PreFilter rejected.
    pub(super) fn by_pre_filter(status: Status) -> Self {
        let mut diagnosis = Self::default();
        diagnosis.record(&status);
        Arc::make_mut(&mut diagnosis.verdicts).set_absent(status.clone());
        diagnosis.pre_filter = status;
        diagnosis
    }

    /// The diagnosis of a pod for which the restrictions of several plugins leave no node.
    pub(super) fn by_contradiction(mut plugins: Vec<PluginName>) -> Self {
        plugins.sort_unstable();
        let reason = match plugins.as_slice() {
            [only] => format!("node(s) didn't satisfy plugin {only}"),
            several => {
                format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", several.join(" "))
            }
        };
        let mut diagnosis = Self::by_pre_filter(Status::unresolvable(reason));
        diagnosis.unschedulable_plugins.extend(plugins);
        diagnosis
    }

    /// The diagnosis of a pod that Reserve or Permit rejected.
    pub(crate) fn by_chosen_node(status: Status) -> Self {
        let mut diagnosis = Self::default();
        diagnosis.record(&status);
        Arc::make_mut(&mut diagnosis.verdicts).set_absent(status);
        diagnosis
    }

    /// Records the plugins that restrict the search: an event that they registered may help the
    /// pod.
    pub(super) fn record_restriction(&mut self, plugins: &[PluginName]) {
        self.unschedulable_plugins.extend(plugins.iter().cloned());
    }

    /// Records the plugin of a rejection.
    pub(super) fn record(&mut self, status: &Status) {
        let Some(plugin) = status.plugin().filter(|_| status.is_rejection()) else { return };
        self.unschedulable_plugins.insert(plugin.clone());
        if status.code() == Code::Pending {
            self.pending_plugins.insert(plugin.clone());
        }
    }

    /// Records the plugins of all verdicts.
    pub(crate) fn record_verdicts(&mut self) {
        let verdicts = self.verdicts.clone();
        verdicts.counts().into_iter().for_each(|(status, _)| self.record(status));
    }
}

/// No node can take the pod.
#[derive(Debug, Clone)]
pub struct FitError {
    /// Number of nodes in the cluster.
    pub num_all_nodes: usize,
    /// The reasons.
    pub diagnosis: Diagnosis,
}

impl FitError {
    /// The error of a pod that Reserve or Permit rejected.
    pub(crate) fn of_chosen_node(status: Status) -> Self {
        Self { num_all_nodes: 1, diagnosis: Diagnosis::by_chosen_node(status) }
    }

    /// Returns the text without the message of PostFilter.
    pub fn message_before_post_filter(&self) -> String {
        let by_pre_filter = self.diagnosis.pre_filter.message();
        if self.diagnosis.is_of_invalid_pod {
            return by_pre_filter;
        }
        match by_pre_filter.is_empty() {
            true => self.diagnosis.verdicts.fit_error(self.num_all_nodes),
            false => format!("0/{} nodes are available: {by_pre_filter}.", self.num_all_nodes),
        }
    }

    /// Returns [that message](Self::message_before_post_filter) as a part of another one.
    pub fn reasons(&self) -> String {
        let mut message = self.message_before_post_filter();
        if message.ends_with('.') {
            message.pop();
        }
        message
    }

    /// Returns the text of the `PodScheduled` condition.
    pub fn message(&self) -> String {
        let mut message = self.message_before_post_filter();
        let is_about_pod = self.diagnosis.is_of_invalid_pod;
        if !self.diagnosis.post_filter_message.is_empty() && !is_about_pod {
            message += &format!(" {}", self.diagnosis.post_filter_message);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use framework::NodeIx;

    use super::*;

    fn fit_error(num_all_nodes: usize, verdicts: Verdicts) -> FitError {
        let diagnosis = Diagnosis { verdicts: verdicts.into(), ..Diagnosis::default() };
        FitError { num_all_nodes, diagnosis }
    }

    #[test]
    fn parts_are_sorted_as_text_and_absent_nodes_count() {
        let mut verdicts = Verdicts::default();
        for id in 0..2 {
            verdicts.record(NodeIx::new(id), Status::unschedulable("y"));
        }
        verdicts.set_absent(Status::unresolvable("x"));
        let error = fit_error(12, verdicts);
        assert_eq!(error.message(), "0/12 nodes are available: 10 x, 2 y.");
    }

    #[test]
    fn without_reasons_the_colon_stays() {
        assert_eq!(fit_error(3, Verdicts::default()).message(), "0/3 nodes are available:");
    }

    #[test]
    fn a_pre_filter_message_stands_alone_before_that_of_post_filter() {
        let mut diagnosis =
            Diagnosis::by_pre_filter(Status::unresolvable("pod affinity terms conflict"));
        diagnosis.post_filter_message = "preemption: not helpful".to_owned();
        let error = FitError { num_all_nodes: 2, diagnosis };
        assert_eq!(
            error.message(),
            "0/2 nodes are available: pod affinity terms conflict. preemption: not helpful"
        );
    }
}
