//! PodGroups of a test.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use serde_json::{Value, json};

use super::{Cluster, chart_rules, create};
use crate::e2e::wait::eventually;

/// Returns the permissions that the chart grants, but for those on PodGroups.
pub(in crate::e2e) fn chart_rules_without_pod_groups() -> Vec<PolicyRule> {
    let mut rules = chart_rules();
    let is_on_groups = |rule: &PolicyRule| {
        rule.resources.iter().flatten().any(|resource| resource.starts_with("podgroups"))
    };
    rules.retain(|rule| !is_on_groups(rule));
    rules
}

impl Cluster {
    fn pod_groups(&self, version: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("scheduling.k8s.io", version, "PodGroup");
        let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
        Api::namespaced_with(self.client.clone(), &self.name, &resource)
    }

    /// Creates a gang.
    pub(in crate::e2e) async fn create_gang(&self, name: &str, min_count: usize) {
        self.create_gang_with(name, min_count, json!({})).await;
    }

    /// Creates a gang with these scheduling constraints.
    pub(in crate::e2e) async fn create_gang_with(
        &self,
        name: &str,
        min_count: usize,
        constraints: Value,
    ) {
        self.create_group(name, min_count, &json!({"schedulingConstraints": constraints})).await;
    }

    /// Creates a gang with these fields in its spec.
    pub(in crate::e2e) async fn create_group(&self, name: &str, min_count: usize, fields: &Value) {
        let mut spec = fields.clone();
        spec["schedulingPolicy"] = json!({"gang": {"minCount": min_count}});
        let group: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        }))
        .unwrap();
        create(&self.pod_groups("v1alpha2"), &group).await;
    }

    /// Deletes a gang; its pods stay.
    pub(in crate::e2e) async fn delete_group(&self, name: &str) {
        let _ = self.pod_groups("v1alpha2").delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Changes the number of pods that a gang needs, which v1alpha2 does not allow.
    pub(in crate::e2e) async fn set_min_count(&self, name: &str, min_count: usize) {
        let patch = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}});
        let (patch, params) = (Patch::Merge(patch), PatchParams::default());
        self.pod_groups("v1beta1").patch(name, &params, &patch).await.unwrap();
    }

    /// Creates `count` members of a group, each of which requests a CPU.
    pub(in crate::e2e) async fn create_members(&self, group: &str, count: usize) {
        for number in 0..count {
            self.create_member(group, number, &json!({})).await;
        }
    }

    /// Creates a member of a group with these fields in its spec.
    pub(in crate::e2e) async fn create_member(&self, group: &str, number: usize, spec: &Value) {
        let mut pod = json!(self.pod(&format!("{group}-{number}"), 1));
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        for (field, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.create_pod(&pod).await;
    }

    fn coscheduling_groups(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("scheduling.x-k8s.io", "v1alpha1", "PodGroup");
        let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
        Api::namespaced_with(self.client.clone(), &self.name, &resource)
    }

    /// Creates a gang of Coscheduling.
    pub(in crate::e2e) async fn create_coscheduling_gang(&self, name: &str, min_member: usize) {
        let group: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": min_member},
        }))
        .unwrap();
        create(&self.coscheduling_groups(), &group).await;
    }

    /// Creates `count` members of a gang of Coscheduling, each of which requests a CPU.
    pub(in crate::e2e) async fn create_labelled_members(&self, group: &str, count: usize) {
        for number in 0..count {
            self.create_labelled_member(group, number).await;
        }
    }

    /// Creates one member of a gang of Coscheduling, which requests a CPU.
    pub(in crate::e2e) async fn create_labelled_member(&self, group: &str, number: usize) {
        let mut pod = self.pod(&format!("{group}-{number}"), 1);
        let label = ("scheduling.x-k8s.io/pod-group".to_owned(), group.to_owned());
        pod.metadata.labels = Some([label].into());
        self.create_pod(&pod).await;
    }

    /// Sets the phase of a pod, like its kubelet.
    pub(in crate::e2e) async fn set_pod_phase(&self, pod: &str, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        self.pods.patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns the status of a gang of Coscheduling, once it has this phase.
    pub(in crate::e2e) async fn coscheduling_status(&self, name: &str, phase: &str) -> Value {
        let groups = self.coscheduling_groups();
        eventually(&format!("{name} has the phase {phase}"), async || {
            let status = json!(groups.get(name).await.unwrap())["status"].clone();
            (status["phase"] == phase).then_some(status)
        })
        .await
    }

    /// Returns the condition of a group that the scheduler writes, in either version, once its
    /// reason is this one.
    pub(in crate::e2e) async fn group_condition(&self, name: &str, reason: &str) -> Value {
        let groups = self.pod_groups("v1alpha2");
        eventually(&format!("{name} has the condition {reason}"), async || {
            let group = json!(groups.get(name).await.unwrap());
            let conditions = group["status"]["conditions"].as_array()?.clone();
            conditions.into_iter().find(|condition| {
                let is_of_scheduler = ["PodGroupScheduled", "PodGroupInitiallyScheduled"]
                    .iter()
                    .any(|own| condition["type"] == *own);
                is_of_scheduler && condition["reason"] == reason
            })
        })
        .await
    }

    /// Waits until there are events about a group with this reason, and returns the versions of the
    /// group that they name.
    pub(in crate::e2e) async fn group_events(&self, name: &str, reason: &str) -> Vec<String> {
        eventually(&format!("{name} has an event {reason}"), async || {
            let mut events = self.events_for(reason).await;
            events.retain(|event| {
                event.regarding.as_ref().is_some_and(|own| {
                    own.kind.as_deref() == Some("PodGroup") && own.name.as_deref() == Some(name)
                })
            });
            let versions = events.into_iter().map(|event| event.regarding.unwrap().api_version);
            let versions: Vec<String> = versions.map(Option::unwrap_or_default).collect();
            (!versions.is_empty()).then_some(versions)
        })
        .await
    }

    /// Returns the number of members of a group that are bound.
    pub(in crate::e2e) async fn bound_members(&self, group: &str) -> usize {
        let pods = self.pods.list(&ListParams::default()).await.unwrap();
        let prefix = format!("{group}-");
        let is_bound = |pod: &&Pod| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            name.starts_with(&prefix) && super::pods::node_of(pod).is_some()
        };
        pods.items.iter().filter(is_bound).count()
    }

    /// Waits until `count` members of a group are bound, and returns the zone of their nodes.
    ///
    /// # Panics
    /// Their nodes are in several zones.
    pub(in crate::e2e) async fn rack_of(&self, group: &str, count: usize) -> String {
        let mut racks = BTreeSet::new();
        for number in 0..count {
            let node = self.bound(&format!("{group}-{number}")).await;
            let labels = self.nodes.get(&node).await.unwrap().metadata.labels.unwrap();
            racks.insert(labels["topology.kubernetes.io/zone"].clone());
        }
        assert_eq!(racks.len(), 1, "{group} is in {racks:?}");
        racks.pop_first().unwrap()
    }
}
