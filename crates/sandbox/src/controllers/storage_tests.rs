//! Claims, volumes and their pods under all controllers.

use framework::storage::BIND_COMPLETED;
use serde_json::{Value, json};

use super::tests::{Cluster, node, template};
use crate::object::text;
use crate::resources::{
    EVENTS, NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, STATEFULSETS, STORAGECLASSES,
};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

fn class(name: &str, mode: &str, parameters: Value) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "disk.example.com",
        "volumeBindingMode": mode, "parameters": parameters})
}

fn claim_spec(class: &str, size: &str) -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": size}}})
}

fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": claim_spec(class, size)})
}

fn volume(name: &str, class: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "hostPath": {"path": "/data"}}})
}

impl Cluster {
    fn claim_phase(&self, name: &str) -> &str {
        text(self.get(PERSISTENTVOLUMECLAIMS, name), "/status/phase")
    }

    fn volume_of(&self, claim: &str) -> String {
        text(self.get(PERSISTENTVOLUMECLAIMS, claim), "/spec/volumeName").to_owned()
    }

    fn volume_phase(&self, name: &str) -> &str {
        text(self.get(PERSISTENTVOLUMES, name), "/status/phase")
    }

    fn select_node(&mut self, claim: &str, node: &str) {
        let path = ["metadata", "annotations", SELECTED_NODE];
        self.change(PERSISTENTVOLUMECLAIMS, claim, &path, json!(node));
    }

    /// Writes the reference to a claim into a volume, as a scheduler does.
    fn reserve(&mut self, volume: &str, claim: &str) {
        let uid = self.get(PERSISTENTVOLUMECLAIMS, claim)["metadata"]["uid"].clone();
        let reference = json!({"namespace": "default", "name": claim, "uid": uid});
        self.change(PERSISTENTVOLUMES, volume, &["spec", "claimRef"], reference);
    }

    fn volumes(&self) -> usize {
        self.store.objects(PERSISTENTVOLUMES).count()
    }
}

#[test]
fn immediate_claim_gets_the_smallest_matching_volume() {
    let mut cluster = Cluster::new();
    for (name, class, size) in
        [("large", "manual", "9Gi"), ("fitting", "manual", "2Gi"), ("small", "manual", "1Gi")]
    {
        cluster.create(PERSISTENTVOLUMES, volume(name, class, size));
        assert_eq!(cluster.volume_phase(name), "Available");
    }
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "manual", "2Gi"));
    assert_eq!((cluster.claim_phase("data"), &*cluster.volume_of("data")), ("Bound", "fitting"));
    assert_eq!(cluster.volume_phase("fitting"), "Bound");
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("huge", "manual", "90Gi"));
    assert_eq!(cluster.claim_phase("huge"), "Pending", "the class has no provisioner");
}

#[test]
fn waiting_claim_is_bound_to_the_volume_that_a_scheduler_reserves() {
    let mut cluster = Cluster::new();
    let mut local = class("local", "WaitForFirstConsumer", json!({}));
    local["provisioner"] = json!("kubernetes.io/no-provisioner");
    cluster.create(STORAGECLASSES, local);
    cluster.create(PERSISTENTVOLUMES, volume("disk", "local", "5Gi"));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "local", "1Gi"));
    assert_eq!(cluster.claim_phase("data"), "Pending");
    cluster.reserve("disk", "data");
    assert_eq!((cluster.claim_phase("data"), &*cluster.volume_of("data")), ("Bound", "disk"));
}

#[test]
fn provisioning_follows_the_selected_node_after_delay_and_failures() {
    let mut cluster = Cluster::new();
    let parameters =
        json!({"sandbox/provisioning-seconds": "3", "sandbox/provisioning-failures": "1"});
    cluster.create(STORAGECLASSES, class("slow", "WaitForFirstConsumer", parameters));
    let mut zoned = node("n1");
    zoned["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "a"});
    cluster.create(NODES, zoned);
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "slow", "1Gi"));
    cluster.wait(60);
    assert_eq!(cluster.volumes(), 0, "no node is selected");

    cluster.select_node("data", "n1");
    cluster.wait(2);
    assert_eq!(cluster.store.objects(EVENTS).count(), 0);
    cluster.wait(1);
    let events: Vec<&str> =
        cluster.store.objects(EVENTS).map(|event| text(event, "/reason")).collect();
    assert_eq!(events, ["ProvisioningFailed"]);
    let annotations = &cluster.get(PERSISTENTVOLUMECLAIMS, "data")["metadata"]["annotations"];
    assert!(annotations.get(SELECTED_NODE).is_none(), "the scheduler may choose again");

    cluster.select_node("data", "n1");
    cluster.wait(5);
    assert_eq!(cluster.claim_phase("data"), "Bound");
    let volume = cluster.get(PERSISTENTVOLUMES, &cluster.volume_of("data"));
    let zone = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
    assert_eq!(text(volume, zone), "a");
}

