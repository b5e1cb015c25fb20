//! One run of the scheduler, from start to crash: the daemon without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::api_dispatcher::{ApiDispatcher, CallState, CallType, Limits};
use control::event_recorder::{self, EventRecorder};
use control::leader_election::{LeaderElectionConfig, LeaderElector};
use control::reflector::{CallId, Input, ListWatch, Options, Output, Reflector};
use control::scheduler::{Fencing, LeaderElection, Relist, RequestSource, Scheduler};
use control::{Destination, Reply, Request, RequestId};
use engine::ports::Ports;
use engine::queue::Place;
use engine::{Attempt, Change, Engine, EngineConfig, Outcome};
use fastrand::Rng;
use framework::preemption::Preemption;
use framework::{
    ExtraFields, Node, NominatedPods, ObjectKey, Pod, PodGroupKey, QueuedEntity, Time, Uid,
};
use loadmaster::config::{self, Gates};
use loadmaster::wire::{Decoder, Update, watched_kinds};
use sandbox::api::WatchId;
use serde_json::{Value, json};

use super::calls::Calls;
use super::churn::nodes::ZONE;
use super::counts;
use super::coverage::Fault;
use super::decisions;
use super::evictions::Evictions;
use super::explanations::Explanations;
use super::extender::{self, Extender, Role};
use super::farewells::Farewell;
use super::groups::NATIVE;
use super::groups::binding::Releases;
use super::groups::queueing::{self as groups, VainAttempts};
use super::limits::RequestLimits;
use super::oracle::{Budgets, Related, gives_volumes};
use super::patience;
use super::preemptions::Foreseen;
use super::queueing::{EarlyAttempts, Failures, Turns};
use super::recording::{self, Recording};
use super::retries::Retries;
use super::rules::{Checked, rule};
use super::server::{DEFAULT, SPREADING};
use super::sources;
use super::trouble::needs_extender;
use super::view::View;
use super::wake_ups::{self, WakeUps};
use super::zones::Zones;

/// Skew that the default constraints of the profile [`SPREADING`] allow.
pub(crate) const DEFAULT_MAX_SKEW: i32 = 1;

/// Maximum time in which a pod is bound that has its volumes and devices, while nothing is wrong.
const MOST_TO_BIND: Duration = Duration::from_secs(5);

/// Time after which a new leader decides, although a list that it has asked for has no answer.
const LIST_TIMEOUT: Duration = Duration::from_mins(2);

/// Seconds that pods wait for their devices.
const PATIENCE_FOR_DEVICES: u64 = 20;

/// Time that the binding cycle of a pod waits for an extender whose answer was lost: the extender
/// may carry out a bind for 90 seconds, and a read of the pod before the last bind and one after
/// these 90 seconds may each come 30 seconds late.
const PATIENCE_WITH_EXTENDER: Duration = Duration::from_secs(30 + 90 + 30);

/// The gates of groups.
const GATES_OF_GROUPS: &str = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";

/// One run of the scheduler.
pub(crate) struct Replica {
    /// Number of the run.
    pub(crate) life: u32,
    /// The scheduler.
    pub(crate) scheduler: Scheduler,
    /// Its informers.
    pub(crate) informers: Vec<Informer>,
    /// UIDs of the pods that had a node at start, until the first decision.
    pub(crate) found: Vec<Uid>,
    /// The reported namespaces, Services and controllers.
    pub(crate) related: Related,
    /// Number of pods that changes requeued.
    pub(crate) wake_ups: WakeUps,
    /// Its recording.
    recording: Recording,
    kind: Kind,
    /// Number of waiting calls above which there is a backlog.
    pub(crate) max_waiting: usize,
    /// Its requests, against its limits.
    pub(crate) limits: RequestLimits,
    /// Its repeated requests.
    retries: Retries,
    /// Its end, once it is asked to end.
    pub(crate) farewell: Farewell,
    /// The failed attempts of each queued pod.
    pub(crate) failures: Failures,
    /// The attempts in vain before the ends of backoffs.
    early_attempts: EarlyAttempts,
    /// The results of attempts that users have to read.
    pub(crate) explanations: Explanations,
    /// Extenders that a rule tried again; the next decision does it for real.
    probed: Vec<usize>,
    /// The reported nodes by zone.
    zones: Zones,
    /// The pods with a node that the watch has shown, by UID.
    placed: BTreeMap<Uid, Arc<str>>,
    unsynced: usize,
    /// Number of informers of other kinds than pods that have not listed again.
    unlisted: usize,
    /// The time since which they list again.
    lists_since: Time,
    /// Whether volumes were assumed.
    gave_volumes: bool,
    /// The nominated pods, with their nodes.
    nominations: BTreeSet<(Uid, String)>,
    /// The victims chosen in this run.
    victims: BTreeSet<Uid>,
    /// The victims of the last attempt of each preemptor.
    evictions: BTreeMap<Uid, Vec<Arc<Pod>>>,
    /// The preemptions of each preemptor.
    pub(crate) preemptions: Evictions,
    last_decisions: LastDecisions,
    /// The pods in their binding cycle that have nothing to wait for, except for devices.
    ready: BTreeMap<Uid, Ready>,
    /// The last time at which a nomination ended.
    unnominated: Time,
    /// The decisions about groups whose binds have not begun.
    releases: Releases,
    /// The attempts in vain of groups.
    vain_attempts: VainAttempts,
    /// The members of groups that are assumed, with their nodes.
    assumed_members: BTreeSet<(Uid, Arc<str>)>,
    /// The members that were placed since the world has last taken them.
    placed_members: Vec<Attempt>,
    /// Whether the scheduler has handled an input since it was last asked for a decision. It may
    /// then have reports about groups to write.
    owes_reports: bool,
}

