//! What the engine may do, and what it must.

use std::collections::BTreeSet;

use engine::queue::Place;
use engine::{Attempt, EffectId, EffectKind, Outcome};
use framework::{Answer, PodKey, Time, Uid};

use super::super::super::rules::{Checked, rule};
use super::plugin::{NAMES, look};
use super::requests::{Sent, shows_end};
use super::{Asked, Cycle, Duration, History};

/// Number of binds without an answer after which a node is given up.
const BINDS: u32 = 5;
/// Number of binds that are refused because the pod has changed, and are sent again.
const OUTDATED_BINDS: u32 = 8;
/// Number of tries of a write beside PreBind.
const TRIES: u32 = 4;
/// The first pause of an extender that has not answered. It doubles, unless the extender has
/// answered for longer than the longest.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Longest time for which an extender is not tried again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

impl Cycle {
    /// Returns the number of the node.
    pub(super) fn number(&self) -> Option<usize> {
        self.node.strip_prefix('n')?.parse().ok()
    }

    /// Handles an answer.
    pub(super) fn notes(&mut self, kind: &EffectKind, answer: &Answer) {
        let is_bind = matches!(kind, EffectKind::Bind { .. } | EffectKind::ExtenderBind { .. });
        match answer {
            Answer::Unknown(_) if is_bind => self.unknown += 1,
            Answer::Outdated(_) if is_bind => self.outdated += 1,
            // A bind beside one of unknown outcome says nothing about that one.
            _ if is_bind && self.unknown > 0 => self.unknown += 1,
            Answer::Ok(Some(pod)) if !matches!(kind, EffectKind::Write(_)) => {
                let version = pod["metadata"]["resourceVersion"].as_str();
                self.version = version.and_then(|version| version.parse().ok()).or(self.version);
            }
            Answer::Error(_) | Answer::Forbidden(_) if matches!(kind, EffectKind::Fence { .. }) => {
                self.fence_refused = true;
            }
            _ => {}
        }
    }
}

impl History {
    /// Returns the time at which each extender that does not answer is tried again.
    pub(super) fn outages(&self) -> Vec<Option<Time>> {
        self.engine.extender_outages().map(|(_, outage)| Some(outage?.next_try)).collect()
    }

    /// Checks a request. A bind is sent for the node that was decided on, and while an earlier one
    /// may yet be carried out only if nothing can stop that one: it is by an extender, or the
    /// server has refused the patch that would have done so.
    pub(super) fn may_be_sent(&self, sent: &Sent) -> Checked {
        let (EffectKind::Bind { binding, .. } | EffectKind::ExtenderBind { binding, .. }) =
            &sent.kind
        else {
            return Ok(());
        };
        let Some(cycle) = self.cycles.get(&sent.uid) else { return Ok(()) };
        rule(*binding.node == *cycle.node, || {
            format!("{} is bound to {}, not to {}", sent.pod, binding.node, cycle.node)
        })?;
        if let (EffectKind::Bind { resource_version, .. }, Some(version)) =
            (&sent.kind, cycle.version)
        {
            rule(*resource_version >= version, || {
                format!("{} is bound in version {resource_version}, not {version}", sent.pod)
            })?;
        }
        let mut earlier = self.sent.iter().filter(|other| other.uid == sent.uid);
        let open = earlier.find(|other| {
            matches!(other.kind, EffectKind::Bind { .. })
                && self.is_due(other)
                && other.would_bind(&self.server).is_some()
        });
        let is_unstoppable = cycle.fence_refused || cycle.by_extender;
        rule(open.is_none() || is_unstoppable, || {
            format!("{} is bound while {:?} may yet be carried out", sent.pod, open.map(|it| it.id))
        })
    }

