//! The scheduler without network and watch caches: engine, dispatcher, event recorder and takeover.
//!
//! A few pods want the room of one or two nodes. Each request is carried out at once, late or
//! never, and answered, refused, or answered in a way that shows nothing, in any order. Users
//! change, delete and replace pods meanwhile, another scheduler binds them to a node that this one
//! does not know, and the process is killed. The rules are about the server: what a request may do
//! when it is carried out, which room is held for requests that may still come, and what is so in
//! the end.

mod plugin;
pub(super) mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{EventRecorder, Options};
use control::scheduler::{Fencing, RequestSource, Scheduler};
use control::{Destination, Method, Reply, Request};
use engine::cycle::Extender;
use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Outcome};
use fastrand::Rng;
use framework::{Time, Uid};
use testkit::node;

use self::plugin::{DOES, NAMES, PERMIT_WAITS, Seen, look};
use self::server::{Bound, NAMESPACE, Server, Stored, Watched, refusal, unclear};
use super::super::rules::{Checked, rule};

/// Number of steps of a history.
const STEPS: usize = 60;
/// The node that only another scheduler knows.
const ELSEWHERE: &str = "elsewhere";
/// Time after which a request of ours is not carried out any more.
const LATEST: Duration = Duration::from_mins(9);
/// The same for a request of an extender.
const LATEST_OF_EXTENDER: Duration = Duration::from_secs(85);
/// Time after which a new process no longer waits for patches that stop requests of its
/// predecessor, in a strict takeover.
const FENCES_END: Duration = Duration::from_mins(1);
/// The same in a bounded takeover, which patches as many pods as there are here.
const BOUNDED_FENCES_END: Duration = Duration::from_millis(750);
/// Time in which everything that can be bound is bound at rest. Pods that no event has helped are
/// tried again after five minutes, which this must not rely on.
const REST: Duration = Duration::from_secs(120);

/// A request that was sent, and may be carried out.
struct Sent {
    source: RequestSource,
    request: Request,
    at: Time,
    /// The number of the process.
    life: u32,
    /// For a bind: the generation that was decided on.
    decided: Option<i64>,
    /// The reply of the server, once it was carried out.
    carried_out: Option<Reply>,
    /// Whether the process has a reply.
    is_answered: bool,
}

struct History {
    server: Server,
    scheduler: Scheduler,
    seen: Arc<Mutex<Seen>>,
    /// Number of CPUs of each node.
    nodes: Vec<u32>,
    extender: Option<bool>,
    fencing: Fencing,
    life: u32,
    began: Time,
    now: Time,
    /// Number of events of the watch that were delivered.
    delivered: usize,
    requests: Vec<Sent>,
    /// The last decision about each pod: the generation and the node.
    decided: BTreeMap<Uid, (i64, String)>,
    /// The text of the last failed attempt of each pod.
    failed: BTreeMap<Uid, String>,
    /// The pods that a request of this life has bound.
    bound_by_us: BTreeSet<String>,
    /// The pods that a request of any life has bound, and their nodes.
    bound: BTreeSet<(String, String)>,
    /// Pods whose status could not be patched in this life, so that earlier requests may be carried
    /// out, or which an earlier life has patched late.
    unpatched: BTreeSet<String>,
    /// Pods whose status patch has conflicted, and which are read next, by path.
    conflicts: BTreeMap<String, String>,
    /// Nodes on which a request was carried out that nothing could stop.
    spoiled: BTreeSet<String>,
    next_uid: u32,
    is_calm: bool,
}

/// Lives through one history.
///
/// # Errors
/// A rule is violated.
pub(crate) fn live(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for _ in 0..STEPS {
        history.step(random, trace)?;
        history.check()?;
    }
    if random.u8(..6) == 0 {
        return history.end(trace);
    }
    history.rest(random, trace)
}