/// What all processes have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// Whether they elect a leader.
    pub(crate) elects: bool,
    /// What the extender does, if there is one.
    pub(crate) extender: Option<Role>,
    /// Whether they live through lasting faults. They then have slots for some more flows of calls
    /// than can hang at once; each flow takes half of what the others leave.
    pub(crate) has_slots: bool,
    /// Whether nodes are scored by their storage capacity.
    pub(crate) scores_storage: bool,
    /// Whether a process fences every pending pod before its first decision.
    pub(crate) is_strict: bool,
    /// Whether the pods of PodGroups are decided together.
    pub(crate) has_groups: bool,
    /// Whether plugins of a profile read sources that come late, lie and go.
    pub(crate) has_sources: bool,
}

/// A pod in its binding cycle that has its volumes.
#[derive(Debug, Clone, Copy)]
struct Ready {
    since: Time,
    waits: BindingWaits,
}

impl Ready {
    /// Returns the maximum time until the binding cycle ends.
    const fn longest(self) -> Duration {
        let waits = match self.waits {
            BindingWaits::Nothing => Duration::ZERO,
            BindingWaits::Devices => Duration::from_secs(PATIENCE_FOR_DEVICES),
            BindingWaits::Extender => PATIENCE_WITH_EXTENDER,
        };
        MOST_TO_BIND.saturating_add(waits)
    }
}

/// What a binding cycle of a pod that has its volumes may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BindingWaits {
    Nothing,
    Devices,
    /// The extender binds the pod. If it lost an answer, and refuses every later bind, the pod
    /// keeps its room until the bind without an answer counts as dead.
    Extender,
}

/// An attempt to schedule a pod.
pub(crate) struct Decided {
    /// The attempt.
    pub(crate) attempt: Attempt,
    /// The evictions that it began.
    pub(crate) preemption: Option<Preemption>,
    /// The extender, with its calls in the attempt.
    pub(crate) extender: Extender,
    /// The pods that were placed, each with the pods that the watch had shown on its node.
    pub(crate) placed: Vec<(Attempt, BTreeSet<Uid>)>,
    /// The pods that are evicted for a group, and its priority.
    pub(crate) group_victims: Option<(Vec<Uid>, i32)>,
}

/// The informer of one kind.
pub(crate) struct Informer {
    /// The reflector of the kind.
    pub(crate) reflector: Reflector<Update>,
    /// Path of the kind.
    pub(crate) path: String,
    /// Whether the kind is pods.
    is_of_pods: bool,
    /// The decoder of its objects.
    pub(crate) decoder: Decoder,
    /// The objects it has reported.
    pub(crate) view: View,
    /// The calls of the reflector.
    calls: Calls,
    /// Its outputs that were not taken in yet.
    outputs: Vec<Output<Update>>,
    /// The open stream, if there is one.
    pub(crate) stream: Option<Stream>,
    /// What it does.
    pub(crate) reading: Reading,
}

/// What an informer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It lists.
    List,
    /// It watches, or opens a watch again.
    Watch,
    /// The version that it asked for is too old.
    Expired,
}

/// An open watch stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The call that opened the stream.
    pub(crate) call: CallId,
    /// Number of the API server.
    pub(crate) server: usize,
    /// The server's end of the stream.
    pub(crate) watch: WatchId,
    /// The version of the cache at the last look.
    pub(crate) seen: Option<u64>,
    /// Arrival time of the last part: parts do not overtake each other.
    pub(crate) last: Time,
    /// Whether the stream has stalled.
    pub(crate) stalled: bool,
}

impl Informer {
    /// Passes an input to the reflector.
    ///
    /// # Errors
    /// The reflector opens or closes a call against the rules.
    pub(crate) fn step(&mut self, input: Input<Update>, now: Time) -> Checked {
        self.calls.heard(&input, now);
        self.reflector.step(input, now);
        self.take_outputs(now)
    }

    fn tick(&mut self, now: Time) -> Checked {
        self.reflector.tick(now);
        self.take_outputs(now)
    }

    fn relist(&mut self, now: Time) -> Checked {
        self.calls.relists();
        self.reflector.relist(now);
        self.take_outputs(now)
    }

    /// Checks the calls at once, because the next input may be about a call that is closed by now.
    fn take_outputs(&mut self, now: Time) -> Checked {
        for output in self.reflector.take_outputs() {
            match &output {
                Output::Open(call) => self.calls.opens(call, now)?,
                Output::Close(id) => self.calls.closes(*id, now)?,
                _ => {}
            }
            self.outputs.push(output);
        }
        Ok(())
    }

    fn covered_by(&self) -> Relist {
        if self.is_of_pods { Relist::Pods } else { Relist::Others }
    }
}

/// The number of the last decision about each pod, and of the last one that chose each node.
#[derive(Debug, Default)]
struct LastDecisions {
    count: u64,
    of_pod: BTreeMap<Uid, u64>,
    of_node: BTreeMap<Arc<str>, u64>,
}

impl LastDecisions {
    fn include(&mut self, attempt: &Attempt) {
        self.count += 1;
        self.of_pod.insert(attempt.pod.uid.clone(), self.count);
        if let Outcome::Assumed(node) = &attempt.outcome {
            self.of_node.insert(node.clone(), self.count);
        }
    }
}

