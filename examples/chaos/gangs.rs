//! Gangs: PodGroups whose pods are bound together.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams,
};
use kube::{Api, Client};
use serde_json::json;

use crate::pods::{NAMESPACE, URGENT, typed};

/// Start of the names of gangs. The pods of a gang have its name and a number.
const GANG: &str = "gang-";

/// The creator of gangs.
pub(crate) struct Gangs {
    client: Client,
    created: u64,
    /// The gangs of which pods were deleted, or may have been.
    broken: BTreeSet<String>,
    /// Whether the API server serves PodGroups, once that is known.
    are_served: Option<bool>,
}

impl Gangs {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client, created: 0, broken: BTreeSet::new(), are_served: None }
    }

    /// Creates a gang and its pods. They are as important as the most important pods, so that no
    /// pod is evicted from a gang.
    pub(crate) async fn create(&mut self, rng: &mut fastrand::Rng) -> anyhow::Result<()> {
        if !self.are_served().await? {
            return Ok(());
        }
        let name = format!("{GANG}{}", self.created);
        self.created += 1;
        let (min_count, cpu) = (rng.usize(2..=4), format!("{}m", rng.u64(1..=8) * 100));
        let gang = typed::<DynamicObject>(json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "priority": 1000},
        }))?;
        self.groups().create(&PostParams::default(), &gang).await?;
        for number in 0..min_count + rng.usize(..2) {
            let pod = typed::<DynamicObject>(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("{name}-{number}"), "labels": {"kind": "Gang"}},
                "spec": {
                    "schedulerName": "loadmaster",
                    "schedulingGroup": {"podGroupName": name},
                    "priorityClassName": URGENT,
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "pause",
                        "image": "registry.k8s.io/pause:3.10",
                        "resources": {"requests": {"cpu": cpu}},
                    }],
                },
            }))?;
            self.pods().create(&PostParams::default(), &pod).await?;
        }
        Ok(())
    }

    /// Deletes the gang of a pod, and its pods. Returns whether the pod belongs to one.
    pub(crate) async fn delete_with(&mut self, pod: &str) -> anyhow::Result<bool> {
        let Some(name) = gang_of(pod).map(str::to_owned) else { return Ok(false) };
        self.broken.insert(name.clone());
        let pods = self.pods().list(&ListParams::default()).await?.items;
        let names = pods.iter().filter_map(|pod| pod.metadata.name.as_deref());
        for pod in names.filter(|pod| gang_of(pod) == Some(&name)) {
            self.pods().delete(pod, &DeleteParams::default()).await?;
        }
        self.groups().delete(&name, &DeleteParams::default()).await?;
        Ok(true)
    }

    pub(crate) fn summary(&self) -> String {
        format!("{} gangs created, {} of them deleted", self.created, self.broken.len())
    }

    /// Returns the gangs that are bound in part.
    pub(crate) async fn in_part(&self) -> anyhow::Result<Vec<String>> {
        if self.are_served != Some(true) {
            return Ok(Vec::new());
        }
        let all = ListParams::default();
        let mut bound = BTreeMap::<String, u64>::new();
        for pod in self.pods().list(&all).await?.items {
            let gang = pod.metadata.name.as_deref().and_then(gang_of);
            if let Some(gang) = gang.filter(|_| pod.data["spec"]["nodeName"].is_string()) {
                *bound.entry(gang.to_owned()).or_default() += 1;
            }
        }
        let gangs = self.groups().list(&all).await?.items;
        let in_part = gangs.into_iter().filter_map(|gang| {
            let name = gang.metadata.name.filter(|name| !self.broken.contains(name))?;
            let needed = gang.data["spec"]["schedulingPolicy"]["gang"]["minCount"].as_u64()?;
            let bound = bound.get(&name).copied().unwrap_or(0);
            (bound > 0 && bound < needed)
                .then(|| format!("{name} has {bound} pods on nodes, and needs {needed}"))
        });
        Ok(in_part.collect())
    }

    async fn are_served(&mut self) -> anyhow::Result<bool> {
        if let Some(known) = self.are_served {
            return Ok(known);
        }
        let are_served = match self.groups().list(&ListParams::default()).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => return Err(error.into()),
        };
        self.are_served = Some(are_served);
        Ok(are_served)
    }

    fn groups(&self) -> Api<DynamicObject> {
        self.api("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups")
    }

    /// Pods with the field that names their group.
    fn pods(&self) -> Api<DynamicObject> {
        self.api("", "v1", "Pod", "pods")
    }

    fn api(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }
}

/// Returns the gang that a pod belongs to by its name.
fn gang_of(pod: &str) -> Option<&str> {
    Some(pod.rsplit_once('-')?.0).filter(|gang| gang.starts_with(GANG))
}
