//! Bytes into operations.

use std::borrow::Cow;
use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::{CallError, Filtered, MetaVictims};
use engine::{Change, EffectId, Input};
use framework::{
    Answer, Extra, Labels, Node, NodeImage, ObjectKey, Pod, PodKey, PodRequests, PodSpec, Time,
    Uid, UncommonFields, WallOffset,
};
use serde::de::DeserializeOwned;

use crate::operation::{Called, Decided, EffectSummary, Operation, Taken};
use crate::record::{
    AnswerRecord, CalledRecord, DecidedRecord, Deletion, EffectRecord, ErrorRecord, Life, NodePart,
    NodeRecord, ObjectRecord, PART_COUNT_MAX, PARTS_MAX, PODS_MAX, PartNumber, PodNumber,
    PodRecord, Record, StatusPart, TemplatePart,
};
use crate::value::read_value;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Bytes that are not an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a record.
    #[error("a record cannot be read")]
    Record,
    /// A record names a part or a pod that was not defined.
    #[error("a record names something that was not defined")]
    Undefined,
    /// An object does not decode. The scheduler that was recorded did not see it.
    #[error("an object cannot be decoded: {0}")]
    Object(Box<str>),
    /// More parts or pods are defined than a recording has.
    #[error("more is defined than a recording may define")]
    TooMuch,
}

use DecodeError::Undefined;

/// Reads the operations of an [`Encoder`](crate::Encoder).
#[derive(Debug, Default)]
pub struct Decoder {
    parts: Vec<Box<[u8]>>,
    parts_size: usize,
    pods: Vec<Option<(PodKey, Uid)>>,
    time: i64,
    version: u64,
    start: i64,
    effect: u64,
    /// Whether the next change belongs to a checkpoint.
    is_known: bool,
}

