//! In-tree volume plugins and the CSI drivers that have replaced them, as far as placement depends
//! on it: names, handles and node affinity (csi-translation-lib of Kubernetes).

mod affinity;
mod handle;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

pub use self::handle::TranslationError;
use super::{InTreePlugin, PersistentVolume, VolumeSource};
use crate::{Cluster, Labels, NodeColumn, NodeSelector};

/// An in-tree plugin that a CSI driver has replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    plugin: InTreePlugin,
    /// Name of the plugin as provisioner, and in the annotation of a CSINode.
    pub plugin_name: &'static str,
    /// Name of the CSI driver.
    pub driver: &'static str,
    /// The label by which the driver tells zones apart, if it does.
    zone_key: Option<&'static str>,
    /// Whether volumes of the plugin count as volumes of the driver to the scheduler
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
    /// The migration of a plugin; `None` if no driver has replaced it.
    pub fn of_plugin(plugin: InTreePlugin) -> Option<&'static Self> {
        MIGRATIONS.iter().find(|migration| migration.plugin == plugin)
    }

    /// The migration of the plugin that goes by this name as provisioner.
    pub fn of_provisioner(name: &str) -> Option<&'static Self> {
        MIGRATIONS.iter().find(|migration| migration.plugin_name == name)
    }

    /// The nodes on which the driver has replaced the plugin, as their CSINodes say.
    pub fn nodes<'a>(&self, cluster: &'a Cluster) -> Option<&'a NodeColumn<bool>> {
        cluster.migrated_nodes(self.plugin_name)
    }

    /// The name by which the driver knows a volume that a pod describes inline.
    ///
    /// # Errors
    /// The volume does not make sense to the driver.
    pub fn inline_handle(&self, source: &Value) -> Result<String, TranslationError> {
        handle::translated(self.plugin, source, &Labels::default())
    }
}

/// A persistent volume of an in-tree plugin that a CSI driver has replaced.
#[derive(Debug, Clone, Copy)]
pub struct MigratableVolume<'a> {
    /// The plugin and the driver. Whether the driver acts on a node is for
    /// [`Migration::nodes`] to say.
    pub migration: &'static Migration,
    volume: &'a PersistentVolume,
    source: &'a Value,
}

impl<'a> MigratableVolume<'a> {
    /// `None` for a volume of another kind, or of a plugin whose volumes do not count as those of
    /// the driver.
    pub fn of(volume: &'a PersistentVolume) -> Option<Self> {
        let VolumeSource::InTree(plugin, source) = &volume.source else { return None };
        let migration = Migration::of_plugin(*plugin).filter(|own| own.is_on)?;
        Some(Self { migration, volume, source })
    }

    /// The name by which the driver knows the volume.
    ///
    /// # Errors
    /// The volume does not make sense to the driver.
    pub fn handle(&self) -> Result<String, TranslationError> {
        handle::translated(self.migration.plugin, self.source, &self.volume.labels)
    }

    /// The nodes on which the driver can use the volume; `None` for all.
    ///
    /// # Errors
    /// The volume does not make sense to the driver, if only by its name.
    pub fn node_selector(&self) -> Result<Option<Arc<NodeSelector>>, TranslationError> {
        self.handle()?;
        Ok(match self.migration.zone_key {
            Some(zone_key) => affinity::translated(self.volume, zone_key),
            None => self.volume.node_selector.clone(),
        })
    }
}

/// The zones in the value of a label of a volume that is in several of them.
fn zones_of(value: &str) -> impl Iterator<Item = &str> {
    value.split("__")
}
