//! The volumes of a pod that affect placement.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::api;
use crate::storage::InTreePlugin;

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodVolume {
    /// Name of the volume in the pod.
    pub name: Arc<str>,
    /// The source of the volume.
    pub source: PodVolumeSource,
}

/// The source of a volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodVolumeSource {
    /// The claim of this name.
    Claim(Arc<str>),
    /// An ephemeral volume: a controller creates its claim for the pod.
    Ephemeral,
    /// An inline volume of this CSI driver.
    Csi(Arc<str>),
    /// An inline volume of an in-tree plugin.
    InTree(InTreePlugin, Arc<Value>),
}

impl PodVolume {
    /// Converts the API object; returns `None` if the volume does not affect placement.
    pub fn of(volume: &api::Volume) -> Option<Self> {
        let source = claimed(volume).or_else(|| in_tree(volume))?;
        Some(Self { name: volume.name.as_str().into(), source })
    }

    /// Returns the name of the claim behind the volume in a pod with this name, if it has one.
    pub fn claim_name(&self, pod: &str) -> Option<Cow<'_, str>> {
        match &self.source {
            PodVolumeSource::Claim(name) => Some(Cow::Borrowed(name)),
            PodVolumeSource::Ephemeral => Some(format!("{pod}-{}", self.name).into()),
            PodVolumeSource::Csi(_) | PodVolumeSource::InTree(..) => None,
        }
    }

    /// Returns the claim that the pod names. Claims of ephemeral volumes do not count.
    pub fn named_claim(&self) -> Option<&Arc<str>> {
        match &self.source {
            PodVolumeSource::Claim(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the identity of the disk behind an inline volume, for plugins whose disks can
    /// conflict. Volumes of different disks never conflict.
    pub fn disk(&self) -> Option<(InTreePlugin, &str)> {
        let PodVolumeSource::InTree(plugin, source) = &self.source else { return None };
        let name = match plugin {
            InTreePlugin::AwsElasticBlockStore => "volumeID",
            InTreePlugin::GcePersistentDisk => "pdName",
            InTreePlugin::Iscsi => "iqn",
            InTreePlugin::Rbd => "image",
            _ => return None,
        };
        Some((*plugin, source[name].as_str().unwrap_or_default()))
    }
}

fn claimed(volume: &api::Volume) -> Option<PodVolumeSource> {
    if let Some(source) = &volume.persistent_volume_claim {
        return Some(PodVolumeSource::Claim(source.claim_name.as_str().into()));
    }
    if volume.ephemeral.is_some() {
        return Some(PodVolumeSource::Ephemeral);
    }
    volume.csi.as_ref().map(|source| PodVolumeSource::Csi(source.driver.as_str().into()))
}

fn in_tree(volume: &api::Volume) -> Option<PodVolumeSource> {
    let sources = [
        (InTreePlugin::AwsElasticBlockStore, &volume.aws_elastic_block_store),
        (InTreePlugin::AzureDisk, &volume.azure_disk),
        (InTreePlugin::AzureFile, &volume.azure_file),
        (InTreePlugin::Cinder, &volume.cinder),
        (InTreePlugin::GcePersistentDisk, &volume.gce_persistent_disk),
        (InTreePlugin::Iscsi, &volume.iscsi),
        (InTreePlugin::Portworx, &volume.portworx_volume),
        (InTreePlugin::Rbd, &volume.rbd),
        (InTreePlugin::Vsphere, &volume.vsphere_volume),
    ];
    sources.into_iter().find_map(|(plugin, source)| {
        Some(PodVolumeSource::InTree(plugin, Arc::new(source.clone()?)))
    })
}