impl Decoder {
    /// Reads the operations of a chunk and passes them to `take`, until it returns false. Returns
    /// the number of bytes before the operation at which it did so, or of all bytes.
    ///
    /// # Errors
    /// The bytes do not come from an encoder.
    pub fn read(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Operation) -> bool,
    ) -> Result<usize, DecodeError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (record, after) =
                postcard::take_from_bytes(rest).map_err(|_| DecodeError::Record)?;
            let operation = match self.operation(record)? {
                Some(Operation::Input { input: Input::Change(change), .. })
                    if std::mem::take(&mut self.is_known) =>
                {
                    Some(Operation::Known(change))
                }
                operation => operation,
            };
            if let Some(operation) = operation
                && !take(operation)
            {
                return Ok(bytes.len() - rest.len());
            }
            rest = after;
        }
        Ok(bytes.len())
    }

    fn operation(&mut self, record: Record<'_>) -> Result<Option<Operation>, DecodeError> {
        Ok(Some(match record {
            Record::Reset => {
                *self = Self::default();
                return Ok(None);
            }
            Record::Part(bytes) => {
                self.parts_size += bytes.len();
                if self.parts_size > PARTS_MAX || self.parts.len() >= PART_COUNT_MAX {
                    return Err(DecodeError::TooMuch);
                }
                self.parts.push(bytes.into());
                return Ok(None);
            }
            Record::PodName { namespace, name, uid } => {
                if self.pods.len() >= PODS_MAX {
                    return Err(DecodeError::TooMuch);
                }
                let namespace = self.text(namespace)?.into();
                let key = PodKey { namespace, name: name.as_ref().into() };
                self.pods.push(Some((key, uid)));
                return Ok(None);
            }
            Record::WallOffset(nanos) => {
                let offset = WallOffset::between(Time::ZERO, Time::from_nanos(nanos));
                self.input(0, Input::WallOffset(offset))
            }
            Record::Node(record) => {
                let change = Change::Node(self.node(&record)?);
                self.input(record.at, Input::Change(change))
            }
            Record::NodeDeleted { at, name } => {
                let change = Change::NodeDeleted(self.text(name)?.into());
                self.input(at, Input::Change(change))
            }
            Record::Pod { at, pod } => {
                let change = Change::Pod(Box::new(self.pod(&pod)?));
                self.input(at, Input::Change(change))
            }
            Record::PodDeleted { at, pod } => {
                let named = self.pods.get_mut(pod as usize).and_then(Option::take);
                let (key, uid) = named.ok_or(Undefined)?;
                self.input(at, Input::Change(Change::PodDeleted { key, uid }))
            }
            Record::Object(record) => {
                let change = self.object(&record)?;
                self.input(record.at, Input::Change(change))
            }
            Record::Answer { at, effect, answer } => {
                self.effect = self.effect.wrapping_add_signed(effect);
                let (effect, answer) = (EffectId::from_u64(self.effect), self.answer(answer)?);
                self.input(at, Input::Answer { effect, answer })
            }
            Record::ExtenderProbed { at, extender, error } => {
                let outcome = error.map_or(Ok(()), |error| Err(error.into_owned()));
                self.input(at, Input::ExtenderProbed { extender, outcome })
            }
            Record::Tick { at } => self.input(at, Input::Tick),
            Record::Touch { pod } => {
                let pod = self.key(pod)?;
                self.input(0, Input::Touch(pod))
            }
            Record::Schedule { at } => self.input(at, Input::Schedule),
            Record::Evaluate { at, pod, form, start } => {
                let pod = Arc::new(self.pod(&pod)?);
                let form = match form {
                    0 => Form::Set,
                    1 => Form::OneNode,
                    _ => Form::Ranked,
                };
                self.input(at, Input::Evaluate { pod, form, start })
            }
            Record::Called { until, result } => {
                let until = self.at(until);
                Operation::Called(self.called(result, until)?)
            }
            Record::Attempt { pod, outcome } => {
                let outcome = match outcome {
                    DecidedRecord::Assumed(node) => Decided::Assumed(self.text(node)?.into()),
                    DecidedRecord::Unschedulable => Decided::Unschedulable,
                    DecidedRecord::Repeated => Decided::Repeated,
                    DecidedRecord::Error => Decided::Error,
                    DecidedRecord::Skipped => Decided::Skipped,
                };
                Operation::Attempt { pod: self.key(pod)?, outcome }
            }
            Record::Known => {
                self.is_known = true;
                return Ok(None);
            }
            Record::Checkpoint => Operation::Checkpoint,
            Record::Effects { effects, digest } => {
                let effects = effects.iter().map(|effect| self.effect(effect));
                Operation::Effects(Taken { effects: effects.collect::<Result<_, _>>()?, digest })
            }
        }))
    }

    /// Returns an input; its time counts from the operation before, in nanoseconds.
    const fn input(&mut self, since: i64, input: Input) -> Operation {
        Operation::Input { now: self.at(since), input }
    }

    fn node(&self, record: &NodeRecord) -> Result<Node, DecodeError> {
        let NodePart { taints, unschedulable, allocatable, allowed_pods, declared_features } =
            self.part(record.rest)?;
        let (conditions, annotations) = self.part(record.digests)?;
        let images: Vec<NodeImage> = self.part(record.images)?;
        Ok(Node {
            name: self.text(record.name)?.into(),
            labels: self.labels(record.labels)?,
            taints: taints.into_owned().into(),
            unschedulable,
            allocatable: allocatable.into_owned(),
            allowed_pods,
            images: images.into(),
            declared_features: declared_features.into_owned().into(),
            conditions,
            annotations,
            extra: self.extra(record.extra)?,
        })
    }

    fn pod(&mut self, record: &PodRecord) -> Result<Pod, DecodeError> {
        let template: TemplatePart = self.part(record.template)?;
        let status: StatusPart<'_> = self.part(record.status)?;
        let (key, uid) = self.pods.get(record.pod as usize).cloned().flatten().ok_or(Undefined)?;
        self.version = self.version.wrapping_add_signed(record.version);
        let start_time = record.start.map(|(seconds, nanos)| {
            self.start = self.start.wrapping_add(seconds);
            let nanos = i64::from(nanos);
            Time::from_nanos(self.start.wrapping_mul(NANOS_PER_SECOND).wrapping_add(nanos))
        });
        let text = |number: Option<PartNumber>| {
            number.map(|number| Ok(self.text(number)?.into())).transpose()
        };
        let controller = template.controller.map(|number| self.part(number)).transpose()?;
        let problems = status.problems.map(Cow::into_owned).unwrap_or_default();
        let uncommon = UncommonFields {
            nominated_node_name: text(record.nominated)?,
            generated_claims: status.claims.map(|claims| Arc::new(claims.into_owned())),
            problems: problems.into(),
            is_running_member: status.life == Life::Runs,
            has_succeeded: status.life == Life::Succeeded,
        };
        Ok(Pod {
            key,
            uid,
            resource_version: self.version,
            generation: record.generation,
            labels: Arc::new(self.labels(template.labels)?),
            spec: Arc::new(self.part::<PodSpec>(template.spec)?),
            requests: Arc::new(self.part::<PodRequests>(template.requests)?),
            controller: controller.map(Arc::new),
            node_name: text(record.node)?,
            start_time: start_time.into(),
            terminating: status.deletion != Deletion::None,
            removal_follows: status.deletion == Deletion::RemovalFollows,
            preempted: status.preempted,
            terminal: matches!(status.life, Life::Ended | Life::Succeeded),
            scheduled_condition: status.condition.map(|own| Arc::new(own.into_owned())),
            uncommon: uncommon.boxed(),
            extra: self.extra(template.extra)?,
        })
    }

    fn object(&self, record: &ObjectRecord<'_>) -> Result<Change, DecodeError> {
        let object = record.object.as_deref().map(|tokens| self.value(tokens)).transpose()?;
        let (kind, namespace) = (self.part(record.kind)?, self.text(record.namespace)?);
        let key = ObjectKey::namespaced(kind, namespace.into(), record.name.as_ref().into());
        let name = format!("{} {}/{}", key.kind.name(), key.namespace, key.name);
        Change::decode(key, object)
            .map_err(|error| DecodeError::Object(format!("{name}: {error}").into()))
    }

    fn answer(&self, record: AnswerRecord<'_>) -> Result<Answer, DecodeError> {
        Ok(match record {
            AnswerRecord::Ok(tokens) => {
                Answer::Ok(tokens.map(|tokens| self.value(&tokens)).transpose()?)
            }
            AnswerRecord::Conflict(text) => Answer::Conflict(text.into()),
            AnswerRecord::Outdated(text) => Answer::Outdated(text.into()),
            AnswerRecord::Gone(text) => Answer::Gone(text.into()),
            AnswerRecord::Forbidden(text) => Answer::Forbidden(text.into()),
            AnswerRecord::Throttled(text) => Answer::Throttled(text.into()),
            AnswerRecord::Error(text) => Answer::Error(text.into()),
            AnswerRecord::Unknown(text) => Answer::Unknown(text.into()),
        })
    }

    fn called(&self, record: CalledRecord, until: Time) -> Result<Called, DecodeError> {
        let text = |number: PartNumber| self.text(number).map(str::to_owned);
        Ok(match record {
            CalledRecord::Filter(Err(failed)) => Called::Filter(Err(error(failed)), until),
            CalledRecord::Filter(Ok(filtered)) => {
                let reasons = |list: Vec<(PartNumber, PartNumber)>| {
                    let reason = |(node, reason)| Ok((text(node)?, text(reason)?));
                    list.into_iter().map(reason).collect::<Result<_, DecodeError>>()
                };
                let nodes = filtered.nodes.into_iter().map(text).collect::<Result<_, _>>()?;
                let failed = reasons(filtered.failed)?;
                let failed_and_unresolvable = reasons(filtered.unresolvable)?;
                Called::Filter(Ok(Filtered { nodes, failed, failed_and_unresolvable }), until)
            }
            CalledRecord::Prioritize(results) => {
                let mut all = Vec::new();
                for result in results {
                    all.push(match result {
                        Err(failed) => Err(error(failed)),
                        Ok(scores) => {
                            let named = |(node, score)| Ok((text(node)?, score));
                            Ok(scores.into_iter().map(named).collect::<Result<_, _>>()?)
                        }
                    });
                }
                Called::Prioritize(all, until)
            }
            CalledRecord::Preempt(Err(failed)) => Called::Preempt(Err(error(failed)), until),
            CalledRecord::Preempt(Ok(candidates)) => {
                let candidate = |(node, pods, num_pdb_violations)| {
                    Ok((text(node)?, MetaVictims { pods, num_pdb_violations }))
                };
                let candidates = candidates.into_iter().map(candidate);
                Called::Preempt(Ok(candidates.collect::<Result<_, _>>()?), until)
            }
        })
    }

    fn effect(&self, record: &EffectRecord) -> Result<EffectSummary, DecodeError> {
        let text = |number: &PartNumber| self.text(*number).map(Arc::from);
        Ok(match record {
            EffectRecord::Bind(pod, node) => EffectSummary::Bind(self.key(*pod)?, text(node)?),
            EffectRecord::ExtenderBind(pod, node) => {
                EffectSummary::ExtenderBind(self.key(*pod)?, text(node)?)
            }
            EffectRecord::Evict(pod, namespace, name) => {
                let preemptor = PodKey { namespace: text(namespace)?, name: text(name)? };
                EffectSummary::Evict(self.key(*pod)?, preemptor)
            }
            EffectRecord::Event(pod, reason) => {
                EffectSummary::Event(self.key(*pod)?, text(reason)?)
            }
            EffectRecord::Patch(pod) => EffectSummary::Patch(self.key(*pod)?),
            EffectRecord::Write(resource, namespace, name) => {
                EffectSummary::Write(text(resource)?, text(namespace)?, text(name)?)
            }
            EffectRecord::Read(pod) => EffectSummary::Read(self.key(*pod)?),
            EffectRecord::Fence(pod) => EffectSummary::Fence(self.key(*pod)?),
            EffectRecord::Touch(pod) => EffectSummary::Touch(self.key(*pod)?),
            EffectRecord::PlanMoves(pod) => EffectSummary::PlanMoves(self.key(*pod)?),
            EffectRecord::RequestEviction(pod) => EffectSummary::RequestEviction(self.key(*pod)?),
        })
    }

    fn labels(&self, number: PartNumber) -> Result<Labels, DecodeError> {
        let pairs: Vec<(PartNumber, PartNumber)> = self.part(number)?;
        let pair = |(key, value)| Ok((self.text(key)?, self.text(value)?));
        pairs.into_iter().map(pair).collect()
    }

    fn extra(&self, number: Option<PartNumber>) -> Result<Extra, DecodeError> {
        Ok(number.map(|number| self.part(number)).transpose()?.unwrap_or_default())
    }

    fn value(&self, tokens: &[u8]) -> Result<serde_json::Value, DecodeError> {
        read_value(tokens, &|number| self.text(number).ok()).ok_or(DecodeError::Record)
    }

    const fn at(&mut self, since: i64) -> Time {
        self.time = self.time.wrapping_add(since);
        Time::from_nanos(self.time)
    }

    fn key(&self, pod: PodNumber) -> Result<PodKey, DecodeError> {
        let named = self.pods.get(pod as usize).and_then(Option::as_ref);
        Ok(named.ok_or(Undefined)?.0.clone())
    }

    fn bytes(&self, number: PartNumber) -> Result<&[u8], DecodeError> {
        self.parts.get(number as usize).map(|part| &**part).ok_or(Undefined)
    }

    fn text(&self, number: PartNumber) -> Result<&str, DecodeError> {
        std::str::from_utf8(self.bytes(number)?).map_err(|_| DecodeError::Record)
    }

    fn part<T: DeserializeOwned>(&self, number: PartNumber) -> Result<T, DecodeError> {
        postcard::from_bytes(self.bytes(number)?).map_err(|_| DecodeError::Record)
    }
}

fn error(record: ErrorRecord) -> CallError {
    match record {
        ErrorRecord::NoAnswer(text) => CallError::NoAnswer(text),
        ErrorRecord::Failed(text) => CallError::Failed(text),
    }
}
