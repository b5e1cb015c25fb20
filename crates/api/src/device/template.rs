//! Claims that are made from ResourceClaimTemplates. In a cluster, the ResourceClaim controller
//! creates them.

use serde_json::{Value, json};

/// The annotation of a claim from a template with the name of the claim in its pod.
pub const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// The annotation of a claim from a template with the name of the claim in its PodGroup.
pub const GROUP_CLAIM_NAME: &str = "resource.kubernetes.io/podgroup-claim-name";

/// The API of the owner of a claim.
#[derive(Clone, Copy)]
struct Api<'a> {
    version: &'a str,
    kind: &'a str,
}

/// Maximum length of a generated name, without the hyphen and the five random characters at its
/// end.
const BASE_MAX: usize = 57;

/// Returns a pod's claim for which `template` is the template. The pod owns the claim. The API
/// server completes the name from `generateName`.
pub fn claim_for(pod: &Value, pod_claim: &str, template: &Value) -> Value {
    let mut claim = claim_of(pod, Api { version: "v1", kind: "Pod" }, pod_claim, template);
    claim["metadata"]["annotations"][POD_CLAIM_NAME] = json!(pod_claim);
    claim
}

/// Returns the claim of a PodGroup for which `template` is the template. The PodGroup owns the
/// claim. The API server completes the name from `generateName`.
pub fn claim_for_group(group: &Value, group_claim: &str, template: &Value) -> Value {
    let version = group["apiVersion"].as_str().unwrap_or("scheduling.k8s.io/v1beta1");
    let mut claim = claim_of(group, Api { version, kind: "PodGroup" }, group_claim, template);
    claim["metadata"]["annotations"][GROUP_CLAIM_NAME] = json!(group_claim);
    claim
}

fn claim_of(owner: &Value, api: Api<'_>, entry: &str, template: &Value) -> Value {
    let (template, owner) = (&template["spec"], &owner["metadata"]);
    let name = owner["name"].as_str().unwrap_or_default();
    let mut metadata = json!({
        "generateName": format!("{}-", name_base(name, entry)),
        "namespace": owner["namespace"],
        "annotations": template["metadata"]["annotations"],
        "ownerReferences": [{
            "apiVersion": api.version, "kind": api.kind, "name": name, "uid": owner["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    if template["metadata"]["labels"].is_object() {
        metadata["labels"] = template["metadata"]["labels"].clone();
    }
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": metadata, "spec": template["spec"],
    })
}

/// Returns `pod-claim`. Both parts of a name that is too long are shortened in proportion.
fn name_base(pod: &str, pod_claim: &str) -> String {
    let whole = format!("{pod}-{pod_claim}");
    if whole.len() <= BASE_MAX {
        return whole;
    }
    let part = |text: &str| {
        let length = text.len() * BASE_MAX / whole.len();
        text.get(..length).unwrap_or(text).to_owned()
    };
    format!("{}-{}", part(pod), part(pod_claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_has_the_spec_of_its_template_and_is_owned_by_its_pod() {
        let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}});
        let metadata = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
        let template = json!({"spec": {"metadata": metadata, "spec": {"devices": {}}}});
        let claim = claim_for(&pod, "gpu", &template);
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u",
            "controller": true, "blockOwnerDeletion": true});
        let metadata = json!({
            "generateName": "web-gpu-", "namespace": "shop", "labels": {"a": "b"},
            "annotations": {"c": "d", POD_CLAIM_NAME: "gpu"}, "ownerReferences": [owner],
        });
        assert_eq!((&claim["metadata"], &claim["spec"]), (&metadata, &json!({"devices": {}})));
    }

    #[test]
    fn long_names_are_shortened_in_proportion() {
        assert_eq!(name_base("web", "gpu"), "web-gpu");
        let base = name_base(&"p".repeat(90), &"c".repeat(29));
        assert_eq!(base, format!("{}-{}", "p".repeat(42), "c".repeat(13)));
        assert!(base.len() <= BASE_MAX);
    }
}
