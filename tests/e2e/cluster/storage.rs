//! StorageClasses, volumes and claims of a test, and a substitute for the volume controller.

use k8s_openapi::api::core::v1::{
    ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, Volume,
};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Cluster, LABEL, create};
use crate::e2e::wait::eventually;

const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const HOSTNAME: &str = "kubernetes.io/hostname";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// How the volumes of a class are provided, and when they are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::e2e) enum Kind {
    /// Existing volumes, bound at once.
    ImmediateStatic,
    /// Existing volumes, bound once a pod has a node.
    Static,
    /// Provisioned for each claim at once.
    ImmediateProvisioned,
    /// Provisioned once a pod has a node.
    Provisioned,
}

impl Cluster {
    /// Claims of the namespace.
    pub(in crate::e2e) fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Volumes of the whole cluster.
    pub(in crate::e2e) fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// StorageClasses of the whole cluster.
    pub(in crate::e2e) fn classes(&self) -> Api<StorageClass> {
        Api::all(self.client.clone())
    }

    pub(super) fn csi_nodes(&self) -> Api<CSINode> {
        Api::all(self.client.clone())
    }

    pub(super) fn csi_drivers(&self) -> Api<CSIDriver> {
        Api::all(self.client.clone())
    }

    /// Storage capacities that the driver reports.
    pub(in crate::e2e) fn capacities(&self) -> Api<CSIStorageCapacity> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// The driver of all volumes. No cluster has it, except the sandbox, which accepts every
    /// driver.
    fn driver(&self) -> String {
        format!("{}.example.com", self.name)
    }

    /// Returns the name of a class or volume in the whole cluster.
    pub(in crate::e2e) fn storage_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Adds a StorageClass with these parameters.
    pub(in crate::e2e) async fn add_class(&self, name: &str, kind: Kind, parameters: Value) {
        let class = typed(json!({
            "metadata": {"name": self.storage_name(name), "labels": {LABEL: self.name}},
            "provisioner": match kind {
                Kind::ImmediateStatic | Kind::Static => NO_PROVISIONER.to_owned(),
                Kind::ImmediateProvisioned | Kind::Provisioned => self.driver(),
            },
            "volumeBindingMode": match kind {
                Kind::ImmediateStatic | Kind::ImmediateProvisioned => "Immediate",
                Kind::Static | Kind::Provisioned => "WaitForFirstConsumer",
            },
            "parameters": parameters,
        }));
        create(&self.classes(), &class).await;
    }

    /// Deletes a StorageClass.
    pub(in crate::e2e) async fn delete_class(&self, name: &str) {
        self.classes().delete(&self.storage_name(name), &DeleteParams::default()).await.unwrap();
    }

