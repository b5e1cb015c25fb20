//! Queueing hints: whether an event makes an entity worth requeueing (`isPodWorthRequeuing`).

use std::collections::BTreeMap;

use framework::{
    ClusterEvent, Code, EventForPod, EventRegistration, PluginName, QueuedEntity, QueueingHint,
};

use super::plugins::Plugins;
use super::unschedulable::WaitKey;
use crate::object_event::{ObjectEvent, Objects};
use crate::plugin_call::catch_panic;
use crate::ports::Span;
use crate::profile::Profiles;

/// How an event requeues an entity (`queueingStrategy`), the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueingStrategy {
    /// The entity stays unschedulable (`queueSkip`).
    Skip,
    /// The entity is retried once its backoff is over (`queueAfterBackoff`).
    AfterBackoff,
    /// The entity is retried at once: a plugin that answered Pending waited for this event
    /// (`queueImmediately`).
    Immediately,
}

/// Whether a plugin of any profile registered the event, so that it may help an entity.
pub(super) fn is_registered(profiles: &Profiles, event: &ClusterEvent) -> bool {
    let mut registered = profiles.iter().flat_map(|profile| &profile.events);
    event.is_wildcard() || registered.any(|(_, registration)| registration.event.matches(event))
}

/// A plugin and an event that it registered.
type Registered<'p> = (&'p PluginName, &'p EventRegistration);

/// The registrations that match one event, by profile and plugin.
pub(super) struct Registrations<'p> {
    is_wildcard: bool,
    by_profile: BTreeMap<&'p str, BTreeMap<&'p PluginName, Vec<&'p EventRegistration>>>,
}

impl<'p> Registrations<'p> {
    /// Returns the registrations for `event` in all profiles.
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

    /// Returns the registrations of the plugins that rejected entities, or `None` if the event
    /// cannot help any of them. A wildcard event concerns all that are not gated.
    pub(super) fn of_rejectors(&self, waiting: &WaitKey) -> Option<Vec<Registered<'p>>> {
        let is_registered = |plugin| self.by_profile.values().any(|own| own.contains_key(plugin));
        let concerns_all = self.is_wildcard && !waiting.is_gated();
        if !concerns_all && !waiting.waits_for().iter().any(is_registered) {
            return None;
        }
        let Some(of_profile) = self.by_profile.get(waiting.scheduler_name()) else {
            return Some(Vec::new());
        };
        let rejectors =
            waiting.rejectors().iter().filter_map(|name| of_profile.get_key_value(name));
        let registered: Vec<_> = rejectors
            .flat_map(|(name, own)| own.iter().map(|registration| (*name, *registration)))
            .collect();
        (self.is_wildcard || !registered.is_empty()).then_some(registered)
    }
}

/// Returns all registrations of the plugins that rejected an entity.
pub(super) fn registered_by_rejectors<'p>(
    entity: &QueuedEntity,
    profiles: &'p Profiles,
) -> Vec<Registered<'p>> {
    let profile = profiles.get(entity.scheduler_name());
    let registered = profile.into_iter().flat_map(|profile| &profile.events);
    let is_rejector = |plugin| entity.history().rejectors().any(|rejector| rejector == plugin);
    let of_rejector = registered.filter(|(plugin, _)| is_rejector(plugin));
    of_rejector.map(|(plugin, registration)| (plugin, registration)).collect()
}

/// Returns how `event` requeues an entity (`isPodWorthRequeuing`): as its pod that it helps most.
/// Evaluates the hints of those registrations in `registered` that match the event. They belong to
/// plugins that rejected the entity.
///
/// A hint of a plugin that answered Pending decides at once if it returns Queue. A Queue from
/// another plugin ends the evaluation only if no plugin answered Pending. A hint that fails or
/// panics counts as Queue.
pub(super) fn queueing_strategy<'p>(
    entity: &QueuedEntity,
    event: &ObjectEvent,
    registered: impl IntoIterator<Item = Registered<'p>>,
    plugins: &mut Plugins<'_>,
) -> QueueingStrategy {
    let history = entity.history();
    if history.has_no_rejector() {
        return QueueingStrategy::AfterBackoff;
    }
    if event.event.is_wildcard() {
        return of_wildcard(entity, event);
    }
    if plugins.profiles.get(entity.scheduler_name()).is_none() {
        return QueueingStrategy::AfterBackoff;
    }
    let mut strategy = QueueingStrategy::Skip;
    for (plugin, registration) in registered {
        let pending = history.pending_plugins.contains(plugin);
        let improves = pending || strategy == QueueingStrategy::Skip;
        if !improves
            || !registration.event.matches(&event.event)
            || !evaluate_hint(entity, plugin, registration, event, plugins)
        {
            continue;
        }
        if pending {
            return QueueingStrategy::Immediately;
        }
        if history.pending_plugins.is_empty() {
            return QueueingStrategy::AfterBackoff;
        }
        strategy = QueueingStrategy::AfterBackoff;
    }
    strategy
}

/// Returns how a wildcard event requeues an entity. An event with an object concerns only that pod.
fn of_wildcard(entity: &QueuedEntity, event: &ObjectEvent) -> QueueingStrategy {
    let concerns_entity = match &event.objects {
        Objects::Pod(_, Some(new)) => entity.pods().iter().any(|queued| queued.pod.uid == new.uid),
        Objects::Node(_, Some(_)) | Objects::Other(_, Some(_)) => false,
        Objects::Pod(_, None)
        | Objects::Node(_, None)
        | Objects::Other(_, None)
        | Objects::None => true,
    };
    if concerns_entity { QueueingStrategy::AfterBackoff } else { QueueingStrategy::Skip }
}

/// Evaluates the hint of one registration for each pod. Returns true if it helps one of them, or if
/// there is no hint.
fn evaluate_hint(
    entity: &QueuedEntity,
    plugin: &PluginName,
    registration: &EventRegistration,
    event: &ObjectEvent,
    plugins: &mut Plugins<'_>,
) -> bool {
    let Some(hint) = &registration.hint else { return true };
    entity.pods().iter().any(|queued| {
        let handle = plugins.handle;
        plugins.probe.start(Span::Hint(plugin, &event.event));
        let about = EventForPod::new(&queued.pod, event.objects(), &handle);
        let answer = catch_panic(plugin, plugins.probe, || hint(about));
        let (helps, code) = match answer {
            Ok(Ok(QueueingHint::Queue)) => (true, Code::Success),
            Ok(Ok(QueueingHint::Skip)) => (false, Code::Skip),
            Ok(Err(_)) | Err(_) => (true, Code::Error),
        };
        plugins.probe.stop(Span::Hint(plugin, &event.event), code);
        helps
    })
}
