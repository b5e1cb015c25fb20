//! Writes and reads of delegates, and their repetition.

use framework::Time;

use super::{PAUSE, Purpose};
use crate::agent::journal::{Commit, State};
use crate::agent::{Agent, AgentOutput, WriteId};
use crate::delegate::DelegateMark;

impl Agent {
    pub(in crate::agent) fn retry(&mut self, purpose: Purpose, now: Time) {
        let id = self.next_id();
        self.retries.insert((now + PAUSE, id), purpose);
    }

    /// Repeats a write or read, unless it is not wanted any more.
    pub(in crate::agent) fn repeat(&mut self, purpose: Purpose) {
        let is_wanted = match &purpose {
            Purpose::Create(key) | Purpose::ReadName(key) => {
                self.journal.commit_mut(&key.pod).is_some_and(|commit| {
                    commit.key == *key && matches!(commit.state, State::Creating { .. })
                })
            }
            Purpose::Delete(uid) | Purpose::ReadUnbound(uid) => self.undoing.contains_key(uid),
            Purpose::Fence(uid) => self.leases.pod(uid).is_some(),
            Purpose::KeepLeases => false,
        };
        if is_wanted {
            self.write(purpose);
        }
    }

    fn next_id(&mut self) -> WriteId {
        self.next_write += 1;
        WriteId(self.next_write)
    }

    pub(in crate::agent) fn write(&mut self, purpose: Purpose) {
        let id = self.next_id();
        let output = match &purpose {
            Purpose::Create(key) | Purpose::ReadName(key) => {
                let Some(Commit { state: State::Creating { request, node, .. }, .. }) =
                    self.journal.commit_mut(&key.pod)
                else {
                    return;
                };
                let (pod, node) = (request.pod.clone(), node.clone());
                let incarnation = self.config.incarnation.clone();
                let (origin, terms) = (request.origin.clone(), request.terms.clone());
                let mark = DelegateMark { key: key.clone(), node, incarnation, origin, terms };
                match &purpose {
                    Purpose::Create(_) => AgentOutput::Create { id, pod, mark },
                    _ => AgentOutput::Read { id, pod: pod.pod.key.clone() },
                }
            }
            Purpose::Delete(uid) | Purpose::ReadUnbound(uid) => {
                let Some(undoing) = self.undoing.get(uid) else { return };
                let (pod, resource_version) = (undoing.pod.clone(), undoing.resource_version);
                match &purpose {
                    Purpose::Delete(_) => {
                        AgentOutput::Delete { id, pod, uid: uid.clone(), resource_version }
                    }
                    _ => AgentOutput::Read { id, pod },
                }
            }
            Purpose::Fence(uid) => {
                let Some(pod) = self.leases.pod(uid).cloned() else { return };
                AgentOutput::Fence { id, pod, uid: uid.clone() }
            }
            Purpose::KeepLeases => AgentOutput::KeepLeases { id, renewed: self.leases.to_keep() },
        };
        self.writes.insert(id, purpose);
        self.outputs.push(output);
    }
}
