//! DynamicResources alone: pods that share claims, requests that are refused, lost or late, and a watch that lags.
//!
//! The model is a list of the devices that are taken, written from the rules: those of each claim as the watch or a newer
//! answer shows it, those of claims that are being allocated, and those of allocations whose outcome is unknown, for two
//! minutes or until the watch shows another version. After each step it is compared with the verdicts of Filter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::testing::{FakeDryRun, HandleParts, cluster, node};
use framework::{
    ActionType, Answer, Cluster, ClusterEvent, Command, CycleState, EventObjects, EventResource,
    Handle, ObjectKey, Plugin, PluginArgs, Pod, PreBindInput, PreBindStep, QueueingHint, Status,
    Time, Uid, Verdicts, Write, WriteAction,
};
use plugins::dynamic_resources::{self, NAME};
use serde_json::{Value, json};

use super::super::rules::{Checked, rule};
use super::filters::{NODES, filter};
use super::server::Server;

const CLAIMS: &str = "resourceclaims";
const DEVICES: [&str; 2] = ["0", "1"];
const NAMES: [&str; 3] = ["c0", "c1", "c2"];

/// Longest time until a request without an answer is carried out.
const LONGEST_REQUEST: Duration = Duration::from_secs(75);
/// Time for which an allocation of unknown outcome counts.
const DOUBT: Duration = Duration::from_mins(2);
/// Time in which devices have to be ready.
const BINDING_TIMEOUT: Duration = Duration::from_secs(20);
/// Shortest wait before an attempt may give up.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// Whether a device of each node has binding conditions.
    has_conditions: bool,
    pods: u32,
    claims: u32,
    /// Requests that may yet be carried out, and until when.
    late: Vec<(Write, Time)>,
    timer: Option<Time>,
    known: Known,
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
    Bound(&'static str),
}

struct Attempt {
    state: CycleState,
    /// The pod on its node.
    pod: Arc<Pod>,
    node: &'static str,
    step: Step,
    lost: u32,
    conflicts: u32,
    /// Whether the attempt may fail.
    excused: bool,
    /// The version in which each claim may have been reserved by a request without an answer.
    unknown: BTreeMap<String, u64>,
    /// The claims that this attempt has reserved.
    reserved: BTreeSet<String>,
}

enum Step {
    Start,
    Open(Write),
    Wait { since: Time, until: Time, objects: Vec<ObjectKey> },
}

/// What the scheduler knows beyond the watch, by the UIDs of claims.
#[derive(Default)]
struct Known {
    /// The newest answer to a reservation.
    answered: BTreeMap<String, Value>,
    /// The pods for which claims are being allocated, with the devices.
    in_flight: BTreeMap<String, (Uid, Vec<String>)>,
    in_doubt: BTreeMap<String, Doubt>,
    /// The nodes whose devices are published, and whether their class exists.
    published: BTreeSet<&'static str>,
    has_class: bool,
}

struct Doubt {
    claim: &'static str,
    version: u64,
    until: Time,
    devices: Vec<String>,
}

/// Whether a pod can be placed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A claim cannot be used on any node.
    Unusable,
    Lacks,
    Unavailable,
    Fits,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn uid_of(object: &Value) -> String {
    text(&object["metadata"]["uid"])
}

fn version_of(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap_or_default()
}

/// Returns the devices of a claim, as `node/device`.
fn devices_of(allocation: &Value) -> Vec<String> {
    let results = allocation["devices"]["results"].as_array().into_iter().flatten();
    results.map(|own| format!("{}/{}", text(&own["pool"]), text(&own["device"]))).collect()
}

fn users_of(claim: &Value) -> Vec<String> {
    let users = claim["status"]["reservedFor"].as_array().into_iter().flatten();
    users.map(|user| text(&user["uid"])).collect()
}

/// Returns the numbers of devices that are enough for a claim, the preferred one first.
fn counts_of(claim: &Value) -> Vec<usize> {
    let request = &claim["spec"]["devices"]["requests"][0];
    let one = std::slice::from_ref(&request["exactly"]);
    let bodies = request["firstAvailable"].as_array().map_or(one, Vec::as_slice);
    let counts = bodies.iter().filter_map(|body| body["count"].as_u64());
    counts.filter_map(|count| usize::try_from(count).ok()).collect()
}

/// Returns the place of the first alternative of each claim, in the order of the claims, such that all fit together.
fn choose(claims: &[Vec<usize>], free: usize) -> Option<Vec<usize>> {
    let Some((first, others)) = claims.split_first() else { return Some(Vec::new()) };
    let mut places = first.iter().enumerate().filter(|(_, count)| **count <= free);
    places.find_map(|(place, count)| {
        let rest = choose(others, free - count)?;
        Some([place].into_iter().chain(rest).collect())
    })
}

