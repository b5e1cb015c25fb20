//! Columns of nodes.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, text_or};
use super::descriptions;
use crate::object::{condition_status, entries, text};

const UNKNOWN: &str = "<unknown>";
const NONE: &str = "<none>";
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

/// The columns of nodes.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Status", "The status of the node", |node, _| status(node).into()),
    Column::text("Roles", "The roles of the node", |node, _| roles(node).into()),
    AGE,
    Column::text("Version", "Kubelet Version reported by the node.", |node, _| {
        text(node, "/status/nodeInfo/kubeletVersion").into()
    }),
    Column::text("Internal-IP", descriptions::NODE_ADDRESSES, |node, _| {
        address(node, "InternalIP").into()
    })
    .wide(),
    Column::text("External-IP", descriptions::NODE_ADDRESSES, |node, _| {
        address(node, "ExternalIP").into()
    })
    .wide(),
    Column::text(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
        |node, _| text_or(node, "/status/nodeInfo/osImage", UNKNOWN).into(),
    )
    .wide(),
    Column::text(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
        |node, _| text_or(node, "/status/nodeInfo/kernelVersion", UNKNOWN).into(),
    )
    .wide(),
    Column::text(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. \
         containerd://1.4.2).",
        |node, _| text_or(node, "/status/nodeInfo/containerRuntimeVersion", UNKNOWN).into(),
    )
    .wide(),
];

fn status(node: &Value) -> String {
    let ready = match condition_status(node, "Ready") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    };
    let cordoned = node["spec"]["unschedulable"] == true;
    format!("{ready}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None => value.as_str().filter(|_| key == ROLE).map(str::to_owned),
    };
    let mut roles: Vec<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    roles.sort();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn address<'a>(node: &'a Value, of_type: &str) -> &'a str {
    let mut addresses = entries(node, "/status/addresses");
    let address = addresses.find(|address| address["type"] == of_type);
    address.map_or(NONE, |address| text(address, "/address"))
}
