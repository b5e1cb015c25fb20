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

/// An event a plugin wants to hear of.
type Registered<'p> = (&'p PluginName, &'p EventRegistration);

/// Who wants to hear of one event.
pub(super) struct Listeners<'p> {
    by_profile: BTreeMap<&'p str, BTreeMap<&'p PluginName, Vec<&'p EventRegistration>>>,
}

impl<'p> Listeners<'p> {
    /// Who of all profiles wants to hear of `event`.
    pub(super) fn of(profiles: &'p Profiles, event: &ClusterEvent) -> Self {
        let mut by_profile = BTreeMap::new();
        for profile in profiles.iter() {
            let of_profile: &mut BTreeMap<_, Vec<_>> =
                by_profile.entry(&*profile.scheduler_name).or_default();
            for (plugin, registration) in &profile.events {
                if registration.event.matches(event) {
                    of_profile.entry(plugin).or_default().push(registration);
                }
            }
        }
        Self { by_profile }
    }

    /// The plugins that do, of whatever profile.
    pub(super) fn plugins(&self) -> BTreeSet<&'p PluginName> {
        self.by_profile.values().flat_map(BTreeMap::keys).copied().collect()
    }

    /// Those of the profile of `pod` that rejected it.
    pub(super) fn among_rejectors(&self, pod: &QueuedPod) -> impl Iterator<Item = Registered<'p>> {
        let of_profile = self.by_profile.get(&*pod.pod.spec.scheduler_name);
        let listening = rejectors(pod).filter_map(move |name| of_profile?.get_key_value(name));
        listening.flat_map(|(name, own)| own.iter().map(|registration| (*name, *registration)))
    }
}

/// All that the plugins which rejected `pod` want to hear of.
pub(super) fn registered_by_rejectors<'p>(
    pod: &QueuedPod,
    profiles: &'p Profiles,
) -> Vec<Registered<'p>> {
    let profile = profiles.get(&pod.pod.spec.scheduler_name);
    let registered = profile.into_iter().flat_map(|profile| &profile.events);
    let of_rejector =
        registered.filter(|(plugin, _)| rejectors(pod).any(|rejector| rejector == plugin));
    of_rejector.map(|(plugin, registration)| (plugin, registration)).collect()
}

/// The plugins that rejected a pod, by name.
pub(super) fn rejectors(pod: &QueuedPod) -> impl Iterator<Item = &PluginName> {
    pod.unschedulable_plugins.union(&pod.pending_plugins)
}

/// What `occurrence` means for `pod`. The hints asked are those of `registered`, which stem from
/// plugins that rejected the pod, as far as they match the event.
///
/// A Queue from a Pending plugin is the best there is; a Queue from another plugin settles it only
/// if no Pending plugin is left to ask. An error of a hint, or a panic, counts as Queue.
pub(super) fn strategy<'p>(
    pod: &QueuedPod,
    occurrence: &Occurrence,
    registered: impl IntoIterator<Item = Registered<'p>>,
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
        if !improves
            || !registration.event.matches(&occurrence.event)
            || !may_help(pod, plugin, registration, occurrence, cx)
        {
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
    cx.probe.start(Span::Hint(plugin, &occurrence.event));
    let answer = guarded(plugin, cx.probe, || hint(&pod.pod, &occurrence.objects(), cluster));
    let (helps, code) = match answer {
        Ok(Ok(QueueingHint::Queue)) => (true, Code::Success),
        Ok(Ok(QueueingHint::Skip)) => (false, Code::Skip),
        Ok(Err(_)) | Err(_) => (true, Code::Error),
    };
    cx.probe.stop(Span::Hint(plugin, &occurrence.event), code);
    helps
}
