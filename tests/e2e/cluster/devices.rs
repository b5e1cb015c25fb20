//! Devices, their classes and claims of a test.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
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

    /// DeviceTaintRules, which an API server serves only if this version is enabled.
    pub(super) fn device_taint_rules(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("resource.k8s.io", "v1beta2", "DeviceTaintRule");
        let resource = ApiResource::from_gvk_with_plural(&kind, "devicetaintrules");
        Api::all_with(self.client.clone(), &resource)
    }

    /// Returns the driver of all devices of the test.
    pub(in crate::e2e) fn device_driver(&self) -> String {
        format!("{}.gpu.example.com", self.name)
    }

    /// Returns the extended resource that the devices of the test provide.
    pub(in crate::e2e) fn device_resource(&self) -> String {
        format!("{}.example.com/gpu", self.name)
    }

    /// Adds the class of all devices of the test, and a template of claims for one of them.
    pub(in crate::e2e) async fn add_device_class(&self) {
        let class = self.device_class();
        let expression = format!("device.driver == '{}'", self.device_driver());
        let object = typed(json!({
            "metadata": {"name": class, "labels": {LABEL: self.name}},
            "spec": {
                "selectors": [{"cel": {"expression": expression}}],
                "extendedResourceName": self.device_resource(),
            },
        }));
        create(&self.device_classes(), &object).await;
        self.add_device_template(
            GPU,
            &json!([{"name": "gpu", "exactly": {"deviceClassName": class}}]),
        )
        .await;
    }

    /// Returns the class of all devices of the test.
    pub(in crate::e2e) fn device_class(&self) -> String {
        format!("{}-{GPU}", self.name)
    }

    /// Adds a template of claims with these requests.
    pub(in crate::e2e) async fn add_device_template(&self, name: &str, requests: &Value) {
        let template: ResourceClaimTemplate = typed(json!({
            "metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}},
        }));
        self.create(&template).await;
    }

    /// Publishes devices `gpu-0` and so on of a node.
    pub(in crate::e2e) async fn add_devices(&self, node: &str, count: usize) {
        let devices: Vec<Value> =
            (0..count).map(|number| json!({"name": format!("gpu-{number}")})).collect();
        let node = self.node_name(node);
        self.add_slices(&node, &[json!({"nodeName": node, "devices": devices})]).await;
    }

    /// Publishes a pool of slices with these specs, which need no driver and no pool.
    pub(in crate::e2e) async fn add_slices(&self, pool: &str, specs: &[Value]) {
        for (number, spec) in specs.iter().enumerate() {
            let mut spec = spec.clone();
            spec["driver"] = json!(self.device_driver());
            spec["pool"] =
                json!({"name": pool, "generation": 1, "resourceSliceCount": specs.len()});
            let name = format!("{}-{pool}-{number}", self.name);
            let metadata = json!({"name": name, "labels": {LABEL: self.name}});
            create(&self.slices(), &typed(json!({"metadata": metadata, "spec": spec}))).await;
        }
    }

    /// Creates a DeviceTaintRule with this selector, which may lack the driver. Returns `false` if
    /// the API server does not serve the kind.
    pub(in crate::e2e) async fn taint_devices(&self, name: &str, mut selector: Value) -> bool {
        selector["driver"] = json!(self.device_driver());
        let taint = json!({"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"});
        let rule: DynamicObject = typed(json!({
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": self.node_name(name), "labels": {LABEL: self.name}},
            "spec": {"deviceSelector": selector, "taint": taint},
        }));
        if matches!(self.device_taint_rules().list(&ListParams::default()).await,
            Err(kube::Error::Api(status)) if status.code == 404)
        {
            return false;
        }
        create(&self.device_taint_rules(), &rule).await;
        true
    }

    /// Deletes a DeviceTaintRule.
    pub(in crate::e2e) async fn remove_device_taint(&self, name: &str) {
        let (rules, now) = (self.device_taint_rules(), DeleteParams::default());
        let _ = rules.delete(&self.node_name(name), &now).await.unwrap();
    }

    /// Reports a condition of all devices of a claim, as their driver does.
    pub(in crate::e2e) async fn report_devices(&self, claim: &ResourceClaim, kind: &str) {
        let written = json!(claim);
        let results = written["status"]["allocation"]["devices"]["results"].as_array();
        let condition = json!({"type": kind, "status": "True", "reason": "Reported",
            "message": "by the driver", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let devices = results.unwrap().iter().map(|result| {
            json!({"driver": result["driver"], "pool": result["pool"], "device": result["device"],
                "conditions": [condition]})
        });
        let metadata = json!({"resourceVersion": claim.metadata.resource_version});
        let patch =
            json!({"metadata": metadata, "status": {"devices": devices.collect::<Vec<_>>()}});
        let name = claim.metadata.name.as_deref().unwrap();
        // The claim may have changed meanwhile.
        let _ = self
            .device_claims()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
    }

    /// Returns a Pod with a claim for one device from the template.
    pub(in crate::e2e) fn pod_with_device(&self, name: &str) -> Pod {
        self.pod_with_claim(name, GPU)
    }

    /// Returns a Pod with a claim from this template.
    pub(in crate::e2e) fn pod_with_claim(&self, name: &str, template: &str) -> Pod {
        let mut pod = json!(self.pod(name, 1));
        pod["spec"]["resourceClaims"] =
            json!([{"name": GPU, "resourceClaimTemplateName": template}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": GPU}]);
        typed(pod)
    }

    /// Adds a claim for one device.
    pub(in crate::e2e) async fn add_device_claim(&self, name: &str) {
        let requests = json!([{"name": GPU, "exactly": {"deviceClassName": self.device_class()}}]);
        let claim: ResourceClaim = typed(json!({
            "metadata": {"name": name}, "spec": {"devices": {"requests": requests}},
        }));
        self.create(&claim).await;
    }

    /// Returns a Pod that uses this claim.
    pub(in crate::e2e) fn pod_with_device_claim(&self, name: &str, claim: &str) -> Pod {
        let mut pod = json!(self.pod(name, 1));
        pod["spec"]["resourceClaims"] = json!([{"name": GPU, "resourceClaimName": claim}]);
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

    /// Waits until the namespace has no claim for devices.
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