#[test]
fn selected_node_that_does_not_exist_is_removed() {
    let mut cluster = Cluster::new();
    cluster.create(STORAGECLASSES, class("fast", "WaitForFirstConsumer", json!({})));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "fast", "1Gi"));
    cluster.select_node("data", "n1");
    let annotations = &cluster.get(PERSISTENTVOLUMECLAIMS, "data")["metadata"]["annotations"];
    assert!(annotations.get(SELECTED_NODE).is_none());
    cluster.create(NODES, node("n1"));
    cluster.wait(5);
    cluster.select_node("data", "n1");
    assert_eq!(cluster.claim_phase("data"), "Bound");
}

#[test]
fn provisioned_volume_is_reachable_where_the_class_allows() {
    let mut cluster = Cluster::new();
    let allowed = json!([{"matchLabelExpressions": [{"key": "rack", "values": ["1", "2"]}]}]);
    for (name, mode) in [("now", "Immediate"), ("later", "WaitForFirstConsumer")] {
        let mut class = class(name, mode, json!({}));
        class["allowedTopologies"] = allowed.clone();
        cluster.create(STORAGECLASSES, class);
        cluster.create(PERSISTENTVOLUMECLAIMS, claim(name, name, "1Gi"));
    }
    let mut racked = node("n1");
    racked["metadata"]["labels"] = json!({"rack": "2", "topology.kubernetes.io/zone": "a"});
    cluster.create(NODES, racked);
    cluster.select_node("later", "n1");
    for (claim, values) in [("now", json!(["1", "2"])), ("later", json!(["2"]))] {
        let volume = cluster.get(PERSISTENTVOLUMES, &cluster.volume_of(claim));
        let reachable = json!({"key": "rack", "operator": "In", "values": values});
        assert_eq!(
            volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"],
            json!([{"matchExpressions": [reachable]}])
        );
    }
}

#[test]
fn claim_is_not_bound_to_a_volume_without_its_access_mode() {
    let mut cluster = Cluster::new();
    cluster.create(STORAGECLASSES, class("local", "WaitForFirstConsumer", json!({})));
    let mut shared = claim("data", "local", "1Gi");
    shared["spec"]["accessModes"] = json!(["ReadWriteMany"]);
    cluster.create(PERSISTENTVOLUMECLAIMS, shared);
    let mut reserved = volume("disk", "local", "1Gi");
    reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "data"});
    cluster.create(PERSISTENTVOLUMES, reserved);
    let phases = (cluster.claim_phase("data"), cluster.volume_phase("disk"));
    assert_eq!(phases, ("Pending", "Available"));
}

#[test]
fn reserved_volume_is_freed_once_its_claim_has_another() {
    let mut cluster = Cluster::new();
    cluster.create(STORAGECLASSES, class("local", "WaitForFirstConsumer", json!({})));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "local", "1Gi"));
    cluster.create(PERSISTENTVOLUMES, volume("first", "local", "1Gi"));
    cluster.reserve("first", "data");
    assert_eq!(cluster.volume_of("data"), "first");

    let mut second = volume("second", "local", "1Gi");
    second["metadata"]["annotations"] = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    cluster.create(PERSISTENTVOLUMES, second);
    for volume in ["second", "first"] {
        cluster.reserve(volume, "data");
    }
    assert_eq!(cluster.volume_phase("second"), "Available");
    assert!(cluster.get(PERSISTENTVOLUMES, "second")["spec"].get("claimRef").is_none());
    assert_eq!(cluster.volume_phase("first"), "Bound");
}

#[test]
fn reserved_volume_is_released_when_its_claim_is_deleted_before_the_bind() {
    let mut cluster = Cluster::new();
    cluster.create(STORAGECLASSES, class("local", "WaitForFirstConsumer", json!({})));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "local", "9Gi"));
    cluster.create(PERSISTENTVOLUMES, volume("disk", "local", "1Gi"));
    cluster.reserve("disk", "data");
    assert_eq!(cluster.claim_phase("data"), "Pending", "the volume is too small");
    cluster.delete(PERSISTENTVOLUMECLAIMS, "data");
    assert_eq!(cluster.volume_phase("disk"), "Released");
}

#[test]
fn claim_without_a_class_gets_a_default_class_created_later() {
    let mut cluster = Cluster::new();
    let mut early = claim("early", "", "1Gi");
    early["spec"]["storageClassName"] = Value::Null;
    cluster.create(PERSISTENTVOLUMECLAIMS, early);
    assert_eq!(cluster.claim_phase("early"), "Pending");
    let mut default = class("standard", "Immediate", json!({}));
    default["metadata"]["annotations"] =
        json!({"storageclass.kubernetes.io/is-default-class": "true"});
    cluster.create(STORAGECLASSES, default);
    let mut plain = claim("data", "", "1Gi");
    plain["spec"]["storageClassName"] = Value::Null;
    cluster.create(PERSISTENTVOLUMECLAIMS, plain);
    assert_eq!((cluster.claim_phase("early"), cluster.claim_phase("data")), ("Bound", "Bound"));
}

