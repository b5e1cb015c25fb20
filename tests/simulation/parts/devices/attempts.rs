//! Attempts: Filter, Reserve, PreBind, and their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework::{
    Answer, Command, CycleState, PerNode, Pod, PreBindInput, PreBindStep, Status, Time, Uid,
    Verdicts, Write, WriteAction,
};
use plugins::dynamic_resources::{self, NAME};
use serde_json::Value;
use testkit::FakeDryRun;

use super::super::super::rules::{Checked, rule};
use super::super::filters::NODES;
use super::claims::{
    allocated_at, are_ready, claim_key, counts_of, devices_of, is_allocated, uid_of, users_of,
    version_of,
};
use super::known::{Doubt, Verdict};
use super::requests::Requests;
use super::{Attempt, BINDING_TIMEOUT, CLAIMS, DOUBT, History, LONGEST_REQUEST, Stage, Step};

impl History<'_> {
    /// Compares the score of a node on which the pod fits.
    pub(super) fn compare_score(
        &self,
        state: &CycleState,
        pod: &Pod,
        claims: &[&str],
        node: &str,
    ) -> Checked {
        let Some(score) = &self.plugin.score else { return Ok(()) };
        let ix = self.cluster.node_named(node).expect("the node exists");
        let handle = self.handle();
        let one =
            score.score(&framework::Attempt::new(state, pod, &handle), &self.cluster.node(ix));
        let mut together = [0];
        let status = score.score_set(
            &framework::Attempt::new(state, pod, &handle),
            PerNode::new(&[ix], &mut together),
        );
        let expected = self.known.score(&self.server, claims, node);
        rule(status.is_ok() && one == Ok(expected) && together == [expected], || {
            format!("{} scores {one:?} and {together:?} on {node}, not {expected}", pod.key)
        })
    }

    pub(super) fn try_pod(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        if !matches!(self.members[place].stage, Stage::Pending) {
            return Ok(());
        }
        let member = &self.members[place];
        let (pod, claims) = (member.pod.clone(), member.claims.clone());
        let (mut state, found) = self.filter(&pod);
        self.carry_out_commands(None)?;
        let fitting = |(_, status): &(usize, &Status)| status.is_success();
        let fitting: Vec<_> = found.iter().flatten().enumerate().filter(fitting).collect();
        let on = self.random.choice(fitting).map_or(0, |(place, _)| place);
        let node = NODES[on];
        let status = match found {
            Ok(statuses) => statuses[on].clone(),
            Err(status) => status,
        };
        trace.push(format!("{} is tried on {node}: {}", pod.key, status.message()));
        if !status.is_success() {
            return self.post_filter(place, trace);
        }
        self.compare_score(&state, &pod, &claims, node)?;
        state.end_search();
        let taken = self.known.taken(&self.server);
        let placed = Arc::new(Pod { node_name: Some(node.into()), ..Pod::clone(&pod) });
        if let Some(reserve) = &self.plugin.reserve {
            let status = reserve
                .reserve(framework::AttemptMut::new(&mut state, &placed, &self.handle()), node);
            rule(status.is_success(), || format!("{} is not reserved: {status:?}", pod.key))?;
        }
        let mut all = taken;
        let chosen = self.known.choose(&self.server, &claims, node).unwrap_or_default();
        let mut chosen = chosen.into_iter();
        let allocations = dynamic_resources::reserved_allocations(&state);
        for name in claims {
            let Some(claim) = self.known.latest(&self.server, name) else { continue };
            let devices = allocations.get(name).map(devices_of).unwrap_or_default();
            let expected = match is_allocated(claim) {
                true => 0,
                false => chosen.next().map_or(0, |place| counts_of(claim)[place]),
            };
            let uid = uid_of(claim);
            rule(devices.len() == expected, || format!("{name} is given {devices:?}"))?;
            for device in &devices {
                let is_free = device.split('/').next() == Some(node) && all.insert(device.clone());
                rule(is_free, || format!("{device} on {node} is given to {name}"))?;
            }
            if expected > 0 {
                self.known.in_flight.insert(uid, (pod.uid.clone(), devices));
            }
        }
        // The watch may not show yet what others have done.
        let is_newest = |name: &&str| {
            let [known, newest] =
                [self.known.latest(&self.server, name), self.server.get(CLAIMS, name)];
            known.zip(newest).is_some_and(|(known, newest)| version_of(known) == version_of(newest))
        };
        let excused = !self.members[place].claims.iter().all(is_newest);
        self.members[place].stage = Stage::Binding(Box::new(Attempt {
            state,
            pod: placed,
            node,
            step: Step::Start,
            carried_out: None,
            requests: Requests::first(self.parts.now, 0),
            conflicts: 0,
            excused,
            unknown: BTreeMap::new(),
            reserved: BTreeSet::new(),
            waits_since: None,
        }));
        Ok(())
    }

    /// Runs PostFilter, as after an attempt in which no node passed.
    pub(super) fn post_filter(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        let (pod, claims) = (self.members[place].pod.clone(), self.members[place].claims.clone());
        let (mut state, found) = self.filter(&pod);
        let Ok(statuses) = found else { return Ok(()) };
        if statuses.iter().any(Status::is_success) {
            return Ok(());
        }
        let now = self.parts.now;
        let unavailable = NODES.into_iter().filter(|node| {
            self.known.verdict(&self.server, &claims, node, now) == Verdict::Unavailable
        });
        let unavailable: Vec<_> = unavailable.collect();
        let uid = pod.uid.to_string();
        let is_useless = |name: &str| {
            let Some(claim) = self.known.latest(&self.server, name) else { return false };
            let devices = devices_of(&claim["status"]["allocation"]);
            let is_elsewhere =
                |node: &&str| devices.iter().any(|device| device.split('/').next() != Some(*node));
            let is_failed = are_ready(claim, now).is_err();
            is_allocated(claim) && unavailable.iter().any(|node| is_elsewhere(node) || is_failed)
        };
        let users = |name: &str| self.known.latest(&self.server, name).map(users_of);
        let is_own =
            |name: &str| users(name).is_some_and(|users| users.iter().all(|it| *it == uid));
        let is_shared = |name: &str| users(name).is_some_and(|users| users.contains(&uid));
        let useless = || claims.iter().copied().filter(|name| is_useless(name));
        let expected = useless().find(|name| is_own(name));
        let expected = expected.or_else(|| useless().find(|name| is_shared(name)));
        let expected = expected.map(str::to_owned);
        let mut verdicts = Verdicts::with_len(self.cluster.table_len());
        for (name, status) in NODES.iter().zip(statuses) {
            let node = self.cluster.node_named(name).expect("the node exists");
            verdicts.record(node, status.by(&NAME.into()));
        }
        self.parts.commands.take();
        if let Some(post_filter) = &self.plugin.post_filter {
            let mut dry_run = FakeDryRun::new(&self.cluster, |_| Status::success());
            let handle = self.handle();
            post_filter.post_filter(
                framework::AttemptMut::new(&mut state, &pod, &handle),
                &verdicts,
                &mut dry_run,
            );
        }
        let commands = self.parts.commands.take();
        let freed = commands.iter().find_map(|command| match command {
            Command::Write { write, .. } => Some(write.name.to_string()),
            _ => None,
        });
        trace.push(format!("PostFilter for {} frees {freed:?}", pod.key));
        rule(freed == expected, || {
            format!("PostFilter for {} frees {freed:?} instead of {expected:?}", pod.key)
        })?;
        commands.into_iter().for_each(|command| self.parts.handle(&self.cluster).command(command));
        self.carry_out_commands(Some(trace))
    }

    /// Lets a pod that is being bound go on.
    pub(super) fn go_on(&mut self, place: usize, trace: &mut Vec<String>) -> Checked {
        let key = self.members[place].pod.key.clone();
        let Stage::Binding(attempt) = &mut self.members[place].stage else { return Ok(()) };
        let write = match &attempt.step {
            Step::Wait { .. } => return Ok(()),
            Step::Pause { until, .. } => {
                let time = until.since(self.parts.now);
                return self.pass(time, trace);
            }
            Step::Start => return self.call(place, PreBindInput::Start, trace),
            Step::Open(write) => write.clone(),
        };
        let carried_out = attempt.carried_out.take();
        let until = self.parts.now + LONGEST_REQUEST;
        let lost = || Answer::Unknown("no answer".to_owned());
        let fate = if self.is_calm { 19 } else { self.random.u32(..self.fates) };
        let answer = match fate {
            _ if let Some(answer) = carried_out => answer,
            6 | 7 => {
                trace.push(format!("{} is written for {key}, without an answer yet", write.name));
                attempt.carried_out = Some(self.server.write(&write));
                return Ok(());
            }
            0 | 1 => {
                self.server.write(&write);
                lost()
            }
            2 | 3 => {
                self.late.push((write.clone(), until));
                lost()
            }
            4 if self.random.bool() => Answer::Error("refused".to_owned()),
            4 => Answer::Throttled("later".to_owned()),
            5 => match self.server.write(&write) {
                Answer::Ok(_) => Answer::ok(),
                other => other,
            },
            _ => self.server.write(&write),
        };
        trace.push(format!("{key} writes {} {}: {answer:?}", write.name, write.body()));
        self.is_precise(&write)?;
        let Stage::Binding(attempt) = &mut self.members[place].stage else { return Ok(()) };
        let is_reservation = write.subresource.is_some();
        let (name, base) = (write.name.to_string(), version_of(write.body()));
        match &answer {
            Answer::Ok(Some(object)) if is_reservation => {
                self.known.answered.insert(uid_of(object), object.clone());
                self.known.in_flight.remove(&uid_of(object));
                attempt.unknown.remove(&name);
                attempt.reserved.insert(name);
            }
            Answer::Ok(None) | Answer::Unknown(_) if is_reservation => {
                attempt.unknown.insert(name, base);
            }
            _ => {}
        }
        match &answer {
            Answer::Ok(Some(_)) => {}
            Answer::Ok(None) | Answer::Conflict(_) => attempt.conflicts += 1,
            failure => {
                attempt.excused |= attempt.requests.answered(failure, self.parts.now).is_none();
            }
        }
        attempt.excused |= attempt.conflicts >= 3;
        self.call(place, PreBindInput::Answer(&answer), trace)
    }

    /// Checks that a write is refused for another claim and, unless it adds a finalizer, for
    /// another version.
    pub(super) fn is_precise(&self, write: &Write) -> Checked {
        let metadata = &write.body()["metadata"];
        let names_uid =
            metadata["uid"].is_string() || matches!(write.action, WriteAction::Delete(_));
        let names_version = metadata["resourceVersion"].is_string();
        let is_addition = metadata["finalizers"].is_array();
        rule(names_uid && (names_version || is_addition), || {
            format!("a write may change another object: {write:?}")
        })
    }

    /// Calls PreBind for a pod.
    pub(super) fn call(
        &mut self,
        place: usize,
        input: PreBindInput<'_>,
        trace: &mut Vec<String>,
    ) -> Checked {
        let Self { members, plugin, parts, cluster, .. } = self;
        let member = &mut members[place];
        let (key, claims) = (member.pod.key.clone(), member.claims.clone());
        let Stage::Binding(attempt) = &mut member.stage else { return Ok(()) };
        let now = parts.now;
        let first = match (&attempt.step, &input) {
            (Step::Wait { since, until, .. }, PreBindInput::Changed) => Some((*since, *until)),
            _ => None,
        };
        let repeated = match (&attempt.step, &input) {
            (Step::Open(write), PreBindInput::Answer(Answer::Ok(_))) => Some(write.name.clone()),
            _ => None,
        };
        // The write that is to be repeated, and when.
        let pause = match (&attempt.step, &input) {
            (Step::Open(write), PreBindInput::Answer(answer)) => {
                let pause = attempt.requests.answered(answer, now);
                pause.map(|pause| (now + pause, write.clone()))
            }
            (Step::Pause { until, write }, _) => Some((*until, write.clone())),
            _ => None,
        };
        let written = match (&attempt.step, &input) {
            (Step::Open(write), PreBindInput::Answer(Answer::Ok(Some(_)))) => Some(write.clone()),
            _ => None,
        };
        attempt.step = Step::Start;
        let Some(pre_bind) = &plugin.pre_bind else { return Ok(()) };
        let handle = parts.handle(cluster);
        let (pod, node) = (attempt.pod.clone(), attempt.node);
        let step = pre_bind.pre_bind(
            framework::AttemptMut::new(&mut attempt.state, &pod, &handle),
            node,
            input,
        );
        let mut wait = None;
        if let (Some(written), PreBindStep::Write(write)) = (&written, &step) {
            rule(write != written, || format!("{key} writes {} again", write.name))?;
        }
        let is_outdated = |write: &Write| {
            let known = self.known.latest(&self.server, &write.name);
            let uid = &write.body()["metadata"]["uid"];
            let known = known.filter(|own| own["metadata"]["uid"] == *uid).map(version_of);
            known > Some(attempt.requests.base)
        };
        if pause.as_ref().is_some_and(|(_, write)| is_outdated(write)) {
            attempt.conflicts += 1;
            attempt.excused |= attempt.conflicts >= 3;
        } else if let Some((until, write)) = pause {
            attempt.step = match &step {
                PreBindStep::Wait { timeout, objects } if until > now => {
                    let is_right = now + *timeout == until && *objects == [claim_key(&write.name)];
                    rule(is_right, || format!("{key} pauses {timeout:?} for {objects:?}"))?;
                    Step::Pause { until, write }
                }
                PreBindStep::Write(again) if until <= now => {
                    rule(*again == write, || format!("{key} repeats {write:?} as {again:?}"))?;
                    attempt.requests.repeated();
                    Step::Open(write)
                }
                step => return Err(format!("{key} does not repeat {write:?}: {step:?}")),
            };
            return self.carry_out_commands(Some(trace));
        }
        let done = match step {
            PreBindStep::Write(write) => {
                let is_new = write.subresource.is_some() && repeated != Some(write.name.clone());
                let latest = self.known.latest(&self.server, &write.name);
                let is_same =
                    |own: &&Value| own["metadata"]["uid"] == write.body()["metadata"]["uid"];
                let latest = latest.filter(is_same).map(version_of);
                rule(!is_new || latest <= Some(version_of(write.body())), || {
                    format!("{key} writes {} in another version than {latest:?}", write.name)
                })?;
                let before = claims.iter().take_while(|name| ***name != *write.name);
                let uids = before.filter_map(|name| self.server.shown(CLAIMS, name).map(uid_of));
                for uid in uids {
                    let own = self.known.in_flight.get(&uid);
                    if own.is_some_and(|(owner, _)| *owner == pod.uid) {
                        self.known.in_flight.remove(&uid);
                    }
                }
                let base = match version_of(write.body()) {
                    0 => latest.unwrap_or_default(),
                    named => named,
                };
                attempt.requests = Requests::first(now, base);
                attempt.step = Step::Open(write);
                None
            }
            PreBindStep::Wait { timeout, objects } => {
                let (since, until) = first.unwrap_or((now, now + timeout));
                let until = until.min(now + timeout);
                wait = Some(now + timeout);
                attempt.step = Step::Wait { since, until, objects };
                None
            }
            PreBindStep::Done(status) => Some((status, attempt.excused)),
        };
        self.carry_out_commands(Some(trace))?;
        let Some((status, excused)) = done else {
            return wait.map_or(Ok(()), |until| self.waits_rightly(place, until));
        };
        if status.is_success() {
            trace.push(format!("{key} is bound to {node}"));
            self.known.in_flight.retain(|_, (owner, _)| *owner != pod.uid);
            for name in claims {
                let claim = self.known.latest(&self.server, name).unwrap_or(&Value::Null);
                let are_ready = are_ready(claim, now) == Ok(true);
                rule(are_ready, || format!("{key} is bound before its devices are ready"))?;
            }
            self.members[place].stage = Stage::Bound(node);
            return self.keeps_its_devices(place);
        }
        let has_failed = claims.iter().any(|name| {
            let claim = self.known.latest(&self.server, name);
            claim.is_none_or(|claim| are_ready(claim, now).is_err())
        });
        rule(excused || has_failed, || format!("{key} fails: {}", status.message()))?;
        self.fail(place, &status.message(), trace)
    }

    /// Notes that a pod begins to wait for its devices.
    pub(super) fn waits_for_devices(&mut self, pod: &Uid) {
        for member in self.members.iter_mut().filter(|own| own.pod.uid == *pod) {
            if let Stage::Binding(attempt) = &mut member.stage {
                attempt.waits_since = Some(self.parts.now);
            }
        }
    }

    /// Checks that a pod that waits for its devices waits for all that are not ready, none of which
    /// is broken, and until the first time at which one of them is late.
    fn waits_rightly(&self, place: usize, until: Time) -> Checked {
        let member = &self.members[place];
        let Stage::Binding(attempt) = &member.stage else { return Ok(()) };
        let (Step::Wait { objects, .. }, Some(since)) = (&attempt.step, attempt.waits_since) else {
            return Ok(());
        };
        let (key, now) = (&member.pod.key, self.parts.now);
        let mut expected = BTreeSet::new();
        let mut end = since + BINDING_TIMEOUT;
        for name in &member.claims {
            let claim = self.known.latest(&self.server, name).unwrap_or(&Value::Null);
            match are_ready(claim, now) {
                Ok(true) => {}
                Ok(false) => {
                    expected.insert(claim_key(name));
                    let late = allocated_at(claim).map(|at| at + BINDING_TIMEOUT);
                    end = late.map_or(end, |late| end.min(late + Duration::from_nanos(1)));
                }
                Err(()) => return Err(format!("{key} waits for the broken devices of {name}")),
            }
        }
        rule(
            !expected.is_empty() && objects.iter().cloned().collect::<BTreeSet<_>>() == expected,
            || format!("{key} waits for {objects:?} instead of {expected:?}"),
        )?;
        rule(until == end && now < since + BINDING_TIMEOUT, || {
            format!("{key} waits until {until} instead of {end}, since {since}")
        })
    }

    /// Ends an attempt.
    pub(super) fn fail(&mut self, place: usize, why: &str, trace: &mut Vec<String>) -> Checked {
        let Self { members, plugin, parts, cluster, known, late, .. } = self;
        let member = &mut members[place];
        let stage = std::mem::replace(&mut member.stage, Stage::Pending);
        let Stage::Binding(mut attempt) = stage else {
            member.stage = stage;
            return Ok(());
        };
        trace.push(format!("the attempt of {} ends: {why}", member.pod.key));
        let now = parts.now;
        if let Step::Open(write) = &attempt.step {
            if attempt.carried_out.is_none() {
                late.push((write.clone(), now + LONGEST_REQUEST));
            }
            if write.subresource.is_some() {
                attempt.unknown.insert(write.name.to_string(), version_of(write.body()));
            }
        }
        let mut doubted = BTreeSet::new();
        for name in &member.claims {
            let Some(uid) = self.server.shown(CLAIMS, name).map(uid_of) else { continue };
            let own = known.in_flight.get(&uid);
            if own.is_none_or(|(owner, _)| *owner != member.pod.uid) {
                continue;
            }
            let Some((_, devices)) = known.in_flight.remove(&uid) else { continue };
            if let Some(version) = attempt.unknown.get(*name) {
                let (version, until) = (*version, now + DOUBT);
                doubted.insert(uid.clone());
                known.in_doubt.insert(uid, Doubt { claim: name, version, until, devices });
            }
        }
        known.in_flight.retain(|_, (owner, _)| *owner != member.pod.uid);
        let Attempt { state, pod, node, .. } = &mut *attempt;
        if let Some(reserve) = &plugin.reserve {
            reserve.unreserve(framework::AttemptMut::new(state, pod, &parts.handle(cluster)), node);
        }
        known.end_doubts(&self.server, now);
        let commands = self.parts.commands.take();
        for (uid, doubt) in known.in_doubt.iter().filter(|(uid, _)| doubted.contains(*uid)) {
            let is_fence = |command: &Command| match command {
                Command::Write { write, .. } => {
                    let metadata = &write.body()["metadata"];
                    metadata["uid"] == **uid && version_of(write.body()) == doubt.version
                }
                _ => false,
            };
            rule(commands.iter().any(is_fence), || format!("{} is not fenced", doubt.claim))?;
        }
        for name in attempt.reserved.iter().filter(|name| !attempt.unknown.contains_key(*name)) {
            let is_released = commands.iter().any(|command| match command {
                Command::Write { write, .. } => *write.name == **name,
                _ => false,
            });
            rule(is_released, || format!("{name} stays reserved for {}", attempt.pod.key))?;
        }
        commands.into_iter().for_each(|command| self.parts.handle(&self.cluster).command(command));
        self.carry_out_commands(Some(trace))
    }
}
