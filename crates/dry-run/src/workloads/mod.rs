//! The pods that the controllers of Kubernetes would make from the workloads of a dump.
//!
//! Each controller compares what its workload wants with the pods of the dump that it owns, and
//! makes the missing ones. A rollout is not simulated: existing pods count whatever template they
//! have. Controllers own the pods that name them in `ownerReferences`, and adopt no others.

mod cron_job;
mod daemon_set;
pub(crate) mod deployment;
mod foreign;
mod job;
mod replica_set;
pub(crate) mod stateful_set;
pub(crate) mod template;
mod training;
mod unread;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use framework::{Node, Pod, PodKey};
use serde_json::Value;
use serde_json::value::RawValue;

use self::deployment::ReplicaSets;
use self::foreign::{Foreign, reader};
pub use self::template::name_after;
use self::template::{controller_of, is_terminating, name, namespace, text};
pub use self::unread::Unread;

/// A pod of a dump and its controller.
#[derive(Debug, Clone, Copy)]
pub struct OwnedPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The kind of its controller.
    pub kind: &'a str,
    /// The name of its controller.
    pub name: &'a str,
}

/// The objects that the controllers made.
#[derive(Debug, Default)]
pub struct Made {
    /// ReplicaSets, PersistentVolumeClaims and pods, in the order of the workloads.
    pub objects: Vec<Value>,
    /// The workloads that no other workload of the dump controls.
    pub workloads: Vec<Workload>,
    /// Workloads that could not be followed, and the reason.
    pub warnings: Vec<String>,
    /// Objects that look like workloads and could not be expanded, or not wholly.
    pub unread: Vec<Unread>,
    /// Whether the maximum number of objects was reached.
    pub is_full: bool,
}

/// A workload and its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The kind.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The number of pods that it wants now.
    pub wanted: usize,
    /// The number of its pods that have a node.
    pub running: usize,
    /// Its pods that wait for a node, the pods of the dump first.
    pub pending: Vec<PodKey>,
}

/// The kinds that own pods. Deployments and CronJobs own other workloads.
const KINDS: [(&str, &str); 7] = [
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("v1", "ReplicationController"),
];

/// Whether controllers make pods from an object, as its kind or its content says.
pub fn is_workload(object: &Value) -> bool {
    is_followed(object) || training::is_runtime(object) || unread::looks_like_workload(object)
}

/// Whether an object is of a kind whose pods are made.
pub fn is_followed(object: &Value) -> bool {
    kind_of(object).is_some() || reader(object).is_some()
}

/// The workloads of an input.
#[derive(Debug, Clone, Copy)]
pub struct Workloads<'a> {
    /// The objects, in the order of the input.
    pub objects: &'a [Box<RawValue>],
    /// The number of objects before the objects of a change.
    pub first_changed: usize,
}

