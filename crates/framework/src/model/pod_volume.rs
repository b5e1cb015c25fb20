//! The volumes of a pod, as far as placement depends on them.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::api;
use crate::storage::InTreePlugin;

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Where it comes from.
    pub source: PodVolumeSource,
}

/// Where a volume of a pod comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodVolumeSource {
    /// The claim of this name.
    Claim(Arc<str>),
    /// A claim that is made for the pod.
    Ephemeral,
    /// The CSI driver of this name; the rest is described inline.
    Csi(Arc<str>),
    /// A plugin of Kubernetes itself, as described inline.
    InTree(InTreePlugin, Arc<Value>),
}

impl PodVolume {
    /// Converts the API object; `None` if placement does not depend on it.
    pub fn of(volume: &api::Volume) -> Option<Self> {
        let source = claimed(volume).or_else(|| in_tree(volume))?;
        Some(Self { name: volume.name.as_str().into(), source })
    }

    /// The claim behind the volume in a pod of this name, if there is one.
    pub fn claim_name(&self, pod: &str) -> Option<Cow<'_, str>> {
        match &self.source {
            PodVolumeSource::Claim(name) => Some(Cow::Borrowed(name)),
            PodVolumeSource::Ephemeral => Some(format!("{pod}-{}", self.name).into()),
            PodVolumeSource::Csi(_) | PodVolumeSource::InTree(..) => None,
        }
    }

    /// The claim that the pod names itself, which is not one made for it.
    pub fn named_claim(&self) -> Option<&Arc<str>> {
        match &self.source {
            PodVolumeSource::Claim(name) => Some(name),
            _ => None,
        }
    }

    /// What of an inline volume tells its disk from others, for the plugins whose disks pods may keep
    /// from one another; volumes of different disks never conflict.
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