impl Replica {
    /// Starts a scheduler.
    pub(crate) fn start(life: u32, seed: u64, kind: Kind, found: Vec<Uid>, now: Time) -> Self {
        let engine = new_engine(seed, kind);
        let kinds = watched_kinds(engine.profiles());
        let fields = match kind.has_sources {
            true => engine.profiles().extra_fields(),
            false => ExtraFields::default(),
        };
        let mut rng = Rng::with_seed(seed);
        let limits = limits(&mut rng, kind.has_slots);
        let max_waiting = limits.max_waiting;
        let api_dispatcher = ApiDispatcher::new(limits.clone(), seed);
        let max_in_flight = rng.usize(1..5);
        let gather_time = Duration::from_millis(50);
        let recorder_options = event_recorder::Options {
            max_in_flight,
            gather_time,
            ..event_recorder::Options::default()
        };
        let event_recorder = EventRecorder::new(recorder_options, seed);
        let mut informers = Vec::new();
        for (number, kind) in (0..).zip(&kinds) {
            // The version of the level, which the daemon asks the API server for.
            let path = kind.path.replace("scheduling.k8s.io/v1alpha2", NATIVE);
            let target = ListWatch {
                path: path.clone(),
                field_selector: kind.field_selector.clone().map(Into::into),
            };
            let is_of_pods = &*kind.name == "pods";
            let options = Options { starts_with_latest: is_of_pods, ..options(&mut rng) };
            let mut reflector = Reflector::new(target, options, seed ^ number);
            reflector.start(now);
            let decoder = Decoder::new(kind.resource.clone(), fields.clone());
            informers.push(Informer {
                reflector,
                path,
                is_of_pods,
                decoder,
                view: View::default(),
                calls: Calls::default(),
                outputs: Vec::new(),
                stream: None,
                reading: Reading::List,
            });
        }
        let mut scheduler = Scheduler::new(engine, api_dispatcher, event_recorder);
        scheduler.record(recording::encoder());
        if kind.is_strict {
            scheduler.set_fencing(Fencing::Strict);
        }
        if kind.elects {
            scheduler = scheduler.with_leader_election(election(life, seed));
        }
        Self {
            life,
            scheduler,
            recording: Recording::new(seed, kind),
            kind,
            max_waiting,
            limits: RequestLimits::new(limits, !kind.elects),
            retries: Retries::default(),
            farewell: Farewell::default(),
            failures: Failures::default(),
            early_attempts: EarlyAttempts::default(),
            explanations: Explanations::default(),
            probed: Vec::new(),
            zones: Zones::default(),
            unsynced: informers.len(),
            unlisted: 0,
            lists_since: now,
            informers,
            found,
            related: Related::default(),
            wake_ups: WakeUps::default(),
            placed: BTreeMap::new(),
            gave_volumes: false,
            nominations: BTreeSet::new(),
            victims: BTreeSet::new(),
            evictions: BTreeMap::new(),
            preemptions: Evictions::default(),
            last_decisions: LastDecisions::default(),
            ready: BTreeMap::new(),
            unnominated: now,
            releases: Releases::default(),
            vain_attempts: VainAttempts::default(),
            assumed_members: BTreeSet::new(),
            placed_members: Vec::new(),
            owes_reports: false,
        }
    }

