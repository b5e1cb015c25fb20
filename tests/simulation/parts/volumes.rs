//! VolumeBinding alone: pods that share claims, writes that are refused, lost or late, controllers
//! that bind, provision or give up, and a watch that lags.
//!
//! The model keeps a list of the changes that are assumed, and finds volumes by trying all of them.
//! After each step it is compared with the verdicts of Filter, and each write with the changes of
//! its attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::{
    ActionType, Answer, Cluster, ClusterEvent, CycleState, EventForPod, EventObjects,
    EventResource, Handle, ObjectKey, Plugin, PluginArgs, Pod, PodIx, PreBindInput, PreBindStep,
    QueueingHint, Status, Time, Uid, Write,
};
use plugins::volume_binding;
use serde_json::{Value, json};
use testkit::{HandleParts, SetJson, cluster, node};

use super::super::rules::{Checked, rule};
use super::filters::{NODES, filter};
use super::server::Server;

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const NAMES: [&str; 3] = ["c0", "c1", "c2"];

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Marks a volume whose claim no user has chosen.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Longest time until a request without an answer is carried out.
const LONGEST_REQUEST: Duration = Duration::from_secs(75);
/// Time in which volumes have to be bound.
const BIND_TIMEOUT: Duration = Duration::from_secs(30);

const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NO_ROOM: &str = "node(s) did not have enough free storage";
const VOLUME_MISSING: &str =
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// Lives through one history.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for _ in 0..history.random.usize(10..40) {
        history.step(trace)?;
    }
    history.calm_down(trace)
}

struct History<'r> {
    random: &'r mut Rng,
    server: Server,
    /// The cluster as the watch has shown it.
    cluster: Cluster,
    parts: HandleParts,
    plugin: Plugin,
    members: Vec<Member>,
    pods: u32,
    objects: u32,
    /// The zones in which the class `dynamic` provisions.
    zones: BTreeSet<&'static str>,
    /// The room of each zone in GiB, and whether the driver reports it.
    room: BTreeMap<&'static str, u64>,
    reports_room: bool,
    /// Whether nodes are scored by the utilization of their storage.
    has_scores: bool,
    /// Requests that may yet be carried out, and until when.
    late: Vec<(Write, Time)>,
    assumed: Vec<Assumed>,
    /// The pods that events of this step requeue.
    woken: BTreeSet<Uid>,
}

/// A pod that wants claims.
struct Member {
    pod: Arc<Pod>,
    claims: Vec<&'static str>,
    stage: Stage,
}

