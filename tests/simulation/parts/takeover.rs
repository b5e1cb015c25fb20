//! A standby that takes over from a leader that is killed or gives up the Lease, with caches that
//! lag.
//!
//! The leader before is a list of binds that are under way. The watch of the standby is late or
//! falls silent, lists take long or hang, and its patches are carried out late, refused or lost.
//! The rules are about the first decisions of the new leader: what it knows then, and which binds
//! may still be carried out; and that they come in time. A bounded takeover chooses few pods to
//! fence first. The rules choose them, too, and allow late binds of all others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{EventRecorder, Options};
use control::leader_election::{LeaderElector, Outcome};
use control::scheduler::{
    FenceLimits, Fencing, LeaderElection, Relist, RequestSource, Scheduler, TakeoverNotice,
};
use control::{Destination, Method, Reply, Request};
use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig};
use fastrand::Rng;
use framework::Time;
use serde_json::{Value, json};
use testkit::node;

use super::super::rules::{Checked, rule};
use super::election::{Store, config};
use super::scheduler::server::{Server, Stored, Watched};

/// Number of steps of a history.
const STEPS: usize = 40;
/// Time after which a leader does not wait for patches any more that stop binds, in a strict
/// takeover.
const FENCES_END: Duration = Duration::from_mins(1);
/// The same in a bounded takeover, from the choice of the pods on.
const BOUNDED_FENCES_END: Duration = Duration::from_millis(750);
/// Time after which it does not wait for lists of other kinds than pods.
const LISTS_END: Duration = Duration::from_mins(2);
/// Time at rest in which the standby leads and decides.
const REST: Duration = Duration::from_mins(4);
const CPUS: u32 = 3;

/// A bind of the leader before.
struct Bind {
    uid: String,
    version: u64,
    node: String,
}

/// A request of the standby.
struct Sent {
    source: RequestSource,
    request: Request,
    /// The reply of the server, once the request was carried out.
    carried_out: Option<Reply>,
}

/// The pods that are fenced before the first decision of a bounded takeover.
struct Chosen {
    at: Time,
    uids: BTreeSet<String>,
}

struct History {
    server: Server,
    lease: Store,
    fencing: Fencing,
    chosen: Option<Chosen>,
    /// A rule about the choice that is violated.
    broken: Option<String>,
    /// The newest version that a patch of the standby has made, as far as it knows.
    own_write: u64,
    scheduler: Scheduler,
    now: Time,
    /// The binds of the leader before that are under way.
    binds: Vec<Bind>,
    /// Number of events of the watch that were delivered.
    delivered: usize,
    is_silent: bool,
    /// The lists that were asked for and have not ended; lists of other kinds may never do.
    lists: Vec<Relist>,
    lists_hang: bool,
    sent: Vec<Sent>,
    /// The time of the takeover, and number of events of the watch until then.
    took_over: Option<(Time, usize)>,
    has_listed: bool,
    /// Pods whose patch was refused or lost.
    unpatched: BTreeSet<String>,
    /// Nodes to which a bind came that nothing has stopped.
    spoiled: BTreeSet<String>,
    /// Whether no request for the Lease is answered any more.
    is_cut_off: bool,
    next_uid: u32,
}

/// Lives through one history.
///
/// # Errors
/// A rule is violated.
pub(super) fn live(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for _ in 0..random.usize(3..15) {
        match random.u8(..4) {
            0 => history.deliver(1, trace),
            1 => history.users_act(random, trace),
            _ => history.lead(random, trace)?,
        }
    }
    if history.binds.is_empty() && random.bool() {
        trace.push("the leader gives the Lease up".to_owned());
        history.write_lease("");
    }
    history.is_not_led(random, trace)?;
    for _ in 0..STEPS {
        history.step(random, trace)?;
    }
    match random.u8(..4) {
        0 => history.end(trace),
        1 => history.lose(trace),
        _ => history.rest(random, trace),
    }
}

