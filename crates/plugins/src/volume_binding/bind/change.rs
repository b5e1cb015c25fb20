//! A change to a volume or claim that binds a volume.

use std::cmp::Ordering;
use std::sync::Arc;

use framework::storage::{
    BOUND_BY_CONTROLLER, ClaimRef, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE,
};
use framework::{Cluster, EventResource, NodeView, ObjectKey, Write, WriteAction};
use serde_json::{Value, json};

use super::super::affinity::allows_translated;
use super::super::assumed::{Assumable, AssumedObjects};
use super::super::find::{DynamicProvision, StaticBinding};

/// A change and its state.
#[derive(Debug, Clone)]
pub(super) struct Change {
    target: Target,
    write: Write,
    written: Option<Written>,
}

/// The object with the change.
#[derive(Debug, Clone)]
enum Target {
    /// A volume that is reserved for a claim.
    Volume { volume: Arc<PersistentVolume>, claim: Arc<PersistentVolumeClaim> },
    /// A claim that requests a provisioned volume on a node.
    Claim(Arc<PersistentVolumeClaim>),
}

/// A successful write.
#[derive(Debug, Clone)]
struct Written {
    /// The resource version it created, if known.
    resource_version: Option<Arc<str>>,
}

impl Change {
    /// Makes the change that reserves the volume for the claim.
    pub(super) fn bind(binding: StaticBinding, cluster: &Cluster) -> Self {
        let StaticBinding { volume, claim } = binding;
        let mut bound = PersistentVolume::clone(&volume);
        bound.bound_by_controller |= !volume.is_for(&claim);
        bound.claim_ref = Some(ClaimRef {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: Some(claim.uid.clone()),
        });
        // Another pod with the same claim may have assumed this reservation and may fail before it
        // is written. The write therefore starts from the stored volume.
        let stored = volume.stored(cluster).unwrap_or(&volume);
        let mut patch = preconditions(&volume.uid.to_string(), &volume.resource_version);
        if bound.bound_by_controller && !stored.bound_by_controller {
            patch["metadata"]["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
        }
        if bound.claim_ref != stored.claim_ref {
            patch["spec"] = json!({ "claimRef": reference(&claim) });
        }
        let write = write("persistentvolumes", ["", &volume.name], &volume.class, patch);
        let target = Target::Volume { volume: bound.into(), claim };
        Self { target, write, written: None }
    }

    /// Makes the change that requests provisioning for the claim on a node.
    pub(super) fn provision(provision: DynamicProvision, node: &Arc<str>) -> Self {
        let DynamicProvision { claim, .. } = provision;
        let mut patch = preconditions(&claim.uid.to_string(), &claim.resource_version);
        patch["metadata"]["annotations"] = json!({ SELECTED_NODE: &**node });
        let names = [&*claim.namespace, &claim.name];
        let write = write("persistentvolumeclaims", names, &claim.class, patch);
        let mut selected = PersistentVolumeClaim::clone(&claim);
        selected.selected_node = Some(node.clone());
        Self { target: Target::Claim(selected.into()), write, written: None }
    }

    /// Returns the write request.
    pub(super) const fn write(&self) -> &Write {
        &self.write
    }

    /// Adds the change to the assume caches.
    ///
    /// # Errors
    /// Returns an error if the stored object has changed.
    pub(super) fn assume(
        &self,
        cluster: &Cluster,
        assumed: &mut AssumedObjects,
    ) -> Result<(), String> {
        match &self.target {
            Target::Volume { volume, .. } => assumed.volumes.assume(volume.clone(), cluster),
            Target::Claim(claim) => assumed.claims.assume(claim.clone(), cluster),
        }
    }

    /// Reverts the change unless it was written. A written change stays until the watch delivers
    /// it.
    pub(super) fn revert(&self, assumed: &mut AssumedObjects) {
        if self.written.is_none() {
            self.forget(assumed);
        }
    }

    /// Removes the change from the assume caches.
    pub(super) fn forget(&self, assumed: &mut AssumedObjects) {
        match &self.target {
            Target::Volume { volume, .. } => assumed.volumes.restore(volume),
            Target::Claim(claim) => assumed.claims.restore(claim),
        }
    }

    /// Records a successful write. `object` is the object that the API server returned.
    pub(super) fn set_written(&mut self, object: Option<&Value>) {
        let version = object.and_then(|object| object["metadata"]["resourceVersion"].as_str());
        self.written = Some(Written { resource_version: version.map(Into::into) });
    }

    /// Whether the cluster has the object with the change.
    pub(super) fn is_shown(&self, cluster: &Cluster) -> bool {
        match &self.target {
            Target::Volume { volume, .. } => volume.stored(cluster).is_some_and(|stored| {
                stored.uid == volume.uid && stored.claim_ref == volume.claim_ref
            }),
            Target::Claim(claim) => claim.stored(cluster).is_some_and(|stored| {
                stored.uid == claim.uid && stored.selected_node == claim.selected_node
            }),
        }
    }

    /// Whether the cluster still has the version that the change is based on.
    pub(super) fn is_unchanged(&self, cluster: &Cluster) -> bool {
        match &self.target {
            Target::Volume { volume, .. } => volume.is_current(cluster),
            Target::Claim(claim) => claim.is_current(cluster),
        }
    }

    /// Whether the cluster has an older version than the written one.
    fn is_outdated(&self, stored: &str, cluster: &Cluster) -> bool {
        let written = self.written.as_ref().and_then(|own| own.resource_version.as_deref());
        match written.and_then(|own| compare_versions(stored, own)) {
            Some(order) => order == Ordering::Less,
            None => self.is_unchanged(cluster) && !self.is_shown(cluster),
        }
    }

    /// Returns the objects that [`is_bound`](Self::is_bound) reads: the claim, the volume that is
    /// reserved for it, and the volume that it names.
    pub(super) fn objects(&self, cluster: &Cluster) -> impl Iterator<Item = ObjectKey> {
        let (claim, volume) = match &self.target {
            Target::Volume { volume, claim } => (claim, Some(volume.name.clone())),
            Target::Claim(claim) => (claim, None),
        };
        let of_claim = claim.stored(cluster).and_then(|stored| stored.volume_name.clone());
        let of_claim = of_claim.filter(|name| volume.as_ref() != Some(name));
        let (namespace, name) = (claim.namespace.clone(), claim.name.clone());
        let kind = EventResource::PersistentVolumeClaim;
        let claim = ObjectKey::namespaced(kind, namespace, name);
        let volumes = volume.into_iter().chain(of_claim);
        let volumes =
            volumes.map(|name| ObjectKey::cluster_scoped(EventResource::PersistentVolume, name));
        volumes.chain([claim])
    }

    /// Whether the volume is bound, for a pod on `node`.
    ///
    /// # Errors
    /// Returns an error if the volume can no longer be bound.
    pub(super) fn is_bound(&self, node: &NodeView<'_>) -> Result<bool, String> {
        match &self.target {
            Target::Volume { volume, claim } => self.is_claim_bound(volume, claim, node),
            Target::Claim(claim) => self.is_provisioned(claim, node),
        }
    }

    fn is_claim_bound(
        &self,
        volume: &PersistentVolume,
        claim: &PersistentVolumeClaim,
        node: &NodeView<'_>,
    ) -> Result<bool, String> {
        let cluster = node.cluster();
        let failed = |error| format!("failed to check binding: {error}");
        let volume = volume.must_be_stored(cluster).map_err(failed)?;
        let claim = claim.must_be_stored(cluster).map_err(failed)?;
        if self.is_outdated(&volume.resource_version, cluster) {
            return Ok(false);
        }
        check_affinity(volume, node).map_err(|error| {
            error.into_text(|text| format!("failed to translate pv to csi: {text}"))
        })?;
        if volume.claim_ref.as_ref().is_none_or(|reference| reference.uid.is_none()) {
            return Err(format!("ClaimRef got reset for pv {:?}", &*volume.name));
        }
        if let Some(name) = claim.volume_name.as_ref().filter(|name| **name != volume.name) {
            // Rule volume-binding-bound-elsewhere of docs/differences.toml: another pod with the
            // claim has got this one.
            let Some(other) = cluster.volume(name) else { return Ok(false) };
            check_affinity(other, node).map_err(|error| error.into_text(|text| text))?;
        }
        Ok(claim.is_fully_bound())
    }

    fn is_provisioned(
        &self,
        claim: &PersistentVolumeClaim,
        node: &NodeView<'_>,
    ) -> Result<bool, String> {
        let cluster = node.cluster();
        let failed = |error| format!("failed to check provisioning pvc: {error}");
        let claim = claim.must_be_stored(cluster).map_err(failed)?;
        if self.is_outdated(&claim.resource_version, cluster) {
            return Ok(false);
        }
        if !claim.annotated {
            return Err(format!("selectedNode annotation reset for PVC {:?}", &*claim.name));
        }
        if claim.selected_node.as_ref() != Some(node.name()) {
            return Err(format!("provisioning failed for PVC {:?}", &*claim.name));
        }
        if let Some(name) = &claim.volume_name {
            let Some(volume) = cluster.volume(name) else { return Ok(false) };
            check_affinity(volume, node).map_err(|error| error.into_text(|text| text))?;
        }
        Ok(claim.is_fully_bound())
    }
}

/// The reason a volume cannot be used on a node.
enum AffinityError {
    Untranslatable(String),
    Mismatch(String),
}

impl AffinityError {
    fn into_text(self, untranslatable: impl FnOnce(String) -> String) -> String {
        match self {
            Self::Untranslatable(text) => untranslatable(text),
            Self::Mismatch(text) => text,
        }
    }
}

fn check_affinity(volume: &PersistentVolume, node: &NodeView<'_>) -> Result<(), AffinityError> {
    match allows_translated(volume, node).map_err(AffinityError::Untranslatable)? {
        true => Ok(()),
        false => Err(AffinityError::Mismatch(format!(
            "pv {:?} node affinity doesn't match node {:?}: no matching NodeSelectorTerms",
            &*volume.name,
            &**node.name(),
        ))),
    }
}

/// Compares two resource versions if both are decimal numbers, of any length.
fn compare_versions(a: &str, b: &str) -> Option<Ordering> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(a) && is_number(b)).then(|| (a.len(), a).cmp(&(b.len(), b)))
}

/// Returns the `claimRef` of a volume that is reserved for the claim.
fn reference(claim: &PersistentVolumeClaim) -> Value {
    json!({
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": &*claim.namespace,
        "name": &*claim.name,
        "uid": claim.uid.to_string(),
        "resourceVersion": &*claim.resource_version,
    })
}

/// Returns patch metadata whose preconditions reject the write if the object has changed or was
/// replaced.
fn preconditions(uid: &str, resource_version: &str) -> Value {
    let mut metadata = json!({});
    for (field, value) in [("uid", uid), ("resourceVersion", resource_version)] {
        if !value.is_empty() {
            metadata[field] = json!(value);
        }
    }
    json!({ "metadata": metadata })
}

/// Returns a write of the object with this namespace and name. A class stands for a driver.
fn write(resource: &str, [namespace, name]: [&str; 2], class: &Arc<str>, patch: Value) -> Write {
    Write {
        api_version: "v1".into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: None,
        flow: class.clone(),
        action: WriteAction::MergePatch(patch),
    }
}