/// Returns the score of a claim that gets this alternative: the earlier it is, the higher.
fn score_of(claim: &Value, place: usize) -> i64 {
    let has_alternatives = claim["spec"]["devices"]["requests"][0]["firstAvailable"].is_array();
    if has_alternatives { 8 - i64::try_from(place).unwrap_or_default() } else { 0 }
}

/// Returns the place of the alternative for which a claim is allocated.
fn chosen_of(claim: &Value) -> usize {
    let devices = devices_of(&claim["status"]["allocation"]);
    counts_of(claim).iter().position(|count| *count == devices.len()).unwrap_or_default()
}

fn is_allocated(claim: &Value) -> bool {
    !claim["status"]["allocation"].is_null()
}

/// Returns whether all devices are ready; an error if one of them is broken, or if they have not become ready in time.
fn are_ready(claim: &Value, now: Time) -> Result<bool, ()> {
    let allocation = &claim["status"]["allocation"];
    let results = allocation["devices"]["results"].as_array().into_iter().flatten();
    let mut all = true;
    for result in results.filter(|own| own["bindingConditions"].is_array()) {
        let devices = claim["status"]["devices"].as_array().into_iter().flatten();
        let of_device = devices.filter(|own| {
            ["driver", "pool", "device"].iter().all(|field| own[*field] == result[*field])
        });
        let is_true = |kind: &str| {
            let conditions = of_device.clone().filter_map(|own| own["conditions"].as_array());
            conditions.flatten().any(|own| own["type"] == kind && own["status"] == "True")
        };
        if is_true("broken") {
            return Err(());
        }
        all &= is_true("ready");
    }
    let since = Time::parse_rfc3339(&text(&allocation["allocationTimestamp"])).ok();
    let is_late = since.is_some_and(|since| since + BINDING_TIMEOUT < now);
    if !all && is_late { Err(()) } else { Ok(all) }
}

impl Known {
    /// Returns the newest version of a claim that the scheduler knows.
    fn latest<'a>(&'a self, server: &'a Server, name: &str) -> Option<&'a Value> {
        let shown = server.shown(CLAIMS, name)?;
        let answered = self.answered.get(&uid_of(shown));
        let newer = answered.filter(|own| version_of(own) > version_of(shown));
        Some(newer.unwrap_or(shown))
    }

    /// Drops the doubts that have ended.
    fn end_doubts(&mut self, server: &Server, now: Time) {
        self.in_doubt.retain(|uid, doubt| {
            let shown = server.shown(CLAIMS, doubt.claim);
            let is_possible =
                shown.is_some_and(|own| uid_of(own) == *uid && version_of(own) <= doubt.version);
            doubt.until > now && is_possible
        });
    }

    fn taken(&self, server: &Server) -> BTreeSet<String> {
        let claims = NAMES.iter().filter_map(|name| self.latest(server, name));
        let mut taken: BTreeSet<String> =
            claims.flat_map(|claim| devices_of(&claim["status"]["allocation"])).collect();
        taken.extend(self.in_flight.values().flat_map(|(_, devices)| devices.clone()));
        taken.extend(self.in_doubt.values().flat_map(|doubt| doubt.devices.clone()));
        taken
    }

    fn verdict(&self, server: &Server, claims: &[&str], node: &str, now: Time) -> Verdict {
        let mut is_unavailable = false;
        for name in claims {
            let Some(claim) = self.latest(server, name) else { return Verdict::Unusable };
            if !claim["metadata"]["deletionTimestamp"].is_null() {
                return Verdict::Unusable;
            }
            if is_allocated(claim) {
                let devices = devices_of(&claim["status"]["allocation"]);
                let is_here = devices.iter().all(|device| device.split('/').next() == Some(node));
                is_unavailable |= !is_here || are_ready(claim, now).is_err();
                continue;
            }
            let uid = uid_of(claim);
            let is_busy = self.in_flight.contains_key(&uid) || self.in_doubt.contains_key(&uid);
            if is_busy || !self.has_class {
                return Verdict::Unusable;
            }
        }
        match self.choose(server, claims, node) {
            None => Verdict::Lacks,
            Some(_) if is_unavailable => Verdict::Unavailable,
            Some(_) => Verdict::Fits,
        }
    }

    /// Returns the place of the alternative that each claim gets on a node which is not allocated.
    fn choose(&self, server: &Server, claims: &[&str], node: &str) -> Option<Vec<usize>> {
        let claims = claims.iter().filter_map(|name| self.latest(server, name));
        let wanted = claims.filter(|claim| !is_allocated(claim)).map(counts_of);
        let taken = self.taken(server);
        let is_published = self.published.contains(node);
        let devices = DEVICES.iter().filter(|_| is_published);
        let free = devices.filter(|device| !taken.contains(&format!("{node}/{device}")));
        choose(&wanted.collect::<Vec<_>>(), free.count())
    }

