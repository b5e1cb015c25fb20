//! Changes of nodes, and the pods that leave them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use framework::{
    EventResource, Labels, Node, OptionalTime, Pod, PodVolumeSource, Taint, TaintEffect, Uid,
    label_key_faults,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::apply::{Applied, Cause, Displaced, Inventory, Limits, LostPod};
use super::changes::{At, Changes, Objection, UpgradeNodes, entries};
use super::pools::Shape;
use crate::renewal::{owned_claims, renewed};
use crate::workloads::template::{put, text};
use crate::{DumpedObject, DumpedPod};

/// Maximum number of copies of a node.
const MOST_COPIES: u32 = 10_000;

/// The taint of cordoned nodes.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The change of a node as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Drain,
    Cordon,
    Uncordon,
    Remove,
}

impl Fate {
    /// Whether one node can have both.
    fn agrees_with(self, other: Self) -> bool {
        matches!((self, other), (Self::Drain, Self::Cordon) | (Self::Cordon, Self::Drain))
    }
}

/// A list of names of a document.
type Names = fn(&Changes) -> &[String];

/// The lists of nodes of a document.
const LISTS: [(&str, Fate, Names); 4] = [
    ("removeNodes", Fate::Remove, |changes| &changes.remove_nodes),
    ("drain", Fate::Drain, |changes| &changes.drain),
    ("cordon", Fate::Cordon, |changes| &changes.cordon),
    ("uncordon", Fate::Uncordon, |changes| &changes.uncordon),
];

/// The nodes while they change.
struct Nodes<'a> {
    nodes: &'a mut Vec<Node>,
    places: HashMap<Arc<str>, usize>,
    fates: BTreeMap<usize, Vec<(Fate, At)>>,
    objections: &'a mut Vec<Objection>,
}

/// Changes the nodes, and takes the pods away that cannot stay on them.
pub(super) fn apply(
    inventory: &mut Inventory,
    documents: &[Changes],
    limits: Limits,
    applied: &mut Applied,
    objections: &mut Vec<Objection>,
) {
    let places = inventory.nodes.iter().enumerate();
    let places = places.map(|(place, node)| (node.name.clone(), place)).collect();
    let mut nodes =
        Nodes { nodes: &mut inventory.nodes, places, fates: BTreeMap::new(), objections };
    nodes.read_fates(documents);
    let copies = nodes.copy(documents, limits.nodes);
    applied.rollout = nodes.upgraded(documents);
    nodes.label(documents);
    let evicting = nodes.taint(documents);
    let (drained, removed) = nodes.carry_out();
    copy_objects(&mut inventory.objects, &copies);
    copy_read_nodes(&mut inventory.read_nodes, &copies);
    copy_daemons(inventory, &copies);
    let cause = |pod: &Pod| {
        let node = pod.node_name.as_ref()?;
        let is_evicted = || {
            let taints = evicting.get(node).into_iter().flatten();
            taints.into_iter().any(|taint| {
                !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
            })
        };
        if removed.contains(node) {
            Some(Cause::NodeRemoved)
        } else if drained.contains(node) {
            Some(Cause::Drained)
        } else {
            is_evicted().then_some(Cause::Tainted)
        }
    };
    displace(inventory, applied, cause);
}

