//! Workloads of which only pods are known, because a scheduler does not watch them or a dump lacks
//! them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use framework::{EventResource, GeneratedClaims, PodSpec, PodVolumeSource, Uid};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::apply::Inventory;
use super::nodes::make_again;
use super::workloads::{ByOwner, Key, first_to_go};
use crate::renewal::{owned_claims, renewed};
use crate::workloads::deployment::HASH_LABEL;
use crate::workloads::stateful_set::{POD_INDEX, POD_NAME};
use crate::workloads::template::{generated_name, put};
use crate::{DumpedObject, DumpedPod};

/// The pods of the input, by controller.
pub(super) struct Unseen<'a> {
    pub(super) pods: &'a ByOwner,
    pub(super) all: &'a [DumpedPod],
}

/// The pods of a workload that is scaled without being seen.
#[derive(Default)]
pub(super) struct Scaled {
    /// The places of pods that go.
    pub(super) gone: Vec<usize>,
    /// The place of a pod of the workload, and the name of another one, for each pod to add.
    pub(super) missing: Vec<(usize, String)>,
}

impl Scaled {
    /// Finds the pods to remove, or those to add: at most one more than `most`, which is too many.
    pub(super) fn of(
        key: &Key,
        replicas: usize,
        most: usize,
        places: Vec<usize>,
        all: &[DumpedPod],
    ) -> Self {
        if key.0 == "StatefulSet" {
            return Self::of_stateful_set(key, replicas, most, &places, all);
        }
        let excess = places.len().saturating_sub(replicas);
        if excess > 0 {
            return Self { gone: first_to_go(places, all, excess), missing: Vec::new() };
        }
        let Some(like) = places.last().copied() else { return Self::default() };
        let owner = all[like].owner.as_ref().map_or(&*key.2, |owner| &*owner.name);
        let own = all.iter().map(|own| &own.pod.key).filter(|own| *own.namespace == *key.1);
        let mut taken: HashSet<String> = own.map(|own| own.name.to_string()).collect();
        let names = (0..).map(|number| generated_name(owner, number));
        let free = names.filter(|name| taken.insert(name.clone()));
        let missing = (replicas - places.len()).min(most.saturating_add(1));
        let missing = free.take(missing).map(|name| (like, name));
        Self { gone: Vec::new(), missing: missing.collect() }
    }

    /// The ordinals start at the lowest ordinal of its pods.
    fn of_stateful_set(
        key: &Key,
        replicas: usize,
        most: usize,
        places: &[usize],
        all: &[DumpedPod],
    ) -> Self {
        let own = places.iter().filter_map(|place| Some((ordinal(&all[*place])?, *place)));
        let own: BTreeMap<usize, usize> = own.collect();
        let Some((start, like)) = own.first_key_value() else { return Self::default() };
        let end = start.saturating_add(replicas);
        let gone = own.range(end..).map(|(_, place)| *place).collect();
        let ordinals = (*start..end).filter(|ordinal| !own.contains_key(ordinal));
        let missing = ordinals.map(|ordinal| (*like, format!("{}-{ordinal}", key.2)));
        Self { gone, missing: missing.take(most.saturating_add(1)).collect() }
    }
}

/// Returns the number at the end of the name of a pod.
pub(super) fn ordinal(own: &DumpedPod) -> Option<usize> {
    own.pod.key.name.rsplit_once('-')?.1.parse().ok()
}

/// Returns the Deployment of a ReplicaSet by the hash in the labels of its pod, with which its name
/// ends.
pub(super) fn deployment_by_hash<'a>(set: &'a str, pod: &DumpedPod) -> Option<&'a str> {
    set.strip_suffix(pod.pod.labels.get(HASH_LABEL)?)?.strip_suffix('-')
}

/// A pod to add, and the names of the claims that it gets copies of.
pub(super) struct Another {
    object: DumpedPod,
    claims: Vec<(EventResource, Arc<str>, Arc<str>)>,
}

