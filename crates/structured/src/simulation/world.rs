//! Small clusters.

use std::sync::Arc;

#[cfg(test)]
use framework::device::Allocation;
use framework::device::ResourceClaim;
use framework::{Cluster, EventResource, api};
use serde::Deserialize;
use serde_json::{Value, json};

#[cfg(test)]
use super::toy::Toys;
#[cfg(test)]
use crate::{AllocateError, Allocated, Allocator, Budget, Claims, Gates, Limits, LongSearches};
use testkit::SetJson;

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) cluster: Cluster,
}

impl World {
    /// Returns a cluster with nodes of these names.
    pub(crate) fn new(nodes: &[&str]) -> Self {
        let mut world = Self::default();
        for name in nodes {
            world.cluster.set_node(&testkit::node(name).zone(name).build());
        }
        world
    }

    pub(crate) fn set(&mut self, kind: &EventResource, object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        self.cluster.set_json(kind, &namespace, &name, Some(Arc::new(object)));
    }

    pub(crate) fn class(&mut self, name: &str, selectors: &[&str]) {
        let selectors = selectors.iter().map(|text| json!({"cel": {"expression": text}}));
        let spec = json!({"selectors": selectors.collect::<Value>()});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.set(&EventResource::DeviceClass, object);
    }

    pub(crate) fn slice(&mut self, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.set(&EventResource::ResourceSlice, object);
    }

    #[cfg(test)]
    pub(crate) fn allocate(
        &self,
        node: &str,
        claims: &[ResourceClaim],
    ) -> Result<Option<Vec<Allocation>>, AllocateError> {
        self.allocate_with(Gates::default(), node, claims)
    }

    #[cfg(test)]
    pub(crate) fn allocate_with(
        &self,
        gates: Gates,
        node: &str,
        claims: &[ResourceClaim],
    ) -> Result<Option<Vec<Allocation>>, AllocateError> {
        let claims = Claims::new(claims, &self.cluster, &mut Toys);
        let base = self.cluster.allocated_devices();
        let allocated = Allocated { base, overlay: None };
        let allocator = Allocator::new(&self.cluster, gates, allocated);
        let node = self.cluster.node(self.cluster.node_named(node).expect("the node exists"));
        allocator.allocate(
            &claims,
            &node,
            Limits { budget: Budget::UNLIMITED, long: &mut LongSearches::default() },
            1,
        )
    }
}

#[cfg(test)]
pub(crate) fn claim(name: &str, devices: &Value) -> ResourceClaim {
    read_claim(&claim_object(name, devices))
}

pub(crate) fn claim_object(name: &str, devices: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"devices": devices}})
}

pub(crate) fn read_claim(object: &Value) -> ResourceClaim {
    ResourceClaim::from_api(&api::ResourceClaim::deserialize(object).expect("it is a claim"))
}
