//! Devices, their classes and claims of a test.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Cluster, LABEL, create};
use crate::e2e::wait::eventually;

/// The DeviceClass and the ResourceClaimTemplate of a test, without the prefix of the class.
const GPU: &str = "gpu";

impl Cluster {
    /// Claims for devices of the namespace.
    pub(in crate::e2e) fn device_claims(&self) -> Api<ResourceClaim> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(super) fn slices(&self) -> Api<ResourceSlice> {
        Api::all(self.client.clone())
    }

    pub(super) fn device_classes(&self) -> Api<DeviceClass> {
        Api::all(self.client.clone())
    }

    fn device_driver(&self) -> String {
        format!("{}.gpu.example.com", self.name)
    }

    /// Returns the extended resource that the devices of the test provide.
    pub(in crate::e2e) fn device_resource(&self) -> String {
        format!("{}.example.com/gpu", self.name)
    }

    /// Adds the class of all devices of the test, and a template of claims for one of them.
    pub(in crate::e2e) async fn add_device_class(&self) {
        let class = format!("{}-{GPU}", self.name);
        let expression = format!("device.driver == '{}'", self.device_driver());
        let object = typed(json!({
            "metadata": {"name": class, "labels": {LABEL: self.name}},
            "spec": {
                "selectors": [{"cel": {"expression": expression}}],
                "extendedResourceName": self.device_resource(),
            },
        }));
        create(&self.device_classes(), &object).await;
        let requests = json!([{"name": "gpu", "exactly": {"deviceClassName": class}}]);
        let template: ResourceClaimTemplate = typed(json!({
            "metadata": {"name": GPU}, "spec": {"spec": {"devices": {"requests": requests}}},
        }));
        self.create(&template).await;
    }

    /// Publishes devices `gpu-0` and so on of a node.
    pub(in crate::e2e) async fn add_devices(&self, node: &str, count: usize) {
        let node = self.node_name(node);
        let devices: Vec<Value> =
            (0..count).map(|number| json!({"name": format!("gpu-{number}")})).collect();
        let slice = typed(json!({
            "metadata": {"name": node, "labels": {LABEL: self.name}},
            "spec": {
                "driver": self.device_driver(),
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }));
        create(&self.slices(), &slice).await;
    }

    /// Returns a Pod with a claim for one device from the template.
    pub(in crate::e2e) fn pod_with_device(&self, name: &str) -> Pod {
        let mut pod = json!(self.pod(name, 1));
        pod["spec"]["resourceClaims"] = json!([{"name": GPU, "resourceClaimTemplateName": GPU}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": GPU}]);
        typed(pod)
    }

    /// Returns a Pod that requests one device as an extended resource.
    pub(in crate::e2e) fn pod_with_device_resource(&self, name: &str) -> Pod {
        let mut pod = json!(self.pod(name, 1));
        let resources = &mut pod["spec"]["containers"][0]["resources"];
        let resource = self.device_resource();
        resources["requests"][&resource] = json!("1");
        resources["limits"] = json!({resource: "1"});
        typed(pod)
    }

    /// Returns the claims for devices of the namespace.
    pub(in crate::e2e) async fn all_device_claims(&self) -> Vec<ResourceClaim> {
        self.device_claims().list(&ListParams::default()).await.unwrap().items
    }

    /// Waits until there is no claim for devices in the namespace.
    pub(in crate::e2e) async fn device_claims_are_gone(&self) {
        eventually("no claim for devices is left", async || {
            self.all_device_claims().await.is_empty().then_some(())
        })
        .await;
    }
}

/// Returns the allocated devices of a claim, as `pool/device`.
pub(in crate::e2e) fn devices_of(claim: &ResourceClaim) -> Vec<String> {
    let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    let results = devices.and_then(|devices| devices.results.as_ref());
    let results = results.into_iter().flatten();
    results.map(|result| format!("{}/{}", result.pool, result.device)).collect()
}

/// Returns the UIDs of the Pods that a claim is reserved for.
pub(in crate::e2e) fn users_of(claim: &ResourceClaim) -> Vec<String> {
    let users = claim.status.as_ref().and_then(|status| status.reserved_for.as_ref());
    users.into_iter().flatten().map(|user| user.uid.clone()).collect()
}

fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}
