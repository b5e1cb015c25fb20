//! Invariants of volumes: the claims they are bound to, the writes for that, and the bindings of
//! pods that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control::{Method, Reply, Request, RequestId, Response};
use engine::{Attempt, Engine, Outcome};
use framework::storage::{
    BOUND_BY_CONTROLLER, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE,
};
use framework::{Pod, PodVolume, Uid, api};
use sandbox::resources::{PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES};
use serde::Deserialize;
use serde_json::{Value, json};

use super::churn::catalogue::{LIMITED_CLASS, LIMITED_DRIVER, is_for_one_pod, is_steady};
use super::churn::nodes::MACHINE;
use super::oracle::{Related, read_node, read_pod};
use super::rules::{Checked, rule};
use super::server::{Bound, Server};

/// The writes of volumes by the scheduler, and the pods they are for.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// Changes without a reply.
    under_way: BTreeMap<RequestId, Sent>,
    /// The confirmed changes, by version of the object.
    changed: BTreeMap<Version, Value>,
    /// The pods that were assumed on nodes.
    assumed: BTreeMap<Uid, Assumed>,
}

/// A pod that was assumed on a node, and its claims at that time.
#[derive(Debug)]
struct Assumed {
    node: String,
    claims: BTreeSet<Uid>,
}

/// The claims that were bound with their pods, by any process.
pub(crate) type Held = BTreeMap<Uid, BTreeSet<Uid>>;

/// A change that was sent.
#[derive(Debug)]
struct Sent {
    change: Change,
    /// The pods it was sent for.
    askers: BTreeSet<Uid>,
}

impl Sent {
    /// Whether all these pods are still in their binding cycles.
    fn is_awaited(&self, engine: &Engine) -> bool {
        !self.askers.is_empty() && self.askers.iter().all(|pod| engine.is_binding(pod))
    }
}

/// A version of an object: its path and number.
type Version = (String, String);

/// A request to reserve a volume for a claim, or to provision one for a node.
#[derive(Debug, Clone)]
struct Change {
    version: Version,
    /// UID of the claim.
    claim: Uid,
    /// The claim, or the selected node.
    to: Value,
}

impl Change {
    /// Returns the change that a request makes, if it is one.
    fn by(request: &Request) -> Option<Self> {
        if request.method != Method::Patch || !is_storage(&request.path) {
            return None;
        }
        let patch: Value = serde_json::from_slice(&request.body).ok()?;
        let version = patch["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let (claim, to) = match is_volume(&request.path) {
            true => (&patch["spec"]["claimRef"]["uid"], &patch["spec"]["claimRef"]["uid"]),
            false => (&patch["metadata"]["uid"], &patch["metadata"]["annotations"][SELECTED_NODE]),
        };
        let claim = Uid::from(claim.as_str().unwrap_or_default());
        let version = (request.path.clone(), version.to_owned());
        Some(Self { version, claim, to: to.clone() })
    }
}

impl Volumes {
    /// Records an attempt.
    pub(crate) fn decided(&mut self, attempt: &Attempt, related: &Related) {
        if let Outcome::Assumed(node) = &attempt.outcome {
            let claims = related.storage.claims_of(&attempt.pod).flatten();
            let claims = claims.map(|claim| claim.uid.clone()).collect();
            let assumed = Assumed { node: node.to_string(), claims };
            self.assumed.insert(attempt.pod.uid.clone(), assumed);
        }
    }

