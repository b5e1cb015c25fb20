//! Coscheduling: reads the arguments of the plugin of scheduler-plugins.
//!
//! PodGroups are decided by the scheduler itself, with the plugin GangScheduling, so that this
//! plugin decides nothing. It has the extension points of its namesake, so that profiles which
//! enable it resolve, and orders the queue as PrioritySort does: a group is one entity of the
//! queue.

use std::cmp::Ordering;

use framework::{
    AttemptMut, DryRun, Handle, Permit, PermitVerdict, Plugin, PluginArgs, PostFilter,
    PostFilterResult, PreFilter, PreFilterResult, QueueSort, QueuedEntity, Reserve, Status,
    Verdicts,
};
use serde::{Deserialize, Serialize};

use crate::args::Faults;

/// Name of the plugin.
pub const NAME: &str = "Coscheduling";

/// `CoschedulingArgs`. None has an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CoschedulingArgs {
    /// How long a pod waited for the others of its group.
    pub permit_waiting_time_seconds: i64,
    /// How long a group was not tried after a failure.
    pub pod_group_backoff_seconds: i64,
    /// The share of missing pods, in percent, up to which the others kept waiting.
    pub pod_group_reject_percentage: i32,
}

impl Default for CoschedulingArgs {
    fn default() -> Self {
        Self {
            permit_waiting_time_seconds: 60,
            pod_group_backoff_seconds: 0,
            pod_group_reject_percentage: 10,
        }
    }
}

impl CoschedulingArgs {
    fn checked(self) -> Result<Self, String> {
        let mut faults = Faults::default();
        for (path, seconds) in [
            ("permitWaitingTimeSeconds", self.permit_waiting_time_seconds),
            ("podGroupBackoffSeconds", self.pod_group_backoff_seconds),
        ] {
            if seconds < 0 {
                faults.invalid(path, seconds, "must be greater than 0");
            }
        }
        let percentage = self.pod_group_reject_percentage;
        if !(0..=100).contains(&percentage) {
            faults.invalid("podGroupRejectPercentage", percentage, "must be between 0 and 100");
        }
        faults.none_or(self)
    }

    /// Says what the arguments that differ from their defaults would have done.
    fn notes(&self) -> Vec<String> {
        let default = Self::default();
        let reasons = [
            (
                self.permit_waiting_time_seconds != default.permit_waiting_time_seconds,
                "permitWaitingTimeSeconds has no effect: the pods of a group are decided \
                 together, and none waits in Permit for the others",
            ),
            (
                self.pod_group_backoff_seconds != default.pod_group_backoff_seconds,
                "podGroupBackoffSeconds has no effect: a group backs off as a pod does, by \
                 podInitialBackoffSeconds and podMaxBackoffSeconds",
            ),
            (
                self.pod_group_reject_percentage != default.pod_group_reject_percentage,
                "podGroupRejectPercentage has no effect: a group of which too few pods fit \
                 holds no room",
            ),
        ];
        let set = reasons.iter().filter(|(is_set, _)| *is_set);
        set.map(|(_, reason)| (*reason).to_owned()).collect()
    }
}

/// The plugin.
#[derive(Debug)]
struct Coscheduling;

/// Makes the plugin from [`CoschedulingArgs`].
///
/// # Errors
/// The arguments do not decode, or a number is out of range.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args = args.decode::<CoschedulingArgs>()?.checked()?;
    let plugin = Plugin::new(NAME, Coscheduling)
        .queue_sort()
        .pre_filter()
        .post_filter()
        .permit()
        .reserve()
        .no_events()
        .decides_by_template()
        .args(&args);
    let notes = args.notes();
    let plugin = notes.into_iter().fold(plugin, |plugin, note| plugin.note(note));
    Ok(plugin.build())
}

impl QueueSort for Coscheduling {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _handle: &Handle<'_>) -> bool {
        let by_priority = b.priority().cmp(&a.priority());
        let by_time = a.history().timestamp.cmp(&b.history().timestamp);
        by_priority.then(by_time) == Ordering::Less
    }
}