enum Stage {
    Pending,
    Binding(Box<Attempt>),
    /// The pod is bound to a node, with claims of these UIDs.
    Bound(&'static str, Vec<Value>),
}

struct Attempt {
    state: CycleState,
    /// The pod on its node.
    pod: Arc<Pod>,
    row: PodIx,
    node: &'static str,
    step: Step,
    /// The answer to the open request, if it was carried out.
    carried_out: Option<Answer>,
    /// The changes that are to be written, in order.
    changes: Vec<Planned>,
    /// Whether each change marks its volume.
    marks: Vec<bool>,
    /// Number of changes that are written.
    written: usize,
    /// Whether the last write had no answer.
    lost: bool,
    /// Whether the attempt may fail.
    excused: bool,
    /// The UIDs of the claims.
    claims: Vec<Value>,
}

enum Step {
    Start,
    Open(Write),
    Wait { since: Time, until: Time, objects: Vec<ObjectKey> },
}

/// A changed object that the watch does not show.
struct Assumed {
    pod: Uid,
    resource: &'static str,
    name: String,
    object: Value,
    is_written: bool,
}

/// What a node has for a pod.
type Found = Result<Vec<Planned>, Vec<&'static str>>;

/// A change that is to be written: resource, name, and the node or the claim.
type Planned = (&'static str, String, String);

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn uid_of(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

fn class_of(object: &Value) -> String {
    text(&object["spec"]["storageClassName"])
}

/// Returns the size in GiB.
fn size_of(resources: &Value) -> u64 {
    text(&resources["storage"]).trim_end_matches("Gi").parse().unwrap_or_default()
}

fn selected_node(claim: &Value) -> Option<String> {
    claim["metadata"]["annotations"][SELECTED_NODE].as_str().map(Into::into)
}

fn is_bound(claim: &Value) -> bool {
    claim["spec"]["volumeName"].is_string()
        && claim["metadata"]["annotations"][BIND_COMPLETED].is_string()
}

/// Whether the volume can be used on a node, which is in the zone of its name.
fn reaches(volume: &Value, node: &str) -> bool {
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let values = terms[0]["matchExpressions"][0]["values"].as_array();
    values.is_none_or(|zones| zones.iter().any(|zone| zone == node))
}

fn is_for(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    reference["name"] == claim["metadata"]["name"]
        && (reference["uid"].is_null() || reference["uid"] == *uid_of(claim))
}

/// Whether an object has a change that was to be written.
fn has_change(object: &Value, planned: &Planned) -> bool {
    let (resource, _, target) = planned;
    match *resource {
        CLAIMS => selected_node(object).as_ref() == Some(target),
        _ => {
            let reference = &object["spec"]["claimRef"];
            reference["name"] == **target && reference["uid"].is_string()
        }
    }
}

/// Whether both are the same version of the same object.
fn are_same(one: &Value, other: &Value) -> bool {
    let fields = ["uid", "resourceVersion"];
    fields.iter().all(|field| one["metadata"][*field] == other["metadata"][*field])
}

fn kind_of(resource: &str) -> EventResource {
    match resource {
        CLAIMS => EventResource::PersistentVolumeClaim,
        _ => EventResource::PersistentVolume,
    }
}

fn namespace_of(resource: &str) -> &'static str {
    if resource == CLAIMS { "default" } else { "" }
}

impl<'r> History<'r> {
    fn new(random: &'r mut Rng) -> Self {
        let mut args = json!({"bindTimeoutSeconds": BIND_TIMEOUT.as_secs()});
        let has_scores = random.bool();
        if has_scores {
            args["shape"] =
                json!([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]);
        }
        let plugin = volume_binding::plugin(&PluginArgs::new(args));
        let nodes = NODES.map(|name| node(name).label("zone", name).build());
        let reports_room = random.u8(..3) == 0;
        let mut history = Self {
            random,
            server: Server::default(),
            cluster: cluster(nodes, []),
            parts: HandleParts { now: Time::from_secs(1000), ..HandleParts::default() },
            plugin: plugin.expect("the arguments are valid"),
            members: Vec::new(),
            pods: 0,
            objects: 0,
            zones: NODES.into(),
            room: BTreeMap::new(),
            reports_room,
            has_scores,
            late: Vec::new(),
            assumed: Vec::new(),
            woken: BTreeSet::new(),
        };
        let class = json!({"metadata": {"name": "local", "uid": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer"});
        let kind = EventResource::StorageClass;
        history.cluster.set_json(&kind, "", "local", Some(class.into()));
        history.set_zones();
        let driver = driver(reports_room);
        history.cluster.set_json(&EventResource::CsiDriver, "", "d", Some(driver.into()));
        NODES.into_iter().for_each(|zone| history.set_room(zone));
        for name in NAMES {
            history.create_claim(name);
        }
        for number in 0..history.random.usize(1..4) {
            history.create_volume(&format!("v{number}"));
        }
        while let Some((resource, name)) = history.server.lagging() {
            let (resource, name) = (resource.to_owned(), name.to_owned());
            history.watch(&resource, &name);
        }
        for _ in 0..history.random.usize(2..5) {
            let member = history.member();
            history.members.push(member);
        }
        history
    }

    /// Lets the class `dynamic` provision in other zones.
    fn set_zones(&mut self) {
        let class = |zones: &BTreeSet<&str>| {
            let topologies = json!([{"matchLabelExpressions": [{"key": "zone", "values": zones}]}]);
            json!({"metadata": {"name": "dynamic", "uid": "dynamic"}, "provisioner": "d",
                "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies})
        };
        let old = class(&self.zones);
        let zones = NODES.into_iter().filter(|_| self.random.u8(..3) > 0);
        self.zones = zones.collect();
        if self.zones.is_empty() {
            self.zones.insert(NODES[0]);
        }
        let new = class(&self.zones);
        let kind = EventResource::StorageClass;
        self.cluster.set_json(&kind, "", "dynamic", Some(new.clone().into()));
        self.notify_of_object(kind, Some(&old), Some(&new));
    }

    /// Lets the driver report another room in a zone, or none.
    fn set_room(&mut self, zone: &'static str) {
        let size = self.random.u64(0..4);
        let room = &mut self.room;
        let capacity = |size: &u64| {
            json!({"metadata": {"name": zone, "namespace": "default"},
                "storageClassName": "dynamic", "capacity": format!("{size}Gi"),
                "nodeTopology": {"matchLabels": {"zone": zone}}})
        };
        let old = match size {
            0 => room.remove(zone),
            _ => room.insert(zone, size),
        };
        let (old, new) = (old.as_ref().map(capacity), room.get(zone).map(capacity));
        let kind = EventResource::CsiStorageCapacity;
        self.cluster.set_json(&kind, "default", zone, new.clone().map(Arc::new));
        if old.is_some() || new.is_some() {
            self.notify_of_object(kind, old.as_ref(), new.as_ref());
        }
    }

    /// Lets the driver report its room, or no longer.
    fn toggle_driver(&mut self) {
        let old = driver(self.reports_room);
        self.reports_room ^= true;
        let new = driver(self.reports_room);
        let kind = EventResource::CsiDriver;
        self.cluster.set_json(&kind, "", "d", Some(new.clone().into()));
        self.notify_of_object(kind, Some(&old), Some(&new));
    }

    /// Returns a new pod with one or two claims.
    fn member(&mut self) -> Member {
        self.pods += 1;
        let mut claims = NAMES.to_vec();
        self.random.shuffle(&mut claims);
        claims.truncate(self.random.usize(1..3));
        let own = claims
            .iter()
            .map(|own| json!({"name": own, "persistentVolumeClaim": {"claimName": own}}));
        let mut volumes: Vec<Value> = own.collect();
        if self.random.bool() {
            volumes.push(json!({"name": "tmp", "emptyDir": {}}));
        }
        let name = format!("p{}", self.pods);
        let object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
            "spec": {"volumes": volumes},
        });
        let pod = Pod::from_json(&object, &framework::ExtraFields::default());
        Member { pod: pod.expect("it is a pod").into(), claims, stage: Stage::Pending }
    }

    fn uid(&mut self, name: &str) -> String {
        self.objects += 1;
        format!("uid-{name}-{}", self.objects)
    }

    fn create_claim(&mut self, name: &str) {
        let uid = self.uid(name);
        let class = if self.random.u8(..3) == 0 { "dynamic" } else { "local" };
        let size = format!("{}Gi", self.random.u8(1..3));
        let mut object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": uid},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}}},
            "status": {"phase": "Pending"},
        });
        if self.random.u8(..10) == 0 {
            object["spec"]["volumeName"] = json!("v0");
        }
        self.server.set(CLAIMS, name, Some(object));
    }

    fn create_volume(&mut self, name: &str) {
        let uid = self.uid(name);
        let size = format!("{}Gi", self.random.u8(1..4));
        let class = if self.random.u8(..5) == 0 { "dynamic" } else { "local" };
        let mut object = volume(name, &uid, class, &size);
        match self.random.u8(..5) {
            0 => {}
            number => {
                let zone = NODES[usize::from(number) % 2];
                object["spec"]["nodeAffinity"] = affinity(zone);
            }
        }
        if self.random.u8(..5) == 0 {
            let claim = NAMES[self.random.usize(..NAMES.len())];
            object["spec"]["claimRef"] = json!({"namespace": "default", "name": claim});
        }
        self.server.set(VOLUMES, name, Some(object));
    }

    fn handle(&self) -> Handle<'_> {
        self.parts.handle(&self.cluster)
    }

    /// Returns an object as the watch shows it, with the last change that is assumed.
    fn latest(&self, resource: &str, name: &str) -> Option<&Value> {
        let shown = self.server.shown(resource, name)?;
        let assumed = self.assumed.iter().rev();
        let mut assumed = assumed.filter(|own| own.resource == resource && own.name == name);
        let last = assumed.find(|own| are_same(&own.object, shown));
        Some(last.map_or(shown, |own| &own.object))
    }

    /// Returns the volumes of a class, by name.
    fn volumes(&self, class: &str) -> impl Iterator<Item = &Value> {
        let names: BTreeSet<String> = self.server.names(VOLUMES).map(Into::into).collect();
        let volumes = names.into_iter().filter_map(|name| self.latest(VOLUMES, &name));
        volumes.filter(move |volume| class_of(volume) == class)
    }

    /// Returns why no node can take a pod with these claims.
    fn problem(&self, claims: &[&str]) -> Option<String> {
        for name in claims {
            let why = match self.server.shown(CLAIMS, name) {
                None => "not found",
                Some(claim) if claim["metadata"]["deletionTimestamp"].is_string() => {
                    "is being deleted"
                }
                Some(_) => continue,
            };
            return Some(format!("persistentvolumeclaim {name:?} {why}"));
        }
        // A user has chosen the volume, which the controller has to bind.
        let mut claims = claims.iter().filter_map(|name| self.latest(CLAIMS, name));
        let is_immediate =
            claims.any(|own| own["spec"]["volumeName"].is_string() && !is_bound(own));
        is_immediate.then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    }

    /// Returns the changes that give a node the volumes of a pod, or why it cannot have them; a
    /// problem of the pod is no reason.
    fn find(&self, claims: &[&str], node: &str) -> Option<Found> {
        if self.problem(claims).is_some() {
            return None;
        }
        let claims: Vec<&Value> =
            claims.iter().map(|name| self.latest(CLAIMS, name)).collect::<Option<_>>()?;
        let mut reasons = Vec::new();
        for claim in claims.iter().filter(|claim| is_bound(claim)) {
            let volume = self.server.shown(VOLUMES, &text(&claim["spec"]["volumeName"]));
            match volume {
                None => reasons.push(VOLUME_MISSING),
                Some(volume) if !reaches(volume, node) => reasons.push(NODE_CONFLICT),
                Some(_) => continue,
            }
            break;
        }
        let unbound = claims.into_iter().filter(|claim| !is_bound(claim));
        match self.find_unbound(unbound.collect(), node) {
            Ok(changes) if reasons.is_empty() => return Some(Ok(changes)),
            Ok(_) => {}
            Err(reason) => reasons.push(reason),
        }
        reasons.sort_by_key(|reason| *reason == VOLUME_MISSING);
        Some(Err(reasons))
    }

    fn find_unbound(&self, claims: Vec<&Value>, node: &str) -> Result<Vec<Planned>, &'static str> {
        let name = |object: &Value| text(&object["metadata"]["name"]);
        let (mut to_provision, mut to_match): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| selected_node(claim).is_some());
        if to_provision.iter().any(|claim| selected_node(claim).as_deref() != Some(node)) {
            return Err(BIND_CONFLICT);
        }
        to_match.sort_by_key(|claim| size_of(&claim["spec"]["resources"]["requests"]));
        let mut changes = Vec::new();
        let mut chosen = BTreeSet::new();
        for claim in to_match {
            match self.match_volume(claim, node, &chosen) {
                Some(volume) => {
                    chosen.insert(name(volume));
                    changes.push((VOLUMES, name(volume), name(claim)));
                }
                None => to_provision.push(claim),
            }
        }
        for claim in to_provision {
            if class_of(claim) != "dynamic" || !self.zones.contains(node) {
                return Err(BIND_CONFLICT);
            }
            let size = size_of(&claim["spec"]["resources"]["requests"]);
            let has_room = self.room.get(node).is_some_and(|own| *own >= size);
            if self.reports_room && !has_room {
                return Err(NO_ROOM);
            }
            changes.push((CLAIMS, name(claim), node.to_owned()));
        }
        Ok(changes)
    }