/// Returns the pods that the controllers of these workloads make, with the objects that they make
/// for them. Later workloads replace earlier ones of the same kind and name. `most` is the maximum
/// number of objects that are made.
pub fn make(
    Workloads { objects: workloads, first_changed }: Workloads<'_>,
    nodes: &[Node],
    pods: &[OwnedPod<'_>],
    most: usize,
) -> Made {
    let mut last = BTreeMap::new();
    let parsed = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    let mut sets = ReplicaSets::default();
    let mut jobs = HashSet::new();
    let mut runtimes = BTreeMap::new();
    let mut owners = BTreeSet::new();
    // Objects that no reader knows, by kind, namespace and name.
    let mut unknown = BTreeMap::new();
    for (place, raw) in workloads.iter().enumerate() {
        let Some(workload) = parsed(raw) else { continue };
        owners.extend(controller_of(&workload));
        let Some(kind) = kind_of(&workload).or_else(|| Some(reader(&workload)?.shown())) else {
            if training::is_runtime(&workload) {
                runtimes.insert(training::key_of(&workload), workload);
            } else {
                let Unread { kind, namespace, name, .. } = Unread::of(&workload, "");
                unknown.insert((kind, namespace, name), place);
            }
            continue;
        };
        match kind {
            "ReplicaSet" => sets.add(&workload),
            "Job" if !job::is_over(&workload) => jobs.extend(cron_job::of_job(&workload)),
            _ => {}
        }
        last.insert((kind, namespace(&workload).to_owned(), name(&workload).to_owned()), place);
    }
    let mut controllers = Controllers {
        nodes,
        most,
        pods: by_owner(pods),
        taken: pods.iter().map(|owned| owned.pod.key.clone()).collect(),
        known: last.keys().cloned().collect(),
        sets,
        jobs,
        labelled: by_label(pods),
        runtimes,
        owners,
        foreign: BTreeMap::new(),
        made: Made::default(),
        numbers: BTreeMap::new(),
        places: BTreeMap::new(),
    };
    let mut order: Vec<usize> = last.into_values().chain(unknown.into_values()).collect();
    order.sort_unstable();
    for place in order {
        if let Some(workload) = parsed(&workloads[place]) {
            controllers.sync(&workload, place >= first_changed);
        }
    }
    controllers.finish()
}

/// Kind, namespace and name of a controller.
type Owner = (String, String, String);

/// The active pods by a label, their namespace and its value.
type ByLabel<'a> = BTreeMap<(&'static str, String, String), Vec<&'a Pod>>;

/// Returns the active pods by the labels with which they name their foreign workloads.
fn by_label<'a>(pods: &[OwnedPod<'a>]) -> ByLabel<'a> {
    let labels = foreign::labels();
    let mut by_label = ByLabel::new();
    for OwnedPod { pod, .. } in pods.iter().filter(|owned| !owned.pod.terminating) {
        for label in &labels {
            if let Some(value) = pod.labels.get(label) {
                let key = (*label, pod.key.namespace.to_string(), value.to_owned());
                by_label.entry(key).or_default().push(pod);
            }
        }
    }
    by_label
}

pub(crate) fn kind_of(workload: &Value) -> Option<&'static str> {
    let own = (text(workload, "/apiVersion"), text(workload, "/kind"));
    KINDS.into_iter().find(|kind| *kind == own).map(|(_, kind)| kind)
}

/// The number of pods that Kubernetes supports in a cluster.
pub const MOST_PODS: usize = 150_000;

/// Kind, namespace and name of a workload.
pub(crate) type Key = (&'static str, String, String);

type ByOwner<'a> = BTreeMap<(String, String, String), Vec<&'a Pod>>;

/// Returns the active pods by kind, namespace and name of their controllers.
fn by_owner<'a>(pods: &[OwnedPod<'a>]) -> ByOwner<'a> {
    let mut by_owner = ByOwner::new();
    for OwnedPod { pod, kind, name } in pods.iter().filter(|owned| !owned.pod.terminating) {
        let key = ((*kind).to_owned(), pod.key.namespace.to_string(), (*name).to_owned());
        by_owner.entry(key).or_default().push(pod);
    }
    by_owner
}

/// The controllers, and what they know of the dump.
struct Controllers<'a> {
    nodes: &'a [Node],
    /// Maximum number of objects that are made.
    most: usize,
    /// The active pods by kind, namespace and name of their controllers.
    pods: ByOwner<'a>,
    /// The names in use.
    taken: HashSet<PodKey>,
    /// The workloads of the dump.
    known: HashSet<Key>,
    sets: ReplicaSets,
    /// Namespaces and names of CronJobs that have a Job under way.
    jobs: HashSet<(String, String)>,
    labelled: ByLabel<'a>,
    /// The runtimes of TrainJobs.
    runtimes: BTreeMap<Owner, Value>,
    /// The controllers of the workloads of the dump.
    owners: BTreeSet<Owner>,
    /// The foreign workloads from which pods were made, and the number of these pods, by kind.
    foreign: BTreeMap<&'static str, (Vec<String>, usize)>,
    made: Made,
    /// The number of the next generated name, by namespace and base.
    numbers: BTreeMap<(String, String), u64>,
    /// The place of each workload in the result.
    places: BTreeMap<Key, usize>,
}

