//! The claims that pods get from ResourceClaimTemplates. In a cluster, the ResourceClaim controller
//! creates them.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::device::template::claim_for;
use framework::{EventResource, GeneratedClaims, Pod, PodClaimSource};
use serde_json::{Value, json};

use crate::{DumpedPod, Object};

/// The templates of a dump, by namespace and name.
pub(super) struct ClaimTemplates(BTreeMap<(String, String), Value>);

impl ClaimTemplates {
    pub(super) fn new(templates: Vec<Value>) -> Self {
        let text = |template: &Value, field: &str| {
            template["metadata"][field].as_str().unwrap_or_default().to_owned()
        };
        let keyed = templates.into_iter().map(|template| {
            let namespace = match text(&template, "namespace") {
                none if none.is_empty() => "default".to_owned(),
                namespace => namespace,
            };
            ((namespace, text(&template, "name")), template)
        });
        Self(keyed.collect())
    }

    /// Makes the claims that a pending pod lacks, and writes their names into the pod. A template
    /// that is missing is added to `warnings`; the pod then waits for its claim.
    pub(super) fn complete(
        &self,
        object: &mut DumpedPod,
        warnings: &mut Vec<String>,
    ) -> Vec<Object> {
        let pod = &object.pod;
        let mut names: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        let mut claims = Vec::new();
        for entry in &pod.spec.resource_claims {
            if entry.source != PodClaimSource::Template {
                continue;
            }
            let made = pod.generated_claims().and_then(|made| made.claim(&entry.name));
            if let Some(made) = made {
                names.extend(made.map(|claim| (entry.name.clone(), claim.clone())));
                continue;
            }
            let read = object.object();
            let wanted = template_name(&read, &entry.name);
            let key = (pod.key.namespace.to_string(), wanted.to_owned());
            let Some(template) = self.0.get(&key) else {
                warnings.push(format!(
                    "Pod {}: the ResourceClaimTemplate {wanted} is not in the input",
                    pod.key
                ));
                continue;
            };
            let claim = claim(pod, &entry.name, template);
            names.push((entry.name.clone(), claim.name.clone()));
            claims.push(claim);
        }
        if !claims.is_empty() {
            let claims = GeneratedClaims::from_names(names);
            object.pod.set_generated_claims(Some(Arc::new(claims)));
        }
        claims
    }
}

/// Returns the name of the template of an entry of `spec.resourceClaims`.
fn template_name<'a>(raw: &'a Value, entry: &str) -> &'a str {
    let mut entries = raw["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let entry = entries.find(|own| own["name"] == entry);
    entry.and_then(|own| own["resourceClaimTemplateName"].as_str()).unwrap_or_default()
}

fn claim(pod: &Pod, entry: &str, template: &Value) -> Object {
    let namespace = pod.key.namespace.clone();
    let owner = json!({"metadata": {"name": &*pod.key.name, "namespace": &*namespace,
        "uid": pod.uid.to_string()}});
    let mut claim = claim_for(&owner, entry, template);
    // The names of the pod and of the entry make the name unique.
    let name: Arc<str> = format!("{}-{entry}", pod.key.name).into();
    claim["metadata"]["name"] = json!(&*name);
    Object { kind: EventResource::ResourceClaim, namespace, name, object: claim.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(claims: Value, status: Value) -> DumpedPod {
        let raw = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": [{"name": "c"}], "resourceClaims": claims}, "status": status});
        let pod = Pod::from_api(&serde_json::from_value(raw.clone()).unwrap());
        let raw = serde_json::value::to_raw_value(&raw).ok().map(Arc::from);
        DumpedPod { pod, raw, created: None, owner: None }
    }

    fn templates() -> ClaimTemplates {
        let metadata = json!({"name": "t", "namespace": "ns"});
        ClaimTemplates::new(vec![json!({"metadata": metadata, "spec": {"spec": {"devices": {}}}})])
    }

    #[test]
    fn missing_claims_are_made_and_existing_ones_kept() {
        let entries = ["made", "new", "odd"].map(|name| {
            let template = if name == "odd" { "unknown" } else { "t" };
            json!({"name": name, "resourceClaimTemplateName": template})
        });
        let statuses = json!([{"name": "made", "resourceClaimName": "p-made-x"}]);
        let mut pod = pod(json!(entries), json!({"resourceClaimStatuses": statuses}));
        let mut warnings = Vec::new();
        let claims = templates().complete(&mut pod, &mut warnings);
        let names: Vec<&str> = claims.iter().map(|claim| &*claim.name).collect();
        assert_eq!(names, ["p-new"]);
        assert_eq!(claims[0].object["metadata"]["ownerReferences"][0]["uid"], "u");
        let made = pod.pod.generated_claims().unwrap();
        let of = |entry| made.claim(entry).flatten().map(|claim| claim.to_string());
        assert_eq!([of("made"), of("new")].map(Option::unwrap), ["p-made-x", "p-new"]);
        assert_eq!(of("odd"), None);
        assert_eq!(warnings, ["Pod ns/p: the ResourceClaimTemplate unknown is not in the input"]);
    }
}