    /// Returns the volume that is reserved for the claim, or else the smallest one that suits it.
    fn match_volume(&self, claim: &Value, node: &str, chosen: &BTreeSet<String>) -> Option<&Value> {
        let size = size_of(&claim["spec"]["resources"]["requests"]);
        let class = class_of(claim);
        let fits = |volume: &&Value| {
            let is_others = !volume["spec"]["claimRef"].is_null() && !is_for(volume, claim);
            !chosen.contains(&text(&volume["metadata"]["name"]))
                && !is_others
                && size_of(&volume["spec"]["capacity"]) >= size
        };
        let volumes: Vec<&Value> = self.volumes(&class).filter(fits).collect();
        if let Some(reserved) = volumes.iter().find(|volume| is_for(volume, claim)) {
            return Some(*reserved).filter(|volume| reaches(volume, node));
        }
        let suits =
            |volume: &&&Value| volume["status"]["phase"] == "Available" && reaches(volume, node);
        let suitable = volumes.iter().filter(suits);
        suitable.min_by_key(|volume| size_of(&volume["spec"]["capacity"])).copied()
    }

    /// Returns the score of a node that gets these changes: the mean utilization of its storage
    /// classes. What is to be provisioned counts only if nothing else does and the room is known.
    fn score(&self, changes: &[Planned], node: &str) -> i64 {
        let mut classes = BTreeMap::<String, (u64, u64)>::new();
        let claim_of = |name: &str| self.latest(CLAIMS, name).unwrap_or(&Value::Null);
        let requested = |claim: &Value| size_of(&claim["spec"]["resources"]["requests"]);
        let (matched, provisioned): (Vec<_>, Vec<_>) =
            changes.iter().partition(|(resource, ..)| *resource == VOLUMES);
        for (_, name, claim) in &matched {
            let volume = self.latest(VOLUMES, name).unwrap_or(&Value::Null);
            let own = classes.entry(class_of(volume)).or_default();
            own.0 += requested(claim_of(claim));
            own.1 += size_of(&volume["spec"]["capacity"]);
        }
        for (_, name, _) in provisioned.iter().filter(|_| matched.is_empty() && self.reports_room) {
            let own = classes.entry("dynamic".to_owned()).or_default();
            own.0 += requested(claim_of(name));
            own.1 = self.room.get(node).copied().unwrap_or_default();
        }
        let shares = classes.values().map(|(requested, capacity)| match capacity {
            0 => 100,
            capacity => (requested * 100 / capacity).min(100),
        });
        let (sum, count) = (shares.sum::<u64>(), classes.len() as u64);
        if count == 0 { 0 } else { i64::try_from((2 * sum + count) / (2 * count)).unwrap_or(0) }
    }

