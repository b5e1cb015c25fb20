//! DynamicResources alone: pods that share claims, requests that are refused, lost or late, and a
//! watch that lags.
//!
//! The model is a list of the devices that are taken, written from the rules: those of each claim
//! as the watch or a newer answer shows it, those of claims that are being allocated, and those of
//! allocations whose outcome is unknown, for two minutes or until the watch shows another version.
//! After each step it is compared with the verdicts of Filter. While requests get answers, no such
//! doubt lasts longer than a pod may have to back off.

mod attempts;
mod checks;
mod claims;
mod known;
mod others;
pub(super) mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::{
    ActionType, Answer, Cluster, ClusterEvent, Command, CycleState, EventForPod, EventObjects,
    EventResource, Handle, Object, ObjectKey, ObjectUpdate, Plugin, PluginArgs, Pod, PreBindInput,
    QueueingHint, Status, Time, Uid, Write,
};
use plugins::dynamic_resources;
use serde_json::{Value, json};
use testkit::{HandleParts, SetJson, cluster, node};

use self::claims::{are_ready, claim_key, is_allocated, version_of};
use self::known::{Known, Verdict};
use self::requests::Requests;
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
/// Time after which a doubt is over if requests get answers: the longest backoff of a pod.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// Time in which devices have to be ready.
const BINDING_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval in which a pod that waits for its turn to write a claim looks again.
const TURN_CHECK: Duration = Duration::from_millis(100);
/// Shortest wait before an attempt may give up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lives through one history.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for _ in 0..history.random.usize(15..45) {
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
    /// The binding conditions of the devices of each node.
    conditions: [Conditions; 2],
    /// Number of fates of a request, of which the first ones are bad.
    fates: u32,
    /// Whether no request fails or is late.
    is_calm: bool,
    /// How often each action is chosen.
    weights: [u32; ACTIONS.len()],
    pods: u32,
    claims: u32,
    /// Requests that may yet be carried out, and until when.
    late: Vec<(Write, Time)>,
    timer: Option<Time>,
    known: Known,
    /// The pods that events of this step requeue.
    woken: BTreeSet<Uid>,
}

/// The names of binding conditions, and of those that say that the binding has failed.
type Conditions = (&'static [&'static str], &'static [&'static str]);

const CONDITIONS: [[Conditions; 2]; 4] = [
    [(&[], &[]), (&[], &[])],
    [(&["ready"], &["broken"]), (&[], &[])],
    [(&["ready"], &["broken"]), (&["ready", "attached"], &["broken", "gone"])],
    [(&["attached"], &[]), (&["ready"], &["gone"])],
];

/// Something that happens.
#[derive(Debug, Clone, Copy)]
enum Action {
    Try,
    GoOn,
    Fail,
    Show,
    Label,
    CleanUp,
    ReplaceClaim,
    End,
    Report,
    CarryOutLate,
    ToggleDevices,
    ToggleClass,
    Pass,
}

/// All actions, and how often they are chosen in most histories.
const ACTIONS: [(Action, u32); 13] = [
    (Action::Try, 6),
    (Action::GoOn, 14),
    (Action::Fail, 1),
    (Action::Show, 8),
    (Action::Label, 1),
    (Action::CleanUp, 2),
    (Action::ReplaceClaim, 2),
    (Action::End, 2),
    (Action::Report, 4),
    (Action::CarryOutLate, 1),
    (Action::ToggleDevices, 1),
    (Action::ToggleClass, 1),
    (Action::Pass, 2),
];

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
    /// The answer to the open request, if it was carried out.
    carried_out: Option<Answer>,
    /// The requests of the current write.
    requests: Requests,
    conflicts: u32,
    /// Whether the attempt may fail.
    excused: bool,
    /// The version in which each claim may have been reserved by a request without an answer.
    unknown: BTreeMap<String, u64>,
    /// The claims that this attempt has reserved.
    reserved: BTreeSet<String>,
    /// When it began to wait for its devices.
    waits_since: Option<Time>,
}

enum Step {
    Start,
    Open(Write),
    Wait {
        since: Time,
        until: Time,
        objects: Vec<ObjectKey>,
    },
    /// The pause before a write is repeated.
    Pause {
        until: Time,
        write: Write,
    },
}