impl Nodes<'_> {
    fn refuse(&mut self, at: &At, field: &str, message: impl Into<String>) {
        self.objections.push(at.object(field, message));
    }

    /// Returns the place of a node; the change is refused if there is none.
    fn place(&mut self, at: &At, field: &str, name: &str) -> Option<usize> {
        let place = self.places.get(name).copied();
        if place.is_none() {
            self.refuse(at, field, format!("there is no node {name:?}"));
        }
        place
    }

    fn read_fates(&mut self, documents: &[Changes]) {
        for (list, fate, of) in LISTS {
            for (at, name) in entries(documents, list, of) {
                let Some(place) = self.place(&at, "", name) else { continue };
                let fates = self.fates.entry(place).or_default();
                let other = fates.iter().find(|(other, _)| !fate.agrees_with(*other));
                let message = other.map(|(other, place)| match *other == fate {
                    true => format!("node {name:?} is named twice, also by {place}"),
                    false => format!("node {name:?}: {list} contradicts {place}"),
                });
                fates.push((fate, at.clone()));
                if let Some(message) = message {
                    self.refuse(&at, "", message);
                }
            }
        }
    }

    /// Returns the nodes of a change: the named ones, and those with the labels.
    fn select(
        &mut self,
        at: &At,
        names: &[String],
        selector: &BTreeMap<String, String>,
    ) -> Vec<usize> {
        let mut places = BTreeSet::new();
        if names.is_empty() && selector.is_empty() {
            self.refuse(at, "", "names no node: give nodes or a nodeSelector");
        }
        for (index, name) in names.iter().enumerate() {
            let field = format!("nodes[{index}]");
            let Some(place) = self.place(at, &field, name) else { continue };
            if !places.insert(place) {
                self.refuse(at, &field, format!("node {name:?} is named twice"));
            }
        }
        if !selector.is_empty() {
            let has = |labels: &Labels| {
                selector.iter().all(|(key, value)| labels.get(key) == Some(value.as_str()))
            };
            let selected = self.nodes.iter().enumerate().filter(|(_, node)| has(&node.labels));
            let selected: Vec<usize> = selected.map(|(place, _)| place).collect();
            if selected.is_empty() {
                self.refuse(at, "nodeSelector", "selects no node");
            }
            places.extend(selected);
        }
        for place in &places {
            let fates = self.fates.get(place).into_iter().flatten();
            let removed = fates.into_iter().find(|(fate, _)| *fate == Fate::Remove);
            // A selector may select nodes that are removed anyway.
            let name = &self.nodes[*place].name;
            if let Some((_, removed)) = removed.filter(|_| names.iter().any(|own| **own == **name))
            {
                let message = format!("node {:?}: {} contradicts {removed}", &**name, at.list);
                self.objections.push(at.object("nodes", message));
            }
        }
        places.into_iter().collect()
    }

    /// Adds copies of nodes. Returns the names of each original and its copy.
    fn copy(&mut self, documents: &[Changes], most: usize) -> Vec<(Arc<str>, Arc<str>)> {
        let mut copies = Vec::new();
        for (at, add) in entries(documents, "addNodes", |changes| &changes.add_nodes) {
            let Some(place) = self.place(&at, "like", &add.like) else { continue };
            if !(1..=MOST_COPIES).contains(&add.count) {
                let message = format!("is {}; expected 1 to {MOST_COPIES}", add.count);
                self.refuse(&at, "count", message);
                continue;
            }
            if copies.len() + add.count as usize > most {
                let message = format!("the change adds more than {most} nodes");
                self.refuse(&at, "count", message);
                continue;
            }
            let shape = match Shape::of(add) {
                Ok(shape) => shape,
                Err((field, message)) => {
                    self.refuse(&at, &field, message);
                    continue;
                }
            };
            let base = add.name.clone().unwrap_or_else(|| format!("{}-new", add.like));
            let is_allowed =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            if base.is_empty() || base.len() > 240 || !base.chars().all(is_allowed) {
                let message = format!("{base:?} is no part of a name: expected a-z, 0-9, - and .");
                self.refuse(&at, "name", message);
                continue;
            }
            let mut number = 0;
            for _ in 0..add.count {
                let name = loop {
                    number += 1;
                    let name = format!("{base}-{number}");
                    if !self.places.contains_key(name.as_str()) {
                        break Arc::<str>::from(name);
                    }
                };
                let node = shape.node(&self.nodes[place], &name);
                self.places.insert(name.clone(), self.nodes.len());
                self.nodes.push(node);
                copies.push((add.like.as_str().into(), name));
            }
        }
        copies
    }

    /// Returns the nodes to upgrade, in their order.
    fn upgraded(&mut self, documents: &[Changes]) -> Vec<Arc<str>> {
        let mut order: Vec<usize> = Vec::new();
        for (at, UpgradeNodes { nodes, node_selector }) in
            entries(documents, "upgrade", |changes| &changes.upgrade)
        {
            let selected = self.select(&at, nodes, node_selector);
            let named = nodes.iter().filter_map(|name| self.places.get(name.as_str()).copied());
            let named: Vec<usize> = named.collect();
            let others = selected.into_iter().filter(|place| !named.contains(place));
            for place in named.iter().copied().chain(others) {
                let name = self.nodes[place].name.clone();
                let fate = self.fates.get(&place).and_then(|fates| fates.first());
                if let Some((_, other)) = fate {
                    let message = format!("node {:?}: upgrade contradicts {other}", &*name);
                    self.objections.push(at.object("", message));
                } else if order.contains(&place) {
                    self.objections
                        .push(at.object("", format!("node {:?} is named twice", &*name)));
                }
                order.push(place);
            }
        }
        order.into_iter().map(|place| self.nodes[place].name.clone()).collect()
    }

    fn label(&mut self, documents: &[Changes]) {
        let mut set: BTreeMap<(usize, &str), (&Option<String>, At)> = BTreeMap::new();
        for (at, change) in entries(documents, "label", |changes| &changes.label) {
            if change.labels.is_empty() {
                self.refuse(&at, "labels", "is empty");
            }
            for key in change.labels.keys() {
                let faults = label_key_faults(key);
                if !faults.is_empty() {
                    self.refuse(&at, &format!("labels[{key}]"), faults.join("; "));
                }
            }
            for place in self.select(&at, &change.nodes, &change.node_selector) {
                for (key, value) in &change.labels {
                    let other = set.insert((place, key), (value, at.clone()));
                    if let Some((_, other)) = other.filter(|(other, _)| *other != value) {
                        let name = &self.nodes[place].name;
                        let message = format!("node {:?}: contradicts {other}", &**name);
                        self.refuse(&at, &format!("labels[{key}]"), message);
                    }
                }
            }
        }
        for ((place, key), (value, _)) in set {
            let labels = &mut self.nodes[place].labels;
            let others = labels.iter().filter(|(own, _)| *own != key);
            *labels = others.chain(value.as_deref().map(|value| (key, value))).collect();
        }
    }

    /// Sets and removes taints. Returns the new taints that evict pods, by node.
    fn taint(&mut self, documents: &[Changes]) -> BTreeMap<Arc<str>, Vec<Taint>> {
        let mut removed: BTreeMap<usize, Vec<(Pattern, At)>> = BTreeMap::new();
        for (at, change) in entries(documents, "untaint", |changes| &changes.untaint) {
            let pattern = match Pattern::parse(&change.taint) {
                Ok(pattern) => pattern,
                Err(message) => {
                    self.refuse(&at, "taint", message);
                    continue;
                }
            };
            let places = self.select(&at, &change.nodes, &change.node_selector);
            let lacks = |place: &&usize| {
                !self.nodes[**place].taints.iter().any(|taint| pattern.matches(taint))
            };
            if let Some(place) = places.iter().find(lacks) {
                let message =
                    format!("node {:?} has no taint {:?}", &*self.nodes[*place].name, change.taint);
                self.refuse(&at, "taint", message);
            }
            for place in places {
                removed.entry(place).or_default().push((pattern.clone(), at.clone()));
            }
        }
        for (place, patterns) in &removed {
            let taints = &mut self.nodes[*place].taints;
            let is_kept = |taint: &&Taint| !patterns.iter().any(|(own, _)| own.matches(taint));
            *taints = taints.iter().filter(is_kept).cloned().collect();
        }
        let mut evicting: BTreeMap<Arc<str>, Vec<Taint>> = BTreeMap::new();
        let mut set: BTreeMap<(usize, Arc<str>, TaintEffect), (Taint, At)> = BTreeMap::new();
        for (at, change) in entries(documents, "taint", |changes| &changes.taint) {
            let taint = match Pattern::parse(&change.taint).and_then(Pattern::taint) {
                Ok(taint) => taint,
                Err(message) => {
                    self.refuse(&at, "taint", message);
                    continue;
                }
            };
            for place in self.select(&at, &change.nodes, &change.node_selector) {
                let patterns = removed.get(&place).into_iter().flatten();
                let untaint = patterns.into_iter().find(|(own, _)| own.matches(&taint));
                let key = (place, taint.key.clone(), taint.effect.clone());
                let other = set.insert(key, (taint.clone(), at.clone()));
                let other = other.filter(|(other, _)| *other != taint).map(|(_, at)| at);
                if let Some(other) = other.or_else(|| untaint.map(|(_, at)| at.clone())) {
                    let name = &self.nodes[place].name;
                    self.refuse(&at, "taint", format!("node {:?}: contradicts {other}", &**name));
                }
            }
        }
        for ((place, ..), (taint, _)) in set {
            let node = &mut self.nodes[place];
            let others = node.taints.iter();
            let others =
                others.filter(|own| (&own.key, &own.effect) != (&taint.key, &taint.effect));
            node.taints = others.cloned().chain([taint.clone()]).collect();
            if taint.effect == TaintEffect::NoExecute {
                evicting.entry(node.name.clone()).or_default().push(taint);
            }
        }
        evicting
    }

    /// Cordons, uncordons and removes nodes. Returns the names of drained and removed nodes.
    fn carry_out(&mut self) -> (BTreeSet<Arc<str>>, BTreeSet<Arc<str>>) {
        let (mut drained, mut removed) = (BTreeSet::new(), BTreeSet::new());
        for (place, fates) in &self.fates {
            let node = &mut self.nodes[*place];
            for (fate, _) in fates {
                match fate {
                    Fate::Remove => drop(removed.insert(node.name.clone())),
                    Fate::Uncordon => cordon(node, false),
                    Fate::Cordon => cordon(node, true),
                    Fate::Drain => {
                        cordon(node, true);
                        drained.insert(node.name.clone());
                    }
                }
            }
        }
        self.nodes.retain(|node| !removed.contains(&node.name));
        (drained, removed)
    }
}

