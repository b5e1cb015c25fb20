//! The volumes of a pod that affect placement.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api;
use crate::storage::{InTreePlugin, InTreeVolume};

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodVolume {
    /// Name of the volume in the pod.
    pub name: Arc<str>,
    /// The source of the volume.
    pub source: PodVolumeSource,
}

/// The source of a volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodVolumeSource {
    /// The claim of this name.
    Claim(Arc<str>),
    /// An ephemeral volume: a controller creates its claim for the pod.
    Ephemeral,
    /// An inline volume of this CSI driver.
    Csi(Arc<str>),
    /// An inline volume of an in-tree plugin.
    InTree(Arc<InTreeVolume>),
}

impl PodVolume {
    /// Converts the API object; returns `None` if the volume does not affect placement.
    pub fn of(volume: &api::Volume) -> Option<Self> {
        let in_tree = || Some(PodVolumeSource::InTree(Arc::new(InTreeVolume::of_pod(volume)?)));
        let source = claimed(volume).or_else(in_tree)?;
        Some(Self { name: volume.name.as_str().into(), source })
    }

    /// Returns the name of the claim behind the volume in a pod with this name, if it has one.
    pub fn claim_name(&self, pod: &str) -> Option<Cow<'_, str>> {
        match &self.source {
            PodVolumeSource::Claim(name) => Some(Cow::Borrowed(name)),
            PodVolumeSource::Ephemeral => Some(format!("{pod}-{}", self.name).into()),
            PodVolumeSource::Csi(_) | PodVolumeSource::InTree(_) => None,
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
        let PodVolumeSource::InTree(volume) = &self.source else { return None };
        match volume.plugin {
            InTreePlugin::AwsElasticBlockStore
            | InTreePlugin::GcePersistentDisk
            | InTreePlugin::Iscsi
            | InTreePlugin::Rbd => Some((volume.plugin, &volume.disk)),
            _ => None,
        }
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