    fn fits(&self, member: &Member) -> bool {
        NODES.iter().any(|node| matches!(self.find(&member.claims, node), Some(Ok(_))))
    }

    /// Returns the pods that wait, and whether they fit on a node.
    fn waiting(&self) -> BTreeMap<Uid, bool> {
        let pending = self.members.iter().filter(|own| matches!(own.stage, Stage::Pending));
        pending.map(|own| (own.pod.uid.clone(), self.fits(own))).collect()
    }

    /// Lets something happen, and compares the plugin with the model.
    fn step(&mut self, trace: &mut Vec<String>) -> Checked {
        let before = self.waiting();
        self.woken.clear();
        self.act(trace)?;
        self.after_step(&before)
    }

    fn after_step(&mut self, before: &BTreeMap<Uid, bool>) -> Checked {
        for (pod, fits) in self.waiting() {
            let was_hopeless = before.get(&pod) == Some(&false);
            rule(!fits || !was_hopeless || self.woken.contains(&pod), || {
                format!("{pod} fits now, and no event requeues it")
            })?;
        }
        self.compare()?;
        self.check_server()
    }

    fn act(&mut self, trace: &mut Vec<String>) -> Checked {
        let place = self.random.usize(..self.members.len());
        let claim = NAMES[self.random.usize(..NAMES.len())];
        match self.random.u32(..38) {
            0..6 => self.try_pod(place, trace),
            6..15 => self.go_on(place, trace),
            15 => self.fail(place, "others end it", trace),
            16..25 => {
                let Some((resource, name)) = self.server.any_lagging(self.random) else {
                    return Ok(());
                };
                self.show(&resource, &name, trace)
            }
            25 => self.label(trace),
            26..29 => self.bind_claim(claim, trace),
            29 | 30 => self.provision(claim, trace),
            31 => self.replace(claim, trace),
            32 => self.replace_volume(trace),
            33 => self.end(place, trace),
            34 => self.carry_out_late(trace),
            35 if self.random.bool() => {
                trace.push("the class allows other zones".to_owned());
                self.set_zones();
                Ok(())
            }
            35 => {
                trace.push("the driver reports another room".to_owned());
                let zone = NODES[self.random.usize(..NODES.len())];
                self.set_room(zone);
                Ok(())
            }
            36 => {
                trace.push(format!("the driver reports its room: {}", !self.reports_room));
                self.toggle_driver();
                Ok(())
            }
            _ => {
                let seconds = [1, 10, 40][self.random.usize(..3)];
                self.pass(Duration::from_secs(seconds), trace)
            }
        }
    }

    fn filter(&self, pod: &Pod) -> (CycleState, Result<[Status; 2], Status>) {
        filter(&self.plugin, pod, &self.handle())
    }

    /// Compares the verdicts about a pod with those of the model.
    fn compare(&mut self) -> Checked {
        let Some(member) = self.random.choice(&self.members) else { return Ok(()) };
        if !matches!(member.stage, Stage::Pending) {
            return Ok(());
        }
        let (_, found) = self.filter(&member.pod);
        for (place, node) in NODES.into_iter().enumerate() {
            let expected = self.find(&member.claims, node);
            let agrees = match (&expected, &found) {
                (None, Err(status)) => {
                    let problem = self.problem(&member.claims);
                    status.is_rejection() && problem == Some(status.message())
                }
                (Some(Ok(_)), Ok(statuses)) => statuses[place].is_success(),
                (Some(Err(reasons)), Ok(statuses)) => {
                    statuses[place].message() == reasons.join(", ")
                }
                _ => false,
            };
            rule(agrees, || {
                format!(
                    "{} on {node}: {expected:?}, and the plugin answers {found:?}",
                    member.pod.key
                )
            })?;
        }
        Ok(())
    }

