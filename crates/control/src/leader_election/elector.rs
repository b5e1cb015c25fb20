//! The elector: attempts to acquire, renew and release the Lease.

use framework::{Time, WallOffset};

use super::config::{ConfigError, LeaderElectionConfig};
use super::lease::{LeaderElectionRecord, Lease};
use super::lease_lock::{Failure, LeaseLock, Verb, lease_in};
use super::notice::Notice;
use crate::request::{Reply, Request, RequestId, RequestIds};

/// Takes part in an election: takes the time and replies and returns requests.
///
/// An attempt is at most three requests, one at a time. A leader whose Lease has not expired
/// updates the Lease that it knows. If that fails, and in every other case, it reads the Lease
/// first. A Lease that does not exist is created.
#[derive(Debug)]
pub struct LeaderElector {
    config: LeaderElectionConfig,
    lock: LeaseLock,
    rng: fastrand::Rng,
    ids: RequestIds,
    phase: Phase,
    /// The last other holder that this replica tried to follow.
    predecessor: Predecessor,
    /// The last Lease that was read or written.
    observed: Option<Observed>,
    /// The holder of the last [`Notice::ObservedLeader`].
    reported_leader: String,
    in_flight: Option<(RequestId, Call)>,
    /// The time of the next attempt, while no request is in flight.
    next_attempt: Time,
    /// Whether the Lease is to be released.
    is_stopping: bool,
    problem: Option<String>,
    /// Only for the times in the Lease, by which no replica decides.
    wall_offset: WallOffset,
    slowpath_total: u64,
    requests: Vec<Request>,
    notices: Vec<Notice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first attempt has not begun.
    New,
    Acquiring,
    Leading {
        authority_ends_at: Time,
    },
    /// The Lease is being released. Another replica can take over from this time on anyway.
    Releasing {
        until: Time,
    },
    Ended(Outcome),
}

/// How an election ended for this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The replica was asked to stop, and does not hold the Lease any more if it could be released.
    Stopped,
    /// The replica led, and lost the Lease or could not renew it in time.
    Lost,
}

/// The state of the Lease before this replica acquired it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predecessor {
    /// The Lease did not exist.
    None,
    /// The last holder gave up the Lease after its requests had ended.
    Released,
    /// The last holder did not renew the Lease in time. Its requests may still be under way.
    Expired,
}

/// A Lease, and when this replica saw that its record changed.
#[derive(Debug)]
struct Observed {
    lease: Lease,
    at: Time,
}

impl Observed {
    fn expires_at(&self) -> Time {
        self.at + self.lease.record.lease_duration()
    }
}

/// The request in flight.
#[derive(Debug)]
enum Call {
    /// Updates the observed Lease without reading it.
    UpdateOptimistically(Write),
    Get {
        /// The time of the attempt.
        attempt: Time,
    },
    Create(Write),
    Update(Write),
    GetToRelease,
    Release,
}

/// A write that makes this replica the holder.
#[derive(Debug, Clone, Copy)]
struct Write {
    /// The time of the attempt.
    attempt: Time,
    /// The time at which the request was made.
    made_at: Time,
}

