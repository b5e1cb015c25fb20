//! Queueing hints: whether an event may help a pod, and how urgently.

use std::collections::{BTreeMap, BTreeSet};

use framework::{ClusterEvent, Code, EventRegistration, PluginName, QueuedPod, QueueingHint};

use super::Cx;
use crate::guard::guarded;
use crate::occurrence::{Objects, Occurrence};
use crate::ports::Span;
use crate::profile::Profiles;

/// What an event means for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Nothing: it stays unschedulable.
    Skip,
    /// It may be tried again once its backoff is over.
    AfterBackoff,
    /// It may be tried again now: what a Pending plugin waited for has come.
    Immediately,
}

/// An event some plugin wants to hear of.
pub(super) type Registered = (PluginName, EventRegistration);

/// Who wants to hear of one event.
pub(super) struct Listeners<'p> {
    by_profile: BTreeMap<&'p str, Vec<&'p Registered>>,
}

impl<'p> Listeners<'p> {
    /// Who of all profiles wants to hear of `event`.
    pub(super) fn of(profiles: &'p Profiles, event: &ClusterEvent) -> Self {
        let matching = |registered: &&Registered| registered.1.event.matches(event);
        let by_profile = profiles.iter().map(|profile| {
            (&*profile.scheduler_name, profile.events.iter().filter(matching).collect())
        });
        Self { by_profile: by_profile.collect() }
    }

    /// The plugins that do, of whatever profile.
    pub(super) fn plugins(&self) -> BTreeSet<&'p PluginName> {
        self.by_profile.values().flatten().map(|(plugin, _)| plugin).collect()
    }

    /// Those of the profile of `pod`.
    pub(super) fn for_pod(&self, pod: &QueuedPod) -> &[&'p Registered] {
        self.by_profile.get(&*pod.pod.spec.scheduler_name).map_or(&[], Vec::as_slice)
    }
}

/// What the plugins that rejected `pod` want to hear of.
pub(super) fn registered_by_rejectors<'p>(
    pod: &QueuedPod,
    profiles: &'p Profiles,
) -> Vec<&'p Registered> {
    let profile = profiles.get(&pod.pod.spec.scheduler_name);
    let registered = profile.into_iter().flat_map(|profile| &profile.events);
    registered.filter(|(plugin, _)| is_rejected_by(pod, plugin)).collect()
}

/// What `occurrence` means for `pod`. The hints asked are those of `registered` that match the
/// event and belong to a plugin which rejected the pod.
///
/// A Queue from a Pending plugin is the best there is; a Queue from another plugin settles it only
/// if no Pending plugin is left to ask. An error of a hint, or a panic, counts as Queue.
pub(super) fn strategy(
    pod: &QueuedPod,
    occurrence: &Occurrence,
    registered: &[&Registered],
    cx: &mut Cx<'_>,
) -> Strategy {
    if pod.has_no_rejector() {
        return Strategy::AfterBackoff;
    }
    if occurrence.event.is_wildcard() {
        return of_wildcard(pod, occurrence);
    }
    if cx.profiles.get(&pod.pod.spec.scheduler_name).is_none() {
        return Strategy::AfterBackoff;
    }
    let mut strategy = Strategy::Skip;
    for (plugin, registration) in registered {
        let pending = pod.pending_plugins.contains(plugin);
        let improves = pending || strategy == Strategy::Skip;
        let concerned =
            is_rejected_by(pod, plugin) && registration.event.matches(&occurrence.event);
        if !improves || !concerned || !may_help(pod, plugin, registration, occurrence, cx) {
            continue;
        }
        if pending {
            return Strategy::Immediately;
        }
        if pod.pending_plugins.is_empty() {
            return Strategy::AfterBackoff;
        }
        strategy = Strategy::AfterBackoff;
    }
    strategy
}

/// A wildcard with an object is meant for that pod alone.
fn of_wildcard(pod: &QueuedPod, occurrence: &Occurrence) -> Strategy {
    let meant = match &occurrence.objects {
        Objects::Pod(_, Some(new)) => new.uid == pod.pod.uid,
        Objects::Node(_, Some(_)) | Objects::Other(_, Some(_)) => false,
        Objects::Pod(_, None)
        | Objects::Node(_, None)
        | Objects::Other(_, None)
        | Objects::None => true,
    };
    if meant { Strategy::AfterBackoff } else { Strategy::Skip }
}

fn is_rejected_by(pod: &QueuedPod, plugin: &PluginName) -> bool {
    pod.unschedulable_plugins.contains(plugin) || pod.pending_plugins.contains(plugin)
}

/// Asks the hint of one registration; without one the answer is yes.
fn may_help(
    pod: &QueuedPod,
    plugin: &PluginName,
    registration: &EventRegistration,
    occurrence: &Occurrence,
    cx: &mut Cx<'_>,
) -> bool {
    let Some(hint) = &registration.hint else { return true };
    let cluster = cx.cluster;
    cx.probe.start(Span::Hint(plugin));
    let answer = guarded(plugin, cx.probe, || hint(&pod.pod, &occurrence.objects(), cluster));
    let (helps, code) = match answer {
        Ok(Ok(QueueingHint::Queue)) => (true, Code::Success),
        Ok(Ok(QueueingHint::Skip)) => (false, Code::Skip),
        Ok(Err(_)) | Err(_) => (true, Code::Error),
    };
    cx.probe.stop(Span::Hint(plugin), code);
    helps
}
