//! The kinds of Kubernetes, to tell a misspelt kind from one that no plugin reads.

/// The groups of Kubernetes 1.36 with their kinds; the core group has no name.
const GROUPS: [(&str, &[&str]); 20] = [
    (
        "",
        &[
            "Binding",
            "ComponentStatus",
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("apps", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("autoscaling", &["HorizontalPodAutoscaler", "Scale"]),
    ("batch", &["CronJob", "Job"]),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"],
    ),
    ("coordination.k8s.io", &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("events.k8s.io", &["Event"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    (
        "networking.k8s.io",
        &["IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"],
    ),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["Eviction", "PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    (
        "resource.k8s.io",
        &[
            "DeviceClass",
            "DeviceTaintRule",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourcePoolStatusRequest",
            "ResourceSlice",
        ],
    ),
    ("scheduling.k8s.io", &["PodGroup", "PriorityClass", "Workload"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];

/// The kinds of which a simulation reads this version alone.
const READ: [(&str, &str); 28] = [
    ("v1", "LimitRange"),
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "ReplicationController"),
    ("v1", "Service"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("storage.k8s.io/v1", "CSINode"),
    ("storage.k8s.io/v1", "CSIStorageCapacity"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "VolumeAttachment"),
];

/// Whether the fields of the kind are those of the table of known fields.
pub(super) fn is_read(version: &str, kind: &str) -> bool {
    READ.contains(&(version, kind))
}

/// Returns why a kind of this name cannot be what was meant; `None` for kinds of Kubernetes and for custom kinds.
pub(super) fn doubt(version: &str, kind: &str) -> Option<String> {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let Some((_, kinds)) = GROUPS.iter().find(|(own, _)| *own == group) else {
        // The group of a custom kind is a domain.
        let is_custom = group.contains('.');
        return (!is_custom)
            .then(|| format!("{kind} of {version} is ignored: there is no API group {group:?}"));
    };
    if kinds.contains(&kind) {
        let read = READ.iter().find(|(own, name)| {
            *name == kind && own.split_once('/').map_or("", |(group, _)| group) == group
        });
        let (read, _) = read.filter(|(own, _)| *own != version)?;
        return Some(format!("{kind} of {version} is ignored: it is read as {read}"));
    }
    let everywhere =
        GROUPS.iter().flat_map(|(group, kinds)| kinds.iter().map(move |kind| (group, kind)));
    let near = everywhere.filter(|(_, other)| distance(kind, other) <= 2);
    let near = near.min_by_key(|(own, other)| (distance(kind, other), **own != group));
    let hint = near.map_or_else(String::new, |(own, other)| match *own == group {
        true => format!("; did you mean {other}?"),
        false => format!("; did you mean {other} of the group {own:?}?"),
    });
    Some(format!("{kind} of {version} is ignored: there is no such kind{hint}"))
}

/// Returns the number of letters to add, remove or replace, without regard to case.
fn distance(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|text| text.to_lowercase().into_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (place, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_kinds_and_other_versions_are_told_from_custom_kinds() {
        let rows = [
            ("apps/v1", "Deploymnt", Some("there is no such kind; did you mean Deployment?")),
            (
                "v1",
                "Deployment",
                Some("there is no such kind; did you mean Deployment of the group \"apps\"?"),
            ),
            ("v1", "pod", Some("there is no such kind; did you mean Pod?")),
            ("v1", "Widget", Some("there is no such kind")),
            ("policy/v1beta1", "PodDisruptionBudget", Some("it is read as policy/v1")),
            ("app/v1", "Deployment", Some("there is no API group \"app\"")),
            ("v1", "ConfigMap", None),
            ("autoscaling/v2", "HorizontalPodAutoscaler", None),
            ("example.com/v1", "Widget", None),
            ("apps/v1", "Deployment", None),
        ];
        for (version, kind, expected) in rows {
            let expected = expected.map(|why| format!("{kind} of {version} is ignored: {why}"));
            assert_eq!(doubt(version, kind), expected);
        }
    }

    #[test]
    fn kinds_that_are_read_are_kinds_of_kubernetes() {
        for (version, kind) in READ {
            assert_eq!(doubt(version, kind), None);
        }
    }
}