    /// Checks what an attempt has led to.
    pub(super) fn is_attempt_right(
        &mut self,
        attempt: &Attempt,
        asked: &Asked,
        outages: &[Option<Time>],
    ) -> Checked {
        let uid = &attempt.pod.uid;
        self.are_extenders_called(attempt, outages)?;
        let (is_at_once, refused, writes) = {
            let mut seen = look(&self.seen);
            let is_at_once = !std::mem::take(&mut seen.not_at_once).contains(uid);
            (is_at_once, seen.refused.remove(uid), std::mem::take(&mut seen.asked))
        };
        let is_write = |kind: &EffectKind| matches!(kind, EffectKind::Write(_));
        if writes > 0 {
            let ids = asked.effects.iter().filter(|it| is_write(&it.kind)).map(|it| it.id);
            self.writes.extend(ids.map(|id| (id, 1)));
        }
        match (&attempt.outcome, refused) {
            (Outcome::Assumed(node), _) => {
                let (node, generation) = (node.to_string(), attempt.pod.generation.into());
                let nominates = asked.effects.iter().any(|effect| {
                    matches!(&effect.kind, EffectKind::PatchPodStatus { patch, .. }
                        if patch.nominated_node_name.as_deref() == Some(&node))
                });
                let is_shown = attempt.pod.nominated_node_name().is_some_and(|own| **own == *node);
                let has_failed = asked.failed.contains(uid);
                rule(nominates != is_at_once || is_shown || has_failed, || {
                    format!(
                        "{} is bound at once: {is_at_once}, nominated: {nominates}",
                        attempt.pod.key
                    )
                })?;
                let by_extender = asked.effects.iter().any(|effect| {
                    matches!(&effect.kind, EffectKind::ExtenderBind { binding, .. } if binding.uid == *uid)
                });
                let cycle = Cycle {
                    node,
                    generation,
                    unknown: 0,
                    outdated: 0,
                    version: None,
                    fence_refused: false,
                    by_extender,
                };
                self.cycles.insert(uid.clone(), cycle);
            }
            (
                Outcome::Unschedulable(_) | Outcome::Repeated(_) | Outcome::Error(_),
                Some((plugin, rejects)),
            ) => {
                let is_rejected = !matches!(attempt.outcome, Outcome::Error(_));
                let queued = self.engine.queue().get(&attempt.pod.key);
                let plugins = queued.map(|(_, queued)| &queued.history.unschedulable_plugins);
                let names = plugins.into_iter().flatten().map(|name| &**name);
                let names: BTreeSet<&str> = names.collect();
                let expected: BTreeSet<&str> =
                    rejects.then_some(NAMES[plugin]).into_iter().collect();
                rule(is_rejected == rejects && names == expected, || {
                    format!("{} was rejected by {names:?}, not by {expected:?}", attempt.pod.key)
                })?;
            }
            (Outcome::Unschedulable(_) | Outcome::Repeated(_), None) => {
                // One pod may answer for others of its template.
                let alike = self
                    .engine
                    .pending()
                    .filter(|pod| self.cpus.get(&pod.uid) == self.cpus.get(uid));
                let alike = alike.map(|pod| pod.uid.clone());
                match self.fits(uid).is_some() {
                    true => self.kept_out.extend(alike),
                    false => drop(self.kept_out.remove(uid)),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An extender that does not answer is called in no cycle. Once its pause has ended, the next
    /// pod that needs it lets it be tried again.
    fn are_extenders_called(&mut self, attempt: &Attempt, outages: &[Option<Time>]) -> Checked {
        let called = std::mem::take(&mut self.dialogue.called);
        let probed = std::mem::take(&mut self.dialogue.probed);
        let skipped = std::mem::take(&mut self.dialogue.skipped);
        for (number, outage) in outages.iter().enumerate() {
            let name = format!("extender {:?} has not answered", self.extenders[number].name);
            let is_needed = skipped.contains(&number)
                || matches!(&attempt.outcome, Outcome::Error(text) if text.contains(&name));
            let Some(next_try) = outage else { continue };
            rule(!called.contains(&number), || format!("{name}, and is called"))?;
            let is_due = is_needed && *next_try <= self.now;
            rule(probed.contains(&number) == is_due, || {
                format!("{name}, next try {next_try:?}, needed: {is_needed}, tried: {probed:?}")
            })?;
        }
        for (number, (before, after)) in outages.iter().zip(self.outages()).enumerate() {
            let Some(after) = after else { continue };
            let (pause, up_since) = &mut self.pauses[number];
            let is_new = before.is_none();
            if is_new && self.now.since(*up_since) >= LONGEST_PAUSE {
                *pause = Duration::ZERO;
            }
            if is_new || probed.contains(&number) {
                *pause = (*pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            }
            let expected = match before.filter(|_| !probed.contains(&number)) {
                Some(before) => before,
                None => self.now + *pause,
            };
            rule(after == expected, || {
                format!("extender {number} is tried again at {after:?}, not at {expected:?}")
            })?;
        }
        self.probes.extend(probed);
        Ok(())
    }

    /// A cycle ends only if an answer says that it has to, or if a plugin has failed.
    pub(super) fn has_ended_for_a_reason(
        &mut self,
        kind: &EffectKind,
        answer: &Answer,
        key: &PodKey,
        uid: &Uid,
        asked: &Asked,
    ) -> Checked {
        let is_binding = self.engine.is_binding(uid);
        let finds_out = matches!(kind, EffectKind::ReadPod { .. } | EffectKind::Fence { .. });
        if finds_out && shows_end(answer, uid) {
            return rule(!is_binding, || format!("{key} is not to be bound: {answer:?}"));
        }
        let Some(cycle) = self.cycles.get(uid) else { return Ok(()) };
        let is_refused = matches!((kind, answer), (EffectKind::Bind { .. }, Answer::Outdated(_)));
        let is_over = is_refused && cycle.unknown == 0 && cycle.outdated > OUTDATED_BINDS;
        rule(!is_over || !is_binding, || {
            format!("{key} is bound again after {} binds", cycle.outdated)
        })?;
        let is_pending = self.engine.pending_pod(key).is_some_and(|pod| pod.uid == *uid);
        if is_binding || !is_pending || asked.bound.contains(uid) {
            return Ok(());
        }
        let changed = self.server.by_uid(&uid.to_string());
        let changed = changed.is_none_or(|pod| pod.generation != cycle.generation);
        if !asked.failed.contains(uid) {
            return rule(changed, || format!("{key} is decided again, and has not changed"));
        }
        let is_cordoned = cycle.number().is_none_or(|number| self.nodes[number].1);
        let is_given_up = cycle.unknown >= BINDS || is_cordoned || changed;
        let plugin_fails = look(&self.seen).failed.contains(uid);
        let is_reason = match (kind, answer) {
            (EffectKind::Bind { .. }, Answer::Outdated(_)) => cycle.outdated > OUTDATED_BINDS,
            (EffectKind::Bind { .. } | EffectKind::ExtenderBind { .. }, Answer::Unknown(_)) => {
                false
            }
            (EffectKind::ExtenderBind { extender, .. }, Answer::Error(_)) => {
                !self.extenders[*extender].ignorable
            }
            (EffectKind::ReadPod { .. }, Answer::Forbidden(_)) => cycle.outdated > 0,
            (EffectKind::ReadPod { .. } | EffectKind::Fence { .. }, _) => is_given_up,
            (EffectKind::Write(_), _) => plugin_fails,
            _ => true,
        };
        rule(is_reason, || format!("{key} has failed without a reason: {kind:?}, {answer:?}"))
    }

    /// A write beside PreBind is repeated if its answer was lost. A pod whose write has failed
    /// waits for no event.
    pub(super) fn is_write_repeated(
        &mut self,
        id: EffectId,
        answer: &Answer,
        key: &PodKey,
        uid: &Uid,
        asked: &Asked,
    ) -> Checked {
        let Some(tries) = self.writes.remove(&id) else { return Ok(()) };
        let writes = asked.effects.iter().find(|it| matches!(it.kind, EffectKind::Write(_)));
        let is_repeated = matches!(answer, Answer::Unknown(_)) && tries < TRIES;
        rule(writes.is_some() == is_repeated, || {
            format!("the write for {key} was tried {tries} times, and is repeated: {writes:?}")
        })?;
        self.writes.extend(writes.map(|write| (write.id, tries + 1)));
        let has_failed = !matches!(answer, Answer::Ok(_) | Answer::Gone(_)) && !is_repeated;
        let queued = self.engine.queue().get(key).filter(|(_, queued)| queued.pod.uid == *uid);
        let waits = queued.is_some_and(|(place, _)| place == Place::Unschedulable);
        rule(!has_failed || !waits, || {
            format!("{key} could not be written, and waits for an event")
        })
    }

    /// Checks what holds at all times.
    pub(super) fn check(&mut self) -> Checked {
        let violation = look(&self.seen).violations.pop();
        violation.map_or(Ok(()), Err)?;
        let engine = &self.engine;
        self.cycles.retain(|uid, _| engine.is_binding(uid));
        self.room_is_kept()?;
        self.outcomes_are_taken_in()?;
        self.room_is_offered()?;
        for (uid, _) in look(&self.seen).waits.keys() {
            rule(self.engine.is_binding(uid), || format!("{uid} waits, and is not being bound"))?;
        }
        let late = look(&self.seen)
            .waits
            .iter()
            .find(|(_, wait)| wait.until <= self.now)
            .map(|it| it.0.clone());
        rule(late.is_none(), || {
            format!("the wait of {late:?} has ended, and it is {:?}", self.now)
        })?;
        for (next_try, extender) in self.outages().into_iter().zip(0..) {
            let is_silent = self.dialogue.silent.contains(&extender);
            rule(next_try.is_some() == is_silent, || {
                format!("extender {extender} answers: {}, next try {next_try:?}", !is_silent)
            })?;
            let latest = self.now + LONGEST_PAUSE;
            rule(next_try.is_none_or(|next| next <= latest), || {
                format!("extender {extender} is tried again only at {next_try:?}")
            })?;
        }
        Ok(())
    }

    /// A pod keeps its room on a node while a request may bind it there.
    fn room_is_kept(&self) -> Checked {
        let world = self.engine.world();
        for sent in self.sent.iter().filter(|sent| self.is_due(sent)) {
            let Some(node) = sent.would_bind(&self.server) else { continue };
            let placed = world.placed(&sent.uid);
            let has_room =
                placed.is_some_and(|placed| **world.cluster().node_name(placed.node) == *node);
            rule(has_room, || {
                format!("{} may be bound to {node} by {}, and has no room", sent.pod, sent.id)
            })?;
        }
        Ok(())
    }

    /// The engine does not look for the outcome of a bind that the watch has shown.
    fn outcomes_are_taken_in(&self) -> Checked {
        let world = self.engine.world();
        for sent in self.sent.iter().filter(|sent| sent.finds_out() && !sent.is_answered) {
            let is_shown = world.placed(&sent.uid).is_some() && !world.is_assumed(&sent.uid);
            rule(!is_shown || !self.engine.is_binding(&sent.uid), || {
                format!("{} is bound, and the outcome of the bind is sought", sent.pod)
            })?;
        }
        Ok(())
    }

    /// Returns the CPUs that are used on a node, according to the engine.
    fn used(&self, node: &str) -> u32 {
        let world = self.engine.world();
        let is_here = |uid: &Uid| {
            let placed = world.placed(uid);
            placed.is_some_and(|placed| **world.cluster().node_name(placed.node) == *node)
        };
        self.cpus.iter().filter(|(uid, _)| is_here(uid)).map(|(_, cpus)| cpus).sum()
    }

    /// No pod that waits only for room fits.
    fn room_is_offered(&self) -> Checked {
        for pod in self.engine.pending() {
            let Some((Place::Unschedulable, queued)) = self.engine.queue().get(&pod.key) else {
                continue;
            };
            let waits_for_room = queued
                .history
                .unschedulable_plugins
                .iter()
                .map(|name| &**name)
                .eq(["NodeResourcesFit"]);
            if !waits_for_room || self.engine.queue().trial_for(&pod.key).is_some() {
                continue;
            }
            let fits = self.fits(&pod.uid).filter(|_| !self.kept_out.contains(&pod.uid));
            rule(fits.is_none(), || format!("{} waits for room, and fits on n{fits:?}", pod.key))?;
        }
        Ok(())
    }

    /// Returns a node that has room for a pod, according to the engine.
    fn fits(&self, uid: &Uid) -> Option<usize> {
        let wanted = self.cpus.get(uid).copied().unwrap_or(0);
        let mut nodes = self.nodes.iter().enumerate();
        let fits = nodes.find(|(number, (cpus, is_cordoned))| {
            !is_cordoned && self.used(&format!("n{number}")) + wanted <= *cpus
        });
        fits.map(|(number, _)| number)
    }

    /// A node is not overcommitted.
    pub(super) fn has_room(&self, node: &str) -> Checked {
        let number: usize = node.trim_start_matches('n').parse().unwrap_or(usize::MAX);
        let (used, cpus) =
            (self.server.used(node), self.nodes.get(number).map_or(0, |node| node.0));
        rule(used <= cpus, || format!("pods on {node} use {used} of {cpus} CPUs"))
    }

    /// Checks the end of a history.
    pub(super) fn is_right(&self) -> Checked {
        let left = (self.engine.binding_count(), self.engine.world().assumed_count());
        rule(left == (0, 0), || format!("binding cycles and assumed pods are left: {left:?}"))?;
        let seen = look(&self.seen);
        for pod in self.server.pods.values() {
            let uid: Uid = (&*pod.uid).into();
            let is_ours = self.bound_by_us.contains(&uid);
            let Some(node) = &pod.node else {
                for (number, (cpus, _)) in self.nodes.iter().enumerate() {
                    let used = self.server.used(&format!("n{number}"));
                    rule(used + pod.cpu > *cpus, || {
                        format!("{} fits on n{number}, and is not bound", pod.name)
                    })?;
                }
                rule(pod.nominated.is_none(), || format!("{} is nominated", pod.name))?;
                continue;
            };
            let shown = (
                self.scheduled.get(&uid).copied().unwrap_or(0),
                seen.bound.get(&uid).copied().unwrap_or(0),
                seen.reserved.get(&uid),
            );
            let expected = if is_ours { (1, 1, Some(node)) } else { (0, 0, None) };
            rule(shown == expected, || {
                format!("{} is bound to {node}; events, PostBind and reserved: {shown:?}", pod.name)
            })?;
        }
        Ok(())
    }
}
