//! Claims for devices and their pods under all controllers.

use serde_json::{Value, json};

use super::tests::{Cluster, node};
use crate::metadata::name;
use crate::object::{entries, text};
use crate::resources::{
    DEVICECLASSES, EVENTS, NODES, PODGROUPS, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
};

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

fn devices() -> Value {
    json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}})
}

fn template(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"spec": devices()}})
}

/// Returns a pod with claims of these names and sources.
fn pod(name: &str, claims: Value) -> Value {
    json!({"metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}})
}

fn from_template() -> Value {
    json!([{"name": "gpu", "resourceClaimTemplateName": "t"}])
}

impl Cluster {
    fn claims(&self) -> Vec<String> {
        self.store.objects(RESOURCECLAIMS).map(|claim| name(claim).to_owned()).collect()
    }

    /// Allocates a claim and reserves it for pods, as a scheduler does.
    fn allocate(&mut self, claim: &str, pods: &[&str]) {
        let reservations: Vec<Value> = pods.iter().map(|pod| {
            json!({"resource": "pods", "name": pod, "uid": self.get(PODS, pod)["metadata"]["uid"]})
        }).collect();
        let result = json!({"request": "r", "driver": "d.io", "pool": "n", "device": "gpu-0"});
        self.change(RESOURCECLAIMS, claim, &["metadata", "finalizers"], json!([FINALIZER]));
        let status =
            json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": reservations});
        self.change(RESOURCECLAIMS, claim, &["status"], status);
    }

    fn reserved_for(&self, claim: &str) -> Vec<&str> {
        let users = entries(self.get(RESOURCECLAIMS, claim), "/status/reservedFor");
        users.map(|user| text(user, "/name")).collect()
    }
}

#[test]
fn pod_gets_a_claim_from_its_template() {
    let mut cluster = Cluster::new();
    cluster.create(RESOURCECLAIMTEMPLATES, template("t"));
    cluster.create(PODS, pod("web", from_template()));
    let claims = cluster.claims();
    let [claim] = claims.as_slice() else { panic!("{claims:?}") };
    assert!(claim.starts_with("web-gpu-") && claim.len() == "web-gpu-".len() + 5, "{claim}");
    let status = json!([{"name": "gpu", "resourceClaimName": claim}]);
    assert_eq!(cluster.get(PODS, "web")["status"]["resourceClaimStatuses"], status);
    let object = cluster.get(RESOURCECLAIMS, claim);
    let annotation = &object["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"];
    assert_eq!(annotation, "gpu");
    assert_eq!(object["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(object["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
    cluster.delete(PODS, "web");
    assert!(cluster.claims().is_empty(), "the claim is deleted with its pod");
}

#[test]
fn pod_waits_for_its_template() {
    let mut cluster = Cluster::new();
    cluster.create(PODS, pod("web", from_template()));
    let event = cluster.store.objects(EVENTS).next().unwrap();
    assert_eq!(event["reason"], "FailedResourceClaimCreation");
    let message = "PodResourceClaim gpu: resource claim template \"t\": \
                   resourceclaimtemplates.resource.k8s.io \"t\" not found";
    assert_eq!(event["message"], message);
    cluster.wait(60);
    assert_eq!(cluster.store.objects(EVENTS).count(), 1, "the reason is reported once");
    cluster.create(RESOURCECLAIMTEMPLATES, template("t"));
    assert_eq!(cluster.claims().len(), 1);
}

#[test]
fn claim_without_its_entry_in_the_pod_is_found_again() {
    let mut cluster = Cluster::new();
    cluster.create(RESOURCECLAIMTEMPLATES, template("t"));
    cluster.create(PODS, pod("web", from_template()));
    let claims = cluster.claims();
    cluster.change(PODS, "web", &["status", "resourceClaimStatuses"], json!([]));
    assert_eq!(cluster.claims(), claims);
    let statuses = &cluster.get(PODS, "web")["status"]["resourceClaimStatuses"];
    assert_eq!(statuses[0]["resourceClaimName"], *claims[0]);
}

#[test]
fn claim_of_an_ended_pod_is_deallocated_and_deleted() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n"));
    cluster.create(RESOURCECLAIMTEMPLATES, template("t"));
    cluster.create(PODS, pod("web", from_template()));
    let claim = cluster.claims().remove(0);
    cluster.allocate(&claim, &["web"]);
    cluster.bind_all_to("n");
    assert_eq!(cluster.reserved_for(&claim), ["web"]);
    cluster.change(PODS, "web", &["status", "phase"], json!("Succeeded"));
    assert!(cluster.claims().is_empty());
    assert_eq!(cluster.pods(), ["web"], "the pod stays");
}

#[test]
fn shared_claim_loses_the_reservation_of_a_pod_that_is_gone_and_then_its_devices() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n"));
    cluster.create(RESOURCECLAIMS, json!({"metadata": {"name": "shared"}, "spec": devices()}));
    for name in ["a", "b"] {
        cluster.create(PODS, pod(name, json!([{"name": "gpu", "resourceClaimName": "shared"}])));
    }
    cluster.allocate("shared", &["a", "b"]);
    cluster.delete(PODS, "a");
    assert_eq!(cluster.reserved_for("shared"), ["b"]);
    assert!(cluster.get(RESOURCECLAIMS, "shared")["status"]["allocation"].is_object());
    cluster.delete(PODS, "b");
    let claim = cluster.get(RESOURCECLAIMS, "shared");
    assert_eq!((&claim["status"], &claim["metadata"]["finalizers"]), (&json!({}), &json!([])));
}

#[test]
fn reservation_for_a_pod_that_is_gone_is_removed() {
    let mut cluster = Cluster::new();
    cluster.create(RESOURCECLAIMS, json!({"metadata": {"name": "c"}, "spec": devices()}));
    cluster.create(PODS, pod("a", json!([{"name": "gpu", "resourceClaimName": "c"}])));
    let uid = cluster.get(PODS, "a")["metadata"]["uid"].clone();
    cluster.delete(PODS, "a");
    cluster.create(PODS, pod("a", json!([{"name": "gpu", "resourceClaimName": "c"}])));
    cluster.allocate("c", &["a"]);
    let late = json!([{"resource": "pods", "name": "a", "uid": uid}]);
    cluster.change(RESOURCECLAIMS, "c", &["status", "reservedFor"], late);
    assert_eq!(cluster.get(RESOURCECLAIMS, "c")["status"], json!({}));
}

#[test]
fn deleted_claim_stays_until_its_pod_is_gone() {
    let mut cluster = Cluster::new();
    cluster.create(RESOURCECLAIMS, json!({"metadata": {"name": "c"}, "spec": devices()}));
    cluster.create(PODS, pod("a", json!([{"name": "gpu", "resourceClaimName": "c"}])));
    cluster.allocate("c", &["a"]);
    cluster.delete(RESOURCECLAIMS, "c");
    assert_eq!(cluster.claims(), ["c"]);
    cluster.delete(PODS, "a");
    assert!(cluster.claims().is_empty());
}

#[test]
fn pod_with_a_node_reserves_its_allocated_claim() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n"));
    cluster.create(RESOURCECLAIMS, json!({"metadata": {"name": "c"}, "spec": devices()}));
    cluster.allocate("c", &[]);
    let mut pod = pod("a", json!([{"name": "gpu", "resourceClaimName": "c"}]));
    pod["spec"]["nodeName"] = json!("n");
    cluster.create(PODS, pod);
    assert_eq!(cluster.reserved_for("c"), ["a"]);
}

#[test]
fn nodes_have_the_devices_of_their_annotation() {
    let mut cluster = Cluster::new();
    let mut annotated = node("a");
    annotated["metadata"]["annotations"] = json!({"sandbox.loadmaster.dev/devices": "gpu=1,nic=1"});
    cluster.create(NODES, annotated);
    cluster.create(NODES, node("b"));
    let slices: Vec<&str> = cluster.store.objects(RESOURCESLICES).map(|own| name(own)).collect();
    assert_eq!(slices, ["a-gpu-0", "a-gpu-1", "a-nic-0"]);
    let classes: Vec<&str> = cluster.store.objects(DEVICECLASSES).map(|own| name(own)).collect();
    assert_eq!(classes, ["gpu", "gpu-half", "nic"]);
    cluster.delete(NODES, "a");
    assert_eq!(cluster.store.objects(RESOURCESLICES).count(), 0);
    let mut odd = node("c");
    odd["metadata"]["annotations"] = json!({"sandbox.loadmaster.dev/devices": "tpu=1"});
    cluster.create(NODES, odd);
    let event = cluster.store.objects(EVENTS).find(|event| event["reason"] == "InvalidDevices");
    assert!(event.is_some_and(|event| text(event, "/message").contains("neither gpu nor nic")));
}

fn group() -> Value {
    json!({"metadata": {"name": "g"}, "spec": {
        "schedulingPolicy": {"basic": {}}, "resourceClaims": from_template(),
    }})
}

fn member(name: &str, claims: Value) -> Value {
    let mut pod = pod(name, claims);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    pod
}

#[test]
fn pods_of_a_group_get_its_claim_and_a_claim_of_their_own_for_other_entries() {
    let mut cluster = Cluster::new();
    cluster.create(RESOURCECLAIMTEMPLATES, template("t"));
    cluster.create(PODS, member("early", from_template()));
    assert!(cluster.claims().is_empty(), "the pod waits for its PodGroup");
    cluster.create(PODGROUPS, group());
    let claims = cluster.claims();
    let [claim] = claims.as_slice() else { panic!("{claims:?}") };
    assert!(claim.starts_with("g-gpu-"), "{claim}");
    let object = cluster.get(RESOURCECLAIMS, claim);
    let annotation =
        &object["metadata"]["annotations"]["resource.kubernetes.io/podgroup-claim-name"];
    assert_eq!(annotation, "gpu");
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!([&owner["kind"], &owner["name"]], ["PodGroup", "g"]);

    cluster.create(PODS, member("late", from_template()));
    let status = json!([{"name": "gpu", "resourceClaimName": claim}]);
    assert_eq!(cluster.get(PODGROUPS, "g")["status"]["resourceClaimStatuses"], status);
    for pod in ["early", "late"] {
        assert_eq!(cluster.get(PODS, pod)["status"]["resourceClaimStatuses"], status, "{pod}");
    }
    let own = json!([{"name": "other", "resourceClaimTemplateName": "t"}]);
    cluster.create(PODS, member("apart", own));
    assert_eq!(cluster.claims().len(), 2);
}

#[test]
fn group_waits_for_its_template() {
    let mut cluster = Cluster::new();
    cluster.create(PODGROUPS, group());
    let event = cluster.store.objects(EVENTS).next().unwrap();
    assert_eq!(event["involvedObject"]["kind"], "PodGroup");
    let message = "PodGroupResourceClaim gpu: resource claim template \"t\": \
                   resourceclaimtemplates.resource.k8s.io \"t\" not found";
    assert_eq!(event["message"], message);
    cluster.create(RESOURCECLAIMTEMPLATES, template("t"));
    assert_eq!(cluster.claims().len(), 1);
}

#[test]
fn claim_of_a_group_is_deallocated_and_deleted_with_it() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n"));
    cluster.create(RESOURCECLAIMTEMPLATES, template("t"));
    cluster.create(PODGROUPS, group());
    cluster.create(PODS, member("web", from_template()));
    let claim = cluster.claims().remove(0);
    cluster.allocate(&claim, &[]);
    cluster.bind_all_to("n");
    let users = &cluster.get(RESOURCECLAIMS, &claim)["status"]["reservedFor"];
    assert_eq!(users[0]["resource"], "podgroups");
    assert_eq!(cluster.reserved_for(&claim), ["g"], "once, as for a pod without a scheduler");
    cluster.delete(PODS, "web");
    assert_eq!(cluster.reserved_for(&claim), ["g"], "another pod may come");
    cluster.delete(PODGROUPS, "g");
    assert!(cluster.claims().is_empty());
}