/// Cordons or uncordons a node, with the taint that the node controller sets or removes.
pub(crate) fn cordon(node: &mut Node, unschedulable: bool) {
    node.unschedulable = unschedulable;
    let others = node.taints.iter().filter(|taint| *taint.key != *UNSCHEDULABLE).cloned();
    let own =
        Taint { key: UNSCHEDULABLE.into(), value: "".into(), effect: TaintEffect::NoSchedule };
    node.taints = others.chain(unschedulable.then_some(own)).collect();
}

/// Copies the objects that describe nodes, their CSINodes and ResourceSlices, for the copies of the
/// nodes.
fn copy_objects(objects: &mut Vec<DumpedObject>, copies: &[(Arc<str>, Arc<str>)]) {
    let mut names: BTreeMap<&Arc<str>, Vec<&Arc<str>>> = BTreeMap::new();
    for (like, copy) in copies {
        names.entry(like).or_default().push(copy);
    }
    if names.is_empty() {
        return;
    }
    let mut made = Vec::new();
    for object in objects.iter() {
        let value: Value = match object.kind {
            EventResource::CsiNode | EventResource::ResourceSlice => {
                serde_json::from_str(object.raw.get()).unwrap_or_default()
            }
            _ => continue,
        };
        let is_slice = object.kind == EventResource::ResourceSlice;
        let node = if is_slice { text(&value, "/spec/nodeName") } else { &*object.name };
        let Some((like, copies)) = names.get_key_value(&Arc::from(node)) else { continue };
        let copies = copies.iter().map(|name| match is_slice {
            true => copied_slice(object, value.clone(), like, name),
            false => renamed(object, value.clone(), name.to_string()),
        });
        made.extend(copies.flatten());
    }
    objects.append(&mut made);
}

