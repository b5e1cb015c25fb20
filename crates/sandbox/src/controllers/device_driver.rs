//! A driver of devices: publishes the ResourceSlices of each node, and the DeviceClasses.

use std::collections::BTreeSet;

use framework::Time;
use serde_json::Value;

use super::event::{self, EventKind};
use crate::devices::{Devices, DevicesError};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::uid;
use crate::resources::{DEVICECLASSES, NODES, RESOURCESLICES};
use crate::store::Store;

/// The component that its events name.
const SOURCE: &str = "device-driver";
/// Annotation of a node with its devices, for example `gpu=8,nic=2`.
const DEVICES: &str = "sandbox.loadmaster.dev/devices";

#[derive(Debug)]
pub(super) struct DeviceDriver {
    /// The devices of nodes without the annotation.
    default: Devices,
    nodes: Informer,
    /// UIDs of the nodes with slices.
    published: BTreeSet<String>,
}

impl DeviceDriver {
    pub(super) fn new(default: Devices) -> Self {
        Self { default, nodes: Informer::new(NODES), published: BTreeSet::new() }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        for event in self.nodes.events(store) {
            match event {
                ObjectEvent::Present(node) => {
                    if self.published.insert(uid(&node).to_owned()) {
                        self.publish(store, &node, now);
                    }
                }
                // The garbage collector deletes the slices.
                ObjectEvent::Removed(node) => drop(self.published.remove(uid(&node))),
            }
        }
    }

    fn publish(&self, store: &mut Store, node: &Value, now: Time) {
        let devices = self.devices_of(node).unwrap_or_else(|error| {
            let kind = EventKind::warning("InvalidDevices");
            event::record(store, SOURCE, node, kind, &error.to_string(), now);
            Devices::default()
        });
        // A class or slice of the same name belongs to the user, or to other nodes, and stays.
        for class in devices.classes() {
            store.create(DEVICECLASSES, class, now).ok();
        }
        for slice in devices.slices(node) {
            store.create(RESOURCESLICES, slice, now).ok();
        }
    }

    fn devices_of(&self, node: &Value) -> Result<Devices, DevicesError> {
        match node["metadata"]["annotations"][DEVICES].as_str() {
            Some(devices) => devices.parse(),
            None => Ok(self.default),
        }
    }
}
