//! Claims and their volumes.

use std::collections::BTreeMap;

use dry_run::table::{Colour, Column, Table};
use sandbox::resources::{PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES};
use sandbox::store::Store;
use serde_json::Value;

use crate::cluster::Cluster;

const NAMESPACE: &str = "orders";
const SET: &str = "ledger";
/// The zone from which a volume is accessible.
const ZONE: &str = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";

/// A bound claim with its volume.
pub(crate) struct Bound {
    name: String,
    volume: String,
    capacity: String,
    pub(crate) zone: String,
}

/// Returns the bound claims, by namespace and name.
pub(crate) fn bound(store: &Store) -> BTreeMap<String, Bound> {
    let claims = store.objects(PERSISTENTVOLUMECLAIMS);
    let claims = claims.filter(|claim| claim["status"]["phase"] == "Bound");
    claims.map(|claim| (key(claim), Bound::of(store, claim))).collect()
}

fn key(claim: &Value) -> String {
    format!("{}/{}", text(claim, "/metadata/namespace"), text(claim, "/metadata/name"))
}

impl Bound {
    fn of(store: &Store, claim: &Value) -> Self {
        let volume = text(claim, "/spec/volumeName");
        let object = store.get(PERSISTENTVOLUMES, "", &volume);
        Self {
            name: text(claim, "/metadata/name"),
            capacity: text(claim, "/status/capacity/storage"),
            zone: object.map_or_else(String::new, |object| text(object, ZONE)),
            volume,
        }
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a summary of the StatefulSet and its claims.
pub(crate) fn of(cluster: &Cluster) -> String {
    let set = cluster.stateful_set(NAMESPACE, SET);
    let (ready, wanted) = (&set["status"]["readyReplicas"], &set["spec"]["replicas"]);
    let mut table = Table::new([
        Column::words("CLAIM"),
        Column::words("VOLUME"),
        Column::words("CAPACITY"),
        Column::words("ZONE"),
    ]);
    for Bound { name, volume, capacity, zone } in cluster.snapshot().claims.into_values() {
        table.row([name, volume, capacity, zone]);
    }
    format!(
        "$ kubectl get -n {NAMESPACE} statefulset/{SET},pvc\n{SET}: {ready} of {wanted} pods are \
         ready\n{}",
        table.render(Colour::of_stdout())
    )
}