fn new_scheduler(
    nodes: &[u32],
    extender: Option<bool>,
    limits: &Limits,
    seed: u64,
) -> (Scheduler, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut registry = plugins::registry();
    let mut defaults: Vec<PluginRef> = Vec::new();
    for name in ["PrioritySort", "NodeResourcesFit", "DefaultBinder"] {
        defaults.push(PluginRef::new(name, 0));
    }
    for plugin in plugin::plugins(&seen) {
        let name = plugin.name.clone();
        defaults.push(PluginRef::new(&name, 0));
        registry.register(&name, move |_| Ok(plugin.clone())).expect("the names are unique");
    }
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    let profiles = Profiles::build(&[profile], &defaults, &registry, extender.is_some());
    let profiles = profiles.expect("the profile is in order");
    let extenders = extender.into_iter().map(|ignorable| Extender {
        name: "http://x".into(),
        filter: false,
        prioritize: false,
        preempt: false,
        bind: true,
        weight: 0,
        ignorable,
        managed_resources: BTreeSet::new(),
    });
    let extenders = extenders.collect();
    let engine = Engine::new(EngineConfig { seed, extenders, ..EngineConfig::new(profiles) });
    let mut scheduler = Scheduler::new(
        engine,
        ApiDispatcher::new(limits.clone(), seed),
        EventRecorder::new(Options::default(), seed),
    );
    for (number, cpus) in nodes.iter().enumerate() {
        let node = node(&format!("n{number}")).allocatable("cpu", &cpus.to_string()).build();
        scheduler.apply(
            Change::Node(node),
            Time::ZERO,
            &mut Ports { extenders: &mut (), probe: &mut () },
        );
    }
    (scheduler, seen)
}

fn is_status_patch(request: &Request) -> bool {
    request.method == Method::Patch && request.path.ends_with("/status")
}

/// Returns the UID that the request names.
fn uid_in(request: &Request) -> String {
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    body["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Returns a reply for the trace.
fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Answered(response) => format!("{} {}", response.status, response.error_message()),
        other => format!("{other:?}"),
    }
}

impl History {
    fn new(random: &mut Rng) -> Self {
        let nodes: Vec<u32> = (0..random.usize(1..3)).map(|_| random.u32(1..4)).collect();
        let extender = (random.u8(..5) == 0).then(|| random.bool());
        let now = Time::from_secs(1_000_000);
        let fencing = if random.bool() { Fencing::Strict } else { Fencing::default() };
        let (scheduler, seen) = new_scheduler(&nodes, extender, &Limits::default(), random.u64(..));
        let mut history = Self {
            server: Server::default(),
            scheduler,
            seen,
            nodes,
            extender,
            fencing,
            life: 0,
            began: now,
            now,
            delivered: 0,
            requests: Vec::new(),
            decided: BTreeMap::new(),
            failed: BTreeMap::new(),
            bound_by_us: BTreeSet::new(),
            bound: BTreeSet::new(),
            unpatched: BTreeSet::new(),
            conflicts: BTreeMap::new(),
            spoiled: BTreeSet::new(),
            next_uid: 0,
            is_calm: false,
        };
        for number in 0..random.u32(1..4) {
            history.create(&format!("p{number}"), random);
        }
        history.begin();
        history
    }

    /// A process begins: it lists everything.
    fn begin(&mut self) {
        self.began = self.now;
        self.scheduler.set_fencing(self.fencing);
        self.delivered = self.server.watch.len();
        let pods: Vec<Stored> = self.server.pods.values().cloned().collect();
        for pod in pods {
            self.apply(Change::Pod(Box::new(pod.to_pod())));
        }
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.scheduler.set_synced(self.now, ports);
    }

    fn apply(&mut self, change: Change) {
        self.scheduler.apply(change, self.now, &mut Ports { extenders: &mut (), probe: &mut () });
    }

    fn create(&mut self, name: &str, random: &mut Rng) {
        self.next_uid += 1;
        self.server.store(Stored {
            name: name.to_owned(),
            uid: format!("u{}", self.next_uid),
            version: 0,
            generation: 1,
            cpu: random.u32(1..3),
            does: if random.bool() { "nothing" } else { DOES[random.usize(..DOES.len())] },
            node: None,
            is_gated: false,
            is_deleting: false,
            is_annotated: false,
            mark: 0,
            conditions: BTreeMap::new(),
            nominated: None,
        });
    }

