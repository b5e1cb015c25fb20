//! Invariants of the number and the rate of requests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use control::api_dispatcher::Limits;
use control::{Reply, Request, RequestId, Response};
use framework::Time;

use super::rules::{Checked, rule};

/// Pause after a 429 that does not say how long.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of the last requests whose rate is checked.
const LAST: usize = 100;

/// The requests of the API dispatcher of one process, against its limits.
#[derive(Debug)]
pub(crate) struct RequestLimits {
    limits: Limits,
    /// Whether requests are passed on when they are made. A process that elects a leader holds them
    /// back until it may act.
    is_prompt: bool,
    /// The requests without a reply, with their flows.
    in_flight: BTreeMap<RequestId, Option<String>>,
    /// The times of the last requests.
    sent: VecDeque<Time>,
    /// The time from which the rate admits a whole burst.
    full_at: Time,
    /// Begin and end of the last pause that the server asked for.
    pause: Option<(Time, Time)>,
}

impl RequestLimits {
    /// Creates the rules for a process without requests.
    pub(crate) const fn new(limits: Limits, is_prompt: bool) -> Self {
        Self {
            limits,
            is_prompt,
            in_flight: BTreeMap::new(),
            sent: VecDeque::new(),
            full_at: Time::ZERO,
            pause: None,
        }
    }

    /// Checks a request that the process makes. It is within the limits of number and rate, is not
    /// made in a pause that the server asked for, and the binds of a namespace, and the status
    /// patches of its pods, use at most as many slots as they leave free, before it.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn sent(&mut self, request: &Request, now: Time) -> Checked {
        let path = &request.path;
        let most = self.limits.max_in_flight;
        let free = most.saturating_sub(self.in_flight.len());
        rule(free > 0, || format!("{path} is one request more than {most}"))?;
        let flow = flow_of(request);
        let own = self.in_flight.values().filter(|other| **other == flow).count();
        rule(own <= free || flow.is_none(), || {
            format!("{path} is sent with {own} others, and {free} slots are free")
        })?;
        self.in_flight.insert(request.id, flow);
        if !self.is_prompt {
            return Ok(());
        }
        // What is made before the reply at the same time is passed on after it.
        let is_paused = self.pause.is_some_and(|(begin, end)| begin < now && now < end);
        rule(!is_paused, || format!("{path} is sent in the pause {:?}", self.pause))?;
        self.sent.push_front(now);
        self.sent.truncate(LAST);
        let Some(qps) = self.limits.qps else { return Ok(()) };
        self.full_at = self.full_at.max(now) + Duration::from_secs_f32(1.0 / qps);
        let is_too_many = |(count, first): (u32, &Time)| {
            let gained = now.since(*first).as_secs_f32() * qps;
            f64::from(count) > f64::from(self.limits.burst) + f64::from(gained) + 0.01
        };
        let mut counts = (1..).zip(&self.sent);
        rule(!counts.any(is_too_many), || format!("{path} exceeds the rate: {:?}", self.sent))
    }

    /// Whether the limits certainly admit a request: none is under way, the server asked for no
    /// pause, and the rate leaves one to spare.
    pub(crate) fn admit_one(&self, now: Time) -> bool {
        let is_paused = self.pause.is_some_and(|(_, end)| now <= end);
        let is_spare = self.limits.qps.is_none_or(|qps| {
            let interval = Duration::from_secs_f32(1.0 / qps);
            self.full_at + interval <= now + interval * (self.limits.burst - 1)
        });
        // The rate of requests that are held back is not known.
        let is_known = self.is_prompt || self.limits.qps.is_none();
        is_known && self.in_flight.is_empty() && !is_paused && is_spare
    }

    /// Records a reply.
    pub(crate) fn replied(&mut self, id: RequestId, reply: &Reply, now: Time) {
        self.in_flight.remove(&id);
        if let Reply::Answered(Response { status: 429, retry_after, .. }) = reply {
            let end = now + retry_after.unwrap_or(PAUSE);
            let later = self.pause.filter(|(_, other)| *other > end);
            self.pause = later.or(Some((now, end)));
        }
    }

    /// Checks that no pod is tried in a pause that the server asked for.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn may_decide(&self, now: Time) -> Checked {
        let is_paused = self.pause.is_some_and(|(_, end)| now < end);
        rule(!is_paused, || format!("a pod is tried in the pause {:?}", self.pause))
    }
}

/// Returns the namespace and the subresource of a bind or of the patch of a condition. Other
/// requests, also evictions and writes of plugins, share their slots with requests that cannot be
/// told from their paths.
fn flow_of(request: &Request) -> Option<String> {
    let (collection, name_and_subresource) = request.path.split_once("/pods/")?;
    let (_, subresource) = name_and_subresource.split_once('/')?;
    let body = String::from_utf8_lossy(&request.body);
    let is_of_others = ["DisruptionTarget", "extendedResourceClaimStatus"];
    let is_other = subresource == "status" && is_of_others.iter().any(|own| body.contains(own));
    (!is_other).then(|| format!("{collection}/pods/{subresource}"))
}
