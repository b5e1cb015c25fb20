//! The cluster in memory, and the actions on it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use loadmaster::wire;
use sandbox::http::{Options, Server};
use sandbox::kubelet;
use sandbox::resources::{self, DEPLOYMENTS, EVENTS, NODES, PODS, Resource, STATEFULSETS};
use serde_json::{Value, json};

use crate::script::Deed;
use crate::snapshot::Snapshot;

/// Pods take a moment to start and to stop, so that the change is visible.
const MOMENT: Duration = Duration::from_millis(700);

pub(crate) struct Cluster(Server);

impl Cluster {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let kubelets = kubelet::Settings {
            start_delay: MOMENT,
            stop_delay: MOMENT,
            ..kubelet::Settings::default()
        };
        let options = Options { kubelets: Some(kubelets), ..Options::default() };
        Ok(Self(Server::start(options).await?))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.0.kubeconfig()
    }

    pub(crate) async fn stop(self) {
        self.0.stop().await;
    }

    /// Returns the present nodes, pods and claims.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.with_store(|store, _| Snapshot::of(store))
    }

    pub(crate) fn perform(&self, deed: &Deed) -> anyhow::Result<()> {
        match deed {
            Deed::Apply(file) => self.apply(file),
            Deed::Scale { namespace, deployment, replicas } => {
                self.set(DEPLOYMENTS, namespace, deployment, "replicas", json!(replicas))
            }
            Deed::Cordon(node) => self.set(NODES, "", node, "unschedulable", json!(true)),
            Deed::Ungate { namespace, pod } => {
                self.set(PODS, namespace, pod, "schedulingGates", json!([]))
            }
        }
    }

    fn apply(&self, file: &str) -> anyhow::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for object in wire::read_objects(&[root.join(file)])?.objects {
            let kind = resources::of_kind(&object.api_version, &object.kind);
            let resource = kind.with_context(|| format!("{file}: unknown kind {}", object.kind))?;
            let created = self.0.with_store(|store, now| store.create(resource, object.value, now));
            created.map_err(|status| anyhow!("{file}: {status}"))?;
        }
        Ok(())
    }

    /// Sets a field of the spec.
    fn set(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        field: &str,
        value: Value,
    ) -> anyhow::Result<()> {
        let set = |object: &mut Value| {
            object["spec"][field] = value;
            Ok(())
        };
        let changed =
            self.0.with_store(|store, now| store.modify(resource, namespace, name, now, set));
        changed.map(drop).map_err(|status| anyhow!("{status}"))
    }

    /// Returns all objects of a resource.
    pub(crate) fn objects(&self, resource: &'static Resource) -> Vec<Value> {
        self.0.with_store(|store, _| store.objects(resource).map(|own| Value::clone(own)).collect())
    }

    /// Returns a StatefulSet; `null` if it does not exist.
    pub(crate) fn stateful_set(&self, namespace: &str, name: &str) -> Value {
        self.0.with_store(|store, _| {
            let set = store.get(STATEFULSETS, namespace, name);
            set.map(|set| Value::clone(set)).unwrap_or_default()
        })
    }

    /// Returns a pod and its events, oldest first.
    pub(crate) fn pod_with_events(&self, namespace: &str, name: &str) -> (Value, Vec<Value>) {
        self.0.with_store(|store, _| {
            let pod = store.get(PODS, namespace, name).map(|pod| Value::clone(pod));
            let pod = pod.unwrap_or_default();
            let about = |event: &&Value| event["involvedObject"]["uid"] == pod["metadata"]["uid"];
            let events = store.objects(EVENTS).map(|event| &**event);
            let events = events.filter(about).cloned().collect();
            (pod, events)
        })
    }
}