    fn try_pod(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        if !matches!(self.members[place].stage, Stage::Pending) {
            return Ok(());
        }
        let member = &self.members[place];
        let (pod, claims) = (member.pod.clone(), member.claims.clone());
        let on_b = self.random.bool();
        let node = NODES[usize::from(on_b)];
        let (mut state, found) = self.filter(&pod);
        let status = match found {
            Ok(statuses) => statuses[usize::from(on_b)].clone(),
            Err(status) => status,
        };
        trace.push(format!("{} is tried on {node}: {}", pod.key, status.message()));
        let Some(Ok(changes)) = self.find(&claims, node) else {
            return rule(!status.is_success(), || format!("{} fits on {node}", pod.key));
        };
        if let Some(score) = self.plugin.score.as_ref().filter(|_| self.has_scores) {
            let ix = self.cluster.node_named(node).expect("the node exists");
            let found = score.score(
                &framework::Attempt::new(&state, &pod, &self.handle()),
                &self.cluster.node(ix),
            );
            let expected = self.score(&changes, node);
            rule(found == Ok(expected), || {
                format!("{} scores {found:?} on {node}, not {expected}", pod.key)
            })?;
        }
        state.end_search();
        let placed = Arc::new(Pod { node_name: Some(node.into()), ..Pod::clone(&pod) });
        let row = self.cluster.place_pod(placed.clone(), node);
        if let Some(reserve) = &self.plugin.reserve {
            let status = reserve
                .reserve(framework::AttemptMut::new(&mut state, &placed, &self.handle()), node);
            rule(status.is_success(), || format!("{} is not reserved: {status:?}", pod.key))?;
        }
        let mut marks = Vec::new();
        for (resource, name, target) in &changes {
            self.assume(&pod.uid, resource, name, target);
            let is_marked = |object: Option<&Value>| {
                object.is_some_and(|own| {
                    own["metadata"]["annotations"][BOUND_BY_CONTROLLER].is_string()
                })
            };
            let is_shown = is_marked(self.server.shown(resource, name));
            marks.push(is_marked(self.latest(resource, name)) && !is_shown);
        }
        // Pods that share a claim are tried once the watch shows what is assumed for it.
        self.wake_all();
        let uids = claims.iter().filter_map(|name| self.server.shown(CLAIMS, name).map(uid_of));
        let uids: Vec<Value> = uids.cloned().collect();
        // The watch may not show yet what others have done.
        let is_newest = |resource: &str, name: &str| {
            let [shown, newest] =
                [self.server.shown(resource, name), self.server.get(resource, name)];
            shown.zip(newest).is_some_and(|(shown, newest)| are_same(shown, newest))
        };
        let excused = !claims.iter().all(|name| is_newest(CLAIMS, name))
            || !changes.iter().all(|(resource, name, _)| is_newest(resource, name));
        self.members[place].stage = Stage::Binding(Box::new(Attempt {
            state,
            pod: placed,
            row,
            node,
            step: Step::Start,
            carried_out: None,
            changes,
            marks,
            written: 0,
            lost: false,
            excused,
            claims: uids,
        }));
        Ok(())
    }