    /// Returns the next deadline.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let reflectors =
            self.informers.iter().filter_map(|informer| informer.reflector.next_deadline());
        reflectors.chain(self.scheduler.next_deadline()).min()
    }

    /// Carries out what is due.
    ///
    /// # Errors
    /// A pod was not requeued in time, or a reflector violates a rule.
    pub(crate) fn tick(&mut self, now: Time) -> Checked {
        for informer in &mut self.informers {
            informer.tick(now)?;
        }
        self.scheduler.tick(now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.has_handled_input();
        self.nobody_oversleeps(now, || "time passes".to_owned())
    }

    /// Handles the reply to a request.
    ///
    /// # Errors
    /// A pod was not requeued in time.
    pub(crate) fn reply(
        &mut self,
        source: RequestSource,
        id: RequestId,
        reply: Reply,
        now: Time,
    ) -> Checked {
        if source == RequestSource::ApiDispatcher {
            self.limits.replied(id, &reply, now);
            self.retries.replied(id, &reply, now);
        }
        self.farewell.replied(source, id, &reply);
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.scheduler.handle_reply(source, id, reply, now, ports);
        self.has_handled_input();
        self.nobody_oversleeps(now, || format!("a request of the {source:?} is replied to"))
    }

    /// Tries the next pod, if decisions are allowed now.
    ///
    /// # Errors
    /// The decision violates a rule.
    pub(crate) fn decide(
        &mut self,
        fault: Option<Fault>,
        now: Time,
    ) -> Result<Option<Decided>, String> {
        let mut extender = Extender { fault, ..Extender::default() };
        self.owes_reports = false;
        if self.kind.has_groups && !self.scheduler.engine().queue().has_ready(now) {
            // The scheduler writes reports about groups between decisions.
            let ports = &mut Ports { extenders: &mut extender, probe: &mut () };
            let attempt = self.scheduler.schedule_one(now, ports);
            rule(attempt.is_none(), || format!("{attempt:?}, and nothing is ready"))?;
            return Ok(None);
        }
        let priorities = group_priorities(self.scheduler.engine());
        let victims_before = victims(self.scheduler.engine());
        let foreseen = Foreseen::by(&mut self.scheduler, &self.related, &mut self.probed, now)?;
        let highest = decisions::highest_priority(self.scheduler.engine());
        let turns = Turns::of(self.scheduler.engine());
        let waiting: Vec<Uid> = self.scheduler.engine().waiting_pods().keys().cloned().collect();
        let ports = &mut Ports { extenders: &mut extender, probe: &mut () };
        let Some(attempt) = self.scheduler.schedule_one(now, ports) else { return Ok(None) };
        extender.probed.append(&mut self.probed);
        self.limits.may_decide(now)?;
        rule(self.unlisted == 0 || now.since(self.lists_since) >= LIST_TIMEOUT, || {
            format!(
                "{} is tried, and {} kinds are not listed again",
                attempt.pod.key, self.unlisted
            )
        })?;
        turns.include(&attempt)?;
        if let Some(kind) = turns.early_kind(&attempt.pod) {
            self.early_attempts.include(&attempt, kind, now)?;
        }
        self.explanations.decided(&attempt);
        self.last_decisions.include(&attempt);
        self.zones.are_in_turn(self.scheduler.engine(), &attempt)?;
        let engine = self.scheduler.engine();
        let is_out = decisions::is_extender_out(engine);
        let may_fail = extender.failures > 0 || is_out && needs_extender(&attempt.pod);
        decisions::after_decision(engine, &attempt, highest, may_fail)?;
        groups::rejected_group_holds_no_room(engine, &attempt)?;
        // A plugin may have rejected a pod in Permit for this one, which changes what fits.
        if waiting.iter().all(|pod| engine.waiting_pods().contains_key(pod)) {
            decisions::is_taken(engine, &self.related, &attempt)?;
        }
        let preemption = foreseen.after(&attempt, self.scheduler.engine(), may_fail)?;
        self.evictions.remove(&attempt.pod.uid);
        if let Some(preemption) = &preemption {
            let end = now + extender.blocked;
            self.preemptions.begin(preemption, attempt.pod.priority(), now, end)?;
            self.are_counted(&preemption.victims)?;
            self.evictions.insert(attempt.pod.uid.clone(), preemption.victims.clone());
        }
        self.nobody_oversleeps(now, || format!("{} is tried", attempt.pod.key))?;
        let group = attempt.pod.pod_group();
        let placed = match (&group, &attempt.outcome) {
            (None, Outcome::Assumed(_)) => vec![attempt.clone()],
            (None, _) => Vec::new(),
            (Some(_), _) => self.newly_placed_members(),
        };
        if !placed.is_empty() {
            self.vain_attempts.input();
        }
        self.vain_attempts.include(&attempt, placed.len(), now)?;
        if let Some(group) = group.as_ref().filter(|_| !placed.is_empty()) {
            self.releases.decided(group, self.scheduler.engine());
            placed.iter().for_each(|member| self.last_decisions.include(member));
        }
        let unheld =
            waiting.iter().all(|pod| self.scheduler.engine().waiting_pods().contains_key(pod));
        if unheld && group.is_some() {
            groups::are_taken(self.scheduler.engine(), &self.related, &placed)?;
        }
        let priority = group.as_ref().and_then(|group| priorities.get(group));
        let group_victims = priority.map(|priority| {
            self.group_preempts(group.as_ref(), *priority, now + extender.blocked);
            let victims = victims(self.scheduler.engine());
            (victims.difference(&victims_before).cloned().collect(), *priority)
        });
        let beside = placed.into_iter().map(|own| {
            let beside = match &own.outcome {
                Outcome::Assumed(node) => self.pods_on(node),
                _ => BTreeSet::new(),
            };
            (own, beside)
        });
        let placed = beside.collect();
        Ok(Some(Decided { attempt, preemption, extender, placed, group_victims }))
    }

    /// Notes that members that are nominated may be preemptors.
    fn group_preempts(&mut self, group: Option<&PodGroupKey>, priority: i32, end: Time) {
        let engine = self.scheduler.engine();
        let members = group.map_or(&[][..], |group| engine.queue().members_of(group));
        for pod in members.iter().map(|member| &member.pod) {
            if let Some(node) = engine.nominator().node_of(&pod.uid) {
                self.preemptions.begin_for_group(&pod.uid, node, priority, end);
            }
        }
    }

    /// Notes that the scheduler has handled an input, which may have placed members of groups.
    fn has_handled_input(&mut self) {
        self.owes_reports = true;
        self.vain_attempts.input();
        if self.kind.has_groups {
            let placed = self.newly_placed_members();
            self.placed_members.extend(placed);
        }
    }

    /// Whether the scheduler may have reports about groups to write.
    pub(crate) const fn owes_reports(&self) -> bool {
        self.kind.has_groups && self.owes_reports
    }

    /// Takes the members of groups that were placed beside attempts.
    pub(crate) fn take_placed_members(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.placed_members)
    }

    /// Returns the members of groups that are assumed and were not at the last call.
    fn newly_placed_members(&mut self) -> Vec<Attempt> {
        let engine = self.scheduler.engine();
        let cluster = engine.cluster();
        let assumed = cluster.pods().filter(|placed| {
            placed.pod.pod_group().is_some() && engine.world().is_assumed(&placed.pod.uid)
        });
        let (mut known, mut new) = (BTreeSet::new(), Vec::new());
        for placed in assumed {
            let node = cluster.node_name(placed.node);
            let own = (placed.pod.uid.clone(), node.clone());
            if !self.assumed_members.contains(&own) {
                let (pod, outcome) = (placed.pod.clone(), Outcome::Assumed(node.clone()));
                new.push(Attempt { pod, outcome });
            }
            known.insert(own);
        }
        self.assumed_members = known;
        new
    }

    /// Whether a pod was placed on `node` after the last attempt of this one, which no event tells
    /// it.
    pub(crate) fn got_a_pod_since(&self, node: &str, pod: &Uid) -> bool {
        self.last_decisions.of_node.get(node) > self.last_decisions.of_pod.get(pod)
    }

    /// Whether the watch has shown the pod on a node.
    pub(crate) fn shows_placed(&self, pod: &Uid) -> bool {
        self.placed.contains_key(pod)
    }

    /// Whether a process that may act has no request under way, binds no pod, and has no pod to
    /// try.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        let engine = self.scheduler.engine();
        let counts = engine.queue().counts();
        self.is_synced()
            && self.scheduler.api_dispatcher().unfinished() == 0
            && engine.binding_count() == 0
            && counts.active + counts.backoff == 0
            && self.scheduler.may_act(now)
    }

    /// Returns the pods that the watch has shown on a node.
    fn pods_on(&self, node: &str) -> BTreeSet<Uid> {
        let here = self.placed.iter().filter(|(_, own)| ***own == *node);
        here.map(|(uid, _)| uid.clone()).collect()
    }

    /// Checks that the budgets of victims count the new evictions. Earlier victims may be counted
    /// by the status already, and victims without a bind were rejected in memory.
    fn are_counted(&mut self, victims: &[Arc<Pod>]) -> Checked {
        let engine = self.scheduler.engine();
        let budgets = Budgets::of_engine(engine, &self.related);
        for victim in victims.iter().filter(|victim| !victim.terminating) {
            let is_new = self.victims.insert(victim.uid.clone());
            let is_counted =
                budgets.all_count(victim) || engine.world().placed(&victim.uid).is_none();
            rule(!is_new || is_counted, || {
                format!("a budget ignores the eviction of {}", victim.key)
            })?;
        }
        Ok(())
    }

    /// Checks that a preemptor whose victims stay is retried, at the latest when others of them
    /// end.
    fn no_eviction_is_forgotten(&self) -> Checked {
        let engine = self.scheduler.engine();
        for (place, queued) in engine.queue().iter() {
            let pod = &queued.pod;
            let waits_for_victims = match place {
                Place::Unschedulable => true,
                Place::Gated => engine.is_preempting(&pod.uid),
                _ => false,
            };
            if !waits_for_victims {
                continue;
            }
            let victims = self.evictions.get(&pod.uid).map(Vec::as_slice).unwrap_or_default();
            let placed = |victim: &Pod| engine.world().placed(&victim.uid);
            let ends = |victim: &Pod| {
                engine.is_evicting(&victim.uid)
                    || placed(victim).is_some_and(|placed| placed.pod.terminating)
            };
            if victims.iter().any(|victim| ends(victim)) {
                continue;
            }
            let staying = victims.iter().find(|victim| placed(victim).is_some());
            if let Some(victim) = staying {
                return Err(format!("{} waits, and its victim {} stays", pod.key, victim.key));
            }
        }
        Ok(())
    }

    /// Checks that every pod that the `latest` input should requeue is requeued.
    fn nobody_oversleeps(&mut self, now: Time, latest: impl FnOnce() -> String) -> Checked {
        let engine = self.scheduler.engine();
        if let Err(broken) = self.no_eviction_is_forgotten() {
            return Err(format!("{broken}: {}", latest()));
        }
        let nominations = nominations(engine);
        if !self.nominations.is_subset(&nominations) {
            self.unnominated = now;
            self.vain_attempts.input();
        }
        self.nominations = nominations;
        let related = &self.related;
        wake_ups::parked_pods_fit_nowhere(engine, related, self.unnominated)
            .and_then(|()| groups::gated_groups_have_a_reason(engine))
            .and_then(|()| groups::parked_groups_fit_nowhere(engine, related, self.unnominated))
            .map_err(|asleep| format!("{asleep}: {}", latest()))
    }

    /// Checks that the state of the scheduler is consistent, and that of the watches.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn counts_agree(&self) -> Checked {
        let engine = self.scheduler.engine();
        counts::of_nodes(engine)?;
        counts::of_pods(engine, &self.placed)?;
        counts::of_queue(engine)
    }

    /// Checks that no call waits for the API server while the limits admit it.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn no_call_waits_in_vain(&self, now: Time) -> Checked {
        let dispatcher = self.scheduler.api_dispatcher();
        let may_send = self.scheduler.may_act(now) && self.limits.admit_one(now);
        if dispatcher.unfinished() == 0 || !may_send {
            return Ok(());
        }
        let counts = dispatcher.call_counts();
        // A call may wait behind one for the same object that backs off, or that an extender
        // answers.
        let holds_up = |(call, state): &(CallType, CallState)| {
            let is_answered = *call == CallType::ExtenderBinding && *state == CallState::InFlight;
            is_answered || *state == CallState::BackingOff
        };
        let is_held_up = counts.keys().any(holds_up);
        let waits = counts.keys().any(|(_, state)| *state == CallState::Waiting);
        rule(is_held_up || !waits, || format!("calls wait, and the limits admit one: {counts:?}"))
    }

    /// Checks that binding cycles end soon while nothing is wrong, once their volumes are bound.
    ///
    /// # Errors
    /// A pod waits for nothing.
    pub(crate) fn no_binding_waits_in_vain(&mut self, now: Time) -> Checked {
        let engine = self.scheduler.engine();
        let pods = engine.cluster().pods().map(|placed| &placed.pod);
        // Members of a group wait for each other.
        let waits = |pod: &Arc<Pod>| {
            let group = pod.pod_group();
            let mut others = engine.pending().filter(|_| group.is_some());
            pod.labels.contains_key(patience::LABEL)
                || others.any(|other| {
                    other.pod_group() == group && other.labels.contains_key(patience::LABEL)
                })
        };
        let ready = pods.filter(|pod| {
            engine.is_binding(&pod.uid) && !waits(pod) && !self.related.storage.has_unbound(pod)
        });
        let ready = ready.map(|pod| {
            let waits = self.binding_waits(pod);
            let known = self.ready.get(&pod.uid).filter(|ready| ready.waits == waits);
            (pod.uid.clone(), Ready { since: known.map_or(now, |ready| ready.since), waits })
        });
        self.ready = ready.collect();
        let late = self.ready.iter().find(|(_, ready)| now.since(ready.since) > ready.longest());
        rule(late.is_none(), || format!("{late:?} has its volumes, and is not bound"))
    }

    fn binding_waits(&self, pod: &Pod) -> BindingWaits {
        let extender = self.kind.extender.map(Role::config);
        if extender.is_some_and(|extender| extender.bind && extender.is_interested(pod)) {
            return BindingWaits::Extender;
        }
        match self.related.waits_for_devices(pod) {
            true => BindingWaits::Devices,
            false => BindingWaits::Nothing,
        }
    }

    /// Forgets which pods have had nothing to wait for: something is wrong.
    pub(crate) fn excuse_bindings(&mut self) {
        self.ready.clear();
    }

    /// Checks that volumes that are no longer assumed are available to all pods.
    ///
    /// # Errors
    /// A volume is withheld.
    pub(crate) fn no_volumes_are_kept(&mut self, now: Time) -> Checked {
        let gives_volumes = gives_volumes(self.scheduler.engine());
        match std::mem::replace(&mut self.gave_volumes, gives_volumes) && !gives_volumes {
            true => self.counts_are_right(now),
            false => Ok(()),
        }
    }

    /// Checks that incremental counts equal counts from scratch.
    ///
    /// # Errors
    /// A decision depends on the difference.
    pub(crate) fn counts_are_right(&mut self, now: Time) -> Checked {
        let mut fresh = new_engine(0, self.kind);
        let engine = self.scheduler.engine();
        let cluster = engine.cluster();
        let nodes = cluster.nodes().iter().map(|node| Change::Node(cluster.to_node(node)));
        let pods = cluster.pods().map(|placed| Change::Pod(Box::new(Pod::clone(&placed.pod))));
        for change in self.related.changes().chain(nodes).chain(pods) {
            fresh.step(
                engine::Input::Change(change),
                now,
                &mut Ports { extenders: &mut (), probe: &mut () },
            );
        }
        decisions::forms_agree(&mut self.scheduler, &mut fresh, &self.related, now)
    }

    /// Takes the requests that were made.
    ///
    /// # Errors
    /// A request exceeds the limits.
    pub(crate) fn take_requests(
        &mut self,
        now: Time,
    ) -> Result<Vec<(RequestSource, Request)>, String> {
        self.recording.keep(&mut self.scheduler);
        let requests: Vec<_> = self.scheduler.take_requests().collect();
        let is_limited = |by: RequestSource, request: &Request| {
            by == RequestSource::ApiDispatcher && request.destination == Destination::ApiServer
        };
        for (_, request) in requests.iter().filter(|(by, request)| is_limited(*by, request)) {
            self.limits.sent(request, now)?;
            self.retries.sent(request, now)?;
        }
        for (source, request) in &requests {
            self.releases.sent(request, self.scheduler.engine())?;
            self.farewell.sent(*source, request)?;
            Explanations::are_written(request)?;
        }
        Ok(requests)
    }

    /// Handles the outcome of a call of an extender for which no decision waited.
    ///
    /// # Errors
    /// A pod was not requeued in time.
    pub(crate) fn extender_probed(
        &mut self,
        extender: usize,
        outcome: Result<(), String>,
        now: Time,
    ) -> Checked {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.scheduler.handle_extender_probed(extender, outcome, now, ports);
        self.has_handled_input();
        self.nobody_oversleeps(now, || "an extender is tried again".to_owned())
    }

    /// Ends the recording, and returns it.
    pub(crate) fn into_recording(mut self) -> Recording {
        self.recording.end(&mut self.scheduler);
        self.recording
    }

    /// Returns whether all informers have synced.
    pub(crate) const fn is_synced(&self) -> bool {
        self.unsynced == 0
    }

    /// Passes the changes that informers report to the scheduler. Calls to open and close go to
    /// `calls`.
    pub(crate) fn learn(&mut self, calls: &mut Vec<(usize, Output<Update>)>, now: Time) -> Checked {
        for number in 0..self.informers.len() {
            self.informers[number].take_outputs(now)?;
            for output in std::mem::take(&mut self.informers[number].outputs) {
                let informer = &mut self.informers[number];
                match output {
                    Output::Updated(meta, Update { change, .. }) => {
                        informer.view.changed(&meta)?;
                        self.take_in(change, now)?;
                    }
                    Output::Deleted(meta) => {
                        informer.view.deleted(&meta)?;
                        let change = informer.decoder.deletion(meta);
                        self.take_in(change, now)?;
                    }
                    Output::Synced => {
                        informer.reading = Reading::Watch;
                        self.unsynced -= 1;
                    }
                    Output::Relisted => {
                        informer.reading = Reading::Watch;
                        self.relisted(number);
                    }
                    Output::Undecodable { message, .. } => {
                        panic!("an object was skipped: {message}")
                    }
                    call @ (Output::Open(_) | Output::Close(_)) => calls.push((number, call)),
                }
            }
        }
        if self.is_synced() {
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            self.scheduler.set_synced(now, ports);
        }
        Ok(())
    }

    /// Lists the kinds again that the scheduler asks for.
    ///
    /// # Errors
    /// A reflector violates a rule.
    pub(crate) fn relist(&mut self, now: Time) -> Checked {
        for relist in self.scheduler.take_relists() {
            if relist == Relist::Others {
                (self.unlisted, self.lists_since) = (self.informers.len() - 1, now);
            }
            for informer in &mut self.informers {
                if informer.covered_by() == relist {
                    informer.relist(now)?;
                }
            }
        }
        Ok(())
    }

    fn relisted(&mut self, informer: usize) {
        let relist = self.informers[informer].covered_by();
        if relist == Relist::Others {
            self.unlisted -= 1;
        }
        if relist == Relist::Pods || self.unlisted == 0 {
            self.scheduler.handle_relisted(relist);
        }
    }

    /// Passes a change to the scheduler, and counts the pods that it requeues.
    fn take_in(&mut self, change: Change, now: Time) -> Checked {
        let object = match &change {
            Change::Object(object) => Some((object.key(), Some(object.json()))),
            Change::ObjectDeleted(key) => Some((key, None)),
            _ => None,
        };
        if let Some((ObjectKey { kind, namespace, name }, object)) = object {
            let key = (kind.clone(), namespace.clone(), name.clone());
            self.related.set(key, object.as_ref());
        }
        match &change {
            Change::Node(node) => self.zones.set(node),
            Change::NodeDeleted(node) => {
                self.zones.remove(node);
                self.preemptions.node_is_gone(node);
            }
            Change::Pod(pod) if pod.terminal => self.ends(&pod.uid, now),
            Change::Pod(pod) => match &pod.node_name {
                Some(node) => {
                    self.placed.insert(pod.uid.clone(), node.clone());
                    self.preemptions.is_bound(&pod.uid, node);
                }
                None => drop(self.placed.remove(&pod.uid)),
            },
            Change::PodDeleted { uid, .. } => self.ends(uid, now),
            _ => {}
        }
        let latest = described(&change);
        let arrival = self.arrival(&change);
        let is_idle = self.changes_nothing(&change);
        let parked = wake_ups::parked(self.scheduler.engine());
        let awaited = match self.frees_room(&change) {
            true => wake_ups::pending_pods(self.scheduler.engine()),
            false => Vec::new(),
        };
        self.scheduler.apply(change, now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.has_handled_input();
        wake_ups::are_ready(&awaited, self.scheduler.engine())?;
        if let Some(pod) = arrival {
            self.is_nominated_as_shown(&pod)?;
        }
        let woken = WakeUps::among(&parked, self.scheduler.engine(), &self.related);
        rule(!is_idle || woken.all == 0, || format!("{latest}, as before, and requeues pods"))?;
        self.wake_ups += woken;
        self.nobody_oversleeps(now, || latest)
    }

    /// Notes that a pod is gone, or has run to its end.
    fn ends(&mut self, pod: &Uid, now: Time) {
        self.placed.remove(pod);
        // The pod may be assumed on a node.
        let world = self.scheduler.engine().world();
        let placed = world.placed(pod).map(|own| world.cluster().node_name(own.node));
        self.preemptions.is_gone(pod, placed, now);
    }

    /// Whether a change reports the end of a pod on a node.
    fn frees_room(&self, change: &Change) -> bool {
        let uid = match change {
            Change::Pod(pod) if pod.terminal => &pod.uid,
            Change::PodDeleted { uid, .. } => uid,
            _ => return false,
        };
        let world = self.scheduler.engine().world();
        world.placed(uid).is_some() && !world.is_assumed(uid)
    }

    /// Whether a change repeats what is known, or changes annotations or the status only.
    fn changes_nothing(&self, change: &Change) -> bool {
        let world = self.scheduler.engine().world();
        match change {
            Change::Node(node) => world.node(&node.name).is_some_and(|known| {
                Node { annotations: node.annotations, images: node.images.clone(), ..known }
                    == *node
            }),
            Change::Pod(pod) => world.placed(&pod.uid).is_some_and(|placed| {
                let known = &placed.pod;
                !world.is_assumed(&pod.uid)
                    && (&known.labels, &known.spec, &known.requests, known.terminating)
                        == (&pod.labels, &pod.spec, &pod.requests, pod.terminating)
                    && !pod.terminal
            }),
            _ => false,
        }
    }

    /// Returns the pod of a change that reports it for the first time, without a node.
    fn arrival(&self, change: &Change) -> Option<Pod> {
        let Change::Pod(pod) = change else { return None };
        let known = self.scheduler.engine().pending_pod(&pod.key);
        let is_new = known.is_none_or(|known| known.uid != pod.uid) && pod.node_name.is_none();
        is_new.then(|| Pod::clone(pod))
    }

    /// Checks that a pod that has arrived and may be tried keeps room on the node that its status
    /// names, which an earlier process has cleared for it.
    fn is_nominated_as_shown(&self, pod: &Pod) -> Checked {
        let engine = self.scheduler.engine();
        let place = engine.queue().get(&pod.key).map(|(place, _)| place);
        let (shown, known) = (pod.nominated_node_name(), engine.nominator().node_of(&pod.uid));
        rule(place != Some(Place::Active) || known == shown, || {
            format!("{} arrives nominated to {shown:?}, and is nominated to {known:?}", pod.key)
        })
    }
}

