//! Claims, volumes, classes and CSI objects, as plain lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment, VolumeSource,
};
use framework::{EventResource, Pod, PodVolumeSource};
use sandbox::resources::{
    CSIDRIVERS, CSINODES, CSISTORAGECAPACITIES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES,
    Resource, STORAGECLASSES, VOLUMEATTACHMENTS,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::related::Key;

/// The objects of these kinds.
pub(super) static KINDS: [(EventResource, &Resource); 7] = [
    (EventResource::PersistentVolumeClaim, PERSISTENTVOLUMECLAIMS),
    (EventResource::PersistentVolume, PERSISTENTVOLUMES),
    (EventResource::StorageClass, STORAGECLASSES),
    (EventResource::CsiNode, CSINODES),
    (EventResource::CsiDriver, CSIDRIVERS),
    (EventResource::CsiStorageCapacity, CSISTORAGECAPACITIES),
    (EventResource::VolumeAttachment, VOLUMEATTACHMENTS),
];

/// Decoded storage objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    /// By namespace and name, like all fields.
    claims: BTreeMap<Name, Arc<PersistentVolumeClaim>>,
    pub(super) volumes: BTreeMap<Name, Arc<PersistentVolume>>,
    classes: BTreeMap<Name, StorageClass>,
    csi_nodes: BTreeMap<Name, CsiNode>,
    drivers: BTreeMap<Name, CsiDriver>,
    pub(super) capacities: BTreeMap<Name, CsiStorageCapacity>,
    attachments: BTreeMap<Name, VolumeAttachment>,
}

type Name = (Arc<str>, Arc<str>);

impl Storage {
    /// Sets an object to its present state, or `None` if it was deleted.
    pub(super) fn set(&mut self, key: &Key, object: Option<&Value>) {
        let (kind, name) = (&key.0, (key.1.clone(), key.2.clone()));
        match kind {
            EventResource::PersistentVolumeClaim => {
                let read = |claim| Arc::new(PersistentVolumeClaim::from_api(&claim));
                put(&mut self.claims, name, object, read);
            }
            EventResource::PersistentVolume => {
                let read = |volume| Arc::new(PersistentVolume::from_api(&volume));
                put(&mut self.volumes, name, object, read);
            }
            EventResource::StorageClass => {
                put(&mut self.classes, name, object, |class| StorageClass::from_api(&class));
            }
            EventResource::CsiNode => {
                put(&mut self.csi_nodes, name, object, |node| CsiNode::from_api(&node));
            }
            EventResource::CsiDriver => {
                put(&mut self.drivers, name, object, |driver| CsiDriver::from_api(&driver));
            }
            EventResource::CsiStorageCapacity => {
                let read = |capacity| CsiStorageCapacity::from_api(&capacity);
                put(&mut self.capacities, name, object, read);
            }
            EventResource::VolumeAttachment => {
                let read = |attachment| VolumeAttachment::from_api(&attachment);
                put(&mut self.attachments, name, object, read);
            }
            other => unreachable!("{other:?} is no kind of storage"),
        }
    }