fn copy_read_nodes(nodes: &mut BTreeMap<Arc<str>, Arc<RawValue>>, copies: &[(Arc<str>, Arc<str>)]) {
    for (like, copy) in copies {
        if let Some(read) = nodes.get(like).cloned() {
            nodes.insert(copy.clone(), read);
        }
    }
}

fn copied_slice(
    object: &DumpedObject,
    mut slice: Value,
    like: &str,
    node: &str,
) -> Option<DumpedObject> {
    let pool = match text(&slice, "/spec/pool/name") {
        pool if pool == like => node.to_owned(),
        pool => format!("{pool}-{node}"),
    };
    put(&mut slice, &["spec", "nodeName"], json!(node));
    put(&mut slice, &["spec", "pool", "name"], json!(pool));
    renamed(object, slice, format!("{}-{node}", object.name))
}

fn renamed(object: &DumpedObject, mut value: Value, name: String) -> Option<DumpedObject> {
    put(&mut value, &["metadata", "name"], json!(name));
    put(&mut value, &["metadata", "uid"], json!(name));
    let raw = to_raw_value(&value).ok()?.into();
    Some(DumpedObject { name: name.into(), raw, ..object.clone() })
}

/// Runs the pods of the DaemonSets of a node on its copies, if the input has no DaemonSet but only
/// their pods. A pod that does not tolerate the taints of a copy does not run there.
fn copy_daemons(inventory: &mut Inventory, copies: &[(Arc<str>, Arc<str>)]) {
    if copies.is_empty()
        || inventory.workloads.iter().any(|raw| raw.get().contains("\"DaemonSet\""))
    {
        return;
    }
    let mut daemons: BTreeMap<Arc<str>, Vec<&DumpedPod>> = BTreeMap::new();
    for object in &inventory.pods {
        let is_daemon = object.owner.as_ref().is_some_and(|owner| &*owner.kind == "DaemonSet");
        if let Some(node) = object.pod.node_name.as_ref().filter(|_| is_daemon) {
            daemons.entry(node.clone()).or_default().push(object);
        }
    }
    let nodes = inventory.nodes.iter().map(|node| (node.name.clone(), node));
    let nodes: HashMap<Arc<str>, &Node> = nodes.collect();
    let mut made = Vec::new();
    for (like, name) in copies {
        let Some(node) = nodes.get(name) else { continue };
        let own = daemons.get(like).into_iter().flatten();
        for object in own.filter(|own| !own.pod.terminating && runs_on(&own.pod, node)) {
            let mut copy = (*object).clone();
            let key = &mut copy.pod.key;
            key.name = format!("{}-{name}", key.name).into();
            copy.pod.uid = Uid::from(format!("{}-{name}", copy.pod.uid).as_str());
            copy.pod.node_name = Some(name.clone());
            copy.created = None;
            made.push(copy);
        }
    }
    inventory.pods.append(&mut made);
}