/// Returns the priorities of the queued groups.
fn group_priorities(engine: &Engine) -> BTreeMap<PodGroupKey, i32> {
    let groups = engine.queue().entities().filter_map(|(_, entity)| match entity {
        QueuedEntity::Group(group) => Some((group.key.clone(), group.priority)),
        QueuedEntity::Pod(_) => None,
    });
    groups.collect()
}

/// Returns the pods on nodes that are victims of a preemption in progress.
fn victims(engine: &Engine) -> BTreeSet<Uid> {
    let pods = engine.cluster().pods().map(|placed| &placed.pod.uid);
    pods.filter(|uid| engine.is_victim(uid)).cloned().collect()
}

/// Returns the nominated pods, with their nodes.
fn nominations(engine: &Engine) -> BTreeSet<(Uid, String)> {
    let nominator = engine.nominator();
    let nominated = nominator.nodes().flat_map(|node| {
        let pods = nominator.nominated_to(node);
        pods.into_iter().map(move |pod| (pod.uid.clone(), node.to_owned()))
    });
    nominated.collect()
}

/// Returns the object of a change.
fn described(change: &Change) -> String {
    match change {
        Change::Node(node) => format!("node {} is {node:?}", node.name),
        Change::NodeDeleted(name) => format!("node {name} is gone"),
        Change::Pod(pod) => {
            format!("pod {} has {:?} and is at {:?}", pod.key, pod.labels, pod.node_name)
        }
        Change::PodDeleted { key, .. } => format!("pod {key} is gone"),
        Change::Object(object) => format!("{:?} is {}", object.key(), object.json()),
        Change::ObjectDeleted(key) => format!("{key:?} is gone"),
    }
}

