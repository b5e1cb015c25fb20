//! What a pod says of its eviction.

use serde::{Deserialize, Serialize};

use crate::api;

/// The annotation with which pods forbid or allow the cluster autoscaler their eviction.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// The annotation with which pods forbid it to Karpenter.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// What a pod says of its eviction, by annotations and volumes. No filter reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EvictionHints {
    /// The annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`; `None` if it is neither
    /// `true` nor `false`.
    pub safe_to_evict: Option<bool>,
    /// Whether the annotation `karpenter.sh/do-not-disrupt` is `true`.
    pub do_not_disrupt: bool,
    /// Whether a volume is on the disk of the node: `hostPath`, or `emptyDir` outside of memory.
    pub has_local_data: bool,
}

impl EvictionHints {
    /// Reads them from the API object.
    pub fn of(pod: &api::Pod) -> Self {
        let annotation = |name: &str| pod.metadata.annotations.get(name).map(String::as_str);
        let safe_to_evict = match annotation(SAFE_TO_EVICT) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        Self {
            safe_to_evict,
            do_not_disrupt: annotation(DO_NOT_DISRUPT) == Some("true"),
            has_local_data: pod.spec.volumes.iter().any(is_on_the_node),
        }
    }
}

fn is_on_the_node(volume: &api::Volume) -> bool {
    let is_on_disk = |own: &api::EmptyDirVolumeSource| own.medium != "Memory";
    volume.host_path.is_some() || volume.empty_dir.as_ref().is_some_and(is_on_disk)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn hints_are_annotations_and_volumes_on_the_node() {
        let hints = |annotations: Value, volume: Value| {
            let pod =
                json!({"metadata": {"annotations": annotations}, "spec": {"volumes": [volume]}});
            EvictionHints::of(&serde_json::from_value(pod).expect("a pod"))
        };
        let none = EvictionHints::default();
        let local = EvictionHints { has_local_data: true, ..none };
        for (volume, expected) in [
            (json!({"name": "a", "emptyDir": {}}), local),
            (json!({"name": "a", "emptyDir": {"medium": "HugePages"}}), local),
            (json!({"name": "a", "emptyDir": {"medium": "Memory"}}), none),
            (json!({"name": "a", "hostPath": {"path": "/"}}), local),
            (json!({"name": "a", "configMap": {"name": "b"}}), none),
        ] {
            assert_eq!(hints(json!({}), volume.clone()), expected, "{volume}");
        }
        let memory = json!({"name": "a", "emptyDir": {"medium": "Memory"}});
        for (annotations, expected) in [
            (json!({SAFE_TO_EVICT: "true"}), EvictionHints { safe_to_evict: Some(true), ..none }),
            (json!({SAFE_TO_EVICT: "false"}), EvictionHints { safe_to_evict: Some(false), ..none }),
            (json!({SAFE_TO_EVICT: "maybe"}), none),
            (json!({DO_NOT_DISRUPT: "true"}), EvictionHints { do_not_disrupt: true, ..none }),
            (json!({DO_NOT_DISRUPT: "false"}), none),
        ] {
            assert_eq!(hints(annotations.clone(), memory.clone()), expected, "{annotations}");
        }
    }
}
