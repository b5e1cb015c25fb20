//! QOSSort: orders the queue by priority, then by QoS class, then by the time in the queue.
//!
//! A group of pods has the class of that one of its pods which would be evicted first.

use std::cmp::{Ordering, Reverse};

use framework::{Handle, Plugin, PluginArgs, QueueSort, QueuedEntity};

use crate::qos::{self, QosClass};

/// Name of the plugin.
pub const NAME: &str = "QOSSort";

/// The plugin.
#[derive(Debug)]
struct QosSort;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let plugin = Plugin::new(NAME, QosSort).queue_sort().keep_containers();
    let plugin = qos::FIELDS.iter().fold(plugin, |plugin, field| plugin.keep_pod_field(field));
    Ok(plugin.build())
}

fn class_of(entity: &QueuedEntity) -> QosClass {
    let classes = entity.pods().iter().map(|queued| QosClass::of(&queued.pod));
    classes.min().unwrap_or(QosClass::BestEffort)
}

impl QueueSort for QosSort {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _handle: &Handle<'_>) -> bool {
        let by_priority = b.priority().cmp(&a.priority());
        let by_class = || Reverse(class_of(a)).cmp(&Reverse(class_of(b)));
        let by_time = || a.history().timestamp.cmp(&b.history().timestamp);
        by_priority.then_with(by_class).then_with(by_time) == Ordering::Less
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{Cluster, PodGroupKey, QueuedGroup, QueuedPod, Time};
    use serde_json::json;
    use testkit::{Harness, handle};

    use super::*;

    fn pod(name: &str, priority: i32, class: &str) -> Arc<framework::Pod> {
        let harness = Harness::new(plugin(&PluginArgs::default()).unwrap());
        Arc::new(harness.pod_from_json(&json!({
            "metadata": {"name": name},
            "spec": {"priority": priority, "containers": [{"name": "c"}]},
            "status": {"qosClass": class},
        })))
    }

    fn queued(priority: i32, class: &str, seconds: i64) -> QueuedEntity {
        QueuedEntity::of_pod(pod("p", priority, class), Time::from_secs(seconds))
    }

    #[test]
    fn priority_then_class_then_time() {
        let order = [
            queued(2, "BestEffort", 9),
            queued(1, "Guaranteed", 5),
            queued(1, "Guaranteed", 6),
            queued(1, "Burstable", 1),
            queued(1, "BestEffort", 0),
            queued(0, "Guaranteed", 0),
        ];
        let (cluster, mut pairs) = (Cluster::default(), 0);
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                assert_eq!(QosSort.less(a, b, &handle(&cluster)), i < j, "{a:?} {b:?}");
                pairs += 1;
            }
        }
        assert_eq!(pairs, 36);
    }

    #[test]
    fn group_has_the_lowest_class_of_its_pods() {
        let member = |name, class| QueuedPod::new(pod(name, 1, class), Time::from_secs(1));
        let mut group =
            QueuedGroup::new(PodGroupKey::new("default", "g"), 1, member("a", "Guaranteed"));
        group.insert(member("b", "Burstable"));
        let (group, cluster) = (QueuedEntity::Group(Box::new(group)), Cluster::default());
        assert!(QosSort.less(&queued(1, "Guaranteed", 9), &group, &handle(&cluster)));
        assert!(QosSort.less(&group, &queued(1, "BestEffort", 0), &handle(&cluster)));
    }
}
