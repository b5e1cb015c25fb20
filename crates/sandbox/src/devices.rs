//! The devices of simulated nodes: GPUs that can be divided in halves, and network cards.
//!
//! Each node gets as many of them as [`Devices`] says. GPUs and network cards are spread evenly
//! over the PCIe roots of a node, one root for each network card. Users match them by the attribute
//! `resource.kubernetes.io/pcieRoot`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use thiserror::Error;

use crate::metadata::{name, uid};

const GPU_DRIVER: &str = "gpu.sandbox.loadmaster.dev";
const NIC_DRIVER: &str = "nic.sandbox.loadmaster.dev";
const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
/// Maximum number of devices of one kind on a node.
const MOST: u32 = 128;
/// GPUs whose counters one slice holds: a slice has at most eight counter sets.
const COUNTERS_PER_SLICE: usize = 8;
/// GPUs that one slice holds, each as three devices: a slice has at most 64 devices with counters.
const GPUS_PER_SLICE: usize = 21;
/// Memory of a GPU in GiB.
const MEMORY: u32 = 80;

/// The number of devices on each node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Devices {
    /// Number of GPUs.
    pub gpus: u32,
    /// Number of network cards.
    pub nics: u32,
}

/// Why a text names no devices.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("devices {text:?}: {why}; use for example gpu=8,nic=2")]
pub struct DevicesError {
    text: String,
    why: String,
}

impl FromStr for Devices {
    type Err = DevicesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = |why: String| DevicesError { text: text.to_owned(), why };
        let mut devices = Self::default();
        for part in text.split(',') {
            let (kind, count) = part.split_once('=').unwrap_or((part, ""));
            let place = match kind.trim() {
                "gpu" => &mut devices.gpus,
                "nic" => &mut devices.nics,
                other => return Err(fault(format!("{other:?} is neither gpu nor nic"))),
            };
            let count = count.trim().parse().ok().filter(|count| *count <= MOST);
            *place = count.ok_or_else(|| fault(format!("{part:?} has no number up to {MOST}")))?;
        }
        Ok(devices)
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu={},nic={}", self.gpus, self.nics)
    }
}

impl Devices {
    /// Returns the DeviceClasses: whole GPUs, which are the extended resource
    /// `sandbox.loadmaster.dev/gpu` as well, halves, and network cards.
    pub(crate) fn classes(self) -> Vec<Value> {
        let profile = |profile: &str| {
            format!(
                "device.driver == '{GPU_DRIVER}' && \
                 device.attributes['{GPU_DRIVER}'].profile == '{profile}'"
            )
        };
        let mut whole = class("gpu", &profile("whole"));
        whole["spec"]["extendedResourceName"] = json!("sandbox.loadmaster.dev/gpu");
        let mut classes = Vec::new();
        if self.gpus > 0 {
            classes.extend([whole, class("gpu-half", &profile("half"))]);
        }
        if self.nics > 0 {
            classes.push(class("nic", &format!("device.driver == '{NIC_DRIVER}'")));
        }
        classes
    }

    /// Returns the ResourceSlices of a node, which owns them.
    pub(crate) fn slices(self, node: &Value) -> Vec<Value> {
        let gpus: Vec<u32> = (0..self.gpus).collect();
        let counters = gpus.chunks(COUNTERS_PER_SLICE).map(|gpus| {
            json!({"sharedCounters": gpus.iter().map(|gpu| counter_set(*gpu)).collect::<Vec<_>>()})
        });
        let devices = gpus.chunks(GPUS_PER_SLICE).map(|gpus| {
            let devices = gpus.iter().flat_map(|gpu| self.gpu(*gpu));
            json!({"devices": devices.collect::<Vec<_>>()})
        });
        let nics: Vec<Value> = (0..self.nics).map(|nic| self.nic(nic)).collect();
        let nics = if nics.is_empty() { Vec::new() } else { vec![json!({"devices": nics})] };
        let mut slices = pool(node, "gpu", GPU_DRIVER, counters.chain(devices).collect());
        slices.extend(pool(node, "nic", NIC_DRIVER, nics));
        slices
    }