impl<'a> Controllers<'a> {
    fn sync(&mut self, workload: &Value, is_changed: bool) {
        if is_terminating(workload) {
            return;
        }
        let kind = kind_of(workload);
        match kind {
            Some(kind) => self.check(kind, workload),
            None => return self.sync_foreign(&Foreign { object: workload, is_changed }),
        }
        match kind {
            Some("DaemonSet") => daemon_set::sync(self, workload),
            Some("Deployment") => deployment::sync(self, workload),
            Some("ReplicaSet") => replica_set::sync(self, workload, "ReplicaSet"),
            Some("ReplicationController") => {
                replica_set::sync(self, workload, "ReplicationController");
            }
            Some("StatefulSet") => stateful_set::sync(self, workload),
            Some("CronJob") => cron_job::sync(self, workload),
            Some("Job") => job::sync(self, workload),
            _ => {}
        }
    }

    fn sync_foreign(&mut self, workload: &Foreign<'_>) {
        let outcome = match reader(workload.object) {
            Some(reader) => foreign::sync(self, reader, workload),
            None if !workload.is_changed && self.is_followed_by_others(workload.object) => Ok(()),
            None => Err("no reader knows where its pod templates and their numbers are".to_owned()),
        };
        if let Err(reason) = outcome {
            let unread = Unread::of(workload.object, &reason);
            self.made.warnings.push(unread.warning());
            self.made.unread.push(unread);
        }
    }

    /// Whether the dump has what the controller of an object made, or the object is part of another
    /// one.
    fn is_followed_by_others(&self, object: &Value) -> bool {
        controller_of(object).is_some()
            || foreign::is_over(object)
            || self.controls_workloads(object)
            || !self.pods_of(text(object, "/kind"), object).is_empty()
    }

    /// Whether the dump has workloads that an object controls.
    fn controls_workloads(&self, object: &Value) -> bool {
        let kind = text(object, "/kind").to_owned();
        self.owners.contains(&(kind, namespace(object).to_owned(), name(object).to_owned()))
    }

    /// Returns the active pods of a foreign workload, by their label or else by their owner.
    fn pods_of_foreign(&self, label: &'static str, object: &Value) -> Vec<&'a Pod> {
        let key = (label, namespace(object).to_owned(), name(object).to_owned());
        let labelled = self.labelled.get(&key).cloned();
        labelled.unwrap_or_else(|| self.pods_of(text(object, "/kind"), object))
    }

    /// Notes that so many pods were made from a foreign workload.
    fn note_foreign(&mut self, workload: &Key, pods: usize) {
        let (kind, namespace, name) = workload;
        if pods > 0 {
            let (names, all) = self.foreign.entry(*kind).or_default();
            names.push(format!("{namespace}/{name}"));
            *all += pods;
        }
    }

    fn finish(mut self) -> Made {
        for (kind, (names, pods)) in &self.foreign {
            let more = names.len().saturating_sub(1);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let pods = if *pods == 1 { "1 pod is".to_owned() } else { format!("{pods} pods are") };
            self.made.warnings.push(format!(
                "{kind} {}{more}: {pods} made from the templates alone: gangs, queues and the order of starts of \
                 the controller are not simulated",
                names[0]
            ));
        }
        self.made
    }

    /// Warns of a workload that the API server would refuse.
    fn check(&mut self, kind: &str, workload: &Value) {
        let spec = &workload["spec"];
        for field in ["replicas", "parallelism", "completions"] {
            if let Some(number) = spec[field].as_i64().filter(|number| *number < 0) {
                let message = format!(
                    "spec.{field}: {number} is negative; the API server refuses that, and it counts as 0"
                );
                self.warn(kind, workload, &message);
            }
        }
        let wanted = spec["selector"]["matchLabels"].as_object();
        let labels = &spec["template"]["metadata"]["labels"];
        let missing =
            wanted.and_then(|wanted| wanted.iter().find(|(key, own)| labels[*key] != **own));
        if let Some((key, value)) =
            missing.filter(|_| kind != "Job" && spec["template"].is_object())
        {
            let value = value.as_str().unwrap_or_default();
            let message = format!(
                "spec.selector: its template has no label {key}={value}; the API server refuses that"
            );
            self.warn(kind, workload, &message);
        }
    }

    /// Returns the active pods of a controller.
    fn pods_of(&self, kind: &str, workload: &Value) -> Vec<&'a Pod> {
        let key = (kind.to_owned(), namespace(workload).to_owned(), name(workload).to_owned());
        self.pods.get(&key).cloned().unwrap_or_default()
    }

