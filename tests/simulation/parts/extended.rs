//! Extended resources that devices provide: DynamicResources alone, with pods whose containers
//! request some.
//!
//! The model counts the devices of each driver that containers need, from the rules of Kubernetes,
//! and those that are taken: the devices of claims that the watch shows, and those of attempts that
//! it does not show yet. After an attempt has failed, a write may count for a while, and only the
//! safe direction is compared: no device is given twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::{
    Answer, Cluster, Command, CycleState, EventResource, ExtraFields, Handle, ObjectKey, Plugin,
    PluginArgs, PluginGates, Pod, PreBindInput, PreBindStep, Status, Time, Verdicts, Write,
    WriteAction,
};
use plugins::dynamic_resources::{self, NAME};
use serde_json::{Value, json};
use testkit::{FakeDryRun, HandleParts, SetJson, cluster, node};

use super::super::rules::{Checked, rule};
use super::devices::requests::Requests;
use super::filters::{NODES, filter};
use super::server::Server;

const CLAIMS: &str = "resourceclaims";
/// The drivers, each with a class of its name.
const DRIVERS: [&str; 2] = ["gpu", "nic"];
/// The resources, and the classes that provide them.
const RESOURCES: [(&str, Option<&str>); 4] = [
    ("deviceclass.resource.kubernetes.io/gpu", Some("gpu")),
    ("example.com/gpu", Some("gpu")),
    ("example.com/nic", Some("nic")),
    ("example.com/none", None),
];
/// Time for which a write of unknown outcome may count.
const DOUBT: Duration = Duration::from_secs(121);
/// Most devices of a claim.
const MOST_DEVICES: i64 = 32;

/// Lives through one history.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for _ in 0..history.random.usize(15..50) {
        history.step(trace)?;
    }
    history.calm_down(trace)
}

/// A request of a claim: its name, its class and the number of devices.
type Request = (String, &'static str, i64);
/// Which container uses which request for which resource.
type Mapping = (String, String, String);

/// A container that requests extended resources.
struct Container {
    name: String,
    is_long_lived: bool,
    /// The requested amounts, by resource, with those of other resources.
    amounts: BTreeMap<&'static str, i64>,
}

struct Member {
    pod: Arc<Pod>,
    containers: Vec<Container>,
    stage: Stage,
}

enum Stage {
    Pending,
    Binding(Box<Attempt>),
    Bound,
}

struct Attempt {
    state: CycleState,
    /// The pod on its node.
    pod: Arc<Pod>,
    node: &'static str,
    step: Step,
    /// The requests of the current write.
    requests: Requests,
    /// Whether the attempt may fail.
    excused: bool,
    /// The name of the claim, once the plugin knows that it is there.
    created: Option<String>,
}

enum Step {
    Start,
    Open(Write),
    Wait {
        until: Time,
        objects: Vec<ObjectKey>,
    },
    /// The pause before a write is repeated.
    Pause {
        until: Time,
        objects: Vec<ObjectKey>,
        write: Write,
    },
}

struct History<'r> {
    random: &'r mut Rng,
    server: Server,
    cluster: Cluster,
    parts: HandleParts,
    plugin: Plugin,
    is_on: bool,
    members: Vec<Member>,
    pods: u32,
    /// The resources that each node offers itself.
    offered: BTreeSet<(&'static str, &'static str)>,
    /// Number of devices by driver and node.
    devices: BTreeMap<(&'static str, &'static str), i64>,
    /// The devices of pods whose claims the watch does not show as allocated.
    held: BTreeMap<String, BTreeSet<String>>,
    /// Until when a failed attempt may count.
    doubtful_until: Time,
    /// Whether requests fail.
    is_calm: bool,
}

