//! Invariants of the end of a process that is asked to end, as SIGTERM does.

use std::collections::BTreeMap;

use control::scheduler::RequestSource;
use control::{Method, Reply, Request, RequestId, Response};
use serde_json::Value;

use super::rules::{Checked, rule};

/// What a process has under way, and whether it was asked to end.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    is_asked: bool,
    /// The requests of effects without a reply.
    effects: BTreeMap<RequestId, ()>,
    /// The requests of the election without a reply, and whether they write.
    election: BTreeMap<RequestId, bool>,
    /// Whether a request of the election has failed since the last write that succeeded.
    has_failed: bool,
}

impl Farewell {
    /// Records that the process is asked to end.
    pub(crate) const fn asked(&mut self) {
        self.is_asked = true;
    }

    /// Checks a request that the process makes. Once it is asked to end, it begins no effect any
    /// more: the pods stay pending for the next scheduler. It releases the Lease when no effect is
    /// under way.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn sent(&mut self, source: RequestSource, request: &Request) -> Checked {
        match source {
            RequestSource::ApiDispatcher => {
                self.effects.insert(request.id, ());
                let path = &request.path;
                rule(!self.is_asked, || format!("{path} is sent by a process that has to end"))
            }
            RequestSource::LeaderElector => {
                self.election.insert(request.id, request.method != Method::Get);
                let effects = self.effects.len();
                rule(effects == 0 || !releases(request), || {
                    format!("the lease is released, and {effects} effects are under way")
                })
            }
            RequestSource::EventRecorder => Ok(()),
        }
    }

    /// Records a reply.
    pub(crate) fn replied(&mut self, source: RequestSource, id: RequestId, reply: &Reply) {
        match source {
            RequestSource::ApiDispatcher => drop(self.effects.remove(&id)),
            RequestSource::LeaderElector => {
                let writes = self.election.remove(&id).unwrap_or_default();
                let is_ok = matches!(reply, Reply::Answered(Response { status: ..300, .. }));
                self.has_failed = !is_ok || self.has_failed && !writes;
            }
            RequestSource::EventRecorder => {}
        }
    }

    /// Checks that a process that was asked to end does so as soon as it has nothing under way.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn is_kept(&self, has_ended: bool) -> Checked {
        let is_idle = self.effects.is_empty() && self.election.is_empty();
        rule(!self.is_asked || has_ended || !is_idle, || {
            "a process was asked to end, has nothing under way, and goes on".to_owned()
        })
    }

    /// Checks the Lease after a process that was asked to end: it is free, unless the server was
    /// out of reach.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn leaves(&self, life: u32, lease: Option<&Value>) -> Checked {
        let is_sure = self.is_asked && !self.has_failed && self.election.is_empty();
        let holder = lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let is_held = holder.is_some_and(|holder| holder == format!("process-{life}"));
        rule(!is_sure || !is_held, || format!("process {life} has ended, and keeps the lease"))
    }
}

/// Whether a request releases the Lease.
fn releases(request: &Request) -> bool {
    let lease: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    request.method == Method::Put && lease["spec"]["holderIdentity"] == ""
}
