//! Queueing hints: whether an event may help a pod, and how urgently.

use std::collections::BTreeMap;

use framework::{ClusterEvent, Code, EventRegistration, PluginName, QueuedPod, QueueingHint};

use super::Context;
use super::unschedulable::Group;

use crate::object_event::{ObjectEvent, Objects};
use crate::plugin_call::catch_panic;
use crate::ports::Span;
use crate::profile::Profiles;

/// The effect of an event on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// The pod stays unschedulable.
    Skip,
    /// The pod may be tried again once its backoff is over.
    AfterBackoff,
    /// The pod may be tried again now: the event that a Pending plugin waited for has come.
    Immediately,
}

/// An event that a plugin registered for.
type Registered<'p> = (&'p PluginName, &'p EventRegistration);

/// The registrations for one event.
pub(super) struct Listeners<'p> {
    is_wildcard: bool,
    by_profile: BTreeMap<&'p str, BTreeMap<&'p PluginName, Vec<&'p EventRegistration>>>,
}

impl<'p> Listeners<'p> {
    /// The registrations for `event` in all profiles.
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
        Self { is_wildcard: event.is_wildcard(), by_profile }
    }

    /// Whether no pod in the queue can be helped: no plugin of any profile registered for the event.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_wildcard && self.by_profile.values().all(BTreeMap::is_empty)
    }

    /// The registrations whose hints decide about the pods of a group; `None` if the event cannot
    /// help any of them. A wildcard event is meant for all pods but the gated ones.
    pub(super) fn among_rejectors(&self, group: &Group) -> Option<Vec<Registered<'p>>> {
        let listens = |plugin| self.by_profile.values().any(|own| own.contains_key(plugin));
        let meant_for_all = self.is_wildcard && !group.is_gated();
        if !meant_for_all && !group.waits_for().iter().any(listens) {
            return None;
        }
        let Some(of_profile) = self.by_profile.get(group.scheduler_name()) else {
            return Some(Vec::new());
        };
        let listening = group.rejectors().iter().filter_map(|name| of_profile.get_key_value(name));
        let registered: Vec<_> = listening
            .flat_map(|(name, own)| own.iter().map(|registration| (*name, *registration)))
            .collect();
        (self.is_wildcard || !registered.is_empty()).then_some(registered)
    }
}

/// All registrations of the plugins that rejected `pod`.
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

/// Returns the effect of `event` on `pod`. Asks the hints of `registered` that match the event;
/// `registered` holds registrations of plugins that rejected the pod.
///
/// A Queue from a Pending plugin decides at once. A Queue from another plugin decides only if the pod
/// has no Pending plugin. An error of a hint, or a panic, counts as Queue.
pub(super) fn strategy<'p>(
    pod: &QueuedPod,
    event: &ObjectEvent,
    registered: impl IntoIterator<Item = Registered<'p>>,
    cx: &mut Context<'_>,
) -> Strategy {
    if pod.has_no_rejector() {
        return Strategy::AfterBackoff;
    }
    if event.event.is_wildcard() {
        return of_wildcard(pod, event);
    }
    if cx.profiles.get(&pod.pod.spec.scheduler_name).is_none() {
        return Strategy::AfterBackoff;
    }
    let mut strategy = Strategy::Skip;
    for (plugin, registration) in registered {
        let pending = pod.pending_plugins.contains(plugin);
        let improves = pending || strategy == Strategy::Skip;
        if !improves
            || !registration.event.matches(&event.event)
            || !may_help(pod, plugin, registration, event, cx)
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

/// A wildcard event with an object is meant for that pod alone.
fn of_wildcard(pod: &QueuedPod, event: &ObjectEvent) -> Strategy {
    let meant = match &event.objects {
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
    event: &ObjectEvent,
    cx: &mut Context<'_>,
) -> bool {
    let Some(hint) = &registration.hint else { return true };
    let handle = cx.handle;
    cx.probe.start(Span::Hint(plugin, &event.event));
    let answer = catch_panic(plugin, cx.probe, || hint(&pod.pod, &event.objects(), &handle));
    let (helps, code) = match answer {
        Ok(Ok(QueueingHint::Queue)) => (true, Code::Success),
        Ok(Ok(QueueingHint::Skip)) => (false, Code::Skip),
        Ok(Err(_)) | Err(_) => (true, Code::Error),
    };
    cx.probe.stop(Span::Hint(plugin, &event.event), code);
    helps
}
