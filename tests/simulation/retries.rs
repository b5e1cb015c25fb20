//! Invariants of requests that are repeated: only after a failure, and after pauses that grow.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{Method, Reply, Request, RequestId, Response};
use framework::Time;

use super::rules::{Checked, rule};

/// Maximum number of tries of the deletion of a victim.
const MOST_DELETIONS: u32 = 4;
/// Maximum time from the first failure of a bind to the last one after which it is sent again.
const LONGEST_BIND: Duration = Duration::from_secs(30);

/// The requests of the API dispatcher of one process, and how the last ones failed.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    /// The requests without a reply, with the failures before.
    under_way: BTreeMap<RequestId, (Call, Option<Failure>)>,
    failed: BTreeMap<Call, Failure>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    method: &'static str,
    path: String,
    /// The object to create; its path is that of all objects of its kind.
    created: Vec<u8>,
}

impl Call {
    fn of(request: &Request) -> Self {
        let creates_claim = request.path.ends_with("/resourceclaims");
        Self {
            method: request.method.as_str(),
            path: request.path.clone(),
            created: if creates_claim { request.body.clone() } else { Vec::new() },
        }
    }
}

/// The failure of the last request of a call.
#[derive(Debug, Clone, Copy)]
struct Failure {
    at: Time,
    /// The time of the first failure of the call.
    first: Time,
    /// Number of tries so far.
    tries: u32,
    /// The status of the answer, if there was one.
    status: Option<u16>,
    /// The pause that the server asked for.
    pause: Duration,
}

impl Retries {
    /// Checks a request to the API server.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn sent(&mut self, request: &Request, now: Time) -> Checked {
        let call = Call::of(request);
        let failed = self.failed.remove(&call);
        let mut before = None;
        if let Some(tried) = request.retry_of {
            let path = &request.path;
            let failure = failed.ok_or_else(|| format!("{path} repeats what has not failed"))?;
            rule(failure.status == tried.status, || {
                format!("{path} repeats a request after {tried:?}, and it was {failure:?}")
            })?;
            let shortest = shortest_pause(request, failure.tries).max(failure.pause);
            rule(now.since(failure.at) >= shortest, || {
                format!("{path} is repeated before {shortest:?} have passed: {failure:?}")
            })?;
            let is_deletion = request.method == Method::Delete && request.path.contains("/pods/");
            rule(!is_deletion || failure.tries < MOST_DELETIONS, || {
                format!("{path} is repeated too often: {failure:?}")
            })?;
            let is_bind = request.method == Method::Post && request.path.ends_with("/binding");
            rule(!is_bind || failure.at.since(failure.first) <= LONGEST_BIND, || {
                format!("{path} is repeated for too long: {failure:?}")
            })?;
            before = Some(failure);
        }
        self.under_way.insert(request.id, (call, before));
        Ok(())
    }

    /// Records a reply.
    pub(crate) fn replied(&mut self, id: RequestId, reply: &Reply, now: Time) {
        let Some((call, before)) = self.under_way.remove(&id) else { return };
        let tries = before.map_or(0, |failure| failure.tries) + 1;
        let first = before.map_or(now, |failure| failure.first);
        let (status, pause) = match reply {
            Reply::Answered(Response { status: ..300, .. }) => return,
            Reply::Answered(response) => {
                let asked = response.retry_after.filter(|_| response.status == 429);
                (Some(response.status), asked.unwrap_or_default())
            }
            _ => (None, Duration::ZERO),
        };
        self.failed.insert(call, Failure { at: now, first, tries, status, pause });
    }
}

/// Returns the shortest pause after so many failures: 100 ms for binds and writes of plugins, 10 ms
/// for others, which may belong to a status patch.
fn shortest_pause(request: &Request, failures: u32) -> Duration {
    let is_status = request.path.ends_with("/status") && request.path.contains("/pods/");
    let is_quick = is_status || matches!(request.method, Method::Get | Method::Delete);
    let (first, longest) = if is_quick { (10, 10_000) } else { (100, 5_000) };
    let factor = 2_u64.saturating_pow(failures.saturating_sub(1).min(20));
    Duration::from_millis((first * factor).min(longest))
}
