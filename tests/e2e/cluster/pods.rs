//! Pods of a test.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Binding, Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Cluster, LABEL, create, named};
use crate::e2e::wait::eventually;

impl Cluster {
    /// Returns a Pod for the scheduler under test that requests this number of CPUs on a node of
    /// the test.
    pub(in crate::e2e) fn pod(&self, name: &str, cpus: u32) -> Pod {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "schedulerName": self.name,
                "nodeSelector": {LABEL: self.name},
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "pause",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": {"cpu": cpus.to_string()}},
                }],
            },
        });
        serde_json::from_value(pod).unwrap()
    }

    /// Creates a PriorityClass, and returns its name in the whole cluster.
    pub(in crate::e2e) async fn add_priority(
        &self,
        name: &str,
        value: i32,
        policy: &str,
    ) -> String {
        let name = format!("{}-{name}", self.name);
        let mut class: PriorityClass = named(&name);
        class.metadata.labels = Some([(LABEL.to_owned(), self.name.clone())].into());
        class.value = Some(value);
        class.preemption_policy = Some(policy.to_owned());
        create(&self.priority_classes(), &class).await;
        name
    }

    /// Creates a Pod, and returns it.
    pub(in crate::e2e) async fn create_pod(&self, pod: &Pod) -> Pod {
        create(&self.pods, pod).await
    }

    /// Removes a label of a Pod.
    pub(in crate::e2e) async fn remove_pod_label(&self, pod: &str, label: &str) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {label: null}}}));
        self.pods.patch(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates Pods `<prefix>-0` and so on that request one CPU each.
    pub(in crate::e2e) async fn create_pods(&self, prefix: &str, count: usize) {
        for number in 0..count {
            self.create_pod(&self.pod(&format!("{prefix}-{number}"), 1)).await;
        }
    }

    /// Deletes a Pod without grace period, and waits until it is gone.
    pub(in crate::e2e) async fn delete_pod(&self, name: &str) {
        self.pods.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
        eventually(&format!("pod {name} is gone"), async || {
            self.pods.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    /// Binds a Pod to a Node, as another scheduler would.
    pub(in crate::e2e) async fn bind(&self, pod: &str, node: &str) {
        let binding: Binding = serde_json::from_value(json!({
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node_name(node)},
        }))
        .unwrap();
        let post = PostParams::default();
        let _: Value = self.pods.create_subresource("binding", pod, &post, &binding).await.unwrap();
    }

    /// Waits until a Pod has a Node, and returns the full name of the Node.
    pub(in crate::e2e) async fn bound(&self, pod: &str) -> String {
        eventually(&format!("pod {pod} is bound"), async || {
            node_of(&self.pods.get(pod).await.ok()?)
        })
        .await
    }

    /// Waits until this number of Pods is bound, and returns the Pods of the namespace.
    pub(in crate::e2e) async fn bound_pods(&self, count: usize) -> Vec<Pod> {
        eventually(&format!("{count} pods are bound"), async || {
            let mut pods = self.pods.list(&ListParams::default()).await.ok()?.items;
            pods.retain(|pod| node_of(pod).is_some());
            (pods.len() >= count).then_some(pods)
        })
        .await
    }

    /// Waits until the scheduler has tried a Pod without success, and returns its condition
    /// `PodScheduled`.
    pub(in crate::e2e) async fn rejected(&self, pod: &str) -> PodCondition {
        eventually(&format!("pod {pod} is rejected"), async || {
            let status = self.pods.get(pod).await.ok()?.status?;
            let mut conditions = status.conditions.unwrap_or_default().into_iter();
            let is_tried = |one: &PodCondition| one.reason.as_deref() != Some("SchedulerStarted");
            conditions
                .find(|one| one.type_ == "PodScheduled" && one.status == "False" && is_tried(one))
        })
        .await
    }

    /// Waits until the condition `PodScheduled` of a Pod has this text.
    pub(in crate::e2e) async fn has_condition(&self, pod: &str, text: &str) {
        eventually(&format!("pod {pod} has the condition {text:?}"), async || {
            let message = self.rejected(pod).await.message?;
            message.contains(text).then_some(())
        })
        .await;
    }

    /// Waits until there are Events of a Pod with this reason, and returns them.
    pub(in crate::e2e) async fn events(&self, pod: &Pod, reason: &str) -> Vec<Event> {
        eventually(&format!("there is an event {reason}"), async || {
            let mut found = self.events_for(reason).await;
            found.retain(|event| regarding(event) == Some(uid(pod)));
            (!found.is_empty()).then_some(found)
        })
        .await
    }

    /// Waits until there is an Event about the object with this UID, and returns it.
    pub(in crate::e2e) async fn event_about(&self, uid: &str) -> Event {
        eventually("there is an event", async || {
            let events = self.all_events().await;
            events.into_iter().find(|event| regarding(event) == Some(uid))
        })
        .await
    }

    /// Checks that no Pod has two `Scheduled` events.
    pub(in crate::e2e) async fn assert_bound_once(&self) {
        let events = self.events_for("Scheduled").await;
        let mut pods = BTreeSet::new();
        for event in &events {
            assert!(pods.insert(regarding(event)), "bound twice: {event:?}");
        }
    }

    pub(in crate::e2e) async fn events_for(&self, reason: &str) -> Vec<Event> {
        let mut all = self.all_events().await;
        all.retain(|event| event.reason.as_deref() == Some(reason));
        all
    }

    async fn all_events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.name);
        events.list(&ListParams::default()).await.unwrap().items
    }
}

/// Returns the UID of the object of an Event.
fn regarding(event: &Event) -> Option<&str> {
    event.regarding.as_ref()?.uid.as_deref()
}

/// Returns the Node of a Pod, if it is bound.
pub(in crate::e2e) fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

/// Returns the UID of a created object.
pub(in crate::e2e) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap()
}
