//! Inline volumes of in-tree plugins that cannot be used twice on one node.

use framework::storage::InTreePlugin;
use framework::{Cluster, NodeBits, Pod, PodVolume, PodVolumeSource};
use serde_json::Value;

/// Whether some volumes of the two pods conflict.
pub(super) fn conflict(pod: &Pod, other: &Pod) -> bool {
    let used = &other.spec.volumes;
    let conflicts = |volume| used.iter().any(|other| volumes_conflict(volume, other));
    pod.spec.volumes.iter().any(conflicts)
}

/// Retains the nodes without a pod whose volumes conflict with those of `pod`.
pub(super) fn retain_free(pod: &Pod, cluster: &Cluster, nodes: &mut NodeBits) {
    for users in pod.spec.volumes.iter().filter_map(|volume| cluster.using_disk(volume)) {
        for node in users.iter() {
            if nodes.contains(node) && cluster.node(node).pods().any(|other| conflict(pod, other)) {
                nodes.remove(node);
            }
        }
    }
}

/// Whether two volumes conflict. EBS volumes are never shared; other disks are shared by read-only
/// users.
fn volumes_conflict(a: &PodVolume, b: &PodVolume) -> bool {
    let (PodVolumeSource::InTree(plugin, a_source), PodVolumeSource::InTree(_, b_source)) =
        (&a.source, &b.source)
    else {
        return false;
    };
    let both_read = is_read_only(a_source) && is_read_only(b_source);
    let same_disk = a.disk().is_some() && a.disk() == b.disk();
    same_disk
        && match plugin {
            InTreePlugin::AwsElasticBlockStore => true,
            InTreePlugin::Rbd => !both_read && is_same_rbd_image(a_source, b_source),
            _ => !both_read,
        }
}

/// Whether two RBD images are the same: same name, same pool and a common monitor.
fn is_same_rbd_image(a: &Value, b: &Value) -> bool {
    let [a_monitors, b_monitors] = [a, b].map(|source| source["monitors"].as_array());
    let [a_pool, b_pool] = [a, b].map(|source| source["pool"].as_str().unwrap_or_default());
    let behind = |monitor: &Value| b_monitors.is_some_and(|monitors| monitors.contains(monitor));
    a_pool == b_pool && a_monitors.into_iter().flatten().any(behind)
}

fn is_read_only(source: &Value) -> bool {
    source["readOnly"] == true
}