    /// Checks an outgoing request. It changes the known version, only to a value that it has
    /// written or assumed, and gives no claim a second volume.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn sent(&mut self, server: &Server, engine: &Engine, request: &Request) -> Checked {
        let Some(change) = Change::by(request) else { return Ok(()) };
        rule(!change.version.1.is_empty(), || {
            format!("{} does not say which version is meant", request.path)
        })?;
        let before = self.changed.get(&change.version).unwrap_or(&change.to);
        let is_the_same = change.to.is_null() || *before == change.to;
        rule(is_the_same, || format!("{} is given to {} after {before}", request.path, change.to))?;
        let rival = self.rival_of(&change, engine);
        rule(rival.is_none(), || format!("{change:?} is sent while {rival:?} is under way"))?;
        let other = self.other_volume_of(server, &change);
        let askers = self.askers(&change, engine);
        self.under_way.insert(request.id, Sent { change, askers });
        rule(other.is_none(), || format!("{} is a second volume, after {other:?}", request.path))
    }

    /// Returns the pods in binding cycles that have the claim, also if they were deleted meanwhile.
    /// A node that was selected for an earlier attempt is not theirs.
    fn askers(&self, change: &Change, engine: &Engine) -> BTreeSet<Uid> {
        let asks = |(pod, assumed): &(&Uid, &Assumed)| {
            let is_for_its_node = is_volume(&change.version.0) || change.to == *assumed.node;
            assumed.claims.contains(&change.claim) && is_for_its_node && engine.is_binding(pod)
        };
        self.assumed.iter().filter(asks).map(|(pod, _)| pod.clone()).collect()
    }

    /// Returns the pending change of the same version by another pod.
    fn rival_of(&self, change: &Change, engine: &Engine) -> Option<&Sent> {
        let of_version = self.under_way.values().filter(|own| own.change.version == change.version);
        let mut others = of_version.filter(|own| own.change.to != change.to);
        others.find(|other| other.is_awaited(engine))
    }

    /// Returns the volume that the claim of a change has already. A terminating one is of no use to
    /// the claim.
    fn other_volume_of(&self, server: &Server, change: &Change) -> Option<PersistentVolume> {
        let own = name_of_volume(&change.version.0)?;
        let claim = change.to.as_str()?;
        let given = self.changed.iter().filter(|(_, to)| **to == change.to);
        let others = given.filter_map(|((path, _), _)| name_of_volume(path));
        let others = others.filter(|other| *other != own);
        let stored = others.filter_map(|other| server.store.get(PERSISTENTVOLUMES, "", other));
        let is_its = |volume: &PersistentVolume| {
            let uid = volume.claim_ref.as_ref().and_then(|claim| claim.uid.as_ref());
            !volume.terminating && uid.is_some_and(|uid| *uid == Uid::from(claim))
        };
        stored.map(|volume| read_volume(volume)).find(is_its)
    }

    /// Records a reply. Returns the object that is known to be changed; a request that was given up
    /// has none.
    pub(crate) fn replied(
        &mut self,
        engine: &Engine,
        request: RequestId,
        reply: &Reply,
    ) -> Option<Arc<Value>> {
        let sent = self.under_way.remove(&request)?;
        let Reply::Answered(Response { status: 200, body, .. }) = reply else { return None };
        if !sent.is_awaited(engine) {
            return None;
        }
        if !sent.change.to.is_null() {
            self.changed.insert(sent.change.version, sent.change.to);
        }
        serde_json::from_slice(body).ok().map(Arc::new)
    }

    /// Checks a binding that the server has carried out. The claims that the scheduler knew are
    /// bound, if they still exist, to volumes that are usable on the node, and no other pod
    /// conflicts.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn after_binding(&self, server: &Server, bound: &Bound, held: &mut Held) -> Checked {
        let uid = Uid::from(bound.uid.as_str());
        let known = self.assumed.get(&uid).map(|own| own.claims.clone()).unwrap_or_default();
        for claim in claims(server).filter(|claim| known.contains(&claim.uid)) {
            rule(claim.is_fully_bound(), || {
                format!("{} is bound before its claim {}", bound.uid, claim.name)
            })?;
            can_use(server, &claim, &bound.node)?;
        }
        held.insert(uid, known);
        let pods: Vec<_> = server.live_pods().map(|pod| read_pod(pod)).collect();
        let ours: Vec<&Pod> = pods.iter().filter(|pod| is_bound_by_us(server, pod)).collect();
        share_no_claim(&ours)?;
        let here = ours.iter().filter(|pod| pod.node_name.as_deref() == Some(&*bound.node));
        let here: Vec<&Pod> = here.copied().collect();
        share_no_disk(&here)?;
        are_attachable(server, &here, &bound.node, held)
    }
}