fn new_scheduler(random: &mut Rng) -> Scheduler {
    let names = ["PrioritySort", "NodeResourcesFit", "DefaultBinder"];
    let defaults = names.map(|name| PluginRef::new(name, 0));
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    let profiles = Profiles::build(&[profile], &defaults, &plugins::registry(), false);
    let profiles = profiles.expect("the profile is in order");
    let seed = random.u64(..);
    let engine = Engine::new(EngineConfig { seed, ..EngineConfig::new(profiles) });
    let election = LeaderElection {
        elector: LeaderElector::new(config("standby"), seed).expect("the settings are safe"),
        reporting_controller: "default-scheduler".into(),
        delay_cache_until_active: false,
    };
    let scheduler = Scheduler::new(
        engine,
        ApiDispatcher::new(Limits::default(), seed),
        EventRecorder::new(Options::default(), seed),
    );
    scheduler.with_leader_election(election)
}

fn new_fencing(random: &mut Rng) -> Fencing {
    let limits = FenceLimits { first: random.usize(1..5), most: random.usize(1..7), one_in: 1 };
    if random.u8(..3) == 0 { Fencing::Strict } else { Fencing::Bounded(limits) }
}

impl History {
    fn new(random: &mut Rng) -> Self {
        let fencing = new_fencing(random);
        let mut scheduler = new_scheduler(random);
        scheduler.set_fencing(fencing);
        let mut history = Self {
            server: Server::default(),
            lease: Store::default(),
            fencing,
            chosen: None,
            broken: None,
            own_write: 0,
            scheduler,
            now: Time::from_secs(1_000_000),
            binds: Vec::new(),
            delivered: 0,
            is_silent: false,
            lists: Vec::new(),
            lists_hang: random.u8(..3) == 0,
            sent: Vec::new(),
            took_over: None,
            has_listed: false,
            unpatched: BTreeSet::new(),
            spoiled: BTreeSet::new(),
            is_cut_off: false,
            next_uid: 0,
        };
        for name in ["n0", "n1"] {
            let node = node(name).allocatable("cpu", &CPUS.to_string()).build();
            history.apply(Change::Node(node));
        }
        for number in 0..random.u8(1..5) {
            history.create(&format!("p{number}"), random);
        }
        history.write_lease("leader");
        if random.u8(..4) > 0 {
            history.has_synced();
        }
        history
    }

    /// The informers have listed everything.
    fn has_synced(&mut self) {
        self.deliver(usize::MAX, &mut Vec::new());
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.scheduler.set_synced(self.now, ports);
    }