    /// Returns the score of a node on which the pod fits.
    fn score(&self, server: &Server, claims: &[&str], node: &str) -> i64 {
        let mut chosen = self.choose(server, claims, node).unwrap_or_default().into_iter();
        let claims = claims.iter().filter_map(|name| self.latest(server, name));
        let scores = claims.map(|claim| match is_allocated(claim) {
            true => score_of(claim, chosen_of(claim)),
            false => score_of(claim, chosen.next().unwrap_or_default()),
        });
        scores.sum()
    }
}

fn kind() -> EventResource {
    EventResource::ResourceClaim
}

impl<'r> History<'r> {
    fn new(random: &'r mut Rng) -> Self {
        let args = json!({"filterTimeout": "10s", "bindingTimeout": "20s"});
        let plugin = dynamic_resources::plugin(&PluginArgs::new(args));
        let has_conditions = random.u8(..3) == 0;
        let mut history = Self {
            random,
            server: Server::default(),
            cluster: cluster(NODES.map(|name| node(name).build()), []),
            parts: HandleParts { now: Time::from_secs(1000), ..HandleParts::default() },
            plugin: plugin.expect("the arguments are valid"),
            members: Vec::new(),
            has_conditions,
            pods: 0,
            claims: 0,
            late: Vec::new(),
            timer: None,
            known: Known::default(),
            woken: BTreeSet::new(),
        };
        history.toggle_class();
        NODES.into_iter().for_each(|name| history.toggle_devices(name));
        for name in NAMES {
            history.create(name);
            history.watch(name);
        }
        for _ in 0..history.random.usize(2..5) {
            let member = history.member();
            history.members.push(member);
        }
        history
    }

    /// Creates or deletes the class of all devices.
    fn toggle_class(&mut self) {
        let class = json!({"metadata": {"name": "gpu", "uid": "gpu"}});
        self.known.has_class ^= true;
        let new = self.known.has_class.then(|| class.clone());
        let old = (!self.known.has_class).then_some(class);
        let object = new.clone().map(Arc::new);
        self.cluster.set_object(&EventResource::DeviceClass, "", "gpu", object);
        self.notify(EventResource::DeviceClass, old.as_ref(), new.as_ref());
    }

