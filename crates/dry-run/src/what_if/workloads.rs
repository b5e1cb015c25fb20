//! Changes of workloads: numbers of replicas, and priorities.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use framework::PodKey;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::apply::{Applied, Inventory, Limits, RemovedPod};
use super::changes::{At, Changes, Objection, entries};
use super::nodes::remove_ephemeral_claims;
use super::unseen::{Another, Scaled, Unseen, add, another, deployment_by_hash, ordinal};
use crate::DumpedPod;
use crate::workloads::deployment::HASH_LABEL;
use crate::workloads::kind_of;
use crate::workloads::template::{controller, count, name, namespace, put, text};

/// The kinds with a number of replicas.
const SCALED: [&str; 4] = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// The kinds whose template has the priority of their pods.
const WITH_TEMPLATE: [&str; 6] =
    ["DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// Kind, namespace and name.
pub(super) type Key = (String, String, String);

/// The workloads while they change.
struct Workloads {
    values: Vec<Value>,
    /// The places of the last workload of each name.
    places: BTreeMap<Key, usize>,
    changed: BTreeSet<usize>,
}

/// Changes the workloads, removes the pods that they no longer want, and sets priorities.
pub(super) fn apply(
    inventory: &mut Inventory,
    documents: &[Changes],
    limits: Limits,
    applied: &mut Applied,
    objections: &mut Vec<Objection>,
) {
    let has_changes = inventory.first_changed < inventory.workloads.len()
        || documents.iter().any(|own| !(own.scale.is_empty() && own.priority.is_empty()));
    if !has_changes {
        return;
    }
    let mut workloads = Workloads::parse(inventory);
    let pods = by_owner(&inventory.pods);
    let unseen = Unseen { pods: &pods, all: &inventory.pods };
    let (wanted, of_unseen) =
        workloads.scale(inventory.first_changed, documents, &unseen, objections);
    let mut gone = BTreeSet::new();
    let mut missing: Vec<(usize, String)> = Vec::new();
    for (at, key, replicas) in &of_unseen {
        let places = workloads.places_of_unseen(key, &unseen);
        let scaled = Scaled::of(key, *replicas, limits.pods, places, &inventory.pods);
        if missing.len() + scaled.missing.len() > limits.pods {
            let message = format!("the change makes more than {} pods", limits.pods);
            objections.push(at.object("replicas", message));
            continue;
        }
        gone.extend(scaled.gone);
        missing.extend(scaled.missing);
    }
    for key in &wanted {
        match key.0.as_str() {
            "StatefulSet" => gone.extend(workloads.last_ordinals(key, &pods, &inventory.pods)),
            _ => gone.extend(workloads.excess(key, &pods, &inventory.pods)),
        }
    }
    workloads.set_priorities(&inventory.pods, &pods, documents, applied, objections);
    workloads.write_back(inventory);
    let made: Vec<Another> =
        missing.into_iter().map(|(like, name)| another(&inventory.pods[like], &name)).collect();
    remove(inventory, &gone, applied);
    add(inventory, made);
}

/// The places of active pods by kind, namespace and name of their controllers.
pub(super) type ByOwner = BTreeMap<Key, Vec<usize>>;

fn by_owner(pods: &[DumpedPod]) -> ByOwner {
    let mut by_owner = ByOwner::new();
    for (place, object) in pods.iter().enumerate().filter(|(_, object)| !object.pod.terminating) {
        let Some(owner) = &object.owner else { continue };
        let [kind, name] = [&owner.kind, &owner.name].map(|text| text.to_string());
        let key = (kind, object.pod.key.namespace.to_string(), name);
        by_owner.entry(key).or_default().push(place);
    }
    by_owner
}

impl Workloads {
    fn parse(inventory: &Inventory) -> Self {
        let parsed = inventory.workloads.iter();
        let values: Vec<Value> =
            parsed.map(|raw| serde_json::from_str(raw.get()).unwrap_or_default()).collect();
        let key = |(place, value): (usize, &Value)| {
            let kind = kind_of(value)?.to_owned();
            Some(((kind, namespace(value).to_owned(), name(value).to_owned()), place))
        };
        let places = values.iter().enumerate().filter_map(key).collect();
        Self { values, places, changed: BTreeSet::new() }
    }

    fn get(&self, key: &Key) -> Option<&Value> {
        self.places.get(key).map(|place| &self.values[*place])
    }

    /// Writes a field of a workload.
    fn put(&mut self, key: &Key, path: &[&str], value: Value) {
        if let Some(place) = self.places.get(key) {
            put(&mut self.values[*place], path, value);
            self.changed.insert(*place);
        }
    }

    /// Returns the Deployment of a ReplicaSet, if the dump has it.
    fn deployment_of(&self, set: &Value) -> Option<Key> {
        let owner = text(controller(set, "Deployment")?, "/name").to_owned();
        let key = ("Deployment".to_owned(), namespace(set).to_owned(), owner);
        self.places.contains_key(&key).then_some(key)
    }

    /// Sets numbers of replicas. Returns two lists: workloads that may have too many pods,
    /// workloads of manifests included; and, with their replicas, workloads of which only pods are
    /// known.
    fn scale(
        &mut self,
        first_changed: usize,
        documents: &[Changes],
        unseen: &Unseen<'_>,
        objections: &mut Vec<Objection>,
    ) -> (Vec<Key>, Vec<(At, Key, usize)>) {
        let is_changed = |(key, place): &(&Key, &usize)| {
            **place >= first_changed && SCALED.contains(&key.0.as_str())
        };
        let mut wanted: BTreeSet<Key> =
            self.places.iter().filter(is_changed).map(|(key, _)| key.clone()).collect();
        let mut seen: BTreeMap<Key, At> = BTreeMap::new();
        let mut of_unseen = Vec::new();
        for (at, scale) in entries(documents, "scale", |changes| &changes.scale) {
            let key = (scale.kind.clone(), scale.namespace.clone(), scale.name.clone());
            let full_name = format!("{} {}/{}", key.0, key.1, key.2);
            if !SCALED.contains(&key.0.as_str()) {
                let message = format!("{:?} is none of {}", key.0, SCALED.join(", "));
                objections.push(at.object("kind", message));
                continue;
            }
            let Ok(replicas) = i32::try_from(scale.replicas)
                .map_err(drop)
                .and_then(|replicas| if replicas < 0 { Err(()) } else { Ok(replicas) })
            else {
                let message = format!("{full_name}: {} is no number of replicas", scale.replicas);
                objections.push(at.object("replicas", message));
                continue;
            };
            let own = self.get(&key);
            let places = self.places_of_unseen(&key, unseen);
            if own.is_none() && places.is_empty() {
                let message = format!("there is no {full_name}, and no pod of it");
                objections.push(at.object("name", message));
                continue;
            }
            let deployment = match own {
                Some(own) => self.deployment_of(own).map(|(_, _, name)| name),
                None => deployment_by_hash(&key.2, &unseen.all[places[0]]).map(str::to_owned),
            };
            if let Some(deployment) = deployment.filter(|_| key.0 == "ReplicaSet") {
                let message = format!(
                    "{full_name} belongs to Deployment {deployment}, which sets its replicas; scale that"
                );
                objections.push(at.object("name", message));
                continue;
            }
            if let Some(other) = seen.insert(key.clone(), at.clone()) {
                let message = format!("{full_name} is named twice, also by {other}");
                objections.push(at.object("name", message));
                continue;
            }
            if self.get(&key).is_none() {
                of_unseen.push((at, key, usize::try_from(replicas).unwrap_or(0)));
                continue;
            }
            self.put(&key, &["spec", "replicas"], json!(replicas));
            wanted.insert(key);
        }
        (wanted.into_iter().collect(), of_unseen)
    }

    /// Returns the places of the pods of a workload that the input lacks.
    fn places_of_unseen(&self, key: &Key, unseen: &Unseen<'_>) -> Vec<usize> {
        if self.places.contains_key(key) {
            return Vec::new();
        }
        let keys = match key.0.as_str() {
            "Deployment" => self.unseen_sets(key, unseen.pods, unseen.all),
            _ => vec![key.clone()],
        };
        keys.iter().filter_map(|key| unseen.pods.get(key)).flatten().copied().collect()
    }

    /// Returns the pods that a StatefulSet removes: those behind its last ordinal.
    fn last_ordinals(&self, key: &Key, pods: &ByOwner, all: &[DumpedPod]) -> Vec<usize> {
        let Some(set) = self.get(key) else { return Vec::new() };
        let start = count(set, "/spec/ordinals/start").unwrap_or(0);
        let end = start + count(set, "/spec/replicas").unwrap_or(1);
        let own = pods.get(key).into_iter().flatten();
        own.copied().filter(|place| ordinal(&all[*place]).is_some_and(|own| own >= end)).collect()
    }

    /// Returns the pods that a Deployment, ReplicaSet or ReplicationController removes, and lowers
    /// the replicas of the ReplicaSets of a Deployment.
    fn excess(&mut self, key: &Key, pods: &ByOwner, all: &[DumpedPod]) -> Vec<usize> {
        let Some(workload) = self.get(key) else { return Vec::new() };
        let replicas = count(workload, "/spec/replicas").unwrap_or(1);
        if key.0 != "Deployment" {
            let own = pods.get(key).cloned().unwrap_or_default();
            let excess = own.len().saturating_sub(replicas);
            return first_to_go(own, all, excess);
        }
        let sets: Vec<(Key, usize)> = self.sets_of(key);
        let of_set = |set: &Key| pods.get(set).map_or(&[][..], Vec::as_slice);
        let unseen = self.unseen_sets(key, pods, all);
        let keys = sets.iter().map(|(set, _)| set).chain(&unseen);
        let present: Vec<usize> = keys.flat_map(of_set).copied().collect();
        let missing = |(set, wanted): &(Key, usize)| wanted.saturating_sub(of_set(set).len());
        let planned: usize = sets.iter().map(missing).sum();
        let excess = (present.len() + planned).saturating_sub(replicas);
        let gone = first_to_go(present, all, excess.saturating_sub(planned));
        let is_gone: BTreeSet<usize> = gone.iter().copied().collect();
        let mut unmade = excess.min(planned);
        for set in sets {
            let fewer = missing(&set).min(unmade);
            unmade -= fewer;
            let own = of_set(&set.0).iter().filter(|place| is_gone.contains(place)).count();
            if fewer + own > 0 {
                let left = set.1.max(of_set(&set.0).len()) - fewer - own;
                self.put(&set.0, &["spec", "replicas"], json!(left));
            }
        }
        gone
    }

    /// Returns the ReplicaSets of a Deployment with their replicas.
    fn sets_of(&self, deployment: &Key) -> Vec<(Key, usize)> {
        let first = ("ReplicaSet".to_owned(), deployment.1.clone(), String::new());
        let sets = self.places.range(first..);
        let sets = sets.take_while(|((kind, namespace, _), _)| {
            kind == "ReplicaSet" && *namespace == deployment.1
        });
        let own = sets.filter(|(_, place)| {
            let owner = controller(&self.values[**place], "Deployment");
            owner.is_some_and(|owner| text(owner, "/name") == deployment.2)
        });
        let replicas = |place: usize| count(&self.values[place], "/spec/replicas").unwrap_or(1);
        own.map(|(key, place)| (key.clone(), replicas(*place))).collect()
    }

    /// Returns the ReplicaSets of a Deployment of which the dump has only pods.
    fn unseen_sets(&self, deployment: &Key, pods: &ByOwner, all: &[DumpedPod]) -> Vec<Key> {
        let prefix = format!("{}-", deployment.2);
        let first = ("ReplicaSet".to_owned(), deployment.1.clone(), prefix.clone());
        let sets = pods.range(first..).take_while(|((kind, namespace, name), _)| {
            kind == "ReplicaSet" && *namespace == deployment.1 && name.starts_with(&prefix)
        });
        let unseen = sets.filter(|(key, pods)| {
            let hash = pods.first().and_then(|place| all[*place].pod.labels.get(HASH_LABEL));
            !self.places.contains_key(key) && hash == key.2.strip_prefix(&prefix)
        });
        unseen.map(|(key, _)| key.clone()).collect()
    }

    fn set_priorities(
        &mut self,
        all: &[DumpedPod],
        by_owner: &ByOwner,
        documents: &[Changes],
        applied: &mut Applied,
        objections: &mut Vec<Objection>,
    ) {
        if documents.iter().all(|own| own.priority.is_empty()) {
            return;
        }
        let keys: HashSet<&PodKey> = all.iter().map(|own| &own.pod.key).collect();
        let mut setters: BTreeMap<PodKey, At> = BTreeMap::new();
        for (at, change) in entries(documents, "priority", |changes| &changes.priority) {
            let key = (change.kind.clone(), change.namespace.clone(), change.name.clone());
            let full_name = format!("{} {}/{}", key.0, key.1, key.2);
            let pods: Vec<PodKey> = if key.0 == "Pod" {
                Some(PodKey::new(&key.1, &key.2))
                    .filter(|own| keys.contains(own))
                    .into_iter()
                    .collect()
            } else if WITH_TEMPLATE.contains(&key.0.as_str()) {
                let mut controllers = self.with_template(&key, change.value);
                if key.0 == "Deployment" {
                    controllers.extend(self.unseen_sets(&key, by_owner, all));
                }
                let places = controllers.iter().filter_map(|own| by_owner.get(own)).flatten();
                places.map(|place| all[*place].pod.key.clone()).collect()
            } else {
                let kinds = WITH_TEMPLATE.join(", ");
                objections.push(at.object("kind", format!("{:?} is none of Pod, {kinds}", key.0)));
                continue;
            };
            if pods.is_empty() && !self.places.contains_key(&key) {
                objections.push(at.object("name", format!("there is no {full_name}")));
            }
            for pod in pods {
                applied.priorities.insert(pod.clone(), change.value);
                if let Some(other) = setters.insert(pod.clone(), at.clone()) {
                    let message = format!("{full_name}: pod {pod} gets a priority by {other}, too");
                    objections.push(at.object("name", message));
                    break;
                }
            }
        }
    }

    /// Writes the priority into the templates of a workload and of the ReplicaSets of a Deployment.
    /// Returns the controllers of its pods.
    fn with_template(&mut self, key: &Key, priority: i32) -> Vec<Key> {
        let mut keys = vec![key.clone()];
        if key.0 == "Deployment" {
            keys.extend(self.sets_of(key).into_iter().map(|(set, _)| set));
        }
        for key in &keys {
            let spec = |field| ["spec", "template", "spec", field];
            if self.get(key).is_some_and(|own| own.pointer("/spec/template/spec").is_some()) {
                self.put(key, &spec("priority"), json!(priority));
            }
        }
        keys
    }

    fn write_back(self, inventory: &mut Inventory) {
        for place in self.changed {
            if let Ok(raw) = to_raw_value(&self.values[place]) {
                inventory.workloads[place] = raw;
            }
        }
    }
}

/// Returns the pods that the ReplicaSet controller removes first: those without a node, then those
/// on nodes with more of the pods, then the newest.
pub(super) fn first_to_go(mut pods: Vec<usize>, all: &[DumpedPod], excess: usize) -> Vec<usize> {
    if excess == 0 {
        return Vec::new();
    }
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|place| all[*place].pod.node_name.as_deref()) {
        *on_node.entry(node).or_default() += 1;
    }
    pods.sort_by_cached_key(|place| {
        let DumpedPod { pod, created, .. } = &all[*place];
        let siblings = pod.node_name.as_deref().and_then(|node| on_node.get(node));
        let is_dated = created.is_some();
        (pod.node_name.is_some(), Reverse(siblings), is_dated, Reverse(*created), pod.key.clone())
    });
    pods.truncate(excess);
    pods
}

/// Removes pods of scaled workloads.
fn remove(inventory: &mut Inventory, gone: &BTreeSet<usize>, applied: &mut Applied) {
    if gone.is_empty() {
        return;
    }
    let mut place = 0;
    let mut removed = Vec::new();
    inventory.pods.retain_mut(|object| {
        place += 1;
        let is_kept = !gone.contains(&(place - 1));
        if !is_kept {
            removed.push(object.clone());
        }
        is_kept
    });
    for DumpedPod { pod, .. } in &removed {
        applied.leave(pod);
        let node = match applied.displaced.remove(&pod.key) {
            Some(displaced) => Some(displaced.node),
            None => pod.node_name.clone(),
        };
        applied.scaled_down.push(RemovedPod {
            namespace: pod.key.namespace.to_string(),
            name: pod.key.name.to_string(),
            node: node.map(|node| node.to_string()),
        });
    }
    remove_ephemeral_claims(&mut inventory.objects, removed.iter().map(|object| &object.pod));
}
