//! Inline volumes of in-tree plugins that cannot be used twice on one node.

use framework::storage::{InTreePlugin, InTreeVolume};
use framework::{Cluster, NodeBits, Pod, PodVolume, PodVolumeSource};

/// Whether some volumes of the two pods conflict.
pub(super) fn conflict(pod: &Pod, other: &Pod) -> bool {
    let used = &other.spec.volumes;
    let conflicts = |volume| used.iter().any(|other| volumes_conflict(volume, other));
    pod.spec.volumes.iter().any(conflicts)
}

/// Retains the nodes without a pod whose volumes conflict with volumes of `pod`.
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
    let (PodVolumeSource::InTree(a_disk), PodVolumeSource::InTree(b_disk)) = (&a.source, &b.source)
    else {
        return false;
    };
    let both_read = a_disk.read_only && b_disk.read_only;
    let same_disk = a.disk().is_some() && a.disk() == b.disk();
    same_disk
        && match a_disk.plugin {
            InTreePlugin::AwsElasticBlockStore => true,
            InTreePlugin::Rbd => !both_read && is_same_rbd_image(a_disk, b_disk),
            _ => !both_read,
        }
}

/// Whether two RBD images are the same: same name, same pool and a common monitor.
fn is_same_rbd_image(a: &InTreeVolume, b: &InTreeVolume) -> bool {
    a.pool == b.pool && a.monitors.iter().any(|monitor| b.monitors.contains(monitor))
}
