//! In-tree volume plugins and the CSI drivers that replace them: names, handles and node affinity,
//! as in the csi-translation-lib of Kubernetes.

mod affinity;
mod handle;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::handle::TranslationError;
use super::{InTreePlugin, InTreeVolume, PersistentVolume, VolumeSource};
use crate::{Labels, NodeSelector};

/// An in-tree plugin that a CSI driver replaces.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    plugin: InTreePlugin,
    /// Name of the plugin, as provisioner and in the annotation of a CSINode.
    pub plugin_name: &'static str,
    /// Name of the CSI driver.
    pub driver: &'static str,
    /// The zone label of the driver, if it has one.
    zone_key: Option<&'static str>,
    /// Whether the scheduler counts volumes of the plugin as volumes of the driver
    /// (`isCSIMigrationOn`).
    pub is_on: bool,
}

static MIGRATIONS: [Migration; 7] = [
    Migration {
        plugin: InTreePlugin::AwsElasticBlockStore,
        plugin_name: "kubernetes.io/aws-ebs",
        driver: "ebs.csi.aws.com",
        zone_key: Some("topology.ebs.csi.aws.com/zone"),
        is_on: true,
    },
    Migration {
        plugin: InTreePlugin::AzureDisk,
        plugin_name: "kubernetes.io/azure-disk",
        driver: "disk.csi.azure.com",
        zone_key: None,
        is_on: true,
    },
    Migration {
        plugin: InTreePlugin::AzureFile,
        plugin_name: "kubernetes.io/azure-file",
        driver: "file.csi.azure.com",
        zone_key: None,
        is_on: false,
    },
    Migration {
        plugin: InTreePlugin::Cinder,
        plugin_name: "kubernetes.io/cinder",
        driver: "cinder.csi.openstack.org",
        zone_key: Some("topology.cinder.csi.openstack.org/zone"),
        is_on: true,
    },
    Migration {
        plugin: InTreePlugin::GcePersistentDisk,
        plugin_name: "kubernetes.io/gce-pd",
        driver: "pd.csi.storage.gke.io",
        zone_key: Some("topology.gke.io/zone"),
        is_on: true,
    },
    Migration {
        plugin: InTreePlugin::Portworx,
        plugin_name: "kubernetes.io/portworx-volume",
        driver: "pxd.portworx.com",
        zone_key: None,
        is_on: true,
    },
    Migration {
        plugin: InTreePlugin::Vsphere,
        plugin_name: "kubernetes.io/vsphere-volume",
        driver: "csi.vsphere.vmware.com",
        zone_key: None,
        is_on: false,
    },
];

impl Migration {
    /// Returns the migration of a plugin; `None` if no driver replaces it.
    pub fn of_plugin(plugin: InTreePlugin) -> Option<&'static Self> {
        MIGRATIONS.iter().find(|migration| migration.plugin == plugin)
    }

    /// Returns the migration of the plugin with this provisioner name.
    pub fn of_provisioner(name: &str) -> Option<&'static Self> {
        MIGRATIONS.iter().find(|migration| migration.plugin_name == name)
    }

    /// Returns the CSI handle of an inline volume of a pod.
    ///
    /// # Errors
    /// The volume has no CSI handle.
    pub fn inline_handle(&self, volume: &InTreeVolume) -> Result<String, TranslationError> {
        handle::translated(volume, &Labels::default())
    }
}

/// A persistent volume of an in-tree plugin that a CSI driver replaces.
#[derive(Debug, Clone, Copy)]
pub struct MigratableVolume<'a> {
    /// The plugin and the driver. The cluster knows the nodes on which the driver is active.
    pub migration: &'static Migration,
    volume: &'a PersistentVolume,
    source: &'a InTreeVolume,
}

impl<'a> MigratableVolume<'a> {
    /// Returns the volume with its migration. Returns `None` for a volume of another kind, or of a
    /// plugin whose volumes do not count as those of the driver.
    pub fn of(volume: &'a PersistentVolume) -> Option<Self> {
        let VolumeSource::InTree(source) = &volume.source else { return None };
        let migration = Migration::of_plugin(source.plugin).filter(|own| own.is_on)?;
        Some(Self { migration, volume, source })
    }

    /// Returns the CSI handle of the volume.
    ///
    /// # Errors
    /// The volume has no CSI handle.
    pub fn handle(&self) -> Result<String, TranslationError> {
        handle::translated(self.source, &self.volume.labels)
    }

    /// Returns the nodes on which the driver can use the volume; `None` for all nodes.
    ///
    /// # Errors
    /// The volume cannot be translated. A missing CSI handle counts as an error too.
    pub fn node_selector(&self) -> Result<Option<Arc<NodeSelector>>, TranslationError> {
        self.handle()?;
        Ok(match self.migration.zone_key {
            Some(zone_key) => affinity::translated(self.volume, zone_key),
            None => self.volume.node_selector.clone(),
        })
    }
}

/// Returns the zones in a label value that may list several zones.
fn zones_of(value: &str) -> impl Iterator<Item = &str> {
    value.split("__")
}
