//! Writes of the status of ResourceClaims: permissions for single fields, and devices that are
//! deallocated.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::User;
use crate::authorization::{self, Attributes, Target};
use crate::metadata::namespace;
use crate::object::{entries, put, remove, text};
use crate::resources::RESOURCECLAIMS;
use crate::status::Cause;
use crate::store::Store;

/// The attribute of a token with the node of its pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// A user who writes, with the verb.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) user: &'a User,
    pub(crate) verb: &'a str,
}

/// Checks the permissions for a change of the status (DRAResourceClaimGranularStatusAuthorization).
/// Allocation and reservations need `resourceclaims/binding` in the whole cluster, the status of
/// devices needs `resourceclaims/driver` for each driver.
pub(crate) fn authorize(store: &Store, by: Writer<'_>, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let [before, after] = [old, new].map(|claim| &claim["status"]);
    let changed = |field: &str| before.get(field) != after.get(field);
    if changed("allocation") || changed("reservedFor") {
        let verb = by.verb;
        if let Err(refusal) = permission(store, by, verb, "binding", "", "") {
            causes.push(Cause::forbidden(
                "status",
                &format!(
                    "changing status.allocation or status.reservedFor requires \
                     resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {refusal}"
                ),
            ));
        }
    }
    let verbs = verbs_of_drivers(by, after);
    for driver in changed_drivers(before, after) {
        let permissions =
            verbs.iter().map(|verb| permission(store, by, verb, "driver", namespace(new), driver));
        let refusals: Vec<String> = permissions.filter_map(Result::err).collect();
        if refusals.len() == verbs.len() {
            causes.push(Cause::forbidden(
                "status.devices",
                &format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", \
                     verb=\"[{}]\" permission: {}",
                    verbs.join(" "),
                    refusals[0]
                ),
            ));
        }
    }
    causes
}

fn permission(
    store: &Store,
    by: Writer<'_>,
    verb: &str,
    subresource: &str,
    namespace: &str,
    name: &str,
) -> Result<(), String> {
    let (group, resource) = (RESOURCECLAIMS.group, RESOURCECLAIMS.plural);
    let target = Target::Resource { group, resource, subresource, namespace, name };
    let checked = authorization::check(store, by.user, &Attributes { verb, target });
    checked.map_err(|status| status.message)
}

/// Returns the verbs of which one permits to write the status of devices. A ServiceAccount on the
/// node of the allocation needs less than others.
fn verbs_of_drivers(by: Writer<'_>, status: &Value) -> Vec<String> {
    let is_account = by.user.name.starts_with("system:serviceaccount:");
    let own = by.user.extra.get(NODE_NAME).map(Vec::as_slice);
    let node = allocated_node(status);
    let is_associated =
        is_account && node.is_some_and(|node| own.is_some_and(|own| own == [node.to_owned()]));
    let prefixes: &[&str] =
        if is_associated { &["associated-node", "arbitrary-node"] } else { &["arbitrary-node"] };
    prefixes.iter().map(|prefix| format!("{prefix}:{}", by.verb)).collect()
}

/// Returns the node of an allocation on a single node.
fn allocated_node(status: &Value) -> Option<&str> {
    let terms = status.pointer("/allocation/nodeSelector/nodeSelectorTerms")?.as_array()?;
    let [term] = terms.as_slice() else { return None };
    let fields = term["matchFields"].as_array()?;
    let ([field], true) = (fields.as_slice(), term["matchExpressions"].is_null()) else {
        return None;
    };
    let [node] = field["values"].as_array()?.as_slice() else { return None };
    node.as_str().filter(|_| field["key"] == "metadata.name" && field["operator"] == "In")
}

/// Returns the drivers of devices whose status is new, gone or different.
fn changed_drivers<'a>(before: &'a Value, after: &'a Value) -> BTreeSet<&'a str> {
    let devices = |status: &'a Value| entries(status, "/devices");
    let new = devices(after).filter(|device| !devices(before).any(|old| old == *device));
    let gone = devices(before).filter(|device| !devices(after).any(|new| new == *device));
    new.chain(gone).map(|device| text(device, "/driver")).collect()
}

/// Removes the status of devices that this write deallocates.
pub(crate) fn drop_deallocated(old: &Value, new: &mut Value) {
    const RESULTS: &str = "/status/allocation/devices/results";
    let identity =
        |device: &Value| ["driver", "pool", "device", "shareID"].map(|field| device[field].clone());
    let allocated = |claim: &Value| entries(claim, RESULTS).map(identity).collect::<Vec<_>>();
    let kept = allocated(new);
    let mut gone = allocated(old);
    gone.retain(|device| !kept.contains(device));
    let devices = entries(new, "/status/devices");
    let left: Vec<Value> =
        devices.filter(|device| !gone.contains(&identity(device))).cloned().collect();
    if !new["status"]["devices"].is_array() {
        return;
    }
    if left.is_empty() {
        remove(new, &["status"], "devices");
    } else {
        put(new, &["status", "devices"], left.into());
    }
}