/// Whether a pod tolerates the taints of a node.
fn runs_on(pod: &Pod, node: &Node) -> bool {
    node.taints.iter().all(|taint| {
        taint.effect == TaintEffect::PreferNoSchedule
            || pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

/// A taint to set or to remove.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    key: Arc<str>,
    value: Option<Arc<str>>,
    effect: Option<TaintEffect>,
}

impl Pattern {
    /// Parses `key=value:Effect`, of which value and effect may be absent.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (pair, effect) = match text.rsplit_once(':') {
            Some((pair, effect)) => (pair, Some(TaintEffect::from(effect))),
            None => (text, None),
        };
        if let Some(TaintEffect::Other(effect)) = &effect {
            return Err(format!(
                "{text:?}: effect {effect:?} is none of NoSchedule, PreferNoSchedule and NoExecute"
            ));
        }
        let (key, value) = match pair.split_once('=') {
            Some((key, value)) => (key, Some(value.into())),
            None => (pair, None),
        };
        let faults = label_key_faults(key);
        if !faults.is_empty() {
            return Err(format!("{text:?}: key: {}", faults.join("; ")));
        }
        Ok(Self { key: key.into(), value, effect })
    }

    /// Returns the taint, which has an effect.
    pub(super) fn taint(self) -> Result<Taint, String> {
        let Some(effect) = self.effect else {
            return Err(format!("{:?}: has no effect; expected key=value:Effect", &*self.key));
        };
        Ok(Taint { key: self.key, value: self.value.unwrap_or_else(|| "".into()), effect })
    }

    fn matches(&self, taint: &Taint) -> bool {
        self.key == taint.key
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
    }
}