    /// Returns a volume of 1 GiB that is usable on these Nodes; on all Nodes if none is named.
    pub(in crate::e2e) fn volume(&self, name: &str, class: &str, nodes: &[&str]) -> Value {
        let name = self.storage_name(name);
        let mut volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {LABEL: self.name}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.storage_name(class),
                "csi": {"driver": self.driver(), "volumeHandle": name},
            },
        });
        if !nodes.is_empty() {
            let names: Vec<String> = nodes.iter().map(|node| self.node_name(node)).collect();
            let here = json!({"key": HOSTNAME, "operator": "In", "values": names});
            let terms = json!([{"matchExpressions": [here]}]);
            volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
        }
        volume
    }

    /// Creates an available volume.
    pub(in crate::e2e) async fn add_volume(&self, volume: Value) {
        let volume = create(&self.volumes(), &typed(volume)).await;
        if !self.runs_controllers() {
            let available = Patch::Merge(json!({"status": {"phase": "Available"}}));
            let name = volume.metadata.name.unwrap();
            self.volumes().patch_status(&name, &PatchParams::default(), &available).await.unwrap();
        }
    }

    /// Returns a claim for 1 GiB with this access mode.
    pub(in crate::e2e) fn claim(&self, name: &str, class: &str, mode: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": [mode],
                "storageClassName": self.storage_name(class),
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
    }

    /// Creates a claim for 1 GiB for the pods of one Node.
    pub(in crate::e2e) async fn add_claim(&self, name: &str, class: &str) {
        self.create_claim(self.claim(name, class, "ReadWriteOnce")).await;
    }

    /// Creates a claim.
    pub(in crate::e2e) async fn create_claim(&self, claim: Value) -> PersistentVolumeClaim {
        create(&self.claims(), &typed(claim)).await
    }

    /// Adds a volume and a claim of this name that are bound to each other.
    pub(in crate::e2e) async fn add_bound_claim(&self, name: &str, mode: &str) {
        let mut claim = self.claim(name, "none", mode);
        claim["spec"]["storageClassName"] = json!("");
        claim["spec"]["volumeName"] = json!(self.storage_name(name));
        let claim = self.create_claim(claim).await;
        let mut volume = self.volume(name, "none", &[]);
        volume["spec"]["storageClassName"] = json!("");
        volume["spec"]["accessModes"] = json!([mode]);
        volume["spec"]["claimRef"] = reference(&claim);
        self.add_volume(volume).await;
        self.claim_bound(name).await;
    }

    /// Deletes a claim, removes its finalizers, and waits until it is gone.
    pub(in crate::e2e) async fn delete_claim(&self, name: &str) {
        delete(&self.claims(), name).await;
    }

    /// Deletes a volume, removes its finalizers, and waits until it is gone.
    pub(in crate::e2e) async fn delete_volume(&self, name: &str) {
        delete(&self.volumes(), &self.storage_name(name)).await;
    }

    /// Limits the number of volumes that can be attached to a Node.
    pub(in crate::e2e) async fn limit_attachments(&self, node: &str, count: u32) {
        let name = self.node_name(node);
        let driver =
            json!({"name": self.driver(), "nodeID": name, "allocatable": {"count": count}});
        let node = json!({
            "metadata": {"name": name, "labels": {LABEL: self.name}},
            "spec": {"drivers": [driver]},
        });
        create(&self.csi_nodes(), &typed(node)).await;
    }

    /// Sets the storage capacity that the driver reports for a class on a Node. A Node without a
    /// report has no capacity.
    pub(in crate::e2e) async fn add_capacity(&self, class: &str, node: &str, room: &str) {
        let driver = json!({
            "metadata": {"name": self.driver(), "labels": {LABEL: self.name}},
            "spec": {"storageCapacity": true},
        });
        // An earlier call may have created it.
        let _ = self.csi_drivers().create(&PostParams::default(), &typed(driver)).await;
        let capacity = json!({
            "metadata": {"name": node},
            "storageClassName": self.storage_name(class),
            "nodeTopology": {"matchLabels": {HOSTNAME: self.node_name(node)}},
            "capacity": room,
        });
        create(&self.capacities(), &typed(capacity)).await;
    }

    /// Waits until a claim is bound, and returns the full name of its volume.
    pub(in crate::e2e) async fn claim_bound(&self, name: &str) -> String {
        eventually(&format!("claim {name} is bound"), async || {
            let claim = self.claims().get(name).await.ok()?;
            if is_bound(&claim) {
                return claim.spec?.volume_name;
            }
            if !self.runs_controllers() {
                self.play_volume_controller(&claim).await;
            }
            None
        })
        .await
    }

    /// Waits until a claim has a selected node, and returns the full name of the Node.
    pub(in crate::e2e) async fn selected_node(&self, claim: &str) -> String {
        eventually(&format!("a node is selected for claim {claim}"), async || {
            selected_node(&self.claims().get(claim).await.ok()?)
        })
        .await
    }

    /// Removes the selected node, like a provisioner that cannot provision the volume there.
    pub(in crate::e2e) async fn deselect_node(&self, claim: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {SELECTED_NODE: null}}}));
        self.claims().patch(claim, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a volume is reserved for a claim or bound to it, and returns its full name.
    pub(in crate::e2e) async fn reserved_for(&self, claim: &str) -> String {
        eventually(&format!("a volume is reserved for claim {claim}"), async || {
            let claim = self.claims().get(claim).await.ok()?;
            self.volume_for(&claim).await?.metadata.name
        })
        .await
    }

    /// Returns the volumes of the test, without those of provisioners.
    pub(in crate::e2e) async fn own_volumes(&self) -> Vec<PersistentVolume> {
        self.volumes().list(&self.labelled()).await.unwrap().items
    }

    async fn volume_for(&self, claim: &PersistentVolumeClaim) -> Option<PersistentVolume> {
        self.own_volumes().await.into_iter().find(|volume| {
            claim_of(volume).is_some_and(|reference| reference.uid == claim.metadata.uid)
        })
    }

    /// Does the work of the volume controller and a provisioner for a claim that is ready for it.
    async fn play_volume_controller(&self, claim: &PersistentVolumeClaim) {
        match (self.volume_for(claim).await, selected_node(claim)) {
            (Some(volume), _) => self.complete_binding(claim, &volume).await,
            (None, Some(node)) => self.provision(claim, &node).await,
            (None, None) => {}
        }
    }

    /// Provisions the volume of a claim for a Node.
    async fn provision(&self, claim: &PersistentVolumeClaim, node: &str) {
        let mut volume = self.volume(claim.metadata.uid.as_deref().unwrap(), "none", &[]);
        volume["spec"]["storageClassName"] = json!(claim.spec.as_ref().unwrap().storage_class_name);
        volume["spec"]["claimRef"] = reference(claim);
        let here = json!({"key": HOSTNAME, "operator": "In", "values": [node]});
        let terms = json!([{"matchExpressions": [here]}]);
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
        self.add_volume(volume).await;
    }

    async fn complete_binding(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) {
        let name = volume.metadata.name.as_deref().unwrap();
        let (default, bound) = (PatchParams::default(), json!({"status": {"phase": "Bound"}}));
        let bound = Patch::Merge(bound);
        self.volumes().patch_status(name, &default, &bound).await.unwrap();
        let complete = Patch::Merge(json!({
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": name},
        }));
        let claim = claim.metadata.name.as_deref().unwrap();
        self.claims().patch(claim, &default, &complete).await.unwrap();
        self.claims().patch_status(claim, &default, &bound).await.unwrap();
    }
}

