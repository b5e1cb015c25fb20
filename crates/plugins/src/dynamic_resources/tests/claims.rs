//! The claims of a pod.

use serde_json::json;

use super::world::*;
use crate::dynamic_resources::*;

fn owned(name: &str, owner: &str) -> Value {
    let mut claim = claim(name, 1);
    claim["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": true,
    }]);
    claim
}

#[test]
fn claims_that_cannot_be_used_gate_and_reject_the_pod() {
    let deleted = {
        let mut claim = claim("going", 1);
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        claim
    };
    let world = World::new([
        ("resourceclaims", claim("here", 1)),
        ("resourceclaims", deleted),
        ("resourceclaims", owned("made", "uid-p")),
        ("resourceclaims", owned("other", "uid-q")),
    ]);
    let named = |name: &str| json!({"name": "c", "resourceClaimName": name});
    let template = json!({"name": "t", "resourceClaimTemplateName": "template"});
    let generated = |name: Value| json!([{"name": "t", "resourceClaimName": name}]);
    let rows = [
        (named("here"), json!([]), ""),
        (named("absent"), json!([]), "could not find ResourceClaim \"default/absent\""),
        (named("going"), json!([]), "resourceclaim \"going\" is being deleted"),
        (
            json!({"name": "n"}),
            json!([]),
            "pod \"default/p\", spec.resourceClaim \"n\": none of the supported fields are set",
        ),
        (template.clone(), json!([]), "pod \"default/p\": ResourceClaim not created yet"),
        (template.clone(), json!([{"name": "t"}]), ""),
        (template.clone(), generated(json!("made")), ""),
        (
            template,
            generated(json!("other")),
            "ResourceClaim default/other was not created for Pod default/p (Pod is not owner)",
        ),
        // A claim that the pod names itself may belong to any pod.
        (named("other"), json!([]), ""),
    ];
    for (entry, statuses, expected) in rows {
        let status = json!({"resourceClaimStatuses": statuses});
        let pod = pod_with("p", &json!({"resourceClaims": [entry]}), &status);
        let gate = world.plugin.pre_enqueue.as_ref().unwrap().pre_enqueue(&pod, &world.handle());
        assert_eq!(gate.message(), expected);
        let (_, result) = world.pre_filter(&pod);
        let status = result.err().filter(|status| !status.is_skip()).unwrap_or_default();
        assert_eq!(status, gate, "PreEnqueue and PreFilter agree");
    }
}

#[test]
fn pod_without_claims_is_skipped() {
    let world = World::new([]);
    let (_, result) = world.pre_filter(&pod("p", &json!({})));
    assert!(result.is_err_and(|status| status.is_skip()));
    let entry = json!({"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "t"}]});
    let none = json!({"resourceClaimStatuses": [{"name": "t"}]});
    let (_, result) = world.pre_filter(&pod_with("p", &entry, &none));
    assert!(result.is_err_and(|status| status.is_skip()), "the pod needs no claim");
}