impl LeaderElector {
    /// Creates an elector. The seed determines the jitter of delays.
    ///
    /// # Errors
    /// An election with these settings would not be safe.
    pub fn new(config: LeaderElectionConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            lock: LeaseLock::new(&config),
            config,
            rng: fastrand::Rng::with_seed(seed),
            ids: RequestIds::default(),
            phase: Phase::New,
            predecessor: Predecessor::None,
            observed: None,
            reported_leader: String::new(),
            in_flight: None,
            next_attempt: Time::ZERO,
            is_stopping: false,
            problem: None,
            wall_offset: WallOffset::default(),
            slowpath_total: 0,
            requests: Vec::new(),
            notices: Vec::new(),
        })
    }

    /// Returns the settings.
    pub const fn config(&self) -> &LeaderElectionConfig {
        &self.config
    }

    /// Sets the offset of the wall clock, for the times in the Lease. The election itself counts in
    /// the even time of the caller.
    pub const fn set_wall_offset(&mut self, offset: WallOffset) {
        self.wall_offset = offset;
    }

    /// Returns whether this replica may act now.
    pub fn is_leader(&self, now: Time) -> bool {
        self.authority_ends_at().is_some_and(|end| now < end)
    }

    /// Returns the time until which this replica may act, if it leads. Later renewals move it.
    pub const fn authority_ends_at(&self) -> Option<Time> {
        match self.phase {
            Phase::Leading { authority_ends_at } if !self.is_stopping => Some(authority_ends_at),
            _ => None,
        }
    }

    /// Returns the state of the Lease before this replica acquired it. It counts once the replica
    /// leads.
    pub const fn predecessor(&self) -> Predecessor {
        self.predecessor
    }

    /// Returns how the election ended, once it has ended.
    pub const fn outcome(&self) -> Option<Outcome> {
        match self.phase {
            Phase::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns why the last attempt could not read or write the Lease. A Lease that another replica
    /// holds is not a problem.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the number of renewals that had to read the Lease first.
    pub const fn slowpath_total(&self) -> u64 {
        self.slowpath_total
    }

    /// Returns the UID of the Lease, if it is known.
    pub fn lease_uid(&self) -> Option<&str> {
        Some(self.observed.as_ref()?.lease.uid())
    }

    /// Returns the path of a watch of the Lease. It begins with the present Lease.
    pub fn watch_path(&self) -> String {
        self.lock.watch_path()
    }

    /// Begins an attempt that is due, and ends the leadership when its time is over.
    pub fn tick(&mut self, now: Time) {
        match self.phase {
            Phase::New => {
                self.notices.push(Notice::Attempting);
                self.phase = Phase::Acquiring;
                self.attempt(now);
            }
            Phase::Acquiring => self.attempt_if_due(now),
            Phase::Leading { authority_ends_at } if authority_ends_at <= now => self.expire(),
            Phase::Leading { .. } => self.attempt_if_due(now),
            Phase::Releasing { until } if until <= now => {
                self.notices.push(Notice::CannotRelease("the server did not answer".to_owned()));
                self.end(Outcome::Stopped);
            }
            Phase::Releasing { .. } | Phase::Ended(_) => {}
        }
    }

    /// Returns the time at which [`tick`](Self::tick) is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let next_attempt = self.in_flight.is_none().then_some(self.next_attempt);
        match self.phase {
            Phase::New => Some(Time::ZERO),
            Phase::Acquiring => next_attempt,
            Phase::Leading { authority_ends_at: end } => {
                Some(next_attempt.map_or(end, |next| next.min(end)))
            }
            Phase::Releasing { until } => Some(until),
            Phase::Ended(_) => None,
        }
    }

    /// Takes the requests to send now.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Takes the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Gives up the Lease, so that another replica can take over at once. A replica that waits
    /// stops to wait. From now on this replica may not act.
    pub fn release(&mut self, now: Time) {
        self.is_stopping = true;
        // The reply to a request in flight says whether this replica holds the Lease.
        match self.phase {
            _ if self.in_flight.is_some() => {}
            Phase::New | Phase::Acquiring => self.end(Outcome::Stopped),
            Phase::Leading { authority_ends_at } => self.begin_release(authority_ends_at, now),
            Phase::Releasing { .. } | Phase::Ended(_) => {}
        }
    }

    /// Handles an event of a watch of the Lease, one line of JSON. While the replica waits, a
    /// change is noticed without an attempt, and a Lease that is free is attempted at once. The
    /// attempt reads the Lease, so a late or wrong event does no harm. A text that is not an event
    /// is ignored.
    pub fn handle_watch_event(&mut self, event: &[u8], now: Time) {
        if self.phase != Phase::Acquiring {
            return;
        }
        let Some((is_deleted, lease)) = watched(event) else { return };
        let is_free = is_deleted || lease.record.holder().is_empty();
        if !is_deleted {
            self.observe(lease, now);
        }
        if is_free && self.in_flight.is_none() {
            self.next_attempt = self.next_attempt.min(now);
        }
    }

    /// Handles the reply to a request. Ignores requests that are unknown or already have a reply.
    pub fn handle_reply(&mut self, id: RequestId, reply: Reply, now: Time) {
        if let Phase::Leading { authority_ends_at } = self.phase
            && authority_ends_at <= now
        {
            return self.expire();
        }
        let Some((_, call)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id) else {
            return;
        };
        let lease = lease_in(reply);
        match call {
            Call::UpdateOptimistically(write) => match self.written(lease, write, now) {
                Ok(()) => {}
                Err(failure) => {
                    self.notices.push(Notice::FellBack(failure.message));
                    // The release reads the Lease itself.
                    if !self.is_stopping {
                        self.read(write.attempt);
                    }
                }
            },
            Call::Get { .. } if self.is_stopping => {}
            Call::Get { attempt } => match lease {
                Ok(lease) => self.take_over(lease, attempt, now),
                Err(failure) if failure.is_not_found() => self.create(attempt, now),
                Err(failure) => {
                    let problem = self.lock.explain(Verb::Get, &failure);
                    self.notices.push(Notice::CannotRead(problem.clone()));
                    self.fail(Some(problem), now);
                }
            },
            Call::Create(write) => self.finish_write(Verb::Create, lease, write, now),
            Call::Update(write) => self.finish_write(Verb::Update, lease, write, now),
            Call::GetToRelease => self.write_release(lease, now),
            Call::Release => self.finish_release(lease, now),
        }
        if self.is_stopping {
            self.release(now);
        }
    }

    fn attempt_if_due(&mut self, now: Time) {
        if self.in_flight.is_none() && self.next_attempt <= now {
            self.attempt(now);
        }
    }

    fn attempt(&mut self, now: Time) {
        let renewal = self.observed.as_ref().and_then(|observed| {
            let record = &observed.lease.record;
            let is_mine = record.holder() == self.config.identity && now < observed.expires_at();
            is_mine.then(|| record.renewed(&self.config, &self.micro_time(now)))
        });
        match renewal {
            Some(record) => {
                let write = Write { attempt: now, made_at: now };
                self.update(&record, Call::UpdateOptimistically(write));
            }
            None => self.read(now),
        }
    }

    fn read(&mut self, attempt: Time) {
        let id = self.ids.next();
        self.send(self.lock.get(id), Call::Get { attempt });
    }

    fn create(&mut self, attempt: Time, now: Time) {
        let record = LeaderElectionRecord::new(&self.config, &self.micro_time(attempt));
        if self.phase == Phase::Acquiring {
            self.predecessor = Predecessor::None;
        }
        let request = self.lock.create(self.ids.next(), &self.config, &record);
        self.send(request, Call::Create(Write { attempt, made_at: now }));
    }

    /// Updates the observed Lease.
    fn update(&mut self, record: &LeaderElectionRecord, call: Call) {
        let Some(observed) = &self.observed else { return };
        let request = self.lock.update(self.ids.next(), &observed.lease, record);
        self.send(request, call);
    }

    fn send(&mut self, request: Request, call: Call) {
        self.in_flight = Some((request.id, call));
        self.requests.push(request);
    }

    /// Continues an attempt with the Lease that was read: updates it unless another replica holds
    /// it.
    fn take_over(&mut self, lease: Lease, attempt: Time, now: Time) {
        let holder = lease.record.holder().to_owned();
        let is_mine = holder == self.config.identity;
        let expires_at = self.observe(lease, now);
        if !is_mine && let Phase::Leading { .. } = self.phase {
            let reason = match &*holder {
                "" => "the lease has no holder any more".to_owned(),
                holder => format!("the lease is held by {holder}"),
            };
            return self.lose(reason);
        }
        if !is_mine && !holder.is_empty() && attempt < expires_at {
            self.notices.push(Notice::Held(holder));
            return self.fail(None, now);
        }
        let Some(Observed { lease, .. }) = &self.observed else { return };
        // Not the time of the attempt, as in client-go: an update without reading in the same
        // attempt may have stored that record, and other replicas would not see it change.
        let time = self.micro_time(now);
        if !is_mine {
            self.predecessor = match lease.record.holder() {
                "" => Predecessor::Released,
                _ => Predecessor::Expired,
            };
        }
        let record = match is_mine {
            true => lease.record.renewed(&self.config, &time),
            false => lease.record.taken_over(&self.config, &time),
        };
        self.slowpath_total += u64::from(is_mine);
        self.update(&record, Call::Update(Write { attempt, made_at: now }));
    }

    /// Stores a Lease that was read. If its record is new, its holder has renewed it now. Returns
    /// when it expires.
    fn observe(&mut self, lease: Lease, now: Time) -> Time {
        let known = self.observed.take().filter(|known| known.lease.record == lease.record);
        let at = known.map_or(now, |known| known.at);
        let observed = Observed { lease, at };
        let (holder, expires_at) = (observed.lease.record.holder(), observed.expires_at());
        let is_other = !holder.is_empty() && holder != self.config.identity;
        if is_other && holder != self.reported_leader {
            holder.clone_into(&mut self.reported_leader);
            self.notices.push(Notice::ObservedLeader(holder.to_owned()));
        }
        self.observed = Some(observed);
        expires_at
    }

    fn finish_write(&mut self, verb: Verb, lease: Result<Lease, Failure>, write: Write, now: Time) {
        let Err(failure) = self.written(lease, write, now) else { return };
        let problem = self.lock.explain(verb, &failure);
        self.notices.push(Notice::CannotUpdate(problem.clone()));
        // A conflict means that another replica was faster.
        self.fail((!failure.is_conflict()).then_some(problem), now);
    }

    /// Handles the reply to a write that makes this replica the holder.
    fn written(
        &mut self,
        lease: Result<Lease, Failure>,
        write: Write,
        now: Time,
    ) -> Result<(), Failure> {
        let lease = lease?;
        let holder = lease.record.holder();
        if holder != self.config.identity {
            let message = format!("the server stored another holder: {holder:?}");
            return Err(Failure { status: None, message });
        }
        self.observed = Some(Observed { lease, at: now });
        self.problem = None;
        let authority_ends_at = write.made_at + self.config.renew_deadline;
        if authority_ends_at <= now {
            // The reply came too late to act on it.
            self.next_attempt = now;
            return Ok(());
        }
        if self.phase == Phase::Acquiring && !self.is_stopping {
            self.reported_leader.clone_from(&self.config.identity);
            self.notices.push(Notice::StartedLeading);
        }
        self.phase = Phase::Leading { authority_ends_at };
        // Calls of extenders block the loop, which then handles the reply late.
        self.next_attempt = now.max(write.made_at + self.config.retry_period);
        Ok(())
    }

    /// Ends an attempt without success, and plans the next one.
    fn fail(&mut self, problem: Option<String>, now: Time) {
        self.problem = problem;
        self.next_attempt = match self.phase {
            Phase::Leading { .. } => now + self.config.retry_period,
            _ => self.next_try_to_acquire(now),
        };
    }

    /// Returns the time of the next attempt of a waiting replica, which is not after the Lease
    /// expires.
    fn next_try_to_acquire(&mut self, now: Time) -> Time {
        let regular = now + self.config.jittered_retry_period(&mut self.rng);
        let expires_at = self.observed.as_ref().map(Observed::expires_at);
        expires_at.filter(|expires_at| now < *expires_at).map_or(regular, |at| at.min(regular))
    }

    fn expire(&mut self) {
        let deadline = self.config.renew_deadline;
        let problem = self.problem.as_deref().unwrap_or("the server did not answer");
        let reason = format!("the lease was not renewed within {deadline:?}: {problem}");
        self.lose(reason);
    }

    fn lose(&mut self, reason: String) {
        self.notices.push(Notice::StoppedLeading(reason));
        self.end(Outcome::Lost);
    }

    fn end(&mut self, outcome: Outcome) {
        self.phase = Phase::Ended(outcome);
        self.in_flight = None;
        self.requests.clear();
    }

    fn begin_release(&mut self, until: Time, now: Time) {
        self.phase = Phase::Releasing { until };
        self.read_to_release(now);
    }

    fn read_to_release(&mut self, now: Time) {
        if let Phase::Releasing { until } = self.phase
            && until <= now
        {
            return self.end(Outcome::Stopped);
        }
        let id = self.ids.next();
        self.send(self.lock.get(id), Call::GetToRelease);
    }

    fn write_release(&mut self, lease: Result<Lease, Failure>, now: Time) {
        match lease {
            Ok(lease) if lease.record.holder() == self.config.identity => {
                let record = lease.record.released(&self.micro_time(now));
                self.observe(lease, now);
                self.update(&record, Call::Release);
            }
            Ok(_) => self.end(Outcome::Stopped),
            Err(failure) => self.give_up_release(failure),
        }
    }

    fn finish_release(&mut self, lease: Result<Lease, Failure>, now: Time) {
        match lease {
            Ok(_) => {
                self.notices.push(Notice::Released);
                self.end(Outcome::Stopped);
            }
            // A renewal whose reply was lost came in between, or the labels of the Lease changed.
            Err(failure) if failure.is_conflict() => self.read_to_release(now),
            Err(failure) => self.give_up_release(failure),
        }
    }

    /// Formats the wall time as a `MicroTime`.
    fn micro_time(&self, time: Time) -> String {
        format!("{:.6}", self.wall_offset.wall_time(time))
    }

    fn give_up_release(&mut self, failure: Failure) {
        self.notices.push(Notice::CannotRelease(failure.message));
        self.end(Outcome::Stopped);
    }
}

/// Returns whether a watch event reports a deletion, and its Lease.
fn watched(event: &[u8]) -> Option<(bool, Lease)> {
    let event: serde_json::Value = serde_json::from_slice(event).ok()?;
    let is_deleted = match event["type"].as_str()? {
        "ADDED" | "MODIFIED" => false,
        "DELETED" => true,
        _ => return None,
    };
    let lease = Lease::from_object(event["object"].as_object()?.clone()).ok()?;
    Some((is_deleted, lease))
}