    /// Whether the dump has this workload.
    fn has(&self, kind: &'static str, namespace: &str, name: &str) -> bool {
        self.known.contains(&(kind, namespace.to_owned(), name.to_owned()))
    }

    fn warn(&mut self, kind: &str, workload: &Value, message: &str) {
        let (namespace, name) = (namespace(workload), name(workload));
        self.made.warnings.push(format!("{kind} {namespace}/{name}: {message}"));
    }

    /// Counts pods that the workload `root` wants, and pods that it has.
    fn count(&mut self, root: Key, wanted: usize, present: &[&Pod]) {
        let place = *self.places.entry(root.clone()).or_insert_with(|| {
            let (kind, namespace, name) = root;
            let (wanted, running, pending) = (0, 0, Vec::new());
            let workload = Workload { kind, namespace, name, wanted, running, pending };
            self.made.workloads.push(workload);
            self.made.workloads.len() - 1
        });
        let workload = &mut self.made.workloads[place];
        workload.wanted += wanted;
        let pending = present.iter().filter(|pod| pod.node_name.is_none());
        workload.pending.extend(pending.map(|pod| pod.key.clone()));
        workload.running += present.iter().filter(|pod| pod.node_name.is_some()).count();
    }

    /// Adds a pod of the workload `root`, which has been counted.
    fn add_pod(&mut self, root: &Key, pod: Value) {
        let key = PodKey::new(namespace(&pod), name(&pod));
        self.taken.insert(key.clone());
        if let Some(place) = self.places.get(root) {
            self.made.workloads[*place].pending.push(key);
        }
        self.made.objects.push(pod);
    }

    /// Adds pods with names after `base`. `missing` is their number, `pod` is one without a name.
    fn add_pods(&mut self, root: &Key, owner: &Value, base: &str, missing: usize, pod: &Value) {
        let fits = missing.min(self.room());
        for _ in 0..fits {
            let name = self.free_name(namespace(owner), base);
            let mut pod = pod.clone();
            pod["metadata"]["name"] = name.into();
            self.add_pod(root, pod);
        }
        if fits < missing {
            self.cut(root.0, owner);
        }
    }

    /// Returns a name that no pod has, as the API server makes it from `generateName`.
    fn free_name(&mut self, namespace: &str, base: &str) -> String {
        let number = self.numbers.entry((namespace.to_owned(), base.to_owned())).or_insert(0);
        loop {
            let name = template::generated_name(base, *number);
            *number += 1;
            if !self.taken.contains(&PodKey::new(namespace, &name)) {
                return name;
            }
        }
    }

    /// Returns how many pods may still be added.
    fn room(&self) -> usize {
        self.most.saturating_sub(self.made.objects.len())
    }

    /// Notes that the rest of the pods of a workload is left out.
    fn cut(&mut self, kind: &str, workload: &Value) {
        let message =
            format!("workloads are limited to {} new objects; the rest is left out", self.most);
        let unread = Unread::of(workload, &message);
        self.made.is_full = true;
        if self.made.unread.last() != Some(&unread) {
            self.warn(kind, workload, &message);
            self.made.unread.push(unread);
        }
    }
}

fn key_of(kind: &'static str, workload: &Value) -> Key {
    (kind, namespace(workload).to_owned(), name(workload).to_owned())
}

#[cfg(test)]
mod tests;