#[cfg(test)]
mod tests {
    use framework::Time;
    use serde_json::json;

    use super::*;
    use crate::api::{Answer, Request};
    use crate::resources::{CLUSTERROLEBINDINGS, CLUSTERROLES, NAMESPACES};

    const NOW: Time = Time::from_secs(1_000_000);
    const PATH: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status";

    fn store() -> Store {
        let mut store = Store::new(1, NOW);
        let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
        let claim =
            json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}});
        store.create(RESOURCECLAIMS, claim, NOW).unwrap();
        store
    }

    /// Grants a user the permission for a subresource of claims in the whole cluster.
    fn grant(store: &mut Store, user: &str, subresource: &str, verb: &str) {
        let name = format!("{user}-{subresource}");
        let resources = [format!("resourceclaims/{subresource}")];
        let rules =
            json!([{"apiGroups": ["resource.k8s.io"], "resources": resources, "verbs": [verb]}]);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        store.create(CLUSTERROLES, role, NOW).unwrap();
        let subject =
            json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let binding = json!({"metadata": {"name": name}, "subjects": [subject], "roleRef":
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
        store.create(CLUSTERROLEBINDINGS, binding, NOW).unwrap();
    }

    fn patch(store: &mut Store, user: &str, status: &Value) -> (u16, Value) {
        let body = json!({"status": status}).to_string();
        let mut request = Request::new("PATCH", PATH, body);
        request.content_type = "application/merge-patch+json".to_owned();
        if !user.is_empty() {
            request.user = User::new(user, ["system:authenticated"]);
        }
        let Answer::Whole(response) = store.serve(&request, NOW) else { panic!("a response") };
        (response.status, serde_json::from_slice(&response.body).unwrap())
    }

    fn allocation() -> Value {
        let result = json!({"request": "r", "driver": "d.io", "pool": "n", "device": "gpu-0"});
        json!({"allocation": {"devices": {"results": [result]}}})
    }

    #[test]
    fn allocating_needs_the_permission_to_bind() {
        let mut store = store();
        grant(&mut store, "ann", "status", "patch");
        let (code, refused) = patch(&mut store, "ann", &allocation());
        let message = refused["message"].as_str().unwrap();
        assert_eq!(code, 422);
        assert!(
            message.contains(
                "status: Forbidden: changing status.allocation or status.reservedFor requires \
                 resource=\"resourceclaims/binding\", verb=\"patch\" permission: \
                 resourceclaims.resource.k8s.io is forbidden: User \"ann\" cannot patch resource \
                 \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope"
            ),
            "{message}"
        );
        grant(&mut store, "ann", "binding", "patch");
        assert_eq!(patch(&mut store, "ann", &allocation()).0, 200);
    }

    #[test]
    fn status_of_devices_needs_a_permission_for_their_driver() {
        let mut store = store();
        assert_eq!(patch(&mut store, "", &allocation()).0, 200);
        grant(&mut store, "ann", "status", "patch");
        let devices = json!({"devices": [{"driver": "d.io", "pool": "n", "device": "gpu-0"}]});
        let (code, refused) = patch(&mut store, "ann", &devices);
        assert_eq!(code, 422);
        assert!(refused["message"].as_str().unwrap().contains("verb=\"[arbitrary-node:patch]\""));
        grant(&mut store, "ann", "driver", "arbitrary-node:patch");
        assert_eq!(patch(&mut store, "ann", &devices).0, 200);
    }

    #[test]
    fn deallocated_devices_lose_their_status() {
        let mut store = store();
        assert_eq!(patch(&mut store, "", &allocation()).0, 200);
        let devices = json!({"devices": [{"driver": "d.io", "pool": "n", "device": "gpu-0"}]});
        assert_eq!(patch(&mut store, "", &devices).0, 200);
        let (code, claim) = patch(&mut store, "", &json!({"allocation": null}));
        assert_eq!((code, &claim["status"]), (200, &json!({})));
    }

    #[test]
    fn admin_access_needs_a_label_of_the_namespace() {
        let mut store = store();
        let claim = |name| {
            let exactly = json!({"deviceClassName": "gpu", "adminAccess": true});
            let requests = json!([{"name": "r", "exactly": exactly}]);
            json!({"metadata": {"name": name, "namespace": "tools"}, "spec": {"devices": {"requests": requests}}})
        };
        let namespace = json!({"metadata": {"name": "tools"}});
        store.create(NAMESPACES, namespace, NOW).unwrap();
        let refused = store.create(RESOURCECLAIMS, claim("a"), NOW).unwrap_err();
        assert!(refused.message.contains(
            "admin access to devices requires the `resource.kubernetes.io/admin-access: true` \
             label on the containing namespace"
        ));
        let label = |namespace: &mut Value| {
            put(
                namespace,
                &["metadata", "labels", "resource.kubernetes.io/admin-access"],
                "true".into(),
            );
            Ok(())
        };
        store.modify(NAMESPACES, "", "tools", NOW, label).unwrap();
        store.create(RESOURCECLAIMS, claim("a"), NOW).unwrap();
    }
}