#[test]
fn provisioned_volumes_are_deleted_with_their_claim_and_others_stay() {
    let mut cluster = Cluster::new();
    cluster.create(STORAGECLASSES, class("fast", "Immediate", json!({})));
    cluster.create(PERSISTENTVOLUMES, volume("disk", "manual", "1Gi"));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("made", "fast", "1Gi"));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("static", "manual", "1Gi"));
    assert_eq!((cluster.claim_phase("made"), cluster.claim_phase("static")), ("Bound", "Bound"));
    cluster.delete(PERSISTENTVOLUMECLAIMS, "made");
    cluster.delete(PERSISTENTVOLUMECLAIMS, "static");
    assert_eq!((cluster.volumes(), cluster.volume_phase("disk")), (1, "Released"));
}

#[test]
fn claim_of_a_deleted_volume_is_lost() {
    let mut cluster = Cluster::new();
    cluster.create(PERSISTENTVOLUMES, volume("disk", "manual", "1Gi"));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "manual", "1Gi"));
    cluster.change(PERSISTENTVOLUMES, "disk", &["metadata", "finalizers"], json!([]));
    cluster.delete(PERSISTENTVOLUMES, "disk");
    assert_eq!(cluster.claim_phase("data"), "Lost");

    let mut nameless = claim("nameless", "manual", "1Gi");
    nameless["metadata"]["annotations"] = json!({BIND_COMPLETED: "yes"});
    cluster.create(PERSISTENTVOLUMECLAIMS, nameless);
    assert_eq!(cluster.claim_phase("nameless"), "Lost", "it does not say which volume it had");
}

#[test]
fn claim_stays_while_a_pod_on_a_node_uses_it_and_its_volume_with_it() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    cluster.create(PERSISTENTVOLUMES, volume("disk", "manual", "1Gi"));
    cluster.create(PERSISTENTVOLUMES, volume("spare", "other", "1Gi"));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("data", "manual", "1Gi"));
    cluster.create(PERSISTENTVOLUMECLAIMS, claim("unused", "none", "1Gi"));
    let mut pod = template("web");
    pod["metadata"]["name"] = json!("web");
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    cluster.create(PODS, pod);
    cluster.bind_all_to("n1");
    for (resource, name) in [
        (PERSISTENTVOLUMES, "disk"),
        (PERSISTENTVOLUMES, "spare"),
        (PERSISTENTVOLUMECLAIMS, "data"),
        (PERSISTENTVOLUMECLAIMS, "unused"),
    ] {
        cluster.delete(resource, name);
    }
    let claims = |cluster: &Cluster| cluster.store.objects(PERSISTENTVOLUMECLAIMS).count();
    assert_eq!((claims(&cluster), cluster.volumes()), (1, 1));
    assert_eq!((cluster.claim_phase("data"), cluster.volume_phase("disk")), ("Bound", "Bound"));
    cluster.delete(PODS, "web");
    assert_eq!((claims(&cluster), cluster.volumes()), (0, 0));
}

#[test]
fn ephemeral_claim_is_created_and_deleted_with_its_pod() {
    let mut cluster = Cluster::new();
    cluster.create(STORAGECLASSES, class("fast", "Immediate", json!({})));
    let mut pod = template("web");
    pod["metadata"]["name"] = json!("web");
    let ephemeral = json!({"volumeClaimTemplate": {"spec": claim_spec("fast", "1Gi")}});
    pod["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": ephemeral}]);
    cluster.create(PODS, pod);
    let owner = &cluster.get(PERSISTENTVOLUMECLAIMS, "web-scratch")["metadata"]["ownerReferences"];
    assert_eq!(owner[0]["uid"], cluster.get(PODS, "web")["metadata"]["uid"]);
    assert_eq!(cluster.claim_phase("web-scratch"), "Bound");
    cluster.delete(PODS, "web");
    assert_eq!((cluster.store.objects(PERSISTENTVOLUMECLAIMS).count(), cluster.volumes()), (0, 0));
}

#[test]
fn stateful_set_pods_start_in_order_and_keep_their_claims() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    cluster.create(STORAGECLASSES, class("fast", "Immediate", json!({})));
    let data = json!({"metadata": {"name": "data"}, "spec": claim_spec("fast", "1Gi")});
    cluster.create(
        STATEFULSETS,
        json!({"metadata": {"name": "db"}, "spec": {"replicas": 2, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}}, "template": template("db"),
            "volumeClaimTemplates": [data]}}),
    );
    assert_eq!(cluster.pods(), ["db-0"]);
    cluster.bind_all_to("n1");
    assert_eq!(cluster.pods(), ["db-0", "db-1"]);
    cluster.bind_all_to("n1");
    let pod = cluster.get(PODS, "db-1");
    assert_eq!(text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName"), "data-db-1");
    assert_eq!(cluster.get(STATEFULSETS, "db")["status"]["readyReplicas"], 2);

    let volume = cluster.volume_of("data-db-1");
    cluster.change(STATEFULSETS, "db", &["spec", "replicas"], json!(1));
    assert_eq!(cluster.pods(), ["db-0"]);
    assert_eq!(cluster.volume_of("data-db-1"), volume, "the claim stays");
    cluster.change(STATEFULSETS, "db", &["spec", "replicas"], json!(2));
    assert_eq!(cluster.pods(), ["db-0", "db-1"]);
}