impl<'r> History<'r> {
    fn new(random: &'r mut Rng) -> Self {
        let args = json!({"filterTimeout": "10s", "bindingTimeout": "20s"});
        let plugin = dynamic_resources::plugin(&PluginArgs::new(args));
        let conditions = CONDITIONS[random.usize(..CONDITIONS.len())];
        let fates = [20, 20, 8][random.usize(..3)];
        let weights = ACTIONS.map(|(_, weight)| weight * [1, 1, 2, 6][random.usize(..4)]);
        let mut history = Self {
            random,
            server: Server::default(),
            cluster: cluster(NODES.map(|name| node(name).build()), []),
            parts: HandleParts { now: Time::from_secs(1000), ..HandleParts::default() },
            plugin: plugin.expect("the arguments are valid"),
            members: Vec::new(),
            conditions,
            fates,
            is_calm: false,
            weights,
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
        let action = self.choose();
        let place = self.some_member(action);
        let claim = NAMES[self.random.usize(..NAMES.len())];
        match action {
            Action::Try => self.try_pod(place, trace),
            Action::GoOn => self.go_on(place, trace),
            Action::Fail => self.fail(place, "others end it", trace),
            Action::Show => match self.server.any_lagging(self.random) {
                Some((_, name)) => self.show(&name, trace),
                None => Ok(()),
            },
            Action::Label => {
                trace.push(format!("others label {claim}"));
                let label = json!({"metadata": {"labels": {"k": self.random.u8(..).to_string()}}});
                self.server.patch(CLAIMS, claim, &label);
                Ok(())
            }
            Action::CleanUp => self.clean_up(claim, trace),
            Action::ReplaceClaim => self.replace_claim(claim, trace),
            Action::End => self.end(place, trace),
            Action::Report => {
                let waits = |own: &&Member| matches!(&own.stage, Stage::Binding(attempt) if attempt.waits_since.is_some());
                let waiting = self.members.iter().find(waits).map(|own| own.claims[0]);
                self.report(waiting.unwrap_or(claim), trace);
                Ok(())
            }
            Action::CarryOutLate => self.carry_out_late(trace),
            Action::ToggleDevices => {
                let node = NODES[self.random.usize(..NODES.len())];
                trace.push(format!("the devices of {node} come or go"));
                self.toggle_devices(node);
                self.carry_out_commands(Some(trace))
            }
            Action::ToggleClass if self.random.u8(..4) == 0 || !self.known.has_class => {
                trace.push("the class comes or goes".to_owned());
                self.toggle_class();
                self.carry_out_commands(Some(trace))
            }
            Action::ToggleClass | Action::Pass => {
                let seconds = [1, 5, 15, 45, 130][self.random.usize(..5)];
                self.pass(Duration::from_secs(seconds), trace)
            }
        }
    }

    /// Returns a pod that the action may concern, if there is one.
    fn some_member(&mut self, action: Action) -> usize {
        let is_concerned = |own: &Stage| match action {
            Action::Try => matches!(own, Stage::Pending),
            Action::GoOn => {
                matches!(own, Stage::Binding(attempt) if !matches!(attempt.step, Step::Wait { .. }))
            }
            Action::Fail => matches!(own, Stage::Binding(_)),
            Action::End => matches!(own, Stage::Bound(_)),
            _ => true,
        };
        let stages = self.members.iter().map(|own| &own.stage);
        let concerned = stages.enumerate().filter(|(_, stage)| is_concerned(stage));
        let concerned: Vec<usize> = concerned.map(|(place, _)| place).collect();
        let any = self.random.usize(..self.members.len());
        self.random.choice(concerned).unwrap_or(any)
    }

    fn choose(&mut self) -> Action {
        let mut number = self.random.u32(..self.weights.iter().sum::<u32>());
        for ((action, _), weight) in ACTIONS.into_iter().zip(self.weights) {
            match number.checked_sub(weight) {
                Some(rest) => number = rest,
                None => return action,
            }
        }
        Action::Pass
    }

    fn filter(&self, pod: &Pod) -> (CycleState, Result<[Status; 2], Status>) {
        filter(&self.plugin, pod, &self.handle())
    }

    /// Carries out a request that no attempt waits for. Other pods may rely on a claim that it
    /// deallocates.
    fn carry_out(&mut self, write: &Write) -> Answer {
        let status = write.body()["status"].as_object();
        if status.is_some_and(|status| status.get("allocation") == Some(&Value::Null)) {
            self.excuse(&write.name);
        }
        self.server.write(write)
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
                    Command::Event(event) if *event.reason == *"BindingConditionsPending" => {
                        self.waits_for_devices(&event.uid);
                    }
                    Command::ObjectChanged(update) => {
                        let ObjectUpdate { old, new } = *update;
                        let kind = EventResource::ResourceClaim;
                        self.notify_of(kind, old.as_ref(), new.as_ref());
                    }
                    Command::Write { write, .. } => {
                        self.is_precise(&write)?;
                        let fate = if self.is_calm { 3 } else { self.random.u8(..4) };
                        if let Some(trace) = &mut trace {
                            let body = write.body();
                            trace.push(format!("beside, {} {body}: {fate}", write.name));
                        }
                        match fate {
                            0 => self.late.push((write, self.parts.now + LONGEST_REQUEST)),
                            _ => drop(self.carry_out(&write)),
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Asks the hints about a change of an object, and notes the pods that it requeues.
    fn notify(&mut self, kind: EventResource, old: Option<&Value>, new: Option<&Value>) {
        let decoded = |json: &Value| testkit::object(kind.clone(), json.clone());
        let (old, new) = (old.map(decoded), new.map(decoded));
        self.notify_of(kind, old.as_ref(), new.as_ref());
    }

    fn notify_of(&mut self, kind: EventResource, old: Option<&Object>, new: Option<&Object>) {
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
                let handle = self.handle();
                let about = EventForPod::new(&member.pod, objects, &handle);
                if registered.evaluate_hint(about) != Ok(QueueingHint::Skip) {
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
        self.notify(EventResource::ResourceClaim, old.as_ref(), new.as_ref());
        self.carry_out_commands(Some(trace))?;
        for place in 0..self.members.len() {
            let Stage::Binding(attempt) = &self.members[place].stage else { continue };
            let waits = match &attempt.step {
                Step::Wait { objects, .. } => objects.contains(&claim_key(name)),
                Step::Pause { write, .. } => *write.name == *name,
                _ => false,
            };
            if waits {
                self.call(place, PreBindInput::Changed, trace)?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, name: &str) -> Option<(Option<Value>, Option<Value>)> {
        let (old, new) = self.server.show_next(CLAIMS, name)?;
        self.cluster.set_json(
            &EventResource::ResourceClaim,
            "default",
            name,
            new.clone().map(Arc::new),
        );
        Some((old, new))
    }

    /// Carries out a request that is late.
    fn carry_out_late(&mut self, trace: &mut Vec<String>) -> Checked {
        if self.late.is_empty() {
            return Ok(());
        }
        let (write, _) = self.late.swap_remove(self.random.usize(..self.late.len()));
        let answer = self.carry_out(&write);
        trace.push(format!("late, {} {}: {answer:?}", write.name, write.body()));
        Ok(())
    }

    /// Lets time pass. The watch lags for some seconds only: a doubt ends when its time is over.
    fn pass(&mut self, time: Duration, trace: &mut Vec<String>) -> Checked {
        while time > PATIENCE
            && let Some((_, name)) = self.server.lagging()
        {
            let name = name.to_owned();
            self.show(&name, trace)?;
        }
        self.parts.now = self.parts.now + time;
        let now = self.parts.now;
        trace.push(format!("it is {now}"));
        self.late.retain(|(_, until)| *until > now);
        for place in 0..self.members.len() {
            let Stage::Binding(attempt) = &mut self.members[place].stage else { continue };
            match &attempt.step {
                Step::Wait { since, until, .. } if *until <= now => {
                    attempt.excused |= now.since(*since) >= PATIENCE;
                }
                Step::Pause { until, .. } if *until <= now => {}
                _ => continue,
            }
            self.call(place, PreBindInput::Deadline, trace)?;
        }
        Ok(())
    }

    /// Lets every request have its answer, the watch catch up and the devices be ready: no pod goes
    /// on waiting.
    fn calm_down(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push("all calms down".to_owned());
        self.is_calm = true;
        for _ in 0..60 {
            let before = self.waiting();
            self.woken.clear();
            self.catch_up(trace)?;
            for place in 0..self.members.len() {
                self.go_on(place, trace)?;
            }
            self.pass(TURN_CHECK, trace)?;
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
        for time in [LONGEST_BACKOFF, Duration::ZERO] {
            let before = self.waiting();
            self.woken.clear();
            self.pass(time, trace)?;
            self.catch_up(trace)?;
            self.after_step(&before)?;
        }
        let doubt = self.known.in_doubt.values().next().map(|doubt| doubt.claim);
        rule(doubt.is_none(), || format!("{doubt:?} is still in doubt"))
    }

    /// Lets the watch catch up, and the drivers report that all devices are ready.
    fn catch_up(&mut self, trace: &mut Vec<String>) -> Checked {
        NAMES.iter().for_each(|name| self.report_ready(name));
        while let Some((_, name)) = self.server.lagging() {
            let name = name.to_owned();
            self.show(&name, trace)?;
        }
        Ok(())
    }
}