    /// Assumes that a volume is reserved for a claim, or that the volume of a claim is provisioned
    /// for a node.
    fn assume(&mut self, pod: &Uid, resource: &'static str, name: &str, target: &str) {
        let Some(latest) = self.latest(resource, name) else { return };
        let mut object = latest.clone();
        match resource {
            CLAIMS => object["metadata"]["annotations"][SELECTED_NODE] = json!(target),
            _ => {
                let claim = self.latest(CLAIMS, target);
                if !claim.is_some_and(|claim| is_for(latest, claim)) {
                    object["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
                }
                let uid = claim.map(uid_of).cloned();
                object["spec"]["claimRef"] =
                    json!({"namespace": "default", "name": target, "uid": uid});
            }
        }
        let (pod, name) = (pod.clone(), name.to_owned());
        self.assumed.push(Assumed { pod, resource, name, object, is_written: false });
    }

    /// Lets a pod that is being bound go on.
    fn go_on(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        let key = self.members[place].pod.key.clone();
        let Stage::Binding(attempt) = &mut self.members[place].stage else { return Ok(()) };
        let write = match &attempt.step {
            Step::Wait { .. } => return Ok(()),
            Step::Start => return self.call(place, PreBindInput::Start, trace),
            Step::Open(write) => write.clone(),
        };
        let carried_out = attempt.carried_out.take();
        let until = self.parts.now + LONGEST_REQUEST;
        let lost = || Answer::Unknown("no answer".to_owned());
        if carried_out.is_none() {
            self.is_expected(place, &write)?;
        }
        let answer = match self.random.u32(..16) {
            _ if let Some(answer) = carried_out => answer,
            5 => {
                let answer = self.carry_out(&write)?;
                trace.push(format!("{} is written for {key}, without an answer yet", write.name));
                if let Stage::Binding(attempt) = &mut self.members[place].stage {
                    attempt.carried_out = Some(answer);
                }
                return Ok(());
            }
            0 | 1 => {
                self.carry_out(&write)?;
                lost()
            }
            2 => {
                self.late.push((write.clone(), until));
                lost()
            }
            3 => Answer::Error("refused".to_owned()),
            4 => match self.carry_out(&write)? {
                Answer::Ok(_) => Answer::ok(),
                other => other,
            },
            _ => self.carry_out(&write)?,
        };
        trace.push(format!("{key} writes {} {}: {answer:?}", write.name, write.body()));
        let Self { members, assumed, server, .. } = self;
        let Stage::Binding(attempt) = &mut members[place].stage else { return Ok(()) };
        let base = text(&write.body()["metadata"]["resourceVersion"]);
        let is_own = server
            .after(&write.resource, &write.name, &base)
            .zip(attempt.changes.get(attempt.written))
            .is_some_and(|(object, change)| has_change(object, change));
        match &answer {
            Answer::Ok(_) => {
                let pod = attempt.pod.uid.clone();
                let (resource, name, _) = &attempt.changes[attempt.written];
                let own = assumed
                    .iter_mut()
                    .find(|own| own.pod == pod && own.resource == *resource && own.name == *name);
                if let Some(own) = own {
                    own.is_written = true;
                }
                attempt.written += 1;
                attempt.lost = false;
            }
            Answer::Unknown(_) => {
                attempt.excused |= attempt.lost;
                attempt.lost = true;
            }
            // After a lost answer it may be the own write that has changed the object.
            Answer::Conflict(_) if attempt.lost && is_own => {}
            _ => attempt.excused = true,
        }
        self.call(place, PreBindInput::Answer(&answer), trace)
    }

    /// Checks that a write is the next change of the attempt, and names its object and the version.
    fn is_expected(&self, place: usize, write: &Write) -> Checked {
        let Stage::Binding(attempt) = &self.members[place].stage else { return Ok(()) };
        let (body, next) = (write.body(), attempt.changes.get(attempt.written));
        let is_precise =
            ["uid", "resourceVersion"].iter().all(|field| body["metadata"][*field].is_string());
        let is_next = next.is_some_and(|(resource, name, target)| {
            let annotation = &body["metadata"]["annotations"][SELECTED_NODE];
            let reference = &body["spec"]["claimRef"]["name"];
            let mark = &body["metadata"]["annotations"][BOUND_BY_CONTROLLER];
            let is_right = match *resource {
                CLAIMS => annotation == target,
                _ => {
                    (reference.is_null() || reference == target)
                        && mark.is_string() == attempt.marks[attempt.written]
                }
            };
            *write.resource == **resource && *write.name == **name && is_right
        });
        rule(is_precise && is_next, || format!("{write:?} is to do {next:?}"))
    }

    /// Carries out a write of the scheduler, which may not take a volume from another claim.
    fn carry_out(&mut self, write: &Write) -> Result<Answer, String> {
        let before = self.server.get(&write.resource, &write.name).cloned();
        let answer = self.server.write(write);
        let after = self.server.get(&write.resource, &write.name);
        if let (Some(before), Some(after)) = (before, after) {
            let [old, new] = [&before, after].map(|own| &own["spec"]["claimRef"]["uid"]);
            rule(old.is_null() || old == new, || format!("{} is taken: {write:?}", write.name))?;
        }
        Ok(answer)
    }

    /// Calls PreBind for a pod.
    fn call(&mut self, place: usize, input: PreBindInput<'_>, trace: &mut Vec<String>) -> Checked {
        let Self { members, plugin, parts, cluster, server, assumed, .. } = self;
        let member = &mut members[place];
        let key = member.pod.key.clone();
        let Stage::Binding(attempt) = &mut member.stage else { return Ok(()) };
        let now = parts.now;
        let first = match (&attempt.step, &input) {
            (Step::Wait { since, until, .. }, PreBindInput::Changed) => Some((*since, *until)),
            _ => None,
        };
        attempt.step = Step::Start;
        let Some(pre_bind) = &plugin.pre_bind else { return Ok(()) };
        let handle = parts.handle(cluster);
        let (pod, node) = (attempt.pod.clone(), attempt.node);
        let step = pre_bind.pre_bind(
            framework::AttemptMut::new(&mut attempt.state, &pod, &handle),
            node,
            input,
        );
        let status = match step {
            PreBindStep::Write(write) => {
                // The watch has shown that a write without an answer was carried out.
                let is_done = |change: &Planned| {
                    let shown = server.shown(change.0, &change.1);
                    shown.is_some_and(|own| has_change(own, change))
                };
                let next = attempt.changes.get(attempt.written);
                if attempt.lost && next.is_some_and(|own| own.1 != *write.name && is_done(own)) {
                    attempt.written += 1;
                    attempt.lost = false;
                }
                attempt.step = Step::Open(write);
                return Ok(());
            }
            PreBindStep::Wait { timeout, objects } => {
                let (since, until) = first.unwrap_or((now, now + timeout));
                let until = until.min(now + timeout);
                attempt.step = Step::Wait { since, until, objects };
                return Ok(());
            }
            PreBindStep::Done(status) => status,
        };
        if status.is_success() {
            trace.push(format!("{key} is bound to {node}"));
            assumed.retain(|own| own.pod != pod.uid);
            let claims = attempt.claims.clone();
            self.members[place].stage = Stage::Bound(node, claims);
            return Ok(());
        }
        let excused = attempt.excused || self.has_volumes_elsewhere(place);
        rule(excused, || format!("{key} fails: {}", status.message()))?;
        self.fail(place, &status.message(), trace)
    }

    /// Whether the controller has bound a claim of a pod to a volume elsewhere, because another pod
    /// has the claim, too.
    fn has_volumes_elsewhere(&self, place: usize) -> bool {
        let Member { claims, stage, .. } = &self.members[place];
        let Stage::Binding(attempt) = stage else { return false };
        let claims = claims.iter().filter_map(|name| self.server.get(CLAIMS, name));
        claims.filter(|claim| is_bound(claim)).any(|claim| {
            let volume = text(&claim["spec"]["volumeName"]);
            let volume = self.server.get(VOLUMES, &volume);
            !volume.is_some_and(|volume| reaches(volume, attempt.node))
        })
    }

    /// Ends an attempt.
    fn fail(&mut self, place: usize, why: &str, trace: &mut Vec<String>) -> Checked {
        let Self { members, plugin, parts, cluster, late, assumed, .. } = self;
        let member = &mut members[place];
        let stage = std::mem::replace(&mut member.stage, Stage::Pending);
        let Stage::Binding(mut attempt) = stage else {
            member.stage = stage;
            return Ok(());
        };
        trace.push(format!("the attempt of {} ends: {why}", member.pod.key));
        if let Step::Open(write) = &attempt.step
            && attempt.carried_out.is_none()
        {
            late.push((write.clone(), parts.now + LONGEST_REQUEST));
        }
        let Attempt { state, pod, node, .. } = &mut *attempt;
        if let Some(reserve) = &plugin.reserve {
            reserve.unreserve(framework::AttemptMut::new(state, pod, &parts.handle(cluster)), node);
        }
        assumed.retain(|own| own.pod != pod.uid || own.is_written);
        cluster.remove_pod(attempt.row);
        // A forgotten pod counts as deleted.
        let gone = attempt.pod.clone();
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        self.notify(&event, EventObjects::Pod { old: Some(&gone), new: None });
        Ok(())
    }

    fn notify_of_object(&mut self, kind: EventResource, old: Option<&Value>, new: Option<&Value>) {
        let action = match (old, new) {
            (None, _) => ActionType::ADD,
            (_, None) => ActionType::DELETE,
            _ => ActionType::UPDATE,
        };
        let decoded = |json: &Value| testkit::object(kind.clone(), json.clone());
        let (old, new) = (old.map(decoded), new.map(decoded));
        let objects = EventObjects::Other { old: old.as_ref(), new: new.as_ref() };
        self.notify(&ClusterEvent::new(kind, action), objects);
    }

    /// Leaves out the pods that wait: what has changed for them is not known by an event yet.
    fn wake_all(&mut self) {
        let pending = self.members.iter().filter(|own| matches!(own.stage, Stage::Pending));
        self.woken.extend(pending.map(|own| own.pod.uid.clone()));
    }

    /// Asks the hints about an event, and notes the pods that it requeues.
    fn notify(&mut self, event: &ClusterEvent, objects: EventObjects<'_>) {
        let pending = self.members.iter().filter(|own| matches!(own.stage, Stage::Pending));
        for member in pending {
            let registered = self.plugin.events.iter().flatten();
            for registered in registered.filter(|own| own.event.matches(event)) {
                let handle = self.handle();
                let about = EventForPod::new(&member.pod, objects, &handle);
                if registered.evaluate_hint(about) != Ok(QueueingHint::Skip) {
                    self.woken.insert(member.pod.uid.clone());
                }
            }
        }
    }

    /// Lets the watch show the next version of an object.
    fn show(&mut self, resource: &str, name: &str, trace: &mut Vec<String>) -> Checked {
        let is_assumed = self.assumed.iter().any(|own| own.name == *name);
        let Some((old, new)) = self.watch(resource, name) else { return Ok(()) };
        if new.is_none() && is_assumed {
            // Pods that share a claim wait for the end of the attempt that has assumed the volume.
            self.wake_all();
        }
        let version = new.as_ref().map(|own| text(&own["metadata"]["resourceVersion"]));
        trace.push(format!("the watch shows {name} in version {version:?}"));
        self.notify_of_object(kind_of(resource), old.as_ref(), new.as_ref());
        for place in 0..self.members.len() {
            let Stage::Binding(attempt) = &self.members[place].stage else { continue };
            let Step::Wait { objects, .. } = &attempt.step else { continue };
            let namespace = namespace_of(resource).into();
            let key = ObjectKey::namespaced(kind_of(resource), namespace, name.into());
            if objects.contains(&key) {
                self.call(place, PreBindInput::Changed, trace)?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, resource: &str, name: &str) -> Option<(Option<Value>, Option<Value>)> {
        let (old, new) = self.server.show_next(resource, name)?;
        let object = new.clone().map(Arc::new);
        self.cluster.set_json(&kind_of(resource), namespace_of(resource), name, object);
        let assumed = std::mem::take(&mut self.assumed);
        let is_valid = |own: &Assumed| {
            let shown = self.server.shown(own.resource, &own.name);
            shown.is_some_and(|shown| are_same(shown, &own.object))
        };
        self.assumed = assumed.into_iter().filter(is_valid).collect();
        Some((old, new))
    }

    /// Lets others change a label of an object.
    fn label(&mut self, trace: &mut Vec<String>) -> Checked {
        let resource = if self.random.bool() { CLAIMS } else { VOLUMES };
        let names: Vec<String> = self.server.names(resource).map(Into::into).collect();
        let Some(name) = self.random.choice(&names).cloned() else { return Ok(()) };
        trace.push(format!("others label {name}"));
        let label = json!({"metadata": {"labels": {"k": self.random.u8(..).to_string()}}});
        self.server.patch(resource, &name, &label);
        Ok(())
    }

    /// Lets the volume controller bind a claim to a volume that is reserved for it.
    fn bind_claim(&mut self, name: &str, trace: &mut Vec<String>) -> Checked {
        let Some(claim) = self.server.get(CLAIMS, name).filter(|claim| !is_bound(claim)) else {
            return Ok(());
        };
        let wanted = &claim["spec"]["volumeName"];
        let mut volumes = self.server.all(VOLUMES);
        let volume = volumes.find(|own| {
            let is_free = own["spec"]["claimRef"].is_null() || is_for(own, claim);
            own["spec"]["claimRef"]["uid"] == *uid_of(claim)
                || is_free && own["metadata"]["name"] == *wanted
        });
        let Some(volume) = volume else { return Ok(()) };
        let volume = text(&volume["metadata"]["name"]);
        trace.push(format!("the controller binds {name} to {volume}"));
        let reference = json!({"namespace": "default", "name": name, "uid": uid_of(claim)});
        drop(volumes);
        let patch = json!({"spec": {"claimRef": reference}, "status": {"phase": "Bound"}});
        self.server.patch(VOLUMES, &volume, &patch);
        let patch = json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume}, "status": {"phase": "Bound"}});
        self.server.patch(CLAIMS, name, &patch);
        Ok(())
    }

