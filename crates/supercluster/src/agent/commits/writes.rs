//! Writes and reads of delegates, and their repetition.

use framework::Time;

use super::{PAUSE, Purpose};
use crate::agent::journal::{Commit, State};
use crate::agent::{Agent, AgentOutput, WriteId};
use crate::delegate::DelegateMark;

impl Agent {
    pub(super) fn retry(&mut self, purpose: Purpose, now: Time) {
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
        };
        if is_wanted {
            self.write(purpose);
        }
    }

    fn next_id(&mut self) -> WriteId {
        self.next_write += 1;
        WriteId(self.next_write)
    }

    pub(super) fn write(&mut self, purpose: Purpose) {
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
                let mark = DelegateMark { key: key.clone(), node, incarnation };
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
        };
        self.writes.insert(id, purpose);
        self.outputs.push(output);
    }
}