    /// Returns a GPU as a whole and its halves, which share its memory.
    fn gpu(self, index: u32) -> [Value; 3] {
        let root = self.root(index, self.gpus);
        let device = |name: String, profile: &str, memory: u32| {
            let memory = json!({"memory": {"value": format!("{memory}Gi")}});
            json!({
                "name": name,
                "attributes": {
                    "model": {"string": "A"}, "index": {"int": index},
                    "profile": {"string": profile}, PCIE_ROOT: {"string": root},
                },
                "capacity": memory,
                "consumesCounters": [{"counterSet": format!("gpu-{index}"), "counters": memory}],
            })
        };
        [
            device(format!("gpu-{index}"), "whole", MEMORY),
            device(format!("gpu-{index}-half-0"), "half", MEMORY / 2),
            device(format!("gpu-{index}-half-1"), "half", MEMORY / 2),
        ]
    }

    fn nic(self, index: u32) -> Value {
        json!({
            "name": format!("nic-{index}"),
            "attributes": {
                "model": {"string": "N"}, "index": {"int": index},
                PCIE_ROOT: {"string": self.root(index, self.nics)},
            },
        })
    }

    /// Returns the PCIe root of a device, one of `count` of its kind.
    fn root(self, index: u32, count: u32) -> String {
        format!("pci0000:{:02x}", index * self.nics.max(1) / count.max(1))
    }
}

fn class(name: &str, expression: &str) -> Value {
    let selectors = json!([{"cel": {"expression": expression}}]);
    json!({"metadata": {"name": name}, "spec": {"selectors": selectors}})
}

fn counter_set(gpu: u32) -> Value {
    let memory = json!({"memory": {"value": format!("{MEMORY}Gi")}});
    json!({"name": format!("gpu-{gpu}"), "counters": memory})
}

/// Returns the slices of one driver on a node with these contents.
fn pool(node: &Value, kind: &str, driver: &str, contents: Vec<Value>) -> Vec<Value> {
    let node_name = name(node);
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": uid(node),
        "controller": true});
    let count = contents.len();
    let contents = contents.into_iter().enumerate();
    let slice = |(number, mut spec): (usize, Value)| {
        spec["driver"] = json!(driver);
        spec["nodeName"] = json!(node_name);
        spec["pool"] = json!({"name": node_name, "generation": 1, "resourceSliceCount": count});
        let name = format!("{node_name}-{kind}-{number}");
        json!({"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec})
    };
    contents.map(slice).collect()
}

#[cfg(test)]
mod tests {
    use framework::Time;

    use super::*;
    use crate::object::{entries, text};
    use crate::resources::{DEVICECLASSES, NODES, RESOURCESLICES};
    use crate::store::Store;

    #[test]
    fn devices_are_read_from_text() {
        assert_eq!("gpu=8,nic=2".parse(), Ok(Devices { gpus: 8, nics: 2 }));
        assert_eq!("nic=1".parse(), Ok(Devices { gpus: 0, nics: 1 }));
        for (text, why) in [
            ("tpu=1", "\"tpu\" is neither gpu nor nic"),
            ("gpu", "\"gpu\" has no number up to 128"),
            ("gpu=-1", "\"gpu=-1\" has no number up to 128"),
            ("nic=129", "\"nic=129\" has no number up to 128"),
        ] {
            let error = text.parse::<Devices>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn slices_and_classes_of_any_number_of_devices_are_valid() {
        let now = Time::from_secs(1_000_000);
        for (gpus, nics) in [(0, 0), (1, 0), (0, 1), (8, 2), (2, 4), (128, 128)] {
            let mut store = Store::new(1, now);
            let node = json!({"metadata": {"name": "n"}});
            let node = store.create(NODES, node, now).unwrap();
            let devices = Devices { gpus, nics };
            for class in devices.classes() {
                store.create(DEVICECLASSES, class, now).unwrap();
            }
            let slices = devices.slices(&node);
            let published = slices.iter().map(|slice| entries(slice, "/spec/devices").count());
            let count: usize = published.sum();
            assert_eq!(count, usize::try_from(3 * gpus + nics).unwrap());
            for slice in slices {
                store.create(RESOURCESLICES, slice, now).unwrap();
            }
        }
    }

    #[test]
    fn every_network_card_shares_its_root_with_as_many_gpus() {
        let devices = Devices { gpus: 8, nics: 2 };
        let root = |device: &Value| {
            text(device, "/attributes/resource.kubernetes.io~1pcieRoot/string").to_owned()
        };
        let gpus: Vec<String> = (0..8).map(|gpu| root(&devices.gpu(gpu)[0])).collect();
        assert_eq!(gpus[..4], ["pci0000:00"; 4]);
        assert_eq!(gpus[4..], ["pci0000:01"; 4]);
        assert_eq!(root(&devices.nic(1)), "pci0000:01");
    }
}
