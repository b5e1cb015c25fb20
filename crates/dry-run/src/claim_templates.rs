//! The claims that pods and PodGroups get from ResourceClaimTemplates. In a cluster, the
//! ResourceClaim controller creates them.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::device::template::{claim_for, claim_for_group};
use framework::{EventResource, GeneratedClaims, Pod, PodClaimSource};
use serde_json::{Value, json};

use crate::{DumpedObject, DumpedPod, Object};

/// The templates of a dump, and the PodGroups that share claims, by namespace and name.
pub(super) struct ClaimTemplates {
    templates: BTreeMap<(String, String), Value>,
    groups: BTreeMap<(String, String), Value>,
}

impl ClaimTemplates {
    pub(super) fn new(templates: Vec<Value>, objects: &[DumpedObject]) -> Self {
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
        let groups = objects.iter().filter(|object| object.kind == EventResource::PodGroup);
        let groups = groups.map(|group| {
            let mut object: Value = serde_json::from_str(group.raw.get()).unwrap_or_default();
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = json!(&*group.namespace);
            }
            ((group.namespace.to_string(), group.name.to_string()), object)
        });
        Self { templates: keyed.collect(), groups: groups.collect() }
    }

    /// Makes the claims that a pending pod or its PodGroup lacks, and writes their names into the
    /// pod. A template that is missing is added to `warnings`; the pod then waits for its claim.
    pub(super) fn complete(
        &mut self,
        object: &mut DumpedPod,
        warnings: &mut Vec<String>,
    ) -> Vec<Object> {
        let pod = &object.pod;
        let mut names: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        let mut claims = Vec::new();
        let mut adds_names = false;
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
            let group_name = read["spec"]["schedulingGroup"]["podGroupName"].as_str();
            let group_key = (key.0.clone(), group_name.unwrap_or_default().to_owned());
            let group = self.groups.get_mut(&group_key);
            let group = group.filter(|group| template_name(group, &entry.name) == wanted);
            if let Some(made) = group.as_ref().and_then(|group| claim_in_status(group, &entry.name))
            {
                names.push((entry.name.clone(), made.into()));
                adds_names = true;
                continue;
            }
            let Some(template) = self.templates.get(&key) else {
                warnings.push(format!(
                    "Pod {}: the ResourceClaimTemplate {wanted} is not in the input",
                    pod.key
                ));
                continue;
            };
            let claim = match group {
                Some(group) => {
                    let claim = claim_of_group(group, &entry.name, template);
                    note_in_status(group, &entry.name, &claim.name);
                    claim
                }
                None => claim(pod, &entry.name, template),
            };
            names.push((entry.name.clone(), claim.name.clone()));
            adds_names = true;
            claims.push(claim);
        }
        if adds_names {
            let claims = GeneratedClaims::from_names(names);
            object.pod.set_generated_claims(Some(Arc::new(claims)));
        }
        claims
    }
}

/// Returns the name of the claim in the status of a PodGroup that was made for an entry.
fn claim_in_status<'a>(group: &'a Value, entry: &str) -> Option<&'a str> {
    let mut statuses = group["status"]["resourceClaimStatuses"].as_array()?.iter();
    statuses.find(|own| own["name"] == entry)?["resourceClaimName"].as_str()
}

/// Names the claim that was made for an entry in the status of a PodGroup.
fn note_in_status(group: &mut Value, entry: &str, claim: &str) {
    let statuses = &mut group["status"]["resourceClaimStatuses"];
    if !statuses.is_array() {
        *statuses = json!([]);
    }
    if let Some(statuses) = statuses.as_array_mut() {
        statuses.push(json!({"name": entry, "resourceClaimName": claim}));
    }
}

/// Returns the name of the template of an entry of `spec.resourceClaims`, of a pod or a PodGroup.
fn template_name<'a>(raw: &'a Value, entry: &str) -> &'a str {
    let mut entries = raw["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let entry = entries.find(|own| own["name"] == entry);
    entry.and_then(|own| own["resourceClaimTemplateName"].as_str()).unwrap_or_default()
}

fn claim(pod: &Pod, entry: &str, template: &Value) -> Object {
    let namespace = &*pod.key.namespace;
    let owner = json!({"metadata": {"name": &*pod.key.name, "namespace": namespace,
        "uid": pod.uid.to_string()}});
    named(claim_for(&owner, entry, template), &pod.key.name, entry)
}

fn claim_of_group(group: &Value, entry: &str, template: &Value) -> Object {
    let owner = group["metadata"]["name"].as_str().unwrap_or_default();
    named(claim_for_group(group, entry, template), owner, entry)
}

/// Names a claim after its owner and the entry, which makes its name unique.
fn named(mut claim: Value, owner: &str, entry: &str) -> Object {
    let namespace = claim["metadata"]["namespace"].as_str().unwrap_or_default().into();
    let name: Arc<str> = format!("{owner}-{entry}").into();
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
        let template = json!({"metadata": metadata, "spec": {"spec": {"devices": {}}}});
        let entry = json!({"name": "shared", "resourceClaimTemplateName": "t"});
        let group = json!({"metadata": {"name": "g", "namespace": "ns", "uid": "of-g"},
            "spec": {"resourceClaims": [entry]}});
        let raw = serde_json::value::to_raw_value(&group).unwrap().into();
        let kind = EventResource::PodGroup;
        let group = DumpedObject { kind, namespace: "ns".into(), name: "g".into(), raw };
        ClaimTemplates::new(vec![template], &[group])
    }

    #[test]
    fn pods_of_a_group_get_one_claim_for_an_entry_of_the_group() {
        let mut templates = templates();
        let entries = json!([
            {"name": "shared", "resourceClaimTemplateName": "t"},
            {"name": "own", "resourceClaimTemplateName": "t"},
        ]);
        let mut made = Vec::new();
        for _ in 0..2 {
            let mut pod = pod(entries.clone(), json!({}));
            let mut raw = pod.object();
            raw["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
            pod.raw = serde_json::value::to_raw_value(&raw).ok().map(Arc::from);
            made.extend(templates.complete(&mut pod, &mut Vec::new()));
            let names = pod.pod.generated_claims().unwrap();
            let of = |entry| names.claim(entry).flatten().map(|claim| claim.to_string());
            assert_eq!([of("shared"), of("own")].map(Option::unwrap), ["g-shared", "p-own"]);
        }
        let owners = made.iter().map(|claim| {
            let owner = &claim.object["metadata"]["ownerReferences"][0];
            (&*claim.name, owner["kind"].as_str().unwrap(), owner["uid"].as_str().unwrap())
        });
        let owners: Vec<_> = owners.collect();
        let own = ("p-own", "Pod", "u");
        assert_eq!(owners, [("g-shared", "PodGroup", "of-g"), own, own]);
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
