//! A model of the API server of a member cluster: pods, with the preconditions of creations, binds
//! and deletions.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::EffectKind;
use framework::{Answer, Binding, Pod, PodKey, PodSpec, Time, Uid};
use serde_json::{Value, json};

use super::servers::{
    MemberAnswer, MemberEvent, MemberOperation, MemberOutcome, MemberPod, MemberServer, Work,
};
use crate::agent::WriteAnswer;
use crate::delegate::DelegateMark;

/// The pods of a member cluster.
#[derive(Debug)]
pub(crate) struct MemberApi {
    pub(crate) pods: BTreeMap<PodKey, MemberPod>,
    cluster: usize,
    version: u64,
    created: u64,
    /// The specification of each template, and the same for the agent.
    specs: Vec<(Arc<PodSpec>, Arc<PodSpec>)>,
    profile: Arc<str>,
}

impl MemberApi {
    pub(crate) fn new(cluster: usize, profile: &str) -> Self {
        Self {
            pods: BTreeMap::new(),
            cluster,
            version: 0,
            created: 0,
            specs: Vec::new(),
            profile: profile.into(),
        }
    }

    fn spec_for_agent(&mut self, spec: &Arc<PodSpec>) -> Arc<PodSpec> {
        if let Some((_, own)) = self.specs.iter().find(|(known, _)| Arc::ptr_eq(known, spec)) {
            return own.clone();
        }
        let own =
            Arc::new(PodSpec { scheduler_name: self.profile.clone(), ..PodSpec::clone(spec) });
        self.specs.push((spec.clone(), own.clone()));
        own
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Carries out an operation.
    pub(crate) fn carry_out(
        &mut self,
        operation: &MemberOperation,
    ) -> (MemberAnswer, Option<MemberEvent>) {
        use MemberAnswer::{Agent, Engine};
        match operation {
            MemberOperation::Create { pod, mark } => {
                if self.pods.contains_key(&pod.pod.key) {
                    return (Agent(WriteAnswer::Conflict), None);
                }
                let created = self.create(&pod.pod, mark);
                let answer = WriteAnswer::Pod(created.pod.clone(), created.mark.clone());
                (Agent(answer), Some(MemberEvent::Changed(created)))
            }
            MemberOperation::Read { pod } => match self.pods.get(pod) {
                Some(known) => {
                    let MemberPod { pod, mark, .. } = known.clone();
                    (Agent(WriteAnswer::Pod(pod, mark)), None)
                }
                None => (Agent(WriteAnswer::NotFound), None),
            },
            MemberOperation::Delete { pod, uid, resource_version } => match self.pods.get(pod) {
                Some(known) if known.pod.uid != *uid => (Agent(WriteAnswer::NotFound), None),
                None => (Agent(WriteAnswer::NotFound), None),
                Some(known) if known.pod.resource_version != *resource_version => {
                    (Agent(WriteAnswer::Conflict), None)
                }
                Some(_) => (Agent(WriteAnswer::Done), self.remove(pod)),
            },
            MemberOperation::End { pod, uid } => (Agent(WriteAnswer::Done), self.end(pod, uid)),
            MemberOperation::Remove { pod, uid } => {
                let is_known = self.pods.get(pod).is_some_and(|known| known.pod.uid == *uid);
                let gone = is_known.then(|| self.remove(pod)).flatten();
                (Agent(WriteAnswer::Done), gone)
            }
            MemberOperation::CreateBound(pod) => {
                (Agent(WriteAnswer::Done), Some(self.add_foreign(Pod::clone(pod))))
            }
            MemberOperation::KeepLeases { .. } => (Agent(WriteAnswer::Done), None),
            MemberOperation::Effect(effect) => {
                let (answer, event) = self.carry_out_effect(&effect.kind);
                (Engine(answer), event)
            }
        }
    }

    fn carry_out_effect(&mut self, effect: &EffectKind) -> (Answer, Option<MemberEvent>) {
        match effect {
            EffectKind::Bind { binding, resource_version, .. } => {
                self.bind(binding, *resource_version)
            }
            EffectKind::ReadPod { pod, .. } => (self.read(pod), None),
            EffectKind::Fence { pod, uid, resource_version, .. } => {
                let version = self.next_version();
                let known = self.pods.get_mut(pod).filter(|known| known.pod.uid == *uid);
                match known {
                    None => (Answer::Gone("pod not found".to_owned()), None),
                    Some(known) if known.pod.resource_version != *resource_version => {
                        (Answer::Conflict("the pod has changed".to_owned()), None)
                    }
                    Some(known) => {
                        Arc::make_mut(&mut known.pod).resource_version = version;
                        let changed = known.clone();
                        (self.read(pod), Some(MemberEvent::Changed(changed)))
                    }
                }
            }
            _ => (Answer::ok(), None),
        }
    }

    fn bind(&mut self, binding: &Binding, resource_version: u64) -> (Answer, Option<MemberEvent>) {
        let version = self.next_version();
        let Binding { pod, uid, node } = binding;
        let Some(known) = self.pods.get_mut(pod).filter(|known| known.pod.uid == *uid) else {
            return (Answer::Gone("pod not found".to_owned()), None);
        };
        if known.pod.node_name.is_some() {
            return (Answer::Conflict("pod is assigned".to_owned()), None);
        }
        if resource_version != 0 && known.pod.resource_version != resource_version {
            return (Answer::Outdated("the pod has changed".to_owned()), None);
        }
        let bound = Arc::make_mut(&mut known.pod);
        bound.node_name = Some(node.clone());
        bound.resource_version = version;
        (Answer::ok(), Some(MemberEvent::Changed(known.clone())))
    }

    fn create(&mut self, pod: &Arc<Pod>, mark: &DelegateMark) -> MemberPod {
        self.created += 1;
        let uid = format!("{:08x}-{:04x}-4000-8000-000000000000", self.created, self.cluster);
        let created = MemberPod {
            pod: Arc::new(Pod {
                uid: Uid::from(&*uid),
                spec: self.spec_for_agent(&pod.spec),
                resource_version: self.next_version(),
                node_name: None,
                ..Pod::clone(pod)
            }),
            mark: Some(mark.clone()),
            status: Arc::default(),
        };
        self.pods.insert(pod.key.clone(), created.clone());
        created
    }

    /// Begins to end a pod; one that is not bound is gone at once.
    fn end(&mut self, pod: &PodKey, uid: &Uid) -> Option<MemberEvent> {
        let version = self.next_version();
        let known = self.pods.get_mut(pod).filter(|known| known.pod.uid == *uid)?;
        if known.pod.node_name.is_none() {
            return self.remove(pod);
        }
        if known.pod.terminating {
            return None;
        }
        let ending = Arc::make_mut(&mut known.pod);
        (ending.terminating, ending.resource_version) = (true, version);
        Some(MemberEvent::Changed(known.clone()))
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, pod: &PodKey) -> Option<MemberEvent> {
        let gone = self.pods.remove(pod)?;
        Some(MemberEvent::Deleted(pod.clone(), gone.pod.uid.clone()))
    }

    /// Puts a pod of another scheduler on a node.
    pub(crate) fn add_foreign(&mut self, pod: Pod) -> MemberEvent {
        let version = self.next_version();
        let pod = Arc::new(Pod { resource_version: version, ..pod });
        let foreign = MemberPod { pod: pod.clone(), mark: None, status: Arc::default() };
        self.pods.insert(pod.key.clone(), foreign.clone());
        MemberEvent::Changed(foreign)
    }

    fn read(&self, pod: &PodKey) -> Answer {
        match self.pods.get(pod) {
            None => Answer::Gone("pod not found".to_owned()),
            Some(known) => Answer::Ok(Some(as_json(&known.pod))),
        }
    }
}

impl MemberServer for MemberApi {
    fn carry_out(&mut self, operation: MemberOperation, _: Time) -> Work<MemberOutcome> {
        let (answer, event) = Self::carry_out(self, &operation);
        Work::done((answer, event.into_iter().collect()))
    }
}

fn as_json(pod: &Pod) -> Value {
    json!({"metadata": {"uid": pod.uid.to_string(), "generation": pod.generation,
            "resourceVersion": pod.resource_version.to_string()},
        "spec": {"nodeName": pod.node_name.as_deref().unwrap_or_default()}})
}
