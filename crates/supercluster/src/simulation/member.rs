//! The API server of a member cluster: pods, with the preconditions of creations, binds and deletions.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Answer, Pod, PodKey, PodSpec, Time, Uid};
use serde_json::{Value, json};

use crate::agent::WriteAnswer;
use crate::delegate::DelegateMark;

/// A pod of a member cluster.
#[derive(Debug, Clone)]
pub(crate) struct MemberPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) mark: Option<DelegateMark>,
}

/// A write or read.
#[derive(Debug, Clone)]
pub(crate) enum MemberOperation {
    Create {
        pod: Arc<Pod>,
        mark: DelegateMark,
    },
    Read {
        pod: PodKey,
    },
    Delete {
        pod: PodKey,
        uid: Uid,
        resource_version: u64,
    },
    /// Begins to end a delegate; one that is not bound is gone at once.
    End {
        pod: PodKey,
        uid: Uid,
    },
    /// Stores when the leases were renewed.
    KeepLeases {
        renewed: BTreeMap<Arc<str>, Time>,
    },
    Bind {
        pod: PodKey,
        uid: Uid,
        node: Arc<str>,
        resource_version: u64,
    },
    /// Reads the pod for the engine.
    ReadForBind {
        pod: PodKey,
    },
    /// Changes the resourceVersion of the pod.
    Fence {
        pod: PodKey,
        uid: Uid,
        resource_version: u64,
    },
}

/// The answer to an operation, for the agent or for its engine.
#[derive(Debug, Clone)]
pub(crate) enum MemberAnswer {
    Agent(WriteAnswer),
    Engine(Answer),
}

impl MemberOperation {
    /// Returns the answer that the client gives if none comes.
    pub(crate) fn lost(&self) -> MemberAnswer {
        let text = "no answer in time".to_owned();
        match self {
            Self::Create { .. }
            | Self::Read { .. }
            | Self::Delete { .. }
            | Self::End { .. }
            | Self::KeepLeases { .. } => MemberAnswer::Agent(WriteAnswer::Unknown(text)),
            _ => MemberAnswer::Engine(Answer::Unknown(text)),
        }
    }
}

/// What an operation has changed.
#[derive(Debug, Clone)]
pub(crate) enum MemberEvent {
    Changed(MemberPod),
    Deleted(MemberPod),
}

/// The pods of a member cluster.
#[derive(Debug)]
pub(crate) struct MemberApi {
    pub(crate) pods: BTreeMap<PodKey, MemberPod>,
    /// When each lease was renewed, as the agent has stored it.
    pub(crate) renewed: BTreeMap<Arc<str>, Time>,
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
            renewed: BTreeMap::new(),
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
                if self.pods.contains_key(&pod.key) {
                    return (Agent(WriteAnswer::Conflict), None);
                }
                let created = self.create(pod, mark);
                let answer = WriteAnswer::Pod(created.pod.clone(), created.mark.clone());
                (Agent(answer), Some(MemberEvent::Changed(created)))
            }
            MemberOperation::Read { pod } => match self.pods.get(pod) {
                Some(known) => {
                    let MemberPod { pod, mark } = known.clone();
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
                Some(_) => {
                    let gone = self.remove(pod).map(MemberEvent::Deleted);
                    (Agent(WriteAnswer::Done), gone)
                }
            },
            MemberOperation::End { pod, uid } => (Agent(WriteAnswer::Done), self.end(pod, uid)),
            MemberOperation::KeepLeases { renewed } => {
                self.renewed.clone_from(renewed);
                (Agent(WriteAnswer::Done), None)
            }
            MemberOperation::Bind { pod, uid, node, resource_version } => {
                let version = self.next_version();
                let Some(known) = self.pods.get_mut(pod).filter(|known| known.pod.uid == *uid)
                else {
                    return (Engine(Answer::Gone("pod not found".to_owned())), None);
                };
                if known.pod.node_name.is_some() {
                    return (Engine(Answer::Conflict("pod is assigned".to_owned())), None);
                }
                if *resource_version != 0 && known.pod.resource_version != *resource_version {
                    return (Engine(Answer::Outdated("the pod has changed".to_owned())), None);
                }
                let bound = Arc::make_mut(&mut known.pod);
                bound.node_name = Some(node.clone());
                bound.resource_version = version;
                (Engine(Answer::ok()), Some(MemberEvent::Changed(known.clone())))
            }
            MemberOperation::ReadForBind { pod } => (Engine(self.read(pod)), None),
            MemberOperation::Fence { pod, uid, resource_version } => {
                let version = self.next_version();
                let known = self.pods.get_mut(pod).filter(|known| known.pod.uid == *uid);
                match known {
                    None => (Engine(Answer::Gone("pod not found".to_owned())), None),
                    Some(known) if known.pod.resource_version != *resource_version => {
                        (Engine(Answer::Conflict("the pod has changed".to_owned())), None)
                    }
                    Some(known) => {
                        Arc::make_mut(&mut known.pod).resource_version = version;
                        let changed = known.clone();
                        (Engine(self.read(pod)), Some(MemberEvent::Changed(changed)))
                    }
                }
            }
        }
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
        };
        self.pods.insert(pod.key.clone(), created.clone());
        created
    }

    /// Begins to end a pod; one that is not bound is gone at once.
    pub(crate) fn end(&mut self, pod: &PodKey, uid: &Uid) -> Option<MemberEvent> {
        let version = self.next_version();
        let known = self.pods.get_mut(pod).filter(|known| known.pod.uid == *uid)?;
        if known.pod.node_name.is_none() {
            return self.remove(pod).map(MemberEvent::Deleted);
        }
        if known.pod.terminating {
            return None;
        }
        let ending = Arc::make_mut(&mut known.pod);
        (ending.terminating, ending.resource_version) = (true, version);
        Some(MemberEvent::Changed(known.clone()))
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, pod: &PodKey) -> Option<MemberPod> {
        self.pods.remove(pod)
    }

    /// Puts a pod of another scheduler on a node.
    pub(crate) fn add_foreign(&mut self, pod: Pod) -> MemberEvent {
        let version = self.next_version();
        let pod = Arc::new(Pod { resource_version: version, ..pod });
        let foreign = MemberPod { pod: pod.clone(), mark: None };
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

fn as_json(pod: &Pod) -> Value {
    json!({"metadata": {"uid": pod.uid.to_string(), "generation": pod.generation,
            "resourceVersion": pod.resource_version.to_string()},
        "spec": {"nodeName": pod.node_name.as_deref().unwrap_or_default()}})
}