impl PreFilter for Coscheduling {
    fn pre_filter(&self, _attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        Ok(PreFilterResult::default())
    }
}

impl PostFilter for Coscheduling {
    /// Leaves the pod to the next plugin.
    fn post_filter(
        &self,
        _attempt: AttemptMut<'_>,
        _verdicts: &Verdicts,
        _dry_run: &mut dyn DryRun,
    ) -> PostFilterResult {
        Status::with_reasons(framework::Code::Unschedulable, Vec::new()).into()
    }
}

impl Permit for Coscheduling {
    fn permit(&self, _attempt: AttemptMut<'_>, _node: &str) -> PermitVerdict {
        PermitVerdict::Allow
    }
}

impl Reserve for Coscheduling {
    fn reserve(&self, _attempt: AttemptMut<'_>, _node: &str) -> Status {
        Status::success()
    }

    fn unreserve(&self, _attempt: AttemptMut<'_>, _node: &str) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{Cluster, ExtensionPoint, Time};
    use serde_json::{Value, json};
    use testkit::{Harness, handle, node, pod};

    use super::*;

    fn made(args: Value) -> Plugin {
        plugin(&PluginArgs::new(args)).unwrap()
    }

    #[test]
    fn profile_of_the_chart_resolves() {
        let plugin = made(json!({"permitWaitingTimeSeconds": 10}));
        for point in [
            ExtensionPoint::QueueSort,
            ExtensionPoint::PreFilter,
            ExtensionPoint::PostFilter,
            ExtensionPoint::Permit,
            ExtensionPoint::Reserve,
        ] {
            assert!(plugin.extends(point), "{point}");
        }
    }

    #[test]
    fn arguments_without_effect_are_explained() {
        assert!(made(json!({})).notes.is_empty());
        assert!(made(json!({"permitWaitingTimeSeconds": 60})).notes.is_empty());
        let all = made(json!({"permitWaitingTimeSeconds": 10, "podGroupBackoffSeconds": 5,
            "podGroupRejectPercentage": 0}));
        let names =
            ["permitWaitingTimeSeconds", "podGroupBackoffSeconds", "podGroupRejectPercentage"];
        assert_eq!(all.notes.len(), 3);
        for (note, name) in all.notes.iter().zip(names) {
            assert!(note.starts_with(&format!("{name} has no effect: ")), "{note}");
        }
    }

    #[test]
    fn arguments_out_of_range_are_refused() {
        let error = |args| plugin(&PluginArgs::new(args)).map(|_| ()).unwrap_err();
        assert_eq!(
            error(json!({"podGroupBackoffSeconds": -1})),
            "podGroupBackoffSeconds: Invalid value: -1: must be greater than 0"
        );
        assert_eq!(
            error(json!({"podGroupRejectPercentage": 101})),
            "podGroupRejectPercentage: Invalid value: 101: must be between 0 and 100"
        );
        assert!(plugin(&PluginArgs::new(json!({"permitWaitingTimeSeconds": 0}))).is_ok());
    }

    #[test]
    fn pods_pass_and_leave_the_queue_by_priority_and_time() {
        let harness = Harness::new(made(json!({}))).node(node("a").build());
        let commit = harness.commit(&pod("p").build(), "a");
        assert!(commit.reserve.is_success() && commit.permit == PermitVerdict::Allow);
        assert_eq!(harness.ranking_problem(&pod("p").build()), None);
        let queued = |priority, seconds| {
            let pod = Arc::new(pod("p").priority(priority).build());
            QueuedEntity::of_pod(pod, Time::from_secs(seconds))
        };
        let cluster = Cluster::default();
        let less = |a, b| Coscheduling.less(&a, &b, &handle(&cluster));
        assert!(less(queued(1, 9), queued(0, 1)) && less(queued(0, 1), queued(0, 2)));
        assert!(!less(queued(0, 1), queued(0, 1)));
    }
}