    /// Lets the provisioner make a volume for a claim, or give up.
    fn provision(&mut self, name: &str, trace: &mut Vec<String>) -> Checked {
        let Some(claim) = self.server.get(CLAIMS, name).filter(|claim| !is_bound(claim)) else {
            return Ok(());
        };
        let Some(node) = selected_node(claim) else { return Ok(()) };
        if self.random.u8(..4) == 0 {
            trace.push(format!("the provisioner gives {name} up"));
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
            self.server.patch(CLAIMS, name, &patch);
            self.excuse(name);
            return Ok(());
        }
        let reference = json!({"namespace": "default", "name": name, "uid": uid_of(claim)});
        let size = text(&claim["spec"]["resources"]["requests"]["storage"]);
        let made = format!("pv-{}", text(uid_of(claim)));
        if self.server.get(VOLUMES, &made).is_some() {
            return Ok(());
        }
        let uid = self.uid(&made);
        let mut object = volume(&made, &uid, "dynamic", &size);
        object["spec"]["claimRef"] = reference;
        object["spec"]["nodeAffinity"] = affinity(&node);
        trace.push(format!("the provisioner makes {made} for {node}"));
        self.server.set(VOLUMES, &made, Some(object));
        self.bind_claim(name, trace)
    }

    /// Deletes a claim that no pod on a node uses, or creates one in its place.
    fn replace(&mut self, name: &'static str, trace: &mut Vec<String>) -> Checked {
        let is_used = self
            .members
            .iter()
            .any(|own| matches!(own.stage, Stage::Bound(..)) && own.claims.contains(&name));
        match self.server.get(CLAIMS, name) {
            None => {
                trace.push(format!("{name} is created"));
                self.create_claim(name);
            }
            Some(claim) if !is_used => {
                let is_terminating = claim["metadata"]["deletionTimestamp"].is_string();
                trace.push(format!("{name} is deleted, or terminates"));
                if is_terminating || self.random.bool() {
                    self.server.set(CLAIMS, name, None);
                } else {
                    let time = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
                    self.server.patch(CLAIMS, name, &time);
                }
                self.excuse(name);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Deletes a volume of no claim, of one that is gone, or of one that no pod being bound or on a
    /// node uses, or creates one.
    fn replace_volume(&mut self, trace: &mut Vec<String>) -> Checked {
        let names: Vec<String> = self.server.names(VOLUMES).map(Into::into).collect();
        let Some(name) = self.random.choice(&names).cloned() else { return Ok(()) };
        let Some(volume) = self.server.get(VOLUMES, &name) else {
            if !self.server.all(CLAIMS).any(|claim| claim["spec"]["volumeName"] == *name) {
                trace.push(format!("{name} is created"));
                self.create_volume(&name);
            }
            return Ok(());
        };
        let reference = volume["spec"]["claimRef"].clone();
        let claims: Vec<Value> = self.server.all(CLAIMS).map(uid_of).cloned().collect();
        let is_used = self.members.iter().any(|own| {
            !matches!(own.stage, Stage::Pending)
                && own.claims.iter().any(|claim| reference["name"] == **claim)
        });
        if !claims.contains(&reference["uid"]) || !is_used {
            trace.push(format!("{name} is deleted"));
            self.server.set(VOLUMES, &name, None);
            self.excuse(&name);
        }
        Ok(())
    }

    /// Lets pods that are being bound with an object fail because others have changed it.
    fn excuse(&mut self, name: &str) {
        for member in &mut self.members {
            let Stage::Binding(attempt) = &mut member.stage else { continue };
            let has_it = member.claims.contains(&name)
                || attempt.changes.iter().any(|(_, own, target)| own == name || target == name);
            attempt.excused |= has_it;
        }
    }

    /// Ends a pod that is not being bound. A new one comes.
    fn end(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        if matches!(self.members[place].stage, Stage::Binding(_)) {
            return Ok(());
        }
        trace.push(format!("{} ends", self.members[place].pod.key));
        self.members[place] = self.member();
        Ok(())
    }

    /// Carries out a request that is late.
    fn carry_out_late(&mut self, trace: &mut Vec<String>) -> Checked {
        if self.late.is_empty() {
            return Ok(());
        }
        let (write, _) = self.late.swap_remove(self.random.usize(..self.late.len()));
        let answer = self.carry_out(&write)?;
        trace.push(format!("late, {} {}: {answer:?}", write.name, write.body()));
        Ok(())
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration, trace: &mut Vec<String>) -> Checked {
        self.parts.now = self.parts.now + time;
        let now = self.parts.now;
        trace.push(format!("it is {now}"));
        self.late.retain(|(_, until)| *until > now);
        for place in 0..self.members.len() {
            let Stage::Binding(attempt) = &mut self.members[place].stage else { continue };
            let Step::Wait { since, until, .. } = &attempt.step else { continue };
            if *until <= now {
                attempt.excused |= now.since(*since) >= BIND_TIMEOUT;
                self.call(place, PreBindInput::Deadline, trace)?;
            }
        }
        Ok(())
    }

    /// Checks what the server has: no volume belongs to two claims, and bound pods have theirs.
    fn check_server(&self) -> Checked {
        let mut volumes = BTreeSet::new();
        for claim in self.server.all(CLAIMS).filter(|claim| is_bound(claim)) {
            let name = text(&claim["spec"]["volumeName"]);
            rule(volumes.insert(name.clone()), || format!("{name} belongs to two claims"))?;
        }
        for Member { pod, claims, stage } in &self.members {
            let Stage::Bound(node, uids) = stage else { continue };
            // Others may have deleted a claim while the pod was being bound.
            let stored = claims.iter().filter_map(|name| self.server.get(CLAIMS, name));
            for claim in stored.filter(|claim| uids.contains(uid_of(claim))) {
                let volume = self.server.get(VOLUMES, &text(&claim["spec"]["volumeName"]));
                let is_right = is_bound(claim)
                    && volume.is_none_or(|volume| {
                        volume["spec"]["claimRef"]["uid"] == *uid_of(claim) && reaches(volume, node)
                    });
                rule(is_right, || format!("{} is bound to {node} with {claim}", pod.key))?;
            }
        }
        Ok(())
    }

    /// Lets every request have its answer, the controllers bind and the watch catch up: no pod goes
    /// on waiting.
    fn calm_down(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push("all calms down".to_owned());
        for _ in 0..20 {
            let before = self.waiting();
            self.woken.clear();
            for name in NAMES {
                self.provision(name, trace)?;
                self.bind_claim(name, trace)?;
            }
            while let Some((resource, name)) = self.server.lagging() {
                let (resource, name) = (resource.to_owned(), name.to_owned());
                self.show(&resource, &name, trace)?;
            }
            for place in 0..self.members.len() {
                self.go_on(place, trace)?;
            }
            self.after_step(&before)?;
        }
        for Member { pod, stage, .. } in &self.members {
            let Stage::Binding(attempt) = stage else { continue };
            let Step::Wait { objects, .. } = &attempt.step else { continue };
            rule(attempt.excused, || format!("{} goes on waiting for {objects:?}", pod.key))?;
        }
        Ok(())
    }
}

fn volume(name: &str, uid: &str, class: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": uid},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size}},
        "status": {"phase": "Available"},
    })
}

/// The driver of the class `dynamic`.
fn driver(reports_room: bool) -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": reports_room}})
}

/// The affinity of a volume that nodes of one zone reach.
fn affinity(zone: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": [zone]}]}]}})
}