    /// Publishes or withdraws the devices of a node.
    fn toggle_devices(&mut self, node: &'static str) {
        let devices = DEVICES.map(|device| match self.has_conditions && device == "0" {
            true => json!({"name": device, "bindingConditions": ["ready"],
                "bindingFailureConditions": ["broken"]}),
            false => json!({"name": device}),
        });
        let slice = json!({"metadata": {"name": node, "uid": node}, "spec": {
            "driver": "d", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
        let is_new = self.known.published.insert(node);
        if !is_new {
            self.known.published.remove(node);
        }
        let (old, new) = if is_new { (None, Some(slice)) } else { (Some(slice), None) };
        let object = new.clone().map(Arc::new);
        self.cluster.set_object(&EventResource::ResourceSlice, "", node, object);
        self.notify(EventResource::ResourceSlice, old.as_ref(), new.as_ref());
    }

    /// Returns a new pod with one or two claims.
    fn member(&mut self) -> Member {
        self.pods += 1;
        let mut claims = NAMES.to_vec();
        self.random.shuffle(&mut claims);
        claims.truncate(self.random.usize(1..3));
        let own = claims.iter().map(|own| json!({"name": own, "resourceClaimName": own}));
        let name = format!("p{}", self.pods);
        let object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
            "spec": {"resourceClaims": own.collect::<Value>()},
        });
        let pod = Pod::from_json(&object, &framework::ExtraFields::default());
        Member { pod: pod.expect("it is a pod").into(), claims, stage: Stage::Pending }
    }

    fn create(&mut self, name: &str) {
        self.claims += 1;
        let body = |name: &str, count: i64| {
            json!({"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount",
                "count": count})
        };
        let request = match self.random.u8(..6) {
            0 => json!({"name": "r", "firstAvailable": [body("s0", 2), body("s1", 1)]}),
            1 | 2 => json!({"name": "r", "exactly": body("r", 2)}),
            _ => json!({"name": "r", "exactly": body("r", 1)}),
        };
        let uid = format!("uid-{name}-{}", self.claims);
        let object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": uid},
            "spec": {"devices": {"requests": [request]}},
        });
        self.server.set(CLAIMS, name, Some(object));
    }

    fn handle(&self) -> Handle<'_> {
        self.parts.handle(&self.cluster)
    }

    fn fits(&self, member: &Member) -> bool {
        let fits = |node: &&str| {
            let now = self.parts.now;
            self.known.verdict(&self.server, &member.claims, node, now) == Verdict::Fits
        };
        NODES.iter().any(fits)
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
        while self.timer.is_some_and(|at| at <= self.parts.now) {
            self.timer = None;
            if let Some(timer) = &self.plugin.timer {
                timer.fire(0, &self.handle());
            }
            self.carry_out_commands(None)?;
        }
        self.known.end_doubts(&self.server, self.parts.now);
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
        match self.random.u32(..36) {
            0..6 => self.try_pod(place, trace),
            6..16 => self.go_on(place, trace),
            16 => self.fail(place, "others end it", trace),
            17..25 => match self.server.any_lagging(self.random) {
                Some((_, name)) => self.show(&name, trace),
                None => Ok(()),
            },
            25 => {
                trace.push(format!("others label {claim}"));
                let label = json!({"metadata": {"labels": {"k": self.random.u8(..).to_string()}}});
                self.server.patch(CLAIMS, claim, &label);
                Ok(())
            }
            26 | 27 => self.clean_up(claim, trace),
            28 => self.replace_claim(claim, trace),
            29 => self.end(place, trace),
            30 => {
                let is_broken = self.random.u8(..4) == 0;
                self.report(claim, is_broken, trace);
                Ok(())
            }
            31 => self.carry_out_late(trace),
            32 => {
                let node = NODES[self.random.usize(..NODES.len())];
                trace.push(format!("the devices of {node} come or go"));
                self.toggle_devices(node);
                self.carry_out_commands(Some(trace))
            }
            33 if self.random.bool() || !self.known.has_class => {
                trace.push("the class comes or goes".to_owned());
                self.toggle_class();
                self.carry_out_commands(Some(trace))
            }
            _ => {
                let seconds = [1, 5, 15, 45, 130][self.random.usize(..5)];
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
            let now = self.parts.now;
            let expected = self.known.verdict(&self.server, &member.claims, node, now);
            let message = match &found {
                Ok(statuses) => statuses[place].message(),
                Err(status) => format!("PreFilter: {}", status.message()),
            };
            let agrees = match expected {
                Verdict::Unusable => found.as_ref().is_err_and(Status::is_rejection),
                Verdict::Lacks => message == "cannot allocate all claims",
                Verdict::Unavailable => message == "resourceclaim not available on the node",
                Verdict::Fits => message.is_empty(),
            };
            rule(agrees, || {
                format!(
                    "{} on {node}: {expected:?}, and the plugin answers {message:?}",
                    member.pod.key
                )
            })?;
        }
        if let Some(pre_enqueue) = &self.plugin.pre_enqueue {
            let status = pre_enqueue.pre_enqueue(&member.pod, &self.handle());
            let is_usable = member.claims.iter().all(|name| {
                let claim = self.known.latest(&self.server, name);
                claim.is_some_and(|own| own["metadata"]["deletionTimestamp"].is_null())
            });
            rule(status.is_success() == is_usable, || {
                format!("{} is queued: {}", member.pod.key, status.message())
            })?;
        }
        // The attempt is not one of the history: no pod is requeued by it.
        for command in self.parts.commands.take() {
            if let Command::SetTimer { at, .. } = command {
                self.timer = Some(at);
            }
        }
        Ok(())
    }

    /// Compares the score of a node on which the pod fits.
    fn compare_score(&self, state: &CycleState, pod: &Pod, claims: &[&str], node: &str) -> Checked {
        let Some(score) = &self.plugin.score else { return Ok(()) };
        let ix = self.cluster.node_named(node).expect("the node exists");
        let handle = self.handle();
        let one = score.score(state, pod, &self.cluster.node(ix), &handle);
        let mut together = [0];
        let status = score.score_set(state, pod, &handle, &[ix], &mut together);
        let expected = self.known.score(&self.server, claims, node);
        rule(status.is_ok() && one == Ok(expected) && together == [expected], || {
            format!("{} scores {one:?} and {together:?} on {node}, not {expected}", pod.key)
        })
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
        self.carry_out_commands(None)?;
        let status = match found {
            Ok(statuses) => statuses[usize::from(on_b)].clone(),
            Err(status) => status,
        };
        trace.push(format!("{} is tried on {node}: {}", pod.key, status.message()));
        if !status.is_success() {
            return self.post_filter(place, trace);
        }
        self.compare_score(&state, &pod, &claims, node)?;
        state.end_search();
        let taken = self.known.taken(&self.server);
        let placed = Arc::new(Pod { node_name: Some(node.into()), ..Pod::clone(&pod) });
        if let Some(reserve) = &self.plugin.reserve {
            let status = reserve.reserve(&mut state, &placed, node, &self.handle());
            rule(status.is_success(), || format!("{} is not reserved: {status:?}", pod.key))?;
        }
        let mut all = taken;
        let chosen = self.known.choose(&self.server, &claims, node).unwrap_or_default();
        let mut chosen = chosen.into_iter();
        let allocations = dynamic_resources::reserved_allocations(&state);
        for name in claims {
            let Some(claim) = self.known.latest(&self.server, name) else { continue };
            let devices = allocations.get(name).map(devices_of).unwrap_or_default();
            let expected = match is_allocated(claim) {
                true => 0,
                false => chosen.next().map_or(0, |place| counts_of(claim)[place]),
            };
            let uid = uid_of(claim);
            rule(devices.len() == expected, || format!("{name} is given {devices:?}"))?;
            for device in &devices {
                let is_free = device.split('/').next() == Some(node) && all.insert(device.clone());
                rule(is_free, || format!("{device} on {node} is given to {name}"))?;
            }
            if expected > 0 {
                self.known.in_flight.insert(uid, (pod.uid.clone(), devices));
            }
        }
        // The watch may not show yet what others have done.
        let is_newest = |name: &&str| {
            let [known, newest] =
                [self.known.latest(&self.server, name), self.server.get(CLAIMS, name)];
            known.zip(newest).is_some_and(|(known, newest)| version_of(known) == version_of(newest))
        };
        let excused = !self.members[place].claims.iter().all(is_newest);
        self.members[place].stage = Stage::Binding(Box::new(Attempt {
            state,
            pod: placed,
            node,
            step: Step::Start,
            lost: 0,
            conflicts: 0,
            excused,
            unknown: BTreeMap::new(),
            reserved: BTreeSet::new(),
        }));
        Ok(())
    }

    /// Runs PostFilter, as after an attempt in which no node passed.
    fn post_filter(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        let (pod, claims) = (self.members[place].pod.clone(), self.members[place].claims.clone());
        let (mut state, found) = self.filter(&pod);
        let Ok(statuses) = found else { return Ok(()) };
        if statuses.iter().any(Status::is_success) {
            return Ok(());
        }
        let now = self.parts.now;
        let unavailable = NODES.into_iter().filter(|node| {
            self.known.verdict(&self.server, &claims, node, now) == Verdict::Unavailable
        });
        let unavailable: Vec<_> = unavailable.collect();
        let is_useless = |name: &&&str| {
            let Some(claim) = self.known.latest(&self.server, name) else { return false };
            let is_own = users_of(claim).iter().all(|user| *user == pod.uid.to_string());
            let devices = devices_of(&claim["status"]["allocation"]);
            let is_elsewhere =
                |node: &&str| devices.iter().any(|device| device.split('/').next() != Some(*node));
            let is_failed = are_ready(claim, now).is_err();
            is_allocated(claim)
                && is_own
                && unavailable.iter().any(|node| is_elsewhere(node) || is_failed)
        };
        let expected = claims.iter().find(is_useless).map(|name| (*name).to_owned());
        let mut verdicts = Verdicts::with_len(self.cluster.table_len());
        for (name, status) in NODES.iter().zip(statuses) {
            let node = self.cluster.node_named(name).expect("the node exists");
            verdicts.record(node, status.by(&NAME.into()));
        }
        self.parts.commands.take();
        if let Some(post_filter) = &self.plugin.post_filter {
            let mut dry_run = FakeDryRun::new(&self.cluster, |_| Status::success());
            let handle = self.handle();
            post_filter.post_filter(&mut state, &pod, &verdicts, &mut dry_run, &handle);
        }
        let commands = self.parts.commands.take();
        let freed = commands.iter().find_map(|command| match command {
            Command::Write { write, .. } => Some(write.name.to_string()),
            _ => None,
        });
        trace.push(format!("PostFilter for {} frees {freed:?}", pod.key));
        rule(freed == expected, || {
            format!("PostFilter for {} frees {freed:?} instead of {expected:?}", pod.key)
        })?;
        commands.into_iter().for_each(|command| self.parts.handle(&self.cluster).command(command));
        self.carry_out_commands(Some(trace))
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
        let until = self.parts.now + LONGEST_REQUEST;
        let lost = || Answer::Unknown("no answer".to_owned());
        let answer = match self.random.u32(..20) {
            0 | 1 => {
                self.server.write(&write);
                lost()
            }
            2 | 3 => {
                self.late.push((write.clone(), until));
                lost()
            }
            4 => Answer::Error("refused".to_owned()),
            5 => match self.server.write(&write) {
                Answer::Ok(_) => Answer::ok(),
                other => other,
            },
            _ => self.server.write(&write),
        };
        trace.push(format!("{key} writes {} {}: {answer:?}", write.name, write.body()));
        self.is_precise(&write)?;
        let Stage::Binding(attempt) = &mut self.members[place].stage else { return Ok(()) };
        let is_reservation = write.subresource.is_some();
        let (name, base) = (write.name.to_string(), version_of(write.body()));
        match &answer {
            Answer::Ok(Some(object)) if is_reservation => {
                self.known.answered.insert(uid_of(object), object.clone());
                self.known.in_flight.remove(&uid_of(object));
                attempt.unknown.remove(&name);
                attempt.reserved.insert(name);
            }
            Answer::Ok(None) | Answer::Unknown(_) => {
                attempt.lost += 1;
                if is_reservation {
                    attempt.unknown.insert(name, base);
                }
            }
            Answer::Ok(_) => {}
            Answer::Conflict(_) => attempt.conflicts += 1,
            _ => attempt.excused = true,
        }
        attempt.excused |= attempt.lost >= 3 || attempt.conflicts >= 3;
        self.call(place, PreBindInput::Answer(&answer), trace)
    }

    /// Checks that a write is refused for another claim and, if it changes a status, for another version.
    fn is_precise(&self, write: &Write) -> Checked {
        let metadata = &write.body()["metadata"];
        let names_uid =
            metadata["uid"].is_string() || matches!(write.action, WriteAction::Delete(_));
        let names_version = metadata["resourceVersion"].is_string();
        rule(names_uid && (names_version || write.subresource.is_none()), || {
            format!("a write may change another object: {write:?}")
        })
    }

    /// Calls PreBind for a pod.
    fn call(&mut self, place: usize, input: PreBindInput<'_>, trace: &mut Vec<String>) -> Checked {
        let Self { members, plugin, parts, cluster, .. } = self;
        let member = &mut members[place];
        let (key, claims) = (member.pod.key.clone(), member.claims.clone());
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
        let step = pre_bind.pre_bind(&mut attempt.state, &pod, node, &handle, input);
        let done = match step {
            PreBindStep::Write(write) => {
                let before = claims.iter().take_while(|name| ***name != *write.name);
                let uids = before.filter_map(|name| self.server.shown(CLAIMS, name).map(uid_of));
                for uid in uids {
                    let own = self.known.in_flight.get(&uid);
                    if own.is_some_and(|(owner, _)| *owner == pod.uid) {
                        self.known.in_flight.remove(&uid);
                    }
                }
                attempt.step = Step::Open(write);
                None
            }
            PreBindStep::Wait { timeout, objects } => {
                let (since, until) = first.unwrap_or((now, now + timeout));
                let until = until.min(now + timeout);
                attempt.step = Step::Wait { since, until, objects };
                None
            }
            PreBindStep::Done(status) => Some((status, attempt.excused)),
        };
        self.carry_out_commands(Some(trace))?;
        let Some((status, excused)) = done else { return Ok(()) };
        if status.is_success() {
            trace.push(format!("{key} is bound to {node}"));
            self.known.in_flight.retain(|_, (owner, _)| *owner != pod.uid);
            for name in claims {
                let claim = self.server.get(CLAIMS, name).unwrap_or(&Value::Null);
                let are_ready = are_ready(claim, now) == Ok(true);
                rule(are_ready, || format!("{key} is bound before its devices are ready"))?;
            }
            self.members[place].stage = Stage::Bound(node);
            return Ok(());
        }
        let has_failed = claims.iter().any(|name| {
            let claim = self.known.latest(&self.server, name);
            claim.is_none_or(|claim| are_ready(claim, now).is_err())
        });
        rule(excused || has_failed, || format!("{key} fails: {}", status.message()))?;
        self.fail(place, &status.message(), trace)
    }

    /// Ends an attempt.
    fn fail(&mut self, place: usize, why: &str, trace: &mut Vec<String>) -> Checked {
        let Self { members, plugin, parts, cluster, known, late, .. } = self;
        let member = &mut members[place];
        let stage = std::mem::replace(&mut member.stage, Stage::Pending);
        let Stage::Binding(mut attempt) = stage else {
            member.stage = stage;
            return Ok(());
        };
        trace.push(format!("the attempt of {} ends: {why}", member.pod.key));
        let now = parts.now;
        if let Step::Open(write) = &attempt.step {
            late.push((write.clone(), now + LONGEST_REQUEST));
            if write.subresource.is_some() {
                attempt.unknown.insert(write.name.to_string(), version_of(write.body()));
            }
        }
        for name in &member.claims {
            let Some(uid) = self.server.shown(CLAIMS, name).map(uid_of) else { continue };
            let own = known.in_flight.get(&uid);
            if own.is_none_or(|(owner, _)| *owner != member.pod.uid) {
                continue;
            }
            let Some((_, devices)) = known.in_flight.remove(&uid) else { continue };
            if let Some(version) = attempt.unknown.get(*name) {
                let (version, until) = (*version, now + DOUBT);
                known.in_doubt.insert(uid, Doubt { claim: name, version, until, devices });
            }
        }
        known.in_flight.retain(|_, (owner, _)| *owner != member.pod.uid);
        let Attempt { state, pod, node, .. } = &mut *attempt;
        if let Some(reserve) = &plugin.reserve {
            reserve.unreserve(state, pod, node, &parts.handle(cluster));
        }
        let commands = self.parts.commands.take();
        for name in attempt.reserved.iter().filter(|name| !attempt.unknown.contains_key(*name)) {
            let is_released = commands.iter().any(|command| match command {
                Command::Write { write, .. } => *write.name == **name,
                _ => false,
            });
            rule(is_released, || format!("{name} stays reserved for {}", attempt.pod.key))?;
        }
        commands.into_iter().for_each(|command| self.parts.handle(&self.cluster).command(command));
        self.carry_out_commands(Some(trace))
    }

    /// Carries out the commands of the last call.
    fn carry_out_commands(&mut self, mut trace: Option<&mut Vec<String>>) -> Checked {
        loop {
            let commands = self.parts.commands.take();
            if commands.is_empty() {
                return Ok(());
            }
            for command in commands {
                match command {
                    Command::SetTimer { at, .. } => self.timer = Some(at),
                    Command::ObjectChanged { kind, old, new } => {
                        self.notify(kind, old.as_deref(), new.as_deref());
                    }
                    Command::Write { write, .. } => {
                        self.is_precise(&write)?;
                        let fate = self.random.u8(..4);
                        if let Some(trace) = &mut trace {
                            let body = write.body();
                            trace.push(format!("beside, {} {body}: {fate}", write.name));
                        }
                        match fate {
                            0 => self.late.push((write, self.parts.now + LONGEST_REQUEST)),
                            _ => drop(self.server.write(&write)),
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Asks the hints about a change of an object, and notes the pods that it requeues.
    fn notify(&mut self, kind: EventResource, old: Option<&Value>, new: Option<&Value>) {
        let action = match (old, new) {
            (None, _) => ActionType::ADD,
            (_, None) => ActionType::DELETE,
            _ => ActionType::UPDATE,
        };
        let event = ClusterEvent::new(kind, action);
        let objects = EventObjects::Other { old, new };
        for member in self.members.iter().filter(|own| matches!(own.stage, Stage::Pending)) {
            let registered = self.plugin.events.iter().flatten();
            for registered in registered.filter(|own| own.event.matches(&event)) {
                let queues = registered.hint.as_ref().is_none_or(|hint| {
                    hint(&member.pod, &objects, &self.handle()) != Ok(QueueingHint::Skip)
                });
                if queues {
                    self.woken.insert(member.pod.uid.clone());
                }
            }
        }
    }

    /// Lets the watch show the next version of a claim.
    fn show(&mut self, name: &str, trace: &mut Vec<String>) -> Checked {
        let Some((old, new)) = self.watch(name) else { return Ok(()) };
        let version = new.as_ref().map(version_of);
        trace.push(format!("the watch shows {name} in version {version:?}"));
        self.notify(kind(), old.as_ref(), new.as_ref());
        self.carry_out_commands(Some(trace))?;
        for place in 0..self.members.len() {
            let Stage::Binding(attempt) = &self.members[place].stage else { continue };
            let Step::Wait { objects, .. } = &attempt.step else { continue };
            let key = ObjectKey::namespaced(kind(), "default".into(), name.into());
            if objects.contains(&key) {
                self.call(place, PreBindInput::Changed, trace)?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, name: &str) -> Option<(Option<Value>, Option<Value>)> {
        let (old, new) = self.server.show_next(CLAIMS, name)?;
        self.cluster.set_object(&kind(), "default", name, new.clone().map(Arc::new));
        Some((old, new))
    }

    /// Lets controllers remove users that do not exist, and deallocate a claim without users.
    fn clean_up(&mut self, name: &str, trace: &mut Vec<String>) -> Checked {
        let Some(claim) = self.server.get(CLAIMS, name) else { return Ok(()) };
        let exists = |uid: &str| self.members.iter().any(|own| own.pod.uid.to_string() == *uid);
        let users = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
        let left: Vec<_> = users.iter().filter(|own| exists(&text(&own["uid"]))).cloned().collect();
        let patch = match left.is_empty() {
            true if self.random.bool() => {
                json!({"status": {"allocation": null, "reservedFor": null, "devices": null}})
            }
            _ if users.is_empty() => return Ok(()),
            _ => json!({"status": {"reservedFor": left}}),
        };
        trace.push(format!("controllers clean up {name}: {patch}"));
        self.server.patch(CLAIMS, name, &patch);
        self.excuse(name);
        Ok(())
    }

    /// Deletes a claim that is not in use, or creates one in its place.
    fn replace_claim(&mut self, name: &'static str, trace: &mut Vec<String>) -> Checked {
        match self.server.get(CLAIMS, name) {
            None => {
                trace.push(format!("{name} is created"));
                self.create(name);
            }
            Some(claim) if !is_allocated(claim) && users_of(claim).is_empty() => {
                trace.push(format!("{name} is deleted"));
                self.server.set(CLAIMS, name, None);
                self.excuse(name);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Lets pods that are being bound fail because others have changed their claim.
    fn excuse(&mut self, name: &str) {
        for member in self.members.iter_mut().filter(|own| own.claims.contains(&name)) {
            if let Stage::Binding(attempt) = &mut member.stage {
                attempt.excused = true;
            }
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

    /// Lets the driver report about a device of a claim.
    fn report(&mut self, name: &str, is_broken: bool, trace: &mut Vec<String>) {
        let Some(claim) = self.server.get(CLAIMS, name) else { return };
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        let devices = results.into_iter().flatten().map(|result| {
            let kind = if is_broken { "broken" } else { "ready" };
            let conditions = json!([{"type": "ready", "status": "False"},
                {"type": kind, "status": "True", "reason": "r", "message": "m"}]);
            json!({"driver": result["driver"], "pool": result["pool"],
                "device": result["device"], "conditions": conditions})
        });
        let devices: Value = devices.collect();
        trace.push(format!("the driver says that {name} is broken: {is_broken}"));
        if devices != json!([]) && (claim["status"]["devices"].is_null() || is_broken) {
            self.server.patch(CLAIMS, name, &json!({"status": {"devices": devices}}));
        }
    }

    /// Carries out a request that is late.
    fn carry_out_late(&mut self, trace: &mut Vec<String>) -> Checked {
        if self.late.is_empty() {
            return Ok(());
        }
        let (write, _) = self.late.swap_remove(self.random.usize(..self.late.len()));
        let answer = self.server.write(&write);
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
                attempt.excused |= now.since(*since) >= PATIENCE;
                self.call(place, PreBindInput::Deadline, trace)?;
            }
        }
        Ok(())
    }

    /// Checks what the server has: no device belongs to two claims, and bound pods have theirs.
    fn check_server(&self) -> Checked {
        let mut devices = BTreeSet::new();
        for claim in self.server.all(CLAIMS) {
            for device in devices_of(&claim["status"]["allocation"]) {
                rule(devices.insert(device.clone()), || format!("{device} is allocated twice"))?;
            }
        }
        (0..self.members.len()).try_for_each(|place| self.has_its_devices(place))
    }

    fn has_its_devices(&self, place: usize) -> Checked {
        let Member { pod, claims, stage } = &self.members[place];
        let Stage::Bound(node) = stage else { return Ok(()) };
        for name in claims {
            let claim = self.server.get(CLAIMS, name).unwrap_or(&Value::Null);
            let devices = devices_of(&claim["status"]["allocation"]);
            let is_right = counts_of(claim).contains(&devices.len())
                && devices.iter().all(|device| device.split('/').next() == Some(*node))
                && users_of(claim).contains(&pod.uid.to_string())
                && claim["metadata"]["finalizers"].is_array();
            rule(is_right, || format!("{} is bound to {node} with {claim}", pod.key))?;
        }
        Ok(())
    }

    /// Lets every request have its answer, the watch catch up and the devices be ready: no pod goes on waiting.
    fn calm_down(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push("all calms down".to_owned());
        for _ in 0..60 {
            let before = self.waiting();
            self.woken.clear();
            NAMES.iter().for_each(|name| self.report(name, false, trace));
            while let Some((_, name)) = self.server.lagging() {
                let name = name.to_owned();
                self.show(&name, trace)?;
            }
            for place in 0..self.members.len() {
                self.go_on(place, trace)?;
            }
            self.after_step(&before)?;
        }
        for Member { pod, stage, .. } in &self.members {
            let Stage::Binding(attempt) = stage else { continue };
            let Step::Wait { objects, .. } = &attempt.step else { continue };
            let waits_for_devices = self
                .server
                .all(CLAIMS)
                .any(|claim| is_allocated(claim) && are_ready(claim, self.parts.now) == Ok(false));
            rule(waits_for_devices, || format!("{} goes on waiting for {objects:?}", pod.key))?;
        }
        Ok(())
    }
}
