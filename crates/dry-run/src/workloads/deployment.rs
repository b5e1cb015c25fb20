//! Deployments: a ReplicaSet for each template.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::template::{
    controller, controller_reference, count, hash, name, namespace, pod_of, put, text, uid,
};
use super::{Controllers, Key, key_of};

pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// The ReplicaSets of the dump, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct ReplicaSets(BTreeMap<(String, String), ReplicaSet>);

#[derive(Debug)]
struct ReplicaSet {
    /// The name of its Deployment; empty without one.
    deployment: String,
    uid: String,
    replicas: usize,
    /// The label with the hash of the template.
    label: String,
    /// The hash of the template without that label.
    hash: String,
}

impl ReplicaSets {
    pub(super) fn add(&mut self, set: &Value) {
        let owner = controller(set, "Deployment");
        let deployment = owner.map_or("", |owner| text(owner, "/name"));
        let mut template = set["spec"]["template"].clone();
        let labels = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
        let label = labels.and_then(|labels| labels.remove(HASH_LABEL));
        let own = ReplicaSet {
            deployment: deployment.to_owned(),
            uid: uid(set),
            replicas: count(set, "/spec/replicas").unwrap_or(1),
            label: label.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
            hash: hash(&template),
        };
        self.0.insert((namespace(set).to_owned(), name(set).to_owned()), own);
    }

    /// Returns the ReplicaSets of a Deployment with their names.
    fn of<'a>(&'a self, deployment: &'a Value) -> impl Iterator<Item = (&'a str, &'a ReplicaSet)> {
        let own = self.0.iter().filter(|((namespace_of_set, _), set)| {
            namespace_of_set == namespace(deployment) && set.deployment == name(deployment)
        });
        own.map(|((_, name), set)| (name.as_str(), set))
    }
}

impl Controllers<'_> {
    /// Returns the Deployment of a ReplicaSet, if the dump has it.
    pub(super) fn deployment_of(&self, set: &Value) -> Option<Key> {
        let owner = text(controller(set, "Deployment")?, "/name");
        let is_known = self.has("Deployment", namespace(set), owner);
        is_known.then(|| ("Deployment", namespace(set).to_owned(), owner.to_owned()))
    }

    /// Returns the names of ReplicaSets that are not in the dump, of which the dump has pods. The
    /// name is that of the Deployment and the hash in the labels of its pods.
    fn unseen_sets(&self, deployment: &Value) -> Vec<String> {
        let (namespace, prefix) = (namespace(deployment), format!("{}-", name(deployment)));
        let first = ("ReplicaSet".to_owned(), namespace.to_owned(), prefix.clone());
        let sets = self.pods.range(first..).take_while(|((kind, own, name), _)| {
            kind == "ReplicaSet" && own == namespace && name.starts_with(&prefix)
        });
        let unseen = sets.filter(|((_, _, name), pods)| {
            let hash = pods.first().and_then(|pod| pod.labels.get(HASH_LABEL));
            !self.has("ReplicaSet", namespace, name) && hash == name.strip_prefix(&prefix)
        });
        unseen.map(|((_, _, name), _)| name.clone()).collect()
    }
}

/// Adds the replicas that neither the ReplicaSets of the Deployment have or make. They belong to
/// the ReplicaSet with the template of the Deployment, which is made if the dump lacks it.
pub(super) fn sync(controllers: &mut Controllers<'_>, deployment: &Value) {
    let replicas = count(deployment, "/spec/replicas").unwrap_or(1);
    let root = key_of("Deployment", deployment);
    controllers.count(root.clone(), replicas, &[]);
    let reference =
        |name: &str| json!({"metadata": {"name": name, "namespace": namespace(deployment)}});
    let mut have = 0;
    for name in controllers.unseen_sets(deployment) {
        let present = controllers.pods_of("ReplicaSet", &reference(&name));
        have += present.len();
        controllers.count(root.clone(), 0, &present);
    }
    let own_hash = hash(&deployment["spec"]["template"]);
    let mut current = None;
    for (name, set) in controllers.sets.of(deployment) {
        let present = controllers.pods_of("ReplicaSet", &reference(name)).len();
        have += set.replicas.max(present);
        if set.hash == own_hash {
            current = Some((name, set));
        }
    }
    let is_new = current.is_none();
    let identity = match current {
        Some((name, set)) => {
            Identity { name: name.to_owned(), uid: set.uid.clone(), label: set.label.clone() }
        }
        None => {
            let name = format!("{}-{own_hash}", name(deployment));
            Identity { name, uid: String::new(), label: own_hash }
        }
    };
    let missing = replicas.saturating_sub(have);
    if is_new && have > 0 {
        let message = format!(
            "no ReplicaSet in the input has its template: {have} existing pods count as they are, without a rollout"
        );
        controllers.warn("Deployment", deployment, &message);
    }
    if missing == 0 {
        return;
    }
    let Some(set) = replica_set(deployment, identity, missing) else {
        let message = "spec.template: is missing; no pods are made from it";
        return controllers.warn("Deployment", deployment, message);
    };
    if let Some(pod) = pod_of(&set) {
        controllers.add_pods(&root, &set, name(&set), missing, &pod);
    }
    if is_new {
        controllers.made.objects.push(set);
    }
}

/// Identifies the ReplicaSet of the current template.
struct Identity {
    name: String,
    /// Empty if the ReplicaSet does not exist yet.
    uid: String,
    label: String,
}

/// Returns the ReplicaSet of the current template.
fn replica_set(deployment: &Value, identity: Identity, replicas: usize) -> Option<Value> {
    let mut template = deployment["spec"].get("template").filter(|own| own.is_object())?.clone();
    let Identity { name, uid, label } = identity;
    let mut selector = deployment["spec"]["selector"].clone();
    if !label.is_empty() {
        put(&mut template, &["metadata", "labels", HASH_LABEL], json!(label));
        put(&mut selector, &["matchLabels", HASH_LABEL], json!(label));
    }
    Some(json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": namespace(deployment),
            "uid": uid,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }))
}