/// Checks that the volumes that the limited driver provisioned for the claims of these pods can be
/// attached to the node, if these claims still exist.
fn are_attachable(server: &Server, pods: &[&Pod], node: &str, held: &Held) -> Checked {
    let held: BTreeSet<&Uid> = pods.iter().filter_map(|pod| held.get(&pod.uid)).flatten().collect();
    let used = claims(server).filter(|own| *own.class == *LIMITED_CLASS && held.contains(&own.uid));
    let used = used.count();
    let csi_node = server.store.get(sandbox::resources::CSINODES, "", node);
    let drivers = csi_node.and_then(|node| node["spec"]["drivers"].as_array());
    let limited = drivers.into_iter().flatten().find(|own| own["name"] == LIMITED_DRIVER);
    let limit = limited.and_then(|driver| driver["allocatable"]["count"].as_u64());
    let fits = limit.is_none_or(|limit| u64::try_from(used).is_ok_and(|used| used <= limit));
    rule(fits || !is_steady(node), || {
        format!("{used} volumes of pods we bound are attached to {node}, which has {limit:?}")
    })
}

fn is_bound_by_us(server: &Server, pod: &Pod) -> bool {
    let node = server.bound_by_us.get(&pod.uid.to_string());
    node.is_some_and(|node| pod.node_name.as_deref() == Some(node))
}

/// Checks that the volume of a claim, if it still exists, is usable on the node by the labels that
/// never change.
fn can_use(server: &Server, claim: &PersistentVolumeClaim, node: &str) -> Checked {
    let is_its_own = |volume: &PersistentVolume| {
        claim.volume_name.as_ref() == Some(&volume.name) && volume.is_for(claim)
    };
    let mut volumes = volumes(server).filter(is_its_own);
    let machine = read_node(&json!({"metadata": {"name": node, "labels": {MACHINE: node}}}));
    let is_elsewhere = |volume: &PersistentVolume| {
        let of_machines = volume.node_affinity.as_ref().is_some_and(|own| is_about_machines(own));
        let selector = volume.node_selector.as_ref();
        of_machines && !selector.is_some_and(|own| own.matches(&machine).is_ok_and(|it| it))
    };
    let elsewhere = volumes.find(is_elsewhere);
    rule(elsewhere.is_none(), || format!("a pod on {node} has {elsewhere:?}"))
}

fn is_about_machines(affinity: &api::NodeSelector) -> bool {
    let mut requirements =
        affinity.node_selector_terms.iter().flat_map(|term| &term.match_expressions);
    requirements.all(|requirement| requirement.key == MACHINE)
}

fn share_no_claim(ours: &[&Pod]) -> Checked {
    let mut seen = BTreeSet::new();
    for pod in ours {
        let named = pod.spec.volumes.iter().filter_map(PodVolume::named_claim);
        for claim in named.filter(|claim| is_for_one_pod(claim)) {
            let key = &pod.key;
            rule(seen.insert((&key.namespace, claim)), || {
                format!("{key} was bound while another pod uses its claim {claim}")
            })?;
        }
    }
    Ok(())
}

fn share_no_disk(here: &[&Pod]) -> Checked {
    let mut users: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
    for pod in here {
        for volume in &pod.spec.volumes {
            if let (Some((_, disk)), framework::PodVolumeSource::InTree(in_tree)) =
                (volume.disk(), &volume.source)
            {
                users.entry(disk).or_default().push(in_tree.read_only);
            }
        }
    }
    let fought_for = users.iter().find(|(_, reads)| reads.len() > 1 && reads.contains(&false));
    rule(fought_for.is_none(), || format!("pods on one node share {fought_for:?}"))
}

/// Returns the stored object that a request changes.
pub(crate) fn stored(server: &Server, request: &Request) -> Option<Arc<Value>> {
    Change::by(request)?;
    let mut parts = request.path.trim_start_matches("/api/v1/").split('/');
    let object = match (parts.next()?, parts.next()?, parts.next(), parts.next()) {
        ("persistentvolumes", name, ..) => server.store.get(PERSISTENTVOLUMES, "", name),
        (_, namespace, Some(_), Some(name)) => {
            server.store.get(PERSISTENTVOLUMECLAIMS, namespace, name)
        }
        _ => None,
    };
    object.cloned()
}