    fn apply(&mut self, change: Change) {
        self.scheduler.apply(change, self.now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.look();
    }

    fn create(&mut self, name: &str, random: &mut Rng) {
        self.next_uid += 1;
        self.server.store(Stored {
            name: name.to_owned(),
            uid: format!("u{}", self.next_uid),
            version: 0,
            generation: 1,
            cpu: random.u32(1..3),
            does: "nothing",
            node: None,
            is_gated: false,
            is_deleting: false,
            is_annotated: false,
            mark: 0,
            conditions: BTreeMap::new(),
            nominated: None,
        });
    }

    /// The leader before writes the Lease: with its name to renew it, and with none to give it up.
    fn write_lease(&mut self, holder: &str) {
        self.lease.version += 1;
        let version = self.lease.version.to_string();
        let metadata = json!({ "name": "loadmaster", "namespace": "kube-system", "uid": "u1", "resourceVersion": version });
        self.lease.lease = Some(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": version },
        }));
    }

    fn step(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        match random.u8(..32) {
            0..2 => self.deliver(1, trace),
            2..11 if !self.sent.is_empty() => {
                self.happens_to(random.usize(..self.sent.len()), random, trace)?;
            }
            11..14 if !self.binds.is_empty() => {
                let bind = self.binds.remove(random.usize(..self.binds.len()));
                self.carry_out(&bind, trace)?;
            }
            14..19 => self.schedule(trace)?,
            19 => self.users_act(random, trace),
            20 | 21 if !self.lists.is_empty() => {
                self.list(random.usize(..self.lists.len()), trace);
            }
            _ => {
                let next = self.scheduler.next_deadline().filter(|_| random.u8(..4) > 0);
                let wait = Duration::from_millis([50, 400, 2500][random.usize(..3)]);
                let wait = next.map_or(wait, |next| next.since(self.now));
                self.wait(wait.min(Duration::from_secs(4)), trace);
            }
        }
        if random.u8(..4) > 0 {
            self.take_requests(random, trace)?;
        }
        Ok(())
    }

    /// Time passes until the standby leads.
    fn is_not_led(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        for _ in 0..60 {
            match random.u8(..10) {
                4..7 if !self.scheduler.has_synced() => self.has_synced(),
                0 => self.deliver(1, trace),
                1 => self.users_act(random, trace),
                2 | 3 if !self.binds.is_empty() => {
                    let bind = self.binds.remove(random.usize(..self.binds.len()));
                    self.carry_out(&bind, trace)?;
                }
                _ => {}
            }
            self.take_requests(random, trace)?;
            if self.took_over.is_some() {
                break;
            }
            let wait = self.scheduler.next_deadline().map(|next| next.since(self.now));
            self.wait(wait.unwrap_or(Duration::from_secs(1)), trace);
        }
        rule(self.took_over.is_some(), || "the standby does not lead".to_owned())
    }

    /// The leader before binds a pod, or a bind is carried out.
    fn lead(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        match random.u8(..3) {
            0 if !self.binds.is_empty() => {
                let bind = self.binds.remove(random.usize(..self.binds.len()));
                self.carry_out(&bind, trace)?;
            }
            _ => {
                let is_free = |pod: &&Stored| {
                    pod.node.is_none() && self.binds.iter().all(|bind| bind.uid != pod.uid)
                };
                let Some(pod) = self.server.pods.values().find(is_free) else { return Ok(()) };
                let assumed = |node: &str| {
                    let binds = self.binds.iter().filter(|bind| bind.node == node);
                    let pods = binds.filter_map(|bind| self.server.by_uid(&bind.uid));
                    self.server.used(node) + pods.map(|pod| pod.cpu).sum::<u32>()
                };
                let node = ["n0", "n1"].into_iter().find(|node| assumed(node) + pod.cpu <= CPUS);
                if let Some(node) = node {
                    let (uid, version, node) = (pod.uid.clone(), pod.version, node.to_owned());
                    trace.push(format!("{:?}: the leader binds {uid} to {node}", self.now));
                    self.binds.push(Bind { uid, version, node });
                }
            }
        }
        Ok(())
    }

    /// Whether a bind of the leader before may still be carried out.
    fn may_arrive(&self, bind: &Bind) -> bool {
        let pod = self.server.by_uid(&bind.uid);
        pod.is_some_and(|pod| pod.version == bind.version && pod.node.is_none())
    }

    /// Whether the leader may decide although a bind of the one before may still be carried out.
    fn is_excused(&self, uid: &str) -> bool {
        let is_late = match (self.fencing, &self.chosen, self.took_over) {
            (Fencing::Strict, _, Some((at, _))) => self.now.since(at) >= FENCES_END,
            (Fencing::Bounded(_), Some(Chosen { at, uids }), _) => {
                self.now.since(*at) >= BOUNDED_FENCES_END || !uids.contains(uid)
            }
            _ => false,
        };
        is_late || self.unpatched.contains(uid)
    }

    /// Looks at what the scheduler has chosen.
    fn look(&mut self) {
        if let Err(error) = self.are_chosen() {
            self.broken.get_or_insert(error);
        }
    }

    /// Chooses the pods that a bounded takeover fences first, when the scheduler has done so.
    fn are_chosen(&mut self) -> Checked {
        for notice in self.scheduler.take_takeover_notices() {
            let (Fencing::Bounded(limits), TakeoverNotice::Fences { first, later, pending }) =
                (self.fencing, notice)
            else {
                continue;
            };
            let uids = self.likeliest(limits.first);
            rule(first == uids.len(), || format!("{first} pods are fenced first, not {uids:?}"))?;
            let most = limits.first.max(limits.most.min(pending));
            rule(first + later <= most, || format!("{first} and {later} pods are fenced"))?;
            self.chosen = Some(Chosen { at: self.now, uids });
        }
        Ok(())
    }

    /// Returns the pods that the leader before was most likely binding, as far as the standby
    /// knows: the first ones by name and by version in turn, first those that were never tried.
    fn likeliest(&self, count: usize) -> BTreeSet<String> {
        let is_old = |version: u64| self.own_write == 0 || version < self.own_write;
        let pods = self.scheduler.engine().pending().filter(|pod| is_old(pod.resource_version));
        let mut left: Vec<(bool, u64, String)> = pods
            .map(|pod| {
                let reason = pod.scheduled_condition.as_ref().map(|own| own.reason.to_string());
                let was_tried = reason.is_some_and(|reason| reason != "SchedulerStarted");
                (was_tried, pod.resource_version, pod.uid.to_string())
            })
            .collect();
        // The pods come by name.
        let mut orders = [left.clone(), left.clone()];
        orders[0].sort_by_key(|(was_tried, ..)| *was_tried);
        orders[1].sort();
        let mut chosen = BTreeSet::new();
        left.clear();
        for rank in 0..orders[0].len() {
            for order in &orders {
                if chosen.len() < count {
                    chosen.insert(order[rank].2.clone());
                }
            }
        }
        chosen
    }

    fn carry_out(&mut self, bind: &Bind, trace: &mut Vec<String>) -> Checked {
        if !self.may_arrive(bind) {
            return Ok(());
        }
        trace.push(format!("{:?}: {} is bound to {}", self.now, bind.uid, bind.node));
        if self.is_excused(&bind.uid) {
            self.spoiled.insert(bind.node.clone());
        }
        let name = self.server.by_uid(&bind.uid).map(|pod| pod.name.clone()).ok_or("no pod")?;
        self.server.bind(&name, bind.node.clone());
        self.has_room(&bind.node)
    }

    fn has_room(&self, node: &str) -> Checked {
        let used = self.server.used(node);
        rule(used <= CPUS || self.spoiled.contains(node), || {
            format!("pods on {node} use {used} of {CPUS} CPUs")
        })
    }

    fn deliver(&mut self, count: usize, trace: &mut Vec<String>) {
        for _ in 0..count {
            let Some(watched) = self.server.watch.get(self.delivered).cloned() else { return };
            self.delivered += 1;
            trace.push(format!("{:?}: the watch shows {watched:?}", self.now));
            self.apply(match watched {
                Watched::Is(pod) => Change::Pod(Box::new(pod.to_pod())),
                Watched::Gone(key, uid) => Change::PodDeleted { key, uid: (&*uid).into() },
            });
        }
    }

    /// Ends a list. A list of pods shows all that has happened.
    fn list(&mut self, number: usize, trace: &mut Vec<String>) {
        let list = self.lists[number];
        if list == Relist::Others && self.lists_hang {
            return;
        }
        trace.push(format!("{:?}: {list:?} have been listed", self.now));
        self.lists.remove(number);
        if list == Relist::Pods {
            self.has_listed = true;
            self.deliver(usize::MAX, trace);
        }
        self.scheduler.handle_relisted(list);
    }

    fn wait(&mut self, wait: Duration, trace: &mut Vec<String>) {
        self.now = self.now + wait;
        trace.push(format!("{:?}: after {wait:?}", self.now));
        self.scheduler.tick(self.now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.notes_takeover(trace);
    }

    /// Notes when the standby begins to lead.
    fn notes_takeover(&mut self, trace: &mut Vec<String>) {
        if self.took_over.is_none() && self.scheduler.may_act(self.now) {
            trace.push(format!("{:?}: the standby leads", self.now));
            self.took_over = Some((self.now, self.server.watch.len()));
        }
        let _ = (self.scheduler.take_notices(), self.scheduler.take_events());
        self.look();
        self.lists.extend(self.scheduler.take_relists());
    }

    fn users_act(&mut self, random: &mut Rng, trace: &mut Vec<String>) {
        let name = format!("p{}", random.u8(..5));
        trace.push(format!("{:?}: a user acts on {name}", self.now));
        match self.server.pods.get(&name).cloned() {
            Some(_) if random.u8(..4) == 0 => self.server.delete(&name),
            Some(pod) => self.server.store(Stored { mark: pod.mark + 1, ..pod }),
            None => self.create(&name, random),
        }
    }

    /// The standby tries a pod. It knows what has happened before it began to lead, and no earlier
    /// bind can be carried out.
    fn schedule(&mut self, trace: &mut Vec<String>) -> Checked {
        self.broken.take().map_or(Ok(()), Err)?;
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let Some(attempt) = self.scheduler.schedule_one(self.now, ports) else { return Ok(()) };
        trace.push(format!("{:?}: {} is tried: {:?}", self.now, attempt.pod.key, attempt.outcome));
        let (at, happened) = self.took_over.ok_or("a standby tries a pod")?;
        rule(self.delivered >= happened || self.has_listed, || {
            format!("a pod is tried, and {} of {happened} events are known", self.delivered)
        })?;
        let lists_others = self.lists.contains(&Relist::Others);
        rule(!lists_others || self.now.since(at) >= LISTS_END, || {
            "a pod is tried while other kinds are listed".to_owned()
        })?;
        let open =
            self.binds.iter().find(|bind| self.may_arrive(bind) && !self.is_excused(&bind.uid));
        rule(open.is_none(), || {
            format!("a pod is tried, and {:?} may yet be bound", open.map(|bind| &bind.uid))
        })?;
        let known = self.server.watch[..self.delivered].iter();
        let known: BTreeSet<&str> = known
            .filter_map(|watched| match watched {
                Watched::Is(pod) if pod.node.is_some() => Some(&*pod.uid),
                _ => None,
            })
            .collect();
        let world = self.scheduler.engine().world();
        let cluster = world.cluster();
        let bound = self.server.pods.values().filter(|pod| pod.node.is_some());
        // The scheduler may have placed a pod elsewhere that it does not know to be bound.
        let is_placed_there = |pod: &Stored| {
            let node = world.placement(&(&*pod.uid).into()).map(|placed| placed.node);
            node.is_some() && node == pod.node.as_deref().and_then(|name| cluster.node_named(name))
        };
        let unknown = bound.filter(|pod| !known.contains(&*pod.uid) && !is_placed_there(pod));
        let (excused, inexcusable): (Vec<&Stored>, Vec<&Stored>) =
            unknown.partition(|pod| self.is_excused(&pod.uid));
        rule(inexcusable.is_empty(), || {
            format!("a pod is tried, and the bind of {inexcusable:?} is not known")
        })?;
        // Their room may be given away now.
        let nodes: Vec<String> = excused.iter().filter_map(|pod| pod.node.clone()).collect();
        self.spoiled.extend(nodes);
        Ok(())
    }

    fn take_requests(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        let elector = self.scheduler.leader_elector().ok_or("no elector")?;
        let (end, is_lost) =
            (elector.authority_ends_at(), elector.outcome() == Some(Outcome::Lost));
        let requests: Vec<_> = self.scheduler.take_requests().collect();
        for (source, request) in requests {
            let method = request.method.as_str();
            trace.push(format!("{:?}: {method} {}", self.now, request.path));
            if source == RequestSource::LeaderElector {
                rule(self.scheduler.has_synced(), || {
                    "a replica competes, and has not synced".to_owned()
                })?;
                self.is_release_due(&request)?;
                let reply = match self.is_cut_off || random.u8(..12) == 0 {
                    true => Reply::Lost("timeout".to_owned()),
                    false => self.lease.serve(&request),
                };
                self.reply(source, &request, reply, trace);
                self.take_requests(random, trace)?;
                continue;
            }
            rule(!is_lost, || format!("{} is sent after the Lease was lost", request.path))?;
            rule(
                request.not_after.is_some() && (end.is_none() || request.not_after <= end),
                || {
                    format!(
                        "{} may be sent until {:?}, not {end:?}",
                        request.path, request.not_after
                    )
                },
            )?;
            self.sent.push(Sent { source, request, carried_out: None });
            if source == RequestSource::EventRecorder {
                self.is_answered(self.sent.len() - 1, None, trace)?;
            }
        }
        Ok(())
    }

    /// A Lease is given up only once no request is under way.
    fn is_release_due(&self, request: &Request) -> Checked {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let releases = request.method == Method::Put && body["spec"]["holderIdentity"] == "";
        let mut calls = self.sent.iter().filter(|sent| sent.source == RequestSource::ApiDispatcher);
        let open = calls.next().filter(|_| releases).map(|sent| &sent.request.path);
        rule(open.is_none(), || format!("the Lease is given up while {open:?} is under way"))
    }

    fn reply(
        &mut self,
        source: RequestSource,
        request: &Request,
        reply: Reply,
        trace: &mut Vec<String>,
    ) {
        let (id, ports) = (request.id, &mut Ports { extenders: &mut (), probe: &mut () });
        self.scheduler.handle_reply(source, id, reply, self.now, ports);
        self.notes_takeover(trace);
    }

    /// A request is carried out, and answered then or later, or is refused or lost.
    fn happens_to(&mut self, number: usize, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        match random.u8(..8) {
            0..3 => self.serve(number),
            3..7 => self.is_answered(number, None, trace),
            _ if random.bool() => {
                let reply = Reply::NotSent("connection refused".to_owned());
                self.is_answered(number, Some(reply), trace)
            }
            _ => self.is_answered(number, Some(Reply::Lost("connection reset".to_owned())), trace),
        }
    }

    /// Carries a request out.
    fn serve(&mut self, number: usize) -> Checked {
        let sent = &mut self.sent[number];
        if sent.carried_out.is_some() || sent.request.destination != Destination::ApiServer {
            return Ok(());
        }
        let (response, bound) = self.server.serve(&sent.request);
        sent.carried_out = Some(Reply::Answered(response));
        bound.map_or(Ok(()), |bound| self.has_room(&bound.node))
    }

    /// The standby gets a reply: that of the server, unless another one is given.
    fn is_answered(
        &mut self,
        number: usize,
        reply: Option<Reply>,
        trace: &mut Vec<String>,
    ) -> Checked {
        if reply.is_none() {
            self.serve(number)?;
        }
        let Sent { source, request, carried_out } = self.sent.remove(number);
        if reply.is_some() {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
            self.unpatched.insert(uid.to_owned());
        }
        let Some(reply) = reply.or(carried_out) else { return Ok(()) };
        self.own_write = self.own_write.max(version_made(&request, &reply));
        trace.push(format!("{:?}: {} is answered: {}", self.now, request.path, is_ok(&reply)));
        self.reply(source, &request, reply, trace);
        Ok(())
    }

    /// The process is asked to end. It gives up the Lease when nothing is under way.
    fn end(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push(format!("{:?}: the process is asked to end", self.now));
        self.scheduler.stop(self.now);
        let random = &mut Rng::with_seed(u64::from(self.next_uid));
        for _ in 0..50 {
            self.take_requests(random, trace)?;
            if self.scheduler.outcome().is_some() {
                return Ok(());
            }
            if !self.sent.is_empty() {
                self.is_answered(0, None, trace)?;
            }
            self.wait(Duration::from_millis(500), trace);
        }
        Err("the process does not end".to_owned())
    }

    /// No request for the Lease is answered any more, and requests wait to be taken. None of them
    /// is sent afterwards.
    fn lose(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push(format!("{:?}: the process is cut off from the Lease", self.now));
        self.is_cut_off = true;
        let random = &mut Rng::with_seed(u64::from(self.next_uid));
        for _ in 0..16 {
            self.deliver(1, trace);
            self.schedule(trace)?;
            self.wait(Duration::from_secs(1), trace);
            let leads = self.scheduler.may_act(self.now);
            if !leads || random.bool() {
                self.take_requests(random, trace)?;
            }
        }
        let has_lost = self.scheduler.outcome() == Some(Outcome::Lost);
        rule(has_lost == self.took_over.is_some(), || format!("has lost the Lease: {has_lost}"))
    }

    /// Requests succeed. The watch may be silent, and lists of other kinds than pods may hang for
    /// ever.
    fn rest(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        trace.push(format!("{:?}: rest", self.now));
        self.is_silent = random.u8(..3) == 0;
        let end = self.now + REST;
        while self.now < end {
            self.take_requests(random, trace)?;
            while !self.sent.is_empty() {
                self.is_answered(0, None, trace)?;
            }
            if !self.is_silent {
                self.deliver(usize::MAX, trace);
            }
            (0..self.lists.len()).rev().for_each(|number| self.list(number, trace));
            self.schedule(trace)?;
            let next = self.scheduler.next_deadline().unwrap_or(end);
            self.wait(next.since(self.now).clamp(Duration::from_millis(1), REST), trace);
        }
        let hold = self.scheduler.hold(self.now);
        rule(hold.is_none() || self.scheduler.outcome().is_some(), || {
            format!("no pod is scheduled: {hold:?}")
        })
    }
}

/// Returns the version that a status patch has made; 0 if it has made none.
fn version_made(request: &Request, reply: &Reply) -> u64 {
    let Reply::Answered(response) = reply else { return 0 };
    if request.method != Method::Patch || response.status != 200 {
        return 0;
    }
    let read = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap_or_default();
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok())
    };
    let (before, after) = (read(&request.body), read(&response.body));
    version(&after).filter(|after| version(&before) != Some(*after)).unwrap_or(0)
}

/// Whether a reply is a success.
const fn is_ok(reply: &Reply) -> bool {
    matches!(reply, Reply::Answered(response) if response.status < 300)
}
