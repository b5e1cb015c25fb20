//! Operations into bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use engine::cycle::Form;
use engine::ports::{CallError, Filtered, HostPriorities, MetaVictims};
use engine::{Attempt, Change, Effect, EffectId, EffectKind, Engine, Input, Outcome, Output};
use framework::{
    Answer, Controller, EventResource, Node, ObjectKey, Pod, PodKey, Time, Uid, WallOffset,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;

use crate::record::{
    AnswerRecord, CalledRecord, DecidedRecord, Deletion, EffectRecord, ErrorRecord, FilteredRecord,
    Life, NodePart, NodeRecord, ObjectRecord, PART_COUNT_MAX, PARTS_MAX, PODS_MAX, PartNumber,
    PodNumber, PodRecord, Record, StatusPart, TemplatePart,
};
use crate::value::{Keep, put, write_value};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Bytes of whole operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Whether the chunk can be read without those before it.
    pub starts: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Writes operations. Equal parts are written once and then named by number, until the numbers
/// start over.
#[derive(Debug)]
pub struct Encoder {
    out: Vec<u8>,
    /// For parts of parts.
    scratch: Vec<u8>,
    parts: FxHashMap<Box<[u8]>, PartNumber>,
    parts_size: usize,
    pods: FxHashMap<Uid, PodNumber>,
    next_pod: PodNumber,
    base: Base,
    wall_offset: Option<WallOffset>,
    digest: u32,
    /// Bytes since the last reset.
    written: usize,
    /// Bytes after which the numbers start over.
    reset_after: usize,
    /// Whether `out` begins with a reset.
    starts: bool,
    /// Whether a checkpoint is being written. A checkpoint that a reset cuts off is useless.
    in_checkpoint: bool,
}

/// The values from which differences are measured.
#[derive(Debug, Default)]
struct Base {
    time: i64,
    version: u64,
    start: i64,
    effect: u64,
}

impl Encoder {
    /// Creates an encoder whose numbers start over after this many bytes.
    pub fn new(reset_after: usize) -> Self {
        let mut encoder = Self {
            out: Vec::new(),
            scratch: Vec::new(),
            parts: FxHashMap::default(),
            parts_size: 0,
            pods: FxHashMap::default(),
            next_pod: 0,
            base: Base::default(),
            wall_offset: None,
            digest: 0,
            written: 0,
            reset_after,
            starts: false,
            in_checkpoint: false,
        };
        encoder.reset();
        encoder
    }

    /// Returns the number of bytes that were not taken.
    pub const fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether there is nothing to take.
    pub const fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes the operations since the last call, if there are some and they have at least this many
    /// bytes.
    pub fn take_if(&mut self, least: usize) -> Option<Chunk> {
        (!self.is_empty() && self.len() >= least).then(|| self.take())
    }

    /// Takes the operations since the last call. The last one must be complete.
    pub fn take(&mut self) -> Chunk {
        let chunk = Chunk { starts: self.starts, bytes: std::mem::take(&mut self.out) };
        self.starts = false;
        self.written += chunk.bytes.len();
        let is_full = self.written >= self.reset_after && !self.in_checkpoint
            || self.parts_size >= PARTS_MAX / 2
            || self.parts.len() >= PART_COUNT_MAX / 2
            || self.next_pod as usize >= PODS_MAX / 2;
        if is_full {
            self.reset();
        }
        chunk
    }

    /// Returns whether what follows begins a new file.
    pub const fn starts(&self) -> bool {
        self.starts
    }

    /// Returns the number of bytes after which a new file begins.
    pub const fn reset_after(&self) -> usize {
        self.reset_after
    }

    /// Writes a part of a checkpoint.
    pub fn known(&mut self, change: &Change) {
        self.in_checkpoint = true;
        put(&mut self.out, &Record::Known);
        self.change(change, Time::from_nanos(self.base.time));
    }

    /// Writes that the checkpoint is complete.
    pub fn checkpoint(&mut self) {
        self.in_checkpoint = false;
        put(&mut self.out, &Record::Checkpoint);
    }

    /// Leaves the checkpoint incomplete.
    pub const fn abandon_checkpoint(&mut self) {
        self.in_checkpoint = false;
    }

    fn reset(&mut self) {
        self.in_checkpoint = false;
        self.parts.clear();
        self.pods.clear();
        (self.parts_size, self.next_pod, self.written) = (0, 0, 0);
        self.base = Base::default();
        self.starts = true;
        put(&mut self.out, &Record::Reset);
        if let Some(offset) = self.wall_offset.take() {
            self.wall_offset(offset);
        }
    }

    /// Writes the offset of the wall clock if it has changed.
    fn wall_offset(&mut self, offset: WallOffset) {
        if self.wall_offset != Some(offset) {
            self.wall_offset = Some(offset);
            let nanos = offset.wall_time(Time::ZERO).as_nanos();
            put(&mut self.out, &Record::WallOffset(nanos));
        }
    }

    pub(crate) fn change(&mut self, change: &Change, now: Time) {
        match change {
            Change::Node(node) => self.node(node, now),
            Change::NodeDeleted(name) => {
                let name = self.text(name);
                let at = self.at(now);
                put(&mut self.out, &Record::NodeDeleted { at, name });
            }
            Change::Pod(pod) => {
                let pod = self.pod(pod);
                let at = self.at(now);
                put(&mut self.out, &Record::Pod { at, pod });
            }
            Change::PodDeleted { key, uid } => {
                let pod = self.pod_number(key, uid);
                let at = self.at(now);
                put(&mut self.out, &Record::PodDeleted { at, pod });
                self.pods.remove(uid);
            }
            Change::Object(object) => self.object(object.key(), Some(&object.json()), now),
            Change::ObjectDeleted(key) => self.object(key, None, now),
        }
    }

    fn object(&mut self, key: &ObjectKey, object: Option<&Value>, now: Time) {
        let ObjectKey { kind, namespace, name } = key;
        let keep = if is_secret(kind) { Keep::Metadata } else { Keep::All };
        let object = object.map(|object| self.value(object, keep).into());
        let kind = self.part(kind);
        let namespace = self.text(namespace);
        let at = self.at(now);
        let name = Cow::Borrowed(&**name);
        let record = ObjectRecord { at, kind, namespace, name, object };
        put(&mut self.out, &Record::Object(record));
    }

    /// Writes an input of the engine, before the step.
    pub(crate) fn input(&mut self, input: &Input, engine: &Engine, now: Time) {
        match input {
            Input::WallOffset(offset) => self.wall_offset(*offset),
            Input::Change(change) => self.change(change, now),
            Input::Answer { effect, answer } => self.answer(*effect, answer, now),
            Input::ExtenderProbed { extender, outcome } => {
                let (extender, error) = (*extender, outcome.as_ref().err());
                let error = error.map(|error| Cow::Borrowed(&**error));
                let at = self.at(now);
                put(&mut self.out, &Record::ExtenderProbed { at, extender, error });
            }
            // The engine does nothing if no deadline has passed.
            Input::Tick => {
                if engine.next_deadline().is_some_and(|deadline| deadline <= now) {
                    let at = self.at(now);
                    put(&mut self.out, &Record::Tick { at });
                }
            }
            Input::Touch(pod) => {
                if let Some(pod) = engine.pending_pod(pod) {
                    let pod = self.pod_number(&pod.key, &pod.uid);
                    put(&mut self.out, &Record::Touch { pod });
                }
            }
            Input::Schedule => {
                let at = self.at(now);
                put(&mut self.out, &Record::Schedule { at });
            }
            Input::Evaluate { pod, form, start } => self.evaluate(pod, *form, *start, now),
        }
    }

    /// Writes the outcome of an input, after the step.
    pub(crate) fn output(&mut self, output: &Output) {
        if let Output::Attempt(attempt) = output {
            self.attempt(attempt);
        }
    }

    fn answer(&mut self, effect: EffectId, answer: &Answer, now: Time) {
        let answer = match answer {
            Answer::Ok(object) => AnswerRecord::Ok(object.as_ref().map(|object| {
                let is_pod = object["kind"] == "Pod" || object["spec"]["containers"].is_array();
                let keep = if is_pod { Keep::PodState } else { Keep::All };
                self.value(object, keep).into()
            })),
            Answer::Conflict(text) => AnswerRecord::Conflict(text.into()),
            Answer::Outdated(text) => AnswerRecord::Outdated(text.into()),
            Answer::Gone(text) => AnswerRecord::Gone(text.into()),
            Answer::Forbidden(text) => AnswerRecord::Forbidden(text.into()),
            Answer::Throttled(text) => AnswerRecord::Throttled(text.into()),
            Answer::Error(text) => AnswerRecord::Error(text.into()),
            Answer::Unknown(text) => AnswerRecord::Unknown(text.into()),
            // The enum may grow. An answer without a name here has no object.
            other => AnswerRecord::Error(other.failure().unwrap_or_default().into()),
        };
        let number = effect.as_u64();
        let difference = number.wrapping_sub(self.base.effect).cast_signed();
        self.base.effect = number;
        let at = self.at(now);
        put(&mut self.out, &Record::Answer { at, effect: difference, answer });
    }

    fn attempt(&mut self, attempt: &Attempt) {
        let pod = self.pod_number(&attempt.pod.key, &attempt.pod.uid);
        let outcome = match &attempt.outcome {
            Outcome::Assumed(node) => DecidedRecord::Assumed(self.text(node)),
            Outcome::Unschedulable(_) => DecidedRecord::Unschedulable,
            Outcome::Repeated(_) => DecidedRecord::Repeated,
            Outcome::Error(_) => DecidedRecord::Error,
            Outcome::Skipped => DecidedRecord::Skipped,
        };
        put(&mut self.out, &Record::Attempt { pod, outcome });
    }

    fn evaluate(&mut self, pod: &Pod, form: Form, start: Option<usize>, now: Time) {
        let pod = self.pod(pod);
        let form = match form {
            Form::Set => 0,
            Form::OneNode => 1,
            Form::Ranked => 2,
        };
        let at = self.at(now);
        put(&mut self.out, &Record::Evaluate { at, pod, form, start });
    }

    /// Writes the result of a filter call.
    pub(crate) fn filtered(&mut self, result: &Result<Filtered, CallError>, until: Time) {
        let result = result.as_ref().map_err(error).map(|filtered| {
            let mut reasons = |list: &[(String, String)]| {
                list.iter().map(|(node, reason)| (self.text(node), self.text(reason))).collect()
            };
            let failed = reasons(&filtered.failed);
            let unresolvable = reasons(&filtered.failed_and_unresolvable);
            let nodes = filtered.nodes.iter().map(|node| self.text(node)).collect();
            FilteredRecord { nodes, failed, unresolvable }
        });
        self.called(CalledRecord::Filter(result), until);
    }

    /// Writes the results of prioritize calls.
    pub(crate) fn prioritized(
        &mut self,
        results: &[Result<HostPriorities, CallError>],
        until: Time,
    ) {
        let results = results.iter().map(|result| {
            let priorities = result.as_ref().map_err(error)?;
            Ok(priorities.iter().map(|(node, score)| (self.text(node), *score)).collect())
        });
        let results = CalledRecord::Prioritize(results.collect());
        self.called(results, until);
    }

    /// Writes the result of a preempt call.
    pub(crate) fn preempted(
        &mut self,
        result: &Result<BTreeMap<String, MetaVictims>, CallError>,
        until: Time,
    ) {
        let result = result.as_ref().map_err(error).map(|candidates| {
            let candidate = |(node, victims): (&String, &MetaVictims)| {
                (self.text(node), victims.pods.clone(), victims.num_pdb_violations)
            };
            candidates.iter().map(candidate).collect()
        });
        self.called(CalledRecord::Preempt(result), until);
    }

    fn called(&mut self, result: CalledRecord, until: Time) {
        let until = self.at(until);
        put(&mut self.out, &Record::Called { until, result });
    }

    /// Writes the effects that were taken.
    pub(crate) fn effects(&mut self, effects: &[Effect]) {
        if effects.is_empty() {
            return;
        }
        let digest = digest(&mut self.digest, &mut self.scratch, effects);
        let effects = effects.iter().map(|effect| self.effect(effect)).collect();
        put(&mut self.out, &Record::Effects { effects, digest });
    }

    fn node(&mut self, node: &Node, now: Time) {
        let labels = self.labels(&node.labels);
        let rest = self.part(&NodePart {
            taints: Cow::Borrowed(&node.taints),
            unschedulable: node.unschedulable,
            allocatable: Cow::Borrowed(&node.allocatable),
            allowed_pods: node.allowed_pods,
            declared_features: Cow::Borrowed(&node.declared_features),
        });
        let images = self.part(&node.images);
        let digests = self.part(&(node.conditions, node.annotations));
        let extra = (node.extra != Default::default()).then(|| self.part(&node.extra));
        let name = self.text(&node.name);
        let at = self.at(now);
        let record = NodeRecord { at, name, labels, rest, images, digests, extra };
        put(&mut self.out, &Record::Node(record));
    }

    fn pod(&mut self, pod: &Pod) -> PodRecord {
        let labels = self.labels(&pod.labels);
        let spec = self.part(&*pod.spec);
        let requests = self.part(&*pod.requests);
        let controller = pod.controller.as_deref().map(|own: &Controller| self.part(own));
        let extra = (pod.extra != Default::default()).then(|| self.part(&pod.extra));
        let template = self.part(&TemplatePart { labels, spec, requests, controller, extra });
        let status = self.part(&StatusPart {
            deletion: match (pod.terminating, pod.removal_follows) {
                (false, _) => Deletion::None,
                (true, false) => Deletion::Terminating,
                (true, true) => Deletion::RemovalFollows,
            },
            preempted: pod.preempted,
            life: match (pod.terminal, pod.is_running_member()) {
                (true, _) if pod.has_succeeded() => Life::Succeeded,
                (true, _) => Life::Ended,
                (_, true) => Life::Runs,
                _ => Life::Other,
            },
            condition: pod.scheduled_condition.as_deref().map(Cow::Borrowed),
            claims: pod.generated_claims().map(|own| Cow::Borrowed(&**own)),
            problems: (!pod.problems().is_empty()).then(|| Cow::Borrowed(pod.problems())),
        });
        let node = pod.node_name.as_ref().map(|node| self.text(node));
        let nominated = pod.nominated_node_name().map(|node| self.text(node));
        let version = pod.resource_version.wrapping_sub(self.base.version).cast_signed();
        self.base.version = pod.resource_version;
        let start = pod.start_time.get().map(|start| self.start(start));
        let number = self.pod_number(&pod.key, &pod.uid);
        let generation = pod.generation;
        PodRecord { pod: number, version, generation, template, status, node, nominated, start }
    }

    fn start(&mut self, start: Time) -> (i64, u32) {
        let seconds = start.as_nanos().div_euclid(NANOS_PER_SECOND);
        let nanos = start.as_nanos().rem_euclid(NANOS_PER_SECOND);
        let difference = seconds - self.base.start;
        self.base.start = seconds;
        (difference, u32::try_from(nanos).unwrap_or_default())
    }

    fn labels(&mut self, labels: &framework::Labels) -> PartNumber {
        let pairs: Vec<(PartNumber, PartNumber)> =
            labels.iter().map(|(key, value)| (self.text(key), self.text(value))).collect();
        self.part(&pairs)
    }

    fn effect(&mut self, effect: &Effect) -> EffectRecord {
        match &effect.kind {
            EffectKind::Bind { binding, .. } => {
                let pod = self.pod_number(&binding.pod, &binding.uid);
                EffectRecord::Bind(pod, self.text(&binding.node))
            }
            EffectKind::ExtenderBind { binding, .. } => {
                let pod = self.pod_number(&binding.pod, &binding.uid);
                EffectRecord::ExtenderBind(pod, self.text(&binding.node))
            }
            EffectKind::Write(write) => EffectRecord::Write(
                self.text(&write.resource),
                self.text(&write.namespace),
                self.text(&write.name),
            ),
            EffectKind::Evict(eviction) => {
                let pod = self.pod_number(&eviction.pod, &eviction.uid);
                let PodKey { namespace, name } = &eviction.preemptor;
                EffectRecord::Evict(pod, self.text(namespace), self.text(name))
            }
            EffectKind::ReadPod { pod, uid } => EffectRecord::Read(self.pod_number(pod, uid)),
            EffectKind::Fence { pod, uid, .. } => EffectRecord::Fence(self.pod_number(pod, uid)),
            EffectKind::TouchPod { pod, uid, .. } => EffectRecord::Touch(self.pod_number(pod, uid)),
            EffectKind::PatchPodStatus { pod, uid, .. } => {
                EffectRecord::Patch(self.pod_number(pod, uid))
            }
            EffectKind::PlanMoves(wanted) => {
                EffectRecord::PlanMoves(self.pod_number(&wanted.pod, &wanted.uid))
            }
            EffectKind::RequestEviction { pod, uid } => {
                EffectRecord::RequestEviction(self.pod_number(pod, uid))
            }
            EffectKind::Event(event) => {
                let pod = self.pod_number(&event.regarding, &event.uid);
                EffectRecord::Event(pod, self.text(&event.reason))
            }
        }
    }

    fn value(&mut self, value: &Value, keep: Keep) -> Vec<u8> {
        write_value(value, keep, &mut |key| self.text(key))
    }

    /// Returns the time since the last one, in nanoseconds.
    const fn at(&mut self, now: Time) -> i64 {
        let since = now.as_nanos().wrapping_sub(self.base.time);
        self.base.time = now.as_nanos();
        since
    }

    /// Returns the number of the pod, which is defined if it is new.
    fn pod_number(&mut self, key: &PodKey, uid: &Uid) -> PodNumber {
        if let Some(number) = self.pods.get(uid) {
            return *number;
        }
        let namespace = self.text(&key.namespace);
        let name = Cow::Borrowed(&*key.name);
        put(&mut self.out, &Record::PodName { namespace, name, uid: uid.clone() });
        let number = self.next_pod;
        self.next_pod += 1;
        self.pods.insert(uid.clone(), number);
        number
    }

    /// Returns the number of a part, which is defined if it is new.
    fn part(&mut self, part: &(impl Serialize + ?Sized)) -> PartNumber {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        put(&mut bytes, &part);
        let number = self.bytes(&bytes);
        self.scratch = bytes;
        number
    }

    fn text(&mut self, text: &str) -> PartNumber {
        self.bytes(text.as_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> PartNumber {
        if let Some(number) = self.parts.get(bytes) {
            return *number;
        }
        put(&mut self.out, &Record::Part(bytes.into()));
        let number = PartNumber::try_from(self.parts.len()).unwrap_or(PartNumber::MAX);
        self.parts_size += bytes.len();
        self.parts.insert(bytes.into(), number);
        number
    }
}

/// Digests effects together with all before.
pub(crate) fn digest(before: &mut u32, scratch: &mut Vec<u8>, effects: &[Effect]) -> [u8; 3] {
    scratch.clear();
    put(scratch, &effects);
    let mut hasher = crc32fast::Hasher::new_with_initial(*before);
    hasher.update(scratch);
    *before = hasher.finalize();
    let [a, b, c, _] = before.to_le_bytes();
    [a, b, c]
}

fn error(error: &CallError) -> ErrorRecord {
    match error {
        CallError::NoAnswer(text) => ErrorRecord::NoAnswer(text.clone()),
        CallError::Failed(text) => ErrorRecord::Failed(text.clone()),
    }
}

/// Whether objects of this kind are Secrets, which a plugin may watch.
fn is_secret(kind: &EventResource) -> bool {
    matches!(kind, EventResource::Custom(name) if &**name == "secrets" || name.starts_with("secrets."))
}
