//! PrioritySort: orders entities by priority, highest first, then by time in the queue, longest
//! first.

use std::cmp::Ordering;

use framework::{Handle, Plugin, PluginArgs, QueueSort, QueuedEntity};

/// Plugin name.
pub const NAME: &str = "PrioritySort";

/// The PrioritySort plugin.
#[derive(Debug)]
pub struct PrioritySort;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    Ok(Plugin::new(NAME, PrioritySort).queue_sort().build())
}

impl QueueSort for PrioritySort {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _handle: &Handle<'_>) -> bool {
        let by_priority = b.priority().cmp(&a.priority());
        let by_time = a.history().timestamp.cmp(&b.history().timestamp);
        by_priority.then(by_time) == Ordering::Less
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{Cluster, Time};
    use testkit::{handle, pod};

    use super::*;

    #[test]
    fn priority_orders_before_time_and_ties_are_equal() {
        let queued = |priority: Option<i32>, seconds| {
            let pod = pod("a").with(|api| api.spec.priority = priority).build();
            QueuedEntity::of_pod(Arc::new(pod), Time::from_secs(seconds))
        };
        for (a, b, expected) in [
            (queued(Some(2), 9), queued(Some(1), 1), true),
            (queued(Some(1), 1), queued(Some(2), 9), false),
            (queued(Some(1), 1), queued(Some(1), 2), true),
            (queued(Some(1), 2), queued(Some(1), 2), false),
            (queued(None, 1), queued(Some(-1), 0), true),
            (queued(None, 1), queued(Some(0), 1), false),
        ] {
            assert_eq!(
                PrioritySort.less(&a, &b, &handle(&Cluster::default())),
                expected,
                "{a:?} {b:?}"
            );
        }
    }
}