    fn step(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        let open: Vec<usize> = (0..self.requests.len()).collect();
        match random.u8(..32) {
            0..8 => self.schedule(trace)?,
            8..15 => self.deliver(random.usize(1..4), trace),
            15..21 if !open.is_empty() => {
                let number = open[random.usize(..open.len())];
                self.happens_to(number, random, trace)?;
            }
            21..24 => self.users_act(random, trace),
            24 if random.u8(..4) == 0 => self.is_killed(random, trace),
            _ => {
                let next = self.scheduler.next_deadline().filter(|_| random.u8(..4) > 0);
                let wait = Duration::from_millis([50, 400, 2500, 31_000][random.usize(..4)]);
                let wait = next.map_or(wait, |next| next.since(self.now));
                self.wait(wait.min(Duration::from_secs(40)), trace);
            }
        }
        self.take_requests(random, trace)
    }

    fn schedule(&mut self, trace: &mut Vec<String>) -> Checked {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let Some(attempt) = self.scheduler.schedule_one(self.now, ports) else { return Ok(()) };
        trace.push(format!("{:?}: {} is tried: {:?}", self.now, attempt.pod.key, attempt.outcome));
        let uid = attempt.pod.uid.clone();
        if let Outcome::Error(text) = &attempt.outcome {
            rule(text.contains("PreBindPreFlight"), || format!("no plugin fails, but {text}"))?;
        }
        self.spoil_unknown();
        match attempt.outcome {
            Outcome::Assumed(node) => {
                self.decided.insert(uid, (attempt.pod.generation.into(), node.to_string()));
            }
            Outcome::Unschedulable(text) | Outcome::Repeated(text) | Outcome::Error(text) => {
                self.failed.insert(uid, text);
            }
            Outcome::Skipped => {}
        }
        let given_up = !self.waits_for_fences();
        let earlier = self.requests.iter().filter(|sent| sent.life < self.life);
        for sent in earlier {
            if let Some((pod, node)) = self.server.would_bind(&sent.request)
                && sent.request.destination == Destination::ApiServer
            {
                let is_excused =
                    given_up || self.unpatched.contains(&pod.uid) || !self.is_due(sent);
                rule(is_excused, || {
                    format!(
                        "a pod is tried, and {} may yet be bound to {node} by an earlier process",
                        pod.name
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Whether the process may still wait for patches that stop requests of an earlier one.
    fn waits_for_fences(&self) -> bool {
        self.now.since(self.began) < self.fences_end()
    }

    fn fences_end(&self) -> Duration {
        if self.fencing == Fencing::Strict { FENCES_END } else { BOUNDED_FENCES_END }
    }

    /// Spoils the nodes of pods that an earlier process has bound without the knowledge of this
    /// one, which no longer waits for the patch that would have shown it, nor for the watch. A
    /// bounded takeover does not wait for the watch for longer than for the patch.
    fn spoil_unknown(&mut self) {
        if self.waits_for_fences() {
            return;
        }
        for watched in &self.server.watch[self.delivered..] {
            if let Watched::Is(Stored { name, uid, node: Some(node), .. }) = watched
                && !self.bound_by_us.contains(uid)
                && (self.fencing != Fencing::Strict || self.is_asked(name))
            {
                self.spoiled.insert(node.clone());
            }
        }
    }

    /// Whether a request of this life about the pod has no answer.
    fn is_asked(&self, name: &str) -> bool {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
        let open = self.requests.iter().filter(|sent| sent.life == self.life && !sent.is_answered);
        open.map(|sent| sent.request.path.trim_end_matches("/status")).any(|own| own == path)
    }

    /// Whether the request may still be carried out.
    fn is_due(&self, sent: &Sent) -> bool {
        let latest = match sent.request.destination {
            Destination::ApiServer => LATEST,
            Destination::Extender(_) => LATEST_OF_EXTENDER,
        };
        sent.carried_out.is_none() && self.now.since(sent.at) < latest
    }

    fn deliver(&mut self, count: usize, trace: &mut Vec<String>) {
        for _ in 0..count {
            let Some(watched) = self.server.watch.get(self.delivered).cloned() else { return };
            self.delivered += 1;
            let change = match watched {
                Watched::Is(pod) => {
                    trace.push(format!("{:?}: the watch shows {pod:?}", self.now));
                    Change::Pod(Box::new(pod.to_pod()))
                }
                Watched::Gone(key, uid) => {
                    trace.push(format!("{:?}: the watch shows the end of {key} {uid}", self.now));
                    Change::PodDeleted { key, uid: (&*uid).into() }
                }
            };
            self.apply(change);
        }
    }

    fn wait(&mut self, wait: Duration, trace: &mut Vec<String>) {
        self.now = self.now + wait;
        trace.push(format!("{:?}: after {wait:?}", self.now));
        self.scheduler.tick(self.now, &mut Ports { extenders: &mut (), probe: &mut () });
        let now = self.now;
        self.requests.retain(|sent| !sent.is_answered || now.since(sent.at) < LATEST);
    }

    /// Users change, delete, replace and gate pods, and another scheduler binds them.
    fn users_act(&mut self, random: &mut Rng, trace: &mut Vec<String>) {
        let name = format!("p{}", random.u8(..3));
        trace.push(format!("{:?}: a user acts on {name}", self.now));
        let Some(pod) = self.server.pods.get(&name).cloned() else {
            return self.create(&name, random);
        };
        let is_pending = pod.node.is_none() && !pod.is_deleting;
        let is_protected = self.extender.is_none();
        match random.u8(..10) {
            0 | 1 => self.server.delete(&name),
            2 => {
                self.server.delete(&name);
                self.create(&name, random);
            }
            3 => self.server.store(Stored { is_deleting: true, ..pod }),
            4..6 if is_pending && is_protected => {
                let (cpu, generation) = (3 - pod.cpu, pod.generation + 1);
                self.server.store(Stored { cpu, generation, ..pod });
            }
            6 if is_pending && is_protected => {
                self.server.bind(&name, ELSEWHERE.to_owned());
            }
            _ => self.server.store(Stored { mark: pod.mark + 1, ..pod }),
        }
    }

    /// The process is killed, and another one begins. Requests that are under way stay so.
    fn is_killed(&mut self, random: &mut Rng, trace: &mut Vec<String>) {
        trace.push(format!("{:?}: the process is killed", self.now));
        self.life += 1;
        (self.scheduler, self.seen) =
            new_scheduler(&self.nodes, self.extender, &Limits::default(), random.u64(..));
        for sent in &mut self.requests {
            sent.is_answered = true;
        }
        self.decided.clear();
        self.failed.clear();
        self.bound_by_us.clear();
        self.unpatched.clear();
        self.conflicts.clear();
        self.begin();
    }

    fn take_requests(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        let requests: Vec<_> = self.scheduler.take_requests().collect();
        for (source, request) in requests {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            trace.push(format!(
                "{:?}: {} {} {body}",
                self.now,
                request.method.as_str(),
                request.path
            ));
            let decided = self.is_decided(&request)?;
            let is_event = source == RequestSource::EventRecorder;
            let (life, at) = (self.life, self.now);
            self.requests.push(Sent {
                source,
                request,
                at,
                life,
                decided,
                carried_out: None,
                is_answered: false,
            });
            // Most requests have no trouble.
            let number = self.requests.len() - 1;
            if is_event || self.is_calm || random.u8(..8) < 3 {
                self.carry_out(number)?;
                if is_event || random.bool() {
                    self.answer(number, None, trace);
                    self.take_requests(random, trace)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that a bind is the last decision about its pod. Returns the generation that was
    /// decided on.
    fn is_decided(&self, request: &Request) -> Result<Option<i64>, String> {
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let (uid, node) = match request.destination {
            Destination::Extender(_) => (&body["PodUID"], &body["Node"]),
            Destination::ApiServer if request.path.ends_with("/binding") => {
                (&body["metadata"]["uid"], &body["target"]["name"])
            }
            Destination::ApiServer => return Ok(None),
        };
        let uid: Uid = uid.as_str().unwrap_or_default().into();
        let (generation, decided) =
            self.decided.get(&uid).ok_or("a pod is bound that was not decided on")?;
        rule(node == decided, || format!("{uid} is bound to {node}, not to {decided}"))?;
        Ok(Some(*generation))
    }

    /// Something happens to a request: it is carried out, answered, refused, or answered in a way
    /// that shows nothing.
    fn happens_to(&mut self, number: usize, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        let sent = &self.requests[number];
        let is_carried_out = sent.carried_out.is_some();
        if sent.is_answered || random.u8(..5) < 2 && !is_carried_out {
            trace.push(format!(
                "{:?}: {} {} is carried out",
                self.now,
                sent.request.method.as_str(),
                sent.request.path
            ));
            return self.carry_out(number);
        }
        let is_bind = sent.request.path.ends_with("/binding");
        let is_extender = matches!(sent.request.destination, Destination::Extender(_));
        let drawn = random.usize(..12);
        let reply = match drawn {
            _ if is_carried_out && random.u8(..4) > 0 => None,
            0..4 if !is_carried_out && !is_extender => {
                Some(refusal(drawn + random.usize(..6), sent.request.method))
            }
            4 if !is_carried_out && is_extender => Some(Reply::Rejected("code 500".to_owned())),
            4..6 if !is_carried_out => Some(Reply::NotSent("connection refused".to_owned())),
            _ if is_extender => Some(Reply::Lost("connection reset".to_owned())),
            _ => Some(unclear(drawn, is_bind)),
        };
        self.answer(number, reply, trace);
        Ok(())
    }

    /// Carries out a request, if that may still happen.
    fn carry_out(&mut self, number: usize) -> Checked {
        let sent = &self.requests[number];
        if !self.is_due(sent) {
            return Ok(());
        }
        let (is_ours, decided, request) =
            (sent.life == self.life, sent.decided, sent.request.clone());
        let (response, bound) = self.server.serve(&request);
        if !is_ours && !self.waits_for_fences() && is_status_patch(&request) {
            self.unpatched.insert(uid_in(&request));
        }
        self.requests[number].carried_out = Some(Reply::Answered(response));
        let Some(Bound { uid, node, generation }) = bound else { return Ok(()) };
        self.bound.insert((uid.clone(), node.clone()));
        if is_ours {
            self.bound_by_us.insert(uid.clone());
        } else if request.destination != Destination::ApiServer
            || self.unpatched.contains(&uid)
            || !self.waits_for_fences()
        {
            self.spoiled.insert(node.clone());
        }
        let is_protected = request.destination == Destination::ApiServer;
        rule(!is_protected || decided == Some(generation), || {
            format!("{uid} is bound in generation {generation}, decided on {decided:?}")
        })?;
        self.has_room(&node)
    }

    /// A node is not overcommitted.
    fn has_room(&self, node: &str) -> Checked {
        let number: usize = node.trim_start_matches('n').parse().unwrap_or(usize::MAX);
        let (used, cpus) = (self.server.used(node), self.nodes.get(number).copied().unwrap_or(0));
        rule(used <= cpus || self.spoiled.contains(node), || {
            format!("pods on {node} use {used} of {cpus} CPUs")
        })
    }

    /// The process gets a reply: that of the server, unless another one is given.
    fn answer(&mut self, number: usize, reply: Option<Reply>, trace: &mut Vec<String>) {
        let sent = &mut self.requests[number];
        if sent.is_answered {
            return;
        }
        let shows_all = reply.is_none();
        let is_refused = matches!(&reply, Some(Reply::NotSent(_) | Reply::Rejected(_)))
            || matches!(&reply, Some(Reply::Answered(response)) if [403, 404, 429, 503].contains(&response.status)
                || response.error_message().contains("webhook"));
        let reply = reply.or_else(|| sent.carried_out.clone());
        let Some(reply) = reply else { return };
        sent.is_answered = true;
        let request = &sent.request;
        let path = request.path.trim_end_matches("/status").to_owned();
        if is_status_patch(request) {
            let uid = uid_in(request);
            match &reply {
                _ if !shows_all => self.unpatched.insert(uid),
                Reply::Answered(response) if response.status == 409 => {
                    self.conflicts.insert(path, uid).is_some()
                }
                _ => self.conflicts.remove(&path).is_some(),
            };
        } else if request.method == Method::Get
            && let Some(uid) = self.conflicts.remove(&path)
            && !shows_all
        {
            self.unpatched.insert(uid);
        }
        trace.push(format!(
            "{:?}: {} {} is answered: {}",
            self.now,
            sent.request.method.as_str(),
            sent.request.path,
            shown(&reply)
        ));
        let (source, id) = (sent.source, sent.request.id);
        if is_refused || shows_all {
            // A request that was refused or answered is not under way any more.
            self.requests.remove(number);
        }
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.scheduler.handle_reply(source, id, reply, self.now, ports);
    }

    /// Checks what holds at all times.
    fn check(&mut self) -> Checked {
        let mut violations = std::mem::take(&mut self.server.violations);
        violations.append(&mut look(&self.seen).violations);
        if let Some(violation) = violations.pop() {
            return Err(violation);
        }
        let _ = (self.scheduler.take_events(), self.scheduler.take_failed_calls().count());
        for relist in self.scheduler.take_relists() {
            self.deliver(usize::MAX, &mut Vec::new());
            self.scheduler.handle_relisted(relist);
        }
        self.room_is_kept()?;
        self.waits_end()
    }

    /// A pod keeps its room on a node while a request may bind it there.
    fn room_is_kept(&self) -> Checked {
        let world = self.scheduler.engine().world();
        for sent in self.requests.iter().filter(|sent| sent.life == self.life && self.is_due(sent))
        {
            let Some((pod, node)) = self.server.would_bind(&sent.request) else { continue };
            let placed = world.placed(&(&*pod.uid).into());
            let has_room =
                placed.is_some_and(|placed| **world.cluster().node_name(placed.node) == *node);
            rule(has_room, || {
                format!("{} may be bound to {node}, and has no room there", pod.name)
            })?;
        }
        Ok(())
    }

    /// No pod waits longer than a plugin says.
    fn waits_end(&self) -> Checked {
        let engine = self.scheduler.engine();
        let listed = engine.waiting_pods().values().count();
        let permit = engine.binding_phases().permit;
        rule(listed == permit, || format!("{listed} pods are listed as waiting, not {permit}"))?;
        for waiting in engine.waiting_pods().values() {
            for (plugin, end) in &waiting.pending {
                let timeout = PERMIT_WAITS[usize::from(**plugin == *NAMES[1])];
                let (is, until) = (*end, waiting.since + timeout);
                rule(is == until && is > self.now, || {
                    format!(
                        "{} waits for {plugin} until {is:?} instead of {until:?}, and it is {:?}",
                        waiting.pod.key, self.now
                    )
                })?;
            }
        }
        let seen = look(&self.seen);
        let late = seen.waits.iter().find(|(_, until)| **until <= self.now);
        rule(late.is_none(), || {
            format!("the wait in PreBind has ended: {late:?}, and it is {:?}", self.now)
        })
    }

    /// The process is asked to end: it sends nothing new, and ends with the last answer.
    fn end(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push(format!("{:?}: the process is asked to end", self.now));
        self.scheduler.stop(self.now);
        for _ in 0..100 {
            let new: Vec<_> = self.scheduler.take_requests().collect();
            let call = new.iter().find(|(source, _)| *source == RequestSource::ApiDispatcher);
            rule(call.is_none(), || format!("after the end: {call:?}"))?;
            let is_ours = |sent: &Sent| {
                sent.life == self.life
                    && !sent.is_answered
                    && sent.source == RequestSource::ApiDispatcher
            };
            let Some(number) = self.requests.iter().position(is_ours) else { break };
            rule(self.scheduler.outcome().is_none(), || {
                "ends while a request is under way".to_owned()
            })?;
            let reply = if number.is_multiple_of(2) {
                Reply::NotSent("refused".into())
            } else {
                Reply::Lost("lost".into())
            };
            self.answer(number, Some(reply), trace);
            self.wait(Duration::from_secs(1), trace);
            self.schedule(trace)?;
        }
        rule(self.scheduler.outcome().is_some(), || "does not end".to_owned())
    }

    /// Nothing goes wrong any more.
    fn rest(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        trace.push(format!("{:?}: rest", self.now));
        self.is_calm = true;
        let life = self.life;
        self.requests.retain(|sent| sent.life == life && !sent.is_answered);
        let pods = self.server.pods.values();
        let going: Vec<String> =
            pods.filter(|pod| pod.is_deleting).map(|pod| pod.name.clone()).collect();
        going.iter().for_each(|name| self.server.delete(name));
        let end = self.now + REST;
        for _ in 0..2000 {
            while let Some(number) = self.requests.iter().position(|sent| !sent.is_answered) {
                self.carry_out(number)?;
                let is_lost = self.requests[number].carried_out.is_none();
                self.answer(number, is_lost.then(|| Reply::Lost("lost".to_owned())), trace);
                self.take_requests(random, trace)?;
                self.check()?;
            }
            let before = (trace.len(), self.delivered);
            self.deliver(usize::MAX, trace);
            self.schedule(trace)?;
            self.take_requests(random, trace)?;
            self.check()?;
            if before != (trace.len(), self.delivered) {
                continue;
            }
            match self.scheduler.next_deadline() {
                Some(next) if next < end => self.wait(next.since(self.now), trace),
                _ => return self.is_right(),
            }
            self.take_requests(random, trace)?;
            self.check()?;
        }
        Err("no rest".to_owned())
    }

    /// Checks the end of a history.
    fn is_right(&self) -> Checked {
        let engine = self.scheduler.engine();
        let world = engine.world();
        let left = (
            engine.binding_count(),
            self.scheduler.api_dispatcher().unfinished(),
            world.assumed_count(),
        );
        rule(left == (0, 0, 0), || {
            format!("binding cycles, calls and assumed pods are left: {left:?}")
        })?;
        rule(self.scheduler.hold(self.now).is_none(), || {
            format!("{:?}", self.scheduler.hold(self.now))
        })?;
        for pod in self.server.pods.values() {
            let uid: Uid = (&*pod.uid).into();
            let placed =
                world.placed(&uid).map(|placed| world.cluster().node_name(placed.node).to_string());
            let known = pod.node.clone().filter(|node| node != ELSEWHERE);
            rule(placed == known || pod.node.as_deref() == Some(ELSEWHERE), || {
                format!("{} is on {placed:?} according to the scheduler", pod.name)
            })?;
            match &pod.node {
                Some(node) => self.is_bound_once(pod, node)?,
                None if pod.is_deleting || pod.is_gated => {}
                None => self.is_explained(pod)?,
            }
        }
        let seen = look(&self.seen);
        let mut reserved = seen.reserved.iter();
        let lost =
            reserved.find(|(uid, node)| !self.bound.contains(&(uid.to_string(), node.to_string())));
        rule(lost.is_none(), || format!("a node is reserved for {lost:?}, which was not bound"))
    }

    /// A pod that we bound has one event that says so, and PostBind ran once. A pod that others
    /// have bound has none.
    fn is_bound_once(&self, pod: &Stored, node: &str) -> Checked {
        let is_ours = self.bound_by_us.contains(&pod.uid);
        let note = format!("Successfully assigned {NAMESPACE}/{} to {node}", pod.name);
        let events = self.server.events.values();
        let of_pod = events.filter(|event| event["regarding"]["uid"] == pod.uid.as_str());
        let scheduled = of_pod.filter(|event| event["reason"] == "Scheduled");
        let notes: Vec<_> = scheduled.map(|event| event["note"].clone()).collect();
        let seen = look(&self.seen);
        let uid: Uid = (&*pod.uid).into();
        let post_binds = seen.bound.get(&uid).copied().unwrap_or(0);
        if !is_ours {
            let is_same = self.decided.get(&uid).is_some_and(|(_, decided)| decided == node);
            return rule(post_binds == 0 || is_same, || {
                format!("{} was bound by others, and PostBind ran", pod.name)
            });
        }
        rule(notes == [note.as_str()] && post_binds == 1, || {
            format!(
                "{} is bound to {node}: events {notes:?}, PostBind ran {post_binds} times",
                pod.name
            )
        })?;
        let reserved = seen.reserved.get(&uid);
        rule(reserved.is_some_and(|reserved| reserved == node), || {
            format!("{} has {reserved:?} reserved", pod.name)
        })
    }

    /// A pod that is not bound fits nowhere, says so, and has no nomination.
    fn is_explained(&self, pod: &Stored) -> Checked {
        for (number, cpus) in self.nodes.iter().enumerate() {
            let used = self.server.used(&format!("n{number}"));
            rule(used + pod.cpu > *cpus, || {
                format!("{} fits on n{number}, and is not bound", pod.name)
            })?;
        }
        if self.unpatched.contains(&pod.uid) {
            return Ok(());
        }
        rule(pod.nominated.is_none(), || {
            format!("{} is nominated to {:?}", pod.name, pod.nominated)
        })?;
        let condition = pod.conditions.get("PodScheduled").cloned().unwrap_or_default();
        let text = self.failed.get(&(&*pod.uid).into());
        let says = (&condition["status"], &condition["reason"], condition["message"].as_str());
        rule(says == (&"False".into(), &"Unschedulable".into(), text.map(String::as_str)), || {
            format!("{} says {says:?}, and failed with {text:?}", pod.name)
        })
    }
}