fn typed<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// Returns the claim reference of a volume.
fn reference(claim: &PersistentVolumeClaim) -> Value {
    let metadata = &claim.metadata;
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata.name,
        "namespace": metadata.namespace, "uid": metadata.uid})
}

/// Returns the claim that a volume is reserved for or bound to.
pub(in crate::e2e) fn claim_of(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

fn selected_node(claim: &PersistentVolumeClaim) -> Option<String> {
    claim.metadata.annotations.as_ref()?.get(SELECTED_NODE).cloned()
}

/// Whether a claim is bound.
pub(in crate::e2e) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    annotations.is_some_and(|own| own.contains_key(BIND_COMPLETED)) && phase == Some("Bound")
}

/// Returns the Pod with these claims.
pub(in crate::e2e) fn with_claims(mut pod: Pod, claims: &[&str]) -> Pod {
    let volumes = claims.iter().map(|claim| {
        typed::<Volume>(json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
    });
    pod.spec.as_mut().unwrap().volumes.get_or_insert_default().extend(volumes);
    pod
}

/// Deletes an object, and waits until it is gone. Its finalizers are removed; while the object is
/// being deleted, no controller adds them again.
async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    eventually(&format!("{name} is gone"), async || {
        // It may be gone already.
        api.patch(name, &PatchParams::default(), &free).await.ok();
        api.get_opt(name).await.unwrap().is_none().then_some(())
    })
    .await;
}
