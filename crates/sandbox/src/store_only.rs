//! Kinds of Kubernetes that the sandbox does not know. Their objects can be stored, and
//! have no effect.

use serde_json::{Value, json};

use crate::resources;

/// Group, kind, plural and scope.
const KINDS: [(&str, &str, &str, &str); 16] = [
    (ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", CLUSTER),
    (ADMISSION, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", CLUSTER),
    (ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", CLUSTER),
    (ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", CLUSTER),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", CLUSTER),
    (ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", CLUSTER),
    ("apiregistration.k8s.io", "APIService", "apiservices", CLUSTER),
    ("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", CLUSTER),
    ("certificates.k8s.io", "ClusterTrustBundle", "clustertrustbundles", CLUSTER),
    ("certificates.k8s.io", "PodCertificateRequest", "podcertificaterequests", NAMESPACED),
    ("coordination.k8s.io", "LeaseCandidate", "leasecandidates", NAMESPACED),
    ("networking.k8s.io", "IPAddress", "ipaddresses", CLUSTER),
    ("networking.k8s.io", "ServiceCIDR", "servicecidrs", CLUSTER),
    ("scheduling.k8s.io", "PodGroup", "podgroups", NAMESPACED),
    ("scheduling.k8s.io", "Workload", "workloads", NAMESPACED),
    ("storagemigration.k8s.io", "StorageVersionMigration", "storageversionmigrations", CLUSTER),
];

const ADMISSION: &str = "admissionregistration.k8s.io";
const CLUSTER: &str = "Cluster";
const NAMESPACED: &str = "Namespaced";

/// Returns an established definition with which the kind is served; `None` for kinds that
/// Kubernetes does not have. Other versions of kinds that the sandbox serves are kinds of their
/// own.
pub(crate) fn definition(api_version: &str, kind: &str) -> Option<Value> {
    let (group, version) = api_version.split_once('/')?;
    let listed = KINDS.iter().find(|own| (own.0, own.1) == (group, kind));
    let listed = listed.map(|(_, _, plural, scope)| (*plural, *scope));
    let of_other_version = || {
        let mut all = resources::ALL.iter();
        let own = all.find(|own| own.stored && (own.group, own.kind) == (group, kind))?;
        Some((own.plural, if own.namespaced { NAMESPACED } else { CLUSTER }))
    };
    let (plural, scope) = listed.or_else(of_other_version)?;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind});
    Some(json!({
        "metadata": {"name": format!("{plural}.{version}.{group}")},
        "spec": {
            "group": group, "scope": scope, "names": names,
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }))
}