/// Checks that a write of ours changed only the intended fields, and took no volume from another
/// claim.
///
/// # Errors
/// A rule is violated.
pub(crate) fn after_change(server: &Server, path: &str, before: &Value, after: &Value) -> Checked {
    let broken = |how: &str| format!("{path}: {how}: {before} was made {after}");
    rule(rest_of(before) == rest_of(after), || broken("more has changed than was meant"))?;
    if !is_volume(path) {
        let selected = |claim: &Value| claim["metadata"]["annotations"][SELECTED_NODE].clone();
        let is_open = selected(before).is_null() || selected(before) == selected(after);
        rule(is_open, || broken("another node was selected"))?;
        return rule(before["spec"]["volumeName"].is_null(), || broken("it has its volume"));
    }
    let (before, after) = (read_volume(before), read_volume(after));
    let Some(reference) = &after.claim_ref else { return Err(broken("nobody has it now")) };
    let is_free = before.claim_ref.as_ref().is_none_or(|old| {
        let is_same = (&old.namespace, &old.name) == (&reference.namespace, &reference.name);
        is_same && (old.uid.is_none() || old.uid == reference.uid)
    });
    rule(is_free, || broken("it was somebody else's"))?;
    let claim = claims(server).find(|claim| Some(&claim.uid) == reference.uid.as_ref());
    claim.map_or(Ok(()), |claim| suits(&after, &claim))
}

/// Returns the stored object without the fields that we may write.
fn rest_of(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    let annotations = &mut object["metadata"]["annotations"];
    match annotations.as_object_mut() {
        Some(annotations) => {
            annotations.remove(BOUND_BY_CONTROLLER);
            annotations.remove(SELECTED_NODE);
        }
        None => *annotations = json!({}),
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("claimRef");
    }
    object
}

/// Whether the claim may use the volume.
fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Checked {
    let selector = claim.selector.as_ref().map(|own| own.as_ref());
    let suits = volume.class == claim.class
        && claim.request.is_none_or(|request| volume.capacity >= request)
        && volume.volume_mode == claim.volume_mode
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
        && selector.is_none_or(|own| own.is_ok_and(|own| own.matches(&volume.labels)));
    rule(suits, || format!("{volume:?} is given to {claim:?}"))
}

/// Checks that no volume belongs to two claims, and that each suits its claim.
///
/// # Errors
/// A rule is violated.
pub(crate) fn at_rest(server: &Server) -> Checked {
    let mut given = BTreeMap::new();
    let volumes: Vec<_> = volumes(server).collect();
    let is_looked_after = |claim: &PersistentVolumeClaim| !claim.lost && !claim.terminating;
    let bound = claims(server).filter(PersistentVolumeClaim::is_fully_bound);
    for claim in bound.filter(is_looked_after) {
        let name = claim.volume_name.clone().unwrap_or_default();
        let other = given.insert(name.clone(), claim.uid.clone());
        rule(other.is_none(), || format!("{name} is given to {other:?} and {}", claim.uid))?;
        if let Some(volume) = volumes.iter().find(|volume| volume.name == name) {
            rule(volume.is_for(&claim), || format!("{claim:?} is bound to {volume:?}"))?;
            suits(volume, &claim)?;
        }
    }
    Ok(())
}

fn claims(server: &Server) -> impl Iterator<Item = PersistentVolumeClaim> {
    let claims = server.store.objects(PERSISTENTVOLUMECLAIMS);
    claims.map(|claim| {
        let claim = api::PersistentVolumeClaim::deserialize(&**claim);
        PersistentVolumeClaim::from_api(&claim.expect("the store holds claims only"))
    })
}

fn volumes(server: &Server) -> impl Iterator<Item = PersistentVolume> {
    server.store.objects(PERSISTENTVOLUMES).map(|volume| read_volume(volume))
}

fn read_volume(volume: &Value) -> PersistentVolume {
    let volume = api::PersistentVolume::deserialize(volume);
    PersistentVolume::from_api(&volume.expect("the store holds volumes only"))
}

fn is_storage(path: &str) -> bool {
    is_volume(path) || path.contains("/persistentvolumeclaims/")
}

fn is_volume(path: &str) -> bool {
    name_of_volume(path).is_some()
}

fn name_of_volume(path: &str) -> Option<&str> {
    path.strip_prefix("/api/v1/persistentvolumes/")
}