impl<'r> History<'r> {
    fn new(random: &'r mut Rng) -> Self {
        let is_on = random.u8(..10) > 0;
        let gates = PluginGates { extended_resources: is_on, ..PluginGates::default() };
        // One duration in several notations.
        let timeout = ["20s", "0h0m20s", "20000ms", "0.25m5s", "20000000us", "20000000000ns"]
            [random.usize(..6)];
        let args = json!({"filterTimeout": "10s", "bindingTimeout": timeout});
        let plugin = dynamic_resources::plugin(&PluginArgs::new(args).with_gates(gates));
        let mut offered = BTreeSet::new();
        let nodes = NODES.map(|name| {
            let mut built = node(name);
            for (resource, _) in &RESOURCES[1..] {
                if random.u8(..5) == 0 {
                    offered.insert((name, *resource));
                    built = built.allocatable(resource, "9");
                }
            }
            built.build()
        });
        let mut history = Self {
            random,
            server: Server::default(),
            cluster: cluster(nodes, []),
            parts: HandleParts { now: Time::from_secs(1000), ..HandleParts::default() },
            plugin: plugin.expect("the arguments are valid"),
            is_on,
            members: Vec::new(),
            pods: 0,
            offered,
            devices: BTreeMap::new(),
            held: BTreeMap::new(),
            doubtful_until: Time::ZERO,
            is_calm: false,
        };
        history.publish();
        for _ in 0..history.random.usize(2..5) {
            let member = history.member();
            history.members.push(member);
        }
        history
    }

    /// Publishes classes and devices.
    fn publish(&mut self) {
        for driver in DRIVERS {
            let class = json!({"metadata": {"name": driver, "uid": driver}, "spec": {
                "extendedResourceName": format!("example.com/{driver}"),
                "selectors": [{"cel": {"expression": format!("device.driver == '{driver}'")}}]}});
            let kind = EventResource::DeviceClass;
            self.cluster.set_json(&kind, "", driver, Some(Arc::new(class)));
            for node in NODES {
                let count = self.random.i64(0..7);
                self.devices.insert((driver, node), count);
                let devices = (0..count).map(|number| json!({"name": number.to_string()}));
                let name = format!("{driver}-{node}");
                let slice = json!({"metadata": {"name": name, "uid": name}, "spec": {
                    "driver": driver, "nodeName": node, "devices": devices.collect::<Value>(),
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}});
                let kind = EventResource::ResourceSlice;
                self.cluster.set_json(&kind, "", &name, Some(Arc::new(slice)));
            }
        }
    }