/// Takes pods from their nodes. Their controllers make them again; a pod without a controller is
/// lost.
fn displace(
    inventory: &mut Inventory,
    applied: &mut Applied,
    cause: impl Fn(&Pod) -> Option<Cause>,
) {
    let (mut ended, mut renewing) = (Vec::new(), Vec::new());
    inventory.pods.retain_mut(|object| {
        let Some((cause, node)) = cause(&object.pod).zip(object.pod.node_name.clone()) else {
            return true;
        };
        let kind = object.owner.as_ref().map(|owner| &*owner.kind);
        if matches!(
            (kind, cause),
            (Some("DaemonSet" | "Node"), Cause::Drained) | (Some("Node"), Cause::Tainted)
        ) {
            return true;
        }
        let old = object.pod.clone();
        applied.leave(&old);
        match kind {
            Some("DaemonSet" | "Node") => applied.gone_with_nodes += 1,
            _ if object.pod.terminating => applied.gone_with_nodes += 1,
            None => applied.lost.push(LostPod {
                namespace: object.pod.key.namespace.to_string(),
                name: object.pod.key.name.to_string(),
                node: node.to_string(),
                cause,
            }),
            Some(_) => {
                make_again(object);
                match &object.raw {
                    Some(_) => ended.push(old),
                    None => renewing.push((old, object.pod.uid.clone())),
                }
                applied.displaced.insert(object.pod.key.clone(), Displaced { node, cause });
                return true;
            }
        }
        ended.push(old);
        false
    });
    remove_ephemeral_claims(&mut inventory.objects, ended.iter());
    renew_claims(&mut inventory.objects, &renewing);
}

/// Turns a running pod into the pending one that its controller makes in its place, with the same
/// name.
pub(crate) fn make_again(object: &mut DumpedPod) {
    let pod = &mut object.pod;
    pod.uid = Uid::from(format!("{}-again", pod.uid).as_str());
    pod.node_name = None;
    pod.set_nominated_node_name(None);
    pod.start_time = OptionalTime::NONE;
    pod.scheduled_condition = None;
    pod.preempted = false;
    if object.raw.is_some() {
        // The claims are made from the templates once more.
        pod.set_generated_claims(None);
    }
    object.created = None;
}

/// Replaces the claims that pods own by the claims of the pods that are made again, of which only
/// the compact form is known.
fn renew_claims(objects: &mut Vec<DumpedObject>, pods: &[(Pod, Uid)]) {
    let mut owned = BTreeMap::new();
    for (pod, uid) in pods {
        for (kind, name) in owned_claims(pod) {
            owned.insert((kind, pod.key.namespace.clone(), Arc::<str>::from(name)), uid);
        }
    }
    if owned.is_empty() {
        return;
    }
    let mut volumes = BTreeSet::new();
    for object in objects.iter_mut() {
        let key = (object.kind.clone(), object.namespace.clone(), object.name.clone());
        let Some(uid) = owned.get(&key) else { continue };
        let claim: Value = serde_json::from_str(object.raw.get()).unwrap_or_default();
        if object.kind == EventResource::PersistentVolumeClaim {
            volumes.insert(text(&claim, "/spec/volumeName").to_owned());
        }
        if let Ok(raw) = to_raw_value(&renewed(&object.kind, &claim, uid)) {
            object.raw = raw.into();
        }
    }
    objects.retain(|object| {
        object.kind != EventResource::PersistentVolume || !volumes.contains(&*object.name)
    });
}

/// Removes the claims of ephemeral volumes, which end with their pods, and the volumes of these
/// claims.
pub(super) fn remove_ephemeral_claims<'a>(
    objects: &mut Vec<DumpedObject>,
    pods: impl Iterator<Item = &'a Pod>,
) {
    let mut claims: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
    for pod in pods {
        let volumes = pod.spec.volumes.iter();
        let own = volumes.filter(|own| own.source == PodVolumeSource::Ephemeral);
        let name = |volume: &str| format!("{}-{volume}", pod.key.name).into();
        claims.extend(own.map(|volume| (pod.key.namespace.clone(), name(&volume.name))));
    }
    if claims.is_empty() {
        return;
    }
    let mut volumes = BTreeSet::new();
    objects.retain(|object| {
        let is_gone = object.kind == EventResource::PersistentVolumeClaim
            && claims.contains(&(object.namespace.clone(), object.name.clone()));
        if is_gone {
            let claim: Value = serde_json::from_str(object.raw.get()).unwrap_or_default();
            volumes.insert(text(&claim, "/spec/volumeName").to_owned());
        }
        !is_gone
    });
    objects.retain(|object| {
        object.kind != EventResource::PersistentVolume || !volumes.contains(&*object.name)
    });
}