/// Creates an engine with the default plugins and a plugin that waits. It has two profiles; one of
/// them has default spread constraints and visits nodes in turn from each zone.
pub(crate) fn new_engine(seed: u64, kind: Kind) -> Engine {
    let mut spreading = profile(
        SPREADING,
        json!([
            patience_for_volumes(8),
            {"name": "PodTopologySpread",
                "args": {"defaultingType": "List", "defaultConstraints": [{"topologyKey": ZONE,
                    "maxSkew": DEFAULT_MAX_SKEW, "whenUnsatisfiable": "DoNotSchedule"}]}},
        ]),
    );
    // Kubernetes looks for at least a hundred nodes, so every one is visited.
    spreading["percentageOfNodesToScore"] = json!(50);
    if kind.has_sources {
        sources::add_readers(&mut spreading);
    }
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile(DEFAULT, json!([patience_for_volumes(20)])), spreading],
    });
    let gates = kind.scores_storage.then_some("StorageCapacityScoring=true");
    let gates = gates.into_iter().chain(kind.has_groups.then_some(GATES_OF_GROUPS));
    let gates = Gates::parse(gates).expect("the gate is known");
    let loaded = config::load(&text.to_string(), &gates);
    let config = loaded.expect("the configuration is valid").config;
    let mut registry = plugins::registry();
    registry.register(patience::NAME, patience::plugin).expect("the name is free");
    registry.register(patience::RESTRAINT, patience::restraint).expect("the name is free");
    scheduler_plugins::add_to(&mut registry);
    let profiles = config.build_profiles(&registry).expect("every plugin is there");
    let extenders = kind.extender.map(Role::config).into_iter().collect();
    let queue = config.queue();
    Engine::new(EngineConfig { seed, queue, extenders, ..EngineConfig::new(profiles) })
}