    /// Returns a new pod with containers of every kind.
    fn member(&mut self) -> Member {
        self.pods += 1;
        let mut containers = Vec::new();
        let (mut init, mut main) = (Vec::new(), Vec::new());
        let kinds = [self.random.usize(..3), 1 + self.random.usize(..2)];
        for (list, count) in [&mut init, &mut main].into_iter().zip(kinds) {
            for _ in 0..count {
                let name = format!("container{}", containers.len());
                let is_sidecar = containers.len() < kinds[0] && self.random.u8(..3) == 0;
                let mut amounts = BTreeMap::new();
                for ((resource, _), chance) in RESOURCES.into_iter().zip([5, 2, 3, 25]) {
                    if self.random.u8(..chance) == 0 {
                        amounts.insert(resource, self.random.i64(1..4));
                    }
                }
                if self.random.bool() {
                    amounts.insert("cpu", 1);
                }
                let requests = amounts.iter().map(|(name, amount)| (*name, amount.to_string()));
                let requests: BTreeMap<_, _> = requests.collect();
                let mut object = json!({"name": name, "resources": {"requests": requests}});
                if is_sidecar {
                    object["restartPolicy"] = json!("Always");
                }
                list.push(object);
                let is_long_lived = is_sidecar || containers.len() >= kinds[0];
                containers.push(Container { name, is_long_lived, amounts });
            }
        }
        let name = format!("p{}", self.pods);
        let object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
            "spec": {"initContainers": init, "containers": main},
        });
        self.server.set("pods", &name, Some(object.clone()));
        let pod = Pod::from_json(&object, &ExtraFields::default()).expect("it is a pod");
        Member { pod: pod.into(), containers, stage: Stage::Pending }
    }

    fn handle(&self) -> Handle<'_> {
        self.parts.handle(&self.cluster)
    }

    /// Returns the names of the claims that were made for a pod, as the watch shows them.
    fn shown_claims(&self, pod: &Pod) -> BTreeSet<String> {
        let uid = pod.uid.to_string();
        let is_own =
            |name: &&str| self.server.shown(CLAIMS, name).is_some_and(|own| owner_of(own) == uid);
        self.server.names(CLAIMS).filter(is_own).map(str::to_owned).collect()
    }

    /// Returns the devices that are taken, according to the watch or to the server, with those of
    /// attempts.
    fn taken(&self, is_shown: bool) -> BTreeSet<String> {
        let names = self.server.names(CLAIMS);
        let claims = names.filter_map(|name| match is_shown {
            true => self.server.shown(CLAIMS, name),
            false => self.server.get(CLAIMS, name),
        });
        let of_claims = claims.flat_map(devices_of);
        of_claims.chain(self.held.values().flatten().cloned()).collect()
    }

    /// Returns the verdict about a node, if these devices are taken.
    fn verdict(
        &self,
        member: &Member,
        node: &'static str,
        taken: &BTreeSet<String>,
    ) -> &'static str {
        let requested = requested(&member.containers);
        if !self.is_on || requested.iter().all(|resource| class_of(resource).is_none()) {
            return "";
        }
        if !self.shown_claims(&member.pod).is_empty() {
            return "cannot schedule extended resource claim";
        }
        let missing = self.missing(member, node);
        if missing.iter().any(|resource| class_of(resource).is_none()) {
            return "cannot fit resource";
        }
        let (requests, _) = claim_for(&member.containers, &missing);
        let needed = |driver: &str| -> i64 {
            requests
                .iter()
                .filter(|(_, class, _)| *class == driver)
                .map(|(_, _, count)| count)
                .sum()
        };
        let fits = DRIVERS.into_iter().all(|driver| {
            let used = taken.iter().filter(|own| own.starts_with(&format!("{driver}-{node}/")));
            let used = i64::try_from(used.count()).unwrap_or_default();
            needed(driver) <= self.devices[&(driver, node)] - used
        });
        let is_small = DRIVERS.into_iter().map(needed).sum::<i64>() <= MOST_DEVICES;
        if fits && is_small { "" } else { "cannot allocate all claims" }
    }

    /// Returns the requested resources that a node does not offer itself.
    fn missing(&self, member: &Member, node: &'static str) -> BTreeSet<&'static str> {
        let mut missing = requested(&member.containers);
        missing.retain(|resource| !self.offered.contains(&(node, *resource)));
        missing
    }

    fn step(&mut self, trace: &mut Vec<String>) -> Checked {
        // Names of claims contain the time.
        self.parts.now = self.parts.now + Duration::from_millis(1);
        let place = self.random.usize(..self.members.len());
        match self.random.u8(..20) {
            0..4 => self.try_pod(place, trace)?,
            4..14 => self.go_on(place, trace)?,
            14..17 => self.show(trace)?,
            17 => self.end(place, trace),
            18 => {
                let seconds = [1, 5, 130][self.random.usize(..3)];
                self.pass(Duration::from_secs(seconds), trace)?;
            }
            _ if self.random.u8(..3) == 0 => self.fail(place, "others end it", trace)?,
            _ => {}
        }
        self.carry_out_commands();
        self.check_server()?;
        let place = self.random.usize(..self.members.len());
        self.compare(place).map(|_| ())
    }

    /// Compares the verdicts about a pod that waits. Returns the state of its cycle, and what the
    /// plugin answers.
    fn compare(&self, place: usize) -> Result<Option<(CycleState, Vec<Status>)>, String> {
        let member = &self.members[place];
        if !matches!(member.stage, Stage::Pending) {
            return Ok(None);
        }
        let (state, found) = filter(&self.plugin, &member.pod, &self.handle());
        let found = match found {
            Ok(statuses) => statuses.to_vec(),
            Err(status) if status.is_skip() => vec![Status::success(); NODES.len()],
            Err(status) => return Err(format!("{}: {}", member.pod.key, status.message())),
        };
        let (shown, stored) = (self.taken(true), self.taken(false));
        for (node, status) in NODES.into_iter().zip(&found) {
            let message = status.message();
            let possible: &[&BTreeSet<String>] = match self.parts.now < self.doubtful_until {
                true if message.is_empty() => &[&stored],
                true => continue,
                false => &[&shown],
            };
            for taken in possible {
                let expected = self.verdict(member, node, taken);
                rule(expected == message, || {
                    let key = &member.pod.key;
                    format!("{key} on {node}: {message:?} instead of {expected:?} with {taken:?}")
                })?;
            }
        }
        Ok(Some((state, found)))
    }

    fn try_pod(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        let Some((mut state, found)) = self.compare(place)? else { return Ok(()) };
        self.carry_out_commands();
        let pod = self.members[place].pod.clone();
        let fitting = (0..NODES.len()).filter(|number| found[*number].is_success());
        let fitting: Vec<usize> = fitting.collect();
        let Some(on) = self.random.choice(fitting) else {
            trace.push(format!("{} is tried in vain", pod.key));
            return self.post_filter(place, &found, trace);
        };
        let node = NODES[on];
        trace.push(format!("{} is placed on {node}", pod.key));
        state.end_search();
        let placed = Arc::new(Pod { node_name: Some(node.into()), ..Pod::clone(&pod) });
        if let Some(reserve) = &self.plugin.reserve {
            let status = reserve
                .reserve(framework::AttemptMut::new(&mut state, &placed, &self.handle()), node);
            rule(status.is_success(), || format!("{} is not reserved: {status:?}", pod.key))?;
        }
        self.is_rightly_reserved(place, node, &state)?;
        self.members[place].stage = Stage::Binding(Box::new(Attempt {
            state,
            pod: placed,
            node,
            step: Step::Start,
            requests: Requests::first(self.parts.now, 0),
            excused: false,
            created: None,
        }));
        Ok(())
    }

    /// Checks the devices that Reserve has chosen: as many for each request as the model says, all
    /// of them free.
    fn is_rightly_reserved(
        &mut self,
        place: usize,
        node: &'static str,
        state: &CycleState,
    ) -> Checked {
        let member = &self.members[place];
        let key = &member.pod.key;
        let allocations = dynamic_resources::reserved_allocations(state);
        let found = allocations.values().next().unwrap_or(&Value::Null);
        let mut counts = BTreeMap::<String, i64>::new();
        for result in results_of(found) {
            *counts.entry(text(&result["request"])).or_default() += 1;
        }
        let requests = self.expected_claim(member, node).0;
        let expected = requests.iter().map(|(name, _, count)| (name.clone(), *count));
        let expected: BTreeMap<_, _> = expected.collect();
        rule(counts == expected, || format!("{key} is given {counts:?}, not {expected:?}"))?;
        let classes: BTreeMap<_, _> =
            requests.iter().map(|(name, class, _)| (name.as_str(), *class)).collect();
        let taken = self.taken(false);
        let mut devices = BTreeSet::new();
        for result in results_of(found) {
            let name = device_name(result);
            let class = classes.get(&*text(&result["request"])).copied().unwrap_or_default();
            let is_right = name.starts_with(&format!("{class}-{node}/"));
            rule(is_right && !taken.contains(&name) && devices.insert(name.clone()), || {
                format!("{key} on {node} is given {name} for {class}")
            })?;
        }
        if !devices.is_empty() {
            self.held.insert(member.pod.uid.to_string(), devices);
        }
        Ok(())
    }

    /// Returns the requests and mappings of the claim of a pod on a node; none if it needs no
    /// claim.
    fn expected_claim(&self, member: &Member, node: &'static str) -> (Vec<Request>, Vec<Mapping>) {
        match self.is_on {
            true => claim_for(&member.containers, &self.missing(member, node)),
            false => (Vec::new(), Vec::new()),
        }
    }

    /// Runs PostFilter after an attempt in vain: a claim that an earlier attempt has left is
    /// deleted.
    fn post_filter(&mut self, place: usize, found: &[Status], trace: &mut Vec<String>) -> Checked {
        let pod = self.members[place].pod.clone();
        let mut verdicts = Verdicts::with_len(self.cluster.table_len());
        for (name, status) in NODES.iter().zip(found) {
            let node = self.cluster.node_named(name).expect("the node exists");
            verdicts.record(node, status.clone().by(&NAME.into()));
        }
        let left = self.shown_claims(&pod);
        let (mut state, _) = filter(&self.plugin, &pod, &self.handle());
        self.parts.commands.take();
        if let Some(post_filter) = &self.plugin.post_filter {
            let mut dry_run = FakeDryRun::new(&self.cluster, |_| Status::success());
            post_filter.post_filter(
                framework::AttemptMut::new(&mut state, &pod, &self.handle()),
                &verdicts,
                &mut dry_run,
            );
        }
        let written = self.carry_out_commands();
        trace.push(format!("PostFilter writes {written:?}"));
        rule(written.iter().all(|name| left.contains(name)), || {
            format!("PostFilter for {} writes {written:?}, and {left:?} are left", pod.key)
        })?;
        rule(left.is_empty() == written.is_empty(), || {
            format!("PostFilter for {} deletes none of {left:?}", pod.key)
        })?;
        written.iter().try_for_each(|name| self.is_deleted(name))
    }

    fn is_deleted(&self, name: &str) -> Checked {
        rule(self.server.get(CLAIMS, name).is_none(), || format!("{name} is not deleted"))
    }

    /// Carries out the commands of the last call. Returns the names of the written objects.
    fn carry_out_commands(&mut self) -> BTreeSet<String> {
        let commands = self.parts.commands.take();
        let writes = commands.into_iter().filter_map(|command| match command {
            Command::Write { write, .. } => Some(write),
            _ => None,
        });
        let mut names = BTreeSet::new();
        for write in writes {
            self.server.write(&write);
            names.insert(write.name.to_string());
        }
        names
    }

    /// Lets a pod that is being bound go on.
    fn go_on(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        let Stage::Binding(attempt) = &mut self.members[place].stage else { return Ok(()) };
        let write = match &attempt.step {
            Step::Wait { .. } => return Ok(()),
            Step::Pause { until, .. } => {
                let time = until.since(self.parts.now);
                return self.pass(time, trace);
            }
            Step::Start => return self.call(place, PreBindInput::Start, trace),
            Step::Open(write) => write.clone(),
        };
        let fate = if self.is_calm { 20 } else { self.random.u8(..20) };
        let answer = match fate {
            0 | 1 => {
                self.server.write(&write);
                Answer::Unknown("no answer".to_owned())
            }
            2 => Answer::Unknown("no answer".to_owned()),
            3 => Answer::Error("refused".to_owned()),
            4 => match self.server.write(&write) {
                Answer::Ok(_) => Answer::ok(),
                other => other,
            },
            _ => self.server.write(&write),
        };
        let (name, key) = (&write.name, &attempt.pod.key);
        trace.push(format!("{key} writes {name} {}: {answer:?}", write.body()));
        match &answer {
            Answer::Ok(Some(_)) if is_creation(&write) => {
                attempt.created = Some(name.to_string());
            }
            Answer::Ok(_) => {}
            // The claim may be there already.
            Answer::Conflict(_) => {}
            failure => {
                attempt.excused |= attempt.requests.answered(failure, self.parts.now).is_none();
            }
        }
        self.call(place, PreBindInput::Answer(&answer), trace)
    }

    /// Calls PreBind for a pod.
    fn call(&mut self, place: usize, input: PreBindInput<'_>, trace: &mut Vec<String>) -> Checked {
        let Self { members, plugin, parts, cluster, .. } = self;
        let Stage::Binding(attempt) = &mut members[place].stage else { return Ok(()) };
        let Some(pre_bind) = &plugin.pre_bind else { return Ok(()) };
        let (pod, node, now) = (attempt.pod.clone(), attempt.node, parts.now);
        // The write that is to be repeated, and when.
        let pause = match (std::mem::replace(&mut attempt.step, Step::Start), &input) {
            (Step::Open(write), PreBindInput::Answer(answer)) => {
                attempt.requests.answered(answer, now).map(|pause| (now + pause, write))
            }
            (Step::Pause { until, write, .. }, _) => Some((until, write)),
            _ => None,
        };
        let handle = parts.handle(cluster);
        match pre_bind.pre_bind(
            framework::AttemptMut::new(&mut attempt.state, &pod, &handle),
            node,
            input,
        ) {
            PreBindStep::Write(write) => {
                match pause {
                    Some((until, paused)) if until <= now && paused == write => {
                        attempt.requests.repeated();
                    }
                    // A creation whose outcome the watch shows is not repeated, nor is the change
                    // of a claim that has another version.
                    Some((_, paused)) if paused == write => {
                        return Err(format!("{} repeats {write:?} early", pod.key));
                    }
                    _ => attempt.requests = Requests::first(now, 0),
                }
                if *write.resource == *CLAIMS && !is_creation(&write) {
                    attempt.created = Some(write.name.to_string());
                }
                attempt.step = Step::Open(write.clone());
                self.is_right(place, node, &write)
            }
            PreBindStep::Wait { timeout, objects } => {
                let until = now + timeout;
                attempt.step = match pause {
                    Some((end, write)) if until == end => Step::Pause { until, objects, write },
                    _ => Step::Wait { until, objects },
                };
                Ok(())
            }
            PreBindStep::Done(status) if status.is_success() => {
                trace.push(format!("{} is bound to {node}", pod.key));
                self.members[place].stage = Stage::Bound;
                self.is_rightly_bound(place, node)
            }
            PreBindStep::Done(status) => {
                let (excused, text) = (attempt.excused, status.message());
                rule(excused, || format!("{} fails: {text}", pod.key))?;
                self.fail(place, &text, trace)
            }
        }
    }

    /// Checks what a write creates, and what it says about the pod.
    fn is_right(&self, place: usize, node: &'static str, write: &Write) -> Checked {
        let member = &self.members[place];
        let (requests, mut mappings) = self.expected_claim(member, node);
        let (key, body) = (&member.pod.key, write.body());
        if is_creation(write) {
            let expected: Vec<Value> = requests
                .iter()
                .map(|(name, class, count)| {
                    json!({"name": name, "exactly": {"deviceClassName": class,
                        "allocationMode": "ExactCount", "count": count}})
                })
                .collect();
            let found = &body["spec"]["devices"]["requests"];
            let name = text(&body["metadata"]["name"]);
            let annotation = &body["metadata"]["annotations"];
            let is_right = *found == json!(expected)
                && owner_of(body) == member.pod.uid.to_string()
                && name == *write.name
                && name.starts_with(&format!("{}-extended-resources-", key.name))
                && annotation["resource.kubernetes.io/extended-resource-claim"] == "true";
            return rule(is_right, || format!("{key} creates {body} instead of {expected:?}"));
        }
        if &*write.resource != "pods" {
            return Ok(());
        }
        let status = &body["status"]["extendedResourceClaimStatus"];
        let found = status["requestMappings"].as_array().into_iter().flatten();
        let mapping = |own: &Value| {
            (text(&own["containerName"]), text(&own["resourceName"]), text(&own["requestName"]))
        };
        let mut found: Vec<Mapping> = found.map(mapping).collect();
        found.sort();
        mappings.sort();
        rule(found == mappings && body["metadata"]["uid"] == member.pod.uid.to_string(), || {
            format!("{key} has the mappings {found:?} instead of {mappings:?}")
        })
    }

    /// Checks that a pod has the devices that it was given, under the claim that its status names.
    fn is_rightly_bound(&self, place: usize, node: &'static str) -> Checked {
        let member = &self.members[place];
        let (requests, _) = self.expected_claim(member, node);
        if requests.is_empty() {
            return Ok(());
        }
        let pod = self.server.get("pods", &member.pod.key.name).unwrap_or(&Value::Null);
        let name = text(&pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]);
        let claim = self.server.get(CLAIMS, &name).unwrap_or(&Value::Null);
        let count = i64::try_from(devices_of(claim).count()).unwrap_or_default();
        let is_right = count == requests.iter().map(|(_, _, count)| count).sum::<i64>()
            && devices_of(claim).all(|own| own.contains(&format!("-{node}/")))
            && claim["status"]["reservedFor"][0]["uid"] == member.pod.uid.to_string()
            && claim["metadata"]["finalizers"].as_array().is_some_and(|own| !own.is_empty());
        rule(is_right, || format!("{} is bound to {node} with {name}: {claim}", member.pod.key))
    }

    /// Ends an attempt. The open request is carried out or not.
    fn fail(&mut self, place: usize, why: &str, trace: &mut Vec<String>) -> Checked {
        let stage = std::mem::replace(&mut self.members[place].stage, Stage::Pending);
        let Stage::Binding(mut attempt) = stage else {
            self.members[place].stage = stage;
            return Ok(());
        };
        trace.push(format!("the attempt of {} ends: {why}", attempt.pod.key));
        self.held.remove(&attempt.pod.uid.to_string());
        self.doubtful_until = self.parts.now + DOUBT;
        if let Step::Open(write) = &attempt.step
            && self.random.bool()
        {
            self.server.write(write);
        }
        let Attempt { state, pod, node, created, .. } = &mut *attempt;
        if let Some(reserve) = &self.plugin.reserve {
            reserve.unreserve(
                framework::AttemptMut::new(state, pod, &self.parts.handle(&self.cluster)),
                node,
            );
        }
        self.carry_out_commands();
        match created {
            Some(name) => self.is_deleted(name),
            None => Ok(()),
        }
    }

    /// Lets the watch show the next version of a claim.
    fn show(&mut self, trace: &mut Vec<String>) -> Checked {
        let Some((resource, name)) = self.server.any_lagging(self.random) else { return Ok(()) };
        let Some((_, new)) = self.server.show_next(&resource, &name) else { return Ok(()) };
        if resource != CLAIMS {
            return Ok(());
        }
        trace.push(format!("the watch shows {name}: {new:?}"));
        if let Some(claim) = new.as_ref().filter(|own| devices_of(own).next().is_some()) {
            self.release_held(&owner_of(claim), &name);
        }
        let kind = EventResource::ResourceClaim;
        self.cluster.set_json(&kind, "default", &name, new.map(Arc::new));
        let key = ObjectKey::namespaced(kind, "default".into(), name.as_str().into());
        for place in 0..self.members.len() {
            let Stage::Binding(attempt) = &self.members[place].stage else { continue };
            let (Step::Wait { objects, .. } | Step::Pause { objects, .. }) = &attempt.step else {
                continue;
            };
            if objects.contains(&key) {
                self.call(place, PreBindInput::Changed, trace)?;
            }
        }
        Ok(())
    }

    /// Notes that the watch shows the devices of a claim. They may be those of an earlier attempt
    /// of the pod.
    fn release_held(&mut self, pod: &str, claim: &str) {
        let owner = self.members.iter().find(|own| own.pod.uid.to_string() == pod);
        let is_current = owner.is_none_or(|own| match &own.stage {
            Stage::Pending => true,
            Stage::Binding(attempt) => attempt.created.as_deref() == Some(claim),
            Stage::Bound => self.server.get("pods", &own.pod.key.name).is_some_and(|stored| {
                stored["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == *claim
            }),
        });
        if is_current {
            self.held.remove(pod);
        }
    }

    /// Deletes a bound pod and its claim, and creates another pod.
    fn end(&mut self, place: usize, trace: &mut Vec<String>) {
        if !matches!(self.members[place].stage, Stage::Bound) {
            return;
        }
        let pod = self.members[place].pod.clone();
        trace.push(format!("{} ends", pod.key));
        let is_own = |name: &&str| {
            self.server.get(CLAIMS, name).is_some_and(|own| owner_of(own) == pod.uid.to_string())
        };
        let claim = self.server.names(CLAIMS).find(is_own).map(str::to_owned);
        if let Some(name) = claim {
            self.server.set(CLAIMS, &name, None);
        }
        self.members[place] = self.member();
    }

    /// Lets time pass. The watch lags for some seconds only.
    fn pass(&mut self, time: Duration, trace: &mut Vec<String>) -> Checked {
        while time > Duration::from_secs(10) && self.server.lagging().is_some() {
            self.show(trace)?;
        }
        self.parts.now = self.parts.now + time;
        trace.push(format!("it is {}", self.parts.now));
        if let Some(timer) = &self.plugin.timer {
            timer.fire(0, &self.handle());
        }
        self.carry_out_commands();
        for place in 0..self.members.len() {
            let now = self.parts.now;
            let Stage::Binding(attempt) = &mut self.members[place].stage else { continue };
            match &attempt.step {
                Step::Wait { until, .. } if *until <= now => {
                    attempt.excused = true;
                    self.doubtful_until = now + DOUBT;
                }
                Step::Pause { until, .. } if *until <= now => {}
                _ => continue,
            }
            self.call(place, PreBindInput::Deadline, trace)?;
        }
        Ok(())
    }

    /// Lets every request have its answer, and the watch catch up: no pod goes on waiting.
    fn calm_down(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push("all calms down".to_owned());
        self.is_calm = true;
        for _ in 0..12 {
            while self.server.lagging().is_some() {
                self.show(trace)?;
            }
            for place in 0..self.members.len() {
                self.go_on(place, trace)?;
            }
            self.carry_out_commands();
        }
        for Member { pod, stage, .. } in &self.members {
            let is_binding = matches!(stage, Stage::Binding(_));
            rule(!is_binding, || format!("{} goes on waiting", pod.key))?;
        }
        self.pass(DOUBT, trace)?;
        (0..self.members.len()).try_for_each(|place| self.compare(place).map(|_| ()))
    }

    /// Checks that no device belongs to two claims.
    fn check_server(&self) -> Checked {
        let mut devices = BTreeSet::new();
        let mut all = self.server.all(CLAIMS).flat_map(devices_of);
        all.try_for_each(|device| {
            rule(devices.insert(device.clone()), || format!("{device} is allocated twice"))
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn owner_of(claim: &Value) -> String {
    text(&claim["metadata"]["ownerReferences"][0]["uid"])
}

fn results_of(allocation: &Value) -> impl Iterator<Item = &Value> {
    allocation["devices"]["results"].as_array().into_iter().flatten()
}

/// Returns pool and device.
fn device_name(result: &Value) -> String {
    format!("{}/{}", text(&result["pool"]), text(&result["device"]))
}

fn devices_of(claim: &Value) -> impl Iterator<Item = String> {
    results_of(&claim["status"]["allocation"]).map(device_name)
}

fn class_of(resource: &str) -> Option<&'static str> {
    RESOURCES.iter().find(|(name, _)| *name == resource).and_then(|(_, class)| *class)
}

/// Returns the extended resources that the containers request.
fn requested(containers: &[Container]) -> BTreeSet<&'static str> {
    let names = containers.iter().flat_map(|own| own.amounts.keys().copied());
    names.filter(|name| *name != "cpu").collect()
}

/// Returns the claim for these resources. A container that runs as long as the pod has a request of
/// its own. An init container before it uses the same devices; the largest number that one of these
/// lacks is one more request.
fn claim_for(
    containers: &[Container],
    resources: &BTreeSet<&'static str>,
) -> (Vec<Request>, Vec<Mapping>) {
    let (mut requests, mut mappings) = (Vec::new(), Vec::new());
    for resource in resources {
        let Some(class) = class_of(resource) else { continue };
        let request_of = |place: usize| {
            let before = containers[place].amounts.keys().filter(|name| *name < resource).count();
            format!("container-{place}-request-{before}")
        };
        let amount = |place: usize| containers[place].amounts.get(resource).copied().unwrap_or(0);
        let mut add = |container: usize, request: usize| {
            let name = containers[container].name.clone();
            mappings.push((name, (*resource).to_owned(), request_of(request)));
        };
        let users: Vec<usize> = (0..containers.len()).filter(|own| amount(*own) > 0).collect();
        let mut lacking = Vec::new();
        for user in &users {
            if containers[*user].is_long_lived {
                requests.push((request_of(*user), class, amount(*user)));
                add(*user, *user);
                continue;
            }
            let mut lack = amount(*user);
            for later in users.iter().filter(|own| *own > user && containers[**own].is_long_lived) {
                if lack > 0 {
                    add(*user, *later);
                    lack -= amount(*later);
                }
            }
            if lack > 0 {
                lacking.push((*user, lack));
            }
        }
        let most = lacking.iter().map(|(_, lack)| *lack).max();
        if let Some((largest, lack)) = lacking.iter().find(|(_, lack)| Some(*lack) == most) {
            requests.push((request_of(*largest), class, *lack));
            lacking.iter().for_each(|(user, _)| add(*user, *largest));
        }
    }
    requests.sort();
    (requests, mappings)
}

/// Whether a write creates its object.
fn is_creation(write: &Write) -> bool {
    matches!(write.action, WriteAction::Create(_))
}