/// Returns another pod of the workload of a pod. Claims that carry the name of the pod become
/// claims of the new pod.
pub(super) fn another(like: &DumpedPod, name: &str) -> Another {
    let mut object = like.clone();
    let old = like.pod.key.name.clone();
    object.pod.key.name = name.into();
    object.pod.uid = Uid::from(format!("{}/{name}", like.pod.key.namespace).as_str());
    make_again(&mut object);
    let pod = &mut object.pod;
    let ordinal = name.rsplit('-').next().unwrap_or_default();
    let labels = pod.labels.iter().map(|(key, value)| match key {
        POD_NAME => (key, name),
        POD_INDEX => (key, ordinal),
        _ => (key, value),
    });
    pod.labels = Arc::new(labels.collect());
    let mut claims = Vec::new();
    let mut spec = PodSpec::clone(&pod.spec);
    for volume in &mut spec.volumes {
        let PodVolumeSource::Claim(claim) = &mut volume.source else { continue };
        if let Some(template) = claim.strip_suffix(&*old).filter(|base| base.ends_with('-')) {
            let new: Arc<str> = format!("{template}{name}").into();
            let kind = EventResource::PersistentVolumeClaim;
            claims.push((kind, std::mem::replace(claim, new.clone()), new));
        }
    }
    pod.spec = Arc::new(spec);
    if object.raw.is_none() {
        let mut made = Vec::new();
        for (kind, claim) in owned_claims(&like.pod) {
            let new: Arc<str> = match claim.strip_prefix(&*old) {
                Some(rest) => format!("{name}{rest}").into(),
                None => format!("{claim}-{name}").into(),
            };
            if kind == EventResource::ResourceClaim {
                made.push((Arc::<str>::from(claim.as_str()), new.clone()));
            }
            claims.push((kind, claim.into(), new));
        }
        let entries = like.pod.spec.resource_claims.iter().filter_map(|entry| {
            let old = like.pod.generated_claims()?.claim(&entry.name)??;
            let (_, new) = made.iter().find(|(claim, _)| claim == old)?;
            Some((entry.name.clone(), new.clone()))
        });
        let names: Vec<_> = entries.collect();
        if !names.is_empty() {
            let claims = GeneratedClaims::from_names(names);
            object.pod.set_generated_claims(Some(Arc::new(claims)));
        }
    }
    Another { object, claims }
}

/// Adds pods with their claims. A claim that exists is used.
pub(super) fn add(inventory: &mut Inventory, made: Vec<Another>) {
    // The claims to copy, with the names and owners of the copies.
    type Copies = BTreeMap<(EventResource, Arc<str>, Arc<str>), Vec<(Arc<str>, Uid)>>;
    let mut copies = Copies::new();
    for Another { object, claims } in made {
        for (kind, old, new) in claims {
            let key = (kind, object.pod.key.namespace.clone(), old);
            copies.entry(key).or_default().push((new, object.pod.uid.clone()));
        }
        inventory.pods.push(object);
    }
    if copies.is_empty() {
        return;
    }
    let key = |object: &DumpedObject| {
        (object.kind.clone(), object.namespace.clone(), object.name.clone())
    };
    let known: HashSet<_> = inventory.objects.iter().map(key).collect();
    let mut added = Vec::new();
    for object in &inventory.objects {
        let Some(wanted) = copies.get(&key(object)) else { continue };
        let claim: Value = serde_json::from_str(object.raw.get()).unwrap_or_default();
        for (name, uid) in wanted {
            if known.contains(&(object.kind.clone(), object.namespace.clone(), name.clone())) {
                continue;
            }
            let mut claim = renewed(&object.kind, &claim, uid);
            put(&mut claim, &["metadata", "name"], json!(name));
            put(&mut claim, &["metadata", "uid"], json!(format!("{}/{name}", object.namespace)));
            if let Ok(raw) = to_raw_value(&claim) {
                added.push(DumpedObject { name: name.clone(), raw: raw.into(), ..object.clone() });
            }
        }
    }
    inventory.objects.append(&mut added);
}
