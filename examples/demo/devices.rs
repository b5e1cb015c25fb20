//! Claims for devices, and the devices that they got.

use dry_run::table::{Colour, Column, Table};
use sandbox::resources::{RESOURCECLAIMS, RESOURCESLICES};
use serde_json::Value;

use crate::cluster::Cluster;

/// The attribute with the PCIe root of a device.
const PCIE_ROOT: &str = "/attributes/resource.kubernetes.io~1pcieRoot/string";

/// Returns a summary of all claims.
pub(crate) fn of(cluster: &Cluster) -> String {
    let slices = cluster.objects(RESOURCESLICES);
    let mut table =
        Table::new(["CLAIM", "REQUEST", "NODE", "DEVICE", "PCIE ROOT"].map(Column::words));
    for claim in cluster.objects(RESOURCECLAIMS) {
        for result in items(&claim, "/status/allocation/devices/results") {
            let name = text(&claim, "/metadata/name");
            let own = ["/request", "/pool", "/device"].map(|field| text(result, field));
            table.row([name].into_iter().chain(own).chain([root(&slices, result)]));
        }
    }
    format!("$ kubectl get -A resourceclaims\n{}", table.render(Colour::of_stdout()))
}

/// Returns the PCIe root of an allocated device.
fn root(slices: &[Value], result: &Value) -> String {
    let of_driver = slices.iter().filter(|slice| slice["spec"]["driver"] == result["driver"]);
    let of_pool = of_driver.filter(|slice| slice["spec"]["pool"]["name"] == result["pool"]);
    let mut devices = of_pool.flat_map(|slice| items(slice, "/spec/devices"));
    let device = devices.find(|device| device["name"] == result["device"]);
    device.map_or_else(String::new, |device| text(device, PCIE_ROOT))
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