fn profile(name: &str, mut plugin_config: Value) -> Value {
    if let Some(configs) = plugin_config.as_array_mut() {
        let args = json!({"ignoredResources": [extender::RESOURCE]});
        configs.push(json!({"name": "NodeResourcesFit", "args": args}));
        let args = json!({"bindingTimeout": format!("{PATIENCE_FOR_DEVICES}s")});
        configs.push(json!({"name": "DynamicResources", "args": args}));
    }
    json!({"schedulerName": name, "pluginConfig": plugin_config,
        "plugins": {"multiPoint": {"enabled": [{"name": patience::NAME}, {"name": patience::RESTRAINT}]}}})
}

/// Seconds that pods wait for their volumes.
fn patience_for_volumes(seconds: u32) -> Value {
    json!({"name": "VolumeBinding", "args": {"bindTimeoutSeconds": seconds}})
}

/// The election with the defaults of kube-scheduler.
fn election(life: u32, seed: u64) -> LeaderElection {
    let config = LeaderElectionConfig {
        identity: format!("process-{life}"),
        namespace: "kube-system".to_owned(),
        name: DEFAULT.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        level: None,
    };
    LeaderElection {
        elector: LeaderElector::new(config, seed).expect("the settings are safe"),
        reporting_controller: DEFAULT.into(),
        delay_cache_until_active: false,
    }
}

/// Limits that take effect, unlike the defaults.
fn limits(rng: &mut Rng, has_slots: bool) -> Limits {
    let qps = rng.bool().then_some(20.0);
    let max_waiting = [0, 3, 1024][rng.usize(..3)];
    let fewest = if has_slots { 16 } else { 1 };
    Limits { max_in_flight: rng.usize(fewest..20), qps, burst: 5, max_waiting, ..Limits::default() }
}

/// Streaming lists, or paged lists with small pages.
fn options(rng: &mut Rng) -> Options {
    Options { watch_list: rng.bool(), page_size: rng.u32(1..8), ..Options::default() }
}