    /// Returns the claims of a pod; `None` for a missing one.
    pub(crate) fn claims_of<'a>(
        &'a self,
        pod: &'a Pod,
    ) -> impl Iterator<Item = Option<&'a Arc<PersistentVolumeClaim>>> {
        let names = pod.spec.volumes.iter().filter_map(|volume| volume.claim_name(&pod.key.name));
        names.map(|name| self.claims.get(&(pod.key.namespace.clone(), name.as_ref().into())))
    }

    /// Returns the unbound claims.
    pub(crate) fn unbound_claims(&self) -> impl Iterator<Item = &Arc<PersistentVolumeClaim>> {
        self.claims.values().filter(|claim| !claim.is_fully_bound())
    }

    /// Whether the pod has an existing unbound claim.
    pub(crate) fn has_unbound(&self, pod: &Pod) -> bool {
        self.claims_of(pod).flatten().any(|claim| !claim.is_fully_bound())
    }

    /// Returns the claim of this name in the namespace of a pod.
    pub(super) fn claim_named(
        &self,
        pod: &Pod,
        name: &Arc<str>,
    ) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claims.get(&(pod.key.namespace.clone(), name.clone()))
    }

    /// Returns the volume that a claim names.
    pub(super) fn volume_of(&self, claim: &PersistentVolumeClaim) -> Option<&PersistentVolume> {
        self.volume(claim.volume_name.as_ref()?)
    }

    fn volume(&self, name: &Arc<str>) -> Option<&PersistentVolume> {
        self.volumes.get(&nowhere(name)).map(AsRef::as_ref)
    }

    /// Returns the class of a claim.
    pub(super) fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        self.classes.get(&nowhere(&claim.class))
    }

    /// Whether a driver of this name reports storage capacity.
    pub(super) fn reports_room(&self, driver: &Arc<str>) -> bool {
        self.drivers.get(&nowhere(driver)).is_some_and(|driver| driver.storage_capacity)
    }

    /// Returns the attach limits of a node by driver.
    pub(super) fn limits(&self, node: &Arc<str>) -> impl Iterator<Item = (&Arc<str>, usize)> {
        let drivers = self.csi_nodes.get(&nowhere(node)).into_iter().flat_map(|node| &node.drivers);
        drivers.filter_map(|(driver, limit)| Some((driver, usize::try_from((*limit)?).ok()?)))
    }

    /// Returns the volume handles of a pod by driver; for an unbound claim, its name.
    pub(super) fn handles<'a>(
        &'a self,
        pod: &'a Pod,
        driver: &'a str,
    ) -> impl Iterator<Item = String> {
        let volumes = pod.spec.volumes.iter().zip(self.claims_of_each(pod));
        volumes.filter_map(move |(volume, claim)| {
            let claim = claim?;
            let is_foreign = volume.source == PodVolumeSource::Ephemeral
                && claim.controller.as_ref() != Some(&pod.uid);
            match self.volume_of(claim).map(|volume| &volume.source) {
                _ if is_foreign => None,
                Some(VolumeSource::Csi { driver: own, handle }) => {
                    (**own == *driver).then(|| handle.to_string())
                }
                Some(_) => None,
                None => {
                    let class = self.class_of(claim)?;
                    (*class.provisioner == *driver).then(|| format!("for {}", claim.uid))
                }
            }
        })
    }

    fn claims_of_each<'a>(
        &'a self,
        pod: &'a Pod,
    ) -> impl Iterator<Item = Option<&'a Arc<PersistentVolumeClaim>>> {
        pod.spec.volumes.iter().map(|volume| {
            let name = volume.claim_name(&pod.key.name)?;
            self.claim_named(pod, &name.as_ref().into())
        })
    }

    /// Returns the handles of the volumes that are attached to a node.
    pub(super) fn attached(&self, node: &str, driver: &str) -> impl Iterator<Item = String> {
        let attachments = self.attachments.values();
        let own =
            attachments.filter(move |own| *own.node_name == *node && *own.attacher == *driver);
        own.filter_map(|own| match &self.volume(own.volume_name.as_ref()?)?.source {
            VolumeSource::Csi { handle, .. } => Some(handle.to_string()),
            _ => None,
        })
    }
}

/// Returns the comparable part of a storage object, without the fields that lists represent
/// differently.
pub(super) fn what_counts(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn nowhere(name: &Arc<str>) -> Name {
    ("".into(), name.clone())
}

fn put<T: DeserializeOwned, O>(
    objects: &mut BTreeMap<Name, O>,
    name: Name,
    object: Option<&Value>,
    read: impl FnOnce(T) -> O,
) {
    match object {
        Some(object) => {
            let object = T::deserialize(object).expect("the store holds objects of their kind");
            objects.insert(name, read(object));
        }
        None => drop(objects.remove(&name)),
    }
}
